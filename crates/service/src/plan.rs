//! From an operation to what the engine is asked: template, tokens, sampling. Plain computing, done off the async threads.

use std::time::Duration;

use inference::{Client, Generate};
use serde_json::Value;
use sha2::{Digest, Sha256};
use text::AnswerParserOptions;
use wire::completion::Prompt;
use wire::message::ToolChoice;
use wire::{ChatRequest, CompletionRequest, Fault, Handling, Resume, Sampling, Truncate, limits};

use crate::model::Generating;
use crate::preparation::Work;
use crate::{prefill_last, shape};

/// What is to be computed.
pub(crate) struct Plan {
    /// One a prompt; empty once the engine has them.
    pub(crate) prompts: Vec<Vec<u32>>,
    /// Their texts, if they are told.
    pub(crate) texts: Vec<String>,
    /// Answers a prompt.
    pub(crate) n: usize,
    /// How many of these are sent.
    pub(crate) best: usize,
    /// Whether the prompt's log-probabilities are sent by themselves, with so many alternatives.
    pub(crate) prompt_logprobs: Option<usize>,
    /// Whether the prompts' token ids are told.
    pub(crate) returns_ids: bool,
    /// The request of every answer, without prompt and seed.
    pub(crate) template: engine::Request,
    /// How the text of each answer is read.
    pub(crate) reading: AnswerParserOptions,
    /// Whether answers are read as they come.
    pub(crate) streamed: bool,
    /// Whether another node began the answer.
    pub(crate) resumes: bool,
    /// Whether `usage` is to say what it cost.
    pub(crate) include_cost: bool,
    /// The field at fault when a prompt is too long.
    pub(crate) field: &'static str,
    /// What of the request is left out or approximated: see [`inference::RequestContext::warn`].
    pub(crate) warnings: Vec<String>,
}

impl Plan {
    /// Says who asks, and how long it may take if the operation did not.
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

/// What the engine is to compute for this.
///
/// # Errors
/// What cannot be rendered, tokenized or honoured.
pub(crate) fn plan(work: &Work, generate: Generate) -> Result<Plan, Fault> {
    let Generate { prompt, field, wants_text } = generate;
    let plan = match prompt {
        inference::Prompt::Chat(request) => conversation(work, *request)?,
        inference::Prompt::Text(request) => continuation(work, *request, wants_text)?,
    };
    Ok(Plan { field, ..plan })
}

/// A conversation to go on with.
fn conversation(work: &Work, request: ChatRequest) -> Result<Plan, Fault> {
    let text = rendered(work, &request)?;
    let mut prompt = tokens(work, &text, most_tokens(work, request.ids.truncate))?;
    let text::Prompt { text, warnings: told, .. } = text;
    truncate(work, &mut prompt, request.ids.truncate, request.max_tokens);
    let reading = shape::reading(work.text.as_ref(), &request, offered(&request), &text);
    let mut template =
        engine_request(work, &request.sampling, &request.handling, request.max_tokens, request.logprobs)?;
    template.shown = shape::shown(work.text.as_ref(), &reading);
    let mut warnings: Vec<String> = request.warnings.iter().cloned().chain(told).collect();
    template.constrain = shape::constrain(work.text.as_ref(), &request, &reading, &mut warnings)?;
    template.prompt_logprobs = request.prompt_logprobs;
    template.resume = resumed(work, request.resume.as_ref())?;
    let plan = Plan {
        prompts: vec![prompt],
        texts: Vec::new(),
        n: request.n,
        best: request.n,
        prompt_logprobs: request.prompt_logprobs,
        returns_ids: request.ids.returned,
        template,
        reading,
        streamed: request.stream.on,
        resumes: request.resume.is_some(),
        include_cost: request.handling.include_cost,
        field: "messages",
        warnings,
    };
    check_scores(&plan)?;
    Ok(plan)
}

/// The tools that the model gets to see.
fn offered(request: &ChatRequest) -> Option<&[Value]> {
    request.tools.as_deref().filter(|_| request.tool_choice != ToolChoice::None)
}

/// A conversation as the text that the model continues.
pub(crate) fn rendered(work: &Work, request: &ChatRequest) -> Result<text::Prompt, Fault> {
    let (language, generate) = (&work.text, request.add_generation_prompt);
    let asked = prefill_last::marked(&request.messages, request.continue_final_message);
    let prompt = language.render(&asked, offered(request), generate, &request.template_arguments);
    let mut prompt = prompt.map_err(Fault::template)?;
    if request.continue_final_message {
        prefill_last::cut(&mut prompt)?;
    }
    work.goes_on()?;
    Ok(prompt)
}

/// The tokens of a rendered conversation, at most `most`.
pub(crate) fn tokens(work: &Work, prompt: &text::Prompt, most: usize) -> Result<Vec<u32>, Fault> {
    // The template writes the tokens at the start itself, as in transformers' `apply_chat_template`.
    let tokens = work.encode_prompt(prompt, most)?;
    if tokens.is_empty() {
        return Err(Fault::template("the chat template made an empty prompt of these messages"));
    }
    Ok(tokens)
}

/// Most tokens of a prompt: the context, unless all but its end is dropped.
fn most_tokens(work: &Work, truncate: Option<Truncate>) -> usize {
    truncate.map_or_else(|| work.engine.context(), |_| work.most_counted())
}

/// Texts to continue.
fn continuation(work: &Work, request: CompletionRequest, wants_text: bool) -> Result<Plan, Fault> {
    let mut warnings = request.warnings.clone();
    let mut encode = |prompt: &Prompt| encoded(work, &request, prompt, &mut warnings);
    let spell = |prompt: &Prompt| match prompt {
        Prompt::Tokens(ids) => work.text.decode(ids),
        Prompt::Text(text) => text.clone(),
        Prompt::Infill(infill) => infill.prefix.clone(),
    };
    let max_tokens = request.max_tokens;
    let mut template =
        engine_request(work, &request.sampling, &request.handling, max_tokens, request.logprobs)?;
    if request.best_of > request.n {
        // They are ranked by it.
        template.params.logprobs.get_or_insert(0);
    }
    let mut prompts: Vec<Vec<u32>> = request.prompts.iter().map(&mut encode).collect::<Result<_, _>>()?;
    if let Some(guided) = &request.guided {
        let guided = shape::guide(work.text.as_ref(), guided, None, None)?;
        template.constrain = Some(guided.constrain);
        warnings.extend(guided.warnings);
    }
    let mut texts: Vec<String> = request.prompts.iter().filter(|_| wants_text).map(spell).collect();
    for (at, prompt) in prompts.iter_mut().enumerate() {
        let whole = prompt.len();
        truncate(work, prompt, request.ids.truncate, max_tokens);
        if let Some(text) = texts.get_mut(at).filter(|_| prompt.len() < whole) {
            *text = work.text.decode(prompt);
        }
    }
    template.resume = resumed(work, request.resume.as_ref())?;
    // The larger count holds the smaller one.
    template.prompt_logprobs = request.prompt_logprobs.max(request.logprobs.filter(|_| request.echo));
    let plan = Plan {
        prompts,
        texts,
        n: request.best_of,
        best: request.n,
        prompt_logprobs: request.prompt_logprobs,
        returns_ids: request.ids.returned,
        template,
        reading: AnswerParserOptions::default(),
        streamed: request.stream.on,
        resumes: request.resume.is_some(),
        include_cost: request.handling.include_cost,
        field: "prompt",
        warnings,
    };
    check_scores(&plan)?;
    Ok(plan)
}

/// The tokens of a text to continue, or to fill in.
fn encoded(
    work: &Work,
    request: &CompletionRequest,
    prompt: &Prompt,
    warnings: &mut Vec<String>,
) -> Result<Vec<u32>, Fault> {
    let most = most_tokens(work, request.ids.truncate);
    match prompt {
        Prompt::Tokens(ids) => Ok(ids.clone()),
        Prompt::Infill(infill) => work.encode_infill(infill, request.max_tokens, most, warnings),
        Prompt::Text(text) => match work.encode("prompt", text, request.add_special_tokens, most)? {
            ids if ids.is_empty() => {
                Err(Fault::field("prompt", "prompt has no tokens; it must have at least 1"))
            }
            ids => Ok(ids),
        },
    }
}

/// The tokens of an answer that another node began, which are charged as those of a prompt.
fn resumed(work: &Work, resume: Option<&Resume>) -> Result<Vec<u32>, Fault> {
    let Some(Resume { token_ids }) = resume else { return Ok(Vec::new()) };
    let most = work.engine.context();
    if token_ids.len() >= most {
        let message = format!(
            "resume.token_ids has {} tokens; this server's context is {most} tokens",
            token_ids.len()
        );
        return Err(Fault::field("resume.token_ids", message));
    }
    work.charge(token_ids.len());
    work.goes_on()?;
    Ok(token_ids.clone())
}

/// How tokens are chosen, with the server's defaults (the engine's, which are llama.cpp's) for what a request leaves out.
/// Words that must not come are left out: they take a tokenizer.
pub fn params(s: &Sampling, logprobs: Option<usize>) -> engine::Params {
    let d = engine::Params::default();
    engine::Params {
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
        bad_words: Vec::new(),
        logit_bias: s.logit_bias.clone(),
        seed: s.seed,
        logprobs,
        scored_ids: Vec::new(),
    }
}

/// The request of every answer, without its prompt.
fn engine_request(
    model: &Generating,
    s: &Sampling,
    handling: &Handling,
    max_tokens: Option<usize>,
    logprobs: Option<usize>,
) -> Result<engine::Request, Fault> {
    let params = engine::Params { bad_words: bad_words(model, &s.bad_words)?, ..params(s, logprobs) };
    Ok(engine::Request {
        prompt: Vec::new(),
        resume: Vec::new(),
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
fn bad_words(model: &Generating, words: &[String]) -> Result<Vec<Vec<u32>>, Fault> {
    let mut spelt: Vec<Vec<u32>> = Vec::new();
    for (i, word) in words.iter().enumerate() {
        for before in ["", " "] {
            let ids = model.text.encode(&format!("{before}{}", word.trim_start()), false);
            let ids = ids.map_err(|e| Fault::field(format!("bad_words[{i}]"), e))?;
            if !ids.is_empty() && !spelt.contains(&ids) {
                spelt.push(ids);
            }
        }
    }
    Ok(spelt)
}

/// Keeps the end of a prompt.
fn truncate(model: &Generating, prompt: &mut Vec<u32>, to: Option<Truncate>, max_tokens: Option<usize>) {
    let most = match to {
        None => return,
        Some(Truncate::Last(most)) => most,
        Some(Truncate::Context) => {
            model.engine.context().saturating_sub(max_tokens.unwrap_or(1).max(1)).max(1)
        }
    };
    prompt.drain(..prompt.len().saturating_sub(most));
}

/// Seconds of a request as a time that is said the way it was asked for.
pub fn whole_ms(seconds: f32) -> Duration {
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
    Sha256::digest(text.as_bytes()).iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// Refuses what would make an answer without a bound: each entry is some sixty bytes of JSON.
fn check_scores(plan: &Plan) -> Result<(), Fault> {
    let Some(count) = plan.template.prompt_logprobs else { return Ok(()) };
    let tokens: usize = plan.prompts.iter().map(Vec::len).sum();
    let entries = tokens.saturating_mul(plan.best).saturating_mul(1 + count);
    if entries <= limits::PROMPT_LOGPROBS {
        return Ok(());
    }
    let name = if plan.prompt_logprobs.is_some() { "prompt_logprobs" } else { "logprobs" };
    let message = format!(
        "{name} is {count} and the prompts have {tokens} tokens, for {} answers each: {entries} log-probabilities \
         of prompts; at most {} are allowed",
        plan.best,
        limits::PROMPT_LOGPROBS
    );
    Err(Fault::field(name, message))
}
