//! `plan fit`: which models run on a machine, how fast, in how much memory.

mod against;
mod args;
mod ceilings;
mod encode;
mod from_disk;
mod predict;

use kernels::KvDtype;
use planner::Plan;
use planner::step::Roofline;
use serde::Serialize;

use super::models::{self, Looked};
use super::report::{Report, rate, time};
use super::session::Session;
use crate::{Failure, loading, store};
pub(crate) use args::Args;
pub(super) use ceilings::{Place, Source};
use encode::EncoderFit;
use from_disk::FromDisk;
use predict::{decode_seconds, prefill_seconds};

/// Formats that are tried when no model is named.
const FORMATS: [&str; 3] = ["q4_k_m", "q8_0", "bf16"];

#[derive(Serialize)]
struct Answer {
    machine: Place,
    prompt: u32,
    context: u32,
    disk_gb_per_s: f64,
    models: Vec<Fit>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    encoders: Vec<EncoderFit>,
    /// Of those that keep the targets; none was asked for, or none keeps them.
    largest: Option<String>,
}

/// A model on the machine.
#[derive(Serialize)]
struct Fit {
    model: String,
    parameters: u64,
    weight_bytes: u64,
    kv_bytes_per_token: u64,
    scratch_bytes: u64,
    need_bytes: u64,
    fits: bool,
    prefill_tokens_per_s: f64,
    ttft_ms: f64,
    decode: Vec<Decode>,
    keeps_targets: Option<bool>,
    /// With a part of the weights on the disk, where not all of them fit.
    #[serde(skip_serializing_if = "Option::is_none")]
    from_disk: Option<FromDisk>,
}

/// Decoding with so many streams.
#[derive(Serialize)]
struct Decode {
    streams: u32,
    tokens_per_s: f64,
    tpot_ms: f64,
    need_bytes: u64,
    fits: bool,
}

pub(super) fn run(args: Args) -> Result<(), Failure> {
    let targets = [("slo.ttft_p95_ms", &args.ttft_ms), ("slo.tpot_p95_ms", &args.tpot_ms)];
    let settings = targets.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value.clone()?)));
    let session = args.common.open(None, settings.collect())?;
    session.plan.slo.check()?;
    if !args.against.is_empty() {
        return against::run(&args, &session);
    }
    // A machine takes seconds to be measured: what is wrong with a model is told before.
    for name in args.models.iter().filter(|name| !store::is_shape(name)) {
        models::file(name, cpu::Tier::Scalar, args.kv.dtype(cpu::Tier::Scalar))?;
    }
    let place = args.source.place(&session.plan)?;
    let tier = place.tier()?;
    let kv = args.kv.dtype(tier);
    let (mut fits, mut encoders) = (Vec::new(), Vec::new());
    for looked in looked(&args, tier, kv)? {
        let looked = looked?;
        if looked.spec.encoder.is_some() {
            encoders.push(encode::fit(looked, args.prompt, &place, kv)?);
        } else {
            fits.push(fit(&args, &session.plan, &place, looked, kv)?);
        }
    }
    let keeps = fits.iter().filter(|fit| fit.fits && fit.keeps_targets == Some(true));
    let largest = keeps.max_by_key(|fit| (fit.parameters, fit.weight_bytes)).map(|fit| fit.model.clone());
    let (prompt, context) = (args.prompt, args.context);
    let disk_gb_per_s = args.disk_gb_per_s;
    let answer = Answer { machine: place, prompt, context, disk_gb_per_s, models: fits, encoders, largest };
    let mut report = Report::new("plan fit", format!("What runs on {}", answer.machine.name));
    say(&answer, &session, &mut report);
    session.finish(&report, &answer)
}

/// The models that are asked for, else all shapes; each is looked at as it is come to.
fn looked(
    args: &Args,
    tier: cpu::Tier,
    kv: KvDtype,
) -> Result<Box<dyn Iterator<Item = Result<Looked, Failure>> + '_>, Failure> {
    if args.models.is_empty() && args.shapes.is_empty() {
        let published = model::shapes::all().iter().filter(|shape| shape.parameters > 100_000_000);
        let all =
            published.flat_map(|shape| FORMATS.iter().map(move |format| format!("{}:{format}", shape.name)));
        return Ok(Box::new(all.map(move |name| models::shape(&name, tier, kv))));
    }
    let files = args.models.iter().map(move |name| match store::is_shape(name) {
        true => models::shape(name, tier, kv),
        false => models::file(name, tier, kv),
    });
    Ok(Box::new(files.chain(args.shapes.iter().map(move |name| models::shape(name, tier, kv)))))
}

fn fit(args: &Args, plan: &Plan, place: &Place, looked: Looked, kv: KvDtype) -> Result<Fit, Failure> {
    let limits = engine::Limits::default();
    let context = (args.context as usize).min(looked.spec.context);
    let (weight_bytes, parameters) = (looked.weight_bytes, looked.parameters);
    let roofline = Roofline::new(looked.work.clone(), place.ceilings.clone())?;
    let mut spec = looked.spec.clone();
    spec.limit_context(context);
    let seconds = prefill_seconds(&roofline, args.prompt as usize, limits.prefill_chunk, 0);
    let need = |streams: u32| {
        let rows = limits.max_rows() + streams as usize;
        spec.memory(
            weight_bytes,
            streams as usize * context,
            kv,
            rows,
            limits.max_logit_rows() + streams as usize,
        )
    };
    let decode = args.streams.iter().map(|&streams| {
        let step = decode_seconds(&roofline, streams, args.prompt as usize);
        let need_bytes = need(streams).total() + loading::OTHER_BYTES;
        Decode {
            streams,
            tokens_per_s: f64::from(streams) / step,
            tpot_ms: step * 1e3,
            need_bytes,
            fits: need_bytes <= place.memory_bytes,
        }
    });
    let decode: Vec<Decode> = decode.collect();
    let first = need(args.streams.first().copied().unwrap_or(1));
    let (ttft_ms, tpot_ms) = (seconds * 1e3, decode.first().map_or(0.0, |first| first.tpot_ms));
    let within = |asked: Option<f64>, found: f64| asked.is_none_or(|asked| found <= asked);
    let slo = &plan.slo;
    let need_bytes = first.total() + loading::OTHER_BYTES;
    let step = decode_seconds(&roofline, 1, args.prompt as usize);
    let memory = (place.memory_bytes, need_bytes - weight_bytes);
    // Of all shapes most would be listed again.
    let named = !args.models.is_empty() || !args.shapes.is_empty();
    let from_disk = named.then(|| FromDisk::of(&looked, memory, step, args.disk_gb_per_s));
    Ok(Fit {
        from_disk: from_disk.flatten(),
        model: looked.label,
        parameters,
        weight_bytes,
        kv_bytes_per_token: spec.kv_bytes_per_token(kv) as u64,
        scratch_bytes: first.scratch,
        need_bytes,
        fits: need_bytes <= place.memory_bytes,
        prefill_tokens_per_s: f64::from(args.prompt) / seconds,
        ttft_ms,
        keeps_targets: (!slo.is_empty())
            .then(|| within(slo.ttft_p95_ms, ttft_ms) && within(slo.tpot_p95_ms, tpot_ms)),
        decode,
    })
}

/// A model's predicted steps as a plan keeps them, `[[rows, ms], …]`.
///
/// # Errors
/// An unknown model, or no machine.
pub(super) fn step_points(
    place: &Place,
    looked: Looked,
    decode_rows: usize,
    context: f64,
) -> Result<String, Failure> {
    let chunk = engine::Limits::default().prefill_chunk as u32;
    let roofline = Roofline::new(looked.work, place.ceilings.clone())?;
    let points = roofline.points(decode_rows.min(4096) as u32, chunk, context);
    let shown: Vec<String> = points.iter().map(|(rows, ms)| format!("[{rows:.0}, {ms:.3}]")).collect();
    Ok(format!("[{}]", shown.join(", ")))
}

fn say(answer: &Answer, session: &Session<'_>, report: &mut Report) {
    report.text(answer.machine.say());
    if let Some(origin) = &answer.machine.origin {
        report.text(format!("Figures {origin}"));
    }
    if !answer.encoders.is_empty() {
        encode::say(&answer.encoders, report);
    }
    if answer.models.is_empty() {
        return;
    }
    let mut heads =
        vec!["model".to_owned(), "weights".to_owned(), "KV a token".to_owned(), "needs".to_owned()];
    heads.extend([format!("prompt {} t/s", answer.prompt), "first token".to_owned()]);
    let streams: Vec<u32> =
        answer.models.first().map_or(Vec::new(), |fit| fit.decode.iter().map(|d| d.streams).collect());
    heads.extend(streams.iter().map(|streams| format!("x{streams} t/s")));
    let asked = !session.plan.slo.is_empty();
    heads.extend(asked.then(|| "in time".to_owned()));
    let rows = answer.models.iter().map(|fit| {
        let mut row = vec![
            fit.model.clone(),
            store::size(fit.weight_bytes),
            store::size(fit.kv_bytes_per_token),
            format!("{}{}", store::size(fit.need_bytes), if fit.fits { "" } else { " too much" }),
            rate(fit.prefill_tokens_per_s),
            time(fit.ttft_ms),
        ];
        let out = |d: &Decode| if d.fits { rate(d.tokens_per_s) } else { "–".to_owned() };
        row.extend(fit.decode.iter().map(out));
        row.extend(fit.keeps_targets.map(|keeps| if keeps { "yes" } else { "no" }.to_owned()));
        row
    });
    let rows = rows.collect();
    let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
    report.table("", &heads, rows);
    let requests = match streams.first() {
        None | Some(1) => "a request".to_owned(),
        Some(streams) => format!("{streams} requests"),
    };
    report.text(format!(
        "Needs: weights, keys and values of {requests} of {} tokens, buffers. –: those streams' keys and values do not fit.",
        answer.context
    ));
    for fit in &answer.models {
        if let Some(from_disk) = &fit.from_disk {
            from_disk.say(&fit.model, answer.disk_gb_per_s, report);
        }
    }
    if asked {
        report.text(match &answer.largest {
            Some(model) => format!("The largest that keeps the targets: {model}."),
            None => "None of them keeps the targets.".to_owned(),
        });
    }
}
