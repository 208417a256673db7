//! Flags that several commands share, each spelled once.

#![allow(dead_code, reason = "shared flags: which commands read them changes with the commands")]

use clap::builder::BoolishValueParser;
use kernels::KvDtype;
use model::PackedCache;

use crate::Failure;

/// Which instructions and how many threads to compute with. `#[command(flatten)]` it into a command's `Args`.
#[derive(clap::Args, Clone, Debug, Default)]
pub(crate) struct Compute {
    /// Instruction tier: scalar, avx2, avx512, amx, amx-fp16 or neon [default: the best this machine has].
    #[arg(long, value_name = "TIER", env = "GRISTMILL_ISA", help_heading = "Machine")]
    pub(crate) isa: Option<cpu::Tier>,

    /// Compute threads [default: the CPUs this process may use, its quota rounded down].
    #[arg(long, short = 't', value_name = "N", env = "GRISTMILL_THREADS", help_heading = "Machine")]
    pub(crate) threads: Option<usize>,
}

/// How keys and values are kept. `#[command(flatten)]` it into a command's `Args`.
#[derive(clap::Args, Clone, Copy, Debug)]
pub(crate) struct Kv {
    /// How keys and values of past tokens are kept. `q8_0` (also `int8`) takes half the memory of sixteen bits and rounds
    /// more; `auto` is bf16 where the CPU multiplies it, else f16.
    #[arg(long, alias = "kv-cache-dtype", value_name = "TYPE", value_enum, default_value_t = KvChoice::Auto)]
    #[arg(env = "GRISTMILL_KV_DTYPE", help_heading = "Machine")]
    pub(crate) kv_dtype: KvChoice,
}

/// What `--kv-dtype` takes.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KvChoice {
    Auto,
    F32,
    F16,
    Bf16,
    #[value(name = "q8_0", alias = "int8")]
    Q8,
}

impl Kv {
    /// The type to keep keys and values in, on `tier`.
    pub(crate) fn dtype(self, tier: cpu::Tier) -> KvDtype {
        match self.kv_dtype {
            KvChoice::Auto => KvDtype::fastest(tier),
            KvChoice::F32 => KvDtype::F32,
            KvChoice::F16 => KvDtype::F16,
            KvChoice::Bf16 => KvDtype::Bf16,
            KvChoice::Q8 => KvDtype::Q8_0,
        }
    }
}

/// How prompts are computed. `#[command(flatten)]` it into a command's `Args`.
#[derive(clap::Args, Clone, Copy, Debug)]
pub(crate) struct Prompts {
    /// On a CPU with AMX (tier `amx`), multiply quantized weights by prompts in tiles: two to three times as fast. Answers that come
    /// back in a later prompt are read once more, while nobody asks for anything if there is time; with `--prompt-tiles=false` they
    /// are not. Text may differ between the two.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, action = clap::ArgAction::Set)]
    #[arg(default_value_t = true, default_missing_value = "true", value_parser = BoolishValueParser::new())]
    #[arg(env = "GRISTMILL_PROMPT_TILES", help_heading = "Machine")]
    pub(crate) prompt_tiles: bool,
}

impl Default for Prompts {
    fn default() -> Prompts {
        Prompts { prompt_tiles: true }
    }
}

/// Whether packed weights are kept between starts. `#[command(flatten)]` it into a command's `Args`.
#[derive(clap::Args, Clone, Copy, Debug)]
pub(crate) struct Packed {
    /// Keep the packed weights in a file beside the model, about as large as that, and start from it next time. `read` copies it
    /// into memory; `map` takes the file's pages as they are, which must not be cut short meanwhile [default: off; map in a
    /// server of several models].
    #[arg(long, value_name = "HOW", value_enum)]
    #[arg(env = "GRISTMILL_PACKED_CACHE", help_heading = "Machine")]
    pub(crate) packed_cache: Option<PackedChoice>,

    /// The most memory for packed weights, as 24G, for a model that is larger than the memory: what is beyond stays in the file
    /// of packed weights and is read from the disk for each token. `gristmill plan fit` says how slow that is.
    #[arg(long, value_name = "BYTES", value_parser = crate::commands::serve::bytes, conflicts_with = "packed_cache")]
    #[arg(env = "GRISTMILL_WEIGHTS_MEMORY", help_heading = "Machine")]
    pub(crate) weights_memory: Option<u64>,
}

/// What `--packed-cache` takes.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PackedChoice {
    Off,
    Map,
    Read,
}

impl Packed {
    /// Packed weights are not kept.
    pub(crate) const OFF: Packed = Packed { packed_cache: Some(PackedChoice::Off), weights_memory: None };

    /// How the loader is to do it for the only model of a process.
    pub(crate) fn cache(self) -> PackedCache {
        self.weights_memory.map_or_else(|| self.or(PackedChoice::Off), PackedCache::Partial)
    }

    /// How the loader is to do it for a model that comes and goes with its requests.
    pub(crate) fn cache_of_several(self) -> PackedCache {
        self.or(PackedChoice::Map)
    }

    fn or(self, usual: PackedChoice) -> PackedCache {
        match self.packed_cache.unwrap_or(usual) {
            PackedChoice::Off => PackedCache::Off,
            PackedChoice::Map => PackedCache::Map,
            PackedChoice::Read => PackedCache::Read,
        }
    }
}

/// How the weights of an encoder are computed. `#[command(flatten)]` it into a command's `Args`.
#[derive(clap::Args, Clone, Copy, Debug, Default)]
pub(crate) struct Encoders {
    /// How an encoder's float weights are kept and multiplied. `auto` is int8 if the vectors of 32 probe texts have a mean
    /// cosine of at least 0.998 with those in bf16, and none below 0.99; else bf16. Weights that the file has quantized stay as they are.
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = EncoderChoice::Auto)]
    #[arg(env = "GRISTMILL_ENCODER_FORMAT", help_heading = "Machine")]
    pub(crate) encoder_format: EncoderChoice,
}

/// What `--encoder-format` takes.
#[derive(clap::ValueEnum, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum EncoderChoice {
    #[default]
    Auto,
    Int8,
    Bf16,
    F32,
}

/// Whether and how tokens are guessed ahead of the model. `#[command(flatten)]` it into a command's `Args`.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Speculate {
    /// Guess tokens ahead and verify several in one pass, while that is measured to be faster; the text stays the same.
    /// `lookup` guesses what followed the last words earlier on, `draft` what --draft-model says, `auto` both; `mtp` the first
    /// and what a block of the model's own predicts, if its file has one.
    #[arg(long, value_name = "HOW", value_enum, default_value_t = How::Auto, help_heading = "Speculation")]
    pub(crate) speculate: How,

    /// A smaller model with the same vocabulary, to guess ahead: catalog name, path, or source.
    #[arg(long, alias = "model-draft", value_name = "MODEL", help_heading = "Speculation")]
    pub(crate) draft_model: Option<String>,

    /// Most tokens guessed ahead at once.
    #[arg(long, alias = "draft-max", value_name = "N", default_value_t = 8, help_heading = "Speculation")]
    #[arg(value_parser = clap::value_parser!(u8).range(1..=engine::Speculation::MAX_TOKENS as i64))]
    pub(crate) draft_tokens: u8,
}

/// What guesses ahead; `--speculate` says what each means. (Documented values would stretch the whole help.)
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    Auto,
    Lookup,
    Draft,
    Mtp,
    Off,
}

impl Speculate {
    /// Whether the model's own block is to predict further tokens.
    pub(crate) fn predicts(&self) -> bool {
        self.speculate == How::Mtp
    }

    /// What the engine is to do, and the draft model's name.
    ///
    /// # Errors
    /// A draft model where none is used, or none where one is needed.
    pub(crate) fn options(&self) -> Result<(engine::Speculation, Option<&str>), Failure> {
        let draft = self.draft_model.as_deref();
        match (self.speculate, draft) {
            (How::Draft, None) => Err(Failure::usage("--speculate draft needs a --draft-model")),
            (How::Lookup | How::Mtp | How::Off, Some(model)) => {
                Err(Failure::usage(format!("--draft-model {model} is of no use with this --speculate")))
            }
            (How::Off, None) => Ok((engine::Speculation::OFF, None)),
            (how, draft) => {
                let lookup = how != How::Draft;
                let tokens = self.draft_tokens.into();
                Ok((engine::Speculation { lookup, tokens, always: false }, draft))
            }
        }
    }
}

impl Compute {
    /// The tier to use: the flag (or `GRISTMILL_ISA`) if this machine has it, else the best there is.
    ///
    /// # Errors
    /// A tier that this machine lacks, with the list of those it has.
    pub(crate) fn tier(&self) -> Result<cpu::Tier, Failure> {
        let Some(asked) = self.isa else { return Ok(cpu::Tier::best()) };
        let available = cpu::Tier::available();
        if available.contains(&asked) {
            return Ok(asked);
        }
        let names: Vec<String> = available.iter().map(ToString::to_string).collect();
        Err(Failure::usage(format!("this machine lacks --isa {asked}; it has: {}", names.join(", "))))
    }

    /// The number of compute threads: the flag, else what the probe allows.
    ///
    /// # Errors
    /// Zero, or more than 1024.
    pub(crate) fn threads(&self, machine: &cpu::probe::Machine) -> Result<usize, Failure> {
        match self.threads {
            None => Ok(machine.threads),
            Some(n) if (1..=1024).contains(&n) => Ok(n),
            Some(n) => Err(Failure::usage(format!("--threads {n} is outside 1..=1024"))),
        }
    }
}
