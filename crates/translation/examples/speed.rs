//! Speed of the parts that every request passes: heads, edits and scanners. `cargo run --release --example speed`.

use std::error::Error;
use std::io::Write as _;
use std::time::Instant;

use translation::{AnswerOptions, Dialect, Edit, Framing, Head, Scanner, ScannerOptions, StreamTranslator};

/// Runs of each measurement, of which the fastest counts.
const RUNS: usize = 7;

fn fastest(mut run: impl FnMut() -> Result<(), Box<dyn Error>>) -> Result<f64, Box<dyn Error>> {
    let mut best = f64::INFINITY;
    for _ in 0..RUNS {
        let start = Instant::now();
        run()?;
        best = best.min(start.elapsed().as_secs_f64());
    }
    Ok(best)
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut out = std::io::stdout();
    for bytes in [1_000_usize, 100_000] {
        let text = "What the user says, with a \\\"quote\\\". ".repeat(bytes / 40);
        let body = format!(
            "{{\"model\":\"m\",\"messages\":[{{\"role\":\"system\",\"content\":\"Be brief.\"}},{{\"role\":\"user\",\"content\":\"{text}\"}}],\"stream\":true,\"max_tokens\":100,\"temperature\":0.7}}"
        );
        let count = 10_000_000 / bytes.max(1_000);
        let edit =
            Edit { model: Some("upstream"), include_usage: true, cache_salt: Some("tenant"), extra: &[] };
        let seconds = fastest(|| {
            for _ in 0..count {
                let head = Head::read(Dialect::OpenAiChat, body.as_bytes())?;
                std::hint::black_box(head.rewrite(body.as_bytes(), &edit));
            }
            Ok(())
        })?;
        writeln!(out, "head and rewrite of {} bytes: {:.2} µs", body.len(), seconds / count as f64 * 1e6)?;
    }
    scanners(&mut out)
}

/// Scanners and translators of a stream, and a scanner of a whole answer.
fn scanners(out: &mut std::io::Stdout) -> Result<(), Box<dyn Error>> {
    let chunk = "data: {\"id\":\"chatcmpl-9f2c\",\"object\":\"chat.completion.chunk\",\"created\":1700000000,\"model\":\"some-model\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\" token\"},\"logprobs\":null,\"finish_reason\":null}],\"usage\":null}\n\n";
    let stream = chunk.repeat(50_000);
    let megabytes = stream.len() as f64 / 1e6;
    for collect_bytes in [0, 1 << 20] {
        let seconds = fastest(|| {
            let options = ScannerOptions { collect_bytes, ..ScannerOptions::default() };
            let mut scanner = Scanner::new(Dialect::OpenAiChat, Framing::Events, options);
            for piece in stream.as_bytes().chunks(4 * chunk.len()) {
                scanner.feed(piece)?;
            }
            std::hint::black_box(scanner.end());
            Ok(())
        })?;
        let events = seconds / 50_000.0 * 1e9;
        writeln!(
            out,
            "scanner, {collect_bytes} bytes kept: {:.0} MB/s, {events:.0} ns an event",
            megabytes / seconds
        )?;
    }
    let embeddings =
        format!("{{\"data\":[{}]}}", vec!["{\"embedding\":[0.0123,-0.0456,0.789]}"; 100_000].join(","));
    let seconds = fastest(|| {
        let mut scanner = Scanner::new(Dialect::OpenAiChat, Framing::Json, ScannerOptions::default());
        for piece in embeddings.as_bytes().chunks(16 << 10) {
            scanner.feed(piece)?;
        }
        std::hint::black_box(scanner.end());
        Ok(())
    })?;
    writeln!(out, "scanner of a whole answer: {:.0} MB/s", embeddings.len() as f64 / 1e6 / seconds)?;
    for to in Dialect::ALL {
        let seconds = fastest(|| {
            let mut written = Vec::new();
            let mut translator = StreamTranslator::new(Dialect::OpenAiChat, to, AnswerOptions::default());
            for piece in stream.as_bytes().chunks(4 * chunk.len()) {
                written.clear();
                translator.feed(piece, &mut written)?;
            }
            Ok(())
        })?;
        writeln!(out, "stream to {to}: {:.2} µs an event", seconds / 50_000.0 * 1e6)?;
    }
    Ok(())
}
