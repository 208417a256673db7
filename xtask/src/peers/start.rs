//! Time until a model is served: Gristmill, llama.cpp's server, and Gristmill with a packed cache, in turn.
//!
//! A virtual machine returns free memory to its host, and getting it back may take most of a start. Memory that was
//! freed a moment ago is still there, so a start right after another is faster. Two methods are fair: a pause before
//! each start, long enough for all free memory to be returned; or an uncounted start before each.

use super::llama::SERVER;
use super::{Paths, median};
use crate::client::Server;
use crate::shell::TaskResult;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

pub const HELP: &str = "\
usage: cargo xtask start --llama DIR [FLAGS] [SHAPE:FORMAT]

  Starts `gristmill serve`, llama-server, and `gristmill serve --packed-cache map` on the same file (qwen3-4b:q4_k_m if none is
  given) in turn, and prints how long each takes until /health answers, in seconds.

  --llama DIR      folder with llama-server of llama.cpp
  --rounds N       rounds of all (3)
  --threads N      threads of llama-server (2)
  --pause SECONDS  before each start: 60, in which a virtual machine's free memory goes back to its host. With 0, each start
                   follows one of the same program that does not count, whose memory it finds
";

/// Context length of all servers, in tokens.
pub const CONTEXT: &str = "2048";

struct Options {
    llama: PathBuf,
    rounds: usize,
    threads: String,
    pause: Duration,
    shape: String,
}

impl Options {
    fn parse(args: &[&str]) -> Result<Options, String> {
        let (mut llama, mut rounds, mut threads) = (None, 3, 2);
        let (mut pause, mut shape) = (60, "qwen3-4b:q4_k_m".to_owned());
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            let mut value = || args.next().copied().ok_or_else(|| format!("{arg} needs a value\n{HELP}"));
            let number = |text: &str, least: u64| {
                let number = text.parse::<u64>().ok().filter(|n| (least..=1000).contains(n));
                number.ok_or_else(|| format!("{arg} {text}: {least} to 1000"))
            };
            match *arg {
                "--llama" => llama = Some(PathBuf::from(value()?)),
                "--rounds" => rounds = number(value()?, 1)?,
                "--threads" => threads = number(value()?, 1)?,
                "--pause" => pause = number(value()?, 0)?,
                flag if flag.starts_with('-') => return Err(format!("`{flag}` is no flag\n{HELP}")),
                text => text.clone_into(&mut shape),
            }
        }
        Ok(Options {
            llama: llama.ok_or_else(|| format!("--llama is needed\n{HELP}"))?,
            rounds: usize::try_from(rounds).map_err(|e| e.to_string())?,
            threads: threads.to_string(),
            pause: Duration::from_secs(pause),
            shape,
        })
    }
}

pub fn run(args: &[&str]) -> TaskResult {
    let options = Options::parse(args)?;
    let paths = Paths::new()?;
    let starts = Starts {
        file: &paths.file(&options.shape)?,
        ours: &paths.ours,
        llama: &options.llama,
        threads: &options.threads,
        pause: options.pause,
    };
    let times = starts.measure(options.rounds)?;
    println!(
        "| round | gristmill, s | llama-server, s | gristmill with a packed cache, s |\n|---|---|---|---|"
    );
    for (round, [plain, theirs, packed]) in times.iter().enumerate() {
        println!("| {} | {plain:.2} | {theirs:.2} | {packed:.2} |", round + 1);
    }
    let ratio = |at: usize| median(&mut times.iter().map(|times| times[at] / times[1]).collect::<Vec<_>>());
    println!("| ours / llama-server | {:.2} | | {:.2} |", ratio(0), ratio(2));
    Ok(())
}

/// The servers to start, and the method.
pub struct Starts<'a> {
    pub file: &'a Path,
    pub ours: &'a Path,
    /// The folder with llama-server.
    pub llama: &'a Path,
    pub threads: &'a str,
    pub pause: Duration,
}

impl Starts<'_> {
    /// Seconds until Gristmill, llama-server, and Gristmill with a packed cache are ready, by round.
    pub fn measure(&self, rounds: usize) -> Result<Vec<[f64; 3]>, String> {
        let plain = |port: &str| serve(self.ours, self.file, port);
        let packed = |port: &str| {
            let mut command = serve(self.ours, self.file, port);
            command.args(["--packed-cache", "map"]);
            command
        };
        let theirs = |port: &str| {
            let mut command = quiet(&self.llama.join(SERVER));
            command.env("LD_LIBRARY_PATH", self.llama).arg("-m").arg(self.file);
            command.args(["-t", self.threads, "-np", "1", "-c", CONTEXT, "--port", port]);
            command
        };
        // The first start writes the packed cache and reads the file into the page cache.
        Server::with(&packed)?;
        let round = |round| {
            eprintln!("start: round {} of {rounds}", round + 1);
            Ok([self.seconds(&plain)?, self.seconds(&theirs)?, self.seconds(&packed)?])
        };
        (0..rounds).map(round).collect()
    }

    /// Seconds until the server that `command` makes for a port is ready.
    fn seconds(&self, command: &dyn Fn(&str) -> Command) -> Result<f64, String> {
        let start = || Server::with(command).map(|(_, after)| after.as_secs_f64());
        if self.pause.is_zero() {
            start()?;
        }
        std::thread::sleep(self.pause);
        start()
    }
}

/// The command of `gristmill serve` for one request at a time.
pub fn serve(ours: &Path, file: &Path, port: &str) -> Command {
    let mut command = quiet(ours);
    command.arg("serve").arg(file).args(["--parallel", "1", "--context", CONTEXT, "--port", port]);
    command
}

/// A command without output: the server's log would hide the table.
fn quiet(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
    command.current_dir(std::env::temp_dir());
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_read() {
        let options = Options::parse(&["--llama", "bin", "--pause", "0", "a:b"]).unwrap();
        assert_eq!((options.rounds, options.threads.as_str(), options.shape.as_str()), (3, "2", "a:b"));
        assert!(options.pause.is_zero());
        assert!(Options::parse(&[]).is_err() && Options::parse(&["--llama"]).is_err());
        assert!(Options::parse(&["--llama", "bin", "--rounds", "0"]).is_err());
    }
}
