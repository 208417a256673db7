//! From tensors in a file to packed weights, one place for every family.
//!
//! First every weight of [`Spec::weights`] is found, its shape checked and the ledger closed, so that a broken file is
//! refused before any work. Then each is read once, checked and packed in the order of the layers into one mapping, and
//! the file's pages are given back as the loading goes on: the peak is the packed weights and a megabyte or two a thread.
//! Where packed weights are kept beside the model (see [`crate::packed`]), its matrices are those, and only vectors are read.

use crate::error::Error;
use crate::locate::{self, LocatedWeight};
use crate::packed::{PackedCache, PackedCacheReport, PackedStore};
use crate::rope::Rope;
use crate::source::Source;
use crate::spec::{FeedForward, LayerWeight, Spec, WeightRole};
use crate::tensors::floats;
use cpu::{Arena, Backing, Tier};
use kernels::{ActFormats, Compute, Matrix, Precision};
use std::collections::HashMap;
use weights::Opened;

/// A model ready to run.
pub struct Model {
    /// What it is.
    pub spec: Spec,
    pub(crate) embedding: Matrix,
    pub(crate) blocks: Vec<Block>,
    pub(crate) final_norm: NormWeights,
    pub(crate) head: Option<Matrix>,
    pub(crate) head_bias: Option<Vec<f32>>,
    /// Inverse frequencies and the factor on cos and sin, for each of the spec's ropes.
    pub(crate) ropes: Vec<(Vec<f32>, f32)>,
    bytes: usize,
    backing: Backing,
}

/// The weights of one block.
pub(crate) struct Block {
    pub(crate) attention_norm: NormWeights,
    pub(crate) query: Linear,
    pub(crate) key: Linear,
    pub(crate) value: Linear,
    pub(crate) qkv_formats: ActFormats,
    pub(crate) query_norm: Option<Vec<f32>>,
    pub(crate) key_norm: Option<Vec<f32>>,
    pub(crate) out: Linear,
    pub(crate) attention_post_norm: Option<Vec<f32>>,
    pub(crate) feed_norm: Option<NormWeights>,
    pub(crate) feed: FeedWeights,
    pub(crate) feed_post_norm: Option<Vec<f32>>,
}

/// A norm's weight, and its bias if it is a layer norm.
pub(crate) struct NormWeights {
    pub(crate) weight: Vec<f32>,
    pub(crate) bias: Option<Vec<f32>>,
}

/// A matrix `[rows, cols]` and perhaps a bias `[rows]`.
pub(crate) struct Linear {
    pub(crate) matrix: Matrix,
    pub(crate) bias: Option<Vec<f32>>,
}

/// A feed-forward's weights.
pub(crate) enum FeedWeights {
    /// One for all rows.
    Dense(Box<Mlp>),
    /// A router and its experts.
    Experts { router: Matrix, experts: Vec<Mlp>, used: usize, renormalise: bool },
}

/// Gate (where gated), up and down.
pub(crate) struct Mlp {
    pub(crate) gate: Option<Linear>,
    pub(crate) up: Linear,
    pub(crate) down: Linear,
    pub(crate) formats: ActFormats,
}

impl Model {
    /// Reads the spec and loads its weights. `progress` gets the share that is done, from 0 to 1.
    ///
    /// # Errors
    /// What [`Spec::read`] refuses, missing or left-over tensors, wrong shapes, memory that cannot be had.
    pub fn load(
        opened: &Opened,
        compute: &Compute,
        precision: Precision,
        progress: &mut dyn FnMut(f32),
    ) -> Result<Model, Error> {
        Model::load_spec(Spec::read(opened)?, opened, compute, precision, progress)
    }

    /// Loads the weights of a spec that was read from the same file, perhaps with its context limited.
    ///
    /// # Errors
    /// As [`Model::load`].
    pub fn load_spec(
        spec: Spec,
        opened: &Opened,
        compute: &Compute,
        precision: Precision,
        progress: &mut dyn FnMut(f32),
    ) -> Result<Model, Error> {
        Model::load_cached(spec, opened, compute, precision, PackedCache::Off, progress)
            .map(|(model, _)| model)
    }

    /// As [`Model::load_spec`], with the matrices from a file of packed weights beside the model, if there is one that is
    /// of just these weights and of this machine; otherwise they are packed, and kept there once `progress` has got its 1. What was the matter with
    /// a file is told beside the model.
    ///
    /// # Errors
    /// As [`Model::load`]: a file that is of no use or cannot be written is no error.
    pub fn load_cached(
        spec: Spec,
        opened: &Opened,
        compute: &Compute,
        precision: Precision,
        cache: PackedCache,
        progress: &mut dyn FnMut(f32),
    ) -> Result<(Model, PackedCacheReport), Error> {
        let found = locate::locate_weights(opened, &Source::new(opened)?, &spec)?;
        let precision = with_q16_if_narrow(precision, &spec);
        let shelf = PackedStore::for_model(opened, &found, compute.tier, precision, cache);
        let mut cached = PackedCacheReport::default();
        let kept = shelf.as_ref().and_then(|shelf| shelf.take(compute, &mut cached));
        let fetched = kept.is_some();
        let (matrices, kept_backing) = kept.unzip();
        let mut store = WeightLoader {
            precision,
            spec: &spec,
            vectors: HashMap::new(),
            matrices: matrices.unwrap_or_default(),
            bytes: 0,
        };
        let backing = match kept_backing {
            Some(backing) => backing,
            None => store.pack(compute, &found, opened, progress)?,
        };
        for weight in found.iter().filter(|weight| weight.vector) {
            store.take_vector(weight)?;
        }
        opened.drop_pages();
        progress(1.0);
        if let Some(shelf) = shelf.filter(|_| !fetched) {
            shelf.put(&store.matrices, &mut cached);
        }
        store.bytes += store.matrices.values().map(Matrix::bytes).sum::<usize>();
        let blocks = (0..spec.layers.len()).map(|layer| store.block(layer)).collect();
        let embedding = store.matrix(WeightRole::Embedding);
        let final_norm = store.norm(WeightRole::FinalNorm, WeightRole::FinalNormBias);
        let head = store.matrices.remove(&WeightRole::Head);
        let head_bias = store.vectors.remove(&WeightRole::HeadBias);
        let bytes = store.bytes;
        let ropes = spec.ropes.iter().map(|r: &Rope| (r.inv_freq(spec.context), r.mscale())).collect();
        let model = Model { spec, embedding, blocks, final_norm, head, head_bias, ropes, bytes, backing };
        Ok((model, cached))
    }

    /// Bytes of packed weights.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// What the matrices' memory turned out to be, at the end of loading.
    #[must_use]
    pub fn backing(&self) -> Backing {
        self.backing
    }
}

/// The widest model that is computed with sixteen-bit activations throughout.
const Q16_MAX_WIDTH: usize = 768;

/// A narrow model is computed finer: its sums average rounding over fewer terms (measured:
/// docs/decisions/0009-fine-activations.md).
fn with_q16_if_narrow(precision: Precision, spec: &Spec) -> Precision {
    match precision {
        Precision::Fast if spec.width <= Q16_MAX_WIDTH => Precision::Fine,
        precision => precision,
    }
}

/// Loaded weights on their way into blocks.
struct WeightLoader<'a> {
    precision: Precision,
    spec: &'a Spec,
    vectors: HashMap<WeightRole, Vec<f32>>,
    matrices: HashMap<WeightRole, Matrix>,
    bytes: usize,
}

impl WeightLoader<'_> {
    /// Packs every matrix into one mapping, giving back the file's pages as they have been read.
    fn pack(
        &mut self,
        compute: &Compute,
        found: &[LocatedWeight<'_>],
        opened: &Opened,
        progress: &mut dyn FnMut(f32),
    ) -> Result<Backing, Error> {
        let mut arena = arena(found, compute.tier, self.precision)?;
        let matrices = || found.iter().filter(|weight| !weight.vector);
        let total: u64 = matrices().map(|weight| weight.bytes.len() as u64).sum();
        let mut done = 0_u64;
        for weight in matrices() {
            self.take_matrix(compute, &mut arena, weight, opened)?;
            done += weight.bytes.len() as u64;
            progress(done as f32 / total.max(1) as f32);
        }
        Ok(arena.backing())
    }

    /// Packs one matrix. A weight that is NaN or infinite is refused: a model that holds one answers nonsense to
    /// everything.
    fn take_matrix(
        &mut self,
        compute: &Compute,
        arena: &mut Arena,
        weight: &LocatedWeight<'_>,
        opened: &Opened,
    ) -> Result<(), Error> {
        let packed = Matrix::pack_into(
            compute,
            arena,
            weight.dtype,
            weight.rows,
            weight.cols,
            weight.bytes,
            self.precision,
            &|range| opened.drop_pages_of(&weight.bytes[range]),
        )
        .map_err(|error| match error {
            kernels::Error::Weights(source) => Error::Weights { name: weight.name.clone(), source },
            source => Error::Pack { name: weight.name.clone(), source },
        })?;
        self.matrices.insert(weight.role, packed);
        Ok(())
    }

    /// Reads one vector, whose numbers must be finite likewise.
    fn take_vector(&mut self, weight: &LocatedWeight<'_>) -> Result<(), Error> {
        tensor::check_finite(weight.dtype, weight.bytes)
            .map_err(|source| Error::Weights { name: weight.name.clone(), source })?;
        let mut values = floats(&weight.name, weight.dtype, weight.bytes)?;
        if self.spec.norm.plus_one && weight.role.is_norm() {
            values.iter_mut().for_each(|v| *v += 1.0);
        }
        self.bytes += 4 * values.len();
        self.vectors.insert(weight.role, values);
        Ok(())
    }

    fn block(&mut self, layer: usize) -> Block {
        let role = |part| WeightRole::Layer(layer, part);
        let query = self.linear(role(LayerWeight::Query), role(LayerWeight::QueryBias));
        let key = self.linear(role(LayerWeight::Key), role(LayerWeight::KeyBias));
        let value = self.linear(role(LayerWeight::Value), role(LayerWeight::ValueBias));
        let qkv_formats = query.matrix.activations() | key.matrix.activations() | value.matrix.activations();
        let feed_norm = self.vectors.contains_key(&role(LayerWeight::FeedNorm));
        Block {
            attention_norm: self.norm(role(LayerWeight::AttentionNorm), role(LayerWeight::AttentionNormBias)),
            query,
            key,
            value,
            qkv_formats,
            query_norm: self.vectors.remove(&role(LayerWeight::QueryNorm)),
            key_norm: self.vectors.remove(&role(LayerWeight::KeyNorm)),
            out: self.linear(role(LayerWeight::Out), role(LayerWeight::OutBias)),
            attention_post_norm: self.vectors.remove(&role(LayerWeight::AttentionPostNorm)),
            feed_norm: feed_norm
                .then(|| self.norm(role(LayerWeight::FeedNorm), role(LayerWeight::FeedNormBias))),
            feed: self.feed(layer),
            feed_post_norm: self.vectors.remove(&role(LayerWeight::FeedPostNorm)),
        }
    }

    fn feed(&mut self, layer: usize) -> FeedWeights {
        let role = |part| WeightRole::Layer(layer, part);
        match self.spec.layers[layer].feed {
            FeedForward::Dense { .. } => {
                let gate = self.matrices.contains_key(&role(LayerWeight::Gate));
                let gate = gate.then(|| self.linear(role(LayerWeight::Gate), role(LayerWeight::GateBias)));
                let up = self.linear(role(LayerWeight::Up), role(LayerWeight::UpBias));
                let down = self.linear(role(LayerWeight::Down), role(LayerWeight::DownBias));
                FeedWeights::Dense(Box::new(Mlp::new(gate, up, down)))
            }
            FeedForward::Experts { count, used, renormalise, .. } => {
                let expert = |index| {
                    let mut plain = |part| Linear { matrix: self.matrix(role(part)), bias: None };
                    let gate = plain(LayerWeight::ExpertGate(index));
                    let (up, down) =
                        (plain(LayerWeight::ExpertUp(index)), plain(LayerWeight::ExpertDown(index)));
                    Mlp::new(Some(gate), up, down)
                };
                let experts = (0..count).map(expert).collect();
                FeedWeights::Experts {
                    router: self.matrix(role(LayerWeight::Router)),
                    experts,
                    used,
                    renormalise,
                }
            }
        }
    }

    fn norm(&mut self, weight: WeightRole, bias: WeightRole) -> NormWeights {
        let weight =
            self.vectors.remove(&weight).expect("the ledger closed: every declared weight was found");
        NormWeights { weight, bias: self.vectors.remove(&bias) }
    }

    fn linear(&mut self, matrix: WeightRole, bias: WeightRole) -> Linear {
        Linear { matrix: self.matrix(matrix), bias: self.vectors.remove(&bias) }
    }

    fn matrix(&mut self, role: WeightRole) -> Matrix {
        self.matrices.remove(&role).expect("the ledger closed: every declared weight was found")
    }
}

impl Block {
    pub(crate) fn prefill_numerics_differ(&self) -> bool {
        let differs = |matrix: &Matrix| matrix.activations().q8_decode_bf16_prefill;
        let mlp = |mlp: &Mlp| mlp.formats.q8_decode_bf16_prefill || differs(&mlp.down.matrix);
        let feed = match &self.feed {
            FeedWeights::Dense(dense) => mlp(dense),
            FeedWeights::Experts { router, experts, .. } => differs(router) || experts.iter().any(mlp),
        };
        self.qkv_formats.q8_decode_bf16_prefill || differs(&self.out.matrix) || feed
    }
}

impl Mlp {
    fn new(gate: Option<Linear>, up: Linear, down: Linear) -> Mlp {
        let mut formats = up.matrix.activations();
        if let Some(gate) = &gate {
            formats = formats | gate.matrix.activations();
        }
        Mlp { gate, up, down, formats }
    }
}

/// Room for every matrix.
fn arena(found: &[LocatedWeight], tier: Tier, precision: Precision) -> Result<Arena, Error> {
    let packed = || found.iter().filter(|w| !w.vector).map(|w| w.packed_bytes(tier, precision));
    let lengths = packed().map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
    let bytes = packed().fold(0, u64::saturating_add);
    Arena::new(lengths).map_err(|source| Error::Memory { bytes, source })
}
