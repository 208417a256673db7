//! From tensors in a file to packed weights, one place for every family.
//!
//! First every weight of [`Spec::weights`] is found, its shape checked and the ledger closed, so that a broken file is
//! refused before any work. Then each is read once, checked and packed in the order of the layers into one mapping, and
//! the file's pages are given back as the loading goes on: the peak is the packed weights and a megabyte or two a thread.
//! Where packed weights are kept beside the model (see [`crate::packed`]), its matrices are those, and only vectors are read.

use crate::error::Error;
use crate::memory::PackedWeight;
use crate::names::{self, Place, Slice};
use crate::packed::{Cached, PackedCache, PackedStore};
use crate::rope::Rope;
use crate::source::{Source, missing};
use crate::spec::{Feed, Part, Role, Spec, WeightDecl};
use cpu::{Arena, Backing, Tier};
use kernels::{ActFormats, Compute, Matrix, Precision};
use std::collections::{HashMap, HashSet};
use tensor::Dtype;
use weights::{Opened, Tensor};

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

/// A weight found in the file, not yet read.
pub(crate) struct Found<'a> {
    pub(crate) role: Role,
    name: String,
    pub(crate) dtype: Dtype,
    /// Rows and columns; a vector is one row.
    pub(crate) rows: usize,
    pub(crate) cols: usize,
    pub(crate) vector: bool,
    pub(crate) bytes: &'a [u8],
}

impl Found<'_> {
    /// Bytes that it takes once loaded.
    pub(crate) fn packed_bytes(&self, tier: Tier, precision: Precision) -> u64 {
        if self.vector {
            return 4 * self.cols as u64;
        }
        Matrix::packed_bytes(tier, self.dtype, self.rows, self.cols, precision)
    }

    pub(crate) fn packed(&self, tier: Tier, precision: Precision) -> PackedWeight {
        PackedWeight {
            role: self.role,
            dtype: self.dtype,
            rows: self.rows,
            cols: self.cols,
            vector: self.vector,
            bytes: self.packed_bytes(tier, precision),
        }
    }
}

/// Finds every weight of the spec in the file, checks its shape and closes the ledger.
pub(crate) fn find<'a>(opened: &'a Opened, source: &Source, spec: &Spec) -> Result<Vec<Found<'a>>, Error> {
    let mut ledger = opened.ledger();
    let mut claimed = HashSet::new();
    let mut found = Vec::new();
    for decl in spec.weights() {
        let places = names::places(source, spec, decl.role);
        let place =
            places.iter().find(|p| fits(opened, p)).or_else(|| places.iter().find(|p| source.has(&p.name)));
        let Some(place) = place else {
            if let Some(usual) = places.first() {
                ledger.claim(&usual.name);
            }
            continue;
        };
        if claimed.insert(place.name.clone()) {
            ledger.claim(&place.name);
        }
        found.push(cut(opened, place, &decl)?);
    }
    for tensor in opened.tensors() {
        if names::ignorable(tensor.name, spec) {
            ledger.waive(tensor.name);
        }
    }
    ledger.close()?;
    Ok(found)
}

/// Whether the file has a tensor at this place with as many rows as the place expects.
fn fits(opened: &Opened, place: &Place) -> bool {
    let Some(tensor) = opened.info(&place.name) else { return false };
    match place.slice {
        Slice::Whole => true,
        Slice::Rows { of, .. } => tensor.shape.first() == Some(&of),
        Slice::Expert { count, of, .. } => tensor.shape.len() == 3 && tensor.shape[..2] == [count, of],
    }
}

/// The tensor `name`, of any type that weights may have.
///
/// # Errors
/// When the file lacks the tensor, or its type is not computed with.
pub(crate) fn tensor<'a>(opened: &'a Opened, name: &str) -> Result<Tensor<'a>, Error> {
    let info = opened.info(name).ok_or_else(|| missing(&format!("tensor {name}")))?;
    opened.tensor(name).ok_or_else(|| Error::TensorType {
        name: name.to_owned(),
        found: info.element.name(),
        supported: Dtype::supported(),
    })
}

/// The weight's bytes within its tensor, after checking the tensor's type and whole shape.
fn cut<'a>(opened: &'a Opened, place: &Place, decl: &WeightDecl) -> Result<Found<'a>, Error> {
    let tensor = tensor(opened, &place.name)?;
    let vector = decl.shape.len() == 1;
    if vector {
        vector_format(&place.name, tensor.dtype)?;
    }
    let (rows, cols) = if vector { (1, decl.shape[0]) } else { (decl.shape[0], decl.shape[1]) };
    let (expected, first, unit) = match place.slice {
        Slice::Whole => (decl.shape.clone(), 0, rows),
        Slice::Rows { first, of } if vector => (vec![of], first, cols),
        Slice::Rows { first, of } => (vec![of, cols], first, rows),
        Slice::Expert { index, count, first, of } => (vec![count, of, cols], index * of + first, rows),
    };
    let wrong_shape =
        || Error::Shape { name: place.name.clone(), found: tensor.shape.clone(), expected: expected.clone() };
    if tensor.shape != expected {
        return Err(wrong_shape());
    }
    let sliced_vector = vector && matches!(place.slice, Slice::Rows { .. });
    let row = if sliced_vector { 1 } else { cols };
    let row_bytes = tensor.dtype.row_bytes(row).ok_or_else(wrong_shape)?;
    let bytes = tensor.bytes.get(first * row_bytes..(first + unit) * row_bytes).ok_or_else(wrong_shape)?;
    let (name, dtype) = (place.name.clone(), tensor.dtype);
    Ok(Found { role: decl.role, name, dtype, rows, cols, vector, bytes })
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
    ) -> Result<(Model, Cached), Error> {
        let found = find(opened, &Source::new(opened)?, &spec)?;
        let precision = with_q16_if_narrow(precision, &spec);
        let shelf = PackedStore::beside(opened, &found, compute.tier, precision, cache);
        let mut cached = Cached::default();
        let kept = shelf.as_ref().and_then(|shelf| shelf.take(compute, &mut cached));
        let fetched = kept.is_some();
        let (matrices, kept_backing) = kept.unzip();
        let mut store = Store {
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
        let embedding = store.matrix(Role::Embedding);
        let final_norm = store.norm(Role::FinalNorm, Role::FinalNormBias);
        let head = store.matrices.remove(&Role::Head);
        let head_bias = store.vectors.remove(&Role::HeadBias);
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
struct Store<'a> {
    precision: Precision,
    spec: &'a Spec,
    vectors: HashMap<Role, Vec<f32>>,
    matrices: HashMap<Role, Matrix>,
    bytes: usize,
}

impl Store<'_> {
    /// Packs every matrix into one mapping, giving back the file's pages as they have been read.
    fn pack(
        &mut self,
        compute: &Compute,
        found: &[Found<'_>],
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
        weight: &Found<'_>,
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
    fn take_vector(&mut self, weight: &Found<'_>) -> Result<(), Error> {
        tensor::check_finite(weight.dtype, weight.bytes)
            .map_err(|source| Error::Weights { name: weight.name.clone(), source })?;
        let mut values = floats(&weight.name, weight.dtype, weight.bytes)?;
        if self.spec.norm.plus_one && is_norm(weight.role) {
            values.iter_mut().for_each(|v| *v += 1.0);
        }
        self.bytes += 4 * values.len();
        self.vectors.insert(weight.role, values);
        Ok(())
    }

    fn block(&mut self, layer: usize) -> Block {
        let role = |part| Role::Layer(layer, part);
        let query = self.linear(role(Part::Query), role(Part::QueryBias));
        let key = self.linear(role(Part::Key), role(Part::KeyBias));
        let value = self.linear(role(Part::Value), role(Part::ValueBias));
        let qkv_formats = query.matrix.activations() | key.matrix.activations() | value.matrix.activations();
        let feed_norm = self.vectors.contains_key(&role(Part::FeedNorm));
        Block {
            attention_norm: self.norm(role(Part::AttentionNorm), role(Part::AttentionNormBias)),
            query,
            key,
            value,
            qkv_formats,
            query_norm: self.vectors.remove(&role(Part::QueryNorm)),
            key_norm: self.vectors.remove(&role(Part::KeyNorm)),
            out: self.linear(role(Part::Out), role(Part::OutBias)),
            attention_post_norm: self.vectors.remove(&role(Part::AttentionPostNorm)),
            feed_norm: feed_norm.then(|| self.norm(role(Part::FeedNorm), role(Part::FeedNormBias))),
            feed: self.feed(layer),
            feed_post_norm: self.vectors.remove(&role(Part::FeedPostNorm)),
        }
    }

    fn feed(&mut self, layer: usize) -> FeedWeights {
        let role = |part| Role::Layer(layer, part);
        match self.spec.layers[layer].feed {
            Feed::Dense { .. } => {
                let gate = self.matrices.contains_key(&role(Part::Gate));
                let gate = gate.then(|| self.linear(role(Part::Gate), role(Part::GateBias)));
                let up = self.linear(role(Part::Up), role(Part::UpBias));
                let down = self.linear(role(Part::Down), role(Part::DownBias));
                FeedWeights::Dense(Box::new(Mlp::new(gate, up, down)))
            }
            Feed::Experts { count, used, renormalise, .. } => {
                let expert = |index| {
                    let mut plain = |part| Linear { matrix: self.matrix(role(part)), bias: None };
                    let gate = plain(Part::ExpertGate(index));
                    let (up, down) = (plain(Part::ExpertUp(index)), plain(Part::ExpertDown(index)));
                    Mlp::new(Some(gate), up, down)
                };
                let experts = (0..count).map(expert).collect();
                FeedWeights::Experts { router: self.matrix(role(Part::Router)), experts, used, renormalise }
            }
        }
    }

    fn norm(&mut self, weight: Role, bias: Role) -> NormWeights {
        let weight =
            self.vectors.remove(&weight).expect("the ledger closed: every declared weight was found");
        NormWeights { weight, bias: self.vectors.remove(&bias) }
    }

    fn linear(&mut self, matrix: Role, bias: Role) -> Linear {
        Linear { matrix: self.matrix(matrix), bias: self.vectors.remove(&bias) }
    }

    fn matrix(&mut self, role: Role) -> Matrix {
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
fn arena(found: &[Found], tier: Tier, precision: Precision) -> Result<Arena, Error> {
    let packed = || found.iter().filter(|w| !w.vector).map(|w| w.packed_bytes(tier, precision));
    let lengths = packed().map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
    let bytes = packed().fold(0, u64::saturating_add);
    Arena::new(lengths).map_err(|source| Error::Memory { bytes, source })
}

/// Refuses a format that vectors are not read from.
fn vector_format(name: &str, dtype: Dtype) -> Result<(), Error> {
    match dtype {
        Dtype::F32 | Dtype::F16 | Dtype::BF16 => Ok(()),
        other => Err(Error::VectorFormat { name: name.to_owned(), found: other.name() }),
    }
}

/// A vector's values.
pub(crate) fn floats(name: &str, dtype: Dtype, bytes: &[u8]) -> Result<Vec<f32>, Error> {
    let halves = |value: fn([u8; 2]) -> f32| bytes.as_chunks::<2>().0.iter().map(|&b| value(b)).collect();
    match dtype {
        Dtype::F32 => Ok(bytes.as_chunks::<4>().0.iter().map(|&b| f32::from_le_bytes(b)).collect()),
        Dtype::F16 => Ok(halves(|b| half::f16::from_le_bytes(b).to_f32())),
        Dtype::BF16 => Ok(halves(|b| half::bf16::from_le_bytes(b).to_f32())),
        other => Err(Error::VectorFormat { name: name.to_owned(), found: other.name() }),
    }
}

pub(crate) fn is_norm(role: Role) -> bool {
    match role {
        Role::FinalNorm => true,
        Role::Layer(_, part) => matches!(
            part,
            Part::AttentionNorm
                | Part::FeedNorm
                | Part::QueryNorm
                | Part::KeyNorm
                | Part::AttentionPostNorm
                | Part::FeedPostNorm
        ),
        Role::Embedding | Role::FinalNormBias | Role::Head | Role::HeadBias => false,
    }
}
