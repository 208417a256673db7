//! The tables in docs/performance.md.

use super::parse;
use crate::shell::{TaskResult, output, root, write_whole};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

const PAGE: &str = "docs/performance.md";
const END: &str = "<!-- end -->";

/// Replaces the part of the page that `cargo xtask TASK` writes, with the machine, the date and the peers above the table.
pub fn publish(ours: &Path, task: &str, table: &str, peers: &[&str], args: &[&str]) -> TaskResult {
    let path = root().join(PAGE);
    let page = std::fs::read_to_string(&path).map_err(|error| format!("{PAGE}: {error}"))?;
    let machine = machine(&parse(&output(Command::new(ours).args(["doctor", "--json"]))?)?)?;
    let date = output(Command::new("date").args(["-u", "+%Y-%m-%d"]))?;
    // Readers on other machines do not need this machine's paths.
    let shown: Vec<&str> = args.iter().copied().map(without_path).collect();
    let text = format!(
        "{}, {machine}; {}. `cargo xtask {task} {}`\n\n{table}",
        date.trim(),
        peers.join(", "),
        shown.join(" ")
    );
    write_whole(&path, &replace(&page, task, &text)?)
}

/// The page with `text` between the marks of the task.
fn replace(page: &str, task: &str, text: &str) -> Result<String, String> {
    let begin = format!("<!-- written by `cargo xtask {task}`: begin -->");
    let parts = page.split_once(&begin).and_then(|(head, rest)| Some((head, rest.split_once(END)?.1)));
    let (head, tail) = parts.ok_or_else(|| format!("{PAGE} has no `{begin}` … `{END}`"))?;
    Ok(format!("{head}{begin}\n{text}\n{END}{tail}"))
}

/// The description of the machine from `gristmill doctor --json`.
fn machine(doctor: &Value) -> Result<String, String> {
    let (cpu, cores) = (&doctor["model_name"], &doctor["cores"]);
    match (cpu.as_str(), cores.as_u64()) {
        (Some(cpu), Some(cores)) => Ok(format!("{cpu}, {cores} cores")),
        _ => Err(format!("`gristmill doctor --json` has model_name {cpu} and cores {cores}")),
    }
}

fn without_path(arg: &str) -> &str {
    let path = Path::new(arg);
    match arg.contains('/') {
        true if path.is_dir() => "DIR",
        true if path.extension().is_some_and(|extension| extension == "onnx") => "FILE",
        true if path.is_file() => "PYTHON",
        _ => arg,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A table was once of a machine `unknown`.
    #[test]
    fn a_table_names_its_machine() {
        let doctor = parse(r#"{"model_name": "AMD EPYC", "cores": 2}"#).unwrap();
        assert_eq!(machine(&doctor).unwrap(), "AMD EPYC, 2 cores");
        assert!(machine(&parse(r#"{"cpu": "AMD EPYC"}"#).unwrap()).is_err());
    }

    #[test]
    fn each_task_replaces_its_own_part() {
        let page = "a\n<!-- written by `cargo xtask peers`: begin -->\nold\n<!-- end -->\nb\n\
            <!-- written by `cargo xtask peers encoders`: begin -->\nolder\n<!-- end -->\nc";
        let replaced = replace(page, "peers encoders", "new").unwrap();
        assert!(replaced.contains("\nold\n") && replaced.contains("\nnew\n") && replaced.ends_with("\nc"));
        assert!(!replaced.contains("older"));
        let replaced = replace(page, "peers", "new").unwrap();
        assert!(replaced.contains("\nolder\n") && !replaced.contains("\nold\n"));
        assert!(replace(page, "start", "new").is_err());
    }
}
