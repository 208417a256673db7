//! `gristmill gateway explain`: where a running gateway would send a request, and why.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;

use crate::Failure;
use crate::files;
use crate::http::{Client, Reach};
use crate::term::{clean, json, out};

/// Longest request.
const MAX_BYTES: u64 = 16 << 20;

#[derive(clap::Args)]
pub(super) struct Args {
    /// The request: a file with its body, or - for standard input.
    request: PathBuf,

    /// The request's path.
    #[arg(long, default_value = "/v1/chat/completions")]
    path: String,

    /// Address of the gateway.
    #[arg(long, default_value = "http://127.0.0.1:8090", value_name = "URL")]
    url: String,

    /// An admin's key of the gateway.
    #[arg(long, env = "GRISTMILL_API_KEY", hide_env_values = true, value_name = "KEY")]
    api_key: Option<String>,

    /// Print what the gateway answers.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> Result<(), Failure> {
    let path =
        if args.request.as_os_str() == "-" { PathBuf::from("/dev/stdin") } else { args.request.clone() };
    let file = files::read("REQUEST", &path, MAX_BYTES)?;
    let body: Value = serde_json::from_slice(&file.bytes)
        .map_err(|error| Failure::new(format!("REQUEST {} is not JSON: {error}", path.display())))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let asked = serde_json::json!({"path": args.path, "body": body});
    let told = runtime.block_on(async {
        let client = Client::new(&Reach {
            base_url: &args.url,
            api_key: args.api_key.as_deref(),
            headers: &[],
            ca_file: None,
            timeout: Duration::from_secs(10),
        })?;
        client.json("/gateway/explain", Some(&asked)).await.map_err(Failure::new)
    })?;
    if args.json {
        return json(&told);
    }
    let text = told.get("text").and_then(Value::as_str).unwrap_or_default();
    text.lines().for_each(|line| out!("{}", clean(line)));
    Ok(())
}
