//! The block that predicts the token after the next, against its formula in torch: `tools/fixtures/mtp.py` made the files
//! and logits.

use crate::keys::{folder, read, regguf, with};
use crate::runner;

use cpu::Tier;
use kernels::{KvDtype, Precision};
use model::{Error, Spec};
use runner::{Run, Runner, Sequence, error, files, fixtures, prompts, truth};
use std::path::{Path, PathBuf};
use weights::gguf::Value::U32;

/// As for the logits of the models themselves.
const BUDGET: f32 = 1e-4;

fn cases() -> [PathBuf; 3] {
    ["qwen35-mtp", "qwen35moe-mtp", "qwen3next-mtp"].map(|case| fixtures().join(case))
}

fn kept(file: &Path) -> Spec {
    let mut spec = Spec::read(&weights::open(file).unwrap()).unwrap();
    spec.keep_prediction().unwrap();
    spec
}

fn load(file: &Path, tier: Tier) -> Runner {
    Runner::with_spec(file, kept(file), tier, Precision::F32, KvDtype::F32)
}

/// The tokens that follow the prompt.
fn draft(case: &Path) -> Vec<u32> {
    serde_json::from_str(&std::fs::read_to_string(case.join("draft.json")).unwrap()).unwrap()
}

fn predicted(case: &Path) -> Vec<f32> {
    let bytes = std::fs::read(case.join("predicted.f32")).unwrap();
    bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
}

/// What the model and its block make of a prompt in chunks, and the block of the drafted tokens after it.
fn run(runner: &mut Runner, prompt: &[u32], draft: &[u32], chunk: usize) -> (Vec<f32>, Vec<f32>) {
    let text = [prompt, &draft[..1]].concat();
    let mut sequence = Sequence::default();
    let (mut logits, mut predicted, mut place) = (Vec::new(), Vec::new(), 0);
    for (part, from) in prompt.chunks(chunk).zip((0..).step_by(chunk)) {
        logits.extend(runner.step(&mut [Run { sequence: &mut sequence, tokens: part }]));
        let next = &text[from + 1..][..part.len()];
        let places: Vec<usize> = (0..part.len()).collect();
        // As before a step without a proposal: nothing is wanted of rows whose keys and values are written.
        assert!(runner.predict(&sequence, from, next, &places, &[]).is_empty());
        predicted.extend(runner.predict(&sequence, from, next, &places, &places));
        place = part.len() - 1;
    }
    for (token, position) in draft[1..].iter().zip(prompt.len()..) {
        predicted.extend(runner.predict(&sequence, position, &[*token], &[place], &[0]));
    }
    runner.end(sequence);
    (logits, predicted)
}

#[test]
fn every_tier_predicts_what_the_formula_gives() {
    let mut failures = Vec::new();
    for case in cases() {
        let (prompt, draft) = (&prompts(&case)[0], draft(&case));
        for file in files(&case) {
            for tier in Tier::available() {
                let mut runner = load(&file, tier);
                for chunk in [prompt.len(), 7, 1] {
                    let (logits, ours) = run(&mut runner, prompt, &draft, chunk);
                    let errors = (error(&logits, &truth(&case, 0)), error(&ours, &predicted(&case)));
                    if errors.0 > BUDGET || errors.1 > BUDGET {
                        failures.push(format!("{} {tier} in chunks of {chunk}: {errors:?}", file.display()));
                    }
                }
            }
        }
    }
    assert!(failures.is_empty(), "over {BUDGET:e}:\n{}", failures.join("\n"));
}

#[test]
fn a_block_that_is_kept_changes_no_logits() {
    for case in cases() {
        let prompt = &prompts(&case)[0];
        for file in files(&case) {
            let spec = Spec::read(&weights::open(&file).unwrap()).unwrap();
            let mut plain = Runner::with_spec(&file, spec, Tier::best(), Precision::Fast, KvDtype::F32);
            let mut keeping =
                Runner::with_spec(&file, kept(&file), Tier::best(), Precision::Fast, KvDtype::F32);
            for chunk in [prompt.len(), 3] {
                assert_eq!(keeping.prompt(prompt, chunk), plain.prompt(prompt, chunk), "{}", file.display());
            }
        }
    }
}

#[test]
fn a_block_counts_as_memory_and_has_keys_of_its_own() {
    for case in cases() {
        for file in files(&case) {
            let opened = weights::open(&file).unwrap();
            let (without, with) = (Spec::read(&opened).unwrap(), kept(&file));
            let bytes = |spec: &Spec| spec.weight_bytes(&opened, Tier::best(), Precision::Fast).unwrap();
            let width = without.width as u64;
            assert!(bytes(&with) > bytes(&without) + 2 * 2 * width * width, "{}", file.display());
            assert_eq!(with.kv_layers(), without.kv_layers() + 1);
            assert_eq!(with.state_shape(1), without.state_shape(1));
            let runner = load(&file, Tier::best());
            let planned = with.weight_bytes(&opened, Tier::best(), Precision::F32).unwrap();
            assert_eq!(runner.model.bytes() as u64, planned);
        }
    }
}

fn said<T>(result: Result<T, Error>) -> String {
    result.err().expect("a refusal").to_string()
}

#[test]
fn what_is_no_single_block_is_refused_with_its_limit() {
    let mut other = read(&folder("qwen3", |_| ())).unwrap();
    let told = said(other.keep_prediction());
    assert!(["qwen3", "qwen35, qwen35moe, qwen3next"].iter().all(|part| told.contains(part)), "{told}");
    let mut without = read(&folder("qwen35", |_| ())).unwrap();
    let told = said(without.keep_prediction());
    assert!(told.contains("layers that predict further tokens is 0; expected 1"), "{told}");
    let many = regguf("qwen35-mtp", |keys| with(keys, "qwen35.nextn_predict_layers", U32(2)));
    let mut many = Spec::read(&weights::open(&many.path().join("model.gguf")).unwrap()).unwrap();
    let told = said(many.keep_prediction());
    assert!(told.contains("layers that predict further tokens is 2; expected 1"), "{told}");
    let all = regguf("qwen35-mtp", |keys| with(keys, "qwen35.nextn_predict_layers", U32(4)));
    let told = said(Spec::read(&weights::open(&all.path().join("model.gguf")).unwrap()));
    assert!(told.contains("nextn_predict_layers is 4; expected fewer than the 4 layers"), "{told}");
}

/// A copy of a directory with one tensor's name changed, which is of the same length.
fn renamed(case: &str, from: &str, to: &str) -> tempfile::TempDir {
    let folder = folder(case, |_| ());
    let path = folder.path().join("model.safetensors");
    let mut bytes = std::fs::read(&path).unwrap();
    let at = bytes.windows(from.len()).position(|part| part == from.as_bytes()).expect("the name");
    bytes[at..at + to.len()].copy_from_slice(to.as_bytes());
    std::fs::write(&path, bytes).unwrap();
    folder
}

#[test]
fn missing_and_unequal_tensors_of_a_block_are_named() {
    for (from, to) in [
        ("mtp.norm.weight", "mtp.norm.weighs"),
        ("mtp.layers.0.self_attn.q_proj", "mtp.layers.0.self_attn.p_proj"),
    ] {
        let folder = renamed("qwen35-mtp", from, to);
        let opened = weights::open(folder.path()).unwrap();
        let mut spec = Spec::read(&opened).unwrap();
        let bytes = |spec: &Spec| spec.weight_bytes(&opened, Tier::best(), Precision::Fast);
        assert!(bytes(&spec).is_ok(), "a block that is not kept is not read");
        spec.keep_prediction().unwrap();
        let told = said(bytes(&spec));
        assert!(told.contains(from) && told.contains(to), "{told}");
    }
    let folder = renamed("qwen35-mtp", "mtp.fc.weight", "mtp.fc.weighs");
    let mut spec = read(&folder).unwrap();
    assert!(said(spec.keep_prediction()).contains("is 0; expected 1"), "the tensor tells of the block");
    let of_fc = |shape| format!(r#""mtp.fc.weight":{{"dtype":"BF16","shape":{shape}"#);
    let folder = renamed("qwen35-mtp", &of_fc("[32,64]"), &of_fc("[64,32]"));
    let opened = weights::open(folder.path()).unwrap();
    let mut spec = Spec::read(&opened).unwrap();
    spec.keep_prediction().unwrap();
    let told = said(spec.weight_bytes(&opened, Tier::best(), Precision::Fast));
    let parts = ["mtp.fc.weight", "[64, 32]", "[32, 64]"];
    assert!(parts.iter().all(|part| told.contains(part)), "{told}");
}

#[test]
fn a_prediction_out_of_range_is_refused() {
    let case = fixtures().join("qwen35-mtp");
    let mut runner = load(&case, Tier::best());
    let mut sequence = Sequence::default();
    runner.step(&mut [Run { sequence: &mut sequence, tokens: &[5, 6, 7] }]);
    let mut told = |first, tokens: &[u32], from: &[usize], want: &[usize]| {
        said(runner.try_predict(&sequence, first, tokens, from, want))
    };
    assert_eq!(told(0, &[1], &[], &[]), "bad batch: places of hidden states is 0, the limit is 1");
    assert_eq!(told(0, &[1], &[256], &[]), "bad batch: place of a hidden state is 257, the limit is 256");
    assert_eq!(told(0, &[128], &[0], &[]), "bad batch: token is 128, the limit is 127");
    assert_eq!(told(32, &[1], &[0], &[]), "bad batch: position is 33, the limit is 32");
    let mut plain = Runner::load(&case, Tier::best(), Precision::F32, KvDtype::F32, None);
    let mut sequence = Sequence::default();
    plain.step(&mut [Run { sequence: &mut sequence, tokens: &[5] }]);
    let told = said(plain.try_predict(&sequence, 0, &[1], &[0], &[0]));
    assert_eq!(told, "bad batch: rows that predict further tokens is 1, the limit is 0");
}
