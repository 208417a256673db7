//! All limits of requests. `docs/limits.md` and `docs/api-reference.md` list them; a test compares the two.

/// Bytes of a request body, unless the server is configured otherwise.
pub const BODY_BYTES: usize = 4 << 20;
/// JSON values in a request body.
pub const BODY_VALUES: usize = 400_000;
/// Weight of a JSON object in the count of [`BODY_VALUES`].
pub const VALUES_OF_AN_OBJECT: usize = 8;
/// Most tokens that `/tokenize` and `count_tokens` count; if the context is longer, its length is the limit.
pub const COUNTED_TOKENS: usize = 262_144;
/// Bytes of text that `/detokenize` returns.
pub const DETOKENIZED_BYTES: usize = 8 << 20;
/// Messages in a conversation.
pub const MESSAGES: usize = 4_096;
/// Text parts in one message.
pub const PARTS: usize = 1_024;
/// Tool calls in one assistant message.
pub const TOOL_CALLS: usize = 128;
/// Tools offered to the model.
pub const TOOLS: usize = 128;
/// Bytes in a name: a tool, a role, a model, a user.
pub const NAME_BYTES: usize = 256;
/// Prompts in one completion request.
pub const PROMPTS: usize = 64;
/// Answers (`n`) for one prompt.
pub const N: i64 = 16;
/// Answers in one request: prompts × `n`.
pub const CHOICES: usize = 64;
/// Stop strings.
pub const STOPS: usize = 16;
/// Bytes in a stop string.
pub const STOP_BYTES: usize = 1_024;
/// Stop token ids.
pub const STOP_IDS: usize = 64;
/// Token ids to choose from (`allowed_token_ids`).
pub const ALLOWED_IDS: usize = 16_384;
/// Bad words.
pub const BAD_WORDS: usize = 64;
/// Bytes in a bad word.
pub const BAD_WORD_BYTES: usize = 128;
/// Entries of `samplers`.
pub const SAMPLERS: usize = 32;
/// Alternatives reported for each token (`top_logprobs`, `prompt_logprobs`, or `logprobs` of a completion).
pub const LOGPROBS: i64 = 20;
/// Log-probabilities of prompts in one answer: tokens of the prompts × (1 + alternatives) × answers that show them.
pub const PROMPT_LOGPROBS: usize = 262_144;
/// Entries of `logit_bias`.
pub const LOGIT_BIAS: usize = 1_024;
/// Sequence breakers of the DRY sampler.
pub const DRY_BREAKERS: usize = 64;
/// Bytes in a sequence breaker.
pub const DRY_BREAKER_BYTES: usize = 64;
/// The largest count of tokens a request may name (`max_tokens`, `repeat_last_n` and the like).
pub const TOKENS: i64 = 16 << 20;
/// Entries of `metadata`.
pub const METADATA: usize = 16;
/// Greatest `timeout` of a request, in seconds.
pub const TIMEOUT_S: f32 = 86_400.0;
/// Entries of `chat_template_kwargs`.
pub const TEMPLATE_ARGUMENTS: usize = 64;
/// Bytes of a JSON schema for structured output, as JSON.
pub const SCHEMA_BYTES: usize = 64 << 10;
/// Bytes of a grammar for structured output.
pub const GRAMMAR_BYTES: usize = 64 << 10;
/// Bytes of a regular expression for structured output.
pub const REGEX_BYTES: usize = 8 << 10;
/// Texts to choose from (`choice`).
pub const GUIDED_CHOICES: usize = 1_024;
/// Bytes in a text to choose from.
pub const GUIDED_CHOICE_BYTES: usize = 1_024;
/// Inputs of one request of an encoder; pairs to score too.
pub const INPUTS: usize = 2_048;
/// Token ids in one input.
pub const INPUT_TOKENS: usize = 262_144;
/// Token ids of an answer that another node began (`resume.token_ids`).
pub const RESUMED_TOKENS: usize = 262_144;
/// Documents of one rerank request.
pub const DOCUMENTS: usize = 10_000;
/// Bytes of a text that is paired with others, times their number.
pub const PAIR_BYTES: usize = 16 << 20;
/// The largest count of numbers a vector may be cut to (`dimensions`).
pub const DIMENSIONS: i64 = 65_536;
/// Numbers of all vectors in one answer.
pub const VECTOR_NUMBERS: usize = 4 << 20;
/// Labels of token classification that are left out (`ignore_labels`).
pub const IGNORED_LABELS: usize = 256;
/// Most tokens, sentences or headings' texts in a chunk (`size`), in tokens.
pub const CHUNK_TOKENS: i64 = 65_536;
/// Tensors in a request of the Open Inference Protocol, and in its answer.
pub const TENSORS: usize = 64;
/// Dimensions of a tensor.
pub const TENSOR_RANK: usize = 16;
/// Elements of a tensor.
pub const TENSOR_ELEMENTS: usize = 64 << 20;
/// Strings in a tensor of BYTES.
pub const TENSOR_STRINGS: usize = 262_144;
/// Bytes of an output tensor.
pub const TENSOR_BYTES: usize = 64 << 20;
/// Parameters of a request or a tensor.
pub const TENSOR_PARAMETERS: usize = 64;
