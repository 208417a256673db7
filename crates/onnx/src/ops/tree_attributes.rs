//! The attributes of tree ensembles, as forests.

use crate::error::Problem;
use crate::operator::Maker;
use crate::trees::Real;
use crate::trees::forest::{Forest, Listed, ListedWeight, Mode, from_lists};
use crate::value::{Data, Tensor};

/// A type of thresholds, with its place in attributes and inputs.
pub(super) trait Number: Real {
    fn list(values: &[f32]) -> Vec<Self>;
    fn tensor(data: &Data) -> Option<&[Self]>;
    fn wrap(values: Vec<Self>) -> Data;
    fn from_f32(x: f32) -> Self;
}

impl Number for f32 {
    fn list(values: &[f32]) -> Vec<f32> {
        values.to_vec()
    }

    fn tensor(data: &Data) -> Option<&[f32]> {
        if let Data::F32(v) = data { Some(v) } else { None }
    }

    fn wrap(values: Vec<f32>) -> Data {
        Data::F32(values)
    }

    fn from_f32(x: f32) -> f32 {
        x
    }
}

impl Number for f64 {
    fn list(values: &[f32]) -> Vec<f64> {
        values.iter().map(|&x| f64::from(x)).collect()
    }

    fn tensor(data: &Data) -> Option<&[f64]> {
        if let Data::F64(v) = data { Some(v) } else { None }
    }

    fn wrap(values: Vec<f64>) -> Data {
        Data::F64(values)
    }

    fn from_f32(x: f32) -> f64 {
        f64::from(x)
    }
}

/// Floats in `name`, or in the tensor `name_as_tensor`.
pub(super) fn numbers<T: Number>(maker: &Maker, name: &str) -> Result<Vec<T>, Problem> {
    let as_tensor = format!("{name}_as_tensor");
    match maker.attributes.tensor(&as_tensor)? {
        Some(tensor) => number_tensor(&tensor, &as_tensor),
        None => Ok(T::list(maker.attributes.floats(name)?)),
    }
}

fn number_tensor<T: Number>(tensor: &Tensor, name: &str) -> Result<Vec<T>, Problem> {
    match tensor.data() {
        Data::F32(v) => Ok(T::list(v)),
        data => match T::tensor(data) {
            Some(v) => Ok(v.to_vec()),
            None => Err(Problem::Said(format!("attribute {name} is of {}", data.element()))),
        },
    }
}

/// Whether a model's thresholds are doubles: ONNX Runtime computes in the type of the input, which has to be theirs.
pub(super) fn doubles(maker: &Maker, names: &[&str]) -> Result<bool, Problem> {
    for name in names {
        if let Some(tensor) = maker.attributes.tensor(name)? {
            return Ok(matches!(tensor.data(), Data::F64(_)));
        }
    }
    Ok(false)
}

/// Checks that an attribute has an entry for each of `count` nodes.
pub(super) fn length(name: &str, found: usize, count: usize) -> Result<(), Problem> {
    if found == count {
        return Ok(());
    }
    Err(Problem::Said(format!("attribute {name} has {found} entries, and nodes_nodeids has {count}")))
}

fn mode(name: &str, at: usize) -> Result<Option<Mode>, Problem> {
    Ok(Some(match name {
        "LEAF" => return Ok(None),
        "BRANCH_LEQ" => Mode::Leq,
        "BRANCH_LT" => Mode::Lt,
        "BRANCH_GTE" => Mode::Gte,
        "BRANCH_GT" => Mode::Gt,
        "BRANCH_EQ" => Mode::Eq,
        "BRANCH_NEQ" => Mode::Neq,
        _ => return Err(Problem::Said(format!("attribute nodes_modes: {name} at {at} is unknown"))),
    }))
}

/// The nodes and weights of versions 1 and 3; `target` is `class` or `target`.
pub(super) fn listed<T: Number>(maker: &Maker, target: &str, targets: usize) -> Result<Forest<T>, Problem> {
    let attributes = &maker.attributes;
    let ids = attributes.ints("nodes_nodeids")?;
    let column = |name: &str| -> Result<&[i64], Problem> {
        let values = attributes.ints(name)?;
        length(name, values.len(), ids.len())?;
        Ok(values)
    };
    let (trees, features) = (column("nodes_treeids")?, column("nodes_featureids")?);
    let (yes, no) = (column("nodes_truenodeids")?, column("nodes_falsenodeids")?);
    let missing = attributes.ints("nodes_missing_value_tracks_true")?;
    if !missing.is_empty() {
        length("nodes_missing_value_tracks_true", missing.len(), ids.len())?;
    }
    let modes = attributes.texts("nodes_modes")?;
    length("nodes_modes", modes.len(), ids.len())?;
    let thresholds = numbers::<T>(maker, "nodes_values")?;
    length("nodes_values", thresholds.len(), ids.len())?;
    attributes.ignore("nodes_hitrates");
    attributes.ignore("nodes_hitrates_as_tensor");
    let nodes = (0..ids.len())
        .map(|at| {
            Ok(Listed {
                tree: trees[at],
                id: ids[at],
                feature: features[at],
                threshold: thresholds[at],
                mode: mode(&modes[at], at)?,
                nan_yes: missing.get(at).is_some_and(|&flag| flag == 1),
                yes: yes[at],
                no: no[at],
            })
        })
        .collect::<Result<Vec<_>, Problem>>()?;
    let weights = listed_weights(maker, target)?;
    Ok(from_lists(&nodes, &weights, targets)?)
}

fn listed_weights<T: Number>(maker: &Maker, target: &str) -> Result<Vec<ListedWeight<T>>, Problem> {
    let attributes = &maker.attributes;
    let values = numbers::<T>(maker, &format!("{target}_weights"))?;
    let column = |name: String| -> Result<&[i64], Problem> {
        let list = attributes.ints(&name)?;
        if list.len() == values.len() {
            return Ok(list);
        }
        let (list, values) = (list.len(), values.len());
        Err(Problem::Said(format!("attribute {name} has {list} entries, and {target}_weights has {values}")))
    };
    let targets = column(format!("{target}_ids"))?;
    let (trees, nodes) = (column(format!("{target}_treeids"))?, column(format!("{target}_nodeids"))?);
    let each = values.iter().enumerate();
    Ok(each
        .map(|(at, &value)| ListedWeight { tree: trees[at], node: nodes[at], target: targets[at], value })
        .collect())
}

pub(super) fn tensor_list<T: Number>(maker: &Maker, name: &str) -> Result<Vec<T>, Problem> {
    match maker.attributes.tensor(name)? {
        Some(tensor) => number_tensor(&tensor, name),
        None => Ok(Vec::new()),
    }
}

/// The modes of version 5, which are numbers, and the sets of values that splits test, one after the other in
/// `membership_values`, each ended by NaN.
pub(super) fn numbered_modes<T: Number>(
    maker: &Maker,
    count: usize,
) -> Result<(Vec<Mode>, Vec<Vec<T>>), Problem> {
    let numbers: Vec<u8> = match maker.attributes.tensor("nodes_modes")? {
        Some(tensor) => match tensor.data() {
            Data::U8(v) => v.clone(),
            other => return Err(Problem::Said(format!("attribute nodes_modes is of {}", other.element()))),
        },
        None => Vec::new(),
    };
    length("nodes_modes", numbers.len(), count)?;
    let members = tensor_list::<T>(maker, "membership_values")?;
    let mut sets = members.split(|x| x.nan());
    let mut found: Vec<Vec<T>> = Vec::new();
    let mut modes = Vec::with_capacity(count);
    for (at, number) in numbers.into_iter().enumerate() {
        modes.push(match number {
            0 => Mode::Leq,
            1 => Mode::Lt,
            2 => Mode::Gte,
            3 => Mode::Gt,
            4 => Mode::Eq,
            5 => Mode::Neq,
            6 => {
                let set = sets.next().filter(|set| !set.is_empty());
                let set =
                    set.ok_or_else(|| format!("attribute membership_values has no set for node {at}"))?;
                found.push(set.to_vec());
                Mode::Member(found.len() as u32 - 1)
            }
            other => {
                return Err(Problem::Said(format!("attribute nodes_modes: {other} at {at} is unknown")));
            }
        });
    }
    Ok((modes, found))
}
