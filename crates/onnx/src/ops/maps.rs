//! Columns and maps: `ArrayFeatureExtractor`, `FeatureVectorizer`, `DictVectorizer`, `CastMap` and `ZipMap`.

use std::sync::Arc;

use super::labels::Labels;
use super::numbers::{floats, integers, pick};
use crate::error::Problem;
use crate::operator::{Inputs, Made, Maker, plain};
use crate::value::{Data, Keys, Map, Tensor, Value};

pub(super) fn array_feature_extractor(_: &mut Maker) -> Made {
    plain(|inputs: &Inputs, _| {
        let (x, y) = (inputs.tensor(0)?, inputs.tensor(1)?);
        let Some(&stride) = x.shape().last() else { return Err("an input without dimensions".into()) };
        let columns: Vec<usize> = integers(y)?
            .iter()
            .map(|&at| usize::try_from(at).ok().filter(|&at| at < stride))
            .collect::<Option<_>>()
            .ok_or_else(|| format!("the columns {:?} are not all below {stride}", y.data()))?;
        if columns.is_empty() {
            return Err("no column is asked for".into());
        }
        let rows = x.data().len() / stride.max(1);
        let mut places = Vec::with_capacity(rows * columns.len());
        for row in 0..rows {
            places.extend(columns.iter().map(|column| row * stride + column));
        }
        let mut shape = x.shape().to_vec();
        if shape.len() == 1 {
            shape.insert(0, 1);
        }
        if let Some(last) = shape.last_mut() {
            *last = columns.len();
        }
        Ok(Tensor::new(shape, pick(x.data(), &places))?.into())
    })
}

pub(super) fn feature_vectorizer(maker: &mut Maker) -> Made {
    let sizes = maker.attributes.ints("inputdimensions")?;
    let sizes: Option<Vec<usize>> = sizes.iter().map(|&n| usize::try_from(n).ok()).collect();
    let sizes = sizes.ok_or("attribute inputdimensions has a negative entry")?;
    let total = sizes.iter().try_fold(0usize, |sum, &n| sum.checked_add(n));
    let total = total.filter(|&n| n < 1 << 24).ok_or("attribute inputdimensions is too large")?;
    plain(move |inputs: &Inputs, _| {
        let tensors = inputs.tensors()?;
        if tensors.len() != sizes.len() {
            let text = format!("{} inputs, and inputdimensions has {} entries", tensors.len(), sizes.len());
            return Err(Problem::Said(text));
        }
        let rows = match tensors.first().map(|x| x.shape()) {
            Some([_]) => 1,
            Some([rows, ..]) => *rows,
            Some([]) | None => return Err("an input without dimensions".into()),
        };
        let mut out = vec![0.0f32; rows * total];
        let mut start = 0;
        for (x, &size) in tensors.iter().zip(&sizes) {
            let values = floats(x)?;
            let width = values.len() / rows.max(1);
            if width * rows != values.len() {
                return Err(Problem::Said(format!("an input of shape {:?} for {rows} rows", x.shape())));
            }
            // Shorter rows are filled up with zeros, longer ones cut.
            let used = width.min(size);
            for row in 0..rows {
                let from = &values[row * width..][..used];
                out[row * total + start..][..used].copy_from_slice(from);
            }
            start += size;
        }
        Ok(Tensor::new(vec![rows, total], Data::F32(out))?.into())
    })
}

fn map_input<'a>(inputs: &Inputs<'a>) -> Result<&'a Map, Problem> {
    match inputs.value(0)? {
        Value::Map(map) => Ok(map),
        Value::Tensor(_) | Value::Maps(_) => Err("the input is not a map".into()),
    }
}

pub(super) fn dict_vectorizer(maker: &mut Maker) -> Made {
    let texts = maker.attributes.texts("string_vocabulary")?;
    let ints = maker.attributes.ints("int64_vocabulary")?.to_vec();
    if texts.is_empty() == ints.is_empty() {
        return Err("one of string_vocabulary and int64_vocabulary is needed".into());
    }
    plain(move |inputs: &Inputs, _| {
        let map = map_input(inputs)?;
        let places: Vec<Option<usize>> = match &*map.keys {
            Keys::I64(keys) if !ints.is_empty() => {
                ints.iter().map(|word| keys.binary_search(word).ok()).collect()
            }
            Keys::String(keys) if !texts.is_empty() => {
                texts.iter().map(|word| keys.binary_search(word).ok()).collect()
            }
            keys => {
                let text = format!("keys of {} are not of the vocabulary's type", keys.element());
                return Err(Problem::Said(text));
            }
        };
        fn each<T: Clone + Default>(values: &[T], places: &[Option<usize>]) -> Vec<T> {
            places.iter().map(|place| place.map_or_else(T::default, |at| values[at].clone())).collect()
        }
        let data = match &map.values {
            Data::F32(v) => Data::F32(each(v, &places)),
            Data::F64(v) => Data::F64(each(v, &places)),
            Data::I64(v) => Data::I64(each(v, &places)),
            Data::String(v) => Data::String(each(v, &places)),
            other => {
                return Err(Problem::Said(format!("values of {} are not supported", other.element())));
            }
        };
        Ok(Tensor::new(vec![1, places.len()], data)?.into())
    })
}

/// The most elements of a sparse map's tensor.
const MAX_MAP: i64 = 1 << 24;

pub(super) fn cast_map(maker: &mut Maker) -> Made {
    let to = maker.attributes.text_or("cast_to", "TO_FLOAT")?;
    if !matches!(&*to, "TO_FLOAT" | "TO_STRING" | "TO_INT64") {
        return Err(Problem::Said(format!("attribute cast_to is {to}, which is unknown")));
    }
    let sparse = match &*maker.attributes.text_or("map_form", "DENSE")? {
        "DENSE" => false,
        "SPARSE" => true,
        other => return Err(Problem::Said(format!("attribute map_form is {other}, which is unknown"))),
    };
    let size = maker.attributes.int_or("max_map", 1)?;
    if !(1..=MAX_MAP).contains(&size) {
        return Err(Problem::Said(format!("attribute max_map is {size}; the limit is {MAX_MAP}")));
    }
    plain(move |inputs: &Inputs, _| {
        let map = map_input(inputs)?;
        let Keys::I64(keys) = &*map.keys else { return Err("the map's keys are not integers".into()) };
        if sparse && keys.first().is_some_and(|&key| key < 0) {
            return Err("the map has a negative key".into());
        }
        // The place of each element in the map's values.
        let places: Vec<Option<usize>> = if sparse {
            (0..size).map(|at| keys.binary_search(&at).ok()).collect()
        } else {
            (0..keys.len()).map(Some).collect()
        };
        let data = cast_values(&map.values, &places, &to)?;
        Ok(Tensor::new(vec![1, places.len()], data)?.into())
    })
}

fn cast_values(values: &Data, places: &[Option<usize>], to: &str) -> Result<Data, Problem> {
    let number = |text: &str| {
        text.trim().parse::<f64>().map_err(|_| Problem::Said(format!("the value '{text}' is no number")))
    };
    let value = |at: usize| -> Result<f64, Problem> {
        match values {
            Data::F32(v) => Ok(f64::from(v[at])),
            Data::String(v) => number(&v[at]),
            other => Err(Problem::Said(format!("values of {} are not supported", other.element()))),
        }
    };
    let numbers = || places.iter().map(|place| place.map_or(Ok(0.0), value)).collect::<Result<Vec<f64>, _>>();
    Ok(match to {
        "TO_FLOAT" => Data::F32(numbers()?.into_iter().map(|x| x as f32).collect()),
        "TO_INT64" => Data::I64(numbers()?.into_iter().map(|x| x as i64).collect()),
        _ => {
            let text = |at: usize| match values {
                Data::String(v) => Ok(v[at].clone()),
                // As C++ writes floats.
                Data::F32(v) => Ok(format!("{:.6}", v[at])),
                other => Err(Problem::Said(format!("values of {} are not supported", other.element()))),
            };
            let texts = places.iter().map(|place| place.map_or(Ok("0.f".to_owned()), text));
            Data::String(texts.collect::<Result<_, _>>()?)
        }
    })
}

pub(super) fn zip_map(maker: &mut Maker) -> Made {
    let labels = Labels::read(maker, "classlabels_int64s", "classlabels_strings")?;
    let count = labels.len();
    // Keys ascending and once; of equal labels the last one's value counts.
    fn sorted<K: Ord + Clone>(labels: &[K]) -> (Vec<K>, Vec<usize>) {
        let map: std::collections::BTreeMap<&K, usize> =
            labels.iter().enumerate().map(|(at, key)| (key, at)).collect();
        (map.keys().map(|&key| key.clone()).collect(), map.into_values().collect())
    }
    let (keys, places) = match &labels {
        Labels::Ints(labels) => {
            let (keys, places) = sorted(labels);
            (Keys::I64(keys), places)
        }
        Labels::Texts(labels) => {
            let (keys, places) = sorted(labels);
            (Keys::String(keys), places)
        }
    };
    let keys = Arc::new(keys);
    if count == 0 {
        return Err("it has no class labels".into());
    }
    plain(move |inputs: &Inputs, _| {
        let x = inputs.tensor(0)?;
        let (_, columns) = x.matrix()?;
        if columns != count {
            return Err(Problem::Said(format!("rows of {columns} scores for {count} class labels")));
        }
        let row = |row: &[f32]| Map {
            keys: Arc::clone(&keys),
            values: Data::F32(places.iter().map(|&at| row[at]).collect()),
        };
        Ok(Value::Maps(floats(x)?.chunks(columns).map(row).collect()))
    })
}
