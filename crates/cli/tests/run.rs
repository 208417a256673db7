//! `gristmill run` as a process, on a tiny random model: what it prints, and how it refuses.

#![allow(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

use crate::support;

use serde_json::{Value, json};
use support::{CONTEXT, Tiny, characters, failure, json, keys, misuse, piped, run, said, text};

/// Writes each message between two characters of the vocabulary, and a third for the assistant's turn.
const TEMPLATE: &str =
    "{% for m in messages %}一{{ m.content }}丁{% endfor %}{% if add_generation_prompt %}丂{% endif %}";

fn args<'a>(tiny: &'a Tiny, rest: &[&'a str]) -> Vec<&'a str> {
    [&["run", tiny.path()], rest].concat()
}

fn answer(tiny: &Tiny, rest: &[&str]) -> Value {
    json(&run(&args(tiny, &[rest, &["--json", "--ignore-end"]].concat())))
}

#[test]
fn json_is_one_object_with_the_documented_keys() {
    let tiny = Tiny::new();
    let prompt = characters(&[5, 6, 7]);
    let report = answer(&tiny, &[&prompt, "--max-tokens", "6", "--temperature", "0"]);
    assert_eq!(keys(&report), ["finish_reason", "prompt_tokens", "seed", "text", "timings", "tokens"]);
    let tokens: Vec<u32> = serde_json::from_value(report["tokens"].clone()).unwrap();
    assert_eq!((tokens.len(), &report["finish_reason"]), (6, &json!("length")));
    assert_eq!(report["text"], characters(&tokens));
    assert_eq!(report["prompt_tokens"], json!([5, 6, 7]));
    assert_eq!(
        keys(&report["timings"]),
        [
            "accepted_draft_tokens",
            "decode_ms",
            "decode_tokens",
            "decode_tokens_per_s",
            "draft_tokens",
            "load_ms",
            "prefill_ms",
            "prefill_tokens",
            "prefill_tokens_per_s",
            "queued_ms"
        ]
    );
    assert_eq!(
        (&report["timings"]["prefill_tokens"], &report["timings"]["decode_tokens"]),
        (&json!(3), &json!(5))
    );
}

#[test]
fn the_likeliest_token_is_that_of_transformers() {
    let logits = Tiny::logits();
    let last = logits.last().unwrap();
    let best = (0..last.len()).max_by(|a, b| last[*a].total_cmp(&last[*b])).unwrap();
    let report = answer(&Tiny::new(), &[&characters(&Tiny::prompt()), "-n", "1", "--temperature", "0"]);
    assert_eq!(report["tokens"], json!([best]));
}

#[test]
fn greedy_and_seeded_answers_repeat() {
    let tiny = Tiny::new();
    let prompt = characters(&[9, 8, 7]);
    let of = |flags: &[&str]| answer(&tiny, &[&[prompt.as_str(), "-n", "24"], flags].concat());
    let greedy = of(&["--temperature", "0"]);
    assert_eq!(greedy["tokens"], of(&["--temperature", "0", "--seed", "7", "--threads", "1"])["tokens"]);
    let seeded = of(&["--seed", "7", "--temperature", "1.5"]);
    assert_eq!(seeded["seed"], 7);
    assert_eq!(seeded["tokens"], of(&["--seed", "7", "--temperature", "1.5"])["tokens"]);
    // 24 draws from random logits: that two seeds draw the same is out of the question.
    assert_ne!(seeded["tokens"], of(&["--seed", "8", "--temperature", "1.5"])["tokens"]);
    // The seed that was chosen is told, and gives the same again.
    let free = of(&["--temperature", "1.5"]);
    let again = of(&["--temperature", "1.5", "--seed", &free["seed"].to_string()]);
    assert_eq!(free["tokens"], again["tokens"]);
}

#[test]
fn raw_leaves_the_template_out() {
    let tiny = Tiny::new().with_template(TEMPLATE);
    let prompt = characters(&[20, 21]);
    let tokens = |flags: &[&str]| {
        answer(&tiny, &[&[prompt.as_str(), "-n", "1"], flags].concat())["prompt_tokens"].take()
    };
    assert_eq!(tokens(&[]), json!([0, 20, 21, 1, 2]));
    assert_eq!(tokens(&["--raw"]), json!([20, 21]));
    assert_eq!(tokens(&["--system", "七"]), json!([0, 3, 1, 0, 20, 21, 1, 2]));
    misuse(&run(&args(&tiny, &[&prompt, "--raw", "--system", "x"])));
}

#[test]
fn the_prompt_can_be_piped_in() {
    let tiny = Tiny::new();
    let prompt = characters(&[30, 31, 32]);
    let flags = ["--json", "-n", "4", "--temperature", "0", "--ignore-end"];
    let given = answer(&tiny, &[&prompt, "-n", "4", "--temperature", "0"]);
    // The newline that a program writes at the end is none of the prompt's.
    for input in [prompt.clone(), format!("{prompt}\n")] {
        for dash in [&["-"][..], &[]] {
            let report = json(&piped(&args(&tiny, &[dash, &flags[..]].concat()), input.as_bytes()));
            assert_eq!(report["prompt_tokens"], json!([30, 31, 32]));
            assert_eq!(report["text"], given["text"]);
        }
    }
    let line = failure(&piped(&args(&tiny, &["--json"]), b"a\xffb"), 1);
    assert!(line.contains("standard input is not UTF-8: byte 1"), "{line}");
}

#[test]
fn without_json_the_answer_is_all_of_standard_output() {
    let tiny = Tiny::new();
    let prompt = characters(&[40]);
    let flags = ["-n", "5", "--temperature", "0"];
    let report = answer(&tiny, &[&[prompt.as_str()], &flags[..]].concat());
    let output = run(&args(&tiny, &[&[prompt.as_str(), "--timings", "--ignore-end"], &flags[..]].concat()));
    assert_eq!(said(&output), format!("{}\n", report["text"].as_str().unwrap()));
    // Of the missing template, and the timings.
    let notes = text(&output.stderr);
    assert!(notes.contains("no chat template") && notes.contains("prefill 1 token in"), "{notes}");
    // Up to a stop text, which is left out.
    let whole = report["text"].as_str().unwrap();
    let third: String = whole.chars().skip(2).take(1).collect();
    let stopped = answer(&tiny, &[&[prompt.as_str(), "--stop", &third], &flags[..]].concat());
    assert_eq!(stopped["text"], whole.split(&third).next().unwrap());
    assert_eq!(stopped["finish_reason"], "stop");
}

#[test]
fn the_context_bounds_prompt_and_answer() {
    let tiny = Tiny::new();
    let long = characters(&vec![3; CONTEXT + 44]);
    let line = failure(&run(&args(&tiny, &[&long, "--raw"])), 1);
    assert!(line.contains("300 tokens") && line.contains("holds 256"), "{line}");
    let line = failure(&run(&args(&tiny, &[&characters(&[3; 20]), "--raw", "--context", "16"])), 1);
    assert!(line.contains("20 tokens") && line.contains("holds 16"), "{line}");
    let report = answer(&tiny, &[&characters(&[3; 20]), "--context", "32", "--temperature", "0"]);
    assert_eq!(
        (report["tokens"].as_array().unwrap().len(), &report["finish_reason"]),
        (12, &json!("length"))
    );
    let line = failure(&run(&args(&tiny, &["x", "--context", "257"])), 2);
    assert!(line.contains("257") && line.contains("256"), "{line}");
}

#[test]
fn memory_that_does_not_suffice_is_refused_before_anything_is_loaded() {
    // Sixteen half-precision keys and values for two layers of two heads.
    let (tokens, token_bytes) = (1u64 << 28, 2 * 2 * 16 * 2 * 2);
    let machine = json(&run(&["doctor", "--json"]));
    if machine["memory_available_bytes"].as_u64().unwrap() > tokens * token_bytes {
        return; // No context that a file may state is too long for this machine.
    }
    let tiny = Tiny::new().with("max_position_embeddings", tokens);
    // Loading would fail on this, so the refusal came before.
    std::fs::write(std::path::Path::new(tiny.path()).join("tokenizer.json"), "no tokenizer").unwrap();
    let line = failure(&run(&args(&tiny, &["x", "--raw", "--context", &tokens.to_string()])), 1);
    assert!(
        line.contains(" needs 68.8 GB") && line.contains("of memory") && line.contains("the limit is"),
        "{line}"
    );
    assert!(line.contains("a smaller --context needs less"), "{line}");
}

#[test]
fn what_makes_no_sense_is_told() {
    let tiny = Tiny::new();
    for (flags, word) in [
        (&["--temperature", "-1"][..], "temperature is -1"),
        (&["--top-p", "-0.5"], "top_p is -0.5"),
        (&["--top-p", "2"], "top_p is 2"),
        (&["--threads", "0"], "--threads 0"),
        (&["--logit-bias", "128=1"], "128"),
    ] {
        let line = failure(&run(&args(&tiny, &[&["x"], flags].concat())), 2);
        assert!(line.contains(word), "{line}");
    }
    for flags in [&["--max-tokens", "0"][..], &["--bogus"], &["--top-k", "-1"], &["--logprobs", "2"]] {
        misuse(&run(&args(&tiny, &[&["x"], flags].concat())));
    }
    misuse(&run(&["run"]));
}

#[test]
fn a_model_that_is_none_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let vision = Tiny::new();
    let config = std::path::Path::new(vision.path()).join("config.json");
    std::fs::write(config, r#"{"architectures": ["ViTModel"], "model_type": "vit"}"#).unwrap();
    for (model, words) in [
        ("/nonexistent/m.gguf", "/nonexistent/m.gguf"),
        ("no-such-name", "no-such-name"),
        (folder.path().to_str().unwrap(), folder.path().to_str().unwrap()),
        (vision.path(), "ViTModel"),
        (vision.path(), vision.path()),
    ] {
        let line = failure(&run(&["run", model, "x"]), 1);
        assert!(line.contains(words), "{line}");
    }
}

#[test]
fn packed_weights_are_kept_used_and_when_damaged_made_anew() {
    let tiny = Tiny::new();
    let prompt = characters(&Tiny::prompt());
    let kept = || {
        let entries = std::fs::read_dir(tiny.path()).unwrap().map(|entry| entry.unwrap().path());
        let weights = |path: &std::path::PathBuf| {
            path.to_string_lossy().contains(".packed") && !path.to_string_lossy().contains(".tokenizer.")
        };
        entries.filter(weights).collect::<Vec<_>>()
    };
    let start = |how: &str| {
        let rest = [&prompt, "-n", "20", "--temperature", "0", "--ignore-end", "--json"];
        let output = run(&args(&tiny, &[&rest[..], &["--packed-cache", how]].concat()));
        (json(&output)["text"].as_str().unwrap().to_owned(), text(&output.stderr))
    };
    let said = |lines: &str, word: &str| {
        let found: Vec<&str> = lines.lines().filter(|line| line.starts_with("packed weights: ")).collect();
        assert!(found.len() == 1 && found[0].contains(word), "{word}: {lines}");
    };
    let silent = |lines: &str| assert!(!lines.contains("packed weights"), "{lines}");
    let (truth, lines) = start("off");
    silent(&lines);
    assert!(kept().is_empty());
    // What a killed process left, which is longer than what will be there.
    let tier = cpu::Tier::widest();
    let part = std::path::Path::new(tiny.path()).join(format!("model.safetensors.{tier}.packed.part"));
    std::fs::write(&part, vec![0xff; 4 << 20]).unwrap();
    let (first, lines) = start("map");
    said(&lines, " kept in ");
    assert!(kept().len() == 1 && kept()[0] != part);
    for how in ["map", "read"] {
        let (again, lines) = start(how);
        silent(&lines);
        assert_eq!((&again, &first), (&truth, &truth), "{how}");
    }
    let good = std::fs::read(&kept()[0]).unwrap();
    let file = kept().remove(0);
    std::fs::remove_file(&file).unwrap();
    std::fs::write(&file, &good[..good.len() - 9]).unwrap();
    let (again, lines) = start("map");
    assert_eq!(again, truth);
    let remarks: Vec<&str> = lines.lines().filter(|line| line.starts_with("packed weights: ")).collect();
    assert_eq!(remarks.len(), 2, "{lines}");
    let reason = "lies outside the file";
    assert!(remarks[0].contains(file.to_str().unwrap()) && remarks[0].contains(reason), "{lines}");
    assert!(remarks[1].contains(" kept in "), "{lines}");
    assert!(std::fs::read(&file).unwrap() == good);
}
