//! Schemas of encoders' endpoints.

use serde_json::{Value, json};

use super::parts::{count, flag, joined, number, object, reference, text};
use crate::limits;
use crate::vectors::VectorFormat;

/// The schemas, by name.
pub(super) fn schemas() -> Value {
    joined(joined(requests(), tei_requests()), joined(answers(), tei_answers()))
}

/// The fields that every request has.
fn common() -> Value {
    json!({
        "model": {"type": ["string", "null"], "description": "Name of a served model; may be omitted."},
        "timeout": number(0.001, f64::from(limits::TIMEOUT_S), "Seconds after which the request fails."),
    })
}

fn request(properties: Value, required: &[&str]) -> Value {
    object(common(), properties, required)
}

fn texts(most: usize, description: &str) -> Value {
    json!({"type": "array", "minItems": 1, "maxItems": most, "items": {"type": "string"}, "description": description})
}

fn text_or_texts(description: &str) -> Value {
    json!({"oneOf": [{"type": "string"}, texts(limits::INPUTS, "Several.")], "description": description})
}

/// A text, token ids, or a list of either.
fn inputs(description: &str) -> Value {
    let ids = json!({"type": "array", "minItems": 1, "maxItems": limits::INPUT_TOKENS,
        "items": {"type": "integer", "minimum": 0, "maximum": u32::MAX}});
    json!({"oneOf": [{"type": "string"}, ids, {"type": "array", "minItems": 1, "maxItems": limits::INPUTS,
        "items": {"oneOf": [{"type": "string"}, ids]}}], "description": description})
}

fn words(words: &[&str], description: &str) -> Value {
    json!({"oneOf": [{"type": "null"}, {"enum": words}], "description": description})
}

/// vLLM's fields about length.
fn vllm_length() -> Value {
    json!({
        "truncate_prompt_tokens": {"oneOf": [{"type": "null"}, {"const": -1}, {"type": "integer", "minimum": 1, "maximum": limits::TOKENS}],
            "description": "Tokens to keep of each input; -1: as many as the model takes."},
        "truncation_side": words(&["left", "right"], "Which end of a longer input is cut."),
    })
}

fn truncate(chunks: bool) -> Value {
    let words: &[&str] = if chunks { &["NONE", "START", "END", "CHUNK"] } else { &["NONE", "START", "END"] };
    let chunked = if chunks { "; CHUNK averages the vectors of its parts" } else { "" };
    json!({"oneOf": [{"type": "null"}, {"type": "boolean"}, {"enum": words}],
        "description": format!("What becomes of an input that is too long: cut at its end if true, refused if false{chunked}.")})
}

fn dimensions() -> Value {
    count(1, limits::DIMENSIONS, "Numbers to keep of each vector, which is then normalized again.")
}

fn normalize() -> Value {
    flag("Whether vectors are scaled to length 1; as the model's file says if omitted.")
}

fn activation() -> Value {
    json!({
        "raw_scores": flag("Return logits, without the model's activation function."),
        "use_activation": flag("The opposite of raw_scores."),
    })
}

fn formats() -> Vec<&'static str> {
    VectorFormat::ALL.iter().map(|(name, _)| *name).collect()
}

/// The fields of `/v1/embeddings`.
fn embeddings() -> Value {
    let formats = formats();
    json!({
        "input": inputs("Texts or token ids."),
        "encoding_format": words(&formats, "How vectors are written; float by default."),
        "dimensions": dimensions(),
        "normalize": normalize(),
        "truncate": truncate(true),
        "prompt_name": text(limits::NAME_BYTES, "Name of a prompt of the model's file, put before each input."),
        "input_type": words(&["query", "document", "passage", "classification", "clustering"],
            "What the texts are for, which chooses a prompt of the model's file."),
        "user": {"type": ["string", "null"], "description": "Ignored."},
    })
}

/// The fields of Cohere's `/v1/embed` and `/v2/embed`.
fn cohere() -> Value {
    let formats = formats();
    json!({
        "texts": texts(limits::INPUTS, "The texts."),
        "input_type": words(&["search_document", "search_query", "classification", "clustering"],
            "What the texts are for, which chooses a prompt of the model's file."),
        "embedding_types": {"type": ["array", "null"], "maxItems": formats.len(), "items": {"enum": formats},
            "description": "How vectors are written; float by default."},
        "output_dimension": dimensions(),
        "truncate": truncate(true),
        "max_tokens": count(1, limits::TOKENS, "Most tokens of a text."),
    })
}

/// The fields of `/v1/rerank` and `/v2/rerank`.
fn rerank() -> Value {
    joined(
        activation(),
        json!({
            "query": {"type": "string", "description": "The query."},
            "documents": {"type": "array", "minItems": 1, "maxItems": limits::DOCUMENTS, "description": "The documents.",
                "items": {"oneOf": [{"type": "string"}, object(json!({"text": {"type": "string"}}), json!({}), &["text"])]}},
            "top_n": count(0, limits::TOKENS, "Most results; 0 is all."),
            "return_documents": flag("Whether results have the documents."),
            "max_tokens_per_doc": count(0, limits::TOKENS, "Tokens to keep of each document; 0 is all."),
            "truncate": truncate(false),
        }),
    )
}

fn requests() -> Value {
    let score = joined(
        activation(),
        json!({
            "queries": text_or_texts("The first text of each pair, or of all."),
            "documents": text_or_texts("The second text of each pair, or of all."),
            "truncate": truncate(false),
        }),
    );
    let input = inputs("Texts or token ids.");
    let classify = joined(activation(), json!({"input": input, "truncate": truncate(false)}));
    let pooling = joined(
        activation(),
        json!({
            "input": input,
            "task": words(&["embed", "classify", "token_embed"], "What is computed; what the model can if omitted."),
            "encoding_format": words(&["float", "base64"], "How numbers are written."),
            "dimensions": dimensions(),
            "normalize": normalize(),
            "truncate": truncate(false),
        }),
    );
    let entities = json!({
        "input": text_or_texts("The texts."),
        "aggregation": words(&["none", "simple", "first", "max", "average"], "How labels of tokens become entities; simple by default."),
        "ignore_labels": ignored(),
        "truncate": truncate(false),
    });
    let chunk = json!({
        "input": {"type": "string", "description": "The text."},
        "by": words(&["tokens", "sentences", "headings"], "Where the text may be cut; between sentences by default."),
        "size": count(8, limits::CHUNK_TOKENS, "Most tokens of a chunk. By default 256, or as many as the model takes besides its special tokens."),
        "overlap": count(0, limits::CHUNK_TOKENS, "Most tokens that a chunk has in common with the one before it; at most half of size."),
    });
    let ollama = json!({"options": {"oneOf": [{"type": "null"}, reference("OllamaOptions")]},
        "keep_alive": {"oneOf": [{"type": "null"}, {"type": "number"}, {"type": "string"}],
            "description": "How long the model stays loaded: seconds, or a duration such as 5m."}});
    json!({
        "EmbeddingsRequest": request(joined(vllm_length(), embeddings()), &["input"]),
        "CohereEmbedRequest": request(cohere(), &["texts"]),
        "RerankRequest": request(joined(vllm_length(), rerank()), &["query", "documents"]),
        "ScoreRequest": request(joined(vllm_length(), score), &["queries", "documents"]),
        "ClassifyRequest": request(joined(vllm_length(), classify), &["input"]),
        "PoolingRequest": request(joined(vllm_length(), pooling), &["input"]),
        "EntitiesRequest": request(entities, &["input"]),
        "ChunkRequest": request(chunk, &["input"]),
        "OllamaEmbedRequest": request(joined(ollama.clone(), json!({
            "input": text_or_texts("The texts; without any, the model is only loaded."),
            "truncate": flag("Whether a text that is too long is cut; true by default."),
            "dimensions": dimensions()})), &[]),
        "OllamaEmbeddingsRequest": request(joined(ollama, json!({
            "prompt": {"type": ["string", "null"], "description": "The text; without it, the model is only loaded."}})), &[]),
    })
}

fn ignored() -> Value {
    json!({"type": ["array", "null"], "maxItems": limits::IGNORED_LABELS, "items": {"type": "string"},
        "description": "Labels that are left out; O by default."})
}

fn tei_length() -> Value {
    json!({
        "truncate": {"type": ["boolean", "null"], "description": "Whether an input that is too long is cut; true by default."},
        "truncation_direction": words(&["Left", "Right"], "Which end is cut; Right by default."),
    })
}

fn tei_requests() -> Value {
    let embed = json!({
        "inputs": inputs("Texts or token ids."),
        "normalize": flag("Whether vectors are scaled to length 1; true by default."),
        "prompt_name": text(limits::NAME_BYTES, "Name of a prompt of the model's file, put before each input."),
        "dimensions": dimensions(),
    });
    let sequence = json!({"type": "array", "minItems": 1, "maxItems": 2, "items": {"type": "string"}});
    let predict = json!({
        "inputs": {"oneOf": [{"type": "string"}, sequence,
            {"type": "array", "minItems": 1, "maxItems": limits::INPUTS, "items": sequence}],
            "description": "A text, a pair of texts, or a list of lists of one or two texts."},
        "raw_scores": flag("Return logits, without the model's activation function."),
    });
    let rank = json!({
        "query": {"type": "string", "description": "The query."},
        "texts": texts(limits::DOCUMENTS, "The texts."),
        "raw_scores": flag("Return logits, without the model's activation function."),
        "return_text": flag("Whether results have the texts."),
    });
    let sentences = object(
        json!({"source_sentence": {"type": "string"}, "sentences": texts(limits::INPUTS, "The other sentences.")}),
        json!({}),
        &["source_sentence", "sentences"],
    );
    let parameters = joined(
        tei_length(),
        json!({"prompt_name": text(limits::NAME_BYTES, "Name of a prompt of the model's file.")}),
    );
    let pair = object(
        json!({"text": {"type": "string"}, "text_pair": {"type": ["string", "null"]}}),
        json!({}),
        &["text"],
    );
    let sequence = json!({"oneOf": [{"type": "string"}, pair]});
    let text_parameters = json!({
        "function_to_apply": words(&["none", "sigmoid", "softmax"], "From logits to scores; the model's own if omitted."),
        "top_k": count(1, limits::TOKENS, "Most labels of each text; all if omitted."),
    });
    let token_parameters = json!({
        "aggregation_strategy": words(&["none", "simple", "first", "max", "average"], "How labels of tokens become entities; simple by default."),
        "ignore_labels": ignored(),
    });
    let with = |parameters: Value| json!({"type": ["object", "null"], "properties": parameters});
    json!({
        "TeiEmbedRequest": request(joined(tei_length(), embed), &["inputs"]),
        "PredictRequest": request(joined(tei_length(), predict), &["inputs"]),
        "TeiRankRequest": request(joined(tei_length(), rank), &["query", "texts"]),
        "RankRequest": {"oneOf": [reference("TeiRankRequest"), reference("RerankRequest")]},
        "SimilarityRequest": request(json!({"inputs": sentences, "parameters": with(parameters)}), &["inputs"]),
        "TextClassificationRequest": request(json!({
            "inputs": {"oneOf": [{"type": "string"}, pair, {"type": "array", "minItems": 1, "maxItems": limits::INPUTS, "items": sequence}],
                "description": "Texts, or pairs of texts."},
            "parameters": with(text_parameters)}), &["inputs"]),
        "TokenClassificationRequest": request(json!({"inputs": text_or_texts("The texts."), "parameters": with(token_parameters)}),
            &["inputs"]),
    })
}

fn usage() -> Value {
    object(
        json!({"prompt_tokens": {"type": "integer"}, "total_tokens": {"type": "integer"},
        "truncated_tokens": {"type": "integer"}}),
        json!({}),
        &["prompt_tokens", "total_tokens"],
    )
}

/// A list as OpenAI and vLLM answer, with entries of these properties.
fn list(entry: Value, required: &[&str]) -> Value {
    object(
        json!({"object": {"const": "list"}, "model": {"type": "string"}, "usage": usage(),
        "data": {"type": "array", "items": object(entry, json!({}), required)}}),
        json!({}),
        &["object", "model", "data"],
    )
}

fn span() -> Value {
    object(json!({"start": {"type": "integer"}, "end": {"type": "integer"}}), json!({}), &["start", "end"])
}

fn numbers() -> Value {
    array(json!({"type": "number"}))
}

fn array(items: Value) -> Value {
    json!({"type": "array", "items": items})
}

fn answers() -> Value {
    let vector = json!({"oneOf": [numbers(), {"type": "string"}]});
    let result = object(
        json!({"index": {"type": "integer"}, "relevance_score": {"type": "number"},
        "document": {"type": "object"}}),
        json!({}),
        &["index", "relevance_score"],
    );
    let entity = object(
        json!({"label": {"type": "string"}, "score": {"type": "number"}, "text": {"type": "string"},
        "bytes": span(), "chars": span()}),
        json!({}),
        &["label", "score", "text", "bytes", "chars"],
    );
    json!({
        "EmbeddingList": list(json!({"object": {"const": "embedding"}, "index": {"type": "integer"}, "embedding": vector}),
            &["object", "index", "embedding"]),
        "CohereEmbeddings": object(json!({"id": {"type": "string"}, "texts": array(json!({"type": "string"})),
            "embeddings": {"oneOf": [{"type": "object"}, array(numbers())]}, "meta": {"type": "object"},
            "response_type": {"enum": ["embeddings_floats", "embeddings_by_type"]}}), json!({}), &["id", "embeddings", "texts", "meta"]),
        "RerankResults": object(json!({"id": {"type": "string"}, "model": {"type": "string"}, "usage": usage(),
            "results": array(result), "meta": {"type": "object"}}), json!({}), &["id", "model", "results", "usage", "meta"]),
        "Scores": list(json!({"object": {"const": "score"}, "index": {"type": "integer"}, "score": {"type": "number"}}),
            &["object", "index", "score"]),
        "Classes": list(json!({"index": {"type": "integer"}, "label": {"type": ["string", "null"]}, "probs": numbers(),
            "num_classes": {"type": "integer"}}), &["index", "label", "probs", "num_classes"]),
        "Pooled": list(json!({"object": {"const": "pooling"}, "index": {"type": "integer"},
            "data": {"oneOf": [{"type": "array"}, {"type": "string"}]}}), &["object", "index", "data"]),
        "EntityList": list(json!({"object": {"const": "entities"}, "index": {"type": "integer"}, "entities": array(entity)}),
            &["object", "index", "entities"]),
        "ChunkList": list(json!({"object": {"const": "chunk"}, "index": {"type": "integer"}, "text": {"type": "string"},
            "bytes": span(), "chars": span(), "tokens": {"type": "integer"}, "headings": array(json!({"type": "string"}))}),
            &["object", "index", "text", "bytes", "chars", "tokens", "headings"]),
        "OllamaVectors": object(json!({"model": {"type": "string"}, "embeddings": array(numbers()),
            "total_duration": {"type": "integer"}, "load_duration": {"type": "integer"},
            "prompt_eval_count": {"type": "integer"}}), json!({}), &["model", "embeddings"]),
        "OllamaVector": object(json!({"embedding": numbers()}), json!({}), &["embedding"]),
        "CohereError": object(json!({"message": {"type": "string"}, "error": {"type": "object"}}), json!({}), &["message"]),
    })
}

fn tei_answers() -> Value {
    let prediction = object(
        json!({"label": {"type": "string"}, "score": {"type": "number"}}),
        json!({}),
        &["label", "score"],
    );
    let rank = object(
        json!({"index": {"type": "integer"}, "score": {"type": "number"}, "text": {"type": "string"}}),
        json!({}),
        &["index", "score"],
    );
    let weight = object(
        json!({"index": {"type": "integer"}, "value": {"type": "number"}}),
        json!({}),
        &["index", "value"],
    );
    let entity = object(
        json!({"entity_group": {"type": "string"}, "entity": {"type": "string"}, "score": {"type": "number"},
        "word": {"type": "string"}, "start": {"type": "integer"}, "end": {"type": "integer"}}),
        json!({}),
        &["score", "word", "start", "end"],
    );
    json!({
        "Vectors": array(numbers()),
        "TokenVectors": array(array(numbers())),
        "SparseVectors": array(array(weight)),
        "Predictions": {"type": "array", "items": {"oneOf": [prediction.clone(), array(prediction.clone())]}},
        "Ranks": {"oneOf": [array(rank), reference("RerankResults")]},
        "Similarities": numbers(),
        "TextClasses": array(array(prediction)),
        "HfEntities": {"type": "array", "items": {"oneOf": [entity.clone(), array(entity)]}},
        "TeiError": object(json!({"error": {"type": "string"}, "error_type": {"type": "string"}, "message": {"type": "string"}}),
            json!({}), &["error", "error_type"]),
    })
}
