//! `POST /v1/files`: a form with a file, streamed to the store.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header;
use axum::response::Response;
use jobs::objects::file_object;
use jobs::{Millis, Purpose};
use wire::Fault;
use wire::error::quote;

use super::draft::{About, Draft};
use super::incoming::Incoming;
use super::multipart::{Multipart, PartHead, Piece, boundary};
use super::name::cleaned;
use crate::faces::ask::Caller;
use crate::faces::fault::{answer, fault, json, of_store};
use crate::shared::Jobs;

/// The longest value of a field that is no file.
const MOST_FIELD: usize = 1 << 10;
/// What a form may have beside the file.
const FORM_BYTES: u64 = 64 << 10;
/// The seconds for which a file can be kept, as OpenAI bounds them.
pub(crate) const EXPIRES_AFTER: std::ops::RangeInclusive<i64> = 3_600..=2_592_000;

/// `POST /v1/files`.
pub(crate) async fn create(State(jobs): State<Arc<Jobs>>, request: Request) -> Response {
    answer(upload(&jobs, request).await)
}

async fn upload(jobs: &Arc<Jobs>, request: Request) -> Result<Response, Fault> {
    let caller = Caller::of(jobs, request.extensions());
    let content_type = request.headers().get(header::CONTENT_TYPE).map(|value| value.to_str().unwrap_or("?"));
    let mut form = Multipart::new(&boundary(content_type)?);
    let most = jobs.options.max_file_bytes;
    let mut incoming =
        Incoming::of(jobs, request, most.saturating_add(FORM_BYTES)).map_err(|fault| match fault.status {
            413 => too_large(most),
            _ => fault,
        })?;
    let mut parts = Parts { jobs, fields: BTreeMap::new(), file: None, part: Part::None };
    match parts.read(&mut form, &mut incoming).await {
        Ok(()) => {}
        Err(fault) => {
            incoming.pass().await;
            return Err(fault);
        }
    }
    let Parts { fields, file, .. } = parts;
    let purpose = purpose(&fields)?;
    let expires = expires(jobs, &fields)?;
    let (draft, filename) = file.ok_or_else(|| Fault::missing("file"))?;
    let about =
        About { key: caller.key, filename, purpose, expires_at: Some(jobs.now() + expires), hidden: false };
    let file = draft.seal(about).await.map_err(of_store)?;
    Ok(json(&file_object(&file)))
}

fn too_large(most: u64) -> Fault {
    let mut fault =
        fault(413, "file_too_large", format!("the file is larger than the limit of {most} bytes"));
    fault.param = Some("file".to_owned());
    fault
}

/// The parts of a form so far.
struct Parts<'a> {
    jobs: &'a Arc<Jobs>,
    fields: BTreeMap<String, String>,
    file: Option<(Draft, String)>,
    part: Part,
}

/// The part that is being read.
enum Part {
    None,
    File,
    Field(String, Vec<u8>),
}

impl Parts<'_> {
    async fn read(&mut self, form: &mut Multipart, incoming: &mut Incoming<'_>) -> Result<(), Fault> {
        while let Some(bytes) = incoming.next().await? {
            form.feed(&bytes);
            while let Some(piece) = form.next()? {
                self.take(piece).await?;
            }
        }
        if form.is_over() { Ok(()) } else { Err(Fault::body("the body ends before its last boundary")) }
    }

    async fn take(&mut self, piece: Piece) -> Result<(), Fault> {
        match piece {
            Piece::Head(head) => self.begin(head),
            Piece::Data(bytes) => self.data(&bytes).await,
            Piece::End => self.end(),
        }
    }

    fn begin(&mut self, head: PartHead) -> Result<(), Fault> {
        if head.name != "file" {
            self.part = Part::Field(head.name, Vec::new());
            return Ok(());
        }
        if self.file.is_some() {
            return Err(Fault::field("file", "file is given twice"));
        }
        let name = cleaned(head.filename.as_deref().unwrap_or_default());
        self.file = Some((Draft::new(self.jobs, self.jobs.id("file-")), name));
        self.part = Part::File;
        Ok(())
    }

    async fn data(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        match (&mut self.part, &mut self.file) {
            (Part::File, Some((draft, _))) => {
                let most = self.jobs.options.max_file_bytes;
                if draft.len() + bytes.len() as u64 > most {
                    return Err(too_large(most));
                }
                draft.write(bytes).await.map_err(of_store)
            }
            (Part::Field(name, value), _) => {
                if value.len() + bytes.len() > MOST_FIELD {
                    let message = format!("{} has more than {MOST_FIELD} bytes", quote(name));
                    return Err(Fault::field(name.clone(), message));
                }
                value.extend_from_slice(bytes);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn end(&mut self) -> Result<(), Fault> {
        if let Part::Field(name, value) = std::mem::replace(&mut self.part, Part::None) {
            let text = String::from_utf8(value);
            let text =
                text.map_err(|_| Fault::field(name.clone(), format!("{} is not UTF-8", quote(&name))))?;
            self.fields.insert(name, text);
        }
        Ok(())
    }
}

fn purpose(fields: &BTreeMap<String, String>) -> Result<Purpose, Fault> {
    match fields.get("purpose").map(String::as_str) {
        Some("batch") => Ok(Purpose::Batch),
        Some("user_data") => Ok(Purpose::UserData),
        Some(other) => {
            let message = format!("purpose is {}; it must be batch or user_data", quote(other));
            Err(Fault::field("purpose", message))
        }
        None => Err(Fault::missing("purpose")),
    }
}

/// For how long the file is kept.
fn expires(jobs: &Jobs, fields: &BTreeMap<String, String>) -> Result<Millis, Fault> {
    let anchor = fields.get("expires_after[anchor]").map(String::as_str);
    let seconds = fields.get("expires_after[seconds]");
    if let Some(other) = anchor.filter(|anchor| *anchor != "created_at") {
        let message = format!("expires_after.anchor is {}; it must be created_at", quote(other));
        return Err(Fault::field("expires_after.anchor", message));
    }
    let Some(seconds) = seconds else {
        return match anchor {
            Some(_) => Err(Fault::missing("expires_after.seconds")),
            None => Ok(jobs.options.retention.files),
        };
    };
    let number = seconds.parse().ok().filter(|seconds| EXPIRES_AFTER.contains(seconds));
    let number: i64 = number.ok_or_else(|| {
        let (least, most) = (EXPIRES_AFTER.start(), EXPIRES_AFTER.end());
        let message = format!(
            "expires_after.seconds is {}; it must be a whole number from {least} to {most}",
            quote(seconds)
        );
        Fault::field("expires_after.seconds", message)
    })?;
    Ok(number * 1_000)
}
