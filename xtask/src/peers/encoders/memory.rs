//! Resident memory of the servers after many texts.

use super::programs::{self, Subject};
use super::{Options, Paths};
use crate::client::Server;
use crate::shell::output;
use std::path::Path;
use std::process::Command;

/// Times that the mix is sent, each with other words: it has 256 texts, so these are 100,096.
const REPEATS: &str = "391";
/// The model whose texts take the least time.
const MODEL: &str = "all-minilm-l6-v2";
/// llama-server's setting.
const SETTING: (&str, usize, &str) = ("q8_0", 8, "on");

/// Measures each server once; memory does not drift.
pub fn table(options: &Options, paths: &Paths, llama: &Path) -> Result<String, String> {
    let subject = options.subject(paths, MODEL)?;
    let mut lines = vec![
        format!(
            "| resident memory, MB, {MODEL} | weights in the file | when ready | after 100,000 texts | peak |"
        ),
        "|---|---|---|---|---|".to_owned(),
    ];
    let ours = |port: &str| programs::serve(options, &paths.ours, &subject, port);
    lines.push(line(options, "Gristmill", &subject.checkpoint.join("model.safetensors"), &subject, &ours)?);
    if !options.alone {
        let theirs = |port: &str| programs::llama_serve(options, llama, &subject, SETTING, port);
        let file = subject.folder.join(format!("{}.gguf", SETTING.0));
        lines.push(line(options, "llama-server", &file, &subject, &theirs)?);
    }
    Ok(lines.join("\n"))
}

fn line(
    options: &Options,
    name: &str,
    file: &Path,
    subject: &Subject,
    command: &dyn Fn(&str) -> Command,
) -> Result<String, String> {
    eprintln!("memory of {name} after 100,000 texts");
    let bytes = std::fs::metadata(file).map_err(|error| format!("{}: {error}", file.display()))?.len();
    let (server, _) = Server::with(command)?;
    let memory = |line: &str| {
        let bytes = server.memory(line).ok_or_else(|| format!("the memory of {name} cannot be read"))?;
        Ok::<_, String>(format!("{:.0}", bytes / 1e6))
    };
    let ready = memory("VmRSS")?;
    let mut texts = options.script();
    texts.args(["http", &server.url()]).arg(&subject.checkpoint);
    output(texts.args(["--case", "mix-5-512", "--repeats", REPEATS]))?;
    let (after, peak) = (memory("VmRSS")?, memory("VmHWM")?);
    Ok(format!("| {name} | {:.0} | {ready} | **{after}** | {peak} |", bytes as f64 / 1e6))
}
