//! Each encoder against transformers and sentence-transformers in f32: `tools/fixtures/encoders.py` made the files under
//! `tests/encoders`, whose README tells what they hold.

#![allow(clippy::print_stdout, reason = "a test may tell how close it came")]

use cpu::{Pool, Tier};
use kernels::{Compute, KvDtype, Precision};
use model::{EncodePass, EncodeText, EncoderFormat, Model, PackedCache, PackedCacheReport, Spec, Want};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// The largest error over the largest value, in f32.
const BUDGET: f32 = 1e-4;

/// The outputs of a case, by the names of its files.
const OUTPUTS: [(&str, Want); 7] = [
    ("hidden", Want::Hidden),
    ("dense", Want::Dense),
    ("logits", Want::Logits),
    ("token_logits", Want::TokenLogits),
    ("sparse", Want::Sparse),
    ("token_vectors", Want::Tokens),
    ("true_false", Want::YesNo),
];

/// What is not built, and the key that its error must name.
const REFUSED: [(&str, &str); 4] = [
    ("deberta-v2-conv", "conv_kernel_size"),
    ("jina-bert-v2-qk", "layer_norm_q"),
    ("nomic-moe", "moe_every_n_layers"),
    ("nomic-moe-unbiased", "moe_every_n_layers"),
];

pub(crate) fn cases() -> Vec<PathBuf> {
    let refused = |case: &PathBuf| REFUSED.iter().any(|(name, _)| case.ends_with(name));
    all_cases().into_iter().filter(|case| !refused(case)).collect()
}

fn all_cases() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/encoders");
    let entries =
        std::fs::read_dir(folder).expect("the fixtures").map(|entry| entry.expect("an entry").path());
    let mut cases: Vec<PathBuf> = entries.filter(|path| path.join("case.json").is_file()).collect();
    cases.sort();
    assert!(cases.len() >= 7, "only {} cases", cases.len());
    cases
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).expect("a fixture")).expect("JSON")
}

fn floats(path: &Path) -> Vec<f32> {
    let bytes = std::fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    bytes.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect()
}

/// A text of a case.
struct Text {
    tokens: Vec<u32>,
    types: Vec<u8>,
    skip: usize,
}

impl Text {
    fn all(case: &Path) -> Vec<Text> {
        let list = json(&case.join("texts.json"));
        let numbers = |text: &Value, key: &str| -> Vec<u64> {
            text[key].as_array().into_iter().flatten().map(|n| n.as_u64().expect("a number")).collect()
        };
        let text = |text: &Value| Text {
            tokens: numbers(text, "tokens").into_iter().map(|n| n as u32).collect(),
            types: numbers(text, "types").into_iter().map(|n| n as u8).collect(),
            skip: text["skip"].as_u64().unwrap_or(0) as usize,
        };
        list.as_array().expect("a list").iter().map(text).collect()
    }

    fn view(&self) -> EncodeText<'_> {
        EncodeText { tokens: &self.tokens, types: &self.types, skip: self.skip }
    }
}

/// A loaded encoder.
struct Encoder {
    model: Model,
    compute: Compute,
    kv: KvDtype,
}

impl Encoder {
    fn load(file: &Path, tier: Tier, threads: usize, fast: Option<EncoderFormat>) -> Encoder {
        Encoder::try_load(file, tier, threads, fast).unwrap_or_else(|e| panic!("{}: {e}", file.display()))
    }

    fn try_load(
        file: &Path,
        tier: Tier,
        threads: usize,
        fast: Option<EncoderFormat>,
    ) -> Result<Encoder, Box<dyn std::error::Error>> {
        Encoder::cached(file, tier, threads, fast, PackedCache::Off).map(|(encoder, _)| encoder)
    }

    fn cached(
        file: &Path,
        tier: Tier,
        threads: usize,
        fast: Option<EncoderFormat>,
        cache: PackedCache,
    ) -> Result<(Encoder, PackedCacheReport), Box<dyn std::error::Error>> {
        let compute = Compute::new(tier, Pool::new(threads, None)?);
        let opened = weights::open(file)?;
        let spec = Spec::read(&opened)?;
        let (precision, format, kv) = match fast {
            None => (Precision::F32, EncoderFormat::File, KvDtype::F32),
            Some(format) => (Precision::Fast, format, KvDtype::fastest(tier)),
        };
        let how = (precision, format);
        let (model, report) = Model::load_encoder(spec, &opened, &compute, how, cache, &mut |_| ())?;
        Ok((Encoder { model, compute, kv }, report))
    }

    /// The output of each text, computed in batches of these texts, with room for `step_tokens` tokens.
    fn encode(&self, batches: &[Vec<&Text>], want: Want, step_tokens: usize) -> Vec<Vec<f32>> {
        let mut pass = EncodePass::new(&self.model.spec, step_tokens, self.kv).expect("buffers");
        let mut all = Vec::new();
        for batch in batches {
            let views: Vec<EncodeText<'_>> = batch.iter().map(|text| text.view()).collect();
            self.model.begin(&mut pass, &views).expect("a batch");
            while self.model.advance(&self.compute, &mut pass) {}
            for index in 0..batch.len() {
                let mut out = Vec::new();
                let output = self.model.output(&self.compute, &pass, index, want, &mut out);
                output.unwrap_or_else(|e| panic!("{}: {e}", self.model.spec.family));
                all.push(out);
            }
        }
        all
    }
}

/// What a case says of an output, one list a text.
fn truth(case: &Path, name: &str, texts: &[Text], want: Want, encoder: &Encoder) -> Vec<Vec<f32>> {
    let shape = &json(&case.join("case.json"))["outputs"][name];
    let width = shape[1].as_u64().expect("a width") as usize;
    let values = floats(&case.join(format!("{name}.f32")));
    let by_token = matches!(want, Want::Hidden | Want::TokenLogits | Want::Tokens);
    let mut rest = &values[..];
    let mut all = Vec::new();
    for text in texts {
        let rows = if by_token { text.tokens.len() } else { 1 };
        let (own, after) = rest.split_at(rows * width);
        let mut own = own.to_vec();
        if want == Want::Tokens {
            own.chunks_exact_mut(width).for_each(|row| {
                let length = row.iter().map(|v| v * v).sum::<f32>().sqrt();
                row.iter_mut().for_each(|v| *v /= length);
            });
            let heads = encoder.model.spec.encoder.as_ref().expect("heads");
            if heads.multi_vector.as_ref().is_some_and(|head| head.skips_first) && text.tokens.len() > 1 {
                own.drain(..width);
            }
        }
        all.push(own);
        rest = after;
    }
    assert!(rest.is_empty(), "{} has more numbers than its texts", case.display());
    all
}

/// The files of a case with the outputs that each must give.
fn files(case: &Path) -> Vec<(PathBuf, Vec<(String, Want)>)> {
    let facts = json(&case.join("case.json"));
    let known =
        |name: &str| OUTPUTS.iter().find(|(of, _)| *of == name).map(|(_, want)| (name.to_owned(), *want));
    let from_folder =
        facts["outputs"].as_object().expect("outputs").keys().filter_map(|n| known(n)).collect();
    let mut all = vec![(case.to_owned(), from_folder)];
    if let Some(list) = facts["gguf_outputs"].as_array().filter(|list| !list.is_empty()) {
        let names = list.iter().filter_map(Value::as_str).filter_map(known).collect();
        all.push((case.join("model.gguf"), names));
    }
    all
}

fn error(got: &[Vec<f32>], want: &[Vec<f32>]) -> f32 {
    let largest = want.iter().flatten().fold(0.0_f32, |most, v| most.max(v.abs()));
    let mut worst = 0.0_f32;
    for (got, want) in got.iter().zip(want) {
        if got.len() != want.len() {
            return f32::INFINITY;
        }
        worst = got.iter().zip(want).fold(worst, |worst, (a, b)| worst.max((a - b).abs()));
    }
    if worst.is_nan() { f32::INFINITY } else { worst / largest.max(1e-9) }
}

fn compare(tier: Tier) {
    let (mut failures, mut worst) = (Vec::new(), 0.0_f32);
    for case in cases() {
        let texts = Text::all(&case);
        let together = vec![texts.iter().collect::<Vec<_>>()];
        for (file, outputs) in files(&case) {
            let encoder = match Encoder::try_load(&file, tier, 2, None) {
                Ok(encoder) => encoder,
                Err(error) => {
                    failures.push(format!("{}: {error}", file.display()));
                    continue;
                }
            };
            for (name, want) in outputs {
                let truth = truth(&case, &name, &texts, want, &encoder);
                let got = encoder.encode(&together, want, 512);
                let error = error(&got, &truth);
                worst = worst.max(error);
                if error > BUDGET {
                    failures.push(format!("{} {name}: {error:e}", file.display()));
                }
            }
        }
    }
    println!("{tier}: worst error {worst:e} of the largest value");
    assert!(failures.is_empty(), "{tier}: over {BUDGET:e}:\n{}", failures.join("\n"));
}

#[test]
fn every_tier_of_this_machine_gives_the_outputs_of_transformers() {
    for tier in Tier::available() {
        compare(tier);
    }
}

#[test]
fn what_is_not_built_is_refused_by_the_name_of_its_key() {
    for (name, key) in REFUSED {
        let case = all_cases().into_iter().find(|case| case.ends_with(name)).expect("a case");
        let error = Encoder::try_load(&case, Tier::Scalar, 1, None).err().expect("a refusal").to_string();
        assert!(error.contains(key), "{name}: {error}");
    }
}

/// Decoders whose layers the pass of encoders does not compute: with a pooling they would give wrong vectors.
#[test]
fn decoders_that_cannot_encode_are_refused_with_a_pooling() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    for (name, words) in [("qwen3moe", "experts"), ("phi2", "parallel")] {
        let folder = tempfile::tempdir().expect("a folder");
        for file in ["config.json", "model.safetensors"] {
            std::fs::copy(fixtures.join(name).join(file), folder.path().join(file)).expect("a copy");
        }
        let read = || Spec::read(&weights::open(folder.path()).expect("a readable folder"));
        assert!(read().expect("a decoder").encoder.is_none());
        std::fs::create_dir(folder.path().join("1_Pooling")).expect("a folder");
        std::fs::write(folder.path().join("1_Pooling/config.json"), r#"{"pooling_mode": "lasttoken"}"#)
            .expect("a file");
        let modules = r#"[{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
            {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}]"#;
        std::fs::write(folder.path().join("modules.json"), modules).expect("a file");
        let said = read().expect_err(words).to_string();
        assert!(said.contains(words), "{name}: {said}");
    }
}

/// The formats that encoders are served in, on the fastest tier: these bounds are for tiny random models, whose sums
/// average fewer errors than those of real ones.
#[test]
fn fast_formats_stay_close_to_the_truth() {
    for (format, least) in [(EncoderFormat::Bf16, 0.999), (EncoderFormat::Int8, 0.99)] {
        for case in cases() {
            let texts = Text::all(&case);
            let encoder = Encoder::load(&case, Tier::best(), 2, Some(format));
            let together = vec![texts.iter().collect::<Vec<_>>()];
            let outputs = files(&case).swap_remove(0).1;
            for (name, want) in
                outputs.into_iter().filter(|(_, want)| matches!(want, Want::Hidden | Want::Dense))
            {
                let truth = truth(&case, &name, &texts, want, &encoder);
                for (got, want) in encoder.encode(&together, want, 512).iter().zip(&truth) {
                    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
                    let cosine = dot(got, want) / (dot(got, got) * dot(want, want)).sqrt();
                    assert!(cosine >= least, "{} {name} {format:?}: cosine {cosine}", case.display());
                }
            }
        }
    }
}

/// Bit for bit: whatever the batch, its order, the size of steps and chunks, and the number of threads.
#[test]
fn a_text_alone_equals_the_text_in_any_batch() {
    for case in cases() {
        let texts = Text::all(&case);
        let want = if files(&case)[0].1.iter().any(|(_, want)| *want == Want::Dense) {
            Want::Dense
        } else {
            Want::Hidden
        };
        for tier in [Tier::Scalar, Tier::best()] {
            for format in [None, Some(EncoderFormat::Int8)] {
                let encoder = Encoder::load(&case, tier, 1, format);
                let alone: Vec<Vec<&Text>> = texts.iter().map(|text| vec![text]).collect();
                let expected = encoder.encode(&alone, want, 512);
                let more = Encoder::load(&case, tier, 3, format);
                let backwards = vec![texts.iter().rev().collect::<Vec<_>>()];
                for (way, encoder, step) in [
                    ("together", &encoder, 512),
                    ("in chunks of 8", &encoder, 8),
                    ("on 3 threads", &more, 24),
                ] {
                    let mut got = encoder.encode(&backwards, want, step);
                    got.reverse();
                    assert!(got == expected, "{} {tier} {format:?} {way}", case.display());
                }
            }
        }
    }
}

/// Packed weights of an encoder: a file for each format, from which the next load has the same bits.
#[test]
fn packed_encoders_give_the_same_bits() {
    let tier = Tier::best();
    for case in cases() {
        let texts = Text::all(&case);
        let views: Vec<&Text> = texts.iter().collect();
        let (file, outputs) = files(&case).into_iter().next().expect("a file");
        let folder = tempfile::tempdir().expect("a folder");
        let copy = folder.path().join("model");
        copy_all(&file, &copy);
        for format in [EncoderFormat::Bf16, EncoderFormat::Int8] {
            let load = |cache| {
                let loaded = Encoder::cached(&copy, tier, 2, Some(format), cache);
                loaded.unwrap_or_else(|e| panic!("{}: {e}", file.display()))
            };
            let of = |encoder: &Encoder| {
                let all =
                    outputs.iter().map(|(_, want)| encoder.encode(std::slice::from_ref(&views), *want, 64));
                all.collect::<Vec<_>>()
            };
            let truth = of(&load(PackedCache::Off).0);
            let mut written = 0;
            for cache in [PackedCache::Map, PackedCache::Map, PackedCache::Read] {
                let (encoder, report) = load(cache);
                assert!(report.errors.is_empty(), "{}: {report:?}", file.display());
                assert!(report.used != report.written.is_some(), "{report:?}");
                written += usize::from(report.written.is_some());
                assert!(of(&encoder) == truth, "{}: {format:?}, {cache:?}", file.display());
            }
            assert_eq!(written, 1);
        }
    }
}

/// Copies a file, or a folder with what is in it.
fn copy_all(from: &Path, to: &Path) {
    if from.is_file() {
        std::fs::copy(from, to).expect("a fixture");
        return;
    }
    std::fs::create_dir(to).expect("a folder");
    for entry in std::fs::read_dir(from).expect("a fixture") {
        let entry = entry.expect("an entry");
        copy_all(&entry.path(), &to.join(entry.file_name()));
    }
}
