//! Each family against Hugging Face transformers in fp32: `tools/fixtures/transformers.py` made the files and logits.

#![allow(clippy::print_stdout, reason = "a test may tell how close it came")]

use crate::runner;

use cpu::Tier;
use kernels::{Activation, KvDtype, Precision};
use model::mixture::{RouterBias, Score};
use model::{
    DeltaNet, FeedForward, KvSource, LayerFactors, Mamba2, Mixer, Mixture, QkNorm, Rope, RopeScaling, Spec,
};
use runner::{Run, Runner, Sequence, cases, error, files, fixtures, prompts, truth};
use std::path::Path;

/// The budget that the project set: the largest error over the largest logit, all positions.
const BUDGET: f32 = 1e-4;

/// Long rope picks its factors by the context served; a prompt within the first training's context was made with the
/// short ones.
fn context(case: &Path, prompt: &[u32]) -> Option<usize> {
    (case.ends_with("phi4-mini") && prompt.len() <= 24).then_some(24)
}

fn compare(tier: Tier) {
    let mut failures = Vec::new();
    let mut worst: f32 = 0.0;
    for case in cases() {
        for (index, prompt) in prompts(&case).iter().enumerate() {
            let truth = truth(&case, index);
            for file in files(&case) {
                let limit = context(&case, prompt);
                let mut runner = Runner::load(&file, tier, Precision::F32, KvDtype::F32, limit);
                let ways = [
                    ("whole", runner.prompt(prompt, prompt.len())),
                    ("in chunks of 7", runner.prompt(prompt, 7)),
                    ("token by token", runner.prompt(prompt, 1)),
                    ("among others", among_others(&mut runner, prompt)),
                ];
                for (way, logits) in ways {
                    let error = error(&logits, &truth);
                    worst = worst.max(error);
                    if error > BUDGET {
                        failures.push(format!(
                            "{} {way}: {error:e}",
                            file.strip_prefix(fixtures()).expect("a fixture").display()
                        ));
                    }
                }
            }
        }
    }
    println!("{tier}: worst error {worst:e} of the largest logit");
    assert!(failures.is_empty(), "{tier}: over {BUDGET:e}:\n{}", failures.join("\n"));
}

/// The prompt in uneven chunks, between two other sequences in every batch.
fn among_others(runner: &mut Runner, prompt: &[u32]) -> Vec<f32> {
    let vocab = runner.model.spec.vocab;
    let [mut before, mut own, mut after] = [Sequence::default(), Sequence::default(), Sequence::default()];
    let backwards: Vec<u32> = prompt.iter().rev().copied().collect();
    let (mut logits, mut done, mut step) = (Vec::new(), 0, 0);
    while done < prompt.len() {
        let take = (1 + step * 5 % 11).min(prompt.len() - done);
        let others = 1 + step % 3;
        let at = (step * 3) % (prompt.len() - 3);
        let rows = runner.step(&mut [
            Run { sequence: &mut before, tokens: &backwards[at..at + others] },
            Run { sequence: &mut own, tokens: &prompt[done..done + take] },
            Run { sequence: &mut after, tokens: &prompt[at..at + 1] },
        ]);
        logits.extend_from_slice(&rows[others * vocab..(others + take) * vocab]);
        done += take;
        step += 1;
    }
    [before, own, after].into_iter().for_each(|s| runner.end(s));
    logits
}

#[test]
fn every_tier_of_this_machine_gives_the_logits_of_transformers() {
    for tier in Tier::available() {
        compare(tier);
    }
}

#[test]
fn every_family_of_the_table_has_a_fixture() {
    let made: Vec<&str> = cases()
        .iter()
        .chain(&crate::encoders::cases())
        .map(|case| Spec::read(&weights::open(case).expect("a fixture")).expect("a spec").family)
        .collect();
    for family in model::families::FAMILIES {
        assert!(made.contains(&family.name), "{} has no fixture", family.name);
    }
}

fn mixture(spec: &Spec) -> Option<Mixture> {
    spec.layers.iter().find_map(|layer| match layer.feed {
        FeedForward::Experts(mixture) => Some(mixture),
        FeedForward::None | FeedForward::Dense { .. } => None,
    })
}

fn delta_net(spec: &Spec) -> Option<DeltaNet> {
    spec.layers.iter().find_map(|layer| match layer.mixer {
        Mixer::DeltaNet(net) => Some(net),
        _ => None,
    })
}

fn mamba2(spec: &Spec) -> Option<Mamba2> {
    spec.layers.iter().find_map(|layer| match layer.mixer {
        Mixer::Mamba2(net) | Mixer::AttentionAndMamba2(net) => Some(net),
        _ => None,
    })
}

fn change_mamba2(spec: &mut Spec, change: impl Fn(&mut Mamba2)) {
    for layer in &mut spec.layers {
        if let Mixer::Mamba2(net) | Mixer::AttentionAndMamba2(net) = &mut layer.mixer {
            change(net);
        }
    }
}

fn change_mixtures(spec: &mut Spec, change: impl Fn(&mut Mixture)) {
    for layer in &mut spec.layers {
        if let FeedForward::Experts(mixture) = &mut layer.feed {
            change(mixture);
        }
    }
}

/// A fixture that could not tell would prove nothing: leaving out any feature that a spec turns on must show.
#[test]
fn a_feature_left_out_is_noticed() {
    type Feature = (&'static str, fn(&Spec) -> bool, fn(&mut Spec));
    let features: [Feature; 35] = [
        (
            "window",
            |s| s.layers.iter().any(|l| l.window.is_some()),
            |s| {
                s.layers.iter_mut().for_each(|l| l.window = None);
            },
        ),
        (
            "global layers",
            |s| s.layers.iter().any(|l| l.window.is_some()),
            |s| {
                let window = s.layers.iter().find_map(|l| l.window).map(|w| w - 1);
                s.layers.iter_mut().for_each(|l| l.window = window);
            },
        ),
        (
            "rope scaling",
            |s| s.ropes[0].scaling != RopeScaling::None,
            |s| s.ropes[0].scaling = RopeScaling::None,
        ),
        (
            "local rope",
            |s| s.ropes.len() > 1,
            |s| s.ropes[1] = Rope { rotary_dim: s.ropes[1].rotary_dim, ..s.ropes[0].clone() },
        ),
        (
            "the active stream",
            |s| s.alt_up.is_some(),
            |s| {
                let alt_up = s.alt_up.as_mut().expect("streams");
                alt_up.active = (alt_up.active + 1) % alt_up.streams;
            },
        ),
        (
            "the scale of the corrected stream, or none",
            |s| s.alt_up.is_some(),
            |s| {
                let alt_up = s.alt_up.as_mut().expect("streams");
                alt_up.scaled = !alt_up.scaled;
            },
        ),
        (
            "the cutoff of gates",
            |s| s.layers.iter().any(|l| l.gate_cutoff.is_some()),
            |s| s.layers.iter_mut().for_each(|l| l.gate_cutoff = None),
        ),
        ("norm of values", |s| s.value_norm, |s| s.value_norm = false),
        (
            "the layer whose keys are shared",
            |s| s.layers.iter().any(|l| l.kv == KvSource::Layer(1)),
            |s| {
                let shared = s.layers.iter_mut().filter(|l| l.kv == KvSource::Layer(1));
                shared.for_each(|l| l.kv = KvSource::Layer(0));
            },
        ),
        ("score cap", |s| s.attention_soft_cap.is_some(), |s| s.attention_soft_cap = None),
        ("logit cap", |s| s.logit_soft_cap.is_some(), |s| s.logit_soft_cap = None),
        ("embedding scale", |s| s.embedding_scale != 1.0, |s| s.embedding_scale = 1.0),
        ("attention scale", |_| true, |s| s.attention_scale *= 1.01),
        ("residual scale", |s| s.residual_scale != 1.0, |s| s.residual_scale = 1.0),
        ("logit scale", |s| s.logit_scale != 1.0, |s| s.logit_scale = 1.0),
        ("epsilon", |_| true, |s| s.norm.eps *= 100.0),
        ("clamped swish", |s| s.activation == Activation::ClampedSwish, |s| s.activation = Activation::Silu),
        (
            "which key head a value head has",
            |s| delta_net(s).is_some_and(|net| net.key_heads != 1 && net.key_heads != net.value_heads),
            |s| {
                for layer in &mut s.layers {
                    if let Mixer::DeltaNet(net) = &mut layer.mixer {
                        net.tiled = !net.tiled;
                    }
                }
            },
        ),
        (
            "logarithms of rates",
            |s| mamba2(s).is_some_and(|net| net.log_rates),
            |s| change_mamba2(s, |net| net.log_rates = false),
        ),
        (
            "the least step",
            |s| mamba2(s).is_some_and(|net| net.steps.0 > 0.01),
            |s| change_mamba2(s, |net| net.steps.0 = 0.0),
        ),
        (
            "the largest step",
            |s| mamba2(s).is_some_and(|net| net.steps.1.is_finite()),
            |s| change_mamba2(s, |net| net.steps.1 = f32::INFINITY),
        ),
        (
            "the factor on Mamba-2's gate",
            |s| mamba2(s).is_some_and(|net| net.factors.gate != 1.0),
            |s| change_mamba2(s, |net| net.factors.gate = 1.0),
        ),
        (
            "the factor on Mamba-2's input",
            |s| mamba2(s).is_some_and(|net| net.factors.input != 1.0),
            |s| change_mamba2(s, |net| net.factors.input = 1.0),
        ),
        (
            "the factor on Mamba-2's write",
            |s| mamba2(s).is_some_and(|net| net.factors.write != 1.0),
            |s| change_mamba2(s, |net| net.factors.write = 1.0),
        ),
        (
            "the factor on Mamba-2's step",
            |s| mamba2(s).is_some_and(|net| net.factors.step != 1.0),
            |s| change_mamba2(s, |net| net.factors.step = 1.0),
        ),
        (
            "the factor on Mamba-2's out",
            |s| mamba2(s).is_some_and(|net| net.factors.out != 1.0),
            |s| change_mamba2(s, |net| net.factors.out = 1.0),
        ),
        (
            "factors on attention and feed-forwards",
            |s| s.factors != LayerFactors::ONE,
            |s| s.factors.attention = 1.0,
        ),
        ("the factor on gates", |s| s.factors.gate != 1.0, |s| s.factors.gate = 1.0),
        (
            "router's score",
            |s| mixture(s).is_some(),
            |s| {
                change_mixtures(s, |mixture| {
                    let is_sigmoid = mixture.router.score == Score::Sigmoid;
                    mixture.router.score = if is_sigmoid { Score::Softmax } else { Score::Sigmoid };
                });
            },
        ),
        (
            "scale of experts' weights, beside a shared expert",
            // Not where the sum of the experts is normalised.
            |s| mixture(s).is_some_and(|mixture| mixture.shared.is_some() && !mixture.beside),
            |s| change_mixtures(s, |mixture| mixture.router.scale = 1.01),
        ),
        (
            "bias of a choice, not of logits, and the reverse",
            |s| mixture(s).is_some_and(|mixture| mixture.router.bias.is_some()),
            |s| {
                change_mixtures(s, |mixture| {
                    let bias = mixture.router.bias.as_mut().expect("a bias");
                    *bias = match bias {
                        RouterBias::Choice => RouterBias::Logits,
                        RouterBias::Logits => RouterBias::Choice,
                    };
                });
            },
        ),
        (
            "layers without rope",
            |s| s.layers.iter().any(|l| l.rope.is_none()),
            |s| s.layers.iter_mut().for_each(|l| l.rope = Some(0)),
        ),
        ("query temperature", |s| s.query_temperature.is_some(), |s| s.query_temperature = None),
        ("norm of heads after rope", |s| s.qk_norm == QkNorm::HeadAfterRope, |s| s.qk_norm = QkNorm::Head),
        (
            "square of the activation",
            |s| s.activation == Activation::Relu2,
            |s| s.activation = Activation::Relu,
        ),
    ];
    let mut seen = vec![false; features.len()];
    for case in cases() {
        let prompt = prompts(&case).pop().expect("a prompt");
        let truth = truth(&case, prompts(&case).len() - 1);
        let spec = Spec::read(&weights::open(&case).expect("a fixture")).expect("a spec");
        for (index, (name, has, leave_out)) in features.iter().enumerate() {
            if !has(&spec) {
                continue;
            }
            seen[index] = true;
            let mut less = spec.clone();
            leave_out(&mut less);
            let mut runner = Runner::with_spec(&case, less, Tier::best(), Precision::F32, KvDtype::F32);
            let error = error(&runner.prompt(&prompt, prompt.len()), &truth);
            assert!(error > BUDGET, "{}: {name} left out, error only {error:e}", case.display());
        }
    }
    assert!(
        seen.iter().all(|&s| s),
        "no fixture has {:?}",
        seen.iter().position(|&s| !s).map(|i| features[i].0)
    );
}
