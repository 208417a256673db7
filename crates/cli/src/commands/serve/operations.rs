//! Flags for whoever runs the server: who may take how much, TLS, logs, configuration.

use std::path::PathBuf;
use std::time::SystemTime;

use super::door;
use crate::calendar::rfc3339;
use crate::term::{err, json_text};

#[derive(clap::Args)]
#[group(skip)]
pub(super) struct Flags {
    /// Read flags from this file too: TOML, `port = 9000`. The command line wins, then the environment
    /// (`GRISTMILL_PORT`), then the file.
    #[arg(long, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,

    /// Check flags, files and memory, say what would be served, and leave.
    #[arg(long)]
    pub(super) check: bool,

    /// Requests that one key may begin in a minute, unless the file of keys says otherwise.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), help_heading = "Access")]
    pub(super) key_requests_per_minute: Option<u32>,

    /// Tokens that one key may use in a minute, prompts and answers together.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), help_heading = "Access")]
    pub(super) key_tokens_per_minute: Option<u32>,

    /// Requests of one key under way at once.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), help_heading = "Access")]
    pub(super) key_concurrent: Option<u32>,

    /// Speak TLS with this certificate chain (PEM); read again when it changes.
    #[arg(long, value_name = "FILE", requires = "tls_key", help_heading = "Access")]
    pub(super) tls_cert: Option<PathBuf>,

    /// The certificate's private key (PEM).
    #[arg(long, value_name = "FILE", requires = "tls_cert", help_heading = "Access")]
    pub(super) tls_key: Option<PathBuf>,

    /// Append a line of JSON for each request: who, when, what, how much, how long; never its text.
    #[arg(long, value_name = "FILE", help_heading = "Logs")]
    pub(super) audit_log: Option<PathBuf>,

    /// The audit log is rotated before it grows over this; five old files are kept.
    #[arg(long, value_name = "BYTES", default_value = "64M", value_parser = door::bytes, help_heading = "Logs")]
    pub(super) audit_log_bytes: u64,

    /// Send a trace of each request to this OTLP collector, as http://localhost:4318. Only in a build with the feature
    /// `otlp`, which heeds OpenTelemetry's variables too.
    #[arg(long, value_name = "URL", help_heading = "Logs")]
    pub(super) otlp_endpoint: Option<String>,

    /// How the log on standard error is written, as lines or as a JSON object each; GRISTMILL_LOG chooses what is in it.
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = LogFormat::Text, help_heading = "Logs")]
    pub(super) log_format: LogFormat,

    /// Seconds for a request's head to arrive, and for an idle connection.
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..))]
    #[arg(help_heading = "Limits")]
    pub(super) head_timeout: u16,

    /// Seconds for a request's body to arrive.
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u16).range(1..))]
    #[arg(help_heading = "Limits")]
    pub(super) body_timeout: u16,

    /// Seconds for a client to take any byte of its answer.
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u16).range(1..))]
    #[arg(help_heading = "Limits")]
    pub(super) write_timeout: u16,

    /// Seconds between the end of readiness and the end of service, for load balancers to notice.
    #[arg(long, value_name = "SECONDS", default_value_t = 0, value_parser = clap::value_parser!(u16))]
    #[arg(help_heading = "Limits")]
    pub(super) drain_notice: u16,
}

/// What `--log-format` takes: lines for people, or one JSON object a line. (Documented values would stretch the whole
/// help.)
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogFormat {
    Text,
    Json,
}

impl LogFormat {
    /// What the command itself has to say, on standard error, in the log's format.
    pub(super) fn say(self, text: &str) {
        match self {
            LogFormat::Text => err!("{text}"),
            LogFormat::Json => {
                let timestamp = rfc3339(SystemTime::now());
                let fields = serde_json::json!({ "message": text });
                let target = "gristmill::serve";
                let line = serde_json::json!({ "timestamp": timestamp, "level": "INFO", "fields": fields, "target": target });
                err!("{}", json_text(&line.to_string()));
            }
        }
    }
}
