//! Rule: the numbers in `docs/limits.md` and in the docs on errors and streams are those of the constants in the code.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

use std::fs;
use std::path::Path;

fn read(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)).unwrap()
}

/// Parses a number of the code: `1_024`, `64 << 20`, `Duration::from_secs(30)`, or the last inside `Some`.
fn number(expression: &str) -> Option<u64> {
    let expression = expression.trim().trim_start_matches("Some(").trim_start_matches("Duration::from_secs(");
    let expression = expression.trim_end_matches(')').replace('_', "");
    match expression.split_once("<<") {
        Some((value, shift)) => Some(value.trim().parse::<u64>().ok()? << shift.trim().parse::<u32>().ok()?),
        None => expression.parse().ok(),
    }
}

/// The value of `const NAME: T = …;` or of the field `name: …,` of a default.
fn constant(file: &str, name: &str) -> u64 {
    let code = read(file);
    let found = code.lines().find_map(|line| {
        let line = line.trim();
        let value = if name.starts_with(char::is_uppercase) {
            line.split_once(&format!("const {name}:"))?.1.split_once('=')?.1.split(';').next()?
        } else {
            line.strip_prefix(&format!("{name}:"))?.strip_suffix(',')?
        };
        number(value)
    });
    found.unwrap_or_else(|| panic!("{file} has no number {name}: mend the table of this test and the docs"))
}

/// A number with commas between thousands.
fn thousands(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// The file and name of a constant, the words around it in the docs, and its format there.
type Said<'a> = (&'a str, &'a str, &'a str, &'a dyn Fn(u64) -> String);

#[test]
fn fault_docs_limits_are_those_of_the_code() {
    const OPTIONS: &str = "crates/httpd/src/options.rs";
    const SERVICE: &str = "crates/service/src/options.rs";
    const SERVER: &str = "crates/server/src/options.rs";
    const PREPARATION: &str = "crates/service/src/preparation.rs";
    const WIRE: &str = "crates/wire/src/limits.rs";
    const SERVE: &str = "crates/cli/src/commands/serve/limits.rs";
    let limits = read("docs/limits.md");
    let page = format!("{limits}{}{}", read("docs/api-reference.md"), read("docs/security.md"));
    let plain = |n: u64| n.to_string();
    let kib = |n: u64| format!("{} KiB", n >> 10);
    let mib = |n: u64| format!("{} MiB", n >> 20);
    let said: &[Said<'_>] = &[
        (OPTIONS, "body_memory_bytes", "bodies being read, together | {}", &mib),
        (OPTIONS, "answer_memory_bytes", "each over 64 KiB | {}", &mib),
        ("crates/httpd/src/body_memory.rs", "SMALL_BYTES", "those under 64 KiB | {}", &mib),
        ("crates/httpd/src/body_memory.rs", "LARGE", "{}, 1 larger", &kib),
        (PREPARATION, "SMALL_SLOTS", "tokenized at once | {} under", &plain),
        (PREPARATION, "WAITING", "of each kind | {}", &plain),
        (PREPARATION, "WAITING_EACH", "{} of one client | 429", &plain),
        (PREPARATION, "ASIDE", "wait for a model to load | {}", &plain),
        (PREPARATION, "ASIDE_EACH", "to load | 256, {} of one client", &plain),
        (WIRE, "BODY_VALUES", "JSON values in a body | {}", &thousands),
        (WIRE, "VALUES_OF_AN_OBJECT", "an object counts as {}", &plain),
        (WIRE, "COUNTED_TOKENS", "count_tokens` count | {}", &thousands),
        (WIRE, "DETOKENIZED_BYTES", "`/detokenize` answers with | {}", &mib),
        (WIRE, "TENSORS", "and of its answer | {}, of", &plain),
        (WIRE, "TENSOR_ELEMENTS", "{} elements each | 400", &thousands),
        (WIRE, "TENSOR_STRINGS", "strings in a tensor of BYTES | {}", &thousands),
        (
            "crates/service/src/tensor_slots.rs",
            "TENSOR_THREADS",
            "models of tensors compute at once | {}",
            &plain,
        ),
        (
            "crates/service/src/tensor_slots.rs",
            "PIPELINES",
            "requests to pipelines that run at once | {};",
            &plain,
        ),
        ("crates/pipeline/src/definition.rs", "MAX_STEPS", "inputs and outputs of a step | {} |", &plain),
        ("crates/service/src/pipelines/run.rs", "HELD_BYTES", "between the steps of a request | {}", &mib),
        ("crates/pipeline/src/steps/image.rs", "MAX_IMAGES", "and pixels of each file | {}, of", &plain),
        ("crates/pipeline/src/steps/image.rs", "MAX_ALL_PIXELS", "; {} pixels of all", &thousands),
        ("crates/pipeline/src/steps/image/decode.rs", "MAX_PIXELS", "{} pixels, and", &thousands),
        ("crates/pipeline/src/steps/image/decode.rs", "MAX_FILE_SIDE", "{} a side", &thousands),
        ("crates/wire/src/oip/config/text.rs", "MAX_BYTES", "with labels | {};", &kib),
        ("crates/pipeline/src/toml_file.rs", "MAX_BYTES", "KiB; {}; 1 MiB", &kib),
        ("crates/httpd/src/connection.rs", "HTTP2_STREAMS", "at once on a connection of HTTP/2 | {}", &plain),
        ("crates/httpd/src/streams.rs", "IDLE", "a connection of HTTP/2 without a request | {} s", &plain),
        (OPTIONS, "head_bytes", "request head | {}", &kib),
        (OPTIONS, "headers", "{} header lines", &plain),
        (OPTIONS, "head_timeout", "`--head-timeout` ({} s", &plain),
        (OPTIONS, "body_timeout", "`--body-timeout` ({} s)", &plain),
        (OPTIONS, "write_timeout", "`--write-timeout` ({} s)", &plain),
        (OPTIONS, "connections", "`--max-connections` ({})", &thousands),
        (SERVICE, "longest_wait", "`--max-wait` ({} s", &plain),
        (SERVICE, "stream_events", "falls {} events", &thousands),
        (SERVER, "ping", "After {} s without output", &plain),
        (WIRE, "BODY_BYTES", "`--max-body` ({})", &mib),
        (SERVE, "ANSWERS_A_THREAD", "`--parallel` ({} a thread", &plain),
        (SERVE, "FEWEST_ANSWERS", "but {} to", &plain),
        (SERVE, "MOST_ANSWERS", "to {})", &plain),
        (SERVE, "QUEUED_AN_ANSWER", "`--max-queued` ({} for each", &plain),
        (SERVE, "FEWEST_QUEUED_TOKENS", "but {} to", &thousands),
        (SERVE, "MOST_QUEUED_TOKENS", "to {};", &thousands),
        ("crates/httpd/src/auth.rs", "MAX_KEYS", "API keys | {}", &thousands),
        ("crates/httpd/src/auth.rs", "MAX_KEY_BYTES", "of {} bytes", &thousands),
        ("crates/httpd/src/layers.rs", "MAX_ID_BYTES", "at most {} visible characters", &plain),
        ("crates/service/src/response_store.rs", "MOST", "responses kept (`/v1/responses`) | {}", &thousands),
        ("crates/service/src/response_store.rs", "MOST_BYTES", "of {} together", &mib),
        (
            "crates/cli/src/commands/serve/audit.rs",
            "QUEUE",
            "audit records that wait for the disk | {}",
            &thousands,
        ),
        ("crates/cli/src/commands/serve/reread.rs", "SHORT_KEY", "at least {} characters", &plain),
        (
            "crates/engine/src/limits.rs",
            "PROMPT_LOGIT_ROWS",
            "rows of logits for them in a step | {}",
            &plain,
        ),
    ];
    for (file, name, words, format) in said {
        let words = words.replace("{}", &format(constant(file, name)));
        assert!(page.contains(&words), "docs/limits.md lacks {words:?}: {name} of {file}");
    }
}
