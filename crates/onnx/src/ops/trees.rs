//! `TreeEnsembleClassifier`, `TreeEnsembleRegressor` and `TreeEnsemble`.

use super::labels::{Class, Labels};
use super::numbers::floats;
use super::transform::{PostTransform, Second};
use super::tree_attributes::{Number, doubles, length, listed, numbered_modes, numbers, tensor_list};
use crate::error::Problem;
use crate::operator::{Inputs, Made, Maker, Operator};
use crate::options::RunOptions;
use crate::trees::forest::{Lists, from_roots};
use crate::trees::{Ensemble, Fold, Real, Scores};
use crate::value::{Data, Tensor, Value};

/// The features of an input in the ensemble's type.
fn scores<T: Number>(ensemble: &Ensemble<T>, x: &Tensor, run: &RunOptions) -> Result<Scores<T>, Problem> {
    let (_, features) = x.matrix()?;
    if let Some(x) = T::tensor(x.data()) {
        return ensemble.scores(x, features, run);
    }
    let x: Vec<T> = match x.data() {
        // Integers are compared as floats.
        Data::I64(_) | Data::I32(_) | Data::F32(_) => floats(x)?.iter().map(|&x| T::from_f32(x)).collect(),
        Data::F64(_) => T::list(&floats(x)?),
        other => return Err(Problem::Said(format!("an input of {} is not supported", other.element()))),
    };
    ensemble.scores(&x, features, run)
}

struct Classifier<T> {
    ensemble: Ensemble<T>,
    transform: PostTransform,
    labels: Labels,
    base: Vec<T>,
    /// Two classes, and weights for one of them only.
    binary: bool,
    all_positive: bool,
}

pub(super) fn classifier(maker: &mut Maker) -> Made {
    let names = ["nodes_values_as_tensor", "class_weights_as_tensor", "base_values_as_tensor"];
    if doubles(maker, &names)? { made_classifier::<f64>(maker) } else { made_classifier::<f32>(maker) }
}

fn made_classifier<T: Number>(maker: &Maker) -> Made {
    let labels = Labels::read(maker, "classlabels_int64s", "classlabels_strings")?;
    if labels.len() == 0 {
        return Err(Problem::Said("it has no class labels".to_owned()));
    }
    let transform = PostTransform::named(&maker.attributes.text_or("post_transform", "NONE")?)?;
    let base = numbers::<T>(maker, "base_values")?;
    if !(base.is_empty() || base.len() == labels.len() || base.len() == 1 && labels.len() == 2) {
        let text = format!("attribute base_values has {} entries for {} classes", base.len(), labels.len());
        return Err(Problem::Said(text));
    }
    let forest = listed::<T>(maker, "class", labels.len())?;
    let first = forest.weights.first().map(|weight| weight.0);
    let one_class = forest.weights.iter().all(|weight| Some(weight.0) == first) && first.is_some();
    let all_positive = forest.weights.iter().all(|weight| weight.1 >= T::ZERO);
    let binary = labels.len() == 2 && one_class;
    let ensemble = Ensemble::new(forest, Fold::Sum);
    Ok(Box::new(Classifier { ensemble, transform, labels, base, binary, all_positive }))
}

/// A row's scores with what a leaf gave each, and how a single score becomes two.
struct Row<T> {
    scores: Vec<(T, bool)>,
    second: Second,
}

impl<T: Number> Classifier<T> {
    /// The class of a row; adds the base values, and drops the second score where there is one only.
    fn finish(&self, row: &mut Row<T>) -> Class {
        let scores = &mut row.scores;
        if scores.len() != 2 {
            for (score, &base) in scores.iter_mut().zip(&self.base) {
                *score = (if score.1 { score.0.plus(base) } else { base }, true);
            }
            return if scores.len() == 1 { self.side(row) } else { best(scores) };
        }
        match *self.base {
            [_, base] if scores[1].1 => {
                // The first base value is not looked at: it is taken to be the opposite.
                let sum = base.plus(scores[0].0);
                *scores = vec![(negative(sum), scores[0].1), (sum, true)];
            }
            [first, second] => {
                scores[0].0 = scores[0].0.plus(first);
                scores[1].0 = scores[1].0.plus(second);
            }
            [base] => scores[0].0 = scores[0].0.plus(base),
            _ => row.second = Second::Opposite,
        }
        if self.base.len() < 2 && !scores[1].1 {
            scores.pop();
        }
        self.side(row)
    }

    /// The class of a binary classifier.
    fn side(&self, row: &mut Row<T>) -> Class {
        let weight = match *row.scores {
            [_, (score, true)] => score,
            [(score, true), ..] => score,
            _ => T::ZERO,
        };
        let positive = weight > T::ZERO;
        if !self.binary {
            return Class::Raw(i64::from(positive));
        }
        if self.all_positive {
            row.second = Second::Complement;
            // Compared as ONNX Runtime does: the weights are probabilities.
            return Class::At(usize::from(weight > T::from_f32(0.5)));
        }
        row.second = Second::Opposite;
        Class::At(usize::from(positive))
    }
}

fn negative<T: Number>(x: T) -> T {
    T::from_f32(-1.0).times(x)
}

/// The class of the highest score among those that leaves gave.
fn best<T: Number>(scores: &[(T, bool)]) -> Class {
    let mut best: Option<(usize, T)> = None;
    for (at, &(score, has)) in scores.iter().enumerate() {
        if has && best.is_none_or(|(_, most)| score > most) {
            best = Some((at, score));
        }
    }
    Class::At(best.map_or(0, |best| best.0))
}

impl<T: Number> Operator for Classifier<T> {
    fn run(&self, inputs: &Inputs, run: &RunOptions) -> Result<Vec<Value>, Problem> {
        let x = inputs.tensor(0)?;
        let (rows, _) = x.matrix()?;
        let scores = scores(&self.ensemble, x, run)?;
        let classes = self.labels.len();
        let mut out = vec![0.0f32; rows * classes];
        let mut labels = Vec::with_capacity(rows);
        for (at, out) in out.chunks_mut(classes).enumerate() {
            let (values, has) = scores.row(at);
            let pairs = values.iter().zip(has).map(|(&value, &has)| (value, has != T::ZERO));
            let mut row = Row { scores: pairs.collect(), second: Second::Absent };
            labels.push(self.finish(&mut row));
            if row.scores.len() == 1 {
                self.transform.apply_single(row.scores[0].0.to_f32(), row.second, out);
            } else {
                // What no leaf gave a score has none, whatever was added to it.
                for (out, &(score, has)) in out.iter_mut().zip(&row.scores) {
                    *out = if has { score.to_f32() } else { 0.0 };
                }
                self.transform.apply(out);
            }
        }
        let labels = self.labels.tensor(&labels);
        Ok(vec![labels.into(), Tensor::new(vec![rows, classes], Data::F32(out))?.into()])
    }

    fn bytes(&self) -> usize {
        self.ensemble.bytes() + self.labels.bytes() + size_of_val(&*self.base)
    }
}

struct Regressor<T> {
    ensemble: Ensemble<T>,
    transform: PostTransform,
    base: Vec<T>,
    average: bool,
    /// Whether the output is of the ensemble's type; otherwise `f32`, as before version 5.
    same_type: bool,
}

pub(super) fn regressor(maker: &mut Maker) -> Made {
    let names = ["nodes_values_as_tensor", "target_weights_as_tensor", "base_values_as_tensor"];
    if doubles(maker, &names)? { made_regressor::<f64>(maker) } else { made_regressor::<f32>(maker) }
}

fn made_regressor<T: Number>(maker: &Maker) -> Made {
    let targets = maker.attributes.int_or("n_targets", 1)?;
    let targets = target_count(targets)?;
    let transform = PostTransform::named(&maker.attributes.text_or("post_transform", "NONE")?)?;
    let base = numbers::<T>(maker, "base_values")?;
    let (fold, average) = match &*maker.attributes.text_or("aggregate_function", "SUM")? {
        "SUM" => (Fold::Sum, false),
        "AVERAGE" => (Fold::Sum, true),
        "MIN" => (Fold::Min, false),
        "MAX" => (Fold::Max, false),
        other => {
            return Err(Problem::Said(format!("attribute aggregate_function is {other}, which is unknown")));
        }
    };
    let ensemble = Ensemble::new(listed::<T>(maker, "target", targets)?, fold);
    Ok(Box::new(Regressor { ensemble, transform, base, average, same_type: false }))
}

/// More targets than this are no model: a row's scores are held for each.
const MAX_TARGETS: i64 = 1 << 20;

fn target_count(targets: i64) -> Result<usize, Problem> {
    match usize::try_from(targets) {
        Ok(n) if (1..=MAX_TARGETS).contains(&targets) => Ok(n),
        _ => Err(Problem::Said(format!("attribute n_targets is {targets}; the limit is {MAX_TARGETS}"))),
    }
}

pub(super) fn ensemble(maker: &mut Maker) -> Made {
    if maker.version < 5 {
        return Err(Problem::Said("the operator came with version 5".to_owned()));
    }
    if doubles(maker, &["nodes_splits", "leaf_weights"])? {
        made_ensemble::<f64>(maker)
    } else {
        made_ensemble::<f32>(maker)
    }
}

fn made_ensemble<T: Number>(maker: &Maker) -> Made {
    let attributes = &maker.attributes;
    let targets = target_count(attributes.int_or("n_targets", 1)?)?;
    let transform = PostTransform::numbered(attributes.int_or("post_transform", 0)?)?;
    let (fold, average) = match attributes.int_or("aggregate_function", 1)? {
        0 => (Fold::Sum, true),
        1 => (Fold::Sum, false),
        2 => (Fold::Min, false),
        3 => (Fold::Max, false),
        other => {
            return Err(Problem::Said(format!("attribute aggregate_function is {other}, which is unknown")));
        }
    };
    let features = attributes.ints("nodes_featureids")?;
    let column = |name: &str| -> Result<&[i64], Problem> {
        let values = attributes.ints(name)?;
        length(name, values.len(), features.len())?;
        Ok(values)
    };
    let flags = |name: &str| -> Result<Vec<bool>, Problem> {
        Ok(column(name)?.iter().map(|&flag| flag != 0).collect())
    };
    let (splits, leaf_weights) =
        (tensor_list::<T>(maker, "nodes_splits")?, tensor_list(maker, "leaf_weights")?);
    length("nodes_splits", splits.len(), features.len())?;
    let leaf_targets = attributes.ints("leaf_targetids")?;
    if leaf_targets.len() != leaf_weights.len() {
        let (ids, weights) = (leaf_targets.len(), leaf_weights.len());
        let text = format!("attribute leaf_targetids has {ids} entries, and leaf_weights has {weights}");
        return Err(Problem::Said(text));
    }
    let nan_yes = match attributes.ints("nodes_missing_value_tracks_true")? {
        [] => vec![false; features.len()],
        _ => flags("nodes_missing_value_tracks_true")?,
    };
    attributes.ignore("nodes_hitrates");
    let (modes, sets) = numbered_modes::<T>(maker, features.len())?;
    let forest = from_roots(Lists {
        roots: attributes.ints("tree_roots")?.to_vec(),
        features: features.to_vec(),
        splits,
        modes,
        nan_yes,
        yes: column("nodes_truenodeids")?.to_vec(),
        no: column("nodes_falsenodeids")?.to_vec(),
        yes_is_leaf: flags("nodes_trueleafs")?,
        no_is_leaf: flags("nodes_falseleafs")?,
        leaf_targets: leaf_targets.to_vec(),
        leaf_weights,
        sets,
        targets,
    })?;
    let ensemble = Ensemble::new(forest, fold);
    Ok(Box::new(Regressor { ensemble, transform, base: Vec::new(), average, same_type: true }))
}

impl<T: Number> Regressor<T> {
    /// The sum of a target with its base value.
    fn with_base(&self, value: T, has: bool, target: usize, targets: usize) -> T {
        let value = if has { value } else { T::ZERO };
        let value = if self.average { value.over(self.ensemble.tree_count()) } else { value };
        // Base values of another number than that of targets are not looked at.
        if self.base.len() == targets { value.plus(self.base[target]) } else { value }
    }
}

impl<T: Number> Operator for Regressor<T> {
    fn run(&self, inputs: &Inputs, run: &RunOptions) -> Result<Vec<Value>, Problem> {
        let x = inputs.tensor(0)?;
        let (rows, _) = x.matrix()?;
        let scores = scores(&self.ensemble, x, run)?;
        let targets = self.ensemble.targets();
        let mut sums = Vec::with_capacity(rows * targets);
        for row in 0..rows {
            let (values, has) = scores.row(row);
            for target in 0..targets {
                sums.push(self.with_base(values[target], has[target] != T::ZERO, target, targets));
            }
        }
        let shape = vec![rows, targets];
        // A single target has no distribution: ONNX Runtime leaves it alone but for PROBIT.
        let none = targets == 1 && self.transform != PostTransform::Probit;
        if self.transform == PostTransform::None || none {
            if self.same_type {
                return Ok(vec![Tensor::new(shape, T::wrap(sums))?.into()]);
            }
            let out = sums.into_iter().map(Real::to_f32).collect();
            return Ok(vec![Tensor::new(shape, Data::F32(out))?.into()]);
        }
        let mut out: Vec<f32> = sums.into_iter().map(Real::to_f32).collect();
        out.chunks_mut(targets).for_each(|row| self.transform.apply(row));
        let data = if self.same_type { T::wrap(T::list(&out)) } else { Data::F32(out) };
        Ok(vec![Tensor::new(shape, data)?.into()])
    }

    fn bytes(&self) -> usize {
        self.ensemble.bytes() + size_of_val(&*self.base)
    }
}
