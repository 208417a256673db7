//! `gateway-load`: HTTP load at full speed, at a fixed rate, or as streams that are held open.

use fake_provider::{Flags, Load, LoadMode, LoadReport};
use std::error::Error;
use std::io::{Write, stderr, stdout};
use std::process::ExitCode;
use std::time::Duration;

const USAGE: &str = "\
gateway-load --url URL [FLAGS]: sends requests and tells what became of them
  --url URL            http://HOST:PORT/PATH
  --body FILE          body of a POST; without it requests are GET
  --header 'NAME: V'   a header; may be repeated
  --connections N      connections (32)
  --rate N             open loop: N requests a second; latencies begin when a request is due
  --streams            hold one stream a connection to the end
  --warmup S           seconds before the measurement (1)
  --seconds S          seconds of the measurement (5)
  --timeout S          longest wait for an answer, or for the next bytes of a held stream (30)
  --ends-with TEXT     what a whole answer ends with ('[DONE]\\n\\n' for streams: \\n is a line's end)
  --threads N          threads (1)
  --json               the report as JSON
";

struct Options {
    load: Load,
    threads: usize,
    json: bool,
}

fn defaults() -> Options {
    let load = Load {
        url: String::new(),
        body: Default::default(),
        headers: Vec::new(),
        connections: 32,
        mode: LoadMode::Closed,
        warmup: Duration::from_secs(1),
        time: Duration::from_secs(5),
        timeout: Duration::from_secs(30),
        ends_with: None,
    };
    Options { load, threads: 1, json: false }
}

fn seconds(flags: &mut Flags, flag: &str) -> Result<Duration, Box<dyn Error>> {
    Duration::try_from_secs_f64(flags.value(flag)?).map_err(|e| format!("{flag}: {e}").into())
}

fn options(mut flags: Flags) -> Result<Option<Options>, Box<dyn Error>> {
    let mut options = defaults();
    let load = &mut options.load;
    while let Some(flag) = flags.flag() {
        match flag.as_str() {
            "--help" | "-h" => return Ok(None),
            "--url" => load.url = flags.value(&flag)?,
            "--body" => {
                let path: String = flags.value(&flag)?;
                load.body = std::fs::read(&path).map_err(|e| format!("{path}: {e}"))?.into();
            }
            "--header" => {
                let header: String = flags.value(&flag)?;
                let (name, value) = header.split_once(':').ok_or("--header needs `NAME: VALUE`")?;
                load.headers.push((name.trim().to_owned(), value.trim().to_owned()));
            }
            "--connections" => load.connections = flags.value(&flag)?,
            "--rate" => load.mode = LoadMode::Open { rate: flags.value(&flag)? },
            "--streams" => load.mode = LoadMode::Streams,
            "--warmup" => load.warmup = seconds(&mut flags, &flag)?,
            "--seconds" => load.time = seconds(&mut flags, &flag)?,
            "--timeout" => load.timeout = seconds(&mut flags, &flag)?,
            "--ends-with" => {
                load.ends_with = Some(flags.value::<String>(&flag)?.replace("\\n", "\n"));
            }
            "--threads" => options.threads = flags.value(&flag)?,
            "--json" => options.json = true,
            _ => return Err(Flags::unknown(&flag, USAGE).into()),
        }
    }
    Ok(Some(options))
}

fn print(report: &LoadReport, json: bool) -> Result<(), Box<dyn Error>> {
    if json {
        return Ok(writeln!(stdout(), "{}", serde_json::to_string(report)?)?);
    }
    let LoadReport { seconds, answered, per_second, errors, latency, first_byte, bytes } = report;
    writeln!(stdout(), "{answered} answered in {seconds} s: {per_second:.1}/s, {bytes} bytes")?;
    for (what, times) in [("latency", latency), ("first byte", first_byte)] {
        writeln!(
            stdout(),
            "{what}: mean {:.3} ms, p50 {:.3}, p90 {:.3}, p99 {:.3}, p99.9 {:.3}, max {:.3}",
            times.mean_ms,
            times.p50_ms,
            times.p90_ms,
            times.p99_ms,
            times.p999_ms,
            times.max_ms
        )?;
    }
    for (kind, count) in errors {
        writeln!(stdout(), "error: {count} × {kind}")?;
    }
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
    print(&runtime.block_on(options.load.run())?, options.json)
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // If standard error is closed, the exit code tells.
            let _ = writeln!(stderr(), "gateway-load: {error}");
            ExitCode::FAILURE
        }
    }
}
