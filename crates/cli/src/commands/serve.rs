//! `gristmill serve`. `docs/serve.md` is its manual.
//!
//! The socket is bound first and answers 503 while a thread loads the model, so that whoever waits for the server can
//! tell "not yet" from "not there".

mod args;
mod audit;
mod clients;
mod descriptors;
mod door;
mod gateway;
mod in_process;
mod invitation;
mod limits;
mod many;
mod name;
#[cfg(not(feature = "otlp"))]
mod no_traces;
mod operations;
mod prepare;
mod price;
mod reread;
mod signals;
#[cfg(feature = "otlp")]
mod traces;

use std::io::IsTerminal;
use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::encoder::EncoderSetup;
use engine::{Device, Engine, Setup};
use kernels::{Compute, KvDtype};
use server::{Audit, Cors, LoadedModel, Options, Server};
use tokio::runtime::{Handle, Runtime};
use tokio::sync::oneshot;

use crate::Failure;
use crate::encoders::LoadedEncoder;
use crate::kept_jobs;
use crate::loading::{Bar, Loaded};
use crate::store::{self, size};
use crate::term::{self, number, out};
pub(crate) use args::Args;
pub(crate) use door::bytes;
pub(crate) use in_process::in_process;
use invitation::{Example, Invitation, Ready};
#[cfg(not(feature = "otlp"))]
use no_traces::Traces;
pub(crate) use operations::LogFormat;
use prepare::{PlannedModel, Wanted, encoder_limits, measure, planned, text_of, threads};
use reread::Reading;
use signals::{Signals, end_at_once};
#[cfg(feature = "otlp")]
use traces::Traces;

/// Threads for sockets and events; the rest of the machine is for the model.
const ASYNC_THREADS: usize = 2;
/// Threads beside those that prepare requests: one waits for the engine to drain.
const OTHER_THREADS: usize = 2;
/// Threads for the store of jobs: a writer, readers, and files.
const JOB_THREADS: usize = 6;
/// How long the end waits for preparing threads, which stop between two words once their clients are cut.
const LAST_WORDS: Duration = Duration::from_millis(250);

pub(crate) fn run(args: Args) -> Result<(), Failure> {
    let began = Instant::now();
    log_to_stderr(args.operations.log_format);
    let mut options = options(&args)?;
    let tls = reread::tls(&args, Reading::First)?.map(|tls| {
        tls.remarks.iter().for_each(|remark| args.operations.log_format.say(remark));
        tls.value
    });
    if let Some(remark) = descriptors::fit(&mut options.http.connections) {
        args.operations.log_format.say(&remark);
    }
    let (log, scheme) = (args.operations.log_format, if tls.is_some() { "https" } else { "http" });
    let traces = Traces::start(args.operations.otlp_endpoint.as_deref(), scheme)?;
    let gateway = args.gateway.gateway(&args.host)?;
    if args.operations.check {
        return check(&args, &options);
    }
    if options.http.keys.is_empty() && options.http.cors.as_ref().is_some_and(Cors::is_open) {
        log.say(clients::OPEN_TO_PAGES);
    }
    let listener = door::bind(&args.host, args.port, !options.http.keys.is_empty() || args.insecure_no_auth)?;
    let address = listener.local_addr()?;
    log.say(&format!("listening on {scheme}://{address}; loading {}", args.subject()));
    let invitation = Invitation {
        log,
        scheme,
        address: door::reachable(address),
        keyed: !options.http.keys.is_empty(),
        page: options.page,
    };
    let runtime = runtime()?;
    let jobs = {
        let _inside = runtime.enter();
        args.jobs.open()?
    };
    let server = Server::new(options);
    if let Some(tls) = tls {
        server.set_tls(tls);
    }
    record(&args, &server, traces.as_ref())?;
    let drain = args.limits.drain();
    let args = Arc::new(args);
    let files = reread::watch(&args, &server)?;
    let signals = {
        let _inside = runtime.enter();
        Signals::new(files)?
    };
    let node = gateway.map(|gateway| gateway.join(&server, scheme, address, log, &runtime));
    let jobs = jobs.map(|jobs| {
        log.say(&format!("jobs are kept in {}", jobs.place()));
        jobs.start(|store, options| server.take_jobs(store, options), runtime.handle())
    });
    let failed = load_beside(args, server.clone(), invitation, runtime.handle().clone(), began)?;
    let beside = Beside { traces, node, jobs, signals };
    let outcome = serve(&runtime, server, listener, drain, failed, log, beside);
    // Not dropped, which would wait for whatever a thread is at.
    runtime.shutdown_timeout(LAST_WORDS);
    outcome
}

/// Has the audit log and the traces hear of requests, as far as there are any.
fn record(args: &Args, server: &Server, traces: Option<&Traces>) -> Result<(), Failure> {
    let mut takers: Vec<Arc<dyn Audit>> = Vec::new();
    if let Some(file) = &args.operations.audit_log {
        takers.push(Arc::new(audit::AuditLog::start(file, args.operations.audit_log_bytes)?));
    }
    if let Some(traces) = traces {
        args.operations.log_format.say(&format!("traces go to {}", traces.endpoint()));
        takers.push(traces.audit());
    }
    if !takers.is_empty() {
        server.audit(Arc::new(takers));
    }
    Ok(())
}

/// The threads for sockets and for the preparation of requests.
fn runtime() -> Result<Runtime, Failure> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(ASYNC_THREADS)
        .max_blocking_threads(server::PREPARATIONS + server::TENSOR_THREADS + JOB_THREADS + OTHER_THREADS)
        .thread_name("http")
        .enable_all()
        .build()
        .map_err(|error| Failure::new(format!("cannot start the HTTP threads: {error}")))
}

fn options(args: &Args) -> Result<Options, Failure> {
    let keys = reread::keys(args, Reading::First)?;
    keys.remarks.iter().for_each(|remark| args.operations.log_format.say(remark));
    let body_bytes = args.limits.body_bytes()?;
    let threads = threads(args)?;
    let standard = httpd::Options::default();
    let http = httpd::Options {
        keys: keys.value,
        loopback_names_only: !args.insecure_no_auth,
        head_timeout: Duration::from_secs(args.operations.head_timeout.into()),
        body_timeout: Duration::from_secs(args.operations.body_timeout.into()),
        write_timeout: Duration::from_secs(args.operations.write_timeout.into()),
        drain_notice: Duration::from_secs(args.operations.drain_notice.into()),
        cors: args.clients.cors()?,
        body_bytes,
        body_memory_bytes: standard.body_memory_bytes.max(4 * body_bytes),
        connections: args.limits.connections(),
        ..standard
    };
    let service = service::Options {
        requests: args.limits.requests(threads),
        parallel: args.limits.parallel(threads),
        longest_wait: args.limits.longest_wait(),
        price: args.price.price()?,
        any_model_name: args.clients.any_model_name(),
        model_bytes: if args.is_many() { many::limit(args, &cpu::probe::detect()) } else { u64::MAX },
        longest_load: args.many.load_wait(),
        tier: args.compute.tier()?.to_string(),
        ..service::Options::default()
    };
    let (page, metrics_llamacpp) = (!args.no_page, args.metrics_llamacpp);
    Ok(Options { http, service, page, metrics_llamacpp, ..Options::default() })
}

/// `GRISTMILL_LOG` chooses, as in `debug` or `server=debug`; warnings by default.
pub(crate) fn log_to_stderr(format: LogFormat) {
    let filter = tracing_subscriber::EnvFilter::try_from_env("GRISTMILL_LOG");
    let filter = filter.unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("warn"));
    // A full disk behind standard error must not end requests: the subscriber would complain with a panic.
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        // A log that goes into a file has no use for colours.
        .with_ansi(term::colours(std::io::stderr().is_terminal()))
        .log_internal_errors(false);
    // Somebody else's log is as good.
    let _ = match format {
        LogFormat::Text => log.try_init(),
        LogFormat::Json => log.json().try_init(),
    };
}

/// Loads the model on a thread of its own. The receiver hears of it only if that fails.
fn load_beside(
    args: Arc<Args>,
    server: Server,
    invitation: Invitation,
    runtime: Handle,
    began: Instant,
) -> Result<oneshot::Receiver<Failure>, Failure> {
    let (tell, failed) = oneshot::channel();
    let load = move || {
        if args.is_many() {
            let facts = many::start(&args, &server, &runtime, began)?;
            // Which of them are loaded stands in the facts.
            return Ok(Ready { name: "the server".into(), example: Example::Chat, facts });
        }
        load(&args, &server, began)
    };
    let body = move || match load() {
        Ok(ready) => {
            ready.say(&invitation, began);
            // Kept, so that the receiver goes on waiting.
            std::mem::forget(tell);
        }
        Err(failure) => drop(tell.send(failure)),
    };
    cpu::thread::spawn("loader", body)
        .map_err(|error| Failure::new(format!("no thread to load: {error}")))?;
    Ok(failed)
}

/// What `--check` says: everything that can be known without loading.
fn check(args: &Args, options: &Options) -> Result<(), Failure> {
    // Any port: the one that is meant may be in use by the server that this is to replace.
    door::bind(&args.host, 0, !options.http.keys.is_empty() || args.insecure_no_auth)?;
    if let Some(file) = &args.operations.audit_log {
        audit::AuditLog::start(file, args.operations.audit_log_bytes)?;
    }
    let installed = store::home()?.find(args.model()).is_some() || Path::new(args.model()).exists();
    if !installed {
        weights::store::known(args.model()).map_err(|error| store::unknown(args.model(), error))?;
        out!("flags and files are good; {} is not in the store, serve would pull it", args.model());
        return Ok(());
    }
    let planned = match planned(args, &Wanted::default())? {
        PlannedModel::Generates(planned) => planned,
        PlannedModel::Encodes(planned) => {
            planned.check_words()?;
            out!(
                "flags and files are good; {} would be served with {} a text and {} of memory; {}",
                args.model(),
                number(planned.context, "token"),
                size(planned.need.total()),
                number(options.http.keys.len(), "key")
            );
            return Ok(());
        }
    };
    planned.check_words()?;
    out!(
        "flags and files are good; {} would be served with {} of context, {} of memory and {}; \
         {} at once, {} more and {} of prompts may wait",
        args.model(),
        number(planned.limits.context, "token"),
        size(planned.need.total()),
        number(options.http.keys.len(), "key"),
        number(planned.limits.max_running, "answer"),
        planned.limits.max_queued - planned.limits.max_running,
        number(planned.limits.max_queued_tokens, "token")
    );
    Ok(())
}

fn load(args: &Args, server: &Server, began: Instant) -> Result<Ready, Failure> {
    server.loading("finding the model");
    let planned = planned(args, &Wanted::default())?;
    let mut bar = Bar::new(args.model());
    let mut progress = |share| {
        bar.set(share);
        server.loading(format!("{:.0} % of the weights are read", share * 100.0));
    };
    match planned {
        PlannedModel::Generates(planned) => {
            let fingerprint = planned.fingerprint()?;
            let loaded = planned.load(&mut progress)?;
            drop(bar);
            loaded.remarks.iter().for_each(|remark| args.operations.log_format.say(remark));
            start(args, server, loaded, fingerprint, began)
        }
        PlannedModel::Encodes(planned) => {
            let (loaded, compute) = planned.load(&mut progress)?;
            drop(bar);
            loaded.remarks.iter().for_each(|remark| args.operations.log_format.say(remark));
            start_encoder(args, server, loaded, compute, began)
        }
    }
}

fn start_encoder(
    args: &Args,
    server: &Server,
    loaded: LoadedEncoder,
    compute: Compute,
    began: Instant,
) -> Result<Ready, Failure> {
    let names = args.clients.names(&args.served_model_name, &name::of(args.model()));
    measure(server, &loaded.machine);
    let threads = number(compute.pool.threads(), "thread");
    let facts = format!("{} · {threads}, {}", loaded.say(), compute.tier);
    let example = Example::of(&loaded.heads);
    let details = loaded.details.clone();
    let limits = encoder_limits(args, loaded.facts.max_tokens);
    let setup = EncoderSetup::new(&*names[0], limits).watched(server.watch_encoder(&names[0]));
    let encoding = loaded.start(&Device::of_one(compute), setup)?;
    let ready = Ready { name: names[0].clone(), example, facts };
    server.ready(LoadedModel::encoder(names, encoding).with_details(details), began);
    Ok(ready)
}

fn start(
    args: &Args,
    server: &Server,
    loaded: Loaded,
    fingerprint: String,
    began: Instant,
) -> Result<Ready, Failure> {
    let names = args.clients.names(&args.served_model_name, &name::of(args.model()));
    let tier = loaded.compute.tier;
    let threads = match &loaded.tuned {
        Some(tuned) => format!("tuned: {}", tuned.say()),
        None => number(loaded.compute.pool.threads(), "thread"),
    };
    measure(server, &loaded.machine);
    let name = names.first().map_or("model", String::as_str);
    let watch = server.watch_reads(name, &|rows| loaded.model.weight_read_bytes(rows));
    let weights = loaded.reading.say(loaded.model.backing());
    let Loaded { model, draft, compute, limits, .. } = loaded;
    let kv_dtype = limits.kv_dtype.unwrap_or_else(|| KvDtype::fastest(tier));
    let parallel = limits.max_running;
    let setup = Setup::new(loaded.tokenizer.clone(), limits).named(&*names[0]).watched(watch);
    let engine = Engine::start_on(&Device::of_one(compute), model, draft, setup)?;
    let stats = engine.stats();
    let facts = format!(
        "{weights} · {threads}, {tier} · context {} · {} at once · KV room for {} in {}",
        number(engine.context(), "token"),
        number(parallel, "answer"),
        number(stats.kv_blocks_total * stats.kv_block_tokens, "token"),
        kv_dtype.name()
    );
    let example = if loaded.template.is_some() { Example::Chat } else { Example::Completion };
    let ready = Ready { name: names[0].clone(), example, facts };
    let text = text_of(args, loaded.tokenizer, loaded.template);
    let model = LoadedModel::new(names, engine, text).with_fingerprint(fingerprint);
    server.ready(model.with_details(loaded.details), began);
    Ok(ready)
}

/// What goes on beside the requests, and ends with the server.
struct Beside {
    traces: Option<Traces>,
    node: Option<gateway::Node>,
    jobs: Option<kept_jobs::Running>,
    signals: Signals,
}

/// Serves until a signal, or until loading fails.
fn serve(
    runtime: &Runtime,
    server: Server,
    listener: TcpListener,
    drain: Duration,
    mut failed: oneshot::Receiver<Failure>,
    log: LogFormat,
    beside: Beside,
) -> Result<(), Failure> {
    let Beside { traces, node, jobs, mut signals } = beside;
    let (mut failure, mut stopped, mut left) = (None, None, None);
    let cut = runtime.block_on(async {
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let stop = async {
            tokio::select! {
                name = signals.next() => {
                    let seconds = drain.as_secs();
                    log.say(&format!(
                        "{name}: finishing running answers for at most {seconds} s; again to end at once"
                    ));
                    tokio::spawn(end_at_once(signals, log));
                    // Beside the drain: another server may go on with the jobs at once.
                    left = jobs.map(|jobs| tokio::spawn(jobs.leave()));
                    if let Some(node) = node {
                        node.leave().await;
                    }
                }
                // A loader that panicked has said so and dropped the channel.
                loading = &mut failed => {
                    failure = Some(loading.unwrap_or_else(|_| Failure::new("the model could not be loaded")));
                }
            }
            stopped = Some(Instant::now());
        };
        let cut = server.run(listener, stop, drain).await;
        if let Some(left) = left {
            // A panic in it was logged.
            let _ = left.await;
        }
        Ok::<usize, std::io::Error>(cut)
    })?;
    if let Some(traces) = traces {
        traces.finish(drain.saturating_sub(stopped.map_or(drain, |at| at.elapsed())));
    }
    match failure {
        Some(failure) => Err(failure),
        None if cut > 0 => {
            let were = if cut == 1 { "was" } else { "were" };
            log.say(&format!("stopped; {} {were} cut", number(cut, "connection")));
            Ok(())
        }
        None => {
            log.say("stopped");
            Ok(())
        }
    }
}
