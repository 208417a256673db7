//! `fake-provider`: a commercial API on loopback that is not one.

use fake_provider::{Flags, Provider, Script};
use std::error::Error;
use std::io::{Write, stderr, stdout};
use std::net::SocketAddr;
use std::process::ExitCode;

const USAGE: &str = "\
fake-provider [FLAGS]: answers like OpenAI, Anthropic and Gemini, and fails as its script says
  --listen ADDR        address (127.0.0.1:9099)
  --script FILE        script in TOML; the flags after it change it
  --tokens N           tokens of an answer (16)
  --first-token-ms N   wait before the first token (0)
  --gap-ms N           wait between two tokens (0)
  --seed N             where words and faults are drawn from (1)
  --log-records N      requests that GET /_fake/log tells of (4096); 0 is fastest
  --repeat             equal requests get equal bytes, and are not logged: fastest
  --threads N          threads (1)
GET /_fake/totals and /_fake/log tell what happened; PUT /_fake/script takes another script.
";

struct Options {
    listen: SocketAddr,
    script: Script,
    threads: usize,
}

fn options(mut flags: Flags) -> Result<Option<Options>, Box<dyn Error>> {
    let mut options =
        Options { listen: SocketAddr::from(([127, 0, 0, 1], 9099)), script: Script::new(), threads: 1 };
    while let Some(flag) = flags.flag() {
        let script = &mut options.script;
        match flag.as_str() {
            "--help" | "-h" => return Ok(None),
            "--listen" => options.listen = flags.value(&flag)?,
            "--script" => {
                let path: String = flags.value(&flag)?;
                let text = std::fs::read_to_string(&path).map_err(|e| format!("{path}: {e}"))?;
                *script = Script::parse(&text)?;
            }
            "--tokens" => script.tokens = flags.value(&flag)?,
            "--first-token-ms" => script.first_token_ms = flags.value(&flag)?,
            "--gap-ms" => script.gap_ms = flags.value(&flag)?,
            "--seed" => script.seed = flags.value(&flag)?,
            "--log-records" => script.log_records = flags.value(&flag)?,
            "--repeat" => script.repeat = true,
            "--threads" => options.threads = flags.value(&flag)?,
            _ => return Err(Flags::unknown(&flag, USAGE).into()),
        }
    }
    Ok(Some(options))
}

async fn serve(listen: SocketAddr, script: Script) -> Result<(), Box<dyn Error>> {
    let provider = Provider::start_at(listen, script).await?;
    writeln!(stdout(), "fake-provider listening on {}", provider.url())?;
    tokio::signal::ctrl_c().await?;
    Ok(())
}

fn run() -> Result<(), Box<dyn Error>> {
    let Some(options) = options(Flags::new(std::env::args().skip(1)))? else {
        return Ok(write!(stdout(), "{USAGE}")?);
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(options.threads.clamp(1, 64))
        .enable_all()
        .build()?;
    runtime.block_on(serve(options.listen, options.script))
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // If standard error is closed, the exit code tells.
            let _ = writeln!(stderr(), "fake-provider: {error}");
            ExitCode::FAILURE
        }
    }
}
