//! `GET /v1/responses/{id}/input_items`: what a response answered, as items.

use std::collections::HashMap;
use std::sync::Arc;

use axum::extract::{Path, Query, State as Shared};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use inference::RequestContext;
use serde_json::{Value, json};
use service::ResponseInput as Input;
use wire::Fault;
use wire::responses::Tools;

use crate::state::State;

/// Items in one answer, unless it is asked for another number.
const LIMIT: usize = 20;
/// The most that can be asked for.
const MOST: usize = 100;

pub(crate) async fn list(
    Shared(state): Shared<Arc<State>>,
    Extension(context): Extension<Arc<RequestContext>>,
    Path(id): Path<String>,
    Query(query): Query<HashMap<String, String>>,
) -> Response {
    let page = state
        .service
        .responses()
        .input(&id, context.client())
        .and_then(|input| page(&items(&id, &input), &query));
    page.map_or_else(|fault| httpd::respond(&fault), |page| Json(page).into_response())
}

/// The items in order, with ids that stay the same.
fn items(id: &str, input: &Input) -> Vec<Value> {
    let tools = Tools::of_request(&input.tools);
    let own = id.trim_start_matches("resp_");
    let mut items: Vec<Value> = Vec::new();
    // Which type the call of an id was: its result has a type to go with it.
    let mut calls: HashMap<&str, String> = HashMap::new();
    let add = |items: &mut Vec<Value>, kind: &str, mut item: Value| {
        item["id"] = format!("{kind}_{own}i{:04}", items.len()).into();
        item["status"] = "completed".into();
        items.push(item);
    };
    for message in &input.messages {
        let word = |name: &str| message.get(name).and_then(Value::as_str).unwrap_or_default();
        let role = word("role");
        if role == "tool" {
            let call_id = word("tool_call_id");
            let call = calls.get(call_id).map_or("function_call", String::as_str);
            let output =
                json!({"type": format!("{call}_output"), "call_id": call_id, "output": word("content")});
            add(&mut items, "fco", output);
            continue;
        }
        let thought = word("reasoning_content");
        if !thought.is_empty() {
            let content = json!([{"type": "reasoning_text", "text": thought}]);
            add(&mut items, "rs", json!({"type": "reasoning", "summary": [], "content": content}));
        }
        let called =
            message.get("tool_calls").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        if called.is_empty() || !word("content").is_empty() {
            let content = match role {
                "assistant" => json!({"type": "output_text", "text": word("content"), "annotations": []}),
                _ => json!({"type": "input_text", "text": word("content")}),
            };
            add(&mut items, "msg", json!({"type": "message", "role": role, "content": [content]}));
        }
        for call in called {
            let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            let (function, call_id) = (&call["function"], call["id"].as_str().unwrap_or_default());
            let name = function["name"].as_str().unwrap_or_default();
            let (kind, short) = tools.item_type(name);
            calls.insert(call_id, kind.to_owned());
            add(&mut items, short, tools.item(name, call_id, &text(&function["arguments"])));
        }
    }
    items
}

/// The part of the items that `after`, `limit` and `order` ask for. `include` has nothing to add here.
fn page(items: &[Value], query: &HashMap<String, String>) -> Result<Value, Fault> {
    let wrong = |name: &str, expected: &str| {
        let shown = Value::from(query[name].chars().take(64).collect::<String>());
        Fault::field(name, format!("{name} is {shown}; it must be {expected}"))
    };
    let limit = match query.get("limit").map(|text| text.parse::<usize>()) {
        None => LIMIT,
        Some(Ok(limit)) if (1..=MOST).contains(&limit) => limit,
        Some(_) => return Err(wrong("limit", &format!("a whole number between 1 and {MOST}"))),
    };
    let mut items: Vec<&Value> = items.iter().collect();
    match query.get("order").map(String::as_str) {
        Some("asc") => {}
        None | Some("desc") => items.reverse(),
        Some(_) => return Err(wrong("order", "\"asc\" or \"desc\"")),
    }
    let from = match query.get("after") {
        None => 0,
        Some(after) => {
            let at = items.iter().position(|item| item["id"] == after.as_str());
            at.ok_or_else(|| wrong("after", "the id of one of the response's input items"))? + 1
        }
    };
    let rest = &items[from..];
    let data = &rest[..rest.len().min(limit)];
    let id = |item: Option<&&Value>| item.map_or(Value::Null, |item| item["id"].clone());
    Ok(json!({
        "object": "list",
        "data": data,
        "first_id": id(data.first()),
        "last_id": id(data.last()),
        "has_more": rest.len() > data.len(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input() -> Input {
        let call = |id: &str, name: &str, arguments: Value| json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}});
        let messages = vec![
            json!({"role": "user", "content": "Where?"}),
            json!({"role": "assistant", "content": "", "reasoning_content": "hm", "tool_calls": [
                call("a", "look", json!("{}")), call("b", "edit", json!({"input": "x"}))]}),
            json!({"role": "tool", "tool_call_id": "a", "content": "there"}),
            json!({"role": "tool", "tool_call_id": "b", "content": "done"}),
        ];
        let tools = json!([{"type": "custom", "name": "edit"}, {"type": "web_search"}]);
        Input { messages, tools }
    }

    #[test]
    fn fault_09_input_items_are_of_the_api() {
        let items = items("resp_7", &input());
        let kinds: Vec<&str> = items.iter().map(|item| item["type"].as_str().unwrap_or_default()).collect();
        let expected = [
            "message",
            "reasoning",
            "function_call",
            "custom_tool_call",
            "function_call_output",
            "custom_tool_call_output",
        ];
        assert_eq!(kinds, expected);
        assert_eq!((&items[0]["id"], &items[3]["input"]), (&json!("msg_7i0000"), &json!("x")));
    }

    #[test]
    fn fault_09_input_items_come_in_pages() {
        let items = items("resp_7", &input());
        let ask = |pairs: &[(&str, &str)]| {
            page(&items, &pairs.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect())
        };
        let all = ask(&[]).expect("a page");
        assert_eq!((&all["first_id"], &all["has_more"]), (&items[5]["id"], &json!(false)));
        let first = ask(&[("order", "asc"), ("limit", "4")]).expect("a page");
        assert_eq!((first["data"].as_array().map(Vec::len), &first["has_more"]), (Some(4), &json!(true)));
        let last_id = first["last_id"].as_str().unwrap_or_default();
        let rest = ask(&[("order", "asc"), ("after", last_id)]).expect("a page");
        assert_eq!((&rest["data"][0], &rest["has_more"]), (&items[4], &json!(false)));
        for bad in [("limit", "0"), ("limit", "x"), ("order", "up"), ("after", "msg_8")] {
            assert_eq!(ask(&[bad]).expect_err("a fault").param.as_deref(), Some(bad.0));
        }
    }
}
