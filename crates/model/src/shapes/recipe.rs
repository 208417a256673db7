//! The format of each tensor, as llama.cpp's quantizer chooses it (`llama_tensor_get_type` in `llama-quant.cpp`,
//! without an importance matrix), so that a shape reads as many bytes as the published file.

use crate::weight_role::{LayerWeight, WeightRole};
use tensor::Dtype;

/// A mix of formats under llama.cpp's name for it, such as `q4_k_m`.
#[derive(Debug)]
pub struct Recipe {
    /// The name as in file names, lower case.
    pub name: &'static str,
    /// The `general.file_type` of a GGUF (`enum llama_ftype`).
    pub(super) file_type: u32,
    /// The format of most matrices.
    base: Dtype,
    /// The format of `attn_v` and `ffn_down` in half of the layers.
    more: Option<Dtype>,
    /// The format of experts, if it is another.
    experts: Option<Dtype>,
}

/// Every known recipe.
#[rustfmt::skip]
pub const RECIPES: &[Recipe] = &[
    Recipe { name: "q4_k_m", file_type: 15, base: Dtype::Q4_K, more: Some(Dtype::Q6_K), experts: None },
    Recipe { name: "q5_k_m", file_type: 17, base: Dtype::Q5_K, more: Some(Dtype::Q6_K), experts: None },
    Recipe { name: "q6_k",   file_type: 18, base: Dtype::Q6_K, more: None, experts: None },
    Recipe { name: "q8_0",   file_type: 7,  base: Dtype::Q8_0, more: None, experts: None },
    Recipe { name: "q4_0",   file_type: 2,  base: Dtype::Q4_0, more: None, experts: None },
    Recipe { name: "q4_1",   file_type: 3,  base: Dtype::Q4_1, more: None, experts: None },
    Recipe { name: "mxfp4",  file_type: 38, base: Dtype::Q8_0, more: None, experts: Some(Dtype::MXFP4) },
    Recipe { name: "bf16",   file_type: 32, base: Dtype::BF16, more: None, experts: None },
    Recipe { name: "f16",    file_type: 1,  base: Dtype::F16,  more: None, experts: None },
];

/// The name, layer and width of a matrix, by which its format is chosen.
pub(super) struct MatrixInfo<'a> {
    /// The tensor's name in a GGUF.
    pub(super) name: &'a str,
    /// The matrix's layer; `None` for embedding and head.
    pub(super) layer: Option<usize>,
    /// The number of layers of the model.
    pub(super) layers: usize,
    /// Whether the matrix computes logits: the output head, or a tied embedding.
    pub(super) head: bool,
    /// Columns of the matrix.
    pub(super) cols: usize,
    /// Whether the matrix is of an expert.
    pub(super) expert: bool,
    /// The format of a matrix that is never quantized.
    pub(super) unquantized: Option<Dtype>,
}

impl<'a> MatrixInfo<'a> {
    /// The matrix of this role in a model of `layers` layers.
    pub(super) fn new(
        name: &'a str,
        role: WeightRole,
        layers: usize,
        head: bool,
        cols: usize,
    ) -> MatrixInfo<'a> {
        let (layer, part) = match role {
            WeightRole::Layer(layer, part) => (Some(layer), Some(part)),
            _ => (None, None),
        };
        let expert = matches!(
            part,
            Some(LayerWeight::ExpertGate(_) | LayerWeight::ExpertUp(_) | LayerWeight::ExpertDown(_))
        );
        let router = matches!(part, Some(LayerWeight::Router | LayerWeight::SharedRouter));
        let low_rank = matches!(
            part,
            Some(LayerWeight::StreamRouter | LayerWeight::LaurelLeft | LayerWeight::LaurelRight)
        );
        let unquantized = match role {
            WeightRole::PerLayerProjection | WeightRole::StreamProjection(_) | WeightRole::StreamMerge(_) => {
                Some(Dtype::BF16)
            }
            _ if low_rank => Some(Dtype::BF16),
            _ => router.then_some(Dtype::F32),
        };
        MatrixInfo { name, layer, layers, head, cols, expert, unquantized }
    }
}

impl Recipe {
    /// The recipe of this name, in any case.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Recipe> {
        RECIPES.iter().find(|recipe| recipe.name.eq_ignore_ascii_case(name))
    }

    /// The format of one matrix.
    pub(super) fn format(&self, place: &MatrixInfo) -> Dtype {
        if let Some(format) = place.unquantized {
            return format;
        }
        if !self.base.is_quantized() {
            return self.base;
        }
        let whole = |dtype: Dtype| place.cols.is_multiple_of(dtype.block_weights());
        let format = self.wish(place, whole);
        match format {
            Dtype::Q4_K if !whole(format) => Dtype::Q5_0,
            Dtype::Q5_K if !whole(format) => Dtype::Q5_1,
            Dtype::Q6_K if !whole(format) => Dtype::Q8_0,
            format => format,
        }
    }

    /// The format that the quantizer prefers here, before it falls back for rows that are not whole blocks.
    fn wish(&self, place: &MatrixInfo, whole: impl Fn(Dtype) -> bool) -> Dtype {
        if place.head {
            return if self.base == Dtype::Q8_0 || !whole(self.base) { Dtype::Q8_0 } else { Dtype::Q6_K };
        }
        if let Some(format) = self.experts.filter(|format| place.expert && whole(*format)) {
            return format;
        }
        let gains = ["attn_v.weight", "attn_qkv.weight", "ffn_down."];
        let gains = gains.iter().any(|part| place.name.contains(part));
        match (self.more, place.layer) {
            (Some(more), Some(layer)) if gains && more_bits(layer, place.layers) => more,
            _ => self.base,
        }
    }
}

/// Whether a layer gets more bits: the first and last eighth, and every third between (`use_more_bits`).
fn more_bits(layer: usize, layers: usize) -> bool {
    let eighth = layers / 8;
    layer < eighth || layer >= 7 * layers / 8 || (layer - eighth) % 3 == 2
}

#[cfg(test)]
mod tests {
    use super::*;

    fn format(recipe: &str, name: &str, layer: Option<usize>, head: bool, cols: usize) -> Dtype {
        let (expert, unquantized) = (name.contains(".7."), name.contains("inp").then_some(Dtype::F32));
        let matrix = MatrixInfo { name, layer, layers: 28, head, cols, expert, unquantized };
        Recipe::named(recipe).unwrap().format(&matrix)
    }

    #[test]
    fn a_k_mix_gives_more_bits_where_the_quantizer_does() {
        let with_q16_if_narrow: Vec<usize> = (0..28).filter(|&layer| more_bits(layer, 28)).collect();
        assert_eq!(with_q16_if_narrow, [0, 1, 2, 5, 8, 11, 14, 17, 20, 23, 24, 25, 26, 27]);
        assert_eq!(format("q4_k_m", "blk.0.attn_v.weight", Some(0), false, 1024), Dtype::Q6_K);
        assert_eq!(format("q4_k_m", "blk.3.attn_v.weight", Some(3), false, 1024), Dtype::Q4_K);
        assert_eq!(format("Q4_K_M", "blk.0.ffn_up.weight", Some(0), false, 1024), Dtype::Q4_K);
        assert_eq!(format("q5_k_m", "blk.5.ffn_down.weight", Some(5), false, 3072), Dtype::Q6_K);
    }

    #[test]
    fn experts_may_have_a_format_of_their_own_and_routers_are_not_quantized() {
        assert_eq!(format("mxfp4", "blk.3.ffn_up.7.weight", Some(3), false, 2880), Dtype::MXFP4);
        assert_eq!(format("mxfp4", "blk.3.attn_q.weight", Some(3), false, 2880), Dtype::Q8_0);
        assert_eq!(format("q4_k_m", "blk.0.ffn_down.7.weight", Some(0), false, 768), Dtype::Q6_K);
        assert_eq!(format("q4_k_m", "blk.0.ffn_gate_inp.weight", Some(0), false, 2048), Dtype::F32);
        assert_eq!(format("bf16", "blk.0.ffn_gate_inp.weight", Some(0), false, 2048), Dtype::F32);
    }

    #[test]
    fn heads_are_finer_and_uneven_rows_fall_back() {
        assert_eq!(format("q4_0", "output.weight", None, true, 1024), Dtype::Q6_K);
        assert_eq!(format("q8_0", "output.weight", None, true, 1024), Dtype::Q8_0);
        assert_eq!(format("bf16", "output.weight", None, true, 1024), Dtype::BF16);
        assert_eq!(format("q4_k_m", "token_embd.weight", None, false, 1024), Dtype::Q4_K);
        // Gemma 3 1B is 1152 wide: four and a half blocks of 256.
        assert_eq!(format("q4_k_m", "token_embd.weight", None, true, 1152), Dtype::Q8_0);
        assert_eq!(format("q4_0", "token_embd.weight", None, true, 1152), Dtype::Q8_0);
        assert_eq!(format("q4_k_m", "blk.3.attn_q.weight", Some(3), false, 1152), Dtype::Q5_0);
        assert_eq!(format("q4_k_m", "blk.0.attn_v.weight", Some(0), false, 1152), Dtype::Q8_0);
    }
}
