//! Texts with places for the values of columns.

use crate::fault::{Fault, listed, shortened};
use crate::input::row::{Row, as_text};

/// A text with places, such as `Translate: {text}`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Template(Vec<Part>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(String),
    Column(String),
}

impl Template {
    /// Reads a template: `{name}` is the value of a column, `{{` and `}}` are braces.
    pub(crate) fn parse(source: &str) -> Result<Template, String> {
        let (mut parts, mut text, mut rest) = (Vec::new(), String::new(), source);
        while let Some(at) = rest.find(['{', '}']) {
            text.push_str(&rest[..at]);
            let (brace, behind) = rest[at..].split_at(1);
            rest = match behind.strip_prefix(brace) {
                Some(behind) => {
                    text.push_str(brace);
                    behind
                }
                None if brace == "{" => {
                    let unclosed =
                        || format!("the template has a {{ without }}: {:?}", shortened(&rest[at..]));
                    let (name, behind) = behind.split_once('}').ok_or_else(unclosed)?;
                    parts.push(Part::Text(std::mem::take(&mut text)));
                    parts.push(Part::Column(name.trim().to_owned()));
                    behind
                }
                None => return Err("the template has a } without {; }} is a brace".to_owned()),
            };
        }
        text.push_str(rest);
        parts.push(Part::Text(text));
        parts.retain(|part| *part != Part::Text(String::new()));
        Ok(Template(parts))
    }

    /// A template that is the value of one column.
    pub(crate) fn column(name: &str) -> Template {
        Template(vec![Part::Column(name.to_owned())])
    }

    /// The names of the columns in it.
    pub(crate) fn columns(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|part| match part {
            Part::Column(name) => Some(name.as_str()),
            Part::Text(_) => None,
        })
    }

    /// The text for a row.
    pub(crate) fn render(&self, row: &Row) -> Result<String, Fault> {
        let mut text = String::new();
        for part in &self.0 {
            match part {
                Part::Text(fixed) => text.push_str(fixed),
                Part::Column(name) => {
                    text.push_str(&as_text(row.get(name).ok_or_else(|| missing(name, row))?))
                }
            }
        }
        Ok(text)
    }
}

fn missing(name: &str, row: &Row) -> Fault {
    let has = listed(row.keys().map(String::as_str));
    Fault::new("missing_column", format!("there is no column {:?}; the row has: {has}", shortened(name)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn render(source: &str) -> Result<String, Fault> {
        let row = json!({"a": "x{y}", "b c": 2, "n": null});
        Template::parse(source).unwrap().render(row.as_object().unwrap())
    }

    #[test]
    fn places_are_filled_and_doubled_braces_are_braces() {
        assert_eq!(render("<{a}|{b c}|{ n }> {{a}} }}").unwrap(), "<x{y}|2|> {a} }");
        assert_eq!(render("").unwrap(), "");
    }

    #[test]
    fn a_missing_column_is_told_with_those_that_exist() {
        let message = render("{z}").unwrap_err().message;
        assert_eq!(message, "there is no column \"z\"; the row has: a, b c, n");
    }

    #[test]
    fn braces_come_in_pairs() {
        assert!(Template::parse("a {b").unwrap_err().contains("{b"));
        assert!(Template::parse("a } b").is_err());
    }
}
