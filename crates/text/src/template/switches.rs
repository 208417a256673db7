//! The switch for reasoning under the name that a template gives it.

use std::borrow::Cow;

use serde_json::{Map, Value};

const USUAL: &str = "enable_thinking";
const OTHER: &str = "thinking";

/// Variables with the switch under the template's own name: DeepSeek V3.1 and Granite 3 call it `thinking`.
pub(super) fn named<'a>(source: &str, extra: &'a Map<String, Value>) -> Cow<'a, Map<String, Value>> {
    let on = extra.get(USUAL).filter(|on| on.is_boolean() && !extra.contains_key(OTHER));
    let asks = ["if thinking", "not thinking", "thinking is defined", "and thinking"];
    match on.filter(|_| !source.contains(USUAL) && asks.iter().any(|asks| source.contains(asks))) {
        Some(on) => {
            let mut extra = extra.clone();
            extra.insert(OTHER.into(), on.clone());
            Cow::Owned(extra)
        }
        None => Cow::Borrowed(extra),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::named;

    #[test]
    fn a_template_gets_the_switch_by_its_own_name() {
        let on = json!({"enable_thinking": true}).as_object().cloned().expect("an object");
        assert_eq!(named("{% if thinking %}", &on).get("thinking"), Some(&json!(true)));
        assert_eq!(named("{% if enable_thinking %}{% if thinking %}", &on).get("thinking"), None);
        assert_eq!(named("{{ message.thinking }}", &on).get("thinking"), None);
        let off =
            json!({"enable_thinking": true, "thinking": false}).as_object().cloned().expect("an object");
        assert_eq!(named("{% if thinking %}", &off).get("thinking"), Some(&json!(false)));
    }
}
