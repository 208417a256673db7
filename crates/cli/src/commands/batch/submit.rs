//! A file handed to a server as a batch of its own.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use ::batch::{Input, Options};
use hyper::body::Bytes;
use serde_json::{Value, json};

use super::flags::Args;
use super::remote::client;
use crate::Failure;
use crate::http::{Client, accepted, read_bytes, read_json};
use crate::term::{clean, err};

/// Bytes of a file that is sent in one piece.
const MAX_BYTES: u64 = 200 << 20;
/// The longest that sending or fetching a file may take.
const TIMEOUT: Duration = Duration::from_secs(600);
/// Between two looks at the batch.
const LOOK: Duration = Duration::from_secs(2);
/// The boundary of the parts of the form.
const BOUNDARY: &str = "gristmill-batch-3f9c1d7e";

/// Sends the file, waits for the batch, and writes what came of it.
pub(super) fn run(args: &Args, options: &Options) -> Result<(), Failure> {
    let (Input::File(input), Some(output)) = (&options.input, &options.output) else {
        return Err(Failure::usage("--submit takes a file and writes a file, not a stream"));
    };
    let bytes = crate::files::read("IN", input, MAX_BYTES)?.bytes;
    let path = endpoint(&bytes)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::new(format!("cannot start HTTP: {error}")))?;
    let url = args.url.as_deref().unwrap_or_default();
    runtime.block_on(async {
        let client = client(args, url, TIMEOUT)?;
        let file = client.in_time(upload(&client, input, bytes)).await.map_err(Failure::new)?;
        let question = json!({"input_file_id": file, "endpoint": path, "completion_window": "24h"});
        let batch = client.json("/v1/batches", Some(&question)).await.map_err(Failure::new)?;
        let id = text(&batch, "id");
        err!("{}: {}", id, text(&batch, "status"));
        let batch = wait(&client, &id).await?;
        fetch(&client, &batch, "output_file_id", output).await?;
        let mut errors = output.clone().into_os_string();
        errors.push(".errors.jsonl");
        fetch(&client, &batch, "error_file_id", Path::new(&errors)).await?;
        end(&batch)
    })
}

fn text(value: &Value, field: &str) -> String {
    clean(value[field].as_str().unwrap_or_default())
}

/// The endpoint that the first line names.
fn endpoint(bytes: &[u8]) -> Result<String, Failure> {
    let line =
        bytes.split(|byte| *byte == b'\n').find(|line| !line.trim_ascii().is_empty()).unwrap_or_default();
    let line: Value = serde_json::from_slice(line).unwrap_or_default();
    line["url"].as_str().map(str::to_owned).ok_or_else(|| {
        Failure::usage(
            "--submit takes lines in OpenAI's batch form: {\"custom_id\", \"method\", \"url\", \"body\"}",
        )
    })
}

/// Puts the file in; what comes back is its id.
async fn upload(client: &Client, path: &Path, bytes: Vec<u8>) -> Result<String, String> {
    let name: String =
        path.file_name().map_or("input.jsonl".into(), |name| name.to_string_lossy().into_owned());
    let name = name.replace(['"', '\r', '\n'], "_");
    let mut body = format!(
        "--{BOUNDARY}\r\ncontent-disposition: form-data; name=\"purpose\"\r\n\r\nbatch\r\n--{BOUNDARY}\r\n\
         content-disposition: form-data; name=\"file\"; filename=\"{name}\"\r\n\
         content-type: application/jsonl\r\n\r\n"
    )
    .into_bytes();
    body.extend_from_slice(&bytes);
    body.extend_from_slice(format!("\r\n--{BOUNDARY}--\r\n").as_bytes());
    let media = format!("multipart/form-data; boundary={BOUNDARY}");
    let response = accepted(client.send_as("/v1/files", &media, Bytes::from(body)).await?).await?;
    let file = read_json(response).await?;
    file["id"].as_str().map(str::to_owned).ok_or_else(|| "the server gave the file no id".to_owned())
}

/// Waits for the end of the batch.
async fn wait(client: &Client, id: &str) -> Result<Value, Failure> {
    let mut shown = String::new();
    loop {
        let batch = client.json(&format!("/v1/batches/{id}"), None).await.map_err(Failure::new)?;
        let (status, counts) = (text(&batch, "status"), &batch["request_counts"]);
        let line = format!(
            "{id}: {status}, {} of {} done, {} failed",
            counts["completed"].as_u64().unwrap_or(0) + counts["failed"].as_u64().unwrap_or(0),
            counts["total"],
            counts["failed"]
        );
        if line != shown {
            err!("{line}");
            shown = line;
        }
        if ["completed", "failed", "expired", "cancelled"].contains(&status.as_str()) {
            return Ok(batch);
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Writes a file of the batch, whole or not at all, if there is one.
async fn fetch(client: &Client, batch: &Value, field: &str, to: &Path) -> Result<(), Failure> {
    let Some(id) = batch[field].as_str() else { return Ok(()) };
    let fetched = async {
        let response = client.send(&format!("/v1/files/{id}/content"), None).await?;
        read_bytes(accepted(response).await?).await
    };
    let bytes = client.in_time(fetched).await.map_err(Failure::new)?;
    let mut partial = to.to_owned().into_os_string();
    partial.push(".partial");
    let write = || -> std::io::Result<()> {
        let mut file = File::create(&partial)?;
        file.write_all(&bytes)?;
        file.sync_all()?;
        std::fs::rename(&partial, to)
    };
    write().map_err(|error| Failure::new(format!("{}: {error}", to.display())))
}

fn end(batch: &Value) -> Result<(), Failure> {
    let failed = batch["request_counts"]["failed"].as_u64().unwrap_or(0);
    match (text(batch, "status").as_str(), failed) {
        ("completed", 0) => Ok(()),
        ("completed", _) => Err(Failure { message: String::new(), code: 3 }),
        (status, _) => {
            let why = batch["errors"]["data"].as_array().and_then(|errors| errors.first());
            let why = why.map(|error| format!(": {}", crate::http::message(error))).unwrap_or_default();
            Err(Failure::new(format!("the batch is {status}{why}")))
        }
    }
}
