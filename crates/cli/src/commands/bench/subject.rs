//! What is measured: a model file, or a shape.

use cpu::Pool;
use cpu::measure::Numbers;
use model::Spec;
use model::shapes::{self, Recipe, Shape};
use tensor::Dtype;
use weights::{Element, Opened};

use crate::found::Found;
use crate::{Failure, details, store};

/// Where random weights start; any number would do, and the same one makes runs comparable.
pub(super) const SEED: u64 = 1;

pub(super) enum Subject {
    File(String),
    Shape(&'static Shape, &'static Recipe),
}

/// An encoder, or something else.
pub(super) enum Either {
    Encoder(Box<Found>),
    Other(Subject),
}

/// The shape and its formats, by `NAME:FORMAT`.
///
/// # Errors
/// A name that is unknown, with those that are known: a command line that makes no sense.
pub(super) fn shape(text: &str) -> Result<(&'static Shape, &'static Recipe), Failure> {
    shapes::parse(text).map_err(|error| Failure::usage(error.to_string()))
}

impl Subject {
    /// All that the command line names, models first; a model whose name is a shape's, and no file's or the catalog's, is
    /// that shape.
    ///
    /// # Errors
    /// None at all, or an unknown shape.
    pub(super) fn all(models: &[String], shapes: &[String]) -> Result<Vec<Subject>, Failure> {
        let mut all = Vec::new();
        for (text, is_shape) in
            models.iter().map(|m| (m, store::is_shape(m))).chain(shapes.iter().map(|s| (s, true)))
        {
            if is_shape {
                let (shape, recipe) = shape(text)?;
                all.push(Subject::Shape(shape, recipe));
            } else {
                all.push(Subject::File(text.clone()));
            }
        }
        if all.is_empty() {
            return Err(Failure::usage("nothing to measure: give a MODEL or a --shape"));
        }
        Ok(all)
    }

    /// The encoder that it is, if it is one.
    ///
    /// # Errors
    /// No such model, or a damaged one.
    pub(super) fn encoder(self) -> Result<Either, Failure> {
        let Subject::File(name) = &self else { return Ok(Either::Other(self)) };
        let found = Found::find(name)?;
        Ok(if found.encodes() { Either::Encoder(Box::new(found)) } else { Either::Other(self) })
    }

    pub(super) fn label(&self) -> String {
        match self {
            Subject::File(name) => name.clone(),
            Subject::Shape(shape, recipe) => shape.label(recipe),
        }
    }

    /// Opens the file, pulled if it is not there, or makes the shape's weights.
    ///
    /// # Errors
    /// No such model, or a damaged one.
    pub(super) fn open(&self, pool: &Pool) -> Result<Opened, Failure> {
        match self {
            Subject::File(name) => Ok(weights::open(&store::resolve(name)?)?),
            Subject::Shape(shape, recipe) => Ok(shape.open(recipe, SEED, pool)?),
        }
    }
}

/// What the report says of a model.
pub(super) struct About {
    /// As the command line names it.
    pub(super) label: String,
    /// Its path; a shape's label.
    pub(super) file: String,
    /// Family and the format of most of its bytes.
    pub(super) kind: String,
    /// Bytes of its tensors as a file holds them.
    pub(super) bytes: u64,
    pub(super) parameters: u64,
    /// What most of its multiplies are made of.
    pub(super) numbers: Numbers,
}

impl About {
    pub(super) fn new(label: String, opened: &Opened, spec: &Spec) -> About {
        let of = |dtype: Dtype| -> usize {
            opened.tensors().filter(|t| t.element == Element::Weights(dtype)).map(|t| t.bytes).sum()
        };
        let main = Dtype::ALL.into_iter().max_by_key(|&dtype| of(dtype)).unwrap_or(Dtype::F32);
        About {
            label,
            file: opened.path().display().to_string(),
            kind: format!("{} {main}", spec.family),
            bytes: details::tensor_bytes(opened),
            parameters: spec.parameters(),
            numbers: numbers(main),
        }
    }
}

/// What a product with weights of this format multiplies.
pub(super) fn numbers(dtype: Dtype) -> Numbers {
    match dtype {
        Dtype::BF16 => Numbers::Bf16,
        Dtype::F16 | Dtype::F32 => Numbers::F32,
        _ => Numbers::Int8,
    }
}
