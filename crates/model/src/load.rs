//! Loads and packs the weights of a spec; the same code for every family.
//!
//! First every weight of [`Spec::weights`] is found, its shape checked and the ledger closed, so that a broken file is
//! refused before any work. Then each weight is read once, checked and packed in layer order into one mapping, and the
//! file's pages are released on the way: peak memory is the packed weights plus one or two megabytes a thread. With a
//! packed cache (`crate::packed`) the matrices come from its file, and only vectors are read from the model.

mod mixers;

use crate::alt_up::StreamProjections;
use crate::blocks::{
    Block, EncoderWeights, FeedWeights, Linear, MixtureWeights, Mlp, NormWeights, PredictionWeights, Shared,
};
use crate::error::Error;
use crate::locate::{self, EncoderFormat, LocatedWeight};
use crate::mixture::Mixture;
use crate::packed::{PackedCache, PackedCacheReport, PackedPlace, PackedStore, WeightsMemory};
use crate::packing::{Packer, Progress};
use crate::per_layer::PerLayerInputs;
use crate::relative;
use crate::rope::Rope;
use crate::source::Source;
use crate::spec::{FeedForward, Positions, Spec};
use crate::tensors::floats;
use crate::weight_role::{LayerWeight, WeightRole};
use cpu::Backing;
use kernels::{Compute, DistanceBias, Matrix, Precision, RelativeIndex, RowNorm};
use std::collections::HashMap;
use weights::Opened;

/// A loaded model: its spec and its packed weights.
pub struct Model {
    /// The dimensions, norms, rope and experts that the weights belong to.
    pub spec: Spec,
    pub(crate) embedding: Matrix,
    pub(crate) per_layer: Option<PerLayerInputs>,
    pub(crate) streams: Option<StreamProjections>,
    pub(crate) blocks: Vec<Block>,
    pub(crate) final_norm: Option<NormWeights>,
    pub(crate) prediction: Option<PredictionWeights>,
    pub(crate) head: Option<Matrix>,
    pub(crate) head_bias: Option<Vec<f32>>,
    pub(crate) encoder: EncoderWeights,
    /// Inverse frequencies and the factor on cos and sin, for each of the spec's ropes.
    pub(crate) ropes: Vec<(Vec<f32>, f32)>,
    bytes: usize,
    memory: WeightsMemory,
}

impl Model {
    /// Reads the spec and loads its weights. `progress` gets the share that is done, from 0 to 1.
    ///
    /// # Errors
    /// The errors of [`Spec::read`], missing or unused tensors, wrong shapes, NaN or infinite weights, or no memory.
    pub fn load(
        opened: &Opened,
        compute: &Compute,
        precision: Precision,
        progress: &mut dyn FnMut(f32),
    ) -> Result<Model, Error> {
        Model::load_spec(Spec::read(opened)?, opened, compute, precision, progress)
    }

    /// Loads the weights of a spec that was read from the same file; its context may have been limited since.
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

    /// As [`Model::load_spec`], but takes the matrices from the packed cache beside the model if its key matches these
    /// weights and this machine. Otherwise packs them, calls `progress(1.0)`, and then writes the cache. The report
    /// says which of the two happened, and why a cache could not be used or written.
    ///
    /// # Errors
    /// As [`Model::load`]. A packed cache that does not match or cannot be written is not an error.
    pub fn load_cached<'a>(
        spec: Spec,
        opened: &Opened,
        compute: &Compute,
        precision: Precision,
        cache: impl Into<PackedPlace<'a>>,
        progress: &mut dyn FnMut(f32),
    ) -> Result<(Model, PackedCacheReport), Error> {
        let cache = cache.into();
        let found = locate::locate_weights(opened, &Source::new(opened)?, &spec)?;
        let precision = with_q16_if_narrow(precision, &spec);
        Model::assemble(spec, opened, &found, compute, (precision, EncoderFormat::File), cache, progress)
    }

    /// Loads an encoder whose matrices are converted to `format`, from its packed cache as [`Model::load_cached`] does.
    ///
    /// # Errors
    /// As [`Model::load`].
    pub fn load_encoder<'a>(
        spec: Spec,
        opened: &Opened,
        compute: &Compute,
        (precision, format): (Precision, EncoderFormat),
        cache: impl Into<PackedPlace<'a>>,
        progress: &mut dyn FnMut(f32),
    ) -> Result<(Model, PackedCacheReport), Error> {
        let found = locate::locate_weights(opened, &Source::new(opened)?, &spec)?;
        let how = (precision, format);
        Model::assemble(spec, opened, &found, compute, how, cache.into(), progress)
    }

    fn assemble(
        spec: Spec,
        opened: &Opened,
        found: &[LocatedWeight<'_>],
        compute: &Compute,
        (precision, format): (Precision, EncoderFormat),
        cache: PackedPlace<'_>,
        progress: &mut dyn FnMut(f32),
    ) -> Result<(Model, PackedCacheReport), Error> {
        let packed_store = PackedStore::for_model(opened, found, compute.tier, (precision, format), cache);
        let packer = Packer { compute, opened, precision, format };
        let mut report = PackedCacheReport::default();
        let from_cache = match &packed_store {
            Some(packed_store) => packed_store.load_or_write(&spec, packer, found, &mut report, progress)?,
            None if matches!(cache.cache, PackedCache::Partial(_)) => return Err(Error::NoPlaceOnDisk),
            None => None,
        };
        let cache_used = from_cache.is_some();
        let (matrices, cache_memory) = from_cache.unzip();
        let mut loader = WeightLoader {
            spec: &spec,
            vectors: HashMap::new(),
            matrices: matrices.unwrap_or_default(),
            bytes: 0,
        };
        let packed = || loader.pack(packer, found, progress).map(WeightsMemory::Arena);
        let memory = cache_memory.map_or_else(packed, Ok)?;
        found.iter().filter(|weight| weight.vector).try_for_each(|weight| loader.take_vector(weight))?;
        opened.drop_pages();
        progress(1.0);
        if let Some(packed_store) = packed_store.filter(|_| !cache_used) {
            packed_store.write(&loader.matrices, &mut report);
        }
        let bytes = loader.bytes + loader.matrices.values().map(Matrix::bytes).sum::<usize>();
        let mut blocks: Vec<Block> = (0..spec.layers.len()).map(|layer| loader.block(layer)).collect();
        let embedding = loader.matrix(WeightRole::Embedding);
        let per_layer = loader.per_layer_inputs(opened, found)?;
        let final_norm = loader.optional_norm(WeightRole::FinalNorm, WeightRole::FinalNormBias);
        if let Some(relative) = loader.relative_embedding(compute) {
            relative::project(&spec, compute, precision, &relative, &mut blocks)?;
        }
        let encoder = loader.encoder();
        let ropes = spec.ropes.iter().map(|r: &Rope| (r.inv_freq(spec.context), r.mscale())).collect();
        let model = Model {
            prediction: loader.prediction(),
            head: loader.matrices.remove(&WeightRole::Head),
            streams: loader.stream_projections(),
            head_bias: loader.vectors.remove(&WeightRole::HeadBias),
            spec,
            embedding,
            per_layer,
            blocks,
            final_norm,
            encoder,
            ropes,
            bytes,
            memory,
        };
        Ok((model, report))
    }

    /// Bytes of the packed weights, vectors included.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The kind of memory that holds the matrices (huge pages or not), as found after loading; of a mapped file as it is
    /// found now.
    #[must_use]
    pub fn backing(&self) -> Backing {
        self.memory.backing()
    }
}

/// The largest `width` for which all activations are quantized to 16 bits.
const Q16_MAX_WIDTH: usize = 768;

/// Selects 16-bit activations for narrow models: their dot products average rounding errors over fewer terms
/// (docs/decisions/0009-fine-activations.md).
fn with_q16_if_narrow(precision: Precision, spec: &Spec) -> Precision {
    match precision {
        Precision::Fast if spec.width <= Q16_MAX_WIDTH => Precision::Fine,
        precision => precision,
    }
}

/// Collects loaded weights by role, and assembles them into blocks.
pub(crate) struct WeightLoader<'a> {
    pub(crate) spec: &'a Spec,
    pub(crate) vectors: HashMap<WeightRole, Vec<f32>>,
    matrices: HashMap<WeightRole, Matrix>,
    bytes: usize,
}

impl WeightLoader<'_> {
    /// Packs every matrix into one mapping.
    fn pack(
        &mut self,
        packer: Packer<'_>,
        found: &[LocatedWeight<'_>],
        progress: &mut dyn FnMut(f32),
    ) -> Result<Backing, Error> {
        let mut arena = packer.arena(found)?;
        let mut packed = Progress::new(found, progress);
        for weight in found.iter().filter(|weight| weight.is_packed()) {
            self.matrices.insert(weight.role, packer.pack(&mut arena, weight)?);
            packed.add(weight);
        }
        Ok(arena.backing())
    }

    /// Reads one vector as f32; NaN and infinity are errors, as in a matrix.
    fn take_vector(&mut self, weight: &LocatedWeight<'_>) -> Result<(), Error> {
        let arranged = weight.in_rows();
        let bytes = arranged.as_deref().unwrap_or(weight.bytes);
        tensor::check_finite(weight.dtype, bytes)
            .map_err(|source| Error::Weights { name: weight.name.clone(), source })?;
        let mut values = floats(&weight.name, weight.dtype, bytes)?;
        if self.spec.norm.plus_one && weight.role.is_norm() {
            values.iter_mut().for_each(|v| *v += 1.0);
        }
        self.bytes += 4 * values.len();
        self.vectors.insert(weight.role, values);
        Ok(())
    }

    fn block(&mut self, layer: usize) -> Block {
        let role = |part| WeightRole::Layer(layer, part);
        Block {
            attention_norm: self
                .optional_norm(role(LayerWeight::AttentionNorm), role(LayerWeight::AttentionNormBias)),
            relative: None,
            position_key: self
                .optional_linear(role(LayerWeight::PositionKey), role(LayerWeight::PositionKeyBias)),
            position_query: self
                .optional_linear(role(LayerWeight::PositionQuery), role(LayerWeight::PositionQueryBias)),
            mixer: self.mixer(layer),
            out: self.optional_linear(role(LayerWeight::Out), role(LayerWeight::OutBias)),
            attention_post_norm: self.optional_norm(
                role(LayerWeight::AttentionPostNorm),
                role(LayerWeight::AttentionPostNormBias),
            ),
            feed_norm: self.optional_norm(role(LayerWeight::FeedNorm), role(LayerWeight::FeedNormBias)),
            feed: self.feed(layer),
            feed_post_norm: self
                .optional_norm(role(LayerWeight::FeedPostNorm), role(LayerWeight::FeedPostNormBias)),
            per_layer: self.per_layer(layer),
            alt_up: self.alt_up(layer).map(Box::new),
            scale: self
                .vectors
                .remove(&role(LayerWeight::Scale))
                .and_then(|one| one.first().copied())
                .unwrap_or(1.0),
        }
    }

    fn feed(&mut self, layer: usize) -> FeedWeights {
        let role = |part| WeightRole::Layer(layer, part);
        match self.spec.layers[layer].feed {
            FeedForward::None => FeedWeights::None,
            FeedForward::Dense { .. } => {
                let gate = self.matrices.contains_key(&role(LayerWeight::Gate));
                let gate = gate.then(|| self.linear(role(LayerWeight::Gate), role(LayerWeight::GateBias)));
                let up = self.linear(role(LayerWeight::Up), role(LayerWeight::UpBias));
                let down = self.linear(role(LayerWeight::Down), role(LayerWeight::DownBias));
                let cutoff = self.spec.layers[layer].gate_cutoff;
                FeedWeights::Dense(Box::new(Mlp { cutoff, ..Mlp::new(gate, up, down) }))
            }
            FeedForward::Experts(mixture) => FeedWeights::Experts(Box::new(self.mixture(layer, mixture))),
        }
    }

    fn mixture(&mut self, layer: usize, mixture: Mixture) -> MixtureWeights {
        let role = |part| WeightRole::Layer(layer, part);
        let mut biases = |part| self.vectors.remove(&role(part));
        let gates = biases(LayerWeight::ExpertGateBiases);
        let ups = biases(LayerWeight::ExpertUpBiases);
        let downs = biases(LayerWeight::ExpertDownBiases);
        let bias = biases(LayerWeight::RouterBias);
        let expert = |index| {
            let mut of = |part, biases: &Option<Vec<f32>>| {
                let matrix = self.matrices.remove(&role(part))?;
                let rows = matrix.rows();
                Some(Linear { matrix, bias: biases.as_ref().map(|all| all[index * rows..][..rows].to_vec()) })
            };
            let gate = of(LayerWeight::ExpertGate(index), &gates);
            let up = of(LayerWeight::ExpertUp(index), &ups).expect(FOUND);
            let down = of(LayerWeight::ExpertDown(index), &downs).expect(FOUND);
            Mlp::new(gate, up, down)
        };
        let experts = (0..mixture.count).map(expert).collect();
        let shared = mixture.shared.map(|_| {
            let mut of = |part| self.matrices.remove(&role(part));
            let gate = of(LayerWeight::SharedRouter);
            let mut linear = |part| of(part).map(|matrix| Linear { matrix, bias: None });
            let inner = linear(LayerWeight::SharedGate);
            let up = linear(LayerWeight::SharedUp).expect(FOUND);
            let down = linear(LayerWeight::SharedDown).expect(FOUND);
            Shared { mlp: Mlp::new(inner, up, down), gate }
        });
        let beside = mixture.beside.then(|| self.beside(layer));
        MixtureWeights::new(mixture, (self.matrix(role(LayerWeight::Router)), bias), experts, shared, beside)
    }

    pub(crate) fn optional_norm(&mut self, weight: WeightRole, bias: WeightRole) -> Option<NormWeights> {
        let weight = self.vectors.remove(&weight)?;
        Some(NormWeights { weight, bias: self.vectors.remove(&bias) })
    }

    fn encoder(&mut self) -> EncoderWeights {
        let spec = self.spec;
        let (count, norms) = spec.encoder.as_ref().map_or((0, 0), |h| (h.linears.len(), h.norms.len()));
        let relative = self.vectors.remove(&WeightRole::RelativeBias);
        EncoderWeights {
            position: self.vectors.remove(&WeightRole::Position),
            token_type: self.vectors.remove(&WeightRole::TokenType),
            embedding_norm: self.optional_norm(WeightRole::EmbeddingNorm, WeightRole::EmbeddingNormBias),
            bias: distance_bias(spec, relative),
            relative_index: match spec.positions {
                Positions::Disentangled { buckets: 0, max_distance, .. } => {
                    Some(RelativeIndex::exact(max_distance))
                }
                Positions::Disentangled { buckets, max_distance, .. } => {
                    Some(RelativeIndex::buckets(buckets, max_distance))
                }
                _ => None,
            },
            linears: (0..count)
                .map(|index| self.linear(WeightRole::Task(index), WeightRole::TaskBias(index)))
                .collect(),
            norms: (0..norms)
                .filter_map(|i| self.optional_norm(WeightRole::TaskNorm(i), WeightRole::TaskNormBias(i)))
                .collect(),
        }
    }

    /// The relative embedding of disentangled attention, normalised if the model does so.
    fn relative_embedding(&mut self, compute: &Compute) -> Option<Vec<f32>> {
        let mut table = self.vectors.remove(&WeightRole::Relative)?;
        if let Some(norm) = self.optional_norm(WeightRole::RelativeNorm, WeightRole::RelativeNormBias) {
            let own = table.clone();
            let eps = self.spec.norm.eps;
            RowNorm { weight: &norm.weight, bias: norm.bias.as_deref(), eps, mean: true }
                .rows(compute, &own, &mut table);
        }
        Some(table)
    }

    pub(crate) fn linear(&mut self, matrix: WeightRole, bias: WeightRole) -> Linear {
        Linear { matrix: self.matrix(matrix), bias: self.vectors.remove(&bias) }
    }

    pub(crate) fn optional_linear(&mut self, matrix: WeightRole, bias: WeightRole) -> Option<Linear> {
        let matrix = self.matrices.remove(&matrix)?;
        Some(Linear { matrix, bias: self.vectors.remove(&bias) })
    }

    pub(crate) fn vector(&mut self, role: WeightRole) -> Vec<f32> {
        self.vectors.remove(&role).expect(FOUND)
    }

    pub(crate) fn matrix(&mut self, role: WeightRole) -> Matrix {
        self.matrices.remove(&role).expect(FOUND)
    }
}

/// Why no declared weight is missing when blocks are assembled.
const FOUND: &str = "the ledger closed: every declared weight was found";

/// The biases of scores by distance, with one of the model's context on each side.
fn distance_bias(spec: &Spec, table: Option<Vec<f32>>) -> Option<DistanceBias> {
    match (spec.positions, table) {
        (Positions::Alibi, _) => Some(DistanceBias::alibi(spec.heads, spec.context)),
        (Positions::Buckets { buckets, max_distance, .. }, Some(table)) => {
            Some(DistanceBias::buckets(&table, spec.heads, buckets, max_distance))
        }
        _ => None,
    }
}
