//! Encoders over HTTP, in every dialect: answers of a fake model, and bad requests.

use serde_json::{Value, json};

use crate::frame::encoder::{
    CONTEXT, FINGERPRINT, WIDTH, classifies, embeds, logits, ranks, serving, tags, vector,
};
use crate::frame::{Answer, options, ready};

/// More words than the model takes.
const LONG: &str = "a b c d e f g h i j k l m n o p q r s t";

/// Checks the status, and gives back the body.
fn good(answer: &Answer) -> Value {
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(answer.header("x-embedding-fingerprint"), Some(FINGERPRINT), "{answer:?}");
    answer.json()
}

fn floats(value: &Value) -> Vec<f32> {
    let numbers = value.as_array().unwrap_or_else(|| panic!("{value} is no list"));
    numbers.iter().map(|number| number.as_f64().unwrap() as f32).collect()
}

fn close(found: &[f32], wanted: &[f32]) {
    let near = |(a, b): (&f32, &f32)| (a - b).abs() < 1e-6;
    assert!(found.len() == wanted.len() && found.iter().zip(wanted).all(near), "{found:?} is not {wanted:?}");
}

/// The numbers of base64 text.
fn unpacked(text: &str) -> Vec<f32> {
    let value = |byte: u8| match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        _ => 63,
    };
    let bits: Vec<u8> = text.bytes().filter(|byte| *byte != b'=').map(value).collect();
    let group = |group: &[u8]| {
        let all = group.iter().chain([&0; 4]).take(4).fold(0u32, |all, six| all << 6 | u32::from(*six));
        all.to_be_bytes()[1..group.len()].to_vec()
    };
    let bytes: Vec<u8> = bits.chunks(4).flat_map(group).collect();
    bytes.chunks_exact(4).map(|four| f32::from_le_bytes(four.try_into().unwrap())).collect()
}

#[test]
fn all_dialects_give_the_same_vectors() {
    let server = serving(embeds());
    let texts = ["a mill", "grinds grain"];
    let openai = good(&server.post("/v1/embeddings", &json!({"model": "enc", "input": texts})));
    assert_eq!((&openai["object"], &openai["model"]), (&json!("list"), &json!("enc")));
    assert_eq!(openai["usage"], json!({"prompt_tokens": 8, "total_tokens": 8}));
    let first = floats(&openai["data"][0]["embedding"]);
    close(&first, &vector("a mill"));
    let packed = json!({"input": texts, "encoding_format": "base64"});
    let packed = good(&server.post("/v1/embeddings", &packed));
    assert_eq!(unpacked(packed["data"][0]["embedding"].as_str().unwrap()), first);
    assert_eq!(
        floats(&good(&server.post("/embeddings", &json!({"input": "a mill"})))["data"][0]["embedding"]),
        first
    );
    assert_eq!(floats(&good(&server.post("/embed", &json!({"inputs": texts})))[0]), first);
    assert_eq!(
        floats(&good(&server.post("/pipeline/feature-extraction", &json!({"inputs": "a mill"})))[0]),
        first
    );
    assert_eq!(floats(&good(&server.post("/", &json!({"inputs": "a mill"})))[0]), first);
    let cohere =
        json!({"texts": texts, "input_type": "search_document", "embedding_types": ["float", "int8"]});
    let cohere = good(&server.post("/v2/embed", &cohere));
    assert_eq!((floats(&cohere["embeddings"]["float"][0]), &cohere["texts"]), (first.clone(), &json!(texts)));
    assert_eq!(cohere["embeddings"]["int8"][0].as_array().unwrap().len(), WIDTH);
    assert_eq!(cohere["meta"]["billed_units"]["input_tokens"], 8);
    let older = good(&server.post("/v1/embed", &json!({"texts": texts})));
    assert_eq!(
        (floats(&older["embeddings"][0]), &older["response_type"]),
        (first.clone(), &json!("embeddings_floats"))
    );
    let ollama = server.post("/api/embed", &json!({"model": "enc", "input": texts}));
    let ollama = good(&ollama);
    assert_eq!((floats(&ollama["embeddings"][0]), &ollama["prompt_eval_count"]), (first.clone(), &json!(8)));
    assert!(ollama["total_duration"].as_u64().unwrap() > 0);
    let older = good(&server.post("/api/embeddings", &json!({"model": "enc", "prompt": "a mill"})));
    assert_eq!(floats(&older["embedding"]), first);
    let pooled = good(&server.post("/pooling", &json!({"input": texts})));
    assert_eq!(
        (floats(&pooled["data"][0]["data"]), &pooled["data"][1]["object"]),
        (first, &json!("pooling"))
    );
}

#[test]
fn vectors_are_cut_and_left_as_they_are() {
    let server = serving(embeds());
    let cut = json!({"input": "a mill", "dimensions": 4});
    let cut = floats(&good(&server.post("/v1/embeddings", &cut))["data"][0]["embedding"]);
    let whole = vector("a mill");
    let length = whole[..4].iter().map(|x| x * x).sum::<f32>().sqrt();
    close(&cut, &whole[..4].iter().map(|x| x / length).collect::<Vec<_>>());
    let raw = json!({"inputs": "a mill", "normalize": false});
    let raw = floats(&good(&server.post("/embed", &raw))[0]);
    let length = raw.iter().map(|x| x * x).sum::<f32>().sqrt();
    assert!((length - 1.0).abs() > 1e-3, "{length}");
    close(&raw.iter().map(|x| x / length).collect::<Vec<_>>(), &whole);
    let refused = server.post("/v1/embeddings", &json!({"input": "a", "dimensions": WIDTH + 1}));
    assert_eq!((refused.status, refused.json()["error"]["param"].as_str()), (400, Some("dimensions")));
}

#[test]
fn token_and_sparse_vectors() {
    let server = serving(embeds());
    let all = good(&server.post("/embed_all", &json!({"inputs": ["a b", "c"]})));
    let shape = |of: usize| all[of].as_array().unwrap().len();
    assert_eq!((shape(0), shape(1), floats(&all[0][0]).len()), (4, 3, WIDTH));
    let pooled = good(&server.post("/pooling", &json!({"input": "a b", "task": "token_embed"})));
    assert_eq!(pooled["data"][0]["data"], all[0]);
    let packed = json!({"input": "a b", "task": "token_embed", "encoding_format": "base64"});
    let packed = good(&server.post("/pooling", &packed));
    let flat: Vec<f32> = all[0].as_array().unwrap().iter().flat_map(floats).collect();
    assert_eq!(unpacked(packed["data"][0]["data"].as_str().unwrap()), flat);
    let sparse = good(&server.post("/embed_sparse", &json!({"inputs": "a b"})));
    let entries = sparse[0].as_array().unwrap();
    let ids: Vec<u64> = entries.iter().map(|entry| entry["index"].as_u64().unwrap()).collect();
    assert!(!ids.is_empty() && ids.is_sorted() && entries.iter().all(|e| e["value"].is_f64()), "{sparse}");
}

#[test]
fn what_is_cut_is_told() {
    let server = serving(embeds());
    // Twenty words with two special tokens, of which 16 fit.
    let cut = |answer: &Answer| answer.header("x-truncated-tokens").unwrap().parse::<usize>().unwrap();
    let tei = server.post("/embed", &json!({"inputs": ["a", LONG]}));
    let last = LONG.split(' ').take(CONTEXT - 2).collect::<Vec<_>>().join(" ");
    close(&floats(&good(&tei)[1]), &vector(&last));
    assert_eq!(cut(&tei), 6);
    let left = server.post("/embed", &json!({"inputs": LONG, "truncation_direction": "Left"}));
    let first = LONG.split(' ').skip(6).collect::<Vec<_>>().join(" ");
    close(&floats(&good(&left)[0]), &vector(&first));
    let cohere = good(&server.post("/v2/embed", &json!({"texts": [LONG]})));
    assert_eq!(cohere["meta"]["warnings"], json!(["6 tokens were truncated"]));
    let openai = server.post("/v1/embeddings", &json!({"input": LONG, "truncate_prompt_tokens": 10}));
    assert_eq!((cut(&openai), &good(&openai)["usage"]["truncated_tokens"]), (12, &json!(12)));
    assert_eq!(cut(&server.post("/v1/embeddings", &json!({"input": "a"}))), 0);
    let chunked = server.post("/v1/embeddings", &json!({"input": LONG, "truncate": "CHUNK"}));
    assert_eq!((cut(&chunked), good(&chunked)["data"].as_array().unwrap().len()), (0, 1));
    for (path, body, status, at) in [
        ("/v1/embeddings", json!({"input": LONG}), 400, "input[0]"),
        ("/embed", json!({"inputs": LONG, "truncate": false}), 413, "inputs[0]"),
        ("/v2/embed", json!({"texts": ["a", LONG], "truncate": "NONE"}), 400, "texts[1]"),
        ("/pooling", json!({"input": LONG}), 400, "input[0]"),
        ("/api/embed", json!({"input": LONG, "truncate": false}), 400, ""),
    ] {
        let answer = server.post(path, &body);
        let said = answer.json();
        let param = said["param"].as_str().or(said["error"]["param"].as_str()).unwrap_or_default();
        assert_eq!((answer.status, param), (status, at), "{path}: {answer:?}");
        assert!(answer.body.contains("22") && answer.body.contains("16"), "{path}: {answer:?}");
    }
}

#[test]
fn documents_are_ranked_in_every_form() {
    let server = serving(ranks());
    let logit = |document: &str| logits(&ranks(), "q", Some(document))[0];
    let documents = ["a b", "c", "d e f"];
    let mut wanted: Vec<(usize, f32)> =
        documents.iter().map(|d| 1.0 / (1.0 + (-logit(d)).exp())).enumerate().collect();
    wanted.sort_by(|a, b| b.1.total_cmp(&a.1));
    let ranked = |results: &Value, name: &str| -> Vec<(usize, f32)> {
        let entry = |r: &Value| (r["index"].as_u64().unwrap() as usize, r[name].as_f64().unwrap() as f32);
        results.as_array().unwrap().iter().map(entry).collect()
    };
    let same = |found: Vec<(usize, f32)>, wanted: &[(usize, f32)]| {
        let order = |of: &[(usize, f32)]| of.iter().map(|(index, _)| *index).collect::<Vec<_>>();
        assert_eq!(order(&found), order(wanted));
        close(
            &found.iter().map(|f| f.1).collect::<Vec<_>>(),
            &wanted.iter().map(|w| w.1).collect::<Vec<_>>(),
        );
    };
    let body = json!({"model": "enc", "query": "q", "documents": documents});
    for (path, echoes, version) in
        [("/v1/rerank", true, "1"), ("/v2/rerank", false, "2"), ("/rerank", true, "1")]
    {
        let answer = good(&server.post(path, &body));
        same(ranked(&answer["results"], "relevance_score"), &wanted);
        let text = answer["results"][0]["document"]["text"].as_str();
        assert_eq!(text, echoes.then_some(documents[wanted[0].0]), "{path}");
        assert_eq!(answer["meta"]["api_version"]["version"], version);
        // [ q | a b ], [ q | c ], [ q | d e f ]
        assert_eq!(answer["usage"]["total_tokens"], 18, "{answer}");
    }
    let top = json!({"query": "q", "documents": documents, "top_n": 1, "return_documents": false});
    let top = good(&server.post("/v1/rerank", &top));
    same(ranked(&top["results"], "relevance_score"), &wanted[..1]);
    assert!(top["results"][0].get("document").is_none());
    let tei = good(&server.post("/rerank", &json!({"query": "q", "texts": documents, "return_text": true})));
    same(ranked(&tei, "score"), &wanted);
    assert_eq!(tei[0]["text"], documents[wanted[0].0]);
    let raw = good(&server.post("/rerank", &json!({"query": "q", "texts": ["c"], "raw_scores": true})));
    close(&[raw[0]["score"].as_f64().unwrap() as f32], &[logit("c")]);
    let score = json!({"queries": "q", "documents": documents, "use_activation": false});
    let score = good(&server.post("/v1/score", &score));
    let found: Vec<f32> =
        score["data"].as_array().unwrap().iter().map(|s| s["score"].as_f64().unwrap() as f32).collect();
    close(&found, &documents.map(logit));
    assert_eq!((&score["object"], &score["data"][2]["index"]), (&json!("list"), &json!(2)));
}

#[test]
fn sentences_are_compared() {
    let server = serving(embeds());
    let cosine = |a: &str, b: &str| vector(a).iter().zip(vector(b)).map(|(x, y)| x * y).sum::<f32>();
    let inputs = json!({"inputs": {"source_sentence": "a b", "sentences": ["c", "a b"]}, "parameters": {}});
    for path in ["/similarity", "/pipeline/sentence-similarity", "/"] {
        close(&floats(&good(&server.post(path, &inputs))), &[cosine("a b", "c"), 1.0]);
    }
    let score = good(&server.post("/score", &json!({"text_1": ["a b"], "text_2": ["c"]})));
    close(&[score["data"][0]["score"].as_f64().unwrap() as f32], &[cosine("a b", "c")]);
}

#[test]
fn texts_are_classified() {
    let server = serving(classifies());
    let raw = logits(&classifies(), "a b", None);
    let softmax = |logits: &[f32]| {
        let sum: f32 = logits.iter().map(|x| x.exp()).sum();
        logits.iter().map(|x| x.exp() / sum).collect::<Vec<f32>>()
    };
    let wanted = softmax(&raw);
    let names = ["bad", "fair", "good"];
    let best = (0..3).max_by(|a, b| wanted[*a].total_cmp(&wanted[*b])).unwrap();
    let vllm = good(&server.post("/classify", &json!({"input": ["a b", "c"]})));
    close(&floats(&vllm["data"][0]["probs"]), &wanted);
    assert_eq!(
        (&vllm["data"][0]["label"], &vllm["data"][1]["num_classes"]),
        (&json!(names[best]), &json!(3))
    );
    let tei = good(&server.post("/predict", &json!({"inputs": "a b"})));
    assert_eq!(tei[0]["label"], names[best]);
    close(&[tei[0]["score"].as_f64().unwrap() as f32], &[wanted[best]]);
    let batch = good(&server.post("/predict", &json!({"inputs": [["a b"], ["a", "b"]], "raw_scores": true})));
    close(&[batch[0][0]["score"].as_f64().unwrap() as f32], &[raw[best]]);
    let pair = logits(&classifies(), "a", Some("b")).into_iter().fold(f32::MIN, f32::max);
    close(&[batch[1][0]["score"].as_f64().unwrap() as f32], &[pair]);
    let hugging = json!({"inputs": "a b", "parameters": {"function_to_apply": "sigmoid", "top_k": 1}});
    for path in ["/pipeline/text-classification", "/"] {
        let hugging = good(&server.post(path, &hugging));
        assert_eq!((hugging[0].as_array().unwrap().len(), &hugging[0][0]["label"]), (1, &json!(names[best])));
        close(&[hugging[0][0]["score"].as_f64().unwrap() as f32], &[1.0 / (1.0 + (-raw[best]).exp())]);
    }
    assert_eq!(good(&server.post("/", &json!({"inputs": "a b"}))), tei);
    let pooled = good(&server.post("/pooling", &json!({"input": "a b"})));
    close(&floats(&pooled["data"][0]["data"]), &wanted);
}

#[test]
fn entities_have_places_in_bytes_and_characters() {
    let server = serving(tags());
    // Each word is a token, and the fake model labels some.
    let text = "é ö mill ü grain ñ rye";
    let plain = json!({"input": text, "aggregation": "none", "ignore_labels": []});
    let all = good(&server.post("/v1/entities", &plain));
    let entities = all["data"][0]["entities"].as_array().unwrap();
    assert_eq!(entities.len(), 7, "{all}");
    for (entity, word) in entities.iter().zip(text.split(' ')) {
        assert_eq!(entity["text"], word);
        let at = |unit: &str, end: &str| entity[unit][end].as_u64().unwrap() as usize;
        assert_eq!(&text[at("bytes", "start")..at("bytes", "end")], word);
        let chars: String =
            text.chars().skip(at("chars", "start")).take(at("chars", "end") - at("chars", "start")).collect();
        assert_eq!(chars, word);
    }
    let hugging =
        json!({"inputs": text, "parameters": {"aggregation_strategy": "none", "ignore_labels": []}});
    for path in ["/pipeline/token-classification", "/"] {
        let hugging = good(&server.post(path, &hugging));
        let found = hugging.as_array().unwrap();
        assert_eq!(found.len(), 7);
        for (ours, theirs) in entities.iter().zip(found) {
            assert_eq!((&ours["label"], &ours["score"]), (&theirs["entity"], &theirs["score"]));
            assert_eq!((&ours["chars"]["start"], &ours["chars"]["end"]), (&theirs["start"], &theirs["end"]));
            assert_eq!((&ours["text"], theirs.get("entity_group")), (&theirs["word"], None));
        }
    }
    let grouped = good(&server.post("/pipeline/token-classification", &json!({"inputs": [text, "a"]})));
    let groups = grouped[0].as_array().unwrap();
    assert!(
        groups.iter().all(|group| group["entity_group"] == "X" && group.get("entity").is_none()),
        "{grouped}"
    );
    assert_eq!(grouped.as_array().unwrap().len(), 2);
}

#[test]
fn bad_requests_are_told_in_each_shape() {
    let server = serving(embeds());
    for (path, body, status, words) in [
        ("/v1/embeddings", json!({"input": []}), 400, "input is empty"),
        ("/v1/embeddings", json!({"input": "a", "dimensions": 0}), 400, "dimensions is 0"),
        ("/v1/embeddings", json!({"input": "a", "model": "other"}), 404, "not served"),
        ("/embed", json!({"inputs": []}), 400, "inputs is empty"),
        ("/embed", json!({"inputs": 5}), 422, "inputs must be a string"),
        ("/embed", json!({"inputs": [VERY_LARGE_ID]}), 422, "inputs"),
        ("/v2/embed", json!({"texts": ["a"], "images": ["x"]}), 400, "images"),
        ("/v2/rerank", json!({"query": "q", "documents": []}), 400, "documents is empty"),
        ("/rerank", json!({"query": "q"}), 422, "documents is required"),
        ("/score", json!({"queries": ["a", "b"], "documents": ["c", "d", "e"]}), 400, "documents has 3"),
        ("/classify", json!({"input": "a"}), 400, "classify"),
        ("/predict", json!({"inputs": "a"}), 422, "classify"),
        ("/v1/entities", json!({"input": "a"}), 400, "enc"),
        ("/pipeline/token-classification", json!({"inputs": "a"}), 422, "enc"),
        ("/api/embed", json!({"input": 5}), 400, "input must be"),
        (
            "/v1/chat/completions",
            json!({"messages": [{"role": "user", "content": "a"}]}),
            400,
            "does not generate",
        ),
    ] {
        let answer = server.post(path, &body);
        let said = answer.json();
        let text = match path {
            "/embed" | "/predict" | "/rerank" | "/pipeline/token-classification" => {
                assert!(said["error_type"].is_string(), "{answer:?}");
                &said["error"]
            }
            "/v2/embed" | "/v2/rerank" => &said["message"],
            "/api/embed" => &said["error"],
            _ => &said["error"]["message"],
        };
        let text = text.as_str().unwrap_or_else(|| panic!("{path}: {answer:?}"));
        assert!(answer.status == status && text.contains(words), "{path}: {answer:?}");
    }
    // What is refused before a handler is asked has the path's shape too.
    let long = server.send("POST", "/v2/rerank", &[("content-type", "text/plain")], b"{}");
    assert!(long.status == 415 && long.json()["message"].is_string(), "{long:?}");
}

/// An id that no vocabulary has.
const VERY_LARGE_ID: u32 = 4_000_000_000;

#[test]
fn a_model_that_generates_makes_no_vectors() {
    let server = ready(options(), std::time::Duration::ZERO);
    for (path, body) in [
        ("/v1/embeddings", json!({"input": "a"})),
        ("/embed", json!({"inputs": "a"})),
        ("/api/embed", json!({"input": "a"})),
        ("/v1/entities", json!({"input": "a"})),
    ] {
        let answer = server.post(path, &body);
        assert!((400..500).contains(&answer.status) && answer.body.contains("tiny"), "{path}: {answer:?}");
    }
    let info = server.get("/info").json();
    assert_eq!(info["model_pipeline_tag"], "text-generation");
}

#[test]
fn the_model_is_described() {
    let info = serving(embeds()).get("/info").json();
    assert_eq!(info["model_type"], json!({"embedding": {"pooling": "mean"}}), "{info}");
    assert_eq!((&info["max_input_length"], &info["model_dtype"]), (&json!(CONTEXT), &json!("f32")));
    let info = serving(ranks()).get("/info").json();
    assert_eq!(
        info["model_type"],
        json!({"reranker": {"id2label": {"0": "relevant"}, "label2id": {"relevant": 0}}})
    );
    let info = serving(classifies()).get("/info").json();
    assert_eq!(info["model_type"]["classifier"]["id2label"]["2"], "good");
}

#[test]
fn ollama_loads_a_model_without_a_text() {
    let server = serving(embeds());
    let loaded = server.post("/api/embed", &json!({"model": "enc"}));
    assert_eq!((loaded.status, &loaded.json()["embeddings"]), (200, &json!([])), "{loaded:?}");
    let warned = server.post("/api/embed", &json!({"model": "enc", "input": "a", "keep_alive": 5}));
    assert_eq!(warned.status, 200);
}

#[test]
fn a_large_answer_is_written_whole() {
    let server = serving(embeds());
    // More numbers than are written on the async threads.
    let texts: Vec<String> = (0..2_048).map(|n| format!("word{n} w")).collect();
    let all = good(&server.post("/v1/embeddings", &json!({"input": texts, "encoding_format": "base64"})));
    let data = all["data"].as_array().unwrap();
    assert_eq!(data.len(), 2_048);
    close(&unpacked(data[2_047]["embedding"].as_str().unwrap()), &vector("word2047 w"));
    assert_eq!(all["usage"]["prompt_tokens"], 4 * 2_048);
}
