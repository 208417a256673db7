//! `POST /v2/models/NAME/generate` and `generate_stream`: text in, text out (Triton's generate extension).

use std::sync::Arc;

use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use httpd::body::Media;
use inference::{Event, Generate, Generation, Operation, Output, Part};
use serde_json::{Value, json};
use service::{ModelVersion, Takes};
use wire::oip::{GenerateRequest, plain_name};
use wire::{Fault, scan, sse};

use crate::answer;
use crate::requests::{Parsed, parsed_as};
use crate::state::State;
use crate::stream::{self, Dialect};

/// Answers a request for text, whole or streamed.
pub(super) async fn answer(
    state: &State,
    version: ModelVersion,
    request: Request,
    streamed: bool,
) -> Result<Response, Fault> {
    let model = version.name;
    let make = move |body: Vec<u8>| {
        scan::values(&body)?;
        let GenerateRequest { id, text } = GenerateRequest::parse(&body, Some(&model), streamed)?;
        let generate =
            Generate { field: "text_input", wants_text: text.echo, ..Generate::text(text.completion) };
        Ok((Operation::Generate(generate), (id, text.echo)))
    };
    let Parsed { request, admitted, asked: (id, echo) } =
        parsed_as(state, request, Takes::Answers, Media::Any, make).await?;
    let mut generation = match state.service.answer(request, admitted).await? {
        Output::Generation(generation) => generation,
        _ => return Err(Fault::internal("an answer was asked for, and something else came")),
    };
    let model = plain_name(&generation.model).to_owned();
    let writer = Writer { id, model, version: version.version, begun: false };
    if streamed {
        return Ok(stream::response(generation, Box::new(writer), state.ping));
    }
    let (choices, _) = answer::gather(&mut generation).await?;
    let start = generation.prompts.first().and_then(|prompt| prompt.text.clone()).filter(|_| echo);
    let text = choices.into_iter().map(|choice| choice.text).next().unwrap_or_default();
    let text = format!("{}{text}", start.unwrap_or_default());
    Ok(axum::Json(writer.json(&text)).into_response())
}

/// Writes the events of a stream: one for each piece of text.
struct Writer {
    id: Option<String>,
    model: String,
    version: Arc<str>,
    begun: bool,
}

impl Writer {
    fn json(&self, text: &str) -> Value {
        let mut answer =
            json!({"model_name": self.model, "model_version": *self.version, "text_output": text});
        if let Some(id) = &self.id {
            answer["id"] = id.as_str().into();
        }
        answer
    }
}

impl Dialect for Writer {
    fn write(&mut self, _generation: &Generation, _choice: usize, event: Event, out: &mut String) {
        let (parts, end) = event.split();
        let mut text = String::new();
        for part in parts {
            match part {
                Part::Content(more) | Part::Reasoning(more) => text.push_str(&more),
                Part::Call { .. } | Part::Arguments { .. } => {}
            }
        }
        if !text.is_empty() || (end.is_some() && !self.begun) {
            self.begun = true;
            out.push_str(&sse::data(&self.json(&text)));
        }
    }

    fn end(&mut self, _generation: &Generation, _out: &mut String) {}

    fn fail(&mut self, fault: &Fault, out: &mut String) {
        out.push_str(&sse::data(&wire::oip::fault(fault)));
    }
}
