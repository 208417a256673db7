//! Answers that another engine began: from each of their tokens on they continue as they would have continued there.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use cpu::Tier;
use engine::fake::{FakeModel, FakeVocabulary};
use engine::{
    Constrain, Dry, Engine, Event, FinishReason, Handle, Limits, MatchedStop, Mirostat, MirostatVersion,
    Outbox, Params, ReceiverGone, Refused, Request, Speculation, TokenLogprobs, Unwatched, Usage, Xtc,
};
use serde_json::json;
use text::{AnswerConstraint, ConstraintCompiler, ReasoningFormat, ReasoningTags};

use crate::{common, fixtures_batch, structured};

/// All that is told of an answer.
#[derive(Debug, Clone, PartialEq)]
struct Answer {
    tokens: Vec<(u32, String)>,
    logprobs: Vec<Option<TokenLogprobs>>,
    rest: String,
    reason: FinishReason,
    matched_stop: Option<MatchedStop>,
}

fn read(handle: &Handle, request: Request) -> (Answer, Usage) {
    let (send, from) = channel();
    let _ticket = handle.submit(request, Box::new(send)).expect("accepted");
    let (mut tokens, mut logprobs) = (Vec::new(), Vec::new());
    loop {
        match from.recv_timeout(Duration::from_secs(300)).expect("an answer") {
            Event::Prompt { .. } => panic!("nobody asked for it"),
            Event::Resumed { tokens: resumed } => {
                assert!(tokens.is_empty() && !resumed.is_empty(), "told once, and first");
                tokens = resumed;
            }
            Event::Token { text, id, logprobs: found } => {
                tokens.push((id, text));
                logprobs.push(found);
            }
            Event::Done { text, reason, matched_stop, usage, .. } => {
                return (Answer { tokens, logprobs, rest: text, reason, matched_stop }, usage);
            }
            Event::Failed { error, .. } => panic!("{error}"),
        }
    }
}

/// Checks that an answer goes on the same from each of its tokens.
fn check(first: &Handle, second: &Handle, request: &Request, what: &str) -> Answer {
    let (whole, usage) = read(first, request.clone());
    assert_eq!(usage.resumed_tokens, 0, "{what}");
    for count in 0..=whole.tokens.len() {
        let resume: Vec<u32> = whole.tokens[..count].iter().map(|(id, _)| *id).collect();
        let (mut answer, resumed) = read(second, Request { resume, ..request.clone() });
        // Those of the resumed tokens were told by the other engine.
        answer.logprobs.splice(..0, whole.logprobs[..count].iter().cloned());
        assert_eq!(answer, whole, "{what}, from token {count} on");
        let told = (resumed.prompt_tokens, resumed.completion_tokens, resumed.resumed_tokens);
        assert_eq!(told, (usage.prompt_tokens, usage.completion_tokens, count), "{what}");
        assert!(resumed.cached_tokens <= resumed.prompt_tokens, "{what}: {resumed:?}");
    }
    whole
}

const VOCAB: usize = 27;

fn start(prefill_numerics_differ: bool, prefix_cache: bool, speculation: Speculation) -> Handle {
    let mut model = FakeModel::new(VOCAB, 128, 64, 8);
    (model.prefill_numerics_differ, model.habit) = (prefill_numerics_differ, 0.5);
    let limits = Limits { prefix_cache, speculation, prefill_chunk: 12, ..Limits::default() };
    Engine::start_with(model, Arc::new(FakeVocabulary), limits, Box::new(Unwatched)).expect("an engine")
}

/// Requests with each part of an answer's state that a token changes.
fn requests() -> Vec<(&'static str, Request)> {
    let base = Request {
        prompt: vec![3, 4, 5, 3, 4, 6],
        max_tokens: Some(40),
        params: Params { temperature: 1.0, seed: Some(11), logprobs: Some(2), ..Params::default() },
        ignore_end: true,
        ..Request::default()
    };
    let with = |params: Params| Request { params, ..base.clone() };
    let params = || base.params.clone();
    let free = || Params { top_k: 0, top_p: 1.0, min_p: 0.0, ..params() };
    let xtc = Xtc { probability: 0.5, threshold: 0.05 };
    let dry = Dry { multiplier: 0.8, sequence_breakers: vec!["ab".into(), "c".into()], ..Dry::default() };
    let penalties =
        Params { repeat_penalty: 1.3, frequency_penalty: 0.4, presence_penalty: -0.3, ..params() };
    let mirostat = Mirostat { version: MirostatVersion::Two, tau: 3.0, eta: 0.1 };
    let stops = |stop: &[&str], show_stop| Request {
        stop: stop.iter().map(|stop| (*stop).to_owned()).collect(),
        show_stop,
        min_tokens: 4,
        ..with(params())
    };
    vec![
        ("greedy", with(Params { temperature: 0.0, seed: None, mirostat: Some(mirostat), ..params() })),
        ("sampled", with(params())),
        ("nothing filtered", with(free())),
        ("xtc", with(Params { xtc, ..params() })),
        ("xtc first", with(Params { xtc, ..free() })),
        (
            "dynamic temperature",
            with(Params { dynatemp: engine::Dynatemp { range: 0.7, exponent: 1.0 }, ..params() }),
        ),
        ("typical", with(Params { typical_p: 0.6, top_n_sigma: 1.5, ..params() })),
        ("dry", with(Params { dry, ..params() })),
        ("penalties", with(penalties)),
        (
            "bias and words",
            with(Params { logit_bias: vec![(3, 2.0)], bad_words: vec![vec![5, 6], vec![7]], ..params() }),
        ),
        (
            "own end",
            Request {
                ignore_end: false,
                params: Params { logit_bias: vec![(0, 3.0)], ..params() },
                ..base.clone()
            },
        ),
        (
            "least tokens",
            Request {
                ignore_end: false,
                min_tokens: 9,
                params: Params { logit_bias: vec![(0, 9.0)], ..params() },
                ..base.clone()
            },
        ),
        ("stop ids", Request { stop_ids: vec![9, 12], ..with(params()) }),
        ("shown stop ids", Request { stop_ids: vec![9, 12], show_stop: true, ..with(params()) }),
        ("stops", stops(&["ka", "xyz", "ef"], false)),
        ("shown stops", stops(&["ka", "lk", "ef"], true)),
        ("one token", Request { max_tokens: Some(1), ..with(params()) }),
    ]
}

#[test]
fn an_answer_goes_on_the_same_from_each_token() {
    for prefill_differs in [false, true] {
        let first = start(prefill_differs, true, Speculation::OFF);
        for (cached, speculation) in [
            (true, Speculation::OFF),
            (false, Speculation::OFF),
            (true, Speculation { lookup: true, tokens: 4, always: true }),
        ] {
            let second = start(prefill_differs, cached, speculation);
            let mut stopped = 0;
            for (what, request) in requests() {
                let what =
                    format!("{what}, prompts differ {prefill_differs}, cache {cached}, {speculation:?}");
                let answer = check(&first, &second, &request, &what);
                stopped += usize::from(answer.matched_stop.is_some());
            }
            assert!(stopped >= 2, "stops are to be met too: {stopped}");
        }
    }
}

/// Stop strings over every beginning of what an answer says: text that is held back at a boundary comes once.
#[test]
fn text_that_is_held_back_comes_once() {
    let (first, second) = (start(false, true, Speculation::OFF), start(false, true, Speculation::OFF));
    let (_, request) = requests().remove(1);
    let (whole, _) = read(&first, request.clone());
    let text: String = whole.tokens.iter().map(|(_, text)| text.as_str()).collect();
    for from in [3, 11, 19] {
        for len in [2, 5, 9] {
            let met = text[from..from + len].to_owned();
            let missed = format!("{}0", &text[from..from + len]);
            let request = Request { stop: vec![missed, met], ..request.clone() };
            let answer = check(&first, &second, &request, &format!("stop at {from} of {len}"));
            assert_eq!(answer.reason, FinishReason::Stop);
        }
    }
}

#[test]
fn many_answers_resumed_in_one_batch_are_the_same() {
    for prefill_differs in [false, true] {
        let (first, second) =
            (start(prefill_differs, true, Speculation::OFF), start(prefill_differs, true, Speculation::OFF));
        let asked: Vec<Request> = (0..24)
            .map(|seed| {
                let (_, request) = requests().remove(1 + seed as usize % 3);
                let params = Params { seed: Some(seed), logprobs: None, ..request.params.clone() };
                Request { params, ..request }
            })
            .collect();
        let whole = common::ask(&first, asked.clone());
        let resumed = asked.into_iter().zip(&whole).enumerate().map(|(i, (request, answer))| {
            let count = i * answer.tokens.len() / 23;
            Request { resume: answer.tokens[..count].to_vec(), ..request }
        });
        assert_eq!(common::ask(&second, resumed.collect()), whole);
    }
}

#[test]
fn forms_and_thoughts_go_on_the_same() {
    let tokenizer = structured::tokenizer();
    let first = structured::engine(&tokenizer, 64 * 16, Speculation::OFF);
    let second =
        structured::engine(&tokenizer, 64 * 16, Speculation { lookup: false, tokens: 8, always: true });
    let grammars = ConstraintCompiler::new(tokenizer.clone()).expect("grammars");
    let tags = ReasoningTags { open: "<think>", close: "</think>" };
    let form = AnswerConstraint::json(structured::schemas().swap_remove(8));
    let thought = |begun, form| {
        let thought = ReasoningFormat { tags, begun };
        let guided = grammars.guidance(form, Some(&thought), Some(7)).expect("guidance");
        Arc::new(guided) as Arc<dyn Constrain>
    };
    let forms = [
        ("json", structured::guidance(&tokenizer, &form)),
        (
            "choice",
            structured::guidance(&tokenizer, &AnswerConstraint::Choice(vec!["yes".into(), "née".into()])),
        ),
        ("thought and json", thought(true, Some(&form))),
        ("thought to come", thought(false, Some(&form))),
        ("thought alone", thought(true, None)),
    ];
    for (what, constrain) in forms {
        for seed in 0..4 {
            let params = Params { seed: Some(seed), temperature: 1.0, top_k: 0, ..Params::default() };
            let request = Request {
                prompt: vec![5, 6, 7],
                max_tokens: Some(60),
                params,
                constrain: Some(constrain.clone()),
                ..Request::default()
            };
            check(&first, &second, &request, what);
        }
    }
}

/// Real models: rows that other engines computed as an answer's are an answer's here too.
/// All tiers for a family of each kind of cache. The others differ by nothing that a resumed answer could meet on one tier
/// alone, but for how prompts are computed.
fn tiers(fixture: &Path) -> Vec<Tier> {
    let every_tier =
        ["llama-3", "qwen35", "gemma4", "deepseek-v2"].iter().any(|name| fixture.ends_with(name));
    let mut tiers = Tier::available();
    tiers.retain(|tier| every_tier || *tier == Tier::best() || *tier == Tier::Avx2);
    tiers
}

#[test]
fn every_family_goes_on_the_same_cold_warm_alone_and_together() {
    let _running = fixtures_batch::one_at_a_time();
    for path in fixtures_batch::fixtures() {
        for tier in tiers(&path) {
            let (model, first) = fixtures_batch::engine(&path, tier, 8, Speculation::OFF);
            let (_, second) = fixtures_batch::engine(&path, tier, 8, Speculation::OFF);
            let asked: Vec<Request> = fixtures_batch::requests(&model)
                .into_iter()
                .map(|request| Request { prompt_logprobs: None, ..request })
                .collect();
            let whole = common::ask(&first, asked.clone());
            let resumed = |part: usize| {
                let requests = asked.iter().zip(&whole).enumerate().map(|(i, (request, answer))| {
                    let count = ((part + 3 * i) * 5).min(answer.tokens.len());
                    Request { resume: answer.tokens[..count].to_vec(), ..request.clone() }
                });
                requests.collect::<Vec<_>>()
            };
            let what = format!("{} on {tier}", path.display());
            let alone = resumed(0).into_iter().flat_map(|request| common::ask(&second, vec![request]));
            assert_eq!(alone.collect::<Vec<_>>(), whole, "{what}");
            assert_eq!(common::ask(&second, resumed(1)), whole, "{what}, together");
        }
    }
}

/// A reader that has left.
struct Gone;

impl Outbox for Gone {
    fn put(&mut self, _event: Event) -> Result<(), ReceiverGone> {
        Err(ReceiverGone)
    }

    fn is_gone(&self) -> bool {
        true
    }
}

#[test]
fn nothing_is_replayed_for_who_has_left() {
    let handle = start(false, true, Speculation::OFF);
    let (_, request) = requests().remove(1);
    let refused = handle.submit(Request { resume: vec![1, 2], ..request }, Box::new(Gone)).err();
    assert_eq!((refused, handle.stats().waiting), (Some(Refused::Closed), 0));
}

#[test]
fn what_cannot_be_gone_on_with_is_refused() {
    let handle = start(false, true, Speculation::OFF);
    let (_, good) = requests().remove(1);
    let refused = |request: Request| {
        let (send, _from) = channel();
        match handle.submit(request, Box::new(send)).err().expect("refused") {
            Refused::InvalidParam { name: "resume", value, expected } => format!("{value}, {expected}"),
            other => panic!("{other}"),
        }
    };
    let with = |resume: &[u32]| Request { resume: resume.to_vec(), ..good.clone() };
    for (request, words) in [
        (with(&[1, VOCAB as u32]), "token ids below 27"),
        (Request { max_tokens: Some(2), ..with(&[1, 2, 3]) }, "at most the 2"),
        (Request { max_tokens: None, ..with(&[1; 123]) }, "at most the 122"),
        (Request { params: Params { seed: None, ..good.params.clone() }, ..with(&[1]) }, "without a seed"),
        (Request { prompt_logprobs: Some(0), ..with(&[1]) }, "prompt_logprobs"),
        (Request { stop_ids: vec![5], ..with(&[1, 5, 6]) }, "token 6 at index 2"),
        (Request { ignore_end: false, ..with(&[0, 6]) }, "token 6 at index 1"),
        (
            Request {
                params: Params {
                    mirostat: Some(Mirostat { version: MirostatVersion::One, tau: 3.0, eta: 0.1 }),
                    ..good.params.clone()
                },
                ..with(&[1])
            },
            "mirostat",
        ),
    ] {
        let message = refused(request);
        assert!(message.contains(words), "{message}");
    }
    let tokenizer = structured::tokenizer();
    let engine = structured::engine(&tokenizer, 64 * 16, Speculation::OFF);
    let constrain = structured::guidance(&tokenizer, &AnswerConstraint::json(json!({"type": "boolean"})));
    let letter = (0..tokenizer.vocab_size() as u32).find(|id| tokenizer.token_bytes(*id) == Some(b"x"));
    let request = Request {
        prompt: vec![5],
        params: Params::greedy(),
        constrain: Some(constrain),
        resume: vec![letter.expect("a letter")],
        ..Request::default()
    };
    let (send, _from) = channel();
    let refused = engine.submit(request, Box::new(send)).err().expect("refused").to_string();
    assert!(refused.contains("index 0") && refused.contains("form"), "{refused}");
    assert_eq!((handle.stats().waiting, handle.stats().waiting_tokens), (0, 0));
}
