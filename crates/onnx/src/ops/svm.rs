//! `SVMClassifier` and `SVMRegressor`.

use super::labels::{Class, Labels};
use super::linear::{dot, highest};
use super::numbers::floats;
use super::transform::{PostTransform, Second, logistic};
use crate::error::Problem;
use crate::operator::{Inputs, Made, Maker, Operator};
use crate::options::{Rows, RunOptions};
use crate::value::{Data, Tensor, Value};

/// Rows that a thread takes at a time.
const ROWS: usize = 16;

#[derive(Clone, Copy)]
enum Kernel {
    Linear,
    Poly { gamma: f32, coef0: f32, degree: f32 },
    Rbf { gamma: f32 },
    Sigmoid { gamma: f32, coef0: f32 },
}

impl Kernel {
    fn read(maker: &Maker) -> Result<Kernel, Problem> {
        let [gamma, coef0, degree] = match *maker.attributes.floats("kernel_params")? {
            [] => [0.0; 3],
            [gamma, coef0, degree, ..] => [gamma, coef0, degree],
            ref other => {
                let text = format!("attribute kernel_params has {} entries of 3", other.len());
                return Err(Problem::Said(text));
            }
        };
        match &*maker.attributes.text_or("kernel_type", "LINEAR")? {
            "LINEAR" => Ok(Kernel::Linear),
            "POLY" => Ok(Kernel::Poly { gamma, coef0, degree }),
            "RBF" => Ok(Kernel::Rbf { gamma }),
            "SIGMOID" => Ok(Kernel::Sigmoid { gamma, coef0 }),
            other => Err(Problem::Said(format!("attribute kernel_type is {other}, which is unknown"))),
        }
    }

    fn of(self, a: &[f32], b: &[f32]) -> f32 {
        match self {
            Kernel::Linear => dot(a, b),
            Kernel::Poly { gamma, coef0, degree } => {
                let x = gamma * dot(a, b) + coef0;
                if degree == 2.0 {
                    x * x
                } else if degree == 3.0 {
                    x * x * x
                } else {
                    x.powf(degree)
                }
            }
            Kernel::Rbf { gamma } => {
                let squares: f32 = a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum();
                (-gamma * squares).exp()
            }
            Kernel::Sigmoid { gamma, coef0 } => (gamma * dot(a, b) + coef0).tanh(),
        }
    }
}

/// A list of `[vectors, features]`; one vector without support vectors.
struct Vectors {
    kernel: Kernel,
    values: Vec<f32>,
    features: usize,
}

impl Vectors {
    /// The kernel of a row with each vector.
    fn of(&self, x: &[f32], out: &mut Vec<f32>) {
        out.clear();
        out.extend(self.values.chunks(self.features).map(|vector| self.kernel.of(x, vector)));
    }

    fn check(&self, x: &Tensor) -> Result<usize, Problem> {
        let (rows, features) = x.matrix()?;
        if features == self.features {
            return Ok(rows);
        }
        Err(Problem::Said(format!("rows have {features} features, and the model has {}", self.features)))
    }
}

struct Regressor {
    vectors: Vectors,
    coefficients: Vec<f32>,
    rho: f32,
    one_class: bool,
    /// No support vectors: the coefficients are those of the features.
    linear: bool,
}

pub(super) fn regressor(maker: &mut Maker) -> Made {
    let attributes = &maker.attributes;
    let coefficients = attributes.floats("coefficients")?.to_vec();
    let rho = attributes.floats("rho")?.first().copied();
    let rho = rho.ok_or("attribute rho is empty")?;
    let supports = attributes.int_or("n_supports", 0)?;
    let vectors = attributes.floats("support_vectors")?.to_vec();
    let one_class = attributes.int_or("one_class", 0)? != 0;
    attributes.ignore("post_transform");
    let kernel = Kernel::read(maker)?;
    let supports = usize::try_from(supports).map_err(|_| format!("attribute n_supports is {supports}"))?;
    if coefficients.is_empty() {
        return Err("attribute coefficients is empty".into());
    }
    if supports == 0 {
        let vectors = Vectors { kernel: Kernel::Linear, features: coefficients.len(), values: coefficients };
        return Ok(Box::new(Regressor { vectors, coefficients: Vec::new(), rho, one_class, linear: true }));
    }
    let features = vectors.len().checked_div(supports).unwrap_or(0);
    if features * supports != vectors.len() || features == 0 || coefficients.len() != supports {
        return Err(Problem::Said(format!(
            "{} numbers of support vectors and {} coefficients for {supports} support vectors",
            vectors.len(),
            coefficients.len()
        )));
    }
    let vectors = Vectors { kernel, values: vectors, features };
    Ok(Box::new(Regressor { vectors, coefficients, rho, one_class, linear: false }))
}

impl Operator for Regressor {
    fn run(&self, inputs: &Inputs, run: &RunOptions) -> Result<Vec<Value>, Problem> {
        let x = inputs.tensor(0)?;
        let (rows, features) = (self.vectors.check(x)?, self.vectors.features);
        let x = floats(x)?;
        let mut out = vec![0.0; rows];
        let blocks = Rows { block: ROWS, row_ns: self.vectors.values.len() / 4 };
        run.row_blocks(&mut out, 1, blocks, &|first, out| {
            let mut kernels = Vec::with_capacity(self.coefficients.len());
            for (row, out) in out.iter_mut().enumerate() {
                self.vectors.of(&x[(first + row) * features..][..features], &mut kernels);
                let sum = if self.linear { kernels[0] } else { dot(&kernels, &self.coefficients) };
                *out = sum + self.rho;
                if self.one_class {
                    *out = if *out > 0.0 { 1.0 } else { -1.0 };
                }
            }
        })?;
        Ok(vec![Tensor::new(vec![rows, 1], Data::F32(out))?.into()])
    }

    fn bytes(&self) -> usize {
        size_of_val(&*self.vectors.values) + size_of_val(&*self.coefficients)
    }
}

struct Classifier {
    vectors: Vectors,
    /// `[classes - 1, vectors]`, or `[classes, features]` without support vectors.
    coefficients: Vec<f32>,
    rho: Vec<f32>,
    /// Where each class's support vectors begin, and how many they are; empty without support vectors.
    parts: Vec<(usize, usize)>,
    probability: Vec<(f32, f32)>,
    labels: Labels,
    transform: PostTransform,
    all_positive: bool,
}

/// Where each class's support vectors begin and how many they are, and how many there are in all.
fn parts(maker: &Maker, numbers: usize) -> Result<(Vec<(usize, usize)>, usize), Problem> {
    let mut parts = Vec::new();
    let mut vectors = 0usize;
    for &count in maker.attributes.ints("vectors_per_class")? {
        let count = usize::try_from(count).ok().filter(|&n| n <= numbers);
        let count = count.ok_or("attribute vectors_per_class has more vectors than there are")?;
        parts.push((vectors, count));
        vectors = vectors.saturating_add(count);
    }
    Ok((parts, vectors))
}

/// More classes than this are refused: their pairs have a score each.
const MAX_CLASSES: usize = 4096;

pub(super) fn classifier(maker: &mut Maker) -> Made {
    let attributes = &maker.attributes;
    let labels = Labels::read(maker, "classlabels_ints", "classlabels_strings")?;
    let classes = labels.len();
    if classes == 0 || classes > MAX_CLASSES {
        return Err(Problem::Said(format!("it has {classes} class labels; the limit is {MAX_CLASSES}")));
    }
    let coefficients = attributes.floats("coefficients")?.to_vec();
    let rho = attributes.floats("rho")?.to_vec();
    let (a, b) = (attributes.floats("prob_a")?, attributes.floats("prob_b")?);
    let transform = PostTransform::named(&attributes.text_or("post_transform", "NONE")?)?;
    let values = attributes.floats("support_vectors")?.to_vec();
    let (mut parts, vectors) = parts(maker, values.len())?;
    let kernel = Kernel::read(maker)?;
    let pairs = classes * (classes - 1) / 2;
    let all_positive = coefficients.iter().all(|&x| x >= 0.0);
    let wrong = |what: &str, found: usize, wanted: usize| {
        Err(Problem::Said(format!("attribute {what} has {found} entries, and {wanted} are needed")))
    };
    let vectors = if vectors == 0 {
        parts.clear();
        let features = coefficients.len() / classes;
        if features == 0 || features * classes != coefficients.len() {
            return wrong("coefficients", coefficients.len(), classes);
        }
        if rho.is_empty() {
            return wrong("rho", 0, 1);
        }
        Vectors { kernel: Kernel::Linear, values: coefficients.clone(), features }
    } else {
        let features = values.len().checked_div(vectors).unwrap_or(0);
        if features == 0 || features * vectors != values.len() {
            return wrong("support_vectors", values.len(), vectors);
        }
        if parts.len() != classes {
            return wrong("vectors_per_class", parts.len(), classes);
        }
        if coefficients.len() < (classes - 1).saturating_mul(vectors) {
            return wrong("coefficients", coefficients.len(), (classes - 1).saturating_mul(vectors));
        }
        if rho.len() < pairs {
            return wrong("rho", rho.len(), pairs);
        }
        Vectors { kernel, values, features }
    };
    if a.len() != b.len() || (!a.is_empty() && a.len() < pairs) {
        return wrong("prob_a or prob_b", a.len().min(b.len()), pairs);
    }
    let probability = a.iter().copied().zip(b.iter().copied()).collect();
    Ok(Box::new(Classifier {
        vectors,
        coefficients,
        rho,
        parts,
        probability,
        labels,
        transform,
        all_positive,
    }))
}

/// What a row takes to be computed, and its class.
#[derive(Default)]
struct Scratch {
    kernels: Vec<f32>,
    pairs: Vec<f32>,
    votes: Vec<usize>,
}

impl Classifier {
    /// Scores of each pair of classes, and the votes of each class.
    fn vote(&self, scratch: &mut Scratch) {
        let classes = self.parts.len();
        let vectors = scratch.kernels.len();
        scratch.pairs.clear();
        scratch.votes.clear();
        scratch.votes.resize(classes, 0);
        for i in 0..classes {
            for j in i + 1..classes {
                let part = |row: usize, (start, count): (usize, usize)| {
                    let weights = &self.coefficients[row * vectors + start..][..count];
                    let kernels = &scratch.kernels[start..][..count];
                    weights.iter().zip(kernels).map(|(w, k)| f64::from(w * k)).sum::<f64>()
                };
                let sum = part(j - 1, self.parts[i]) + part(i, self.parts[j]);
                let sum = sum + f64::from(self.rho[scratch.pairs.len()]);
                scratch.pairs.push(sum as f32);
                scratch.votes[if sum > 0.0 { i } else { j }] += 1;
            }
        }
    }

    /// Number of scores of a row.
    fn width(&self) -> usize {
        let classes = self.labels.len();
        if self.parts.is_empty() || !self.probability.is_empty() || classes <= 2 {
            classes.max(if self.parts.is_empty() || !self.probability.is_empty() { 1 } else { 2 })
        } else {
            classes * (classes - 1) / 2
        }
    }

    fn row(&self, x: &[f32], out: &mut [f32], scratch: &mut Scratch) -> Class {
        self.vectors.of(x, &mut scratch.kernels);
        if self.parts.is_empty() {
            for (out, product) in out.iter_mut().zip(&scratch.kernels) {
                *out = product + self.rho[0];
            }
            let best = highest(out);
            let class = self.class(best, out[best]);
            if out.len() > 1 || self.transform == PostTransform::Probit {
                self.transform.apply(out);
            }
            return class;
        }
        self.vote(scratch);
        let mut winner = 0;
        for (at, votes) in scratch.votes.iter().enumerate() {
            if *votes > scratch.votes[winner] {
                winner = at;
            }
        }
        if !self.probability.is_empty() {
            probabilities(&scratch.pairs, &self.probability, out);
            self.transform.apply(out);
        } else if let [score] = *scratch.pairs {
            // With a transform ONNX Runtime takes the score for a probability.
            let none = self.transform == PostTransform::None;
            let second = if none { Second::Opposite } else { Second::Complement };
            self.transform.apply_single(score, second, out);
        } else {
            for (out, pair) in out.iter_mut().zip(&scratch.pairs) {
                *out = *pair;
            }
            self.transform.apply(out);
        }
        self.class(winner, 0.0)
    }

    fn class(&self, winner: usize, weight: f32) -> Class {
        let classes = self.labels.len();
        if classes != 2 || !self.probability.is_empty() {
            return Class::At(winner);
        }
        let positive = if self.all_positive { weight >= 0.5 } else { weight > 0.0 };
        Class::At(if positive { 1 } else { winner })
    }
}

impl Operator for Classifier {
    fn run(&self, inputs: &Inputs, run: &RunOptions) -> Result<Vec<Value>, Problem> {
        let x = inputs.tensor(0)?;
        let (rows, features) = (self.vectors.check(x)?, self.vectors.features);
        let x = floats(x)?;
        let width = self.width();
        // A row's scores and its class, which the threads write side by side.
        let mut all: Vec<(Class, Vec<f32>)> = vec![(Class::At(0), vec![0.0; width]); rows];
        let blocks = Rows { block: ROWS, row_ns: self.vectors.values.len() / 4 };
        run.row_blocks(&mut all, 1, blocks, &|first, block| {
            let mut scratch = Scratch::default();
            for (row, (class, out)) in block.iter_mut().enumerate() {
                *class = self.row(&x[(first + row) * features..][..features], out, &mut scratch);
            }
        })?;
        let classes: Vec<Class> = all.iter().map(|row| row.0).collect();
        let scores = all.into_iter().flat_map(|row| row.1).collect();
        let scores = Tensor::new(vec![rows, width], Data::F32(scores))?;
        Ok(vec![self.labels.tensor(&classes).into(), scores.into()])
    }

    fn bytes(&self) -> usize {
        size_of_val(&*self.vectors.values) + size_of_val(&*self.coefficients) + self.labels.bytes()
    }
}

/// The probabilities of classes from the scores of their pairs (Wu, Lin and Weng 2004, as libsvm computes them).
fn probabilities(pairs: &[f32], sigmoid: &[(f32, f32)], out: &mut [f32]) {
    let n = out.len();
    let mut r = vec![0.0f32; n * n];
    let mut at = 0;
    for i in 0..n {
        for j in i + 1..n {
            let (a, b) = sigmoid[at];
            let p = (1.0 - logistic(pairs[at] * a + b)).clamp(1e-7, 1.0 - 1e-7);
            r[i * n + j] = p;
            r[j * n + i] = 1.0 - p;
            at += 1;
        }
    }
    let mut q = vec![0.0f32; n * n];
    for i in 0..n {
        out[i] = 1.0 / n as f32;
        for j in (0..n).filter(|&j| j != i) {
            q[i * n + i] += r[j * n + i] * r[j * n + i];
            q[i * n + j] = if j < i { q[j * n + i] } else { -r[j * n + i] * r[i * n + j] };
        }
    }
    let enough = 0.005 / n as f32;
    let mut qp = vec![0.0f32; n];
    for _ in 0..100 {
        for i in 0..n {
            qp[i] = (0..n).map(|j| q[i * n + j] * out[j]).sum();
        }
        let mut pqp: f32 = (0..n).map(|i| out[i] * qp[i]).sum();
        if qp.iter().all(|x| (x - pqp).abs() < enough) {
            break;
        }
        for i in 0..n {
            let diff = (-qp[i] + pqp) / q[i * n + i];
            out[i] += diff;
            pqp = (pqp + diff * (diff * q[i * n + i] + 2.0 * qp[i])) / (1.0 + diff) / (1.0 + diff);
            for j in 0..n {
                qp[j] = (qp[j] + diff * q[i * n + j]) / (1.0 + diff);
                out[j] /= 1.0 + diff;
            }
        }
    }
}
