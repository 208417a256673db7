//! What turns texts into tokens: a model's tokenizer, packed if it is kept so, and its chat template.

use std::time::{Duration, Instant};

use text::{ChatTemplate, Tokenizer};

use crate::Failure;
use crate::packed_files::PackedFiles;
use crate::store::size;

/// A path may have any characters; a remark is one line.
pub(super) fn lines(remarks: impl Iterator<Item = String>) -> Vec<String> {
    remarks.map(|line| line.replace(['\n', '\r'], " ")).collect()
}

/// The tokenizer of a model, packed if it is kept so; what is to be said of it, and whether it had been packed before.
///
/// # Errors
/// A vocabulary that cannot be used.
pub(crate) fn tokenizer(
    opened: &weights::Opened,
    packed: Option<&PackedFiles>,
) -> Result<(Tokenizer, Vec<String>, bool), Failure> {
    let Some(cache) = packed.and_then(|packed| packed.tokenizer(opened)) else {
        let tokenizer = Tokenizer::open(opened)?;
        let remarks = tokenizer.remarks().to_vec();
        return Ok((tokenizer, remarks, false));
    };
    let (tokenizer, cached) = Tokenizer::open_cached(opened, &cache)?;
    let trouble = cached.errors.iter().map(|error| format!("packed tokenizer: {error}"));
    let written = cached
        .written
        .iter()
        .map(|(path, bytes)| format!("packed tokenizer: {} kept in {}", size(*bytes), path.display()));
    let mut remarks = tokenizer.remarks().to_vec();
    remarks.extend(lines(trouble.chain(written)));
    Ok((tokenizer, remarks, cached.used))
}

/// The tokenizer and the chat template of a model that has `rows` rows of embedding.
///
/// # Errors
/// A vocabulary or a template that cannot be used, or a vocabulary that is larger than the model's.
pub(super) fn words(
    opened: &weights::Opened,
    rows: usize,
    packed: Option<&PackedFiles>,
) -> Result<Words, Failure> {
    let began = Instant::now();
    let (tokenizer, mut remarks, is_packed) = tokenizer(opened, packed)?;
    let template = ChatTemplate::open(opened, &tokenizer)?;
    let size = tokenizer.vocab_size();
    if size > rows {
        return Err(Failure::new(format!("the tokenizer has {size} tokens and the model only {rows}")));
    }
    remarks.extend(template.as_ref().map(ChatTemplate::remarks).unwrap_or_default());
    Ok(Words { tokenizer, template, remarks, took: began.elapsed(), is_packed })
}

/// A tokenizer and a chat template.
pub(super) struct Words {
    pub(super) tokenizer: Tokenizer,
    pub(super) template: Option<ChatTemplate>,
    pub(super) remarks: Vec<String>,
    pub(super) took: Duration,
    /// Whether the tokenizer had been packed before.
    pub(super) is_packed: bool,
}
