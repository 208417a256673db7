//! From MODEL to something that runs, the same for every command that computes.
//!
//! resolve (pull if it is not there) → open → read the spec → plan memory, and refuse before anything is loaded →
//! load weights, tokenizer and template.

mod fingerprint;
pub(crate) mod partial;
mod states;
mod words;

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use cpu::Backing;
use cpu::probe::Machine;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use kernels::{Compute, KvDtype, Precision};
use model::{MemoryNeed, Model, PackedCache, PackedCacheReport, PackedPlace, Spec};
use text::{ChatTemplate, Tokenizer};

use crate::found::{self, Found, of};
use crate::packed_files::{self, PackedFiles};
use crate::store::size;
use crate::tuned::{Setting, Tuned};
use crate::{Failure, details, flags, term};
pub(crate) use words::tokenizer;
use words::{Words, lines, words};

/// Memory besides weights, KV and buffers: the program itself, the vocabulary, threads' stacks.
pub(crate) const OTHER_BYTES: u64 = 64 << 20;
/// A context shorter than this is not worth starting for, unless the model or the user says so.
const LEAST_CONTEXT: usize = 512;

/// What a command wants of a model.
pub(crate) struct Wish<'a> {
    /// Catalog name, path or source.
    pub(crate) model: &'a str,
    /// Tier and threads.
    pub(crate) compute: &'a flags::Compute,
    /// The fast path or the f32 one.
    pub(crate) precision: Precision,
    /// How prompts are computed.
    pub(crate) prompts: flags::Prompts,
    /// How keys and values are kept.
    pub(crate) kv: flags::Kv,
    /// Tokens of prompt and answer; none is the model's own, as far as memory allows.
    pub(crate) context: Option<usize>,
    /// Sequences computed at once: what the KV pool is sized for, as far as memory allows.
    pub(crate) max_running: usize,
    /// What guesses tokens ahead.
    pub(crate) speculate: &'a flags::Speculate,
    /// Whether packed weights and the packed tokenizer are kept between starts.
    pub(crate) packed: PackedCache,
    /// Bytes that the KV cache may take, where several models share the machine; none is half of what is left.
    pub(crate) kv_room: Option<u64>,
}

/// A model found and planned, not loaded yet.
pub(crate) struct Planned {
    pub(crate) path: PathBuf,
    pub(crate) machine: Machine,
    pub(crate) need: MemoryNeed,
    /// For [`engine::Engine::start`].
    pub(crate) limits: engine::Limits,
    draft: Option<Draft>,
    opened: weights::Opened,
    spec: Spec,
    kv_dtype: KvDtype,
    precision: Precision,
    tier: cpu::Tier,
    threads: usize,
    prompts: flags::Prompts,
    packed: Option<PackedFiles>,
    tuned: Option<Tuned>,
    /// What is to be said of weights that stay on the disk.
    on_disk: Option<String>,
}

/// A model in memory.
#[allow(dead_code, reason = "each command reads a part of it")]
pub(crate) struct Loaded {
    pub(crate) path: PathBuf,
    pub(crate) machine: Machine,
    pub(crate) need: MemoryNeed,
    pub(crate) limits: engine::Limits,
    pub(crate) model: Arc<Model>,
    pub(crate) tokenizer: Arc<Tokenizer>,
    /// The model that guesses ahead, if one was asked for.
    pub(crate) draft: Option<engine::DraftModel>,
    /// None for a base model: its file has no template.
    pub(crate) template: Option<ChatTemplate>,
    pub(crate) compute: Compute,
    /// What `gristmill tune` found, if it is in use.
    pub(crate) tuned: Option<Tuned>,
    /// Tokenizer, template and weights.
    pub(crate) took: Duration,
    pub(crate) times: LoadTimes,
    pub(crate) reading: Reading,
    /// What its file is.
    pub(crate) details: server::ModelDetails,
    /// What is to be said of files of packed weights, a line each.
    pub(crate) remarks: Vec<String>,
}

/// How long the parts of a load took. A decoder's tokenizer and weights are loaded side by side.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LoadTimes {
    /// The tokenizer, and a decoder's chat template.
    pub(crate) tokenizer: Duration,
    pub(crate) weights: Duration,
    /// An encoder's buffers.
    pub(crate) buffers: Duration,
    /// Whether weights and tokenizer had been packed before.
    pub(crate) is_packed: bool,
}

/// How the weights came into memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    /// Bytes of the tensors in the file.
    pub(crate) bytes: u64,
    pub(crate) took: Duration,
    /// They had been packed before.
    pub(crate) packed: bool,
}

impl Reading {
    /// Bytes of the file a nanosecond, which is GB a second.
    pub(crate) fn gb_per_s(&self) -> f64 {
        self.bytes as f64 / self.took.as_nanos().max(1) as f64
    }

    /// `2.5 GB of weights read in 1.0 s (2.5 GB/s), 99 % in huge pages (transparent)`; kept ones are not read but loaded.
    pub(crate) fn say(&self, backing: Backing) -> String {
        let Backing { kind, bytes, huge_bytes } = backing;
        let pages = match huge_bytes {
            Some(huge) => {
                format!("{:.0} % in huge pages ({})", 100.0 * huge as f64 / bytes.max(1) as f64, kind.name())
            }
            None => format!("in {} pages", kind.name()),
        };
        let (read, took, rate) = (size(self.bytes), self.took.as_secs_f64(), self.gb_per_s());
        if self.packed {
            return format!("{read} of weights loaded packed in {took:.2} s, {pages}");
        }
        format!("{read} of weights read in {took:.2} s ({rate:.1} GB/s), {pages}")
    }
}

/// Loads the weights of a spec, and says how that went, in lines what is to be said of a file of packed weights.
///
/// # Errors
/// As [`Model::load_cached`].
pub(crate) fn read(
    spec: Spec,
    opened: &weights::Opened,
    compute: &Compute,
    precision: Precision,
    cache: PackedPlace<'_>,
    progress: &mut dyn FnMut(f32),
) -> Result<(Model, Reading, Vec<String>), model::Error> {
    let began = Instant::now();
    let mut loaded = began;
    // What comes after is the writing of packed weights.
    let mut until_loaded = |share| {
        loaded = Instant::now();
        progress(share);
    };
    let (model, cached) = Model::load_cached(spec, opened, compute, precision, cache, &mut until_loaded)?;
    let (bytes, took) = (details::tensor_bytes(opened), loaded - began);
    let reading = Reading { bytes, took, packed: cached.used };
    Ok((model, reading, remarks(&cached, Some(loaded.elapsed()))))
}

/// What is to be said of a file of packed weights; `writing` is how long that took, if one was written.
pub(crate) fn remarks(cached: &PackedCacheReport, writing: Option<Duration>) -> Vec<String> {
    let trouble = cached.errors.iter().map(|error| format!("packed weights: {error}"));
    let written = cached.written.iter().map(|(path, bytes)| {
        let took = writing.map(|took| format!(" in {:.1} s", took.as_secs_f64())).unwrap_or_default();
        format!("packed weights: {} kept in {}{took}", size(*bytes), path.display())
    });
    lines(trouble.chain(written))
}

/// Finds the model, pulling it if need be, and works out whether it fits.
///
/// # Errors
/// No such model, a damaged or unsupported file, a flag out of range, or memory that does not suffice.
pub(crate) fn plan(wish: &Wish<'_>) -> Result<Planned, Failure> {
    // A flag that is wrong is told before the model is looked for.
    wish.compute.tier()?;
    plan_found(Found::find(wish.model)?, wish)
}

/// Works out whether a model that was found fits.
///
/// # Errors
/// An encoder, a flag out of range, or memory that does not suffice.
pub(crate) fn plan_found(found: Found, wish: &Wish<'_>) -> Result<Planned, Failure> {
    let machine = if wish.kv_room.is_some() { machine_of_several() } else { cpu::probe::detect() };
    let (tier, threads) = (wish.compute.tier()?, wish.compute.threads(&machine)?);
    let Found { path, opened, mut spec, .. } = found;
    found::check_generates(wish.model, &spec)?;
    if wish.speculate.predicts() {
        spec.keep_prediction().map_err(|error| of(wish.model, error))?;
    }
    let packed = match wish.packed {
        PackedCache::Off => None,
        cache => PackedFiles::new(&opened, cache, &packed_files::digest(&path, &opened)?),
    };
    let tuned = match wish.compute.threads {
        Some(_) => None,
        None => Tuned::find(&path, &Setting::of(&opened, &machine, tier)),
    };
    let threads = tuned.as_ref().map_or(threads, Tuned::most_threads);
    let placed = partial::Weights::of(&spec, &opened, tier, wish.precision, wish.packed)
        .map_err(|error| of(wish.model, error))?;
    let weight_bytes = placed.residence.memory;
    let kv_dtype = wish.kv.dtype(tier);
    let (speculation, draft) = wish.speculate.options()?;
    let mut limits = engine::Limits {
        max_running: wish.max_running,
        speculation,
        kv_dtype: Some(kv_dtype),
        ..engine::Limits::default()
    };
    if let Some(tuned) = &tuned {
        tuned.apply(&mut limits);
    }
    let mut draft = draft.map(|name| Draft::find(name, tier)).transpose()?;
    let needs = |spec: &Spec, draft: Option<&Draft>, tokens| {
        let need = spec.memory(weight_bytes, tokens, kv_dtype, limits.max_rows(), limits.max_logit_rows());
        let beside = draft.map(|draft| draft.need(tokens, kv_dtype, &limits));
        beside.map_or(need, |beside| MemoryNeed {
            weights: need.weights + beside.weights,
            kv: need.kv + beside.kv,
            scratch: need.scratch + beside.scratch,
        })
    };
    let own_per_token = spec.kv_bytes_per_token(kv_dtype) as u64;
    let fixed = needs(&spec, draft.as_ref(), 0).total() + OTHER_BYTES;
    let available = machine.memory_available_bytes.min(machine.memory_limit_bytes);
    let available = wish.kv_room.map_or(available, |bytes| fixed.saturating_add(bytes.saturating_mul(2)));
    let state_bytes = states::within(&spec, &limits, available.saturating_sub(fixed) / 2);
    let room = Room {
        available,
        fixed: fixed + state_bytes,
        per_token: own_per_token + draft.as_ref().map_or(0, |d| d.spec.kv_bytes_per_token(kv_dtype) as u64),
    };
    let kv = room.kv(wish.context, spec.context, wish.max_running)?;
    let mut need = needs(&spec, draft.as_ref(), kv.tokens);
    need.kv += state_bytes;
    limits.state_bytes = state_bytes;
    limits.context = kv.context;
    limits.kv_bytes = kv.tokens as u64 * own_per_token;
    spec.limit_context(kv.context);
    if let Some(draft) = &mut draft {
        draft.spec.limit_context(kv.context.min(draft.spec.context));
    }
    let parts = format!(
        " (weights {}, keys and values {}, buffers {}, other {}; a smaller --context needs less{})",
        size(need.weights),
        size(need.kv),
        size(need.scratch),
        size(OTHER_BYTES),
        partial::way_out(need.total() + OTHER_BYTES, weight_bytes, available)
    );
    if wish.kv_room.is_none() {
        check_memory(&machine, need.total() + OTHER_BYTES, wish.model, &parts)?;
    }
    Ok(Planned {
        path,
        machine,
        need,
        limits,
        draft,
        opened,
        spec,
        kv_dtype,
        precision: wish.precision,
        tier,
        threads,
        prompts: wish.prompts,
        packed,
        tuned,
        on_disk: placed.remark(),
    })
}

/// Why the model cannot be run, as far as that can be known without reading its weights; none if it can.
pub(crate) fn hindrance(opened: &weights::Opened, tier: cpu::Tier) -> Option<String> {
    let look = || {
        let spec = Spec::read(opened)?;
        spec.weight_bytes(opened, tier, Precision::Fast)?;
        words(opened, spec.vocab, None).map(|_| ())
    };
    look().err().map(|failure: Failure| failure.message)
}

/// A draft model found, not loaded yet.
struct Draft {
    name: String,
    opened: weights::Opened,
    spec: Spec,
    weight_bytes: u64,
}

impl Draft {
    /// Only speed hangs on what a draft model says: it runs on the fast path.
    const PRECISION: Precision = Precision::Fast;

    fn find(name: &str, tier: cpu::Tier) -> Result<Draft, Failure> {
        let opened = weights::open(&crate::store::resolve(name)?)?;
        let spec = Spec::read(&opened).map_err(|error| of(name, error))?;
        let weight_bytes =
            spec.weight_bytes(&opened, tier, Draft::PRECISION).map_err(|error| of(name, error))?;
        Ok(Draft { name: name.to_owned(), opened, spec, weight_bytes })
    }

    /// What it takes beside a model with room for `tokens` tokens.
    fn need(&self, tokens: usize, kv_dtype: KvDtype, limits: &engine::Limits) -> MemoryNeed {
        let (rows, sequences) = (limits.max_rows(), limits.max_sequences());
        let need = self.spec.memory(self.weight_bytes, tokens, kv_dtype, rows, sequences);
        MemoryNeed { kv: need.kv + states::of_draft(&self.spec, limits), ..need }
    }

    fn load(
        self,
        compute: &Compute,
        cache: PackedCache,
        progress: &mut dyn FnMut(f32),
    ) -> Result<(engine::DraftModel, Vec<String>), Failure> {
        let tokenizer = Tokenizer::open(&self.opened)?;
        let place = cache.into();
        let (model, _, remarks) = read(self.spec, &self.opened, compute, Draft::PRECISION, place, progress)
            .map_err(|error| of(&self.name, error))?;
        Ok((engine::DraftModel { model: Arc::new(model), vocabulary: Arc::new(tokenizer) }, remarks))
    }
}

impl Planned {
    /// Tokens that the model tells apart.
    pub(crate) fn vocab(&self) -> usize {
        self.spec.vocab
    }

    /// Multiplications with weights for a token of a prompt.
    pub(crate) fn multiply_adds_per_token(&self) -> u64 {
        self.spec.multiply_adds(0, 1, 0)
    }

    /// Bytes of keys and values a token, the draft model's included.
    pub(crate) fn kv_bytes_per_token(&self) -> u64 {
        let of = |spec: &Spec| spec.kv_bytes_per_token(self.kv_dtype) as u64;
        of(&self.spec) + self.draft.as_ref().map_or(0, |draft| of(&draft.spec))
    }

    /// The least bytes of keys, values and recurrent states for one request of the whole context.
    pub(crate) fn context_bytes(&self) -> u64 {
        let keys_and_values = self.kv_bytes_per_token() * self.limits.context as u64;
        keys_and_values + self.spec.state_shape(1).bytes() + self.draft_state_bytes()
    }

    /// Gives keys, values and recurrent states so many bytes in all, which must be [`Planned::context_bytes`] or more.
    pub(crate) fn set_kv_bytes(&mut self, bytes: u64) {
        let own = self.spec.kv_bytes_per_token(self.kv_dtype) as u64;
        let bytes = bytes.saturating_sub(self.draft_state_bytes());
        let context = self.kv_bytes_per_token() * self.limits.context as u64;
        let states = states::within(&self.spec, &self.limits, bytes);
        // One context has its keys and values, whatever that leaves to states.
        self.limits.state_bytes = states.min(bytes.saturating_sub(context));
        let rest = bytes - self.limits.state_bytes;
        self.limits.kv_bytes = rest / self.kv_bytes_per_token().max(1) * own;
    }

    fn draft_state_bytes(&self) -> u64 {
        self.draft.as_ref().map_or(0, |draft| states::of_draft(&draft.spec, &self.limits))
    }

    /// Opens the vocabulary and the template too, of the draft model the vocabulary, and keeps neither: what else can be
    /// wrong with a model than its weights' numbers.
    ///
    /// # Errors
    /// A vocabulary or a template that cannot be used.
    pub(crate) fn check_words(&self) -> Result<(), Failure> {
        words(&self.opened, self.spec.vocab, None)?;
        match &self.draft {
            Some(draft) => Tokenizer::open(&draft.opened).map(|_| ()).map_err(Failure::from),
            None => Ok(()),
        }
    }

    /// Loads what was planned. `progress` gets the share that is done, 0 to 1.
    ///
    /// # Errors
    /// A damaged file, or no threads or memory after all.
    pub(crate) fn load(self, progress: &mut dyn FnMut(f32)) -> Result<Loaded, Failure> {
        let compute = compute(&self.machine, self.tier, self.threads, self.prompts)?;
        self.load_with(compute, progress)
    }

    /// As [`Planned::load`], with kernels that are there already.
    ///
    /// # Errors
    /// A damaged file, or no threads or memory after all.
    pub(crate) fn load_with(
        self,
        compute: Compute,
        progress: &mut dyn FnMut(f32),
    ) -> Result<Loaded, Failure> {
        let began = Instant::now();
        let details = crate::details::of(&self.opened, &self.spec);
        let all = self.need.weights.max(1) as f32;
        let own = 1.0 - self.draft.as_ref().map_or(0.0, |draft| draft.weight_bytes as f32 / all);
        let mut part = |share| progress(share * own);
        // A large vocabulary takes a third of a second, on one thread.
        let rows = self.spec.vocab;
        let packed = self.packed.as_ref();
        let words = || words(&self.opened, rows, packed);
        let place = packed.map(PackedFiles::place).unwrap_or_default();
        let weights = || read(self.spec, &self.opened, &compute, self.precision, place, &mut part);
        let (words, weights) = cpu::thread::beside("words", words, weights)
            .map_err(|error| Failure::new(format!("no thread to read the vocabulary: {error}")))?;
        let (words, (model, reading, mut remarks)) = (words?, weights?);
        let Words { tokenizer, template, took: tokenizer_took, is_packed, .. } = words;
        remarks.extend(words.remarks);
        remarks.extend(self.on_disk);
        let is_packed = is_packed && reading.packed;
        let times =
            LoadTimes { tokenizer: tokenizer_took, weights: reading.took, is_packed, ..LoadTimes::default() };
        let mut rest = |share| progress(own + share * (1.0 - own));
        let draft = self.draft.map(|draft| draft.load(&compute, place.cache, &mut rest)).transpose()?;
        let (draft, of_draft) = draft.unzip();
        remarks.extend(of_draft.into_iter().flatten());
        Ok(Loaded {
            path: self.path,
            machine: self.machine,
            need: self.need,
            limits: self.limits,
            model: Arc::new(model),
            tokenizer: Arc::new(tokenizer),
            draft,
            template,
            compute,
            tuned: self.tuned,
            took: began.elapsed(),
            times,
            reading,
            details,
            remarks,
        })
    }
}

/// The machine as it was found when the first of several models was planned: the memory that can be had now is counted by
/// their budget, and looking takes longer than a warm start.
pub(crate) fn machine_of_several() -> Machine {
    static FOUND: OnceLock<Machine> = OnceLock::new();
    FOUND.get_or_init(cpu::probe::detect).clone()
}

/// Kernels on `threads` threads, each on a core of its own if there are that many.
pub(crate) fn compute(
    machine: &Machine,
    tier: cpu::Tier,
    threads: usize,
    prompts: flags::Prompts,
) -> Result<Compute, Failure> {
    let cpus = machine.pin_cpus().filter(|cpus| cpus.len() >= threads);
    let pool = cpu::Pool::new(threads, cpus.as_deref())
        .map_err(|error| Failure::new(format!("cannot start {threads} compute threads: {error}")))?;
    Ok(Compute { prompt_tiles: prompts.prompt_tiles, ..Compute::new(tier, pool) })
}

/// A bar on a terminal while weights are loaded; nothing elsewhere.
pub(crate) struct Bar(ProgressBar);

impl Bar {
    pub(crate) fn new(model: &str) -> Bar {
        let bar = ProgressBar::with_draw_target(Some(1000), ProgressDrawTarget::stderr());
        if let Ok(style) = ProgressStyle::with_template("loading {msg} [{bar:24}] {percent}%") {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.set_message(term::clean(model));
        Bar(bar)
    }

    /// Shows that `share`, 0 to 1, is done.
    pub(crate) fn set(&mut self, share: f32) {
        self.0.set_position((share * 1000.0) as u64);
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

/// Refuses what takes more than can be had: `need` bytes for `model`, of which `parts` tells more.
///
/// # Errors
/// With the need, what can be had, and the limit.
pub(crate) fn check_memory(machine: &Machine, need: u64, model: &str, parts: &str) -> Result<(), Failure> {
    let available = machine.memory_available_bytes.min(machine.memory_limit_bytes);
    if need <= available {
        return Ok(());
    }
    let (need, available, limit) = (size(need), size(available), size(machine.memory_limit_bytes));
    let source = &machine.memory_limit_source;
    Err(Failure::new(format!(
        "{model} needs {need} of memory{parts} and {available} can be had; the limit is {limit}, by {source}"
    )))
}

/// Memory, before it is divided.
struct Room {
    /// What can be had now.
    available: u64,
    /// Weights, buffers and everything else but KV.
    fixed: u64,
    /// KV bytes a token.
    per_token: u64,
}

#[derive(Debug, PartialEq, Eq)]
struct Kv {
    /// Tokens one request may have.
    context: usize,
    /// Tokens the pool holds.
    tokens: usize,
}

impl Room {
    /// Shares out half of what is left: the rest stays for the file cache, other programs, and growth of the machine's
    /// own needs. An asked context is taken as it is and checked against all of what is left.
    fn kv(&self, asked: Option<usize>, trained: usize, max_running: usize) -> Result<Kv, Failure> {
        if let Some(asked) = asked
            && !(2..=trained).contains(&asked)
        {
            return Err(Failure::usage(format!(
                "--context {asked} is outside 2..={trained}, what the model can do"
            )));
        }
        let half = self.available.saturating_sub(self.fixed) / 2;
        let affordable = usize::try_from(half / self.per_token.max(1)).unwrap_or(usize::MAX);
        let context = asked.unwrap_or_else(|| trained.min(affordable.max(LEAST_CONTEXT)));
        let tokens = context.saturating_mul(max_running).min(affordable).max(context);
        Ok(Kv { context, tokens: tokens.next_multiple_of(kernels::BLOCK_TOKENS) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOM: Room = Room { available: 1_000_000, fixed: 200_000, per_token: 100 };

    #[test]
    fn the_context_is_the_models_if_it_can_be_had() {
        // Half of what is left pays for 4000 tokens.
        let kv = |asked, trained, running| ROOM.kv(asked, trained, running).unwrap();
        assert_eq!(kv(None, 2048, 1), Kv { context: 2048, tokens: 2048 });
        assert_eq!(kv(None, 2048, 8), Kv { context: 2048, tokens: 4000 });
        assert_eq!(kv(None, 32_768, 1), Kv { context: 4000, tokens: 4000 });
        assert_eq!(kv(Some(6000), 32_768, 8), Kv { context: 6000, tokens: 6016 });
        assert_eq!(kv(Some(100), 32_768, 8), Kv { context: 100, tokens: 800 });
    }

    #[test]
    fn a_context_beyond_the_model_names_both() {
        let failure = ROOM.kv(Some(4096), 2048, 1).unwrap_err();
        assert_eq!(failure.message, "--context 4096 is outside 2..=2048, what the model can do");
    }

    #[test]
    fn reading_tells_rate_and_pages() {
        let backing = |kind, huge_bytes| Backing { kind, bytes: 2_000, huge_bytes };
        let reading = |backing, packed| {
            let took = Duration::from_secs(2);
            Reading { bytes: 2_500_000_000, took, packed }.say(backing)
        };
        let say = |backing| reading(backing, false);
        let text = say(backing(cpu::PageKind::Transparent, Some(1_980)));
        assert_eq!(text, "2.5 GB of weights read in 2.00 s (1.2 GB/s), 99 % in huge pages (transparent)");
        assert!(say(backing(cpu::PageKind::Plain, None)).ends_with(", in plain pages"));
        let text = reading(backing(cpu::PageKind::File, Some(2_000)), true);
        assert_eq!(text, "2.5 GB of weights loaded packed in 2.00 s, 100 % in huge pages (mapped file)");
    }

    #[test]
    fn what_does_not_fit_is_refused_with_need_and_limit() {
        let machine = cpu::probe::detect();
        let failure = check_memory(&machine, 1 << 60, "m", " (all of it)").unwrap_err();
        assert!(failure.message.starts_with("m needs ") && failure.message.contains("(all of it) and "));
        assert!(failure.message.contains(&machine.memory_limit_source));
        assert!(check_memory(&machine, 1, "m", "").is_ok());
    }
}
