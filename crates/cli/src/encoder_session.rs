//! An encoder in this process, asked as a server's clients ask it: the same tokens, prompts, limits and arithmetic, so that
//! a command's numbers are bit for bit the server's.

use std::sync::Arc;
use std::time::Duration;

use engine::Device;
use engine::encoder::EncoderSetup;
use inference::{EncoderFacts, Inference, Length, Operation, Output, Request, RequestContext, Truncation};
use model::PackedCache;
use service::{EncoderHeads, LoadedModel, PREPARATIONS, Service};
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;
use wire::Fault;

use crate::encoders::{self, EncoderOptions};
use crate::found::Found;
use crate::loading::Bar;
use crate::term::err;
use crate::{Failure, flags};

/// Questions that are in work at once: the next is read and tokenized while the last is computed.
pub(crate) const IN_WORK: usize = 4;
/// How long the encoder may take to end after the last answer.
const LAST_STEP: Duration = Duration::from_secs(5);

/// Flags of every command that asks an encoder.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct EncoderFlags {
    /// Most tokens of a text, special tokens included [default: what the model's files say].
    #[arg(long, short = 'c', value_name = "N", help_heading = "Machine")]
    pub(crate) context: Option<usize>,

    #[command(flatten)]
    pub(crate) encoders: flags::Encoders,

    #[command(flatten)]
    pub(crate) compute: flags::Compute,
}

/// What `--truncate` takes.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// An error.
    Refuse,
    /// Tokens are cut from the end.
    End,
    /// Tokens are cut from the start.
    Start,
}

impl Cut {
    pub(crate) fn length(self) -> Length {
        let truncation = match self {
            Cut::Refuse => Truncation::Refuse,
            Cut::End => Truncation::End,
            Cut::Start => Truncation::Start,
        };
        Length { tokens: None, truncation }
    }
}

/// A loaded encoder.
pub(crate) struct EncoderSession {
    runtime: Runtime,
    service: Arc<Service>,
    /// What the model was asked for by.
    pub(crate) name: String,
    pub(crate) heads: Arc<EncoderHeads>,
    pub(crate) facts: Arc<EncoderFacts>,
}

/// A question that is in work. Dropped, it is not answered.
pub(crate) struct Asked(JoinHandle<Result<Output, Fault>>);

impl Drop for Asked {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl EncoderSession {
    /// Finds, loads and starts an encoder.
    ///
    /// # Errors
    /// No such model, one that does none of `operations`, or no memory for it.
    pub(crate) fn open(
        model: &str,
        flags: &EncoderFlags,
        operations: &[&'static str],
    ) -> Result<EncoderSession, Failure> {
        flags.compute.tier()?;
        let found = Found::find(model)?;
        if !found.encodes() {
            return Err(Failure::new(format!(
                "{model} generates text ({}): it makes no vectors, scores or classes of texts; `gristmill list` shows \
                 models that do",
                found.spec.family
            )));
        }
        let format = flags.encoders.encoder_format;
        let (compute, context, packed) = (&flags.compute, flags.context, PackedCache::Off);
        let options = EncoderOptions { compute, format, context, shared: false, packed };
        let planned = encoders::plan(found, &options)?;
        let able = planned.heads.operations();
        if !operations.iter().any(|operation| able.contains(operation)) {
            let (wanted, able) = (operations.join(" or "), able.join(", "));
            return Err(Failure::new(format!("{model} does not {wanted}; what it can do: {able}")));
        }
        let mut bar = Bar::new(model);
        let loaded = planned.load(&mut |share| bar.set(share));
        drop(bar);
        let (loaded, compute) = loaded?;
        loaded.remarks.iter().for_each(|remark| err!("{remark}"));
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .max_blocking_threads(PREPARATIONS)
            .thread_name("texts")
            .enable_all()
            .build()
            .map_err(|error| Failure::new(format!("cannot start threads for texts: {error}")))?;
        let service = Service::new(service::Options { any_dimensions: true, ..service::Options::default() });
        let watch = service.watch_encoder(model);
        let device = Device::of_one(compute);
        let setup = EncoderSetup::new(model, encoders::limits(loaded.facts.max_tokens)).watched(watch);
        let encoding = loaded.start(&device, setup)?;
        let (heads, facts) = (encoding.heads.clone(), encoding.facts.clone());
        service.ready(LoadedModel::encoder(vec![model.to_owned()], encoding), Duration::ZERO);
        Ok(EncoderSession { runtime, service: Arc::new(service), name: model.to_owned(), heads, facts })
    }

    /// Has an operation answered in the background.
    pub(crate) fn ask(&self, operation: Operation) -> Asked {
        let service = self.service.clone();
        let context = RequestContext::new(None, String::new(), "", None, None, None);
        let request = Request { operation, context, time_limit: None };
        Asked(self.runtime.spawn(async move { service.submit(request).await }))
    }

    /// Waits for an answer.
    ///
    /// # Errors
    /// Why there is none.
    pub(crate) fn wait(&self, asked: &mut Asked) -> Result<Output, Fault> {
        match self.runtime.block_on(&mut asked.0) {
            Ok(answer) => answer,
            Err(failed) => Err(Fault::internal(format!("the question was not answered: {failed}"))),
        }
    }
}

impl Drop for EncoderSession {
    fn drop(&mut self) {
        self.service.drain(LAST_STEP);
    }
}

/// The failure of an answer that is of another kind than its question.
pub(crate) fn unexpected(operation: &str) -> Failure {
    Failure::new(format!("the encoder answered {operation} with something else"))
}
