//! The table of [`super`], for encoders.

use serde_json::Value;

use super::kinds::Decision::{Honoured, Ignored, LeftOut, Refused};
use super::kinds::Route::{
    Chunk, Classify, CohereEmbed, Embeddings, Entities, HfTask, HfTextParameters, HfTokenParameters,
    OllamaEmbed, OllamaEmbeddings, Pooling, Rerank, Score, TeiEmbed, TeiPredict, TeiRerank, TeiSimilarity,
    TeiSimilarityParameters,
};
use super::kinds::{Group, Route};
use super::table::{honoured, nothing, row, yes};

pub(super) const GROUPS: &[&[Group]] = &[HONOURED, REFUSED, LEFT_OUT, IGNORED];

/// Every body.
const BODIES: &[Route] = &[
    Embeddings,
    CohereEmbed,
    Rerank,
    Score,
    Classify,
    Pooling,
    TeiEmbed,
    TeiPredict,
    TeiRerank,
    TeiSimilarity,
    HfTask,
    OllamaEmbed,
    OllamaEmbeddings,
    Entities,
    Chunk,
];
/// Bodies outside Ollama's API.
const NOT_OLLAMA: &[Route] = &[
    Embeddings,
    CohereEmbed,
    Rerank,
    Score,
    Classify,
    Pooling,
    TeiEmbed,
    TeiPredict,
    TeiRerank,
    TeiSimilarity,
    HfTask,
    Entities,
    Chunk,
];
/// vLLM's endpoints with `input`.
const VLLM_INPUT: &[Route] = &[Embeddings, Classify, Pooling];
/// vLLM's endpoints.
const VLLM: &[Route] = &[Embeddings, Classify, Pooling, Score, Rerank];
/// Endpoints whose scores come from an activation function.
const SCORED: &[Route] = &[Rerank, Score, Classify, TeiPredict, TeiRerank];

const HONOURED: &[Group] = &[
    honoured(BODIES, "model timeout"),
    honoured(VLLM, "truncate_prompt_tokens truncation_side"),
    honoured(VLLM_INPUT, "input"),
    honoured(&[Embeddings, Pooling], "dimensions encoding_format normalize"),
    row(Honoured, &[Embeddings], "embedding_type", "Jina's name for encoding_format"),
    row(Honoured, &[Embeddings], "normalized", "Jina's name for normalize"),
    row(Honoured, &[Embeddings, Score], "prompt_name", "a prompt of the model's file"),
    row(
        Honoured,
        &[Embeddings],
        "input_type task",
        "what the text is for, which chooses a prompt of the model's file",
    ),
    row(Honoured, VLLM, "truncate", "true, false, NONE, START, END; for vectors also CHUNK"),
    honoured(&[CohereEmbed], "texts inputs input_type embedding_types output_dimension truncate max_tokens"),
    honoured(&[Rerank], "query documents top_n return_documents max_tokens_per_doc"),
    honoured(&[Score], "queries documents text_1 text_2 data_1 data_2 items"),
    row(Honoured, SCORED, "use_activation activation softmax", "false is raw_scores"),
    honoured(SCORED, "raw_scores"),
    honoured(&[Pooling], "task"),
    row(
        Honoured,
        &[Pooling],
        "use_activation activation softmax raw_scores",
        "of classes; of vectors, normalize",
    ),
    honoured(&[TeiEmbed], "inputs prompt_name normalize dimensions"),
    row(
        Honoured,
        &[TeiEmbed, TeiPredict, TeiRerank, TeiSimilarityParameters],
        "truncate",
        "true unless it is said",
    ),
    honoured(&[TeiEmbed, TeiPredict, TeiRerank, TeiSimilarityParameters], "truncation_direction"),
    honoured(&[TeiPredict], "inputs"),
    honoured(&[TeiRerank], "query texts return_text"),
    honoured(&[TeiSimilarity], "inputs parameters"),
    honoured(&[TeiSimilarityParameters], "prompt_name"),
    honoured(&[HfTask], "inputs parameters"),
    honoured(&[HfTextParameters], "function_to_apply top_k"),
    honoured(&[HfTokenParameters], "aggregation_strategy ignore_labels"),
    honoured(&[OllamaEmbed], "input truncate dimensions"),
    honoured(&[OllamaEmbeddings], "prompt"),
    honoured(&[OllamaEmbed, OllamaEmbeddings], "options"),
    row(
        Honoured,
        &[OllamaEmbed, OllamaEmbeddings],
        "keep_alive",
        "how long the model stays loaded after the answer; a pinned one stays",
    ),
    honoured(&[Entities], "input aggregation ignore_labels truncate"),
    honoured(&[Chunk], "input by size overlap"),
];

const REFUSED: &[Group] = &[
    row(
        Refused(nothing),
        VLLM_INPUT,
        "messages chat_template chat_template_kwargs add_generation_prompt continue_final_message",
        "encoders read texts, not conversations; send input",
    ),
    row(
        Refused(yes),
        VLLM_INPUT,
        "add_special_tokens",
        "a text always has the model's special tokens; send token ids",
    ),
    row(Refused(float32), &[Embeddings, Pooling], "embed_dtype", "base64 is of float32"),
    row(Refused(little), &[Embeddings, Pooling], "endianness", "base64 is little-endian"),
    row(
        Refused(nothing),
        &[Embeddings],
        "late_chunking",
        "not built into this server; truncate may be CHUNK",
    ),
    row(
        Refused(nothing),
        &[Embeddings],
        "output_dimension output_dtype",
        "use dimensions and encoding_format",
    ),
    row(Refused(nothing), &[CohereEmbed], "images", "this server reads text only"),
    row(Refused(of_text), &[Rerank], "rank_fields", "documents are ranked by their text"),
    row(Refused(disabled), &[Rerank], "relevant_spans", "not built into this server"),
    row(
        Refused(nothing),
        &[Rerank],
        "max_tokens_per_query",
        "not built into this server; use max_tokens_per_doc",
    ),
    row(Refused(nothing), &[Rerank, Score], "chat_template instruction", "the model's own form is used"),
    row(
        Refused(nothing),
        &[Score],
        "max_tokens_per_query max_tokens_per_doc",
        "not built into this server; use truncate_prompt_tokens",
    ),
    row(Refused(float), &[TeiEmbed], "encoding_format", "use /v1/embeddings"),
    row(
        Refused(nothing),
        &[HfTokenParameters],
        "stride",
        "not built into this server; send parts, as of /v1/chunk",
    ),
];

const LEFT_OUT: &[Group] = &[
    row(LeftOut(no_priority), NOT_OLLAMA, "priority", "short requests of encoders go before long ones"),
    row(LeftOut(nothing), NOT_OLLAMA, "keep_alive", "only Ollama's API sets how long a model stays loaded"),
    row(
        LeftOut(nothing),
        &[Rerank],
        "max_chunks_per_doc",
        "a document is read as one, and cut if it is too long",
    ),
];

const IGNORED: &[Group] = &[
    row(
        Ignored,
        NOT_OLLAMA,
        "user request_id safety_identifier",
        "it names who asks; x-request-id names the request",
    ),
    row(Ignored, VLLM, "mm_processor_kwargs", "it is about images and sound, which are refused"),
    row(Ignored, VLLM, "cache_salt", "encoders have no prefix cache"),
];

fn is(value: &Value, words: &[&str]) -> bool {
    nothing(value) || value.as_str().is_some_and(|word| words.contains(&word))
}

fn float(value: &Value) -> bool {
    is(value, &["float"])
}

fn float32(value: &Value) -> bool {
    is(value, &["float32"])
}

fn little(value: &Value) -> bool {
    is(value, &["native", "little"])
}

fn no_priority(value: &Value) -> bool {
    is(value, &["default"])
}

fn of_text(value: &Value) -> bool {
    nothing(value) || value.as_array().is_some_and(|names| names.iter().all(|name| name == "text"))
}

fn disabled(value: &Value) -> bool {
    nothing(value) || value.get("mode").is_some_and(|mode| mode == "disabled")
}
