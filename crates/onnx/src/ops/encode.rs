//! `LabelEncoder`, `OneHotEncoder` and `CategoryMapper`.

use std::collections::HashMap;
use std::hash::Hash;

use crate::error::Problem;
use crate::operator::{Inputs, Made, Maker, Operator, plain};
use crate::options::RunOptions;
use crate::value::{Data, Tensor, Value};

/// Keys of a table of labels. Floats are found by their bits; every NaN is one key, and so are both zeros.
enum Table {
    Texts(HashMap<String, usize>),
    Ints(HashMap<i64, usize>),
    Floats(HashMap<u64, usize>),
}

fn float_key(x: f64) -> u64 {
    if x.is_nan() { f64::NAN.to_bits() } else { (x + 0.0).to_bits() }
}

/// Places of keys; of equal ones the first counts.
fn places<K: Hash + Eq>(keys: impl Iterator<Item = K>) -> HashMap<K, usize> {
    let mut map = HashMap::new();
    for (at, key) in keys.enumerate() {
        map.entry(key).or_insert(at);
    }
    map
}

impl Table {
    fn new(keys: &Data) -> Result<Table, Problem> {
        Ok(match keys {
            Data::String(v) => Table::Texts(places(v.iter().cloned())),
            Data::I64(v) => Table::Ints(places(v.iter().copied())),
            Data::I32(v) => Table::Ints(places(v.iter().map(|&x| i64::from(x)))),
            Data::I16(v) => Table::Ints(places(v.iter().map(|&x| i64::from(x)))),
            Data::F32(v) => Table::Floats(places(v.iter().map(|&x| float_key(f64::from(x))))),
            Data::F64(v) => Table::Floats(places(v.iter().map(|&x| float_key(x)))),
            other => return Err(Problem::Said(format!("keys of {} are not supported", other.element()))),
        })
    }

    /// The place of each element's key.
    fn find(&self, x: &Data) -> Result<Vec<Option<usize>>, Problem> {
        Ok(match (self, x) {
            (Table::Texts(map), Data::String(v)) => v.iter().map(|x| map.get(x).copied()).collect(),
            (Table::Ints(map), Data::I64(v)) => v.iter().map(|x| map.get(x).copied()).collect(),
            (Table::Ints(map), Data::I32(v)) => v.iter().map(|&x| map.get(&i64::from(x)).copied()).collect(),
            (Table::Ints(map), Data::I16(v)) => v.iter().map(|&x| map.get(&i64::from(x)).copied()).collect(),
            (Table::Floats(map), Data::F32(v)) => {
                v.iter().map(|&x| map.get(&float_key(f64::from(x))).copied()).collect()
            }
            (Table::Floats(map), Data::F64(v)) => {
                v.iter().map(|&x| map.get(&float_key(x)).copied()).collect()
            }
            (_, other) => {
                return Err(Problem::Said(format!(
                    "an input of {} is not of the keys' type",
                    other.element()
                )));
            }
        })
    }

    fn bytes(&self) -> usize {
        match self {
            Table::Texts(map) => map.keys().map(|key| 2 * size_of::<String>() + key.len()).sum(),
            Table::Ints(map) => map.len() * 24,
            Table::Floats(map) => map.len() * 24,
        }
    }
}

struct LabelEncoder {
    table: Table,
    values: Data,
    /// One element of the values' type.
    default: Data,
}

impl Operator for LabelEncoder {
    fn run(&self, inputs: &Inputs, _: &RunOptions) -> Result<Vec<Value>, Problem> {
        let x = inputs.tensor(0)?;
        let places = self.table.find(x.data())?;
        Ok(vec![Tensor::new(x.shape().to_vec(), label(&self.values, &self.default, &places)?)?.into()])
    }

    fn bytes(&self) -> usize {
        self.table.bytes() + self.values.bytes()
    }
}

/// The value at each place, or the default.
fn label(values: &Data, default: &Data, places: &[Option<usize>]) -> Result<Data, Problem> {
    fn each<T: Clone>(values: &[T], default: &T, places: &[Option<usize>]) -> Vec<T> {
        places.iter().map(|place| place.map_or(default, |at| &values[at]).clone()).collect()
    }
    Ok(match (values, default) {
        (Data::String(v), Data::String(d)) => Data::String(each(v, &d[0], places)),
        (Data::I64(v), Data::I64(d)) => Data::I64(each(v, &d[0], places)),
        (Data::I32(v), Data::I32(d)) => Data::I32(each(v, &d[0], places)),
        (Data::I16(v), Data::I16(d)) => Data::I16(each(v, &d[0], places)),
        (Data::F32(v), Data::F32(d)) => Data::F32(each(v, &d[0], places)),
        (Data::F64(v), Data::F64(d)) => Data::F64(each(v, &d[0], places)),
        (values, default) => {
            let (values, default) = (values.element(), default.element());
            return Err(Problem::Said(format!("values of {values} with a default of {default}")));
        }
    })
}

pub(super) fn label_encoder(maker: &mut Maker) -> Made {
    let attributes = &maker.attributes;
    if maker.version < 2 {
        return text_or_index(maker, "classes_strings", None);
    }
    let list = |side: &str| -> Result<Data, Problem> {
        let mut found = Vec::new();
        if attributes.has(&format!("{side}_tensor")) {
            let tensor = attributes.tensor(&format!("{side}_tensor"))?;
            found.extend(tensor.map(|tensor| tensor.into_parts().1));
        }
        if attributes.has(&format!("{side}_strings")) {
            found.push(Data::String(attributes.texts(&format!("{side}_strings"))?));
        }
        if attributes.has(&format!("{side}_int64s")) {
            found.push(Data::I64(attributes.ints(&format!("{side}_int64s"))?.to_vec()));
        }
        if attributes.has(&format!("{side}_floats")) {
            found.push(Data::F32(attributes.floats(&format!("{side}_floats"))?.to_vec()));
        }
        match <[Data; 1]>::try_from(found) {
            Ok([data]) => Ok(data),
            Err(found) => {
                Err(Problem::Said(format!("it has {} lists of {side}, and one is needed", found.len())))
            }
        }
    };
    let (keys, values) = (list("keys")?, list("values")?);
    if keys.len() != values.len() {
        return Err(Problem::Said(format!("it has {} keys and {} values", keys.len(), values.len())));
    }
    let default = default(maker, &values)?;
    let table = Table::new(&keys)?;
    label(&values, &default, &[])?;
    Ok(Box::new(LabelEncoder { table, values, default }))
}

/// What a key that is not in the table stands for.
fn default(maker: &Maker, values: &Data) -> Result<Data, Problem> {
    let attributes = &maker.attributes;
    for name in ["default_tensor", "default_string", "default_int64", "default_float"] {
        attributes.ignore(name);
    }
    if let Some(tensor) = attributes.tensor("default_tensor")? {
        let data = tensor.into_parts().1;
        if data.len() != 1 {
            return Err(Problem::Said(format!("attribute default_tensor has {} elements", data.len())));
        }
        return Ok(data);
    }
    Ok(match values {
        Data::String(_) => Data::String(vec![attributes.text_or("default_string", "_Unused")?]),
        Data::I64(_) => Data::I64(vec![attributes.int_or("default_int64", -1)?]),
        Data::F32(_) => Data::F32(vec![attributes.float_or("default_float", -0.0)?]),
        Data::F64(_) => Data::F64(vec![f64::from(attributes.float_or("default_float", -0.0)?)]),
        Data::I16(_) => Data::I16(vec![attributes.int_or("default_int64", -1)? as i16]),
        Data::I32(_) => Data::I32(vec![attributes.int_or("default_int64", -1)? as i32]),
        other => return Err(Problem::Said(format!("values of {} are not supported", other.element()))),
    })
}

pub(super) fn category_mapper(maker: &mut Maker) -> Made {
    let ints = maker.attributes.ints("cats_int64s")?.to_vec();
    text_or_index(maker, "cats_strings", Some(ints))
}

/// Texts to their numbers, and numbers to their texts, as the input is; without numbers, each text's is its place.
fn text_or_index(maker: &Maker, texts: &str, ints: Option<Vec<i64>>) -> Made {
    let texts = maker.attributes.texts(texts)?;
    let default_text = maker.attributes.text_or("default_string", "_Unused")?;
    let default_int = maker.attributes.int_or("default_int64", -1)?;
    let ints = ints.unwrap_or_else(|| (0..texts.len() as i64).collect());
    if ints.len() != texts.len() {
        return Err(Problem::Said(format!("it has {} texts and {} numbers", texts.len(), ints.len())));
    }
    // Of equal keys the last counts.
    let by_text: HashMap<String, i64> = texts.iter().cloned().zip(ints.iter().copied()).collect();
    let by_int: HashMap<i64, String> = ints.into_iter().zip(texts).collect();
    plain(move |inputs: &Inputs, _| {
        let x = inputs.tensor(0)?;
        let data = match x.data() {
            Data::String(v) => {
                Data::I64(v.iter().map(|x| by_text.get(x).copied().unwrap_or(default_int)).collect())
            }
            Data::I64(v) => {
                let text = |x: &i64| by_int.get(x).unwrap_or(&default_text).clone();
                Data::String(v.iter().map(text).collect())
            }
            other => {
                return Err(Problem::Said(format!("an input of {} is not supported", other.element())));
            }
        };
        Ok(Tensor::new(x.shape().to_vec(), data)?.into())
    })
}

pub(super) fn one_hot(maker: &mut Maker) -> Made {
    let ints = maker.attributes.ints("cats_int64s")?.to_vec();
    let texts = maker.attributes.texts("cats_strings")?;
    let zeros = maker.attributes.int_or("zeros", 1)? != 0;
    let categories = ints.len().max(texts.len());
    if categories == 0 || !(ints.is_empty() || texts.is_empty()) {
        return Err("one of cats_int64s and cats_strings is needed".into());
    }
    // Of equal categories the last counts.
    let texts: HashMap<String, usize> = texts.into_iter().enumerate().map(|(i, key)| (key, i)).collect();
    let ints: HashMap<i64, usize> = ints.into_iter().enumerate().map(|(i, key)| (key, i)).collect();
    plain(move |inputs: &Inputs, _| {
        let x = inputs.tensor(0)?;
        let places: Vec<Option<usize>> = match x.data() {
            Data::String(v) => v.iter().map(|x| texts.get(x).copied()).collect(),
            Data::I64(v) => v.iter().map(|x| ints.get(x).copied()).collect(),
            Data::I32(v) => v.iter().map(|&x| ints.get(&i64::from(x)).copied()).collect(),
            Data::F32(v) => v.iter().map(|&x| ints.get(&(x as i64)).copied()).collect(),
            Data::F64(v) => v.iter().map(|&x| ints.get(&(x as i64)).copied()).collect(),
            other => {
                return Err(Problem::Said(format!("an input of {} is not supported", other.element())));
            }
        };
        let size = places.len().checked_mul(categories).ok_or("an output that is too large")?;
        let mut out = vec![0.0f32; size];
        for (at, place) in places.iter().enumerate() {
            match place {
                Some(place) => out[at * categories + place] = 1.0,
                None if zeros => {}
                None => return Err(Problem::Said(format!("element {at} is of no category"))),
            }
        }
        let mut shape = x.shape().to_vec();
        shape.push(categories);
        Ok(Tensor::new(shape, Data::F32(out))?.into())
    })
}
