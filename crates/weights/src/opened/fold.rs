//! Finds the tensors of each quantized layer and makes one weight of them.

use std::collections::{HashMap, HashSet};

use tensor::Dtype;
use tensor::repack::{CodeLayout, Linear, ZeroLayout};

use super::entry::{Entry, Place, Recipe};
use super::repacked::Repacked;
use crate::element::Element;
use crate::huggingface::Method;

/// Endings of tensors beside a quantized weight that are about activations or the KV cache, which are not quantized so.
const UNREAD: [&str; 8] = [
    "input_scale",
    "input_zero_point",
    "output_scale",
    "output_zero_point",
    "k_scale",
    "v_scale",
    "q_scale",
    "prob_output_scale",
];
/// The most elements of such a tensor: one for each channel of a head would be more than is left unread.
const UNREAD_MAX: usize = 1;

/// The tensors of a model with each quantized layer as one weight, or the tensor that is not understood and why.
pub(super) fn fold<'a>(
    entries: &'a [Entry],
    method: Method,
    bytes: &dyn Fn(&Place) -> Option<&'a [u8]>,
) -> Result<Vec<Entry>, String> {
    let index: HashMap<&str, usize> = entries.iter().enumerate().map(|(i, e)| (e.name.as_str(), i)).collect();
    let (mut weights, mut consumed) = (HashMap::new(), HashSet::new());
    for (at, codes) in entries.iter().enumerate() {
        let Some((stem, kind)) = kind(codes, method) else { continue };
        let mut layer = Layer { entries, index: &index, stem, used: vec![at] };
        let weight = layer.weight(codes, kind, bytes)?;
        let checked = Repacked::new(&weight, |place| bytes(place)).map(|weight| weight.map(|_| ()));
        checked.unwrap_or(Ok(())).map_err(|error| format!("{stem}: {error}"))?;
        consumed.extend(layer.used);
        weights.insert(at, weight);
    }
    if weights.is_empty() {
        return Err("quantization_config in config.json, and no tensor that is quantized so".to_owned());
    }
    let unread = |entry: &Entry| {
        let last = entry.name.rsplit('.').next().unwrap_or_default();
        UNREAD.contains(&last) && entry.shape.iter().product::<usize>() <= UNREAD_MAX
    };
    let kept = entries.iter().enumerate().filter_map(|(at, entry)| match weights.remove(&at) {
        Some(weight) => Some(weight),
        None if consumed.contains(&at) || unread(entry) => None,
        None => Some(entry.clone()),
    });
    Ok(kept.collect())
}

/// What the codes of a layer are.
#[derive(Clone, Copy)]
enum Kind {
    Gptq { bits: u32, plus: u32 },
    Awq,
    Packed,
    Bytes { layout: CodeLayout, block: Option<(usize, usize)> },
}

/// The layer whose codes a tensor is.
fn kind(entry: &Entry, method: Method) -> Option<(&str, Kind)> {
    let (stem, last) = entry.name.rsplit_once('.')?;
    let kind = match (method, last, entry.element) {
        (Method::Gptq { bits, plus }, "qweight", _) => Kind::Gptq { bits, plus },
        (Method::Awq, "qweight", _) => Kind::Awq,
        (Method::Scaled { .. }, "weight_packed", _) => Kind::Packed,
        (Method::Scaled { block }, "weight", Element::Other("I8")) => {
            Kind::Bytes { layout: CodeLayout::Int8, block }
        }
        (Method::Scaled { block }, "weight", Element::Other("F8_E4M3")) => {
            Kind::Bytes { layout: CodeLayout::E4M3, block }
        }
        _ => return None,
    };
    Some((stem, kind))
}

/// A layer's tensors.
struct Layer<'a, 'i> {
    entries: &'a [Entry],
    index: &'i HashMap<&'a str, usize>,
    stem: &'a str,
    /// The tensors that were taken.
    used: Vec<usize>,
}

impl<'a> Layer<'a, '_> {
    fn take(&mut self, name: &str) -> Option<&'a Entry> {
        let at = *self.index.get(format!("{}.{name}", self.stem).as_str())?;
        self.used.push(at);
        Some(&self.entries[at])
    }

    fn need(&mut self, name: &str) -> Result<&'a Entry, String> {
        self.take(name).ok_or_else(|| format!("tensor {}.{name} is missing", self.stem))
    }

    /// The two dimensions of a tensor of integers.
    fn matrix(entry: &Entry, element: &str) -> Result<(usize, usize), String> {
        match entry.shape.as_slice() {
            &[rows, cols] if entry.element.name() == element && rows > 0 && cols > 0 => Ok((rows, cols)),
            shape => {
                let name = &entry.name;
                Err(format!("tensor {name} is {} {shape:?}, a matrix of {element} is read", entry.element))
            }
        }
    }

    fn weight(
        &mut self,
        codes: &Entry,
        kind: Kind,
        bytes: &dyn Fn(&Place) -> Option<&'a [u8]>,
    ) -> Result<Entry, String> {
        let (shape, recipe) = match kind {
            Kind::Gptq { bits, plus } => {
                let (words, rows) = Layer::matrix(codes, "I32")?;
                let zeros = self.need("qzeros")?;
                let shape = (rows, words.saturating_mul((32 / bits) as usize));
                let mut recipe = self.by_columns(shape, CodeLayout::Columns { bits })?;
                recipe.zeros = Some((place(zeros), ZeroLayout::Gptq { plus }));
                let order = self.take("g_idx");
                self.in_order(order, shape.1, recipe.scale_of.1, bytes)?;
                (shape, recipe)
            }
            Kind::Awq => {
                let (cols, words) = Layer::matrix(codes, "I32")?;
                let shape = (words.saturating_mul(8), cols);
                let mut recipe = self.by_columns(shape, CodeLayout::Awq)?;
                recipe.zeros = Some((place(self.need("qzeros")?), ZeroLayout::Awq));
                (shape, recipe)
            }
            Kind::Packed => self.packed(codes, bytes)?,
            Kind::Bytes { layout, block } => {
                let shape = Layer::matrix(codes, codes.element.name())?;
                if let Some(zeros) = self.take("weight_zero_point") {
                    return Err(format!("tensor {}; 8 bits are read without zero points", zeros.name));
                }
                (shape, self.by_rows(shape, layout, block)?)
            }
        };
        let dtype = Linear::becomes(recipe.layout, recipe.zeros.is_some());
        Ok(Entry {
            name: format!("{}.weight", self.stem),
            element: Element::Weights(dtype),
            shape: vec![shape.0, shape.1],
            part: codes.part,
            range: codes.range.clone(),
            recipe: Some(Box::new(recipe)),
        })
    }

    /// Codes of compressed-tensors, packed in words.
    fn packed(
        &mut self,
        codes: &Entry,
        bytes: &dyn Fn(&Place) -> Option<&'a [u8]>,
    ) -> Result<((usize, usize), Recipe), String> {
        let (rows, words) = Layer::matrix(codes, "I32")?;
        let shape = self.need("weight_shape")?;
        let cols = bytes(&place(shape)).and_then(|bytes| bytes.get(8..16)?.first_chunk::<8>());
        let cols = cols.and_then(|bytes| usize::try_from(i64::from_le_bytes(*bytes)).ok());
        let bits = cols.filter(|cols| *cols > 0).map(|cols| words.saturating_mul(32) / cols);
        let (Some(cols), Some(bits @ (4 | 8))) = (cols, bits) else {
            let bits = bits.map_or("no".to_owned(), |bits| bits.to_string());
            return Err(format!("tensor {} has {bits} bits a weight; 4 and 8 are read", codes.name));
        };
        let mut recipe = self.by_rows((rows, cols), CodeLayout::Rows { bits: bits as u32 }, None)?;
        if let Some(zeros) = self.take("weight_zero_point") {
            Layer::matrix(zeros, "I32")?;
            recipe.zeros = Some((place(zeros), ZeroLayout::RowsFirst));
        }
        let order = self.take("weight_g_idx");
        self.in_order(order, cols, recipe.scale_of.1, bytes)?;
        Ok(((rows, cols), recipe))
    }

    /// A recipe without zero points, whose scales are `[groups, rows]`.
    fn by_columns(&mut self, (rows, cols): (usize, usize), layout: CodeLayout) -> Result<Recipe, String> {
        let scales = self.need("scales")?;
        let scale_dtype = float(scales)?;
        let groups = scales.shape.first().copied().unwrap_or(0);
        if scales.shape != [groups, rows] || groups == 0 || !cols.is_multiple_of(groups) {
            let wanted = format!("a scale for each of {rows} rows and whole groups of {cols} columns");
            return Err(format!("tensor {} is {:?}, not {wanted}", scales.name, scales.shape));
        }
        let scale_of = (1, cols / groups);
        Ok(Recipe { layout, scales: place(scales), scale_dtype, scale_of, columns_first: true, zeros: None })
    }

    /// A recipe without zero points, whose scales are one, `[rows]`, or `[rows, groups]` with blocks of rows.
    fn by_rows(
        &mut self,
        (rows, cols): (usize, usize),
        layout: CodeLayout,
        block: Option<(usize, usize)>,
    ) -> Result<Recipe, String> {
        let scales = match self.take("weight_scale") {
            Some(scales) => scales,
            None => self.need("weight_scale_inv")?,
        };
        let scale_dtype = float(scales)?;
        let (row_groups, col_groups) = match scales.shape.as_slice() {
            [] => (1, 1),
            &[row_groups] => (row_groups, 1),
            &[row_groups, col_groups] => (row_groups, col_groups),
            _ => (0, 0),
        };
        let by_block =
            block.filter(|of| (rows.div_ceil(of.0), cols.div_ceil(of.1)) == (row_groups, col_groups));
        let whole =
            |size: usize, groups: usize| (groups > 0 && size.is_multiple_of(groups)).then(|| size / groups);
        let scale_of = by_block.or_else(|| Some((whole(rows, row_groups)?, whole(cols, col_groups)?)));
        let Some(scale_of) = scale_of else {
            let wanted = format!("a scale for whole blocks of {rows} × {cols}");
            return Err(format!("tensor {} is {:?}, not {wanted}", scales.name, scales.shape));
        };
        Ok(Recipe { layout, scales: place(scales), scale_dtype, scale_of, columns_first: false, zeros: None })
    }

    /// Whether columns are in the order of their groups.
    fn in_order(
        &self,
        order: Option<&Entry>,
        cols: usize,
        group: usize,
        bytes: &dyn Fn(&Place) -> Option<&'a [u8]>,
    ) -> Result<(), String> {
        let Some(order) = order else { return Ok(()) };
        let groups = bytes(&place(order)).unwrap_or_default().as_chunks::<4>().0;
        let group_of = |at: usize| i32::from_le_bytes(groups[at]);
        let fits = order.element.name() == "I32" && groups.len() == cols;
        // Minus one throughout is an order that was never set.
        let unset = fits && (0..cols).all(|at| group_of(at) == -1);
        if unset || fits && (0..cols).all(|at| usize::try_from(group_of(at)) == Ok(at / group)) {
            return Ok(());
        }
        Err(format!(
            "tensor {}: columns out of the order of their groups (desc_act, actorder); quantize with desc_act off",
            order.name
        ))
    }
}

fn place(entry: &Entry) -> Place {
    Place { part: entry.part, range: entry.range.clone() }
}

/// The format of a tensor of scales.
fn float(scales: &Entry) -> Result<Dtype, String> {
    match scales.element {
        Element::Weights(dtype @ (Dtype::F32 | Dtype::F16 | Dtype::BF16)) => Ok(dtype),
        other => Err(format!("tensor {} is {other}; scales are read in F32, F16 and BF16", scales.name)),
    }
}
