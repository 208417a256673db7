//! `gristmill farm`: which models a running server has in memory, and changes of that.

use std::time::Duration;

use serde_json::Value;
use weights::fetch::escaped;

use crate::Failure;
use crate::http::{Client, Reach};
use crate::store::size;
use crate::term::{clean, json, out};

/// The longest that a change may take: a load reads the whole model.
const TIMEOUT: Duration = Duration::from_secs(600);

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,

    /// Address of the server.
    #[arg(long, global = true, default_value = "http://127.0.0.1:8080", value_name = "URL")]
    url: String,

    /// The server's API key.
    #[arg(long, global = true, env = "GRISTMILL_API_KEY", hide_env_values = true, value_name = "KEY")]
    api_key: Option<String>,

    /// Trust the certificates of this file in place of the usual ones.
    #[arg(long, global = true, value_name = "FILE")]
    ca_file: Option<std::path::PathBuf>,

    /// Print what the server answers.
    #[arg(long, global = true)]
    json: bool,
}

#[derive(clap::Subcommand)]
enum Command {
    /// List the models with their states, memory and use.
    Status,
    /// Load a model, and wait until it is there.
    Load(Model),
    /// Unload a model that is not in use.
    Unload(Model),
    /// Load a model, and keep it loaded whatever else is asked for.
    Pin(Model),
    /// Let a model be unloaded again when others need its memory.
    Unpin(Model),
}

#[derive(clap::Args)]
struct Model {
    /// A name of the model.
    model: String,
}

pub(crate) fn run(args: Args) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::new(format!("cannot start HTTP: {error}")))?;
    let client = runtime.block_on(async {
        Client::new(&Reach {
            base_url: &args.url,
            api_key: args.api_key.as_deref(),
            headers: &[],
            ca_file: args.ca_file.as_deref(),
            timeout: TIMEOUT,
        })
    })?;
    let (model, change) = match &args.command {
        Command::Status => {
            let list = runtime.block_on(client.json("/v1/models", None)).map_err(Failure::new)?;
            return status(&args, &list);
        }
        Command::Load(model) => (model, "load"),
        Command::Unload(model) => (model, "unload"),
        Command::Pin(model) => (model, "pin"),
        Command::Unpin(model) => (model, "unpin"),
    };
    let path = format!("/v1/models/{}/{change}", encoded(&model.model));
    let card = runtime.block_on(client.json(&path, Some(&Value::Null))).map_err(Failure::new)?;
    if args.json {
        return json(&card);
    }
    let pinned = if card["pinned"] == true { ", pinned" } else { "" };
    out!("{}: {}{pinned}", clean(&model.model), clean(card["state"].as_str().unwrap_or_default()));
    Ok(())
}

fn status(args: &Args, list: &Value) -> Result<(), Failure> {
    if args.json {
        return json(list);
    }
    let cards = list["data"].as_array().map(Vec::as_slice).unwrap_or_default();
    let rows: Vec<[String; 6]> = cards.iter().map(row).collect();
    let heads = ["MODEL", "STATE", "MEMORY", "IN USE", "LAST USED", "NOTE"].map(str::to_owned);
    let width = |at: usize| rows.iter().chain([&heads]).map(|row| row[at].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..heads.len()).map(width).collect();
    for row in [&heads].into_iter().chain(&rows) {
        let cells = row.iter().zip(&widths).enumerate().map(|(at, (cell, width))| match at {
            2 | 3 => format!("{cell:>width$}"),
            _ => format!("{cell:<width$}"),
        });
        out!("{}", cells.collect::<Vec<_>>().join("  ").trim_end());
    }
    let loaded = cards.iter().filter(|card| card["state"] == "ready").count();
    out!("{} names, {loaded} of them loaded", cards.len());
    Ok(())
}

fn row(card: &Value) -> [String; 6] {
    let text = |field: &str| clean(card[field].as_str().unwrap_or_default());
    let state = text("state");
    let is_loaded = state == "ready" || state == "draining";
    let memory = card["memory_bytes"].as_u64().filter(|_| is_loaded).map(size).unwrap_or_default();
    let idle = card["idle_s"].as_u64().filter(|_| is_loaded).map(ago).unwrap_or_default();
    let note = match (card["pinned"] == true, card["rejected"].as_str()) {
        (_, Some(why)) => format!("an older version: {}", clean(why)),
        (true, None) => "pinned".to_owned(),
        (false, None) => String::new(),
    };
    let uses = card["uses"].as_u64().filter(|uses| *uses > 0).map(|uses| uses.to_string());
    [text("id"), state, memory, uses.unwrap_or_default(), idle, note]
}

/// A time in its largest unit.
fn ago(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds} s ago"),
        60..3_600 => format!("{} min ago", seconds / 60),
        _ => format!("{} h ago", seconds / 3_600),
    }
}

/// A model's name as part of a path. A slash stays: names have several segments.
fn encoded(name: &str) -> String {
    escaped(name, "/:")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_is_a_row() {
        let card = serde_json::json!({"id": "a", "state": "ready", "memory_bytes": 36_000_000,
            "pinned": true, "uses": 2, "idle_s": 125});
        assert_eq!(row(&card), ["a", "ready", "36.0 MB", "2", "2 min ago", "pinned"].map(str::to_owned));
        let card = serde_json::json!({"id": "b", "state": "registered", "memory_bytes": 5, "pinned": false,
            "uses": 0, "idle_s": 9, "rejected": "probe 1"});
        let row = row(&card);
        assert_eq!(row[2..], ["", "", "", "an older version: probe 1"].map(str::to_owned));
    }

    #[test]
    fn names_are_written_into_paths() {
        assert_eq!(encoded("org/name:v1"), "org/name:v1");
        assert_eq!(encoded("a b?c%"), "a%20b%3Fc%25");
    }
}
