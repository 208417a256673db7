//! JSON in one form: names sorted by code point, no white space, strings with the fewest escapes, numbers as written.

use serde::de::IgnoredAny;

/// Deeper JSON has no canonical form here.
const MAX_DEPTH: usize = 128;

/// A value of JSON. Numbers, `true`, `false` and `null` are kept as they are written.
enum Node<'a> {
    Word(&'a str),
    Text(String),
    Array(Vec<Node<'a>>),
    Object(Vec<(String, Node<'a>)>),
}

/// The canonical form of JSON; none if the bytes are no JSON, or are nested deeper than 128. Of two members with one name
/// the last one counts, as for most readers.
pub fn canonical_json(bytes: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(bytes).ok()?;
    serde_json::from_str::<IgnoredAny>(text).ok()?;
    let node = Reader { text, at: 0 }.node(0)?;
    let mut canonical = String::with_capacity(text.len());
    write(&node, &mut canonical);
    Some(canonical)
}

/// Reads text that is known to be JSON.
struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    fn node(&mut self, depth: usize) -> Option<Node<'a>> {
        if depth > MAX_DEPTH {
            return None;
        }
        match self.next_token()? {
            b'"' => self.string().map(Node::Text),
            b'[' => self.array(depth),
            b'{' => self.object(depth),
            _ => Some(Node::Word(self.word())),
        }
    }

    fn array(&mut self, depth: usize) -> Option<Node<'a>> {
        self.at += 1;
        let mut values = Vec::new();
        while self.next_token()? != b']' {
            values.push(self.node(depth + 1)?);
            self.skip_comma()?;
        }
        self.at += 1;
        Some(Node::Array(values))
    }

    fn object(&mut self, depth: usize) -> Option<Node<'a>> {
        self.at += 1;
        let mut members = Vec::new();
        while self.next_token()? != b'}' {
            let name = self.string()?;
            // The colon.
            self.next_token()?;
            self.at += 1;
            members.push((name, self.node(depth + 1)?));
            self.skip_comma()?;
        }
        self.at += 1;
        Some(Node::Object(sorted(members)))
    }

    /// The next byte that is no white space.
    fn next_token(&mut self) -> Option<u8> {
        let bytes = self.text.as_bytes();
        while bytes.get(self.at)?.is_ascii_whitespace() {
            self.at += 1;
        }
        bytes.get(self.at).copied()
    }

    fn skip_comma(&mut self) -> Option<()> {
        if self.next_token()? == b',' {
            self.at += 1;
        }
        Some(())
    }

    fn string(&mut self) -> Option<String> {
        let rest = &self.text[self.at..];
        let mut escaped = false;
        let inner = rest.bytes().skip(1).position(|byte| {
            let ends = byte == b'"' && !escaped;
            escaped = byte == b'\\' && !escaped;
            ends
        })?;
        let quoted = &rest[..inner + 2];
        self.at += quoted.len();
        // A lone surrogate is no string here, though the check of the whole let it pass.
        serde_json::from_str(quoted).ok()
    }

    fn word(&mut self) -> &'a str {
        let rest = &self.text[self.at..];
        let end = rest.find([',', ']', '}', ' ', '\t', '\r', '\n']).unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }
}

/// Members by name; of several with one name, the last.
fn sorted(mut members: Vec<(String, Node<'_>)>) -> Vec<(String, Node<'_>)> {
    members.reverse();
    members.sort_by(|a, b| a.0.cmp(&b.0));
    members.dedup_by(|later, first| later.0 == first.0);
    members
}

fn write(node: &Node<'_>, to: &mut String) {
    match node {
        Node::Word(word) => to.push_str(word),
        Node::Text(text) => write_string(text, to),
        Node::Array(values) => {
            to.push('[');
            for (place, value) in values.iter().enumerate() {
                separate(place, to);
                write(value, to);
            }
            to.push(']');
        }
        Node::Object(members) => {
            to.push('{');
            for (place, (name, value)) in members.iter().enumerate() {
                separate(place, to);
                write_string(name, to);
                to.push(':');
                write(value, to);
            }
            to.push('}');
        }
    }
}

fn separate(place: usize, to: &mut String) {
    if place > 0 {
        to.push(',');
    }
}

fn write_string(text: &str, to: &mut String) {
    to.push_str(&serde_json::Value::from(text).to_string());
}

#[cfg(test)]
#[path = "canonical_tests.rs"]
mod tests;
