//! From a body to what the engine is asked: parsing, template, tokens. Plain computing, done off the async threads.

use std::time::Duration;

use serde_json::Value;
use sha2::{Digest, Sha256};
use text::Reading;
use wire::completion::Prompt;
use wire::message::ToolChoice;
use wire::{ChatRequest, CompletionRequest, Fault, Handling, Sampling, Truncate};

use crate::auth::{Client, first_number};
use crate::preparation::Work;
use crate::{Served, continued, prompts, responses, shape};

/// What is to be computed, and how the answer is to look.
pub(crate) struct Plan {
    /// One a prompt; once the engine has them, only if their ids or log-probabilities are sent.
    pub(crate) prompts: Vec<Vec<u32>>,
    /// Answers a prompt.
    pub(crate) n: usize,
    /// How many of these are sent: the likeliest, if not all.
    pub(crate) best: usize,
    /// Whether log-probabilities are sent.
    pub(crate) scored: bool,
    /// Whether those of the echoed prompt are among them.
    pub(crate) echo_scored: bool,
    /// Whether the prompt's are sent by themselves, with so many alternatives.
    pub(crate) prompt_logprobs: Option<usize>,
    pub(crate) ids: wire::Ids,
    /// The request of every answer, without prompt and seed.
    pub(crate) template: engine::Request,
    pub(crate) form: Form,
    /// How the text of each answer is read.
    pub(crate) reading: Reading,
    pub(crate) stream: wire::chat::Stream,
    /// Whether `usage` is to say what it cost.
    pub(crate) include_cost: bool,
    /// The field at fault when a prompt is too long.
    pub(crate) prompt_field: &'static str,
    /// What of the request is left out or approximated: sent as headers (see [`crate::visit::Visit::warn`]).
    pub(crate) warnings: Vec<String>,
}

/// How the answer looks.
pub(crate) enum Form {
    Chat,
    /// Anthropic's.
    Message,
    /// OpenAI's newer one.
    Response(Box<responses::Asked>),
    /// With the text that each prompt's answers begin with, if it is wanted.
    Completion(Option<Vec<String>>),
    /// text-generation-inference's.
    Tgi(Box<crate::tgi::Asked>),
    /// `/generate` with `prompt`.
    Short(Option<Vec<String>>),
    /// llama.cpp's own.
    Llama(Box<crate::llamacpp::Asked>),
}

impl Plan {
    /// Says who asks, and how long it may take if the body did not.
    pub(crate) fn ask_for(&mut self, Client(client): Client, time_limit: Option<Duration>) {
        self.template.caller.client = client;
        // What one key's requests have in common with another's stays out of sight, and of the time they take.
        self.template.cache_salt ^= client;
        self.template.time_limit = self.template.time_limit.or(time_limit);
    }

    pub(crate) fn choices(&self) -> usize {
        self.prompts.len() * self.n
    }
}

pub(crate) fn chat(served: &Work, body: &[u8]) -> Result<Plan, Fault> {
    conversation(served, ChatRequest::parse(body)?, Form::Chat)
}

pub(crate) fn messages(served: &Work, body: &[u8]) -> Result<Plan, Fault> {
    let value = wire::json::read(body)?;
    wire::numbers::refuse_in_schemas(body)?;
    let request = wire::anthropic::read(&value, false)?;
    conversation(served, request, Form::Message)
}

/// A chat request, whatever endpoint it came through.
pub(crate) fn conversation(served: &Work, request: ChatRequest, form: Form) -> Result<Plan, Fault> {
    check_model(served, request.model.as_deref())?;
    let text = rendered(served, &request)?;
    let mut prompt = tokens(served, &text, most_tokens(served, request.ids.truncate))?;
    let text::Prompt { text, warnings: told, .. } = text;
    truncate(served, &mut prompt, request.ids.truncate, request.max_tokens);
    let reading = shape::reading(served.language.as_ref(), &request, offered(&request), &text);
    let mut template =
        engine_request(served, &request.sampling, &request.handling, request.max_tokens, request.logprobs)?;
    template.shown = shape::shown(served.language.as_ref(), &reading);
    let mut warnings: Vec<String> = request.warnings.iter().cloned().chain(told).collect();
    template.constrain = shape::constrain(served.language.as_ref(), &request, &reading, &mut warnings)?;
    template.prompt_logprobs = request.prompt_logprobs;
    let plan = Plan {
        prompts: vec![prompt],
        n: request.n,
        best: request.n,
        scored: request.logprobs.is_some(),
        echo_scored: false,
        prompt_logprobs: request.prompt_logprobs,
        ids: request.ids,
        template,
        form,
        reading,
        stream: request.stream,
        include_cost: request.handling.include_cost,
        prompt_field: "messages",
        warnings,
    };
    prompts::check(&plan)?;
    Ok(plan)
}

/// The tools that the model gets to see.
fn offered(request: &ChatRequest) -> Option<&[Value]> {
    request.tools.as_deref().filter(|_| request.tool_choice != ToolChoice::None)
}

/// A conversation as the text that the model continues.
pub(crate) fn rendered(served: &Work, request: &ChatRequest) -> Result<text::Prompt, Fault> {
    let (language, generate) = (&served.language, request.add_generation_prompt);
    let asked = continued::marked(&request.messages, request.continue_final_message);
    let prompt = language.render(&asked, offered(request), generate, &request.template_arguments);
    let mut prompt = prompt.map_err(Fault::template)?;
    if request.continue_final_message {
        continued::cut(&mut prompt)?;
    }
    served.goes_on()?;
    Ok(prompt)
}

/// The tokens of a rendered conversation, at most `most`.
pub(crate) fn tokens(served: &Work, prompt: &text::Prompt, most: usize) -> Result<Vec<u32>, Fault> {
    // The template writes the tokens at the start itself, as in transformers' `apply_chat_template`.
    let tokens = served.encode_prompt(prompt, most)?;
    if tokens.is_empty() {
        return Err(Fault::template("the chat template made an empty prompt of these messages"));
    }
    Ok(tokens)
}

/// Most tokens of a prompt: the context, unless all but its end is dropped.
fn most_tokens(served: &Work, truncate: Option<Truncate>) -> usize {
    truncate.map_or_else(|| served.engine.context(), |_| served.most_counted())
}

pub(crate) fn completion(served: &Work, body: &[u8]) -> Result<Plan, Fault> {
    continuation(served, CompletionRequest::parse(body)?)
}

/// A text to continue, whatever endpoint it came through.
pub(crate) fn continuation(served: &Work, request: CompletionRequest) -> Result<Plan, Fault> {
    check_model(served, request.model.as_deref())?;
    let encode = |prompt: &Prompt| match prompt {
        Prompt::Tokens(ids) => Ok(ids.clone()),
        Prompt::Text(text) => {
            let most = most_tokens(served, request.ids.truncate);
            match served.encode("prompt", text, request.add_special_tokens, most)? {
                ids if ids.is_empty() => {
                    Err(Fault::field("prompt", "prompt has no tokens; it must have at least 1"))
                }
                ids => Ok(ids),
            }
        }
    };
    let spell = |prompt: &Prompt| match prompt {
        Prompt::Tokens(ids) => served.language.decode(ids),
        Prompt::Text(text) => text.clone(),
    };
    let max_tokens = request.max_tokens;
    let mut template =
        engine_request(served, &request.sampling, &request.handling, max_tokens, request.logprobs)?;
    if request.best_of > request.n {
        // They are ranked by it.
        template.params.logprobs.get_or_insert(0);
    }
    let mut warnings = request.warnings.clone();
    if let Some(guided) = &request.guided {
        let guided = shape::guide(served.language.as_ref(), guided, None, None)?;
        template.constrain = Some(guided.constrain);
        warnings = guided.warnings;
    }
    let mut prompts: Vec<Vec<u32>> = request.prompts.iter().map(encode).collect::<Result<_, _>>()?;
    let mut echoes: Option<Vec<String>> = request.echo.then(|| request.prompts.iter().map(spell).collect());
    for (at, prompt) in prompts.iter_mut().enumerate() {
        let whole = prompt.len();
        truncate(served, prompt, request.ids.truncate, max_tokens);
        if let Some(echoes) = echoes.as_mut().filter(|_| prompt.len() < whole) {
            echoes[at] = served.language.decode(prompt);
        }
    }
    let echo_scored = request.echo && request.logprobs.is_some();
    // The larger count holds the smaller one.
    template.prompt_logprobs = request.prompt_logprobs.max(request.logprobs.filter(|_| request.echo));
    let plan = Plan {
        prompts,
        n: request.best_of,
        best: request.n,
        scored: request.logprobs.is_some(),
        echo_scored,
        prompt_logprobs: request.prompt_logprobs,
        ids: request.ids,
        template,
        form: Form::Completion(echoes),
        reading: Reading::default(),
        stream: request.stream,
        include_cost: request.handling.include_cost,
        prompt_field: "prompt",
        warnings,
    };
    prompts::check(&plan)?;
    Ok(plan)
}

pub(crate) fn check_model(served: &Served, asked: Option<&str>) -> Result<(), Fault> {
    match asked {
        Some(name) if !served.is_called(name) => Err(Fault::no_model(name, &served.names)),
        _ => Ok(()),
    }
}

/// Server defaults are the engine's, which are llama.cpp's.
fn engine_request(
    served: &Served,
    s: &Sampling,
    handling: &Handling,
    max_tokens: Option<usize>,
    logprobs: Option<usize>,
) -> Result<engine::Request, Fault> {
    let d = engine::Params::default();
    let params = engine::Params {
        temperature: s.temperature.unwrap_or(d.temperature),
        top_k: s.top_k.unwrap_or(d.top_k),
        top_p: s.top_p.unwrap_or(d.top_p),
        min_p: s.min_p.unwrap_or(d.min_p),
        typical_p: s.typical_p.unwrap_or(d.typical_p),
        repeat_penalty: s.repetition_penalty.unwrap_or(d.repeat_penalty),
        repeat_last_n: s.repeat_last_n.unwrap_or(d.repeat_last_n),
        frequency_penalty: s.frequency_penalty.unwrap_or(d.frequency_penalty),
        presence_penalty: s.presence_penalty.unwrap_or(d.presence_penalty),
        dry: engine::Dry {
            multiplier: s.dry_multiplier.unwrap_or(d.dry.multiplier),
            base: s.dry_base.unwrap_or(d.dry.base),
            allowed_length: s.dry_allowed_length.unwrap_or(d.dry.allowed_length),
            last_n: s.dry_penalty_last_n.unwrap_or(d.dry.last_n),
            sequence_breakers: s.dry_sequence_breakers.clone().unwrap_or(d.dry.sequence_breakers),
        },
        xtc: engine::Xtc {
            probability: s.xtc_probability.unwrap_or(d.xtc.probability),
            threshold: s.xtc_threshold.unwrap_or(d.xtc.threshold),
        },
        top_n_sigma: s.top_n_sigma.unwrap_or(d.top_n_sigma),
        dynatemp: engine::Dynatemp {
            range: s.dynatemp_range.unwrap_or(d.dynatemp.range),
            exponent: s.dynatemp_exponent.unwrap_or(d.dynatemp.exponent),
        },
        mirostat: mirostat(s),
        allowed_ids: s.allowed_token_ids.clone(),
        bad_words: bad_words(served, &s.bad_words)?,
        logit_bias: s.logit_bias.clone(),
        seed: s.seed,
        logprobs,
    };
    Ok(engine::Request {
        prompt: Vec::new(),
        max_tokens,
        params,
        prompt_logprobs: None,
        stop: s.stop.clone(),
        stop_ids: s.stop_token_ids.clone(),
        min_tokens: s.min_tokens,
        show_stop: s.include_stop,
        ignore_end: s.ignore_eos,
        shown: Vec::new(),
        constrain: None,
        max_wait: None,
        time_limit: handling.timeout_s.map(whole_ms),
        // Who it is, is not in the body.
        caller: engine::Caller { priority: priority(handling), client: 0 },
        cache_salt: handling.cache_salt.as_deref().map_or(0, salt),
    })
}

/// llama.cpp's defaults where only the version is given.
fn mirostat(s: &Sampling) -> Option<engine::Mirostat> {
    let version = match s.mirostat {
        Some(1) => engine::MirostatVersion::One,
        Some(2) => engine::MirostatVersion::Two,
        _ => return None,
    };
    Some(engine::Mirostat { version, tau: s.mirostat_tau.unwrap_or(5.0), eta: s.mirostat_eta.unwrap_or(0.1) })
}

/// Each word as tokens, as it begins a text and as it follows a space: vLLM's two spellings.
fn bad_words(served: &Served, words: &[String]) -> Result<Vec<Vec<u32>>, Fault> {
    let mut spelt: Vec<Vec<u32>> = Vec::new();
    for (i, word) in words.iter().enumerate() {
        for before in ["", " "] {
            let ids = served.language.encode(&format!("{before}{}", word.trim_start()), false);
            let ids = ids.map_err(|e| Fault::field(format!("bad_words[{i}]"), e))?;
            if !ids.is_empty() && !spelt.contains(&ids) {
                spelt.push(ids);
            }
        }
    }
    Ok(spelt)
}

/// Keeps the end of a prompt.
fn truncate(served: &Served, prompt: &mut Vec<u32>, to: Option<Truncate>, max_tokens: Option<usize>) {
    let most = match to {
        None => return,
        Some(Truncate::Last(most)) => most,
        Some(Truncate::Context) => {
            served.engine.context().saturating_sub(max_tokens.unwrap_or(1).max(1)).max(1)
        }
    };
    prompt.drain(..prompt.len().saturating_sub(most));
}

/// Seconds of a request as a time that is said the way it was asked for.
pub(crate) fn whole_ms(seconds: f32) -> Duration {
    Duration::from_micros((f64::from(seconds) * 1e3).round() as u64 * 1_000)
}

fn priority(handling: &Handling) -> engine::Priority {
    match handling.priority {
        Some(wire::Priority::Interactive) => engine::Priority::Interactive,
        Some(wire::Priority::Batch) => engine::Priority::Batch,
        Some(wire::Priority::Default) | None => engine::Priority::Default,
    }
}

/// A salt as a number that is hard to hit from another salt: half a collision-resistant hash.
fn salt(text: &str) -> u64 {
    first_number(&Sha256::digest(text.as_bytes()))
}
