//! MPNet: BERT without token types; scores have a bias by bucket of distance, one for all layers.

use super::bert;
use super::roberta_heads as heads;
use crate::error::Error;
use crate::name_table::{Fused, Names};
use crate::source::{Defaults, Key, Source};
use crate::spec::{Positions, Spec};
use crate::weight_role::{LayerWeight, WeightRole};

const NAMES: Names = Names {
    prefixes: &["mpnet.", ""],
    embedding: "embeddings.word_embeddings",
    top: &[
        (WeightRole::Position, "embeddings.position_embeddings"),
        (WeightRole::EmbeddingNorm, "embeddings.LayerNorm"),
        (WeightRole::RelativeBias, "encoder.relative_attention_bias"),
    ],
    layers: "encoder.layer.",
    parts: &[
        (LayerWeight::Query, "attention.attn.q", Fused::No),
        (LayerWeight::Key, "attention.attn.k", Fused::No),
        (LayerWeight::Value, "attention.attn.v", Fused::No),
        (LayerWeight::Out, "attention.attn.o", Fused::No),
        (LayerWeight::AttentionPostNorm, "attention.LayerNorm", Fused::No),
        (LayerWeight::Up, "intermediate.dense", Fused::No),
        (LayerWeight::Down, "output.dense", Fused::No),
        (LayerWeight::FeedPostNorm, "output.LayerNorm", Fused::No),
    ],
    classifier: heads::CLASSIFIER,
    token_classifier: bert::TOKEN_CLASSIFIER,
    masked_lm: heads::MASKED_LM,
    masked_lm_bias: heads::MASKED_LM_BIAS,
    waived: &["pooler.", "position_ids", "lm_head.decoder."],
};

pub(super) fn read(source: &Source) -> Result<Spec, Error> {
    let mut spec = source.encoder("mpnet", &NAMES, &Defaults::default())?;
    // The class has the padding token's id as a constant.
    source.learned(&mut spec, 2)?;
    let buckets = source.size(Key("", &["relative_attention_num_buckets"]))?.unwrap_or(32);
    if let Positions::Learned { rows, first } = spec.positions {
        spec.positions = Positions::Buckets { rows, first, buckets, max_distance: 128 };
    }
    Ok(spec)
}
