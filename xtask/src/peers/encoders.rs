//! Encoders: Gristmill and other programs on the same token ids, in turn.
//!
//! A peer has many settings (graphs, batch sizes, threads), so each is tried once before the rounds, which is not counted,
//! and the [`KEPT`] fastest of each peer run in the rounds. Servers are a table of their own, of Gristmill's beside
//! llama.cpp's: what HTTP costs is in both.

mod memory;
mod programs;
mod table;

use super::{Paths, llama, page};
use crate::shell::{TaskResult, call, root};
use programs::{Peer, Subject};
use std::path::{Path, PathBuf};
use std::process::Command;
use table::Line;

/// The word behind `cargo xtask peers`.
pub const WORD: &str = "encoders";
/// The word for the table of memory.
const MEMORY: &str = "memory";

pub const HELP: &str = "\
usage: cargo xtask peers encoders --python PYTHON [FLAGS] [MODEL/CASE...]

  A model is a name below --models or of `gristmill pull`; `bge-small` has random weights in its shape, unless it is there. A case is
  uniform-128, uniform-512, mix-5-512 (lengths in tokens; the mix is log-uniform) or query-16 (one text, p50). `memory` is the resident
  memory of the servers after 100,000 texts of the mix's lengths. Without cases, all of the tables in docs/performance.md.

  --python PYTHON  a Python with tools/peers/requirements-encoders.txt: ONNX Runtime in int8 and in f32, and sentence-transformers
  --models DIR     folder of checkpoints as sentence-transformers has them
  --published FILE the int8 graph of bge-small that its users download (.onnx), as a further setting of ONNX Runtime
  --rounds N       rounds of ours and theirs (5)
  --threads N      threads of each program (2)
  --llama DIR      folder with llama-server of llama.cpp; built from llama-cpp-python's sources if left out
  --ours FLAGS     flags of Gristmill for all models, as one argument
  --alone          leave the peers out
  --write          put the tables into docs/performance.md
";

const MODELS: [&str; 3] = ["all-minilm-l6-v2", BGE, "all-mpnet-base-v2"];
const CASES: [&str; 4] = ["uniform-128", "uniform-512", "mix-5-512", "query-16"];

/// A shape of which no package has the weights.
const BGE: &str = "bge-small";
/// The checkpoint whose tokenizer it has: both have BERT's vocabulary.
const BGE_LIKE: &str = "all-minilm-l6-v2";

/// Settings of a peer that run in the rounds: the fastest of those tried before, as the first trial may err.
const KEPT: usize = 2;

struct Options {
    python: PathBuf,
    models: Option<PathBuf>,
    published: Option<PathBuf>,
    rounds: usize,
    threads: String,
    llama: Option<PathBuf>,
    ours: Vec<String>,
    alone: bool,
    write: bool,
    /// Model and case of each line.
    cases: Vec<(String, String)>,
    memory: bool,
}

impl Options {
    fn parse(args: &[&str]) -> Result<Options, String> {
        let mut options = Options {
            python: PathBuf::new(),
            models: None,
            published: None,
            rounds: 5,
            threads: "2".into(),
            llama: None,
            ours: Vec::new(),
            alone: false,
            write: false,
            cases: Vec::new(),
            memory: false,
        };
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            let mut value = || args.next().copied().ok_or_else(|| format!("{arg} needs a value\n{HELP}"));
            let number = |text: &str| {
                let number = text.parse::<usize>().ok().filter(|n| (1..=1000).contains(n));
                number.ok_or_else(|| format!("{arg} {text}: 1 to 1000"))
            };
            match *arg {
                "--python" => options.python = value()?.into(),
                "--models" => options.models = Some(value()?.into()),
                "--published" => options.published = Some(value()?.into()),
                "--rounds" => options.rounds = number(value()?)?,
                "--threads" => options.threads = number(value()?)?.to_string(),
                "--llama" => options.llama = Some(value()?.into()),
                "--ours" => options.ours = value()?.split_whitespace().map(str::to_owned).collect(),
                "--alone" => options.alone = true,
                "--write" => options.write = true,
                flag if flag.starts_with('-') => return Err(format!("`{flag}` is no flag\n{HELP}")),
                MEMORY => options.memory = true,
                case => options.cases.push(parse_case(case)?),
            }
        }
        if options.python.as_os_str().is_empty() {
            return Err(format!("--python is needed\n{HELP}"));
        }
        if options.cases.is_empty() && !options.memory {
            let of = |model: &'static str| CASES.map(|case| (model.to_owned(), case.to_owned()));
            options.cases = MODELS.into_iter().flat_map(of).collect();
            options.memory = true;
        }
        Ok(options)
    }

    /// The command of the script, which knows the cases.
    fn script(&self) -> Command {
        let mut command = Command::new(&self.python);
        command.arg(root().join("tools/peers/encoders.py"));
        command
    }

    /// The checkpoint of a model: below `--models`, of a shape, or pulled.
    fn checkpoint(&self, paths: &Paths, model: &str) -> Result<PathBuf, String> {
        if let Some(folder) =
            self.models.as_ref().map(|models| models.join(model)).filter(|path| path.is_dir())
        {
            return Ok(folder);
        }
        if model != BGE {
            let path = paths.file(model)?;
            return Ok(if path.is_dir() {
                path
            } else {
                path.parent().map(Path::to_owned).unwrap_or_default()
            });
        }
        let folder = paths.cache.join(WORD).join("shapes").join(model);
        if !folder.exists() {
            let like = self.checkpoint(paths, BGE_LIKE)?;
            let parent = folder.parent().unwrap_or(&folder);
            std::fs::create_dir_all(parent).map_err(|error| format!("{}: {error}", parent.display()))?;
            call(self.script().args(["shape", model]).arg(&folder).arg("--like").arg(like))?;
        }
        Ok(folder)
    }

    /// The checkpoint, and the folder of the peers' files, which are made once.
    fn subject(&self, paths: &Paths, model: &str) -> Result<Subject, String> {
        let checkpoint = self.checkpoint(paths, model)?;
        let folder = paths.cache.join(WORD).join(model);
        if !self.alone && !folder.exists() {
            let mut convert = self.script();
            convert
                .arg("convert")
                .arg(&checkpoint)
                .arg(&folder)
                .arg("--llama")
                .arg(llama::sources(&paths.cache)?);
            if let Some(file) = self.published.as_ref().filter(|_| model == BGE) {
                convert.arg("--published").arg(file);
            }
            call(&mut convert)?;
        }
        Ok(Subject { model: model.to_owned(), checkpoint, folder })
    }
}

fn parse_case(text: &str) -> Result<(String, String), String> {
    match text.split_once('/') {
        Some((model, case)) if !model.is_empty() && CASES.contains(&case) => {
            Ok((model.to_owned(), case.to_owned()))
        }
        _ => Err(format!("`{text}` is no case: MODEL/ and one of {}", CASES.join(", "))),
    }
}

pub fn run(args: &[&str]) -> TaskResult {
    if let ["--help"] = args {
        print!("{HELP}");
        return Ok(());
    }
    let options = Options::parse(args)?;
    let paths = Paths::new()?;
    let llama = match &options.llama {
        Some(folder) => folder.clone(),
        None => llama::build(&paths.cache, false)?,
    };
    let mut tables = Vec::new();
    for peers in
        [programs::in_process(&options, &paths.ours), programs::servers(&options, &paths.ours, &llama)]
    {
        if !options.cases.is_empty() {
            tables.push(comparison(&options, &paths, &peers)?);
        }
    }
    if options.memory {
        let table = memory::table(&options, &paths, &llama)?;
        println!("{table}");
        tables.push(table);
    }
    if !options.write {
        return Ok(());
    }
    let titles = programs::titles(&options)?;
    let titles: Vec<&str> = titles.iter().map(String::as_str).collect();
    page::publish(&paths.ours, "peers encoders", &tables.join("\n\n"), &titles, args)
}

/// The table of the first of `programs`, which is Gristmill, beside the others. Prints each line as soon as it is measured.
fn comparison(options: &Options, paths: &Paths, programs: &[Peer<'_>]) -> Result<String, String> {
    let head = table::head(programs);
    println!("{head}");
    let mut lines = vec![head];
    for (model, case) in &options.cases {
        let line = measure(options, programs, &options.subject(paths, model)?, case)?;
        println!("{line}");
        lines.push(line);
    }
    Ok(lines.join("\n"))
}

/// Measures a case and returns its line of the table.
fn measure(
    options: &Options,
    programs: &[Peer<'_>],
    subject: &Subject,
    case: &str,
) -> Result<String, String> {
    let Some((ours, peers)) = programs.split_first() else { return Err("no program".into()) };
    let mut line = Line::new(subject, case);
    let mut chosen: Vec<Vec<String>> = Vec::new();
    for peer in peers {
        let tried = peer.measure(subject, case, &[]).unwrap_or_else(|error| {
            eprintln!("{}/{case}: {} is left out, as it failed: {error}", subject.model, peer.name);
            Vec::new()
        });
        tried.iter().for_each(|(flags, rate)| {
            eprintln!("{}/{case}: {} {flags}: {rate:.2}", subject.model, peer.name)
        });
        chosen.push(fastest(tried, KEPT));
    }
    for round in 1..=options.rounds {
        eprintln!("{}/{case}: round {round} of {}", subject.model, options.rounds);
        let mine = ours.measure(subject, case, &[])?;
        line.ours.extend(mine.first().map(|(_, rate)| *rate));
        for (at, (peer, chosen)) in peers.iter().zip(&chosen).enumerate() {
            if chosen.is_empty() {
                continue;
            }
            line.add(at, peer.measure(subject, case, chosen)?);
        }
    }
    Ok(line.text(peers))
}

/// The flags of the fastest settings.
fn fastest(mut tried: Vec<(String, f64)>, count: usize) -> Vec<String> {
    tried.sort_by(|a, b| b.1.total_cmp(&a.1));
    tried.into_iter().take(count).map(|(flags, _)| flags).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_and_flags_are_read() {
        let options =
            Options::parse(&["--python", "p", "--rounds", "3", "a/mix-5-512", "--ours", "-t 2"]).unwrap();
        assert_eq!(options.cases, [("a".to_owned(), "mix-5-512".to_owned())]);
        assert_eq!((options.rounds, options.ours.len(), options.memory), (3, 2, false));
        let all = Options::parse(&["--python", "p"]).unwrap();
        assert_eq!((all.cases.len(), all.memory), (12, true));
        assert!(Options::parse(&["--python", "p", MEMORY]).unwrap().cases.is_empty());
        assert!(Options::parse(&[]).is_err() && Options::parse(&["--python", "p", "a/b"]).is_err());
        assert!(Options::parse(&["--python", "p", "--rounds", "0"]).is_err());
    }

    #[test]
    fn the_fastest_settings_are_kept() {
        let tried = [("a", 1.0), ("b", 3.0), ("c", 2.0)].map(|(flags, rate)| (flags.to_owned(), rate));
        assert_eq!(fastest(tried.to_vec(), 2), ["b", "c"]);
        assert!(fastest(Vec::new(), 2).is_empty());
    }
}
