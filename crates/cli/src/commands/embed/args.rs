//! The flags of `gristmill embed`.

use std::path::PathBuf;

use inference::{EmbedKind, Length, Truncation};

use crate::encoder_session::EncoderFlags;
use crate::lines::InputFormat;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// An embedding model: catalog name, path, or source (hf:…, https://…, py:…).
    #[arg(value_name = "MODEL")]
    pub(super) model: String,

    /// Texts, a line each; `-` is standard input.
    #[arg(value_name = "FILE")]
    pub(super) file: Option<PathBuf>,

    /// What a line is: a text, or a JSON object with `text` and, if it likes, an `id`.
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = InputFormat::Lines)]
    pub(super) input: InputFormat,

    /// Where vectors go, `-` for standard output. A file gets its name when it is whole; until then it is FILE.part.
    #[arg(long, short, value_name = "FILE", default_value = "-")]
    pub(super) output: PathBuf,

    /// What is written: JSON objects with `id` and `embedding`, a line each; or a NumPy array of float32 [texts,
    /// dimensions].
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = Format::Jsonl)]
    pub(super) format: Format,

    /// Which vectors: one for a text; one for each token; or weights of the vocabulary's entries.
    #[arg(long, value_name = "KIND", value_enum, default_value_t = Kind::Dense)]
    pub(super) kind: Kind,

    /// Keep the first N numbers of each vector, scaled to length 1 again.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65536))]
    pub(super) dimensions: Option<u32>,

    /// The text that goes before each, by its name in the model's files, as query or document; `none` is no text
    /// [default: the one that the files name as the default, which most models lack].
    #[arg(long, value_name = "NAME")]
    pub(super) prompt: Option<String>,

    /// What becomes of a text that is longer than the model's limit: an error, its end or start is cut, or its parts'
    /// vectors are averaged.
    #[arg(long, value_name = "HOW", value_enum, default_value_t = Truncate::Refuse)]
    pub(super) truncate: Truncate,

    /// Whether vectors are scaled to length 1 [default: as the model's files say].
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, action = clap::ArgAction::Set)]
    #[arg(default_missing_value = "true", value_parser = clap::builder::BoolishValueParser::new())]
    pub(super) normalize: Option<bool>,

    /// Go on where an earlier run with the same flags, model and texts was ended: after the last whole line of FILE.part.
    #[arg(long)]
    pub(super) resume: bool,

    /// Instead of embedding texts, measure the model on a set: a file of pairs of sentences with scores (Spearman), or a
    /// folder in BEIR's form (nDCG@10).
    #[arg(long, value_name = "SET", conflicts_with_all = ["file", "input", "output", "format", "resume", "normalize"])]
    pub(super) check: Option<PathBuf>,

    /// Print one object: with --check what was measured, with --output FILE what was done.
    #[arg(long)]
    pub(super) json: bool,

    #[command(flatten)]
    pub(super) encoder: EncoderFlags,
}

/// What `--format` takes.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Jsonl,
    Npy,
}

/// What `--kind` takes.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Dense,
    Tokens,
    Sparse,
}

impl Kind {
    pub(super) fn kind(self) -> EmbedKind {
        match self {
            Kind::Dense => EmbedKind::Dense,
            Kind::Tokens => EmbedKind::Tokens,
            Kind::Sparse => EmbedKind::Sparse,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::Dense => "dense",
            Kind::Tokens => "tokens",
            Kind::Sparse => "sparse",
        }
    }
}

/// What `--truncate` takes.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Truncate {
    Refuse,
    End,
    Start,
    Chunk,
}

impl Truncate {
    pub(super) fn length(self) -> Length {
        let truncation = match self {
            Truncate::Refuse => Truncation::Refuse,
            Truncate::End => Truncation::End,
            Truncate::Start => Truncation::Start,
            Truncate::Chunk => Truncation::Chunk,
        };
        Length { tokens: None, truncation }
    }
}
