//! `TopK`.

use std::cmp::Ordering;

use super::numbers::{axis as axis_index, integers};
use super::reduce::Lines;
use crate::error::Problem;
use crate::operator::{Inputs, Made, Maker, Operator};
use crate::options::RunOptions;
use crate::value::{Data, Tensor, Value};

struct TopK {
    axis: i64,
    largest: bool,
    /// Before version 10 an attribute; then an input.
    k: Option<i64>,
}

pub(super) fn top_k(maker: &mut Maker) -> Made {
    let attributes = &maker.attributes;
    // The best come first whether it is asked for or not.
    attributes.ignore("sorted");
    let axis = attributes.int_or("axis", -1)?;
    let largest = attributes.int_or("largest", 1)? != 0;
    Ok(Box::new(TopK { axis, largest, k: attributes.int("k")? }))
}

/// The places of the best `k` of a line; of equal ones the first comes first.
fn best<T: PartialOrd + Copy>(line: &[T], k: usize, largest: bool) -> Vec<usize> {
    let mut places: Vec<usize> = (0..line.len()).collect();
    places.sort_by(|&a, &b| {
        let order = line[a].partial_cmp(&line[b]).unwrap_or(Ordering::Equal);
        if largest { order.reverse() } else { order }
    });
    places.truncate(k);
    places
}

impl Operator for TopK {
    fn run(&self, inputs: &Inputs, _: &RunOptions) -> Result<Vec<Value>, Problem> {
        let x = inputs.tensor(0)?;
        let k = match self.k {
            Some(k) => k,
            None => *integers(inputs.tensor(1)?)?.first().ok_or("input K is empty")?,
        };
        let at = axis_index(self.axis, x.shape().len())?;
        let lines = Lines::new(x.shape(), at);
        let k = usize::try_from(k).ok().filter(|&k| k <= lines.dim);
        let k = k.ok_or_else(|| format!("K is more than the {} elements of the axis", lines.dim))?;
        let mut shape = x.shape().to_vec();
        shape[at] = k;
        let out = Lines { dim: k, ..lines };
        let total = lines.outer * k * lines.inner;
        let mut places = vec![0i64; total];
        macro_rules! each {
            ($kind:ident, $v:expr) => {{
                let mut values = vec![Default::default(); total];
                let mut number = 0;
                lines.each($v, |line| {
                    let chosen = best(line, k, self.largest);
                    let picked: Vec<_> = chosen.iter().map(|&at| line[at]).collect();
                    let chosen: Vec<i64> = chosen.into_iter().map(|at| at as i64).collect();
                    out.write(&mut values, number, &picked);
                    out.write(&mut places, number, &chosen);
                    number += 1;
                });
                Data::$kind(values)
            }};
        }
        let data = match x.data() {
            Data::F32(v) => each!(F32, v),
            Data::F64(v) => each!(F64, v),
            Data::I64(v) => each!(I64, v),
            Data::I32(v) => each!(I32, v),
            other => {
                return Err(Problem::Said(format!("elements of {} are not supported", other.element())));
            }
        };
        Ok(vec![Tensor::new(shape.clone(), data)?.into(), Tensor::new(shape, Data::I64(places))?.into()])
    }
}
