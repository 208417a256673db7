//! Tokens of texts and text of tokens, by an encoder's tokenizer.

use std::sync::Arc;

use inference::{Chunk, Chunks, Output, RequestContext, Tokenize, Tokens};
use text::{ChunkMethod, ChunkOptions, EncodeOptions, TextChunk, TextOrPair};
use wire::Fault;
use wire::chunk::ChunkBy;

use super::reader::Reader;
use crate::preparation::Stop;
use crate::registry::Lease;

/// Answers a request for tokens or their text.
///
/// # Errors
/// A model that does not encode, a text that is too long, conversations.
pub(crate) fn tokenize(
    model: &Lease,
    stop: &Stop,
    context: &Arc<RequestContext>,
    operation: Tokenize,
) -> Result<Output, Fault> {
    let Some(encoding) = model.encoding().cloned() else { return Err(model.unable("tokenize texts")) };
    let model_name = model.name().to_owned();
    let reader = Reader { encoding, model: model_name, stop: stop.clone(), context: context.clone() };
    match operation {
        Tokenize::Encode { text, wrapped, .. } => encode(&reader, &text, wrapped),
        Tokenize::Decode { ids, .. } => decode(&reader, &ids),
        Tokenize::Chunk { text, by, size, overlap, .. } => chunk(&reader, text, by, size, overlap),
        Tokenize::Chat(_) | Tokenize::Render(_) => Err(model.unable("take conversations")),
    }
}

fn encode(reader: &Reader, text: &str, wrapped: bool) -> Result<Output, Fault> {
    let most = wire::limits::COUNTED_TOKENS.max(reader.encoding.engine.context());
    let should_stop = || reader.stop.is_set();
    let options = EncodeOptions { should_stop: &should_stop, ..EncodeOptions::new(most) };
    let input = reader.encoding.text.encode(&TextOrPair::Text(text), &options);
    let input = input.map_err(|error| reader.fault("prompt", error))?;
    reader.context.add_prepared(input.tokens.len());
    let all = input.tokens.iter().zip(&input.special);
    let ids: Vec<u32> = all.filter(|(_, special)| wrapped || !**special).map(|(id, _)| *id).collect();
    let bytes = ids.iter().map(|id| reader.encoding.text.bytes(*id)).collect();
    Ok(Output::Tokens(Tokens { ids, bytes, context: reader.encoding.engine.context() }))
}

fn chunk(
    reader: &Reader,
    text: String,
    by: ChunkBy,
    size: Option<usize>,
    overlap: usize,
) -> Result<Output, Fault> {
    let should_stop = || reader.stop.is_set();
    let encoding = &reader.encoding;
    let size =
        size.unwrap_or_else(|| default_size(encoding.engine.context(), encoding.text.special_tokens()));
    // The bound of a request without a size is that of the largest default.
    let overlap = overlap.min(size / 2);
    let method = match by {
        ChunkBy::Tokens => ChunkMethod::Tokens,
        ChunkBy::Sentences => ChunkMethod::Sentences,
        ChunkBy::Headings => ChunkMethod::Headings,
    };
    let options = ChunkOptions { method, size, overlap, should_stop: &should_stop };
    let parts = reader.encoding.text.chunk(&text, &options);
    let parts = parts.map_err(|error| Fault::field("text", error.to_string()))?;
    reader.context.add_prepared(parts.iter().map(|part| part.tokens).sum());
    let chunk = |part: TextChunk| Chunk {
        bytes: part.bytes,
        chars: part.chars,
        tokens: part.tokens,
        headings: part.headings,
    };
    let chunks = parts.into_iter().map(chunk).collect();
    Ok(Output::Chunks(Chunks { model: reader.model.clone(), text, chunks }))
}

/// The size of chunks that the model takes as texts of their own, with their special tokens.
fn default_size(context: usize, special: usize) -> usize {
    context.saturating_sub(special).clamp(1, wire::chunk::SIZE)
}

fn decode(reader: &Reader, ids: &[u32]) -> Result<Output, Fault> {
    reader.context.add_prepared(ids.len());
    let text = &reader.encoding.text;
    let bytes: usize = ids.iter().map(|id| text.bytes(*id).len()).sum();
    let most = wire::limits::DETOKENIZED_BYTES;
    if bytes > most {
        let message = format!("tokens make {bytes} bytes of text; the limit is {most}");
        return Err(Fault::field("tokens", message));
    }
    Ok(Output::Text(text.decode(ids)))
}

#[cfg(test)]
mod tests {
    use super::default_size;

    #[test]
    fn chunks_of_the_default_size_fit_with_their_special_tokens() {
        assert_eq!(default_size(256, 2), 254);
        assert_eq!(default_size(128, 2), 126);
        assert_eq!(default_size(8192, 2), 256);
        assert_eq!(default_size(2, 2), 1);
    }
}
