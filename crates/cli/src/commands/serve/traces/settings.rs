//! Where traces go: the flag, and those of OpenTelemetry's variables that its libraries leave to the program or would
//! take as something else than what was meant. The others (sampler, batches, headers, resource) they read themselves.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use ureq::http::Uri;

use crate::Failure;

/// The path of traces below a collector's address.
const PATH: &str = "/v1/traces";

/// What the flag and the environment say.
#[derive(Debug, PartialEq)]
pub(super) struct Settings {
    /// Where batches are posted to.
    pub(super) url: String,
    /// For a batch to be taken.
    pub(super) timeout: Duration,
    /// Most spans that wait.
    pub(super) queue_spans: usize,
    /// Certificates to trust in place of the public ones.
    pub(super) trust: Option<PathBuf>,
}

/// A variable of the environment; one that is empty is as if it were not set, says the specification.
pub(super) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.trim().is_empty())
}

/// None if there is no collector, or traces are turned off.
///
/// # Errors
/// A value that cannot be used.
pub(super) fn read(
    flag: Option<&str>,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<Option<Settings>, Failure> {
    let says = |name, word| variable(name).is_some_and(|value| value.eq_ignore_ascii_case(word));
    let off = says("OTEL_SDK_DISABLED", "true") || says("OTEL_TRACES_EXPORTER", "none");
    let Some(url) = url(flag, variable)?.filter(|_| !off) else { return Ok(None) };
    one_of("OTEL_TRACES_EXPORTER", variable, &["otlp"])?;
    for name in ["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"] {
        one_of(name, variable, &["http/protobuf"])?;
    }
    for name in ["OTEL_EXPORTER_OTLP_TRACES_COMPRESSION", "OTEL_EXPORTER_OTLP_COMPRESSION"] {
        one_of(name, variable, &["gzip", "none"])?;
    }
    check_sampler(variable)?;
    let queue_spans = number("OTEL_BSP_MAX_QUEUE_SIZE", variable, 16..=65_536)?.unwrap_or(2_048);
    number("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", variable, 1..=65_536)?;
    number("OTEL_BSP_SCHEDULE_DELAY", variable, 1..=3_600_000)?;
    let mut timeout = None;
    for name in ["OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "OTEL_EXPORTER_OTLP_TIMEOUT"] {
        timeout = timeout.or(number(name, variable, 1..=600_000)?);
    }
    let trust = variable("OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE")
        .or_else(|| variable("OTEL_EXPORTER_OTLP_CERTIFICATE"))
        .map(PathBuf::from);
    let timeout = Duration::from_millis(timeout.unwrap_or(10_000) as u64);
    Ok(Some(Settings { url, timeout, queue_spans, trust }))
}

/// The address from the flag, or from the first variable that is set.
fn url(flag: Option<&str>, variable: &dyn Fn(&str) -> Option<String>) -> Result<Option<String>, Failure> {
    let (general, own) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT");
    let (name, text) = if let Some(text) = flag {
        ("--otlp-endpoint", below(text))
    } else if let Some(text) = variable(own) {
        (own, text)
    } else if let Some(text) = variable(general) {
        (general, below(&text))
    } else {
        return Ok(None);
    };
    let uri: Option<Uri> = text.parse().ok();
    let usable = uri.as_ref().is_some_and(|uri| {
        matches!(uri.scheme_str(), Some("http" | "https")) && uri.host().is_some_and(|host| !host.is_empty())
    });
    if !usable {
        return Err(Failure::usage(format!(
            "{name}: {text:?} is no address of a collector; write it as http://localhost:4318"
        )));
    }
    if uri.and_then(|uri| uri.authority().map(|to| to.as_str().contains('@'))).unwrap_or(false) {
        return Err(Failure::usage(format!(
            "{name} has a user or password in it; give them as a header, in OTEL_EXPORTER_OTLP_HEADERS"
        )));
    }
    Ok(Some(text))
}

fn below(base: &str) -> String {
    let base = base.trim_end_matches('/');
    if base.ends_with(PATH) { base.to_owned() } else { format!("{base}{PATH}") }
}

/// Else the library would keep every trace where a typing error meant one in a thousand.
fn check_sampler(variable: &dyn Fn(&str) -> Option<String>) -> Result<(), Failure> {
    let (name, argument) = ("OTEL_TRACES_SAMPLER", "OTEL_TRACES_SAMPLER_ARG");
    let ratios = ["traceidratio", "parentbased_traceidratio"];
    let samplers =
        ["always_on", "always_off", "parentbased_always_on", "parentbased_always_off", ratios[0], ratios[1]];
    let sampler = one_of(name, variable, &samplers)?;
    if !sampler.is_some_and(|sampler| ratios.contains(&sampler.as_str())) {
        return Ok(());
    }
    let text = variable(argument).unwrap_or_default();
    let share: Option<f64> = text.parse().ok();
    if share.is_some_and(|share| (0.0..=1.0).contains(&share)) {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "{argument} is {text:?}; {name} wants a share between 0 and 1 there, as 0.01"
    )))
}

fn one_of(
    name: &str,
    variable: &dyn Fn(&str) -> Option<String>,
    known: &[&str],
) -> Result<Option<String>, Failure> {
    match variable(name) {
        Some(value) if !known.contains(&value.as_str()) => {
            Err(Failure::usage(format!("{name} is {value:?}; this server knows {}", known.join(", "))))
        }
        value => Ok(value),
    }
}

fn number(
    name: &str,
    variable: &dyn Fn(&str) -> Option<String>,
    range: RangeInclusive<usize>,
) -> Result<Option<usize>, Failure> {
    let Some(text) = variable(name) else { return Ok(None) };
    let value = text.parse().ok().filter(|value| range.contains(value));
    let wrong =
        || format!("{name} is {text:?}; a number between {} and {} is wanted", range.start(), range.end());
    value.map(Some).ok_or_else(|| Failure::usage(wrong()))
}
