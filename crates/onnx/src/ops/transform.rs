//! What is done to scores in the end (`post_transform`), as ONNX Runtime does it.

use crate::error::Problem;

/// The attribute `post_transform`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum PostTransform {
    None,
    Softmax,
    Logistic,
    SoftmaxZero,
    Probit,
}

/// By the number that `TreeEnsemble` (version 5) has for each.
const TRANSFORMS: [(&str, PostTransform); 5] = [
    ("NONE", PostTransform::None),
    ("SOFTMAX", PostTransform::Softmax),
    ("LOGISTIC", PostTransform::Logistic),
    ("SOFTMAX_ZERO", PostTransform::SoftmaxZero),
    ("PROBIT", PostTransform::Probit),
];

/// How a binary classifier's one score becomes two.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Second {
    /// It stays one.
    Absent,
    /// `1 - s` and `s`: the score is a probability. With `LOGISTIC`, the function of `-s` and `s`.
    Complement,
    /// `-s` and `s`. With `LOGISTIC`, the function of both.
    Opposite,
}

impl PostTransform {
    pub(super) fn named(name: &str) -> Result<PostTransform, Problem> {
        let found = TRANSFORMS.iter().find(|row| row.0 == name);
        found
            .map(|row| row.1)
            .ok_or_else(|| Problem::Said(format!("attribute post_transform is {name}, which is unknown")))
    }

    pub(super) fn numbered(number: i64) -> Result<PostTransform, Problem> {
        let found = usize::try_from(number).ok().and_then(|at| TRANSFORMS.get(at));
        found
            .map(|row| row.1)
            .ok_or_else(|| Problem::Said(format!("attribute post_transform is {number}, which is unknown")))
    }

    /// Transforms the scores of one row in place.
    pub(super) fn apply(self, scores: &mut [f32]) {
        match self {
            PostTransform::None => {}
            PostTransform::Logistic => scores.iter_mut().for_each(|x| *x = logistic(*x)),
            PostTransform::Probit => scores.iter_mut().for_each(|x| *x = probit(*x)),
            PostTransform::Softmax => softmax(scores),
            PostTransform::SoftmaxZero => softmax_zero(scores),
        }
    }

    /// The scores of a row with a single one, `[2]` or, without a second, `[1]`.
    pub(super) fn apply_single(self, score: f32, second: Second, out: &mut [f32]) {
        let pair = match (self, second) {
            (PostTransform::Probit, _) => [probit(score), 0.0],
            (_, Second::Absent) => [score, 0.0],
            (PostTransform::Logistic, _) => [logistic(-score), logistic(score)],
            (_, Second::Complement) => [1.0 - score, score],
            (_, Second::Opposite) => [-score, score],
        };
        for (out, value) in out.iter_mut().zip(pair) {
            *out = value;
        }
    }
}

pub(super) fn logistic(x: f32) -> f32 {
    let v = 1.0 / (1.0 + (-x.abs()).exp());
    if x < 0.0 { 1.0 - v } else { v }
}

/// The inverse error function of Winitzki, with ONNX Runtime's digits.
fn inverse_erf(x: f32) -> f32 {
    let sign = if x < 0.0 { -1.0 } else { 1.0 };
    let log = ((1.0 - x) * (1.0 + x)).ln();
    #[allow(clippy::approx_constant, reason = "the digits that ONNX Runtime has")]
    let v = 2.0 / (3.14159 * 0.147) + 0.5 * log;
    let v2 = 1.0 / 0.147 * log;
    sign * (-v + (v * v - v2).sqrt()).sqrt()
}

fn probit(x: f32) -> f32 {
    std::f32::consts::SQRT_2 * inverse_erf(2.0 * x - 1.0)
}

pub(super) fn softmax(scores: &mut [f32]) {
    let max = scores.iter().fold(f32::MIN, |max, &x| if x > max { x } else { max });
    let mut sum = 0.0;
    for x in scores.iter_mut() {
        *x = (*x - max).exp();
        sum += *x;
    }
    scores.iter_mut().for_each(|x| *x /= sum);
}

/// A softmax in which zeros stay zeros.
fn softmax_zero(scores: &mut [f32]) {
    let max = scores.iter().fold(f32::MIN, |max, &x| if x > max { x } else { max });
    let shift = (-max).exp();
    let mut sum = 0.0;
    for x in scores.iter_mut() {
        if *x > 1e-7 || *x < -1e-7 {
            *x = (*x - max).exp();
            sum += *x;
        } else {
            *x *= shift;
        }
    }
    scores.iter_mut().for_each(|x| *x /= sum);
}
