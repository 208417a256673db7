use serde_json::{Value, json};

use super::Schema;

fn written(schema: Value) -> Result<super::SchemaGrammar, String> {
    super::write(&Schema::from(schema), "j")
}

#[test]
fn a_simple_schema_is_written() {
    let written = written(json!({"type": "object", "properties": {"a": {"type": "string"}}})).expect("rules");
    assert!(written.rules.contains("jn0:"), "{}", written.rules);
}
