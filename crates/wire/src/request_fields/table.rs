//! The table of [`super`].

use serde_json::Value;

use super::kinds::Decision::{Honoured, Ignored, LeftOut, Refused};
use super::kinds::Route::{
    Chat, Completions, CountTokens, Generate, LlamaCompletion, Messages, OllamaChat, OllamaGenerate,
    OllamaOptions, Parameters, Responses, Tokenize,
};
use super::kinds::{Decision, Group, Route};

/// How tokens are chosen and where an answer ends; `Sampling` reads them all.
pub(super) const SAMPLING: &str = "temperature top_k top_p min_p typical_p typ_p repetition_penalty repeat_penalty \
    repeat_last_n frequency_penalty presence_penalty dry_multiplier dry_base dry_allowed_length dry_penalty_last_n \
    dry_sequence_breakers xtc_probability xtc_threshold top_n_sigma dynatemp_range dynatemp_exponent mirostat \
    mirostat_tau mirostat_eta samplers allowed_token_ids bad_words logit_bias seed stop_token_ids min_tokens \
    include_stop_str_in_output ignore_eos";

/// What an answer must be like.
pub(super) const FORMS: &str = "structured_outputs guided_json guided_regex guided_choice guided_grammar guided_whitespace_pattern json_schema grammar";

pub(super) const GROUPS: &[&[Group]] = &[HONOURED, REFUSED, LEFT_OUT, IGNORED];

/// Endpoints whose requests are read as chat requests.
const CHATS: &[Route] = &[Chat, Responses, Messages];
/// Endpoints that continue a text.
const TEXTS: &[Route] = &[Completions, LlamaCompletion];
const OPENAI: &[Route] = &[Chat, Completions];
const OPEN: &[Route] = &[Chat, Completions, LlamaCompletion];
const GENERATING: &[Route] = &[Chat, Completions, Responses, Messages, LlamaCompletion];
const SAMPLED: &[Route] =
    &[Chat, Completions, Responses, Messages, LlamaCompletion, Parameters, OllamaOptions];
/// Ollama's endpoints.
const OLLAMA: &[Route] = &[OllamaChat, OllamaGenerate];

pub(super) const fn honoured(routes: &'static [Route], names: &'static str) -> Group {
    Group { names, routes, decision: Honoured, reason: "" }
}

pub(super) const fn row(
    decision: Decision,
    routes: &'static [Route],
    names: &'static str,
    reason: &'static str,
) -> Group {
    Group { names, routes, decision, reason }
}

const HONOURED: &[Group] = &[
    honoured(
        &[
            Chat,
            Completions,
            Responses,
            Messages,
            CountTokens,
            Tokenize,
            Generate,
            LlamaCompletion,
            OllamaChat,
            OllamaGenerate,
        ],
        "model",
    ),
    honoured(SAMPLED, SAMPLING),
    honoured(&[Chat, Completions, Responses, LlamaCompletion, Parameters, OllamaOptions], "stop"),
    honoured(&[Chat, Completions, Responses, Messages, LlamaCompletion, Generate], "stream"),
    row(Honoured, OLLAMA, "stream", "true unless it is said: a JSON object a line"),
    honoured(GENERATING, FORMS),
    honoured(
        &[Chat, Completions, Responses, Messages, LlamaCompletion],
        "priority timeout cache_salt include_cost",
    ),
    honoured(&[Chat, Completions, Responses, LlamaCompletion], "service_tier"),
    honoured(OPENAI, "max_completion_tokens max_tokens"),
    row(Honoured, OPENAI, "n_predict", "llama.cpp's name for max_tokens; -1 is no bound"),
    honoured(&[LlamaCompletion], "n_predict max_tokens max_completion_tokens"),
    honoured(OPENAI, "n response_format logprobs stream_options best_of prompt_logprobs"),
    row(Honoured, OPEN, "n_cmpl", "llama.cpp's name for n"),
    honoured(&[LlamaCompletion], "n"),
    honoured(OPENAI, "truncate_prompt_tokens return_token_ids return_tokens_as_token_ids"),
    row(
        Honoured,
        OPENAI,
        "resume",
        "an answer that another node began: `{\"token_ids\": […]}`, as `return_token_ids` gave them there, with the same seed or \
         temperature 0",
    ),
    honoured(&[Chat], "messages top_logprobs tools tool_choice parallel_tool_calls include_reasoning"),
    honoured(&[Chat], "reasoning_effort add_generation_prompt continue_final_message thinking_token_budget"),
    row(
        Honoured,
        &[Chat],
        "reasoning_budget reasoning_budget_tokens thinking_budget_tokens",
        "llama.cpp's names for thinking_token_budget; -1 is no bound",
    ),
    row(Honoured, &[Chat], "enable_thinking", "as in chat_template_kwargs"),
    row(Honoured, &[Chat], "think", "Ollama's: a boolean as enable_thinking, a word as reasoning_effort"),
    row(Honoured, &[Chat], "thinking", "a type of enabled or disabled, as enable_thinking"),
    row(Honoured, &[Chat], "reasoning", "effort, enabled, max_tokens and exclude"),
    honoured(CHATS, "chat_template_kwargs"),
    honoured(&[Completions], "prompt echo add_special_tokens"),
    honoured(&[LlamaCompletion], "prompt n_probs return_tokens response_fields"),
    row(Honoured, &[LlamaCompletion], "logprobs", "as n_probs"),
    honoured(&[Responses], "input instructions max_output_tokens previous_response_id store background"),
    honoured(&[Responses], "reasoning text tools tool_choice parallel_tool_calls metadata truncation"),
    honoured(&[Messages, CountTokens], "output_config output_format"),
    honoured(&[Messages], "messages system max_tokens stop_sequences tools tool_choice thinking"),
    honoured(&[CountTokens], "messages system tools tool_choice thinking"),
    honoured(
        &[Tokenize],
        "prompt content messages add_special_tokens add_special return_token_strs with_pieces",
    ),
    honoured(
        &[Tokenize],
        "tools tool_choice chat_template_kwargs add_generation_prompt continue_final_message",
    ),
    honoured(&[Generate], "inputs parameters"),
    honoured(
        &[Parameters],
        "max_new_tokens do_sample return_full_text details decoder_input_details truncate",
    ),
    honoured(&[Parameters], "top_n_tokens best_of grammar timeout priority"),
    honoured(OLLAMA, "options logprobs top_logprobs priority timeout cache_salt chat_template_kwargs"),
    row(Honoured, OLLAMA, "format", "json or a JSON schema"),
    row(
        Honoured,
        OLLAMA,
        "keep_alive",
        "how long the model stays loaded after the answer; a pinned one stays",
    ),
    row(Honoured, OLLAMA, "think", "a boolean as enable_thinking, a word as reasoning_effort"),
    row(Honoured, &[OllamaChat], "messages", "an empty list loads the model"),
    honoured(&[OllamaChat], "tools"),
    row(Honoured, &[OllamaGenerate], "prompt", "an empty text loads the model"),
    honoured(&[OllamaGenerate], "system raw"),
    row(Honoured, &[OllamaOptions], "num_predict", "most tokens of the answer; 0, -1 and -2 are no bound"),
];

const REFUSED: &[Group] = &[
    row(Refused(nothing), OPEN, "use_beam_search", "beam search is not built into this server"),
    row(
        Refused(yes),
        &[Chat, Completions, Responses, LlamaCompletion],
        "skip_special_tokens",
        "special tokens are never part of the text",
    ),
    row(Refused(nothing), OPENAI, "n_probs", "use logprobs"),
    row(Refused(nothing), OPEN, "lora", "adapters are not built into this server"),
    row(Refused(nothing), &[Parameters], "adapter_id", "adapters are not built into this server"),
    row(Refused(nothing), &[Chat, Completions], "functions", "use tools, with /v1/chat/completions"),
    row(
        Refused(none_or_auto),
        &[Chat, Completions],
        "function_call",
        "use tools and tool_choice, with /v1/chat/completions",
    ),
    row(Refused(text_only), &[Chat], "modalities", "this server answers with text only"),
    row(Refused(never), &[Chat], "audio", "this server answers with text only"),
    row(Refused(never), &[Chat], "web_search_options", "this server does not search the web"),
    row(Refused(nothing), &[Chat], "echo", "a chat answer never repeats its prompt"),
    row(Refused(nothing), &[LlamaCompletion], "echo", "use /v1/completions"),
    row(
        Refused(nothing),
        &[Chat],
        "documents",
        "documents are not built into this server; put them into a message",
    ),
    row(
        Honoured,
        &[Completions],
        "suffix",
        "for models with tokens to fill in; the prompt is what comes before",
    ),
    row(Refused(nothing), &[Chat, LlamaCompletion], "suffix", "to fill in, use /infill or /v1/completions"),
    row(
        Refused(nothing),
        &[Chat, Completions, LlamaCompletion],
        "input_prefix input_suffix input_extra",
        "to fill in, use /infill",
    ),
    row(
        Refused(nothing),
        &[Chat, Tokenize],
        "chat_template",
        "a template of a request's own is not run here; the model's is used, with chat_template_kwargs",
    ),
    row(
        Refused(nothing),
        &[Chat],
        "add_special_tokens",
        "the chat template writes the tokens at the start itself",
    ),
    row(
        Refused(yes),
        &[Tokenize],
        "parse_special",
        "control tokens that a text spells are always taken as such",
    ),
    row(
        Refused(nothing),
        &[Parameters, Chat, Completions],
        "watermark watermarking",
        "answers are not watermarked",
    ),
    row(Refused(left), OPENAI, "truncation_side", "a prompt is truncated on the left only"),
    row(Refused(nothing), OPENAI, "logprob_token_ids", "use logprobs with alternatives"),
    row(Refused(nothing), &[Chat], "return_prompt_text", "ask /apply-template for it"),
    row(
        Refused(nothing),
        OPENAI,
        "kv_transfer_params ec_transfer_params",
        "caches are not handed from server to server",
    ),
    row(
        Refused(nothing),
        &[Chat, Completions, Responses],
        "vllm_xargs",
        "there are no extensions of that kind here",
    ),
    row(Refused(nothing), OPENAI, "repetition_detection", "not built into this server; use the DRY sampler"),
    row(Refused(nothing), &[Completions], "prompt_embeds", "prompts are text or token ids"),
    row(Refused(nothing), &[Chat, Responses], "moderation", "nothing is moderated here"),
    row(Refused(nothing), &[Chat], "tool_prompt", "tools are written by the chat template"),
    row(Refused(as_here), OPEN, "reasoning_format", "thoughts are sent as reasoning_content"),
    row(
        Refused(nothing),
        OPEN,
        "chat_format generation_prompt chat_parser grammar_lazy grammar_triggers grammar_type preserved_tokens \
         thinking_forced_open",
        "the chat template decides it",
    ),
    row(
        Refused(nothing),
        OPEN,
        "reasoning_control reasoning_budget_start_tag reasoning_budget_end_tags reasoning_budget_end_tag \
         reasoning_budget_message",
        "not built into this server; use thinking_token_budget",
    ),
    row(
        Refused(nothing),
        TEXTS,
        "thinking_token_budget reasoning_budget_tokens",
        "a text that is continued has no thought of its own",
    ),
    row(Refused(nothing), &[LlamaCompletion], "continue_final_message", "use /v1/chat/completions"),
    row(Refused(nothing), &[Completions], "continue_final_message", "use /v1/chat/completions"),
    row(Refused(nothing), OPEN, "n_indent", "not built into this server"),
    row(Refused(negative), OPEN, "t_max_predict_ms", "not built into this server; use timeout"),
    row(Refused(nothing), OPENAI, "response_fields", "answers are sent whole"),
    row(Refused(nothing), OPENAI, "return_tokens", "use return_token_ids"),
    row(Refused(at_most_one), OPEN, "min_keep", "not built into this server"),
    row(
        Refused(nothing),
        OPEN,
        "post_sampling_probs",
        "probabilities are the model's own, before any sampler",
    ),
    row(Refused(negative), OPEN, "adaptive_target", "that sampler is not built into this server"),
    row(
        Refused(nothing),
        OPEN,
        "image_data system_prompt penalize_nl penalty_prompt",
        "not built into this server",
    ),
    row(Refused(one), OPEN, "tfs_z", "that sampler is not built into this server"),
    row(Refused(nothing), &[Chat], "format", "use response_format"),
    row(Refused(nothing), &[Chat, Completions], "options", "Ollama's options are fields of their own here"),
    row(Refused(nothing), &[Chat, Completions], "_debug_render_only", "ask /apply-template"),
    row(Refused(nothing), &[Chat], "truncate", "use truncate_prompt_tokens"),
    row(
        Refused(nothing),
        &[Responses],
        "prompt",
        "prompt templates are not kept here; use instructions and input",
    ),
    row(Refused(nothing), &[Responses], "conversation", "use previous_response_id or input"),
    row(
        Refused(nothing),
        &[Responses],
        "enable_response_messages previous_input_messages previous_response",
        "not built into this server; use previous_response_id or input",
    ),
    row(Refused(nothing), &[Messages], "container", "this server runs no code"),
    row(Refused(nothing), &[Messages], "compaction", "conversations are not summarized here"),
    row(Refused(nothing), &[Messages], "thread", "conversations are not kept here; send all messages"),
    row(
        Refused(never),
        OLLAMA,
        "temperature top_k top_p min_p typical_p repeat_penalty repeat_last_n frequency_penalty presence_penalty \
         mirostat mirostat_tau mirostat_eta seed stop num_predict",
        "it belongs into options",
    ),
    row(
        Refused(nothing),
        OLLAMA,
        "template",
        "a template of a request's own is not run here; the model's is used, with chat_template_kwargs",
    ),
    row(Refused(nothing), &[OllamaGenerate], "images", "this model reads text only"),
    row(Refused(nothing), &[OllamaGenerate], "suffix", "to fill in, use /infill or /v1/completions"),
    row(
        Refused(nothing),
        &[OllamaGenerate],
        "context",
        "answers have no context to hand back; send the conversation to /api/chat",
    ),
    row(Refused(nothing), &[OllamaGenerate], "width height steps", "this server makes no images"),
    row(Refused(nothing), OLLAMA, "_debug_render_only", "ask /apply-template"),
];

const LEFT_OUT: &[Group] = &[
    row(LeftOut(nothing), &[Chat], "verbosity", "no model here knows it"),
    row(
        LeftOut(nothing),
        OPENAI,
        "timings_per_token return_progress verbose",
        "usage and the metrics tell what a request took",
    ),
    row(
        LeftOut(nothing),
        &[LlamaCompletion],
        "return_progress verbose stream_options",
        "not part of this answer",
    ),
    row(
        LeftOut(told_by_reader),
        &[Messages, CountTokens, Responses],
        "context_management",
        "a conversation is never cut here",
    ),
    row(
        LeftOut(told_by_reader),
        &[Messages, CountTokens],
        "mcp_servers",
        "this server calls no other servers",
    ),
    row(LeftOut(told_by_reader), &[Responses], "top_logprobs include", "use /v1/chat/completions"),
    row(LeftOut(nothing), &[Responses], "background_options", "a response in the background has no window"),
    row(LeftOut(nothing), GENERATING, "keep_alive", "only Ollama's API sets how long a model stays loaded"),
    row(LeftOut(nothing), OLLAMA, "truncate", "a conversation is never cut; one that is too long is refused"),
    row(
        LeftOut(told_by_reader),
        &[OllamaOptions],
        "num_ctx",
        "the context is the one that the model was loaded with; a warning tells if it is smaller",
    ),
    row(LeftOut(yes), &[OllamaOptions], "penalize_newline", "a line end is penalized as every token is"),
    row(LeftOut(one), &[OllamaOptions], "tfs_z", "that sampler is not built into this server"),
];

const IGNORED: &[Group] = &[
    row(
        Ignored,
        &[Chat, Completions, Responses, LlamaCompletion],
        "user safety_identifier prompt_cache_key prompt_cache_options prompt_cache_retention request_id session_id",
        "it names who asks; x-request-id names the request",
    ),
    row(Ignored, &[Chat], "metadata store", "chat answers are not kept"),
    row(Ignored, &[Chat], "prediction", "it is about speed; what is likely is guessed anyway"),
    row(Ignored, OPENAI, "length_penalty", "it weighs beams only"),
    row(Ignored, OPENAI, "spaces_between_special_tokens", "special tokens are never part of the text"),
    row(
        Ignored,
        &[Chat, Completions, Responses, Tokenize],
        "mm_processor_kwargs media_io_kwargs",
        "it is about images and sound, which are refused",
    ),
    row(
        Ignored,
        OPENAI,
        "return_token_offsets return_mm_kwargs routed_experts_prompt_start",
        "it is about answers that generating endpoints do not have",
    ),
    row(Ignored, OPENAI, "stream_interval", "it is about how a stream is cut into events"),
    row(Ignored, OPEN, "guided_decoding_backend", "there is one"),
    row(
        Ignored,
        OPEN,
        "cache_prompt n_cache_reuse id_slot",
        "the text is the same with a warm cache as with a cold one",
    ),
    row(Ignored, OPEN, "n_keep n_discard", "a context is never shifted: an answer ends at its end"),
    row(Ignored, OPEN, "sse_ping_interval", "it is about comments in a silent stream"),
    row(Ignored, OPEN, "backend_sampling", "it is about where a token is chosen"),
    row(Ignored, OPEN, "adaptive_decay", "it acts with adaptive_target only"),
    row(Ignored, OPEN, "parse_tool_calls", "the tools of a request decide it"),
    row(
        Ignored,
        OPEN,
        "speculative.n_max speculative.n_min speculative.p_min speculative.type speculative.ngram_size_n \
         speculative.ngram_size_m speculative.ngram_min_hits speculative.ngram_m_hits",
        "it is about speed; the text is the same",
    ),
    row(Ignored, &[LlamaCompletion], "timings_per_token", "timings are part of the last event"),
    row(Ignored, &[Chat, Completions], "shift", "a context is never shifted"),
    row(
        Ignored,
        &[Responses],
        "max_tool_calls access_programs image stream_options",
        "it is about tools, images and programs of OpenAI's own",
    ),
    row(Ignored, &[Messages, CountTokens], "cache_control", "beginnings are remembered anyway"),
    row(
        Ignored,
        &[Messages, CountTokens],
        "betas speed billing_policy user_profile_id workspace_id",
        "it is about Anthropic's own service",
    ),
    row(
        Ignored,
        &[Messages],
        "metadata service_tier diagnostics inference_geo fallback_credit_token fallbacks",
        "it is about Anthropic's own service",
    ),
    row(Ignored, &[CountTokens], "compaction", "it does not change the count"),
    row(
        Ignored,
        &[Generate],
        "options",
        "it is about a hosted service: its cache, and waiting for the model",
    ),
    row(Ignored, OLLAMA, "shift", "a context is never shifted: an answer ends at its end"),
    row(Ignored, OLLAMA, "user metadata", "it names who asks; x-request-id names the request"),
    row(Ignored, &[OllamaOptions], "num_keep", "a context is never shifted: an answer ends at its end"),
    row(
        Ignored,
        &[OllamaOptions],
        "num_batch num_gpu main_gpu num_thread draft_num_predict use_mmap use_mlock low_vram numa f16_kv",
        "it is about how the model is loaded and computed, which the server decides when it starts",
    ),
    row(Ignored, &[OllamaOptions], "logits_all vocab_only embedding_only", "it changes no answer"),
];

/// null, false, 0 and what is empty.
pub(super) fn nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(on) => !on,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
    }
}

/// What the endpoint's own reader tells, with more detail.
fn told_by_reader(_: &Value) -> bool {
    true
}

fn never(_: &Value) -> bool {
    false
}

pub(super) fn yes(value: &Value) -> bool {
    *value == Value::Bool(true)
}

fn one(value: &Value) -> bool {
    value.as_f64() == Some(1.0)
}

fn at_most_one(value: &Value) -> bool {
    value.as_f64().is_some_and(|n| n <= 1.0)
}

fn negative(value: &Value) -> bool {
    value.as_f64().is_some_and(|n| n < 0.0) || value.as_i64() == Some(0)
}

fn left(value: &Value) -> bool {
    value == "left"
}

/// llama.cpp's names for what is done here: thoughts apart from the text.
fn as_here(value: &Value) -> bool {
    value == "auto" || value == "deepseek"
}

fn none_or_auto(value: &Value) -> bool {
    value == "none" || value == "auto"
}

fn text_only(value: &Value) -> bool {
    value.as_array().is_some_and(|a| a.iter().all(|m| m == "text"))
}
