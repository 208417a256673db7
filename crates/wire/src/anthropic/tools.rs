//! Translation of `tools` and `tool_choice`.

use serde_json::{Map, Value, json};

use crate::error::Fault;
use crate::fields::{Fields, said};
use crate::limits;
use crate::warnings::Warnings;

/// Adds `tools` and `tool_choice` to the chat request.
pub(super) fn add(
    fields: &Fields<'_>,
    chat: &mut Map<String, Value>,
    warnings: &mut Warnings,
) -> Result<(), Fault> {
    // Names and types of the ignored tools.
    let mut absent: Vec<(&str, &str)> = Vec::new();
    if let Some(tools) = fields.list("tools", limits::TOOLS)? {
        let mut functions = Vec::with_capacity(tools.len());
        for (i, tool) in tools.iter().enumerate() {
            let tool = Fields::at(tool, format!("tools[{i}]"))?;
            match function(&tool)? {
                Found::Function(function) => functions.push(function),
                Found::Hosted { name, kind } => absent.push((name, kind)),
            }
        }
        for (_, kind) in &absent {
            let shown = said(Some(kind));
            warnings.add(format!("tools of type {shown} are left out: this server runs no tools itself"));
        }
        chat.insert("tools".into(), functions.into());
    }
    let Some(choice) = fields.get("tool_choice") else { return Ok(()) };
    let choice = Fields::at(choice, "tool_choice".into())?;
    chat.insert("tool_choice".into(), chosen(&choice, &absent)?);
    if choice.boolean("disable_parallel_tool_use")?.unwrap_or(false) {
        chat.insert("parallel_tool_calls".into(), false.into());
    }
    Ok(())
}

/// A tool of the request.
enum Found<'a> {
    /// A function that the client runs, in the format of chat requests.
    Function(Value),
    /// A tool that the server would have to run.
    Hosted { name: &'a str, kind: &'a str },
}

fn function<'a>(tool: &Fields<'a>) -> Result<Found<'a>, Fault> {
    let kind = tool.text("type", limits::NAME_BYTES)?.unwrap_or("custom");
    let name = tool.text("name", limits::NAME_BYTES)?;
    let schema = tool.object("input_schema", usize::MAX)?.cloned().map(Value::Object);
    let known = if schema.is_some() { None } else { of_the_api(kind) };
    let (description, schema) = match (schema, known) {
        (Some(schema), _) => (tool.text("description", usize::MAX)?.unwrap_or_default(), schema),
        (None, Some(known)) => known,
        (None, None) if kind == "custom" => {
            name.ok_or_else(|| Fault::missing(tool.param("name")))?;
            return Err(Fault::missing(tool.param("input_schema")));
        }
        // Toolsets have no name.
        (None, None) => return Ok(Found::Hosted { name: name.unwrap_or_default(), kind }),
    };
    let name = name.ok_or_else(|| Fault::missing(tool.param("name")))?;
    let mut function = json!({"name": name, "description": description, "parameters": schema});
    if let Some(strict) = tool.boolean("strict")? {
        function["strict"] = strict.into();
    }
    Ok(Found::Function(json!({"type": "function", "function": function})))
}

/// Description and parameters of a client tool that the API defines, by the prefix of its type.
fn of_the_api(kind: &str) -> Option<(&'static str, Value)> {
    let text = || json!({"type": "string"});
    let commands = |names: &[&str]| json!({"type": "string", "enum": names});
    if kind.starts_with("bash_") {
        let properties = json!({"command": text(), "restart": {"type": "boolean"}});
        return Some((
            "Runs a command in a bash session that lasts.",
            json!({"type": "object", "properties": properties}),
        ));
    }
    if kind.starts_with("text_editor_") {
        let properties = json!({
            "command": commands(&["view", "create", "str_replace", "insert"]), "path": text(),
            "file_text": text(), "old_str": text(), "new_str": text(), "insert_line": {"type": "integer"},
            "insert_text": text(), "view_range": {"type": "array", "items": {"type": "integer"}},
        });
        let schema = json!({"type": "object", "properties": properties, "required": ["command", "path"]});
        return Some(("Views, creates and edits files.", schema));
    }
    if kind.starts_with("memory_") {
        let properties = json!({
            "command": commands(&["view", "create", "str_replace", "insert", "delete", "rename"]),
            "path": text(), "file_text": text(), "old_str": text(), "new_str": text(),
            "insert_line": {"type": "integer"}, "insert_text": text(), "old_path": text(), "new_path": text(),
            "view_range": {"type": "array", "items": {"type": "integer"}},
        });
        let schema = json!({"type": "object", "properties": properties, "required": ["command"]});
        return Some(("Keeps notes in files under /memories.", schema));
    }
    None
}

/// `tool_choice` in the format of chat requests.
fn chosen(choice: &Fields<'_>, absent: &[(&str, &str)]) -> Result<Value, Fault> {
    let at = choice.param("type");
    Ok(match choice.text("type", limits::NAME_BYTES)? {
        Some("auto") => json!("auto"),
        Some("none") => json!("none"),
        Some("any") => json!("required"),
        Some("tool") => {
            let name = choice.text("name", limits::NAME_BYTES)?;
            let name = name.ok_or_else(|| Fault::missing(choice.param("name")))?;
            if let Some((_, kind)) = absent.iter().find(|(absent, _)| *absent == name) {
                let at = choice.param("name");
                let (name, kind) = (said(Some(name)), said(Some(kind)));
                let message =
                    format!("{at} is {name}, a tool of type {kind}: this server runs no tools itself");
                return Err(Fault::unsupported(at, message));
            }
            json!({"type": "function", "function": {"name": name}})
        }
        Some(other) => {
            let shown = said(Some(other));
            let message = format!("{at} is {shown}; it must be \"auto\", \"any\", \"tool\" or \"none\"");
            return Err(Fault::field(at, message));
        }
        None => return Err(Fault::missing(at)),
    })
}
