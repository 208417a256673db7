//! Output and errors in the form of OpenAI's batches.

use crate::fault::Fault;
use crate::journal::rows::Answer;
use crate::output::answer::{id, settle};
use crate::output::view::View;
use serde_json::{Value, json};

/// The line of the output or, for a line that failed, of the errors.
pub(crate) fn line(view: &View<'_>, reproducible: bool) -> Value {
    let mut error = Value::Null;
    let response = match (view.fault, view.answer) {
        (None, Some(answer)) => response(answer, reproducible),
        // The server has told what is wrong.
        (Some(_), Some(answer)) if answer.status.is_some_and(|status| !(200..300).contains(&status)) => {
            response(answer, reproducible)
        }
        (fault, _) => {
            error = fault.map_or(Value::Null, |fault| told(fault, view.answer.is_none().then_some(view.at)));
            Value::Null
        }
    };
    json!({
        "id": id("batch_req_", &view.name()),
        "custom_id": custom_id(view),
        "response": response,
        "error": error,
    })
}

/// A line of the errors of a table.
pub(crate) fn error(view: &View<'_>, fault: &Fault) -> Value {
    json!({
        "line": view.at,
        "status_code": view.answer.and_then(|answer| answer.status),
        "error": told(fault, None),
    })
}

fn told(fault: &Fault, line: Option<u64>) -> Value {
    let mut told = json!({"code": fault.code, "message": fault.message});
    if let Some(line) = line {
        told["line"] = json!(line);
    }
    told
}

fn response(answer: &Answer, reproducible: bool) -> Value {
    let text = || Value::String(String::from_utf8_lossy(&answer.body).into_owned());
    let mut body = serde_json::from_slice(&answer.body).unwrap_or_else(|_| text());
    if reproducible {
        settle(&mut body, &answer.key);
    }
    json!({"status_code": answer.status, "request_id": id("req_", &answer.key), "body": body})
}

/// The name of a line, as far as the line can be read.
fn custom_id(view: &View<'_>) -> Value {
    let row: Value = view.record.and_then(|record| serde_json::from_slice(record).ok()).unwrap_or_default();
    row.get("custom_id").filter(|id| id.is_string()).cloned().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: Option<u16>, body: &str, fault: Option<Fault>) -> Answer {
        Answer { key: [1; 32], status, body: body.as_bytes().to_vec(), fault }
    }

    fn shown(answer: &Answer) -> Value {
        let record = Some(&br#"{"custom_id":"a"}"#[..]);
        line(&View { number: 0, at: 1, record, fault: answer.fault.as_ref(), answer: Some(answer) }, true)
    }

    #[test]
    fn an_answer_is_a_response_without_an_error() {
        let line = shown(&answer(Some(200), "{\"x\":1}", None));
        assert_eq!((&line["custom_id"], &line["error"]), (&json!("a"), &Value::Null));
        assert_eq!(
            (&line["response"]["status_code"], &line["response"]["body"]),
            (&json!(200), &json!({"x": 1}))
        );
        assert!(line["id"].as_str().unwrap().starts_with("batch_req_"));
    }

    #[test]
    fn an_error_of_the_server_is_a_response_and_one_without_an_answer_is_an_error() {
        let line = shown(&answer(Some(400), "{}", Some(Fault::new("http_400", "no"))));
        assert_eq!((&line["response"]["status_code"], &line["error"]), (&json!(400), &Value::Null));
        let line = shown(&answer(None, "", Some(Fault::new("request_failed", "refused"))));
        assert_eq!((&line["response"], &line["error"]["code"]), (&Value::Null, &json!("request_failed")));
    }

    #[test]
    fn a_line_that_is_no_request_tells_its_place() {
        let fault = Fault::new("invalid_json_line", "no");
        let line = line(&View { number: 6, at: 9, record: None, fault: Some(&fault), answer: None }, true);
        assert_eq!((&line["error"]["line"], &line["custom_id"]), (&json!(9), &Value::Null));
    }
}
