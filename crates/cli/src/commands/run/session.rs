//! The flags of `run`, and a model that answers as they say.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use engine::{Device, Engine, Handle, Params, Request, Setup};
use serde_json::{Map, Value, json};
use text::{ChatTemplate, Special, Tokenizer};

use crate::loading::{Loaded, Wish, plan};
use crate::sampling::Sampling;
use crate::term::err;
use crate::{Failure, flags};

/// Bytes of a chat template.
const MAX_TEMPLATE_BYTES: u64 = 4 << 20;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Catalog name, path, or source (hf:…, https://…, py:…).
    #[arg(value_name = "MODEL")]
    pub(super) model: String,

    /// What to answer; `-`, or none with something piped in, reads standard input; none on a terminal is a chat.
    #[arg(value_name = "PROMPT")]
    pub(super) prompt: Option<String>,

    /// Continue the text as it is: no chat template.
    #[arg(long, conflicts_with_all = ["system", "template"])]
    pub(super) raw: bool,

    /// Instructions before the conversation.
    #[arg(long, value_name = "TEXT")]
    pub(super) system: Option<String>,

    /// A chat template in place of the model's: a file, or one of the well-known names (chatml, llama3, …).
    #[arg(long, value_name = "NAME|FILE")]
    pub(super) template: Option<String>,

    /// Most tokens of the answer [default: as many as the context has room for].
    #[arg(long, short = 'n', value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) max_tokens: Option<u64>,

    /// The answer ends before this text; may be given again.
    #[arg(long, value_name = "TEXT")]
    pub(super) stop: Vec<String>,

    /// Never choose the model's end tokens.
    #[arg(long)]
    pub(super) ignore_end: bool,

    /// Report log-probabilities of each token and of the N likeliest (with --json).
    #[arg(long, value_name = "N", requires = "json")]
    pub(super) logprobs: Option<usize>,

    /// Print one object: text, tokens, prompt_tokens, finish_reason, timings.
    #[arg(long)]
    pub(super) json: bool,

    /// Say on standard error how long it took.
    #[arg(long)]
    pub(super) timings: bool,

    /// Tokens of prompt and answer together [default: the model's own, as far as memory allows].
    #[arg(long, short = 'c', value_name = "N", help_heading = "Machine")]
    pub(super) context: Option<usize>,

    #[command(flatten)]
    pub(super) compute: flags::Compute,

    #[command(flatten)]
    pub(super) prompts: flags::Prompts,

    #[command(flatten)]
    pub(super) kv: flags::Kv,

    #[command(flatten)]
    pub(super) packed: flags::Packed,

    #[command(flatten)]
    pub(super) speculate: flags::Speculate,

    #[command(flatten)]
    pub(super) sampling: Sampling,
}

/// A model ready to answer, and how it is to be asked.
pub(super) struct Session {
    pub(super) args: Args,
    pub(super) tokenizer: Arc<Tokenizer>,
    /// None: text is continued as it is.
    pub(super) template: Option<ChatTemplate>,
    pub(super) handle: Handle,
    pub(super) params: Params,
    pub(super) load: Duration,
}

impl Session {
    pub(super) fn open(args: Args) -> Result<Session, Failure> {
        let wish = Wish {
            model: &args.model,
            compute: &args.compute,
            precision: kernels::Precision::Fast,
            prompts: args.prompts,
            kv: args.kv,
            context: args.context,
            max_running: 1,
            speculate: &args.speculate,
            packed: args.packed.cache(),
            kv_room: None,
        };
        let planned = plan(&wish)?;
        let params = args.sampling.params(planned.vocab(), args.logprobs)?;
        let mut bar = crate::loading::Bar::new(&args.model);
        let loaded = planned.load(&mut |share| bar.set(share));
        drop(bar);
        let Loaded { model, tokenizer, draft, template, compute, limits, took, remarks, .. } = loaded?;
        remarks.iter().for_each(|remark| err!("{remark}"));
        let template = choose_template(&args, template)?;
        let setup = Setup::new(tokenizer.clone(), limits);
        let handle = Engine::start_on(&Device::of_one(compute), model, draft, setup)?;
        Ok(Session { args, tokenizer, template, handle, params, load: took })
    }

    /// The conversation as tokens, ready for the assistant's turn.
    pub(super) fn conversation(&self, messages: &[Value]) -> Result<Vec<u32>, Failure> {
        let Some(template) = &self.template else {
            let text = messages.last().and_then(|m| m["content"].as_str()).unwrap_or_default();
            return Ok(self.tokenizer.encode(text, Special::Parse, true)?);
        };
        let prompt = template.prompt(&self.tokenizer, messages, None, true, &Map::new())?;
        // Later turns would only say it again.
        if messages.len() <= 2 {
            prompt.warnings.iter().for_each(|warning| err!("{warning}"));
        }
        // The template has written the control tokens, the first one included.
        Ok(self.tokenizer.encode_prompt(&prompt)?)
    }

    pub(super) fn request(&self, prompt: Vec<u32>) -> Request {
        Request {
            prompt,
            max_tokens: self.args.max_tokens.map(|n| usize::try_from(n).unwrap_or(usize::MAX)),
            params: self.params.clone(),
            stop: self.args.stop.clone(),
            ignore_end: self.args.ignore_end,
            ..Request::default()
        }
    }

    pub(super) fn system(&self) -> Vec<Value> {
        self.args.system.iter().map(|text| json!({ "role": "system", "content": text })).collect()
    }
}

/// The template to use: the flag's, else the model's. A base model has none, and then text is continued.
fn choose_template(args: &Args, own: Option<ChatTemplate>) -> Result<Option<ChatTemplate>, Failure> {
    if args.raw {
        return Ok(None);
    }
    let Some(wanted) = &args.template else {
        if own.is_none() {
            if args.system.is_some() {
                return Err(Failure::usage(format!(
                    "{} has no chat template for --system to go into; give one with --template",
                    args.model
                )));
            }
            err!("{} has no chat template: continuing the text as it is (--template gives one)", args.model);
        }
        return Ok(own);
    };
    if let Some(template) = ChatTemplate::named(wanted) {
        return Ok(Some(template));
    }
    let path = Path::new(wanted);
    let file = crate::files::read("--template", path, MAX_TEMPLATE_BYTES).map_err(|failure| {
        let names: Vec<_> = ChatTemplate::names().collect();
        Failure::new(format!("{}; names known: {}", failure.message, names.join(", ")))
    })?;
    Ok(Some(ChatTemplate::compile(file.text("--template", path)?)?))
}
