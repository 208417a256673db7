//! Metrics as text: OpenMetrics 1.0 for those who ask for it, Prometheus 0.0.4 for everybody else.
//!
//! `prometheus-client` writes OpenMetrics. The older format differs in two ways that matter: a counter's HELP and TYPE
//! lines carry the full name with `_total`, and there is no `# EOF`.

use std::borrow::Cow;

/// Which of the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// `text/plain; version=0.0.4`
    Prometheus,
    /// `application/openmetrics-text; version=1.0.0`
    OpenMetrics,
}

impl Format {
    /// What an `Accept` header asks for.
    pub fn accepted(accept: Option<&str>) -> Format {
        match accept {
            Some(accept) if accept.contains("application/openmetrics-text") => Format::OpenMetrics,
            _ => Format::Prometheus,
        }
    }

    /// The `Content-Type` of the text.
    pub fn content_type(self) -> &'static str {
        match self {
            Format::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Format::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// A label's value, escaped. `prometheus-client` writes it as it is. Nearly all are as they are to be written.
pub(crate) fn escape(value: &str) -> Cow<'_, str> {
    if !value.contains(['\\', '"', '\n']) {
        return Cow::Borrowed(value);
    }
    Cow::Owned(value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
}

/// OpenMetrics text as Prometheus 0.0.4.
pub(crate) fn to_prometheus(open: &str) -> String {
    let mut out = String::with_capacity(open.len() + 1024);
    // A family's HELP line comes first and does not tell its type, so it waits for the TYPE line.
    let mut help = None;
    for line in open.lines() {
        if line == "# EOF" {
            continue;
        }
        if let Some(rest) = line.strip_prefix("# HELP ") {
            help = rest.split_once(' ');
            continue;
        }
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap_or((rest, "untyped"));
            let suffix = if kind == "counter" { "_total" } else { "" };
            if let Some((_, text)) = help.take() {
                out.push_str(&format!("# HELP {name}{suffix} {text}\n"));
            }
            // OpenMetrics has the type "unknown" where 0.0.4 has "untyped".
            let kind = if kind == "unknown" { "untyped" } else { kind };
            out.push_str(&format!("# TYPE {name}{suffix} {kind}\n"));
            continue;
        }
        if line.starts_with("# UNIT ") {
            continue;
        }
        out.push_str(line);
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_get_their_suffix() {
        let open =
            "# HELP a:b Things.\n# TYPE a:b counter\na:b_total 1\n# HELP g G.\n# TYPE g gauge\ng 2\n# EOF\n";
        let old = "# HELP a:b_total Things.\n# TYPE a:b_total counter\na:b_total 1\n# HELP g G.\n# TYPE g gauge\ng 2\n";
        assert_eq!(to_prometheus(open), old);
    }

    #[test]
    fn accept() {
        let prometheus = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5";
        assert_eq!(Format::accepted(Some(prometheus)), Format::OpenMetrics);
        assert_eq!(Format::accepted(Some("*/*")), Format::Prometheus);
        assert_eq!(Format::accepted(None), Format::Prometheus);
    }
}
