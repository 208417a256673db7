//! The tables of a tokenizer's model, from the library's maps.

use serde::Deserialize;
use tokenizers::models::bpe::BPE;
use tokenizers::models::unigram::Unigram;
use tokenizers::models::wordlevel::WordLevel;
use tokenizers::models::wordpiece::WordPiece;
use tokenizers::{Model as _, ModelWrapper};

use crate::packed_model::{ModelIndex, ModelIndexKind};
use crate::pipeline::{ModelKind, SharedModel};
use crate::spm::Spm;
use crate::tables::{Merge, TableWriter, TrieTables, merge_table};

/// Control tokens with their ids.
type Control = Vec<(String, u32)>;

/// Writes the tables of a model, and gives back its index and its control tokens; `None` for a kind that is not packed.
pub(crate) fn pack_model(
    model: &SharedModel,
    unknown: Option<u32>,
    out: &mut TableWriter,
) -> Option<(ModelIndex, Control)> {
    match model.kind() {
        ModelKind::Library(model, control) => {
            let control = control.iter().map(|(text, id)| (text.clone(), *id)).collect();
            let index = match model {
                ModelWrapper::WordPiece(model) => word_piece(model, out)?,
                ModelWrapper::BPE(model) => byte_pairs(model, out)?,
                ModelWrapper::Unigram(model) => unigram(model, unknown, out)?,
                ModelWrapper::WordLevel(model) => words(model, out)?,
            };
            Some((index, control))
        }
        ModelKind::Spm(model) => spm(model, out),
        // A packed one is not packed again.
        ModelKind::Packed(..) => None,
    }
}

/// A vocabulary as a trie.
fn pieces<'a>(vocabulary: impl Iterator<Item = (&'a str, u32)>, out: &mut TableWriter) -> Option<TrieTables> {
    TrieTables::write(vocabulary.map(|(text, id)| (text.as_bytes(), id)).collect(), out)
}

fn words(model: &WordLevel, out: &mut TableWriter) -> Option<ModelIndex> {
    let vocabulary = model.get_vocab();
    Some(ModelIndex {
        size: model.get_vocab_size(),
        pieces: pieces(vocabulary.iter().map(|(text, id)| (text.as_str(), *id)), out)?,
        kind: ModelIndexKind::Words { unknown: model.unk_token.clone() },
    })
}

fn word_piece(model: &WordPiece, out: &mut TableWriter) -> Option<ModelIndex> {
    let vocabulary = model.get_vocab();
    Some(ModelIndex {
        size: model.get_vocab_size(),
        pieces: pieces(vocabulary.iter().map(|(text, id)| (text.as_str(), *id)), out)?,
        kind: ModelIndexKind::WordPiece {
            unknown: model.unk_token.clone(),
            prefix: model.continuing_subword_prefix.clone(),
            max_chars: model.max_input_chars_per_word,
        },
    })
}

fn byte_pairs(model: &BPE, out: &mut TableWriter) -> Option<ModelIndex> {
    /// The library tells its merges only as JSON.
    #[derive(Deserialize)]
    struct Merges {
        merges: Vec<(String, String)>,
    }
    let is_plain = model.dropout.is_none_or(|dropout| dropout == 0.0)
        && model.continuing_subword_prefix.as_ref().is_none_or(String::is_empty)
        && model.end_of_word_suffix.as_ref().is_none_or(String::is_empty);
    let vocabulary = model.get_vocab();
    let knows_unknown = model.unk_token.as_ref().is_none_or(|unknown| vocabulary.contains_key(unknown));
    if !is_plain || !knows_unknown {
        return None;
    }
    let json = serde_json::to_vec(model).ok()?;
    let Merges { merges } = serde_json::from_slice(&json).ok()?;
    drop(json);
    let mut joint = String::new();
    let merge = |(rank, (left, right)): (u32, &(String, String))| -> Option<Merge> {
        joint.clear();
        joint.push_str(left);
        joint.push_str(right);
        let id = |text: &str| vocabulary.get(text).copied();
        Some((id(left)?, id(right)?, rank, id(&joint)?))
    };
    let merges: Vec<Merge> = (0..).zip(&merges).map(merge).collect::<Option<_>>()?;
    Some(ModelIndex {
        size: model.get_vocab_size(),
        pieces: pieces(vocabulary.iter().map(|(text, id)| (text.as_str(), *id)), out)?,
        kind: ModelIndexKind::BytePairs {
            merges: merge_table(&merges, out)?,
            unknown: model.unk_token.clone(),
            fuse_unknown: model.fuse_unk,
            byte_fallback: model.byte_fallback,
            ignore_merges: model.ignore_merges,
        },
    })
}

fn unigram(model: &Unigram, unknown: Option<u32>, out: &mut TableWriter) -> Option<ModelIndex> {
    if model.alpha.is_some() {
        return None;
    }
    // Of equal texts the last counts, as in the library's map.
    let vocabulary = model.get_vocab();
    let scores: Vec<u8> = model.iter().flat_map(|(_, score)| score.to_le_bytes()).collect();
    Some(ModelIndex {
        size: model.get_vocab_size(),
        pieces: pieces(vocabulary.iter().map(|(text, id)| (text.as_str(), *id)), out)?,
        kind: ModelIndexKind::Unigram {
            scores: out.put(&scores),
            worst: model.min_score.to_bits(),
            unknown,
            byte_fallback: model.byte_fallback(),
        },
    })
}

fn spm(model: &Spm, out: &mut TableWriter) -> Option<(ModelIndex, Control)> {
    let vocabulary = model.vocabulary()?;
    let (bytes, unknown) = model.fallbacks();
    let ids = vocabulary.values().max().map_or(0, |id| id + 1);
    let mut scores = vec![0_u32; ids as usize];
    for id in vocabulary.values() {
        scores[*id as usize] = model.score(*id).to_bits();
    }
    let kind = ModelIndexKind::Spm { scores: out.put_numbers(&scores), bytes: bytes.to_vec(), unknown };
    let pieces = pieces(vocabulary.iter().map(|(text, id)| (&**text, *id)), out)?;
    let control = model.control().iter().map(|(text, id)| (text.to_string(), *id)).collect();
    Some((ModelIndex { size: model.size(), pieces, kind }, control))
}
