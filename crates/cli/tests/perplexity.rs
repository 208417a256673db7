//! `gristmill perplexity` as a process, on a tiny random model whose logits transformers computed.

#![allow(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

use crate::support;

use serde_json::Value;
use support::{CONTEXT, Tiny, characters, failure, json, misuse, piped, run, text};

/// The largest error of our f32 logits over the largest logit (the budget of `crates/model/tests/transformers.rs`). A
/// token's log-likelihood is a logit less a log-sum of them, so it is off by at most twice that.
const LOGIT_ERROR: f64 = 1e-4;

/// What the first `context` tokens of transformers' prompt are worth by llama-perplexity's definition, and by how much
/// ours may differ from it, as a ratio.
fn expected(context: usize) -> (f64, f64) {
    let (logits, prompt) = (Tiny::logits(), Tiny::prompt());
    let largest = logits.iter().flatten().fold(0.0f64, |most, logit| most.max(logit.abs()));
    let nll = |position: usize| {
        let total = logits[position].iter().map(|logit| logit.exp()).sum::<f64>().ln();
        total - logits[position][prompt[position + 1] as usize]
    };
    let scored = context / 2..context - 1;
    let mean = scored.clone().map(nll).sum::<f64>() / scored.len() as f64;
    (mean.exp(), (2.0 * LOGIT_ERROR * largest).exp() - 1.0)
}

fn score(tiny: &Tiny, input: &str, flags: &[&str]) -> Value {
    let args = [&["perplexity", tiny.path(), "--file", "-", "--json"], flags].concat();
    json(&piped(&args, input.as_bytes()))
}

fn near(found: &Value, (expected, ratio): (f64, f64)) {
    let found = found["perplexity"].as_f64().unwrap();
    assert!((found / expected - 1.0).abs() <= ratio, "{found}, transformers {expected}");
}

#[test]
fn the_figure_is_that_of_transformers_logits() {
    let tiny = Tiny::new();
    let prompt = Tiny::prompt();
    for context in [prompt.len(), 24, 8] {
        // Chunks are computed each by itself, so that each of these is worth the same.
        let input = characters(&prompt[..context]).repeat(3);
        let size = context.to_string();
        let report = score(&tiny, &input, &["--precision", "f32", "--context", &size]);
        near(&report, expected(context));
        assert_eq!(report["chunks"], 3);
        assert_eq!(report["tokens"], 3 * context);
        assert_eq!(report["scored_tokens"], 3 * (context - context / 2 - 1));
        assert_eq!(report["context"], context);
        // A rest shorter than a chunk is left, and so is a newline at the end.
        let more = format!("{input}{}\n", characters(&[4; 7]));
        assert_eq!(
            score(&tiny, &more, &["--precision", "f32", "--context", &size])["mean_nll"],
            report["mean_nll"]
        );
        assert_eq!(score(&tiny, &input, &["--context", &size, "--chunks", "1"])["chunks"], 1);
    }
}

#[test]
fn a_chunk_begins_with_the_token_that_a_text_begins_with() {
    let prompt = Tiny::prompt();
    let tiny = Tiny::new().with_bos(prompt[0]);
    // The first one is added before the text; that of the second chunk takes the place of token 5.
    let input = characters(&[&prompt[1..], &[5], &prompt[1..]].concat());
    let size = prompt.len().to_string();
    assert_ne!(prompt[0], 5);
    let report = score(&tiny, &input, &["--precision", "f32", "--context", &size]);
    assert_eq!(report["chunks"], 2);
    near(&report, expected(prompt.len()));
}

#[test]
fn the_fast_path_is_compared_with_the_f32_one() {
    let tiny = Tiny::new();
    let input = characters(&Tiny::prompt()).repeat(4);
    let report = score(&tiny, &input, &["--context", "44", "--kl-against", "f32"]);
    let figure = |key: &str| report[key].as_f64().unwrap();
    let ratio = figure("perplexity") / figure("perplexity_f32");
    // JSON's numbers are read back to the last place or one beside it.
    assert!((figure("perplexity_ratio") / ratio - 1.0).abs() < 1e-12, "{report}, {ratio}");
    near(&score(&tiny, &input, &["--context", "44", "--precision", "f32"]), (figure("perplexity_f32"), 0.0));
    assert!((0.0..0.01).contains(&figure("mean_kl")) && figure("max_kl") >= figure("mean_kl"), "{report}");
    assert!((0.0..=1.0).contains(&figure("same_top")));
}

#[test]
fn eight_bit_keys_and_values_are_held_to_the_f32_path() {
    let tiny = Tiny::new();
    let input = characters(&Tiny::prompt()).repeat(4);
    let score = |kv| {
        score(&tiny, &input, &["-c", "44", "--precision", "f32", "--kl-against", "f32", "--kv-dtype", kv])
    };
    let (eight, half) = (score("q8_0"), score("f16"));
    assert_eq!(eight["kv_dtype"], "q8_0");
    let kl = |report: &Value| report["mean_kl"].as_f64().unwrap();
    assert!(kl(&half) > 0.0 && kl(&half) < kl(&eight) && kl(&eight) < 0.001, "{half} {eight}");
    assert_eq!(score("int8")["perplexity"], eight["perplexity"], "another name");
}

#[test]
fn for_the_eye_it_is_the_figure_and_its_error() {
    let tiny = Tiny::new();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("text.txt");
    std::fs::write(&path, characters(&Tiny::prompt()).repeat(2)).unwrap();
    let output = run(&["perplexity", tiny.path(), "-f", path.to_str().unwrap(), "-c", "44"]);
    let shown = support::said(&output);
    assert!(shown.starts_with("perplexity 57") && shown.contains(" ± "), "{shown}");
    assert!(shown.contains("2 chunks of 44 tokens"), "{shown}");
    assert_eq!(text(&output.stderr).lines().count(), 2, "a line a chunk");
}

#[test]
fn too_short_a_text_names_the_numbers() {
    let tiny = Tiny::new();
    let args = ["perplexity", tiny.path(), "--file", "-", "--context", "44"];
    let line = failure(&piped(&args, characters(&[1; 87]).as_bytes()), 1);
    assert!(line.contains("87 tokens") && line.contains("88"), "{line}");
    let line = failure(&piped(&args, b""), 1);
    assert!(line.contains("0 tokens"), "{line}");
}

#[test]
fn what_cannot_be_read_is_named() {
    let tiny = Tiny::new();
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().to_str().unwrap();
    for file in ["/nonexistent/text", folder] {
        let line = failure(&run(&["perplexity", tiny.path(), "--file", file]), 1);
        assert!(line.contains(&format!("cannot read {file}")), "{line}");
    }
    let line = failure(&piped(&["perplexity", tiny.path(), "--file", "-"], b"ab\xff"), 1);
    assert!(line.contains("not UTF-8: byte 2"), "{line}");
    let line = failure(&piped(&["perplexity", "/nonexistent/model", "--file", "-"], b"x"), 1);
    assert!(line.contains("/nonexistent/model"), "{line}");
}

#[test]
fn a_context_out_of_range_and_flags_that_disagree() {
    let tiny = Tiny::new();
    let args = ["perplexity", tiny.path(), "--file", "-"];
    for context in ["7", "257"] {
        let line = failure(&piped(&[&args[..], &["--context", context]].concat(), b"x"), 2);
        assert!(line.contains(&format!("--context {context} is outside 8..={CONTEXT}")), "{line}");
    }
    failure(&piped(&[&args[..], &["--precision", "f32", "--kl-against", "f32"]].concat(), b"x"), 2);
    for command in ["perplexity", "bench", "run", "serve"] {
        let output = run(&[command, tiny.path(), "--kv-dtype", "q3"]);
        misuse(&output);
        let said = text(&output.stderr);
        assert!(said.contains("q3") && said.contains("auto, f32, f16, bf16, q8_0"), "{said}");
    }
    misuse(&run(&["perplexity", tiny.path()]));
    misuse(&run(&[&args[..], &["--chunks", "0"]].concat()));
}
