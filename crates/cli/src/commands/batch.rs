//! `gristmill batch IN OUT`: a file of requests in, a file of answers out. `docs/batch-command.md` is its manual.

mod flags;
mod local;
mod remote;
mod shown;
mod submit;

use std::sync::Arc;
use std::time::Duration;

use ::batch::{Cancel, Error, Input, Options, Outcome, Report, Runner, Stopped, Streams};
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};

use crate::Failure;
use crate::term::{err, json};
pub(crate) use flags::Args;

pub(crate) fn run(args: Args) -> Result<(), Failure> {
    let options = args.options()?;
    if args.submit {
        return submit::run(&args, &options);
    }
    if args.dry_run {
        return dry_run(&args, options);
    }
    // The runtime ends before the engine does.
    let (runner, runtime) = runner(&args, &options)?;
    let options = runner.fitted(options);
    let cancel = Cancel::default();
    let shown = shown::Shown::new(args.progress);
    let (watcher, streams) = (shown.watcher(), streams(&args));
    let report = runtime.block_on(async {
        tokio::spawn(cancel_on_signals(cancel.clone()));
        ::batch::run(options, runner.asked(), streams, watcher, cancel).await
    });
    drop(shown);
    runtime.shutdown_timeout(Duration::from_millis(250));
    end(&args, report.map_err(failure)?)
}

/// Who answers, and the identity of what answers.
enum Answering {
    Local(local::Local),
    Remote(Arc<remote::Remote>),
}

impl Answering {
    fn asked(&self) -> Arc<dyn Runner> {
        match self {
            Answering::Local(local) => local.runner(),
            Answering::Remote(remote) => remote.clone(),
        }
    }

    /// The options with what is known of who answers.
    fn fitted(&self, options: Options) -> Options {
        match self {
            Answering::Local(local) => {
                Options { identity: local.identity().to_owned(), concurrency: local.concurrency(), ..options }
            }
            Answering::Remote(remote) => Options { identity: remote.identity(), ..options },
        }
    }
}

fn runner(args: &Args, options: &Options) -> Result<(Answering, Runtime), Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .max_blocking_threads(server::PREPARATIONS + server::TENSOR_THREADS + 8)
        .thread_name("batch")
        .enable_all()
        .build()
        .map_err(|error| Failure::new(format!("cannot start the threads of requests: {error}")))?;
    let answering = {
        let _inside = runtime.enter();
        match &args.url {
            Some(url) => Answering::Remote(Arc::new(remote::Remote::new(args, url, options)?)),
            None => Answering::Local(local::Local::start(args)?),
        }
    };
    Ok((answering, runtime))
}

fn streams(args: &Args) -> Streams {
    let mut streams = Streams::default();
    if args.reads_stream() {
        streams.input = Some(Box::new(std::io::stdin()));
    }
    if args.writes_stream() {
        streams.output = Some(Box::new(std::io::stdout()));
    }
    streams
}

/// SIGTERM and Ctrl-C stop the run where it can go on.
async fn cancel_on_signals(cancel: Cancel) {
    let (Ok(mut interrupt), Ok(mut terminate)) =
        (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
    else {
        return;
    };
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    err!("stopping; what is finished is kept, and the same command goes on");
    cancel.cancel();
}

fn failure(error: Error) -> Failure {
    match error {
        Error::Usage(message) => Failure::usage(message),
        other => other.into(),
    }
}

/// What the report says, and the exit code.
fn end(args: &Args, report: Report) -> Result<(), Failure> {
    if args.json {
        json(&shown::report(&report))?;
    } else {
        err!("{}", shown::sentence(&report));
    }
    let code = report.outcome.exit_code();
    match report.outcome {
        Outcome::Complete => Ok(()),
        Outcome::SomeFailed => Err(Failure { message: String::new(), code }),
        Outcome::Stopped(Stopped::Unavailable) => {
            let fault = report.last_fault.unwrap_or_else(|| "nobody answered".to_owned());
            Err(Failure { message: format!("stopped: {fault}; the same command goes on"), code })
        }
        Outcome::Stopped(_) => Err(Failure { message: String::new(), code }),
    }
}

fn dry_run(args: &Args, options: Options) -> Result<(), Failure> {
    // Tokens are counted where there is a tokenizer at hand: a server, or a model that `--count` loads.
    let (runner, runtime) = match (&args.url, args.count) {
        (None, false) => {
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
            let failed = |error| Failure::new(format!("cannot start a thread: {error}"));
            (None, runtime.map_err(failed)?)
        }
        _ => {
            let (runner, runtime) = runner(args, &options)?;
            (Some(runner), runtime)
        }
    };
    let (prices, input) = (options.prices, options.input.clone());
    let streams = Streams { output: None, ..streams(args) };
    let asked = runner.as_ref().map(Answering::asked);
    let shown = shown::Shown::new(args.progress);
    let planned = ::batch::plan(options, asked, streams, shown.watcher(), Cancel::default());
    let plan = runtime.block_on(planned).map_err(failure)?;
    drop(shown);
    let rates = args.rates();
    if args.json {
        return json(&shown::plan_json(&plan, prices, rates));
    }
    let name = match &input {
        Input::File(path) => path.display().to_string(),
        Input::Stream => "standard input".to_owned(),
    };
    shown::plan(&name, &plan, prices, rates);
    Ok(())
}
