//! Class labels: integers or texts.

use crate::error::Problem;
use crate::operator::Maker;
use crate::value::{Data, Tensor};

/// The labels of a classifier, by class.
pub(super) enum Labels {
    Ints(Vec<i64>),
    Texts(Vec<String>),
}

impl Labels {
    /// The labels in two attributes, of which texts come first.
    pub(super) fn read(maker: &Maker, ints: &str, texts: &str) -> Result<Labels, Problem> {
        let ints = maker.attributes.ints(ints)?.to_vec();
        let texts = maker.attributes.texts(texts)?;
        Ok(if texts.is_empty() { Labels::Ints(ints) } else { Labels::Texts(texts) })
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Labels::Ints(labels) => labels.len(),
            Labels::Texts(labels) => labels.len(),
        }
    }

    /// One label a row, made of its class.
    pub(super) fn tensor(&self, classes: &[Class]) -> Tensor {
        Tensor::vector(match self {
            Labels::Ints(labels) => Data::I64(
                classes
                    .iter()
                    .map(|class| match *class {
                        Class::At(at) => labels.get(at).copied().unwrap_or(at as i64),
                        Class::Raw(number) => number,
                    })
                    .collect(),
            ),
            Labels::Texts(labels) => Data::String(
                classes
                    .iter()
                    .map(|class| match *class {
                        Class::At(at) => labels.get(at).cloned().unwrap_or_else(|| at.to_string()),
                        Class::Raw(number) => number.to_string(),
                    })
                    .collect(),
            ),
        })
    }

    pub(super) fn bytes(&self) -> usize {
        match self {
            Labels::Ints(labels) => size_of_val(&**labels),
            Labels::Texts(labels) => labels.iter().map(|text| size_of::<String>() + text.len()).sum(),
        }
    }
}

/// The class of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// The label at an index.
    At(usize),
    /// A number that is the label itself, where ONNX Runtime does not look at the labels.
    Raw(i64),
}
