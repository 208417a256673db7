//! Embedding: a vector for each input, for each of its tokens, or weights of vocabulary entries.

use std::ops::Range;

use engine::encoder::{Text, Want};
use inference::{Embed, EmbedKind, Embedding, InputLength, Length, Output, TextInput, Truncation};
use text::PairTruncation;
use wire::Fault;

use super::call::{Call, Inputs, MAX_NUMBERS, too_many_numbers};
use super::heads::{DenseHead, ShortVectors};
use super::numbers::{normalize, weighted_mean};
use super::reader::{Reader, Reading, length, text};
use crate::preparation::Admitted;

/// The lengths of the inputs, and which texts of the job belong to each.
struct Parts {
    lengths: Vec<InputLength>,
    of_input: Vec<Range<usize>>,
    /// Tokens of each text of the job.
    tokens: Vec<usize>,
}

/// Answers a request for embeddings.
///
/// # Errors
/// Those of [`Call::encode`], and a kind of vectors that the model does not make.
pub(crate) async fn answer(call: &Call<'_>, embed: Embed, admitted: Admitted) -> Result<Output, Fault> {
    if embed.inputs.is_empty() {
        return Err(Fault::field("inputs", "inputs is an empty list; it must have at least 1 text"));
    }
    if embed.kind != EmbedKind::Dense {
        check_dense_only(&embed)?;
    }
    match embed.kind {
        EmbedKind::Dense => dense(call, embed, admitted).await,
        EmbedKind::Tokens => tokens(call, embed, admitted).await,
        EmbedKind::Sparse => sparse(call, embed, admitted).await,
    }
}

fn check_dense_only(embed: &Embed) -> Result<(), Fault> {
    if embed.dimensions.is_some() {
        return Err(Fault::field(
            "dimensions",
            "dimensions is for one vector an input; here each token has one",
        ));
    }
    if embed.length.truncation == Truncation::Chunk {
        let message = "encoding in parts is for one vector an input; cut longer inputs, or send their parts";
        return Err(Fault::field("truncate", message));
    }
    Ok(())
}

async fn dense(call: &Call<'_>, embed: Embed, admitted: Admitted) -> Result<Output, Fault> {
    let heads = call.encoding.heads.clone();
    let Some(head) = &heads.dense else {
        return Err(call.unable("make one vector for an input"));
    };
    let dimensions = dimensions(head, embed.dimensions, call.core.options.any_dimensions, call.model.name())?;
    if head.width.saturating_mul(embed.inputs.len()) > MAX_NUMBERS {
        return Err(too_many_numbers());
    }
    let normalizes = embed.normalize.unwrap_or(head.normalize);
    let (vectors, Parts { lengths, of_input, tokens }) =
        call.encode::<Vec<f32>, _>(admitted, Want::Dense, move |reader| read(reader, &embed)).await?;
    let numbers = vectors.len() * head.width;
    let results = call.compute(numbers, move || {
        let vector = |parts: Range<usize>| {
            let mut vector = match parts.len() {
                1 => vectors[parts.start].clone(),
                _ => weighted_mean(parts.map(|part| (vectors[part].as_slice(), tokens[part]))),
            };
            vector.truncate(dimensions);
            if normalizes {
                normalize(&mut vector);
            }
            Embedding::Dense(vector)
        };
        of_input.into_iter().map(vector).collect()
    });
    Ok(Output::Embeddings(call.encoded(results.await?, lengths)))
}

/// Numbers to keep of each vector.
fn dimensions(head: &DenseHead, asked: Option<usize>, any: bool, model: &str) -> Result<usize, Fault> {
    let width = head.width;
    let Some(asked) = asked else { return Ok(width) };
    let refused = |expected: String| {
        let message = format!(
            "dimensions is {asked}; vectors of the model {model} have {width} numbers: expected {expected}"
        );
        Err(Fault::field("dimensions", message))
    };
    match &head.short {
        _ if asked == 0 || asked > width => refused(format!("1 to {width}")),
        _ if asked == width || any => Ok(asked),
        ShortVectors::Any => Ok(asked),
        ShortVectors::Of(known) if known.contains(&asked) => Ok(asked),
        ShortVectors::Of(known) => {
            let known: Vec<String> = known.iter().map(usize::to_string).collect();
            refused(format!("one of {}, which it was trained for", known.join(", ")))
        }
        ShortVectors::None => refused(format!("{width}, as it was not trained for shorter ones")),
    }
}

fn reading(prompt: Option<&str>, length: Length) -> Reading<'_> {
    Reading { prompt, length, pair: PairTruncation::LongestFirst, second: None, offsets: false }
}

/// The prompt of an input: one that is given as tokens has none.
fn check_prompt(at: usize, embed: &Embed, prompt: Option<&str>) -> Result<(), Fault> {
    let named = matches!(embed.prompt, inference::InputPrompt::Named(_)) && prompt.is_some();
    match &embed.inputs[at] {
        TextInput::Tokens(_) | TextInput::TypedTokens { .. } if named => {
            let message = format!("inputs[{at}] is a list of tokens, which no prompt can be put before");
            Err(Fault::field("prompt_name", message))
        }
        _ => Ok(()),
    }
}

fn read(reader: &Reader, embed: &Embed) -> Result<Inputs<Parts>, Fault> {
    let prompt = reader.prompt(&embed.prompt)?;
    let unpooled = reader.encoding.heads.prompts.unpooled;
    let reading = reading(prompt, embed.length);
    let mut texts: Vec<Text> = Vec::with_capacity(embed.inputs.len());
    let mut parts = Parts { lengths: Vec::new(), of_input: Vec::new(), tokens: Vec::new() };
    for (at, input) in embed.inputs.iter().enumerate() {
        check_prompt(at, embed, prompt)?;
        let field = format!("inputs[{at}]");
        let from = texts.len();
        let inputs = match (embed.length.truncation, input) {
            (Truncation::Chunk, TextInput::Text(text)) => reader.windows(&field, text, &reading)?,
            (Truncation::Chunk, TextInput::Pair(..)) => {
                let message = format!("{field} is a pair of texts, which cannot be encoded in parts");
                return Err(Fault::field(field, message));
            }
            _ => vec![reader.input(&field, input, &reading)?],
        };
        let lengths = inputs.iter().map(length);
        parts.lengths.push(lengths.fold(InputLength::default(), |sum, part| InputLength {
            tokens: sum.tokens + part.tokens,
            truncated: sum.truncated + part.truncated,
        }));
        parts.tokens.extend(inputs.iter().map(|input| input.tokens.len()));
        texts.extend(inputs.into_iter().map(|input| text(input, unpooled)));
        parts.of_input.push(from..texts.len());
    }
    let tokens = parts.tokens.iter().sum();
    Ok(Inputs { texts, tokens, rest: parts })
}

async fn tokens(call: &Call<'_>, embed: Embed, admitted: Admitted) -> Result<Output, Fault> {
    let Some(head) = call.encoding.heads.tokens.clone() else {
        return Err(call.unable("make vectors of tokens"));
    };
    let (width, normalizes) = (head.width, embed.normalize.unwrap_or(head.normalize));
    let read = move |reader: &Reader| {
        let inputs = read(reader, &embed)?;
        if inputs.tokens.saturating_mul(width) > MAX_NUMBERS { Err(too_many_numbers()) } else { Ok(inputs) }
    };
    let (vectors, parts) = call.encode::<Vec<f32>, _>(admitted, Want::Tokens, read).await?;
    let numbers = vectors.iter().map(Vec::len).sum();
    let results = call.compute(numbers, move || {
        let scaled = |mut values: Vec<f32>| {
            if normalizes {
                values.chunks_exact_mut(width.max(1)).for_each(normalize);
            }
            Embedding::Tokens { width, values }
        };
        vectors.into_iter().map(scaled).collect()
    });
    Ok(Output::Embeddings(call.encoded(results.await?, parts.lengths)))
}

async fn sparse(call: &Call<'_>, embed: Embed, admitted: Admitted) -> Result<Output, Fault> {
    if !call.encoding.heads.sparse {
        return Err(call.unable("weigh entries of its vocabulary"));
    }
    let read = move |reader: &Reader| read(reader, &embed);
    let (entries, parts) = call.encode::<Vec<(u32, f32)>, _>(admitted, Want::Sparse, read).await?;
    let results = entries.into_iter().map(Embedding::Sparse).collect();
    Ok(Output::Embeddings(call.encoded(results, parts.lengths)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_are_cut_only_where_the_model_was_trained_for_it() {
        let head = |short| DenseHead { width: 384, normalize: true, short };
        let asked =
            |short, asked, any| dimensions(&head(short), asked, any, "m").map_err(|fault| fault.message);
        assert_eq!(asked(ShortVectors::None, None, false), Ok(384));
        assert_eq!(asked(ShortVectors::None, Some(384), false), Ok(384));
        assert_eq!(asked(ShortVectors::None, Some(100), true), Ok(100));
        assert_eq!(asked(ShortVectors::Any, Some(100), false), Ok(100));
        assert_eq!(asked(ShortVectors::Of(vec![64, 128]), Some(64), false), Ok(64));
        let said = "dimensions is 100; vectors of the model m have 384 numbers: expected ";
        let refused = |short, n| asked(short, Some(n), false).unwrap_err();
        assert_eq!(
            refused(ShortVectors::None, 100),
            format!("{said}384, as it was not trained for shorter ones")
        );
        let trained = ShortVectors::Of(vec![64, 128]);
        assert_eq!(refused(trained, 100), format!("{said}one of 64, 128, which it was trained for"));
        for n in [0, 385] {
            for any in [false, true] {
                let message = asked(ShortVectors::Any, Some(n), any).unwrap_err();
                assert!(message.contains(&format!("is {n};")) && message.ends_with("expected 1 to 384"));
            }
        }
    }
}
