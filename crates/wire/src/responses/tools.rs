//! Translation of all kinds of tools to functions, and of function calls back to items of the request's tools.
//!
//! A function in a namespace is called `namespace__name`. A custom tool, whose input is text, is a function with one
//! parameter. `local_shell` is a function with the parameters that the API defines. Tools that a server would run
//! itself are left out.

use serde_json::{Map, Value, json};

use crate::error::Fault;
use crate::fields::{Fields, said};
use crate::limits;
use crate::warnings::Warnings;

/// Name of the function for a tool of type `local_shell`.
const LOCAL_SHELL: &str = "local_shell";

/// The request's tools, by the functions that the model may call.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Tools(Vec<Tool>);

#[derive(Debug, Clone, PartialEq)]
struct Tool {
    /// Name of the function in the prompt.
    function: String,
    namespace: Option<String>,
    name: String,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Function,
    Custom,
    LocalShell,
}

impl Tools {
    /// The tools of a validated request, from its `tools` field.
    pub fn of_request(tools: &Value) -> Tools {
        let (mut known, mut functions) = (Tools::default(), Vec::new());
        for tool in tools.as_array().into_iter().flatten() {
            // The field was validated before, so there are no errors.
            if let Ok(tool) = Fields::at(tool, "tools".into()) {
                let _ = add_tool(&tool, None, &mut known, &mut functions, &mut Warnings::default());
            }
        }
        known
    }

    /// The item type of a call of this function, and the prefix of the item's id.
    pub fn item_type(&self, function: &str) -> (&'static str, &'static str) {
        match self.find(function).map(|tool| tool.kind) {
            Some(Kind::Custom) => ("custom_tool_call", "ctc"),
            Some(Kind::LocalShell) => ("local_shell_call", "lsh"),
            Some(Kind::Function) | None => ("function_call", "fc"),
        }
    }

    /// The item for a call, without `id` and `status`.
    pub fn item(&self, function: &str, call_id: &str, arguments: &str) -> Value {
        let mut item = json!({"type": self.item_type(function).0, "call_id": call_id});
        let tool = self.find(function);
        match tool.map(|tool| tool.kind) {
            Some(Kind::LocalShell) => item["action"] = action(arguments),
            Some(Kind::Custom) => item["input"] = custom_input(arguments).into(),
            Some(Kind::Function) | None => item["arguments"] = arguments.into(),
        }
        if tool.is_none_or(|tool| tool.kind != Kind::LocalShell) {
            item["name"] = tool.map_or(function, |tool| &tool.name).into();
        }
        if let Some(namespace) = tool.and_then(|tool| tool.namespace.as_ref()) {
            item["namespace"] = namespace.as_str().into();
        }
        item
    }

    fn find(&self, function: &str) -> Option<&Tool> {
        self.0.iter().find(|tool| tool.function == function)
    }

    /// The function name for a call in the conversation.
    pub(super) fn function(&self, namespace: Option<&str>, name: &str) -> String {
        let is = |tool: &&Tool| tool.name == name && tool.namespace.as_deref() == namespace;
        let known = self.0.iter().find(is).map(|tool| tool.function.clone());
        known.unwrap_or_else(|| flat(namespace, name))
    }

    /// Adds a tool and returns its function name, which no other function has.
    fn add(&mut self, namespace: Option<&str>, name: &str, kind: Kind) -> String {
        let mut function = flat(namespace, name);
        while namespace.is_some() && self.find(&function).is_some() {
            function.push('_');
        }
        let namespace = namespace.map(str::to_owned);
        self.0.push(Tool { function: function.clone(), namespace, name: name.to_owned(), kind });
        function
    }
}

fn flat(namespace: Option<&str>, name: &str) -> String {
    match namespace {
        None => name.to_owned(),
        Some(namespace) if namespace.ends_with("__") => format!("{namespace}{name}"),
        Some(namespace) => format!("{namespace}__{name}"),
    }
}

/// The input of a custom tool from the function's arguments; malformed arguments are the input unchanged.
fn custom_input(arguments: &str) -> String {
    let Ok(Value::Object(parsed)) = serde_json::from_str(arguments) else { return arguments.to_owned() };
    let only = parsed.values().next().filter(|_| parsed.len() == 1);
    let text = parsed.get("input").or(only).and_then(Value::as_str);
    text.unwrap_or(arguments).to_owned()
}

/// The action of a `local_shell` call. A command given as one string is run by `bash -lc`.
fn action(arguments: &str) -> Value {
    let given: Value = serde_json::from_str(arguments).unwrap_or_default();
    let command = match &given["command"] {
        Value::String(line) => json!(["bash", "-lc", line]),
        list @ Value::Array(_) => list.clone(),
        _ => json!([]),
    };
    let mut action = json!({"type": "exec", "command": command, "env": {}});
    for (ours, theirs) in [("workdir", "working_directory"), ("timeout_ms", "timeout_ms")] {
        if let Some(value) = given.get(ours) {
            action[theirs] = value.clone();
        }
    }
    action
}

/// The arguments of a call of [`LOCAL_SHELL`] for an action.
pub(super) fn shell_arguments(action: &Value) -> String {
    let mut arguments = json!({"command": action["command"]});
    for (ours, theirs) in [("workdir", "working_directory"), ("timeout_ms", "timeout_ms")] {
        if let Some(value) = action.get(theirs).filter(|value| !value.is_null()) {
            arguments[ours] = value.clone();
        }
    }
    arguments.to_string()
}

/// Adds `tools` and `tool_choice` to the chat request.
pub(super) fn add(
    fields: &Fields<'_>,
    chat: &mut Map<String, Value>,
    warnings: &mut Warnings,
) -> Result<Tools, Fault> {
    let mut tools = Tools::default();
    let mut functions = Vec::new();
    for (i, tool) in fields.list("tools", limits::TOOLS)?.unwrap_or_default().iter().enumerate() {
        let tool = Fields::at(tool, format!("tools[{i}]"))?;
        add_tool(&tool, None, &mut tools, &mut functions, warnings)?;
    }
    if functions.len() > limits::TOOLS {
        let message = format!(
            "tools and the namespaces among them have {} functions; at most {} are allowed",
            functions.len(),
            limits::TOOLS
        );
        return Err(Fault::field("tools", message));
    }
    match fields.get("tool_choice") {
        None => {}
        Some(word @ Value::String(_)) => _ = chat.insert("tool_choice".into(), word.clone()),
        Some(choice) => {
            let choice = Fields::at(choice, "tool_choice".into())?;
            let said = choose(&choice, &tools, &mut functions)?;
            chat.insert("tool_choice".into(), said);
        }
    }
    if !functions.is_empty() {
        chat.insert("tools".into(), functions.into());
    }
    Ok(tools)
}

fn add_tool(
    tool: &Fields<'_>,
    namespace: Option<&str>,
    tools: &mut Tools,
    functions: &mut Vec<Value>,
    warnings: &mut Warnings,
) -> Result<(), Fault> {
    let at = tool.param("type");
    let kind = tool.text("type", limits::NAME_BYTES)?.ok_or_else(|| Fault::missing(at))?;
    let named = || -> Result<&str, Fault> {
        match tool.text("name", limits::NAME_BYTES)? {
            Some("") => Err(Fault::field(tool.param("name"), format!("{} is empty", tool.param("name")))),
            Some(name) => Ok(name),
            None => Err(Fault::missing(tool.param("name"))),
        }
    };
    let described = |function: Value| json!({"type": "function", "function": function});
    match (kind, namespace) {
        ("function", _) => {
            let mut function = json!({"name": tools.add(namespace, named()?, Kind::Function)});
            for known in ["description", "parameters", "strict"] {
                if let Some(value) = tool.get(known) {
                    function[known] = value.clone();
                }
            }
            functions.push(described(function));
        }
        ("custom", _) => {
            let name = named()?;
            let mut function = custom(tool, name, warnings)?;
            function["name"] = tools.add(namespace, name, Kind::Custom).into();
            functions.push(described(function));
        }
        ("local_shell", None) => {
            let name = tools.add(None, LOCAL_SHELL, Kind::LocalShell);
            let parameters = json!({
                "type": "object",
                "properties": {
                    "command": {"type": "array", "items": {"type": "string"}},
                    "workdir": {"type": "string"},
                    "timeout_ms": {"type": "integer"},
                },
                "required": ["command"],
            });
            let description = "Runs a command on the user's machine, and returns what it prints.";
            functions
                .push(described(json!({"name": name, "description": description, "parameters": parameters})));
        }
        ("namespace", None) => {
            let namespace = named()?;
            for (i, inner) in tool.list("tools", limits::TOOLS)?.unwrap_or_default().iter().enumerate() {
                let inner = Fields::at(inner, format!("{}[{i}]", tool.param("tools")))?;
                add_tool(&inner, Some(namespace), tools, functions, warnings)?;
            }
        }
        (kind, _) => {
            let shown = said(Some(kind));
            warnings.add(format!("tools of type {shown} are left out: this server runs no tools itself"));
        }
    }
    Ok(())
}

/// The function for a custom tool, with one text parameter. A regular expression becomes part of the schema, a grammar
/// part of the description.
fn custom(tool: &Fields<'_>, name: &str, warnings: &mut Warnings) -> Result<Value, Fault> {
    let mut description = tool.text("description", usize::MAX)?.unwrap_or_default().to_owned();
    let mut input = json!({"type": "string", "description": "The whole input of the tool, as plain text."});
    if let Some(format) = tool.get("format") {
        let format = Fields::at(format, tool.param("format"))?;
        if format.text("type", limits::NAME_BYTES)? == Some("grammar") {
            let definition = format.text("definition", limits::GRAMMAR_BYTES)?;
            let definition = definition.ok_or_else(|| Fault::missing(format.param("definition")))?;
            let syntax = format.text("syntax", limits::NAME_BYTES)?.unwrap_or("lark");
            description.push_str(&format!("\n\nThe input follows this grammar ({syntax}):\n{definition}"));
            if syntax == "regex" {
                input["pattern"] = format!("^(?:{definition})$").into();
            } else {
                let shown = said(Some(name));
                warnings.add(format!(
                    "the grammar of tool {shown} is told to the model, and its input is not held to it"
                ));
            }
        }
    }
    let parameters = json!({
        "type": "object", "properties": {"input": input}, "required": ["input"], "additionalProperties": false,
    });
    Ok(json!({"description": description, "parameters": parameters}))
}

/// Translates a `tool_choice` object. `allowed_tools` removes all other functions.
fn choose(choice: &Fields<'_>, tools: &Tools, functions: &mut Vec<Value>) -> Result<Value, Fault> {
    let kind = choice.text("type", limits::NAME_BYTES)?.unwrap_or("function");
    let named = |choice: &Fields<'_>| -> Result<String, Fault> {
        let name = match choice.text("type", limits::NAME_BYTES)? {
            Some("local_shell") => LOCAL_SHELL,
            _ => choice
                .text("name", limits::NAME_BYTES)?
                .ok_or_else(|| Fault::missing(choice.param("name")))?,
        };
        Ok(tools.function(choice.text("namespace", limits::NAME_BYTES)?, name))
    };
    match kind {
        "function" | "custom" | "local_shell" => {
            Ok(json!({"type": "function", "function": {"name": named(choice)?}}))
        }
        "allowed_tools" => {
            let mut allowed = Vec::new();
            for (i, tool) in choice.list("tools", limits::TOOLS)?.unwrap_or_default().iter().enumerate() {
                let tool = Fields::at(tool, format!("tool_choice.tools[{i}]"))?;
                if matches!(
                    tool.text("type", limits::NAME_BYTES)?,
                    Some("function" | "custom" | "local_shell")
                ) {
                    allowed.push(named(&tool)?);
                }
            }
            functions.retain(|tool| allowed.iter().any(|name| tool["function"]["name"] == name.as_str()));
            let mode = choice.text("mode", limits::NAME_BYTES)?.unwrap_or("auto");
            // Without allowed tools, no tool is called.
            Ok(if functions.is_empty() && mode == "auto" { json!("none") } else { json!(mode) })
        }
        hosted => {
            let shown = said(Some(hosted));
            let message = format!("tool_choice.type is {shown}: this server runs no tools itself");
            Err(Fault::unsupported("tool_choice.type", message))
        }
    }
}
