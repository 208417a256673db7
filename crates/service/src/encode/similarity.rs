//! How alike two texts are by the vectors of an embedding model: the cosine, or MaxSim of their tokens' vectors.

use engine::encoder::Want;
use wire::Fault;

use super::call::{Call, Inputs};
use super::heads::TokenVectors;
use super::numbers::{cosine, max_sim, normalize};
use super::reader::Reader;
use crate::preparation::Admitted;

/// How an embedding model compares texts.
enum Comparison {
    Cosine,
    MaxSim(TokenVectors),
}

/// Pairs of the texts of a job, and what else was kept of them.
pub(crate) struct Pairs<T> {
    pub(crate) pairs: Vec<(usize, usize)>,
    pub(crate) rest: T,
}

/// Scores of pairs of texts that `read` gives.
///
/// # Errors
/// Those of [`Call::encode`], and a model that does not compare texts.
pub(crate) async fn scores<T: Send + 'static>(
    call: &Call<'_>,
    admitted: Admitted,
    read: impl FnOnce(&Reader) -> Result<Inputs<Pairs<T>>, Fault> + Send + 'static,
) -> Result<(Vec<f32>, T), Fault> {
    let heads = call.encoding.heads.clone();
    let comparison = match &heads.tokens {
        Some(tokens) if tokens.late_interaction => Comparison::MaxSim(tokens.clone()),
        _ if heads.dense.is_some() => Comparison::Cosine,
        _ => return Err(call.unable("compare texts")),
    };
    let want = match comparison {
        Comparison::Cosine => Want::Dense,
        Comparison::MaxSim(_) => Want::Tokens,
    };
    let (vectors, Pairs { pairs, rest }) = call.encode::<Vec<f32>, _>(admitted, want, read).await?;
    let numbers = match &comparison {
        Comparison::Cosine => pairs.len() * vectors.first().map_or(0, Vec::len),
        // Each vector of one text is compared with each of the other.
        Comparison::MaxSim(tokens) => {
            let of = |(a, b): &(usize, usize)| vectors[*a].len() / tokens.width.max(1) * vectors[*b].len();
            pairs.iter().map(of).sum()
        }
    };
    let scores = call.compute(numbers, move || compared(vectors, &pairs, &comparison)).await?;
    Ok((scores, rest))
}

fn compared(mut vectors: Vec<Vec<f32>>, pairs: &[(usize, usize)], comparison: &Comparison) -> Vec<f32> {
    match comparison {
        Comparison::Cosine => pairs.iter().map(|(a, b)| cosine(&vectors[*a], &vectors[*b])).collect(),
        Comparison::MaxSim(TokenVectors { width, normalize: normalizes, .. }) => {
            let width = (*width).max(1);
            if *normalizes {
                vectors.iter_mut().flat_map(|vector| vector.chunks_exact_mut(width)).for_each(normalize);
            }
            pairs.iter().map(|(a, b)| max_sim(&vectors[*a], &vectors[*b], width)).collect()
        }
    }
}
