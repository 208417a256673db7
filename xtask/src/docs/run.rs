//! `cargo xtask docs --run`: runs the code blocks of README.md and `docs/` as written.
//!
//! Each page runs from top to bottom in its own folder and home, with the built `gristmill` and a Python with the
//! client packages first in `PATH`, and in its own network namespace where the system allows it: port 8080 is then
//! free, and nothing is downloaded. A block that cannot run has a comment before it that says why (`docs/blocks.rs`).

use super::blocks::{self, Block, Part, Use};
use crate::program::Program;
use crate::shell::{TaskResult, has, output, root};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Pages without instructions: the list of flags, and records of measurements.
const SKIPPED_PAGES: [&str; 2] = ["cli.md", "planner-predictions.md"];
/// The model that stands for `model.gguf`, a reader's own file.
const MODEL: &str = "smollm2-135m-instruct";
/// Timeout of a page.
const PAGE_TIMEOUT: Duration = Duration::from_secs(900);
/// Number of last lines of a failed step's output that are shown.
const SHOWN_LINES: usize = 15;

/// Counts of a page's blocks, by result.
#[derive(Default)]
struct Count {
    run: usize,
    skipped: usize,
    /// Page and line of each that failed.
    failed: Vec<String>,
}

/// Runs all pages, or those whose path contains `only`.
pub fn run(program: &Program, python: &Path, only: Option<&str>) -> TaskResult {
    let folder = std::env::temp_dir().join(format!("gristmill-docs-{}", std::process::id()));
    let made = followed(program, python, only, &folder);
    let _ = fs::remove_dir_all(&folder);
    made
}

fn followed(program: &Program, python: &Path, only: Option<&str>, folder: &Path) -> TaskResult {
    let store = store(program)?;
    let network = has("unshare", "-rn") && has("ip", "-V");
    if !network {
        eprintln!("no network namespace can be had here: the pages use port 8080 of this machine");
    }
    let mut sum = Count::default();
    for page in pages()? {
        let name = page.strip_prefix(root()).unwrap_or(&page).display().to_string();
        if only.is_some_and(|only| !name.contains(only)) {
            continue;
        }
        let start = Instant::now();
        let page_run =
            PageRun { folder: folder.join(name.replace('/', "-")), store: &store, program, python, network };
        let count = page_run.follow(&name, &text(&page)?)?;
        let seconds = start.elapsed().as_secs_f64();
        eprintln!(
            "{name}: {} run, {} not run, {} failed, {seconds:.0} s",
            count.run,
            count.skipped,
            count.failed.len()
        );
        sum.run += count.run;
        sum.skipped += count.skipped;
        sum.failed.extend(count.failed);
    }
    eprintln!("code blocks of all pages: {} run, {} not run", sum.run, sum.skipped);
    if sum.failed.is_empty() {
        return Ok(());
    }
    Err(format!("{} code blocks of the docs fail:\n{}", sum.failed.len(), sum.failed.join("\n")))
}

/// Checks that every block has a known language and that comments before blocks can be parsed.
pub fn readable() -> TaskResult {
    for page in pages()? {
        blocks::of(&text(&page)?).map_err(|error| format!("{}: {error}", page.display()))?;
    }
    Ok(())
}

/// README.md and the pages directly in `docs/`. Subfolders hold decisions and notes on machines, not instructions.
fn pages() -> Result<Vec<PathBuf>, String> {
    let docs = root().join("docs");
    let entries = fs::read_dir(&docs).map_err(|error| format!("{}: {error}", docs.display()))?;
    let mut pages: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    pages.retain(|page| {
        page.extension().is_some_and(|ext| ext == "md")
            && !SKIPPED_PAGES.iter().any(|name| page.ends_with(name))
    });
    pages.sort();
    pages.insert(0, root().join("README.md"));
    Ok(pages)
}

fn text(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// The folder with the models that are installed on this machine.
fn store(program: &Program) -> Result<PathBuf, String> {
    let listed = output(&mut program.command(&["pull", MODEL, "--json"]))?;
    let listed: serde_json::Value =
        serde_json::from_str(&listed).map_err(|error| format!("gristmill pull --json: {error}"))?;
    let path = listed[0]["path"].as_str().ok_or("gristmill pull --json has no path")?;
    let models = Path::new(path).ancestors().find(|folder| folder.ends_with("models"));
    models.map(Path::to_owned).ok_or_else(|| format!("{path} is in no folder `models`"))
}

/// The environment in which a page runs.
struct PageRun<'a> {
    folder: PathBuf,
    store: &'a Path,
    program: &'a Program,
    python: &'a Path,
    network: bool,
}

impl PageRun<'_> {
    fn follow(&self, name: &str, page: &str) -> Result<Count, String> {
        let blocks = blocks::of(page).map_err(|error| format!("{name}: {error}"))?;
        let mut count = Count::default();
        count.skipped = blocks.iter().filter(|block| matches!(block.use_, Use::Skip(_))).count();
        if !blocks.iter().any(|block| block.use_ == Use::Run) {
            return Ok(count);
        }
        self.make(page).map_err(|error| format!("{}: {error}", self.folder.display()))?;
        let steps = self.steps(&blocks).map_err(|error| format!("{}: {error}", self.folder.display()))?;
        fs::write(self.state().join("steps"), &steps).map_err(|error| error.to_string())?;
        self.call()?;
        let results = self.results();
        for block in blocks.iter().filter(|block| block.use_ == Use::Run) {
            count.run += 1;
            if let Some(problem) = self.problem(block, &results) {
                let problem = format!("{name}:{}: {problem}", block.line);
                eprintln!("{problem}");
                count.failed.push(problem);
            }
        }
        Ok(count)
    }

    fn state(&self) -> PathBuf {
        self.folder.join("state")
    }

    /// Creates a folder that looks like the checkout, and a home with the models that the page names.
    fn make(&self, page: &str) -> std::io::Result<()> {
        let (work, models) = (self.folder.join("work"), self.folder.join("home/.cache/gristmill/models"));
        for folder in [&work, &models, &self.state()] {
            fs::create_dir_all(folder)?;
        }
        for entry in fs::read_dir(root())?.flatten() {
            if entry.file_name() != ".git" {
                std::os::unix::fs::symlink(entry.path(), work.join(entry.file_name()))?;
            }
        }
        for entry in fs::read_dir(self.store)?.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if name == MODEL || page.contains(&name) {
                link(&entry.path(), &models.join(&name))?;
            }
        }
        // A refused request fails its block.
        fs::write(self.folder.join("home/.curlrc"), "fail-with-body\nsilent\nshow-error\n")?;
        if page.contains("model.gguf") {
            let mut files = fs::read_dir(models.join(MODEL))?.flatten().map(|entry| entry.path());
            let own = files.find(|path| path.extension().is_some_and(|ext| ext == "gguf"));
            own.map_or(Ok(()), |own| link(&own, &work.join("model.gguf")))?;
        }
        Ok(())
    }

    /// Writes each step to a file and returns the lines that `run.sh` reads.
    fn steps(&self, blocks: &[Block]) -> std::io::Result<String> {
        let mut steps = String::new();
        let mut number = 0;
        let mut step = |line: usize, kind: &str, text: &str, server: Option<(u16, bool)>| {
            number += 1;
            let file = self.state().join(format!("step-{number}"));
            fs::write(&file, text)?;
            let _ = write!(steps, "{line}\t{kind}\t{}", file.display());
            if let Some((port, tls)) = server {
                let _ = write!(steps, "\t{port}\t{}", if tls { "https" } else { "http" });
            }
            steps.push('\n');
            Ok::<(), std::io::Error>(())
        };
        for block in blocks {
            match (&block.use_, block.language.as_str()) {
                (Use::Run, "python") => step(block.line, "python", &block.text, None)?,
                (Use::Run, language) => {
                    let text = if language == "console" { typed(&block.text) } else { block.text.clone() };
                    for part in blocks::parts(&released(&text)) {
                        match part {
                            Part::Commands(text) => step(block.line, "sh", &text, None)?,
                            Part::Server { command, port, tls } => {
                                step(block.line, "serve", &command, Some((port, tls)))?
                            }
                        }
                    }
                }
                (Use::Save(name), _) => step(
                    block.line,
                    "sh",
                    &format!("cat >'{name}' <<'END OF FILE'\n{}END OF FILE\n", block.text),
                    None,
                )?,
                (Use::Skip(_) | Use::Show, _) => {}
            }
        }
        Ok(steps)
    }

    fn call(&self) -> TaskResult {
        let script = self.state().join("run.sh");
        fs::write(&script, include_str!("run.sh")).map_err(|error| error.to_string())?;
        let mut command = if self.network { Command::new("unshare") } else { Command::new("bash") };
        if self.network {
            command.args(["-rn", "bash"]);
        }
        let bin = self.folder.join("bin");
        fs::create_dir_all(&bin).map_err(|error| error.to_string())?;
        let program = self.program.command(&[]);
        let _ = std::os::unix::fs::symlink(Path::new(program.get_program()), bin.join("gristmill"));
        let path = std::env::var("PATH").unwrap_or_default();
        let packages = self.python.parent().unwrap_or(self.python);
        for (name, _) in std::env::vars_os() {
            let name = name.to_string_lossy();
            if ["GRISTMILL_", "HF_", "XDG_", "CARGO", "OTEL_"].iter().any(|start| name.starts_with(start))
                || name.to_lowercase().ends_with("_proxy")
            {
                command.env_remove(&*name);
            }
        }
        command.arg(script).current_dir(self.folder.join("work")).env("STATE", self.state());
        command
            .env("HOME", self.folder.join("home"))
            .env("PATH", format!("{}:{}:{path}", bin.display(), packages.display()));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        let mut child = command.spawn().map_err(|error| format!("cannot run the page: {error}"))?;
        let start = Instant::now();
        let group = format!("-{}", child.id());
        loop {
            match child.try_wait() {
                Ok(Some(_)) => return Ok(()),
                Ok(None) if start.elapsed() < PAGE_TIMEOUT => std::thread::sleep(Duration::from_millis(100)),
                Ok(None) | Err(_) => {
                    let servers = fs::read_to_string(self.state().join("servers")).unwrap_or_default();
                    let groups = servers.lines().map(|server| format!("-{server}")).chain([group]);
                    let _ = Command::new("kill").args(["-9", "--"]).args(groups).status();
                    let _ = child.wait();
                    return Ok(());
                }
            }
        }
    }

    /// The worst exit status of the steps of each block, by the block's line.
    fn results(&self) -> BTreeMap<usize, i32> {
        let written = fs::read_to_string(self.state().join("results")).unwrap_or_default();
        let mut results = BTreeMap::new();
        for (line, status) in written.lines().filter_map(|line| line.split_once('\t')) {
            if let (Ok(line), Ok(status)) = (line.parse(), status.parse::<i32>()) {
                let worst = results.entry(line).or_insert(0);
                *worst = status.max(*worst);
            }
        }
        results
    }

    fn problem(&self, block: &Block, results: &BTreeMap<usize, i32>) -> Option<String> {
        let status = match results.get(&block.line) {
            Some(0) => return None,
            Some(124) => "is not over after 240 s".to_owned(),
            Some(status) => format!("exit code {status}"),
            None => "was not reached".to_owned(),
        };
        let log = fs::read(self.state().join(format!("log-{}", block.line))).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let lines: Vec<&str> = log.lines().collect();
        let tail = lines[lines.len().saturating_sub(SHOWN_LINES)..].join("\n    ");
        Some(format!("{status}\n    {tail}"))
    }
}

/// The commands of a block of language `console`, without the output that it shows.
fn typed(text: &str) -> String {
    let lines: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("$ ")).collect();
    lines.join("\n") + "\n"
}

/// Replaces release builds by the program under test, which gives the same results and saves ten minutes.
fn released(text: &str) -> String {
    text.replace("cargo run --release -- ", "gristmill ")
}

/// Hard-links a file, or all files of a folder; copies across file systems.
fn link(from: &Path, to: &Path) -> std::io::Result<()> {
    if from.is_dir() {
        fs::create_dir_all(to)?;
        return fs::read_dir(from)?
            .flatten()
            .try_for_each(|entry| link(&entry.path(), &to.join(entry.file_name())));
    }
    if from.extension().is_some_and(|ext| ext == "packed") {
        return Ok(());
    }
    fs::hard_link(from, to).or_else(|_| {
        let modified = fs::metadata(from)?.modified()?;
        fs::copy(from, to)?;
        fs::File::options().write(true).open(to)?.set_modified(modified)
    })
}
