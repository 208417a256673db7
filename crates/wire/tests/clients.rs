//! Requests in the shapes that agents send with their default flags (recorded by `tools/clients/record.py`, without the words):
//! all of it is honoured, flattened, or left out with a warning.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use serde_json::{Value, json};
use wire::message::{ToolChoice, tool_names};
use wire::{Fault, ResponsesRequest, anthropic};

fn claude_code() -> Value {
    serde_json::from_str(include_str!("fixtures/claude_code.json")).unwrap()
}

fn codex() -> Value {
    serde_json::from_str(include_str!("fixtures/codex.json")).unwrap()
}

fn responses(body: &Value) -> Result<ResponsesRequest, Fault> {
    ResponsesRequest::parse(body.to_string().as_bytes())
}

#[test]
fn fault_08_a_system_message_in_the_middle_is_honoured() {
    let request = anthropic::read(&claude_code(), false).unwrap();
    let roles: Vec<&str> = request.messages.iter().map(|m| m["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["system", "user", "system"]);
    assert_eq!(request.messages[2]["content"], "(6062 characters of content)");
    // The provider's accounts are none of the model's business, and would spoil the prefix.
    assert_eq!(request.messages[0]["content"], "(62 characters of text)\n(5855 characters of text)");
    assert_eq!(request.template_arguments["enable_thinking"], true);
    assert_eq!(request.template_arguments["reasoning_effort"], "high");
    assert_eq!(request.warnings, Vec::<String>::new());
    assert_eq!((request.max_tokens, request.stream.on), (Some(32_000), true));
    assert!(tool_names(request.tools.as_deref().unwrap()).any(|name| name == "Bash"));
    assert!(anthropic::read(&claude_code(), true).is_ok());
}

#[test]
fn fault_08_what_another_server_runs_is_left_out_with_a_warning() {
    let mut body = claude_code();
    let tools = body["tools"].as_array_mut().unwrap();
    tools.push(json!({"type": "web_search_20250305", "name": "web_search", "max_uses": 8}));
    tools.push(json!({"type": "bash_20250124", "name": "bash"}));
    body["context_management"]["edits"][0] = json!({"type": "clear_tool_uses_20250919"});
    body["mcp_servers"] = json!([{"type": "url", "name": "x", "url": "http://x"}]);
    body["messages"] = json!([
        {"role": "user", "content": [{"type": "document", "title": "T", "source": {"type": "text", "data": "D"}}]},
        {"role": "assistant", "content": [
            {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}},
            {"type": "web_search_tool_result", "tool_use_id": "s", "content": []},
            {"type": "tool_use", "id": "t", "name": "Read", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "is_error": true, "content": [
            {"type": "text", "text": "see"}, {"type": "image", "source": {}}]}]},
    ]);
    let request = anthropic::read(&body, false).unwrap();
    assert_eq!(request.messages[1]["content"], "T\nD");
    assert_eq!(request.messages[2]["tool_calls"][0]["function"]["name"], "Read");
    assert_eq!(request.messages[3]["content"], "Error: see\n[image left out: this model reads text only]");
    let names: Vec<&str> = tool_names(request.tools.as_deref().unwrap()).collect();
    assert!(names.contains(&"bash") && !names.contains(&"web_search"), "{names:?}");
    let all = request.warnings.join("\n");
    for word in ["web_search_20250305", "clear_tool_uses", "mcp_servers", "image", "server_tool_use"] {
        assert!(all.contains(word), "{word}: {all}");
    }
    body["tool_choice"] = json!({"type": "tool", "name": "web_search"});
    let fault = anthropic::read(&body, false).unwrap_err();
    assert_eq!((fault.status, fault.param.as_deref()), (400, Some("tool_choice.name")));
    assert!(!fault.message.contains("Some("), "{fault}");
}

#[test]
fn a_format_of_anthropics_is_a_response_format() {
    let schema = json!({"type": "object", "properties": {"a": {"type": "integer"}}});
    let format = json!({"type": "json_schema", "schema": schema});
    for extra in [json!({"output_config": {"format": format}}), json!({"output_format": format})] {
        let mut body = json!({"max_tokens": 5, "messages": [{"role": "user", "content": "x"}]});
        body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        assert!(anthropic::read(&body, false).unwrap().guided.is_some(), "{extra}");
    }
}

#[test]
fn fault_09_a_namespace_is_flattened_and_a_hosted_tool_left_out() {
    let request = responses(&codex()).unwrap();
    let chat = request.chat_request(&[]).unwrap();
    let names: Vec<&str> = tool_names(chat.tools.as_deref().unwrap()).collect();
    let own = ["exec_command", "write_stdin", "request_user_input"];
    assert_eq!(names, [&own[..], &["multi_agent_v1__close_agent", "multi_agent_v1__resume_agent"]].concat());
    assert_eq!(chat.warnings.len(), 1);
    assert!(chat.warnings[0].contains("\"web_search\""), "{:?}", chat.warnings);
    let item = request.tools.item("multi_agent_v1__close_agent", "c", "{}");
    let of_the_api = json!({
        "type": "function_call", "call_id": "c", "arguments": "{}", "name": "close_agent", "namespace": "multi_agent_v1",
    });
    assert_eq!(item, of_the_api);
    // And back.
    let mut body = codex();
    body["input"].as_array_mut().unwrap().extend([
        item,
        json!({"type": "function_call_output", "call_id": "c", "output": [{"type": "input_image", "image_url": "data:"}]}),
    ]);
    let chat = responses(&body).unwrap().chat_request(&[]).unwrap();
    let [.., called, found] = chat.messages.as_slice() else { panic!("no messages") };
    assert_eq!(called["tool_calls"][0]["function"]["name"], "multi_agent_v1__close_agent");
    assert_eq!(found["content"], "[input_image left out: this model reads text only]");
    body["tool_choice"] = json!({"type": "function", "name": "close_agent", "namespace": "multi_agent_v1"});
    let chat = responses(&body).unwrap().chat_request(&[]).unwrap();
    assert_eq!(chat.tool_choice, ToolChoice::Named("multi_agent_v1__close_agent".into()));
}

#[test]
fn fault_09_a_hosted_tool_that_is_forced_is_refused() {
    let mut body = codex();
    body["tool_choice"] = json!({"type": "web_search"});
    let fault = responses(&body).unwrap_err();
    assert_eq!((fault.status, fault.param.as_deref()), (400, Some("tool_choice.type")));
    body["tool_choice"] = json!("required");
    body["tools"] = json!([{"type": "web_search"}]);
    let fault = responses(&body).unwrap().chat_request(&[]).unwrap_err();
    assert_eq!(fault.param.as_deref(), Some("tool_choice"));
    body["tool_choice"] =
        json!({"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "b"}]});
    body["tools"] = json!([{"type": "function", "name": "a"}, {"type": "function", "name": "b"}]);
    let chat = responses(&body).unwrap().chat_request(&[]).unwrap();
    assert_eq!(tool_names(chat.tools.as_deref().unwrap()).collect::<Vec<_>>(), ["b"]);
}

#[test]
fn fault_09_custom_tools_and_shells_are_functions() {
    let body = json!({
        "input": [
            {"role": "user", "content": "x"},
            {"type": "custom_tool_call", "call_id": "a", "name": "apply_patch", "input": "*** Begin\n\"é\""},
            {"type": "custom_tool_call_output", "call_id": "a", "output": "done"},
            {"type": "local_shell_call", "call_id": "b", "action": {"type": "exec", "command": ["ls"], "env": {}}},
            {"type": "local_shell_call_output", "id": "b", "output": "sums.py"},
            {"type": "web_search_call", "id": "w", "status": "completed"},
        ],
        "tools": [
            {"type": "custom", "name": "apply_patch", "description": "Edits.",
             "format": {"type": "grammar", "syntax": "lark", "definition": "start: /a+/"}},
            {"type": "custom", "name": "number", "format": {"type": "grammar", "syntax": "regex", "definition": "[0-9]+"}},
            {"type": "local_shell"},
        ],
    });
    let request = responses(&body).unwrap();
    let chat = request.chat_request(&[]).unwrap();
    let tools = chat.tools.as_deref().unwrap();
    assert_eq!(tool_names(tools).collect::<Vec<_>>(), ["apply_patch", "number", "local_shell"]);
    assert!(tools[0]["function"]["description"].as_str().unwrap().ends_with("start: /a+/"));
    assert_eq!(tools[1]["function"]["parameters"]["properties"]["input"]["pattern"], "^(?:[0-9]+)$");
    let of = |at: usize| &chat.messages[at]["tool_calls"][0]["function"]["arguments"];
    assert_eq!(*of(1), json!({"input": "*** Begin\n\"é\""}));
    assert_eq!(*of(3), json!({"command": ["ls"]}));
    assert_eq!(chat.warnings.len(), 2, "{:?}", chat.warnings);
    let back = |function: &str, arguments: &str| request.tools.item(function, "c", arguments);
    assert_eq!(
        back("apply_patch", "{\"input\": \"a\\n\"}"),
        json!({"type": "custom_tool_call", "call_id": "c", "name": "apply_patch", "input": "a\n"})
    );
    // A small model's slips: another key, or no object.
    assert_eq!(back("apply_patch", "{\"patch\": \"a\"}")["input"], "a");
    assert_eq!(back("apply_patch", "a b")["input"], "a b");
    let shell = back("local_shell", "{\"command\": \"ls -l\", \"workdir\": \"/w\"}");
    assert_eq!(shell["action"]["command"], json!(["bash", "-lc", "ls -l"]));
    assert_eq!(
        (&shell["action"]["working_directory"], &shell["type"]),
        (&json!("/w"), &json!("local_shell_call"))
    );
}

#[test]
fn said_badly_a_tool_without_a_name_is_refused() {
    let nameless = json!({"type": "function", "function": {"name": ""}});
    let chat = json!({"messages": [{"role": "user", "content": "x"}], "tools": [nameless]});
    let fault = wire::ChatRequest::read(&chat).unwrap_err();
    assert_eq!(fault.param.as_deref(), Some("tools[0].function.name"));
    let fault = responses(&json!({"input": "x", "tools": [{"type": "function", "name": ""}]})).unwrap_err();
    assert_eq!(fault.param.as_deref(), Some("tools[0].name"));
    let tool = json!({"name": "", "input_schema": {}});
    let body = json!({"max_tokens": 1, "messages": [{"role": "user", "content": "x"}], "tools": [tool]});
    assert_eq!(anthropic::read(&body, false).unwrap_err().status, 400);
}

#[test]
fn fault_10_a_call_that_must_come_goes_with_a_format() {
    let chat = json!({
        "messages": [{"role": "user", "content": "x"}], "tool_choice": "required", "response_format": {"type": "json_object"},
        "tools": [{"type": "function", "function": {"name": "f"}}],
    });
    let request = wire::ChatRequest::read(&chat).unwrap();
    assert!(request.guided.is_some() && request.tool_choice == ToolChoice::Required);
}
