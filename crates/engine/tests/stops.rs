//! Where answers end, and where they must not.

use std::sync::Arc;
use std::sync::mpsc::channel;

use engine::fake::{FakeModel, FakeVocabulary};
use engine::{
    Detokenizer, Engine, Event, FinishReason, Handle, Limits, MatchedStop, Params, Refused, Request,
    Unwatched, Vocabulary,
};

const VOCAB: usize = 27;

fn start() -> Handle {
    let model = FakeModel::new(VOCAB, 128, 64, 8);
    Engine::start_with(model, Arc::new(FakeVocabulary), Limits::default(), Box::new(Unwatched))
        .expect("an engine")
}

struct Answer {
    text: String,
    ids: Vec<u32>,
    reason: FinishReason,
    matched_stop: Option<MatchedStop>,
}

fn answer(handle: &Handle, request: Request) -> Answer {
    let (send, from) = channel();
    let _ticket = handle.submit(request, Box::new(send)).expect("room");
    let (mut text, mut ids) = (String::new(), Vec::new());
    for event in from {
        match event {
            Event::Prompt { .. } | Event::Resumed { .. } => panic!("nobody asked for it"),
            Event::Token { text: more, id, .. } => {
                text.push_str(&more);
                ids.push(id);
            }
            Event::Done { text: more, reason, matched_stop, .. } => {
                text.push_str(&more);
                return Answer { text, ids, reason, matched_stop };
            }
            Event::Failed { error, .. } => panic!("{error}"),
        }
    }
    panic!("no end");
}

/// Always ends at once if it may: 0 is the end token.
fn eager() -> Request {
    Request {
        prompt: vec![3, 4],
        max_tokens: Some(40),
        params: Params { logit_bias: vec![(0, 50.0)], ..Params::greedy() },
        ..Request::default()
    }
}

fn endless() -> Request {
    Request {
        prompt: vec![3, 4],
        max_tokens: Some(40),
        params: Params::greedy(),
        ignore_end: true,
        ..Request::default()
    }
}

#[test]
fn an_end_token_waits_for_min_tokens() {
    let handle = start();
    assert_eq!(answer(&handle, eager()).ids, [0]);
    let waited = answer(&handle, Request { min_tokens: 7, ..eager() });
    assert_eq!((waited.ids.len(), waited.ids[7], waited.text.len()), (8, 0, 7));
    assert_eq!((waited.reason, waited.matched_stop), (FinishReason::Stop, None));
}

#[test]
fn stops_wait_for_min_tokens_too() {
    let handle = start();
    let free = answer(&handle, endless());
    // The id is not chosen at all until then; a string may be there, and does not count.
    let id = free.ids[2];
    let by_id = answer(&handle, Request { stop_ids: vec![id], min_tokens: 9, ..endless() });
    assert!(!by_id.ids[..9].contains(&id), "{:?}", by_id.ids);
    let stop = free.text[2..4].to_owned();
    let by_text = answer(&handle, Request { stop: vec![stop.clone()], min_tokens: 9, ..endless() });
    assert!(by_text.ids.len() > 9);
    assert_eq!(by_text.text[..9], free.text[..9]);
    let at_once = answer(&handle, Request { stop: vec![stop.clone()], ..endless() });
    assert_eq!(at_once.text, free.text[..free.text.find(&stop).expect("it is there")]);
}

#[test]
fn what_was_met_is_told_and_kept_if_asked() {
    let handle = start();
    let free = answer(&handle, endless());
    assert_eq!((free.reason, free.matched_stop), (FinishReason::Length, None));
    let stop = free.text[5..8].to_owned();
    let at = free.text.find(&stop).expect("it is there");
    for (show_stop, text) in [(false, &free.text[..at]), (true, &free.text[..at + 3])] {
        let answer =
            answer(&handle, Request { stop: vec!["Z".into(), stop.clone()], show_stop, ..endless() });
        assert_eq!((answer.text.as_str(), answer.reason), (text, FinishReason::Stop));
        assert_eq!(answer.matched_stop, Some(MatchedStop::Text(stop.clone())));
    }
    let id = free.ids[5];
    let first = free.ids.iter().position(|known| *known == id).expect("it is there");
    for (show_stop, letters) in [(false, first), (true, first + 1)] {
        let answer = answer(&handle, Request { stop_ids: vec![id], show_stop, ..endless() });
        assert_eq!(
            (answer.text.as_str(), answer.matched_stop),
            (&free.text[..letters], Some(MatchedStop::Id(id)))
        );
    }
    // An end token is the model's own, also where it is named as a stop.
    let own = answer(&handle, Request { stop_ids: vec![0], show_stop: true, ..eager() });
    assert_eq!((own.text.as_str(), own.matched_stop), ("", None));
}

#[test]
fn lists_of_tokens_are_checked() {
    let handle = start();
    let refused = |params: Params, min_tokens| {
        let (send, _from) = channel();
        match handle.submit(Request { params, min_tokens, ..eager() }, Box::new(send)) {
            Err(Refused::InvalidParam { name, .. }) => name,
            Err(other) => panic!("{other}"),
            Ok(_) => "none",
        }
    };
    let params = Params::greedy;
    assert_eq!(refused(Params { allowed_ids: Some(vec![27]), ..params() }, 0), "allowed_token_ids");
    assert_eq!(refused(Params { allowed_ids: Some(Vec::new()), ..params() }, 0), "allowed_token_ids");
    assert_eq!(refused(Params { bad_words: vec![vec![1, 99]], ..params() }, 0), "bad_words");
    assert_eq!(refused(Params { bad_words: vec![Vec::new()], ..params() }, 0), "bad_words");
    assert_eq!(refused(Params { bad_words: vec![vec![1]; 257], ..params() }, 0), "bad_words");
    assert_eq!(refused(Params { top_n_sigma: -1.0, ..params() }, 0), "top_n_sigma");
    assert_eq!(refused(params(), 41), "min_tokens");
    assert_eq!(refused(params(), 40), "none");
}

/// A vocabulary whose every token but the end is the first byte of a character of two.
struct Halves;

impl Vocabulary for Halves {
    fn is_end(&self, id: u32) -> bool {
        id == 0
    }

    fn ends(&self) -> Vec<u32> {
        vec![0]
    }

    fn bytes(&self, _id: u32) -> Vec<u8> {
        vec![0xc3]
    }

    fn detokenizer(self: Arc<Self>, _shown: &[u32]) -> Box<dyn Detokenizer> {
        Box::new(Halves)
    }
}

impl Detokenizer for Halves {
    fn push(&mut self, _id: u32, _out: &mut String) {}

    fn finish(&mut self, out: &mut String) {
        out.push(char::REPLACEMENT_CHARACTER);
    }
}

#[test]
fn said_badly_an_answer_cut_inside_a_character_ends_before_it() {
    let model = FakeModel::new(VOCAB, 128, 64, 8);
    let handle = Engine::start_with(model, Arc::new(Halves), Limits::default(), Box::new(Unwatched))
        .expect("an engine");
    let cut = answer(&handle, Request { max_tokens: Some(1), ..endless() });
    assert_eq!((cut.text.as_str(), cut.reason), ("", FinishReason::Length));
    // A model that ends inside a character has written what is none.
    let ended = answer(&handle, Request { min_tokens: 1, ..eager() });
    assert_eq!((ended.text.as_str(), ended.reason), ("\u{fffd}", FinishReason::Stop));
}
