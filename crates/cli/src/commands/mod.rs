//! One file a subcommand. Each has `Args` (its flags, the source of its help) and `run`.

pub(crate) mod audit;
pub(crate) mod batch;
pub(crate) mod bench;
pub(crate) mod classify;
pub(crate) mod doctor;
pub(crate) mod embed;
pub(crate) mod farm;
pub(crate) mod gateway;
pub(crate) mod inspect;
pub(crate) mod jobs;
pub(crate) mod list;
pub(crate) mod perplexity;
pub(crate) mod plan;
pub(crate) mod pull;
pub(crate) mod rerank;
pub(crate) mod rm;
pub(crate) mod run;
pub(crate) mod serve;
pub(crate) mod tokenize;
pub(crate) mod webhook;
