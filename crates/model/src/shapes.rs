//! Dimensions of published models with random weights, to measure speed without a download.
//!
//! A shape is a table of `shapes.toml`. It is turned into the metadata that a converter would write; the family's
//! reader makes a [`Spec`] of it, and the spec names the weights. So a shape takes the same code path as a file. A
//! [`Recipe`] gives each weight its format.
//!
//! The generated text is meaningless: weights are random, and the vocabulary is bytes and placeholders.

mod key_value;
mod metadata;
mod random;
mod recipe;
mod tensor_names;
mod vocabulary;

use crate::error::Error;
use crate::names;
use crate::rope::{Rope, RopeScaling};
use crate::source::Source;
use crate::spec::Spec;
use crate::tensor_location::Slice;
use crate::weight_role::WeightRole;
use cpu::Pool;
use key_value::KeyValue;
use random::{Blocks, Random};
use recipe::MatrixInfo;
use serde::Deserialize;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;
use std::sync::OnceLock;
use tensor::Dtype;
use weights::gguf::Metadata;
use weights::{Opened, PlacedTensor};

pub use recipe::{RECIPES, Recipe};

const TEXT: &str = include_str!("../shapes.toml");

/// The dimensions of one published model.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shape {
    /// The name on the command line: lower-case letters, digits, `.` and `-`.
    pub name: String,
    /// The model's name as its publisher writes it.
    pub title: String,
    /// Parameters as the publisher counts them (of the text model).
    pub parameters: u64,
    /// A name of [`crate::families::FAMILIES`].
    family: String,
    /// Whether query, key and value are one tensor, and gate and up another.
    #[serde(default)]
    fused: bool,
    /// Whether the norm is a layer norm, whose epsilon has its own metadata key.
    #[serde(default)]
    layer_norm: bool,
    layers: usize,
    width: usize,
    heads: usize,
    kv_heads: usize,
    head_dim: usize,
    /// Dimensions of a head that rotate; absent for all.
    rotary_dim: Option<usize>,
    /// Rows of gate and up.
    feed: usize,
    /// Rows of the embedding.
    vocab: usize,
    /// Whether the output head is the embedding.
    tied: bool,
    /// Context length, in tokens.
    context: usize,
    eps: f32,
    rope_base: f32,
    /// The divisor of positions (linear rope scaling).
    rope_linear: Option<f32>,
    rope_llama3: Option<Llama3>,
    rope_long: Option<Long>,
    /// Share of the pairs that turn, in layers without a window ("proportional" rope).
    rope_turned: Option<f32>,
    rope_yarn: Option<Yarn>,
    /// Sliding window, in tokens; the family decides which layers have it.
    window: Option<usize>,
    /// The experts of a mixture; those of all layers but the first dense ones.
    experts: Option<ExpertsShape>,
    /// The recurrent layers of a hybrid.
    delta_net: Option<DeltaNetShape>,
    /// The layers of short convolutions.
    short_conv: Option<ShortConvShape>,
    /// The layers of Mamba-2.
    mamba2: Option<Mamba2Shape>,
    /// The layers without a projection of values: their values are their keys.
    #[serde(default)]
    values_of_keys: Vec<usize>,
    /// Keys that only this family has, without the family's name.
    #[serde(default)]
    keys: BTreeMap<String, KeyValue>,
}

/// Layers of short convolutions: all but those of `attention`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ShortConvShape {
    attention: Vec<usize>,
    kernel: usize,
}

/// Layers of Mamba-2: all but those of `attention`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Mamba2Shape {
    attention: Vec<usize>,
    heads: usize,
    head_dim: usize,
    groups: usize,
    state: usize,
    kernel: usize,
}

/// Gated DeltaNet layers: all but each `interval`-th.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct DeltaNetShape {
    interval: usize,
    key_heads: usize,
    value_heads: usize,
    /// Width of a key and of a value.
    head_dim: usize,
    kernel: usize,
}

/// Llama 3.1's scaling, see [`RopeScaling::Llama3`].
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Llama3 {
    factor: f32,
    low: f32,
    high: f32,
    original: usize,
}

/// YaRN, see [`RopeScaling::Yarn`].
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Yarn {
    factor: f32,
    original: usize,
}

/// The experts of a mixture.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ExpertsShape {
    count: usize,
    used: usize,
    /// Rows of one expert's gate and up.
    width: usize,
    /// Rows of gate and up of what all rows use; 0 for none.
    #[serde(default)]
    shared: usize,
    /// The first layers, which have no experts.
    #[serde(default)]
    dense_layers: usize,
}

/// LongRoPE: the divisors beyond `original` tokens; up to there the divisors are 1.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Long {
    original: usize,
    factors: Vec<f32>,
}

/// Every shape, in the order of the file.
#[must_use]
pub fn all() -> &'static [Shape] {
    #[derive(Deserialize)]
    struct File {
        shape: Vec<Shape>,
    }
    static SHAPES: OnceLock<Vec<Shape>> = OnceLock::new();
    SHAPES.get_or_init(|| toml::from_str::<File>(TEXT).expect("shapes.toml is tested").shape)
}

/// Parses `NAME:FORMAT` into a shape and a recipe. The default format is `q4_k_m`.
///
/// # Errors
/// An unknown name or format, with those that are known.
pub fn parse(text: &str) -> Result<(&'static Shape, &'static Recipe), Error> {
    let (name, format) = text.split_once(':').unwrap_or((text, RECIPES[0].name));
    let shape = all().iter().find(|shape| shape.name == name).ok_or_else(|| {
        let known: Vec<&str> = all().iter().map(|shape| shape.name.as_str()).collect();
        Error::UnknownShape { found: name.to_owned(), known: known.join(", ") }
    })?;
    let recipe = Recipe::named(format).ok_or_else(|| {
        let known: Vec<&str> = RECIPES.iter().map(|recipe| recipe.name).collect();
        Error::UnknownRecipe { found: format.to_owned(), known: known.join(", ") }
    })?;
    Ok((shape, recipe))
}

/// A tensor that a shape has.
struct TensorDecl {
    name: String,
    role: WeightRole,
    dtype: Dtype,
    shape: Vec<usize>,
}

impl TensorDecl {
    /// Bytes of the tensor in its format.
    fn bytes(&self) -> usize {
        let rows: usize = self.shape.iter().rev().skip(1).product();
        rows * self
            .dtype
            .row_bytes(self.shape[self.shape.len() - 1])
            .expect("formats are chosen by the columns")
    }
}

impl Shape {
    /// The model in memory, as if a GGUF file of this shape had been opened. The same seed gives the same weights.
    ///
    /// # Errors
    /// The errors of the family's reader. Tests open every shape of `shapes.toml`.
    pub fn open(&self, recipe: &Recipe, seed: u64, pool: &Pool) -> Result<Opened, Error> {
        let metadata = self.metadata(recipe);
        let mut random = Random(seed);
        // Vectors are few: each gets its own numbers. Matrices of one format share a buffer.
        let (mut vectors, mut parts, mut tensors) = (Vec::new(), vec![Vec::new()], Vec::new());
        for (name, values) in self.rope_tensors() {
            tensors.push(vector(name.to_owned(), &values, &mut vectors));
        }
        let wanted = self.wanted(recipe, &metadata)?;
        for tensor in wanted.iter().filter(|tensor| tensor.shape.len() == 1) {
            let values = random.weights(tensor.role.usual(), tensor.shape[0]);
            tensors.push(vector(tensor.name.clone(), &values, &mut vectors));
        }
        parts[0] = vectors;
        let matrices: Vec<&TensorDecl> = wanted.iter().filter(|tensor| tensor.shape.len() > 1).collect();
        for dtype in Dtype::ALL {
            let of_it = || matrices.iter().filter(|tensor| tensor.dtype == dtype);
            let Some(largest) = of_it().map(|tensor| tensor.bytes()).max() else { continue };
            let blocks = Blocks::new(dtype, &mut random);
            tensors.extend(of_it().map(|tensor| PlacedTensor {
                name: tensor.name.clone(),
                dtype,
                shape: tensor.shape.clone(),
                part: parts.len(),
                start: blocks.start(&mut random),
            }));
            parts.push(blocks.fill(largest, pool));
        }
        // In the order of a converter, which is the order of the forward pass.
        let order: HashMap<&str, usize> =
            wanted.iter().enumerate().map(|(i, t)| (t.name.as_str(), i)).collect();
        tensors.sort_by_key(|tensor| order.get(tensor.name.as_str()).copied());
        Ok(Opened::in_memory(Path::new(&self.label(recipe)), metadata, parts, tensors))
    }

    /// The model without weights: all tensors have their name and shape, and share one zeroed buffer. For planning
    /// models that are too large for this machine.
    ///
    /// # Errors
    /// As [`Shape::open`].
    pub fn outline(&self, recipe: &Recipe) -> Result<Opened, Error> {
        let metadata = self.metadata(recipe);
        let mut vectors = Vec::new();
        let mut tensors: Vec<PlacedTensor> = Vec::new();
        for (name, values) in self.rope_tensors() {
            tensors.push(vector(name.to_owned(), &values, &mut vectors));
        }
        let wanted = self.wanted(recipe, &metadata)?;
        let largest = wanted.iter().map(TensorDecl::bytes).max().unwrap_or(0);
        tensors.extend(wanted.into_iter().map(|tensor| {
            let TensorDecl { name, dtype, shape, .. } = tensor;
            PlacedTensor { name, dtype, shape, part: 1, start: 0 }
        }));
        let parts = vec![vectors, vec![0; largest]];
        Ok(Opened::in_memory(Path::new(&self.label(recipe)), metadata, parts, tensors))
    }

    /// `NAME:FORMAT`.
    #[must_use]
    pub fn label(&self, recipe: &Recipe) -> String {
        format!("{}:{}", self.name, recipe.name)
    }

    /// Every tensor under its GGUF name, except the rope factors.
    fn wanted(&self, recipe: &Recipe, metadata: &Metadata) -> Result<Vec<TensorDecl>, Error> {
        let sketch = self.sketch(metadata.clone());
        let (source, spec) = (Source::new(&sketch)?, Spec::read(&sketch)?);
        let mut names = HashSet::new();
        let mut wanted = Vec::new();
        for decl in spec.weights() {
            let places = names::places(&source, &spec, decl.role);
            let place = tensor_names::written(&spec, decl.role, &places, self.fused);
            let Some(place) = place.filter(|place| names.insert(place.name.clone())) else { continue };
            let mut shape = decl.shape;
            match place.slice {
                Slice::Rows { of, .. } => shape[0] = of,
                Slice::Expert { count, .. } => shape.insert(0, count),
                _ => {}
            }
            let embeds = matches!(decl.role, WeightRole::Embedding | WeightRole::PerLayerEmbedding);
            let head = decl.role == WeightRole::Head || (embeds && self.tied);
            let cols = shape[shape.len() - 1];
            let matrix = MatrixInfo::new(&place.name, decl.role, spec.layers.len(), head, cols);
            let is_float = shape.len() == 1 || decl.role.is_table();
            let dtype = if is_float { Dtype::F32 } else { recipe.format(&matrix) };
            wanted.push(TensorDecl { name: place.name.clone(), role: decl.role, dtype, shape });
        }
        Ok(wanted)
    }

    /// A model with the tensors that a family's reader looks at besides the metadata: the embedding (for its rows), the
    /// head, and keys where there are no values. Their bytes are untouched zero pages, which take no memory.
    fn sketch(&self, metadata: Metadata) -> Opened {
        let (dtype, shape) = (Dtype::F16, vec![self.vocab, self.width]);
        let tensor = |name: &str| PlacedTensor {
            name: name.to_owned(),
            dtype,
            shape: shape.clone(),
            part: 0,
            start: 0,
        };
        let mut tensors = vec![tensor("token_embd.weight")];
        tensors.extend(self.values_of_keys.iter().map(|layer| tensor(&format!("blk.{layer}.attn_k.weight"))));
        if !self.tied {
            tensors.push(tensor("output.weight"));
        }
        Opened::in_memory(
            Path::new(&self.name),
            metadata,
            vec![vec![0; 2 * self.vocab * self.width]],
            tensors,
        )
    }

    fn rotary_dim(&self) -> usize {
        self.rotary_dim.unwrap_or(self.head_dim)
    }

    /// The rope factors that a GGUF stores as tensors.
    fn rope_tensors(&self) -> Vec<(&'static str, Vec<f32>)> {
        let half = self.rotary_dim() / 2;
        let rope = |scaling| Rope { rotary_dim: 2 * half, base: self.rope_base, scaling };
        if let Some(&Llama3 { factor, low, high, original }) = self.rope_llama3.as_ref() {
            let scaled = rope(RopeScaling::Llama3 { factor, low, high, original }).inv_freq(self.context);
            let plain = rope(RopeScaling::None).inv_freq(self.context);
            let divisors = plain.iter().zip(&scaled).map(|(plain, scaled)| plain / scaled).collect();
            return vec![("rope_freqs.weight", divisors)];
        }
        if let Some(share) = self.rope_turned {
            // A divisor so large that the pair stands still, as llama.cpp's converter writes it.
            let turned = (share * half as f32) as usize;
            return vec![("rope_freqs.weight", [vec![1.0; turned], vec![1e30; half - turned]].concat())];
        }
        match &self.rope_long {
            Some(long) => vec![
                ("rope_factors_long.weight", long.factors.clone()),
                ("rope_factors_short.weight", vec![1.0; half]),
            ],
            None => Vec::new(),
        }
    }
}

/// Appends `values` to `vectors`, which become part 0 of the model.
fn vector(name: String, values: &[f32], vectors: &mut Vec<u8>) -> PlacedTensor {
    let start = vectors.len();
    vectors.extend(values.iter().flat_map(|value| value.to_le_bytes()));
    PlacedTensor { name, dtype: Dtype::F32, shape: vec![values.len()], part: 0, start }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shape_has_the_parameters_that_its_publisher_counts() {
        for shape in all() {
            let metadata = shape.metadata(&RECIPES[0]);
            let sketch = shape.sketch(metadata);
            let spec = Spec::read(&sketch).unwrap();
            assert_eq!(spec.parameters(), shape.parameters, "{}", shape.name);
            assert_eq!(spec.lm_head == crate::LmHead::Tied, shape.tied, "{}", shape.name);
        }
    }

    #[test]
    fn an_outline_needs_what_the_model_needs() {
        let pool = Pool::new(1, None).unwrap();
        for name in ["tiny:q4_k_m", "tiny:bf16"] {
            let (shape, recipe) = parse(name).unwrap();
            let packed = |opened: &Opened| {
                let spec = Spec::read(opened).unwrap();
                spec.packed_weights(opened, cpu::Tier::Scalar, kernels::Precision::Fast).unwrap()
            };
            let whole = packed(&shape.open(recipe, 1, &pool).unwrap());
            assert_eq!(packed(&shape.outline(recipe).unwrap()), whole, "{name}");
            assert!(whole.iter().any(|weight| weight.role == WeightRole::Embedding), "{name}");
        }
    }

    #[test]
    fn every_shape_and_recipe_can_be_made_of_whole_blocks() {
        for (shape, recipe) in
            all().iter().flat_map(|shape| RECIPES.iter().map(move |recipe| (shape, recipe)))
        {
            let wanted = shape.wanted(recipe, &shape.metadata(recipe)).unwrap();
            let parameters: usize = wanted.iter().map(|tensor| tensor.shape.iter().product::<usize>()).sum();
            assert_eq!(parameters as u64, shape.parameters, "{}", shape.label(recipe));
            assert!(wanted.iter().all(|tensor| tensor.bytes() > 0), "{}", shape.label(recipe));
        }
    }

    #[test]
    fn gemma_slides_and_phi_turns_a_part_of_a_head() {
        let spec = |name| {
            let (shape, recipe) = parse(name).unwrap();
            Spec::read(&shape.sketch(shape.metadata(recipe))).unwrap()
        };
        let gemma = spec("gemma3-4b");
        let global: Vec<usize> = (0..34).filter(|&layer| gemma.layers[layer].window.is_none()).collect();
        assert_eq!(global, [5, 11, 17, 23, 29]);
        assert_eq!(gemma.ropes[0].scaling, RopeScaling::Linear { factor: 8.0 });
        assert_eq!((gemma.ropes[1].base, gemma.embedding_scale), (10_000.0, 2560f32.sqrt()));
        assert_eq!(spec("phi-4-mini").ropes[0].rotary_dim, 96);
        assert_eq!(spec("phi-2").norm.kind, crate::NormKind::Layer);
        let olmo = spec("olmo3-7b");
        assert_eq!((olmo.layers[2].window, olmo.layers[3].window), (Some(4096), None));
        assert_eq!(olmo.ropes[1].scaling, RopeScaling::None);
        let ministral = spec("ministral3-3b");
        assert_eq!(ministral.query_temperature.map(|t| t.step), Some(16_384));
        assert_eq!(ministral.ropes[0].mscale(), 1.0);
        assert_eq!(spec("granite4-micro").attention_scale, 1.0 / 64.0);
        let hybrid = spec("granite4-h-tiny");
        assert_eq!((hybrid.kv_layers(), hybrid.layers[15].rope, hybrid.experts()), (4, None, (64, 6)));
        let gemma = spec("gemma4-e2b");
        let told = |layer: usize| (gemma.query_width_of(&gemma.layers[layer]), gemma.kv_layer(layer));
        assert_eq!(
            [told(0), told(4), told(14), told(15), told(34)],
            [(2048, 0), (4096, 4), (4096, 14), (2048, 13), (4096, 14)]
        );
        assert_eq!(
            (gemma.kv_layers(), gemma.last_kept_layer(), gemma.layers[20].feed.width()),
            (15, 14, 12_288)
        );
        assert_eq!(spec("gemma4-e4b").layers[41].kv, crate::KvSource::Layer(23));
        let mixture = spec("gemma4-26b-a4b");
        assert_eq!((mixture.experts(), mixture.layers[5].kv), ((128, 8), crate::KvSource::OneProjection));
    }

    #[test]
    fn a_written_model_has_the_names_that_a_converter_writes() {
        let tensors = |label: &str| -> HashMap<String, Vec<usize>> {
            let (shape, recipe) = parse(label).unwrap();
            let outline = shape.outline(recipe).unwrap();
            outline.tensors().map(|tensor| (tensor.name.to_owned(), tensor.shape.to_vec())).collect()
        };
        let hybrid = tensors("qwen3.5-0.8b:q4_k_m");
        for name in ["blk.0.ssm_out", "blk.3.attn_output", "blk.0.attn_qkv", "blk.3.post_attention_norm"] {
            assert!(hybrid.contains_key(&format!("{name}.weight")), "{name}");
        }
        let convolutions = tensors("lfm2-350m:q4_k_m");
        for name in
            ["blk.0.shortconv.in_proj", "blk.0.shortconv.out_proj", "token_embd_norm", "blk.0.ffn_norm"]
        {
            assert!(convolutions.contains_key(&format!("{name}.weight")), "{name}");
        }
        let mixture = tensors("gpt-oss-20b:mxfp4");
        assert_eq!(mixture["blk.23.ffn_down_exps.weight"], [32, 2880, 2880]);
        assert!(mixture.contains_key("blk.0.post_attention_norm.weight"));
        assert!(!mixture.keys().any(|name| name.contains("ffn_gate.0")));
    }

    #[test]
    fn keys_are_whole_numbers_where_they_have_no_point() {
        let keys = parse("gemma4-e4b:q8_0").unwrap().0.metadata(&RECIPES[0]);
        assert_eq!(keys.get("gemma4.attention.key_length_swa"), Some(&weights::gguf::Value::U32(256)));
    }

    #[test]
    fn names_and_formats_that_are_unknown_are_told_with_those_that_are_known() {
        let (shape, recipe) = parse("llama3.2-1b:Q8_0").unwrap();
        assert_eq!(shape.label(recipe), "llama3.2-1b:q8_0");
        assert_eq!(parse("qwen3-4b").unwrap().1.name, "q4_k_m");
        let unknown = parse("qwen9-1b").unwrap_err().to_string();
        assert!(unknown.contains("qwen9-1b") && unknown.contains("llama3.2-1b, "), "{unknown}");
        let unknown = parse("tiny:q9_9").unwrap_err().to_string();
        assert!(unknown.contains("q9_9") && unknown.contains("q4_k_m, "), "{unknown}");
    }
}
