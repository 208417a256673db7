//! The programs that are compared: some run in a process of their own for each measurement, others are servers.

use super::Options;
use crate::client::Server;
use crate::peers::{llama, number, parse};
use crate::shell::output;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const VERSIONS: &str = "import onnxruntime, sentence_transformers as s, torch; \
    print(f'ONNX Runtime {onnxruntime.__version__}, sentence-transformers {s.__version__} with torch {torch.__version__}')";

/// Settings of llama-server: the file, how many texts it computes together, and flash attention, whose other setting is
/// often faster for short texts.
const SERVERS: [(&str, usize, &str); 6] = [
    ("q8_0", 1, "on"),
    ("q8_0", 1, "off"),
    ("q8_0", 8, "on"),
    ("q8_0", 8, "off"),
    ("q8_0", 32, "on"),
    ("f16", 8, "on"),
];
/// Tokens of the longest text of the cases.
const LONGEST: usize = 512;
/// Tokens that llama-server computes together at most.
const STEP: usize = 4096;

/// A model as the programs read it.
pub struct Subject {
    pub model: String,
    /// Folder of the checkpoint.
    pub checkpoint: PathBuf,
    /// Folder with the graphs and GGUF files that were made of it.
    pub folder: PathBuf,
}

/// The rate of a setting, which its flags name: texts a second, or queries a second by the median time of one.
pub type Rate = (String, f64);

/// A program that takes part, Gristmill included.
pub struct Peer<'a> {
    pub name: &'static str,
    program: Box<dyn Program + 'a>,
}

impl Peer<'_> {
    /// The rates of the settings in `only`, or of all if it is empty. No rates if the program cannot run the model.
    pub fn measure(&self, subject: &Subject, case: &str, only: &[String]) -> Result<Vec<Rate>, String> {
        self.program.measure(subject, case, only)
    }
}

trait Program {
    fn measure(&self, subject: &Subject, case: &str, only: &[String]) -> Result<Vec<Rate>, String>;
}

/// Gristmill, ONNX Runtime in int8 and in f32, and sentence-transformers.
pub fn in_process<'a>(options: &'a Options, ours: &'a Path) -> Vec<Peer<'a>> {
    let mut peers = vec![Peer { name: "Gristmill", program: Box::new(Bench { options, ours }) }];
    let scripts = [
        ("ONNX Runtime int8", "onnxruntime-int8"),
        ("ONNX Runtime f32", "onnxruntime-f32"),
        ("sentence-transformers", "torch"),
    ];
    if !options.alone {
        let peer = |(name, word)| Peer { name, program: Box::new(Script { options, word }) };
        peers.extend(scripts.map(peer));
    }
    peers
}

/// `gristmill serve` and llama-server, asked over HTTP.
pub fn servers<'a>(options: &'a Options, ours: &'a Path, llama: &'a Path) -> Vec<Peer<'a>> {
    let mut peers = vec![Peer { name: "Gristmill", program: Box::new(Served { options, ours }) }];
    if !options.alone {
        peers.push(Peer { name: "llama-server", program: Box::new(LlamaServer { options, llama }) });
    }
    peers
}

/// Names and versions of the peers, for the table's head.
pub fn titles(options: &Options) -> Result<Vec<String>, String> {
    if options.alone {
        return Ok(Vec::new());
    }
    let versions = output(Command::new(&options.python).args(["-c", VERSIONS]))?;
    let versions = versions.lines().last().unwrap_or_default().to_owned();
    Ok(vec![versions, format!("llama-server of {}", llama::PACKAGE)])
}

/// `gristmill bench`.
struct Bench<'a> {
    options: &'a Options,
    ours: &'a Path,
}

impl Program for Bench<'_> {
    fn measure(&self, subject: &Subject, case: &str, _: &[String]) -> Result<Vec<Rate>, String> {
        let mut command = Command::new(self.ours);
        command.arg("bench").arg(&subject.checkpoint).args(["-t", &self.options.threads, "-o", "json"]);
        command.args(["-r", "1", "--case", case]).args(&self.options.ours);
        match parse(&output(&mut command)?)? {
            Value::Array(tests) => {
                let test = tests.iter().find(|test| test["case"] == case);
                let test = test.ok_or_else(|| format!("gristmill bench left {case} out"))?;
                Ok(vec![(String::new(), rate(test)?)])
            }
            other => Err(format!("gristmill bench reported {other:.200}")),
        }
    }
}

/// A program in Python, run by the script.
struct Script<'a> {
    options: &'a Options,
    word: &'static str,
}

impl Program for Script<'_> {
    fn measure(&self, subject: &Subject, case: &str, only: &[String]) -> Result<Vec<Rate>, String> {
        let mut command = self.options.script();
        command.arg("run").arg(&subject.checkpoint).arg(&subject.folder);
        command.args(["--program", self.word, "--case", case, "--threads", &self.options.threads]);
        only.iter().for_each(|flags| _ = command.args(["--only", flags]));
        told(&output(&mut command)?)
    }
}

/// `gristmill serve`, over HTTP.
struct Served<'a> {
    options: &'a Options,
    ours: &'a Path,
}

impl Program for Served<'_> {
    fn measure(&self, subject: &Subject, case: &str, _: &[String]) -> Result<Vec<Rate>, String> {
        let (server, _) = Server::with(&|port| serve(self.options, self.ours, subject, port))?;
        asked(self.options, &server, subject, case)
    }
}

/// llama-server, over HTTP.
struct LlamaServer<'a> {
    options: &'a Options,
    llama: &'a Path,
}

impl Program for LlamaServer<'_> {
    fn measure(&self, subject: &Subject, case: &str, only: &[String]) -> Result<Vec<Rate>, String> {
        let mut rates = Vec::new();
        for setting in SERVERS {
            let name = setting_name(setting);
            // llama.cpp does not know all architectures.
            let able = subject.folder.join(format!("{}.gguf", setting.0)).exists();
            if !able || !(only.is_empty() || only.contains(&name)) {
                continue;
            }
            let command = |port: &str| llama_serve(self.options, self.llama, subject, setting, port);
            let (server, _) = Server::with(&command)?;
            for (_, rate) in asked(self.options, &server, subject, case)? {
                rates.push((name.clone(), rate));
            }
        }
        Ok(rates)
    }
}

fn setting_name((file, together, flash): (&str, usize, &str)) -> String {
    format!("{file} -np {together} -fa {flash}")
}

/// The command of `gristmill serve` for a model.
pub fn serve(options: &Options, ours: &Path, subject: &Subject, port: &str) -> Command {
    let mut command = quiet(ours);
    command.arg("serve").arg(&subject.checkpoint).args(["--port", port, "-t", &options.threads]);
    command.args(&options.ours);
    command
}

/// The command of llama-server for a model.
pub fn llama_serve(
    options: &Options,
    llama: &Path,
    subject: &Subject,
    (file, together, flash): (&str, usize, &str),
    port: &str,
) -> Command {
    let mut command = quiet(&llama.join(llama::SERVER));
    let (context, step) = ((LONGEST * together).to_string(), STEP.min(LONGEST * together).to_string());
    command.env("LD_LIBRARY_PATH", llama).arg("-m").arg(subject.folder.join(format!("{file}.gguf")));
    command.args(["--embedding", "--pooling", "mean", "--port", port, "-fa", flash]);
    command.args(["-t", &options.threads, "-tb", &options.threads, "-np", &together.to_string()]);
    command.args(["-c", &context, "-b", &step, "-ub", &step]);
    command
}

/// A command without output: the server's log would hide the table.
fn quiet(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.stdout(Stdio::null()).stderr(Stdio::null()).current_dir(std::env::temp_dir());
    command
}

/// Asks a server for the vectors of a case's texts.
fn asked(options: &Options, server: &Server, subject: &Subject, case: &str) -> Result<Vec<Rate>, String> {
    let mut command = options.script();
    command.args(["http", &server.url()]).arg(&subject.checkpoint).args(["--case", case]);
    told(&output(&mut command)?)
}

/// The rates in the script's lines; libraries may print lines between them.
fn told(text: &str) -> Result<Vec<Rate>, String> {
    let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let of = |line: Value| Ok((line["flags"].as_str().unwrap_or_default().to_owned(), rate(&line)?));
    lines.filter(Value::is_object).map(of).collect()
}

fn rate(test: &Value) -> Result<f64, String> {
    match test["p50_ms"].as_f64() {
        Some(ms) => Ok(1e3 / ms),
        None => number(test, "texts_per_s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_of_the_scripts_lines() {
        let text =
            "a warning\n{\"flags\": \"batch 1\", \"texts_per_s\": 12.5}\n{\"flags\": \"b\", \"p50_ms\": 4}\n";
        assert_eq!(told(text).unwrap(), [("batch 1".to_owned(), 12.5), ("b".to_owned(), 250.0)]);
        assert!(told("{}").is_err());
        assert_eq!(told("nothing").unwrap(), []);
    }
}
