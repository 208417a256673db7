//! How long until a model is served: ours, llama.cpp's server, and ours with a packed cache, in turn.
//!
//! A virtual machine gives memory that nobody uses back to its host, and finding it again may take most of a start. What was freed
//! a moment ago is still there, so who starts right after another starts faster. Hence two ways that are fair to all: a pause
//! before each start, long enough for all that is free to have gone back; or a start before each that does not count.

use super::{Places, median};
use crate::client::Server;
use crate::shell::Done;
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

/// What all of them are started with room for.
const CONTEXT: &str = "2048";

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

pub fn run(args: &[&str]) -> Done {
    let options = Options::parse(args)?;
    let places = Places::new()?;
    let file = places.file(&options.shape)?;
    let serve = |port: &str, flags: &[&str]| {
        let mut command = quiet(&places.ours);
        command.arg("serve").arg(&file).args(["--parallel", "1", "--context", CONTEXT, "--port", port]);
        command.args(flags);
        command
    };
    let plain = |port: &str| serve(port, &[]);
    let packed = |port: &str| serve(port, &["--packed-cache", "map"]);
    let theirs = |port: &str| {
        let mut command = quiet(&options.llama.join("llama-server"));
        command.env("LD_LIBRARY_PATH", &options.llama).arg("-m").arg(&file);
        command.args(["-t", &options.threads, "-np", "1", "-c", CONTEXT, "--port", port]);
        command
    };
    // The first one writes the cache and reads the file into memory.
    Server::with(&packed)?;
    let mut times = [Vec::new(), Vec::new(), Vec::new()];
    println!(
        "| round | gristmill, s | llama-server, s | gristmill with a packed cache, s |\n|---|---|---|---|"
    );
    for round in 1..=options.rounds {
        let commands: [&dyn Fn(&str) -> Command; 3] = [&plain, &theirs, &packed];
        for (command, times) in commands.into_iter().zip(&mut times) {
            times.push(options.seconds(command)?);
        }
        let [plain, theirs, packed] = times.each_ref().map(|times| times[round - 1]);
        println!("| {round} | {plain:.2} | {theirs:.2} | {packed:.2} |");
    }
    let ratio =
        |ours: &[f64]| median(&mut ours.iter().zip(&times[1]).map(|(o, t)| o / t).collect::<Vec<_>>());
    println!("| ours / llama-server | {:.2} | | {:.2} |", ratio(&times[0]), ratio(&times[2]));
    Ok(())
}

/// Its log would drown the table.
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
