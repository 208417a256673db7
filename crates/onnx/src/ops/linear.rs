//! `LinearClassifier` and `LinearRegressor`.

use super::labels::{Class, Labels};
use super::numbers::floats;
use super::transform::{PostTransform, Second};
use crate::error::Problem;
use crate::operator::{Inputs, Made, Maker, Operator};
use crate::options::{Rows, RunOptions};
use crate::value::{Data, Tensor, Value};

/// Rows that a thread takes at a time.
const ROWS: usize = 64;

/// Coefficients `[targets, features]` and what is added to each product.
struct Linear {
    coefficients: Vec<f32>,
    intercepts: Vec<f32>,
    targets: usize,
}

impl Linear {
    /// The products with each row of `x`, `[rows, targets]`.
    fn scores(&self, x: &Tensor, run: &RunOptions) -> Result<(usize, Vec<f32>), Problem> {
        let (rows, features) = x.matrix()?;
        if features * self.targets != self.coefficients.len() {
            return Err(Problem::Said(format!(
                "rows have {features} features, and the {} coefficients are for {}",
                self.coefficients.len(),
                self.coefficients.len() / self.targets.max(1)
            )));
        }
        let x = floats(x)?;
        let mut out = vec![0.0; rows * self.targets];
        let row_ns = self.coefficients.len() / 8;
        run.row_blocks(&mut out, self.targets, Rows { block: ROWS, row_ns }, &|first, out| {
            for (row, out) in out.chunks_mut(self.targets).enumerate() {
                let x = &x[(first + row) * features..][..features];
                for (target, out) in out.iter_mut().enumerate() {
                    let weights = &self.coefficients[target * features..][..features];
                    *out = dot(x, weights) + self.intercepts.get(target).copied().unwrap_or_default();
                }
            }
        })?;
        Ok((rows, out))
    }

    fn bytes(&self) -> usize {
        size_of_val(&*self.coefficients) + size_of_val(&*self.intercepts)
    }
}

/// The sum of products, in eight partial sums that vector registers hold.
pub(super) fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut sums = [0.0f32; 8];
    let (a_chunks, a_rest) = a.as_chunks::<8>();
    let (b_chunks, b_rest) = b.as_chunks::<8>();
    for (a, b) in a_chunks.iter().zip(b_chunks) {
        for lane in 0..8 {
            sums[lane] += a[lane] * b[lane];
        }
    }
    let rest: f32 = a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum();
    sums.iter().sum::<f32>() + rest
}

struct Classifier {
    linear: Linear,
    labels: Labels,
    transform: PostTransform,
}

pub(super) fn classifier(maker: &mut Maker) -> Made {
    let attributes = &maker.attributes;
    let labels = Labels::read(maker, "classlabels_ints", "classlabels_strings")?;
    let transform = PostTransform::named(&attributes.text_or("post_transform", "NONE")?)?;
    let coefficients = attributes.floats("coefficients")?.to_vec();
    let intercepts = attributes.floats("intercepts")?.to_vec();
    attributes.ignore("multi_class");
    // The number of classes is that of the intercepts, as in ONNX Runtime.
    let targets = intercepts.len();
    if targets == 0 || !coefficients.len().is_multiple_of(targets) {
        let (n, m) = (coefficients.len(), targets);
        return Err(Problem::Said(format!("{n} coefficients do not divide among {m} intercepts")));
    }
    if targets > 1 && labels.len() < targets {
        return Err(Problem::Said(format!("it has {} class labels for {targets} classes", labels.len())));
    }
    let linear = Linear { coefficients, intercepts, targets };
    Ok(Box::new(Classifier { linear, labels, transform }))
}

impl Operator for Classifier {
    fn run(&self, inputs: &Inputs, run: &RunOptions) -> Result<Vec<Value>, Problem> {
        let (rows, mut scores) = self.linear.scores(inputs.tensor(0)?, run)?;
        let targets = self.linear.targets;
        let two_labels = self.labels.len() == 2;
        let class = |row: &[f32]| match *row {
            [score] if two_labels => Class::At(usize::from(score > 0.0)),
            [score] => Class::Raw(i64::from(score > 0.0)),
            _ => Class::At(highest(row)),
        };
        let classes: Vec<Class> = scores.chunks(targets).map(class).collect();
        let labels = self.labels.tensor(&classes);
        if targets == 1 && two_labels {
            let mut out = vec![0.0; rows * 2];
            // The score is taken for a probability, whatever the transform but PROBIT, as in ONNX Runtime.
            for (pair, &score) in out.chunks_mut(2).zip(&scores) {
                self.transform.apply_single(score, Second::Complement, pair);
            }
            return Ok(vec![labels.into(), Tensor::new(vec![rows, 2], Data::F32(out))?.into()]);
        }
        if targets > 1 || self.transform == PostTransform::Probit {
            scores.chunks_mut(targets).for_each(|row| self.transform.apply(row));
        }
        Ok(vec![labels.into(), Tensor::new(vec![rows, targets], Data::F32(scores))?.into()])
    }

    fn bytes(&self) -> usize {
        self.linear.bytes() + self.labels.bytes()
    }
}

/// The index of the first highest score.
pub(super) fn highest(scores: &[f32]) -> usize {
    let mut best = 0;
    for (at, score) in scores.iter().enumerate() {
        if *score > scores[best] {
            best = at;
        }
    }
    best
}

struct Regressor {
    linear: Linear,
    transform: PostTransform,
}

pub(super) fn regressor(maker: &mut Maker) -> Made {
    let attributes = &maker.attributes;
    let targets = attributes.int_or("targets", 1)?;
    let coefficients = attributes.floats("coefficients")?.to_vec();
    let targets = usize::try_from(targets).ok().filter(|&n| n > 0 && coefficients.len().is_multiple_of(n));
    let Some(targets) = targets else {
        let text = format!("attribute targets does not divide the {} coefficients", coefficients.len());
        return Err(Problem::Said(text));
    };
    let mut intercepts = attributes.floats("intercepts")?.to_vec();
    // Those of another number are not looked at, as in ONNX Runtime.
    if intercepts.len() != targets {
        intercepts.clear();
    }
    let transform = PostTransform::named(&attributes.text_or("post_transform", "NONE")?)?;
    Ok(Box::new(Regressor { linear: Linear { coefficients, intercepts, targets }, transform }))
}

impl Operator for Regressor {
    fn run(&self, inputs: &Inputs, run: &RunOptions) -> Result<Vec<Value>, Problem> {
        let (rows, mut scores) = self.linear.scores(inputs.tensor(0)?, run)?;
        let targets = self.linear.targets;
        if targets > 1 || self.transform == PostTransform::Probit {
            scores.chunks_mut(targets).for_each(|row| self.transform.apply(row));
        }
        Ok(vec![Tensor::new(vec![rows, targets], Data::F32(scores))?.into()])
    }

    fn bytes(&self) -> usize {
        self.linear.bytes()
    }
}
