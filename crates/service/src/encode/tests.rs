//! Operations on a fake encoder, from the request to the record of what it used.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use engine::encoder::fake::{AroundUnits, FakeEncoder};
use engine::encoder::{Text, Want};
use inference::{
    Aggregation, Audit, Classify, ClassifyTokens, Embed, EmbedKind, Embedding, Encoded, EncoderFacts,
    Generate, Inference, InputLength, InputPrompt, Length, Operation, Output, Record, Request,
    RequestContext, Rerank, Score, TextInput, Tokenize, Truncation,
};
use text::{EncodeOptions, TextOrPair};
use wire::{Fault, limits};

use super::*;
use crate::encoding::EncoderText;
use crate::fake::{END, START, Words, encoding};
use crate::{LoadedModel, Options, Service};

const VOCAB: usize = 5000;
const CONTEXT: usize = 16;
const WIDTH: usize = 6;

fn fake() -> FakeEncoder {
    FakeEncoder::new(VOCAB, CONTEXT, 64, WIDTH)
}

fn heads() -> EncoderHeads {
    let dense = DenseHead { width: WIDTH, normalize: true, short: ShortVectors::Of(vec![2, 4]) };
    EncoderHeads { dense: Some(dense), ..EncoderHeads::default() }
}

fn labels(names: &[&str]) -> Arc<[String]> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn classifier(names: &[&str], activation: Activation) -> EncoderHeads {
    let classifier = Some(ClassifierHead { labels: labels(names), activation });
    EncoderHeads { classifier, ..EncoderHeads::default() }
}

fn facts() -> EncoderFacts {
    EncoderFacts {
        fingerprint: Arc::from("abc"),
        max_tokens: CONTEXT,
        dimensions: WIDTH,
        ..EncoderFacts::default()
    }
}

fn serving(heads: EncoderHeads) -> Service {
    serving_with(fake(), heads, Options::default())
}

fn serving_with(
    encode: impl engine::encoder::Encode + 'static,
    heads: EncoderHeads,
    options: Options,
) -> Service {
    let service = Service::new(options);
    let encoding = encoding(encode, heads, facts()).unwrap();
    service.ready(LoadedModel::encoder(vec!["enc".into()], encoding), Duration::ZERO);
    service
}

#[derive(Default)]
struct Kept(Mutex<Vec<Record>>);

impl Audit for Kept {
    fn note(&self, record: &Record) {
        self.0.lock().unwrap().push(record.clone());
    }
}

fn context(audit: Option<Arc<dyn Audit>>) -> Arc<RequestContext> {
    RequestContext::new(audit, "id".into(), "POST", Some("/v1/embeddings"), None, None)
}

async fn ask(service: &Service, operation: Operation) -> Result<Output, Fault> {
    service.submit(Request { operation, context: context(None), time_limit: None }).await
}

async fn embed(service: &Service, embed: Embed) -> Result<Encoded<Embedding>, Fault> {
    match ask(service, Operation::Embed(embed)).await? {
        Output::Embeddings(encoded) => Ok(encoded),
        _ => panic!("embeddings"),
    }
}

async fn scores(service: &Service, operation: Operation) -> Result<Encoded<f32>, Fault> {
    match ask(service, operation).await? {
        Output::Scores(encoded) => Ok(encoded),
        _ => panic!("scores"),
    }
}

fn texts(all: &[&str]) -> Vec<TextInput> {
    all.iter().map(|text| TextInput::Text((*text).to_owned())).collect()
}

fn of(all: &[&str]) -> Embed {
    Embed { inputs: texts(all), ..Embed::default() }
}

/// The tokens of words between the special ones.
fn tokens(words: &[&str]) -> Vec<u32> {
    let words = words.iter().map(|word| Words(VOCAB).token(word));
    std::iter::once(START).chain(words).chain([END]).collect()
}

fn values(words: &[&str], skip: usize) -> Vec<f32> {
    fake().values(&Text { tokens: tokens(words), types: Vec::new(), skip }, Want::Dense)
}

fn unit(mut vector: Vec<f32>) -> Vec<f32> {
    super::numbers::normalize(&mut vector);
    vector
}

fn dense(words: &[&str]) -> Embedding {
    Embedding::Dense(unit(values(words, 0)))
}

/// The field at fault and the message.
fn said<T>(outcome: Result<T, Fault>) -> (String, String) {
    let Err(fault) = outcome else { panic!("a fault") };
    (fault.param.unwrap_or_default(), fault.message)
}

fn within(tokens: Option<usize>, truncation: Truncation) -> Length {
    Length { tokens, truncation }
}

#[tokio::test]
async fn texts_become_vectors_in_their_order_and_are_accounted_for() {
    let service = serving(heads());
    let audit = Arc::new(Kept::default());
    let request = Request {
        operation: Operation::Embed(of(&["a b", "c", "a b", "d e f"])),
        context: context(Some(audit.clone())),
        time_limit: None,
    };
    let Output::Embeddings(encoded) = service.submit(request).await.unwrap() else { panic!("embeddings") };
    assert_eq!((encoded.model.as_str(), &*encoded.fingerprint), ("enc", "abc"));
    let expected = [dense(&["a", "b"]), dense(&["c"]), dense(&["a", "b"]), dense(&["d", "e", "f"])];
    assert_eq!(encoded.results, expected);
    assert_eq!((encoded.tokens(), encoded.truncated()), (16, 0));
    // The encoder's thread holds the last of the request for a moment.
    let end = Instant::now() + Duration::from_secs(10);
    while audit.0.lock().unwrap().is_empty() {
        assert!(Instant::now() < end);
        tokio::task::yield_now().await;
    }
    let records = audit.0.lock().unwrap();
    assert_eq!((records[0].model.as_deref(), records[0].prompt_tokens), (Some("enc"), 16));
    assert_eq!((records[0].endings.as_slice(), records[0].completion_tokens), (&["stop"][..], 0));
    assert!(records[0].machine_ms > 0.0);
    let metrics = service.write_metrics(events::Format::Prometheus);
    for line in ["gristmill_encoder_texts_total", "gristmill_encoder_requests_total"] {
        assert!(metrics.contains(line), "{metrics}");
    }
}

#[tokio::test]
async fn long_inputs_are_refused_cut_or_encoded_in_parts() {
    let service = serving(heads());
    let words: Vec<String> = (0..20).map(|i| format!("w{i}")).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let long = words.join(" ");
    let with = |length| Embed { length, ..of(&["a", &long]) };
    let (field, message) = said(embed(&service, with(Length::default())).await);
    assert_eq!(field, "inputs[1]");
    assert_eq!(message, "inputs[1] has 22 tokens; this model's limit is 16");
    let (_, message) = said(embed(&service, with(within(Some(8), Truncation::Refuse))).await);
    assert_eq!(message, "inputs[1] has 22 tokens; the request's limit is 8");
    let cut = embed(&service, with(within(Some(100), Truncation::End))).await.unwrap();
    assert_eq!(cut.results[1], dense(&words[..14]));
    assert_eq!(cut.lengths[1], InputLength { tokens: 16, truncated: 6 });
    let cut = embed(&service, with(within(Some(5), Truncation::Start))).await.unwrap();
    assert_eq!(cut.results[1], dense(&words[17..]));
    assert_eq!(
        cut.lengths,
        [InputLength { tokens: 3, truncated: 0 }, InputLength { tokens: 5, truncated: 17 }]
    );
    // Parts of 14 and 6 words, and of two special tokens each.
    let parts = embed(&service, with(within(None, Truncation::Chunk))).await.unwrap();
    let (first, second) = (values(&words[..14], 0), values(&words[14..], 0));
    let mean =
        first.iter().zip(second).map(|(a, b)| ((f64::from(*a) * 16.0 + f64::from(b) * 8.0) / 24.0) as f32);
    assert_eq!(parts.results[1], Embedding::Dense(unit(mean.collect())));
    assert_eq!(parts.lengths[1], InputLength { tokens: 24, truncated: 0 });
    let (field, _) = said(embed(&service, with(within(Some(0), Truncation::End))).await);
    assert_eq!(field, "max_tokens");
}

#[tokio::test]
async fn inputs_that_are_none_are_named() {
    let service = serving(heads());
    let with = |inputs| Embed { inputs, ..Embed::default() };
    assert_eq!(said(embed(&service, with(Vec::new())).await).0, "inputs");
    assert_eq!(said(embed(&service, of(&["a", ""])).await).0, "inputs[1]");
    let ids = |ids: &[u32]| TextInput::Tokens(ids.to_vec());
    assert_eq!(said(embed(&service, with(vec![ids(&[])])).await).0, "inputs[0]");
    let (field, message) = said(embed(&service, with(vec![ids(&[1, 5000])])).await);
    assert_eq!(field, "inputs[0][1]");
    assert_eq!(message, "inputs[0][1] is 5000; token ids of the model enc are below 5000");
    let given = embed(&service, with(vec![ids(&tokens(&["a", "b"]))])).await.unwrap();
    assert_eq!(given.results, [dense(&["a", "b"])]);
    let cut = Embed { length: within(Some(3), Truncation::End), ..with(vec![ids(&[7, 8, 9, 10])]) };
    assert_eq!(embed(&service, cut).await.unwrap().lengths, [InputLength { tokens: 3, truncated: 1 }]);
    let parts = Embed {
        inputs: vec![TextInput::Pair("a".into(), "b".into())],
        length: within(None, Truncation::Chunk),
        ..Embed::default()
    };
    assert_eq!(said(embed(&service, parts).await).0, "inputs[0]");
}

#[tokio::test]
async fn vectors_are_cut_and_scaled_as_asked() {
    let service = serving(heads());
    let with = |dimensions, normalize| Embed { dimensions, normalize, ..of(&["a"]) };
    let whole = values(&["a"], 0);
    let results = |embedded: Result<Encoded<Embedding>, Fault>| embedded.unwrap().results;
    let expected = |vector: Vec<f32>| [Embedding::Dense(vector)];
    assert_eq!(results(embed(&service, with(Some(4), None)).await), expected(unit(whole[..4].to_vec())));
    assert_eq!(results(embed(&service, with(Some(2), Some(false))).await), expected(whole[..2].to_vec()));
    assert_eq!(results(embed(&service, with(None, Some(false))).await), expected(whole.clone()));
    for bad in [0, 3, 7] {
        assert_eq!(said(embed(&service, with(Some(bad), None)).await).0, "dimensions");
    }
    let any = serving_with(fake(), heads(), Options { any_dimensions: true, ..Options::default() });
    assert_eq!(results(embed(&any, with(Some(3), None)).await), expected(unit(whole[..3].to_vec())));
}

#[tokio::test]
async fn prompts_of_the_models_file_are_put_before_inputs() {
    let named = |name: &str, text: &str| (name.to_owned(), text.to_owned());
    let prompts = EncoderPrompts {
        texts: vec![named("query", "find this: "), named("document", ""), named("usual", "it says ")],
        default: Some("usual".into()),
        unpooled: true,
    };
    let service = serving(EncoderHeads { prompts, ..heads() });
    let with = |prompt| Embed { prompt, ..of(&["a"]) };
    let vector = |words: &[&str], skip| [Embedding::Dense(unit(values(words, skip)))];
    let results = |embedded: Result<Encoded<Embedding>, Fault>| embedded.unwrap().results;
    assert_eq!(results(embed(&service, with(InputPrompt::Default)).await), vector(&["it", "says", "a"], 3));
    assert_eq!(results(embed(&service, with(InputPrompt::None)).await), vector(&["a"], 0));
    let query = vector(&["find", "this:", "a"], 3);
    assert_eq!(results(embed(&service, with(InputPrompt::Named("query".into()))).await), query);
    assert_eq!(results(embed(&service, with(InputPrompt::FirstOf(&["passage", "query"]))).await), query);
    assert_eq!(
        results(embed(&service, with(InputPrompt::Named("document".into()))).await),
        vector(&["a"], 0)
    );
    let (field, message) = said(embed(&service, with(InputPrompt::Named("other".into()))).await);
    assert_eq!(field, "prompt_name");
    let known = "prompt_name is \"other\"; the prompts of the model enc are: query, document, usual";
    assert_eq!(message, known);
    let ids = Embed { inputs: vec![TextInput::Tokens(vec![9])], ..with(InputPrompt::Named("query".into())) };
    assert_eq!(said(embed(&service, ids).await).0, "prompt_name");
}

#[tokio::test]
async fn tokens_and_vocabulary_entries_have_numbers_of_their_own() {
    let tokens_head = TokenVectors { width: WIDTH, normalize: true, late_interaction: true };
    let service =
        serving(EncoderHeads { tokens: Some(tokens_head), sparse: true, ..EncoderHeads::default() });
    let with = |kind| Embed { kind, ..of(&["a b"]) };
    let text = Text { tokens: tokens(&["a", "b"]), ..Text::default() };
    let all = embed(&service, with(EmbedKind::Tokens)).await.unwrap();
    let mut expected = fake().values(&text, Want::Tokens);
    expected.chunks_exact_mut(WIDTH).for_each(super::numbers::normalize);
    assert_eq!(all.results, [Embedding::Tokens { width: WIDTH, values: expected }]);
    let sparse = embed(&service, with(EmbedKind::Sparse)).await.unwrap();
    let expected = (0u32..).zip(fake().values(&text, Want::Sparse)).filter(|(_, weight)| *weight != 0.0);
    assert_eq!(sparse.results, [Embedding::Sparse(expected.collect())]);
    let (field, message) = said(embed(&service, with(EmbedKind::Dense)).await);
    assert_eq!(field, "model");
    assert!(
        message.contains("enc does not make one vector") && message.contains("embed, rerank, score"),
        "{message}"
    );
    assert_eq!(
        said(embed(&service, Embed { dimensions: Some(2), ..with(EmbedKind::Sparse) }).await).0,
        "dimensions"
    );
}

fn pair(first: &[&str], second: &[&str]) -> Text {
    let options = EncodeOptions::new(CONTEXT);
    let (first, second) = (first.join(" "), second.join(" "));
    let input = Words(VOCAB).encode(&TextOrPair::Pair(&first, &second), &options).unwrap();
    Text { tokens: input.tokens, types: input.types, skip: 0 }
}

#[tokio::test]
async fn a_cross_encoder_scores_query_and_document_together() {
    let mut one_label = fake();
    one_label.labels = 1;
    let head = classifier(&["relevance"], Activation::Sigmoid);
    let service = serving_with(one_label.clone(), head, Options::default());
    let rerank =
        || Rerank { query: "q r".into(), documents: vec!["a b c d".into(), "e".into()], ..Rerank::default() };
    let logit = |second: &[&str]| one_label.values(&pair(&["q", "r"], second), Want::Logits)[0];
    let ranked = scores(&service, Operation::Rerank(rerank())).await.unwrap();
    let expected = [logit(&["a", "b", "c", "d"]), logit(&["e"])].map(super::numbers::sigmoid);
    assert_eq!(ranked.results, expected);
    assert_eq!(ranked.lengths.iter().map(|length| length.tokens).collect::<Vec<_>>(), [9, 6]);
    let raw = Rerank { raw_scores: true, document_tokens: Some(2), ..rerank() };
    let raw = scores(&service, Operation::Rerank(raw)).await.unwrap();
    assert_eq!(raw.results, [logit(&["a", "b"]), logit(&["e"])]);
    assert_eq!(raw.lengths[0], InputLength { tokens: 7, truncated: 2 });
    // Only documents are cut.
    let cut = Rerank { length: within(Some(6), Truncation::End), raw_scores: true, ..rerank() };
    assert_eq!(scores(&service, Operation::Rerank(cut)).await.unwrap().results[0], logit(&["a"]));
    let cut = Rerank { length: within(Some(5), Truncation::End), ..rerank() };
    assert_eq!(said(scores(&service, Operation::Rerank(cut)).await).0, "documents[0]");
    let score = Score { pairs: vec![("q r".into(), "e".into())], ..Score::default() };
    assert_eq!(scores(&service, Operation::Score(score)).await.unwrap().results, expected[1..]);
    for (bad, field) in [
        (Rerank { query: String::new(), ..rerank() }, "query"),
        (Rerank { documents: Vec::new(), ..rerank() }, "documents"),
        (Rerank { documents: vec!["a".into(), String::new()], ..rerank() }, "documents[1]"),
        (Rerank { length: within(None, Truncation::Chunk), ..rerank() }, "truncate"),
    ] {
        assert_eq!(said(scores(&service, Operation::Rerank(bad)).await).0, field);
    }
}

#[tokio::test]
async fn an_embedding_model_compares_vectors() {
    let service = serving(heads());
    let vector = |words: &[&str]| values(words, 0);
    let score =
        Score { pairs: vec![("a".into(), "b c".into()), ("a".into(), "a".into())], ..Score::default() };
    let found = scores(&service, Operation::Score(score)).await.unwrap();
    let cosine = super::numbers::cosine(&vector(&["a"]), &vector(&["b", "c"]));
    assert_eq!(found.results, [cosine, super::numbers::cosine(&vector(&["a"]), &vector(&["a"]))]);
    assert_eq!(found.lengths[0].tokens, 7);
    let rerank = Rerank { query: "a".into(), documents: vec!["b c".into()], ..Rerank::default() };
    assert_eq!(scores(&service, Operation::Rerank(rerank)).await.unwrap().results, [cosine]);
    let empty = Score { pairs: vec![("a".into(), String::new())], ..Score::default() };
    assert_eq!(said(scores(&service, Operation::Score(empty)).await).0, "pairs[0][1]");

    let tokens_head = TokenVectors { width: WIDTH, normalize: false, late_interaction: true };
    let late = serving(EncoderHeads { tokens: Some(tokens_head), ..heads() });
    let rerank = Rerank { query: "a".into(), documents: vec!["b c".into(), "d".into()], ..Rerank::default() };
    let of = |words: &[&str]| fake().values(&Text { tokens: tokens(words), ..Text::default() }, Want::Tokens);
    let expected =
        [&["b", "c"][..], &["d"]].map(|words| super::numbers::max_sim(&of(&["a"]), &of(words), WIDTH));
    assert_eq!(scores(&late, Operation::Rerank(rerank)).await.unwrap().results, expected);
}

#[tokio::test]
async fn classes_have_probabilities_or_logits() {
    let service = serving(classifier(&["x", "y", "z"], Activation::Softmax));
    let logits =
        |words: &[&str]| fake().values(&Text { tokens: tokens(words), ..Text::default() }, Want::Logits);
    for raw_scores in [false, true] {
        let classify = Classify { inputs: texts(&["a b", "c"]), raw_scores, ..Classify::default() };
        let Output::Classes { labels, scores } = ask(&service, Operation::Classify(classify)).await.unwrap()
        else {
            panic!("classes")
        };
        let mut expected = [logits(&["a", "b"]), logits(&["c"])];
        if !raw_scores {
            expected.iter_mut().for_each(|row| super::numbers::softmax(row));
        }
        assert_eq!((&*labels, scores.results), (&["x", "y", "z"].map(String::from)[..], expected.to_vec()));
    }
    let own = Classify { inputs: texts(&["a"]), labels: vec!["p".into()], ..Classify::default() };
    assert_eq!(said(ask(&service, Operation::Classify(own)).await).0, "labels");
    // Three labels are no relevance.
    let rerank = Rerank { query: "a".into(), documents: vec!["b".into()], ..Rerank::default() };
    assert_eq!(said(ask(&service, Operation::Rerank(rerank)).await).0, "model");
}

#[tokio::test]
async fn tokens_have_labels() {
    let head = EncoderHeads { token_labels: labels(&["O", "B-X", "I-X"]), ..EncoderHeads::default() };
    let service = serving(head);
    let classify = ClassifyTokens {
        texts: vec!["één a b".into()],
        aggregation: Aggregation::None,
        ..ClassifyTokens::default()
    };
    let Output::Entities(found) = ask(&service, Operation::ClassifyTokens(classify)).await.unwrap() else {
        panic!("entities")
    };
    let entities = &found.results[0];
    let places: Vec<_> = entities.iter().map(|e| (e.token, e.bytes.clone(), e.chars.clone())).collect();
    assert_eq!(places, [(1, 0..5, 0..3), (2, 6..7, 4..5), (3, 8..9, 6..7)]);
    let text = Text { tokens: tokens(&["één", "a", "b"]), ..Text::default() };
    for (entity, logits) in entities.iter().zip(fake().values(&text, Want::TokenLogits).chunks(3).skip(1)) {
        let mut shares = logits.to_vec();
        super::numbers::softmax(&mut shares);
        assert_eq!(entity.score, shares.iter().copied().fold(0.0, f32::max));
    }
}

#[tokio::test]
async fn what_a_model_cannot_do_is_said_with_what_it_can() {
    let service = serving(heads());
    let chat = wire::ChatRequest::parse(br#"{"messages": [{"role": "user", "content": "hi"}]}"#);
    let generate = Generate {
        prompt: inference::Prompt::Chat(Box::new(chat.unwrap())),
        field: "messages",
        wants_text: false,
    };
    let (field, message) = said(ask(&service, Operation::Generate(generate)).await);
    assert_eq!(field, "model");
    let able = "the model enc does not generate text; what it can do: embed, rerank, score, tokenize";
    assert_eq!(message, able);
    let [capability] = &service.capabilities()[..] else { panic!("one model") };
    assert_eq!(capability.operations, ["embed", "rerank", "score", "tokenize"]);
    assert_eq!((capability.context, capability.encoder.as_deref()), (Some(CONTEXT), Some(&facts())));
    let encode = Tokenize::Encode { model: None, text: "a b".into(), wrapped: true };
    let Output::Tokens(found) = ask(&service, Operation::Tokenize(encode)).await.unwrap() else {
        panic!("tokens")
    };
    assert_eq!(found.ids, tokens(&["a", "b"]));
}

#[tokio::test]
async fn an_answer_is_bounded() {
    let mut wide = fake();
    wide.width = 1 << 12;
    let mut head = heads();
    head.dense = Some(DenseHead { width: 1 << 12, normalize: true, short: ShortVectors::None });
    let service = serving_with(wide, head, Options::default());
    let many = vec!["a"; 1 + (4 << 20 >> 12)];
    assert_eq!(said(embed(&service, of(&many)).await).0, "inputs");
    assert_eq!(limits::COUNTED_TOKENS, 262_144, "texts are counted to this");
}

/// Dropped, the future cancels the job; and a time limit ends it.
#[tokio::test]
async fn who_leaves_is_not_computed_for() {
    let (open, pass) = std::sync::mpsc::channel::<()>();
    let gated = AroundUnits::new(fake(), move |_: &FakeEncoder| {
        let _ = pass.recv();
        Ok(())
    });
    let service = Arc::new(serving_with(gated, heads(), Options::default()));
    let stats = || {
        let facts = service.registry().facts();
        facts[0].state.model().unwrap().encoding().unwrap().engine.stats()
    };
    let leaving = tokio::spawn({
        let service = service.clone();
        async move { embed(&service, of(&["a", "b"])).await }
    });
    while stats().running == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    leaving.abort();
    assert!(leaving.await.unwrap_err().is_cancelled());
    let limited = Request {
        operation: Operation::Embed(of(&["c"])),
        context: context(None),
        time_limit: Some(Duration::from_millis(5)),
    };
    let waits = tokio::spawn({
        let service = service.clone();
        async move { service.submit(limited).await }
    });
    tokio::time::sleep(Duration::from_millis(20)).await;
    drop(open);
    let Err(fault) = waits.await.unwrap() else { panic!("its time is over") };
    assert!(fault.message.contains("time limit"), "{fault}");
    assert_eq!((stats().cancelled, stats().expired, stats().waiting), (1, 1, 0));
    assert_eq!(embed(&service, of(&["a"])).await.unwrap().results, [dense(&["a"])]);
}

/// Makes an encoder whenever it is asked to.
struct Loads;

impl crate::Loader for Loads {
    fn need_bytes(&self) -> Result<u64, String> {
        Ok(10)
    }

    fn load(&self, _progress: &dyn Fn(String)) -> Result<LoadedModel, String> {
        let encoding = encoding(fake(), heads(), facts()).map_err(|error| error.to_string())?;
        Ok(LoadedModel::encoder(vec!["enc".into()], encoding))
    }
}

#[tokio::test]
async fn an_encoder_is_loaded_when_it_is_asked_for_and_unloaded_again() {
    let service = Service::new(Options::default());
    let registration = crate::Registration {
        names: vec!["enc".into()],
        pinned: false,
        keep_alive: None,
        loader: Arc::new(Loads),
    };
    let id = service.registry().add(registration).unwrap();
    service.open(Duration::ZERO);
    for _ in 0..2 {
        assert_eq!(embed(&service, of(&["a"])).await.unwrap().results, [dense(&["a"])]);
        // The encoder's thread holds the lease of the last job for a moment.
        let end = Instant::now() + Duration::from_secs(10);
        while service.registry().unload(id).is_err() {
            assert!(Instant::now() < end);
            tokio::task::yield_now().await;
        }
        while service.registry().facts()[0].state.name() != "registered" {
            assert!(Instant::now() < end);
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    let metrics = service.write_metrics(events::Format::Prometheus);
    let ended =
        "gristmill_encoder_requests_total{model_name=\"enc\",engine=\"0\",finished_reason=\"stop\"} 2";
    assert!(metrics.contains(ended), "{metrics}");
}

#[test]
fn a_drain_ends_the_encoder() {
    let service = serving(heads());
    let facts = service.registry().facts();
    let engine = facts[0].state.model().unwrap().encoding().unwrap().engine.clone();
    assert!(engine.is_open() && service.engines_run().is_ok());
    service.drain(Duration::from_secs(5));
    assert!(!engine.is_open());
}

/// Makes an encoder of this fingerprint, or fails.
struct Generation(Option<&'static str>);

impl crate::Loader for Generation {
    fn need_bytes(&self) -> Result<u64, String> {
        Ok(10)
    }

    fn load(&self, _progress: &dyn Fn(String)) -> Result<LoadedModel, String> {
        let fingerprint = self.0.ok_or("the file is damaged")?;
        let facts = EncoderFacts { fingerprint: fingerprint.into(), ..facts() };
        let encoding = encoding(fake(), heads(), facts).map_err(|error| error.to_string())?;
        Ok(LoadedModel::encoder(vec!["enc".into()], encoding))
    }
}

fn generation(fingerprint: Option<&'static str>) -> crate::Registration {
    let loader = Arc::new(Generation(fingerprint));
    crate::Registration { names: vec!["enc".into()], pinned: false, keep_alive: None, loader }
}

/// Issue 49: a model's files change while it answers.
#[tokio::test]
async fn another_generation_answers_once_it_has_passed_its_probes() {
    let service = Arc::new(Service::new(Options::default()));
    let old = service.registry().add(generation(Some("first"))).unwrap();
    service.open(Duration::ZERO);
    let fingerprint = async || embed(&service, of(&["a"])).await.unwrap().fingerprint;
    assert_eq!(&*fingerprint().await, "first");
    let checked = |cosine: f32| -> Option<crate::Check> {
        let service = service.clone();
        let probes = [crate::probe::Probe::Near { texts: ["a b".into(), "a b".into()], cosine }];
        Some(Box::new(move |id| Box::pin(async move { crate::probe::check(&service, id, &probes).await })))
    };
    let why = service.registry().replace(old, generation(None), None).await.unwrap_err();
    assert!(why.contains("the file is damaged"), "{why}");
    let why = service.registry().replace(old, generation(Some("bad")), checked(1.5)).await.unwrap_err();
    assert!(why.contains("probe 1: the cosine is 1.0000, less than 1.5"), "{why}");
    let facts = service.registry().facts();
    assert_eq!((facts.len(), facts[0].rejected.as_ref()), (1, Some(&why)));
    assert_eq!(&*fingerprint().await, "first", "the old one stays");
    let new = service.registry().replace(old, generation(Some("second")), checked(0.99)).await.unwrap();
    assert_eq!(&*fingerprint().await, "second");
    assert!(service.registry().facts()[0].id == new && service.registry().facts()[0].rejected.is_none());
    let end = Instant::now() + Duration::from_secs(10);
    while service.registry().memory().0 > 10 {
        assert!(Instant::now() < end, "the old one is unloaded");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    service.registry().remove(new);
    assert_eq!(embed(&service, of(&["a"])).await.unwrap_err().status, 404);
    let metrics = service.write_metrics(events::Format::Prometheus);
    let replaced = "gristmill_model_unloads_total{model_name=\"enc\",engine=\"0\",reason=\"replaced\"}";
    assert!(metrics.contains(replaced), "{metrics}");
}
