//! Operators on single elements, with broadcasting where there are several inputs.

use half::{bf16, f16};

use super::broadcast::{Places, common};
use super::numbers::pick;
use crate::error::Problem;
use crate::operator::{Inputs, Made, Maker, plain};
use crate::value::{Data, Tensor};

fn unsupported(data: &Data) -> Problem {
    Problem::Said(format!("elements of {} are not supported", data.element()))
}

/// An operator on floats of any type; halves are computed in `f32`.
fn float_function(single: fn(f32) -> f32, double: fn(f64) -> f64) -> Made {
    plain(move |inputs: &Inputs, _| {
        let x = inputs.tensor(0)?;
        let data = match x.data() {
            Data::F32(v) => Data::F32(v.iter().map(|&x| single(x)).collect()),
            Data::F64(v) => Data::F64(v.iter().map(|&x| double(x)).collect()),
            Data::F16(v) => Data::F16(v.iter().map(|&x| f16::from_f32(single(x.to_f32()))).collect()),
            Data::Bf16(v) => Data::Bf16(v.iter().map(|&x| bf16::from_f32(single(x.to_f32()))).collect()),
            other => return Err(unsupported(other)),
        };
        Ok(Tensor::new(x.shape().to_vec(), data)?.into())
    })
}

/// An operator on numbers of any signed type.
macro_rules! signed_function {
    ($x:ident => $float:expr, $int:expr) => {
        plain(|inputs: &Inputs, _| {
            let x = inputs.tensor(0)?;
            let data = match x.data() {
                Data::F32(v) => Data::F32(v.iter().map(|&$x| $float).collect()),
                Data::F64(v) => Data::F64(v.iter().map(|&$x| $float).collect()),
                Data::I8(v) => Data::I8(v.iter().map(|&$x| $int).collect()),
                Data::I16(v) => Data::I16(v.iter().map(|&$x| $int).collect()),
                Data::I32(v) => Data::I32(v.iter().map(|&$x| $int).collect()),
                Data::I64(v) => Data::I64(v.iter().map(|&$x| $int).collect()),
                other => return Err(unsupported(other)),
            };
            Ok(Tensor::new(x.shape().to_vec(), data)?.into())
        })
    };
}

pub(super) fn abs(_: &mut Maker) -> Made {
    signed_function!(x => x.abs(), x.wrapping_abs())
}

pub(super) fn neg(_: &mut Maker) -> Made {
    signed_function!(x => -x, x.wrapping_neg())
}

pub(super) fn sign(_: &mut Maker) -> Made {
    signed_function!(x => if x == 0.0 { x } else { x.signum() }, x.signum())
}

pub(super) fn exp(_: &mut Maker) -> Made {
    float_function(f32::exp, f64::exp)
}

pub(super) fn log(_: &mut Maker) -> Made {
    float_function(f32::ln, f64::ln)
}

pub(super) fn sqrt(_: &mut Maker) -> Made {
    float_function(f32::sqrt, f64::sqrt)
}

pub(super) fn reciprocal(_: &mut Maker) -> Made {
    float_function(f32::recip, f64::recip)
}

pub(super) fn floor(_: &mut Maker) -> Made {
    float_function(f32::floor, f64::floor)
}

pub(super) fn ceil(_: &mut Maker) -> Made {
    float_function(f32::ceil, f64::ceil)
}

pub(super) fn sigmoid(_: &mut Maker) -> Made {
    float_function(super::transform::logistic, |x| 1.0 / (1.0 + (-x).exp()))
}

pub(super) fn tanh(_: &mut Maker) -> Made {
    float_function(f32::tanh, f64::tanh)
}

pub(super) fn relu(_: &mut Maker) -> Made {
    signed_function!(x => if x < 0.0 { 0.0 } else { x }, x.max(0))
}

pub(super) fn is_nan(_: &mut Maker) -> Made {
    plain(|inputs: &Inputs, _| {
        let x = inputs.tensor(0)?;
        let data = match x.data() {
            Data::F32(v) => v.iter().map(|x| x.is_nan()).collect(),
            Data::F64(v) => v.iter().map(|x| x.is_nan()).collect(),
            Data::F16(v) => v.iter().map(|x| x.is_nan()).collect(),
            other => return Err(unsupported(other)),
        };
        Ok(Tensor::new(x.shape().to_vec(), Data::Bool(data))?.into())
    })
}

pub(super) fn not(_: &mut Maker) -> Made {
    plain(|inputs: &Inputs, _| {
        let x = inputs.tensor(0)?;
        let Data::Bool(v) = x.data() else { return Err(unsupported(x.data())) };
        Ok(Tensor::new(x.shape().to_vec(), Data::Bool(v.iter().map(|x| !x).collect()))?.into())
    })
}

pub(super) fn clip(maker: &mut Maker) -> Made {
    // Before version 11 the bounds are attributes.
    let bound = |name: &str| -> Result<Option<f32>, Problem> {
        let there = maker.attributes.has(name);
        Ok(if there { Some(maker.attributes.float_or(name, 0.0)?) } else { None })
    };
    let (low, high) = (bound("min")?, bound("max")?);
    plain(move |inputs: &Inputs, _| {
        let x = inputs.tensor(0)?;
        fn clipped<T: Copy + PartialOrd>(v: &[T], low: Option<T>, high: Option<T>) -> Vec<T> {
            let one = |&x: &T| {
                let x = low.filter(|&low| x < low).unwrap_or(x);
                high.filter(|&high| x > high).unwrap_or(x)
            };
            v.iter().map(one).collect()
        }
        let (low_input, high_input) = (inputs.optional(1)?, inputs.optional(2)?);
        macro_rules! bounds {
            ($kind:ident, $v:expr, $old:expr) => {{
                let given = |input: Option<&Tensor>| match input.map(|x| x.data()) {
                    Some(Data::$kind(v)) => Ok(v.first().copied()),
                    Some(other) => Err(unsupported(other)),
                    None => Ok(None),
                };
                let low = given(low_input)?.or($old(low));
                Data::$kind(clipped($v, low, given(high_input)?.or($old(high))))
            }};
        }
        let data = match x.data() {
            Data::F32(v) => bounds!(F32, v, |x: Option<f32>| x),
            Data::F64(v) => bounds!(F64, v, |x: Option<f32>| x.map(f64::from)),
            Data::I64(v) => bounds!(I64, v, |x: Option<f32>| x.map(|x| x as i64)),
            Data::I32(v) => bounds!(I32, v, |x: Option<f32>| x.map(|x| x as i32)),
            other => return Err(unsupported(other)),
        };
        Ok(Tensor::new(x.shape().to_vec(), data)?.into())
    })
}

/// Two inputs broadcast together, element by element.
struct Pair<'a> {
    a: &'a Tensor,
    b: &'a Tensor,
    shape: Vec<usize>,
    places: (Places, Places),
}

impl<'a> Pair<'a> {
    fn new(a: &'a Tensor, b: &'a Tensor) -> Result<Pair<'a>, Problem> {
        let shape = common(&[a.shape(), b.shape()])?;
        let places = (Places::new(a.shape(), &shape), Places::new(b.shape(), &shape));
        Ok(Pair { a, b, shape, places })
    }

    fn each<T: Clone, U>(&self, a: &[T], b: &[T], f: impl Fn(T, T) -> U) -> Vec<U> {
        match &self.places {
            (Places::Same, Places::Same) => a.iter().zip(b).map(|(a, b)| f(a.clone(), b.clone())).collect(),
            (Places::Same, Places::Single) => a.iter().map(|a| f(a.clone(), b[0].clone())).collect(),
            (first, second) => {
                let total = self.shape.iter().product();
                (0..total).map(|i| f(a[first.at(i)].clone(), b[second.at(i)].clone())).collect()
            }
        }
    }

    fn mismatch(&self) -> Problem {
        let (a, b) = (self.a.data().element(), self.b.data().element());
        Problem::Said(format!("elements of {a} and {b} are not supported together"))
    }
}

/// Arithmetic on two inputs of one type; integers wrap around.
macro_rules! arithmetic {
    ($pair:expr, $a:ident, $b:ident => $float:expr, $int:expr) => {{
        let pair: &Pair = $pair;
        match (pair.a.data(), pair.b.data()) {
            (Data::F32(x), Data::F32(y)) => Data::F32(pair.each(x, y, |$a: f32, $b: f32| $float)),
            (Data::F64(x), Data::F64(y)) => Data::F64(pair.each(x, y, |$a: f64, $b: f64| $float)),
            (Data::F16(x), Data::F16(y)) => Data::F16(pair.each(x, y, |a, b| {
                let ($a, $b): (f32, f32) = (f16::to_f32(a), f16::to_f32(b));
                f16::from_f32($float)
            })),
            (Data::I8(x), Data::I8(y)) => Data::I8(pair.each(x, y, |$a: i8, $b: i8| $int)),
            (Data::I16(x), Data::I16(y)) => Data::I16(pair.each(x, y, |$a: i16, $b: i16| $int)),
            (Data::I32(x), Data::I32(y)) => Data::I32(pair.each(x, y, |$a: i32, $b: i32| $int)),
            (Data::I64(x), Data::I64(y)) => Data::I64(pair.each(x, y, |$a: i64, $b: i64| $int)),
            (Data::U8(x), Data::U8(y)) => Data::U8(pair.each(x, y, |$a: u8, $b: u8| $int)),
            (Data::U16(x), Data::U16(y)) => Data::U16(pair.each(x, y, |$a: u16, $b: u16| $int)),
            (Data::U32(x), Data::U32(y)) => Data::U32(pair.each(x, y, |$a: u32, $b: u32| $int)),
            (Data::U64(x), Data::U64(y)) => Data::U64(pair.each(x, y, |$a: u64, $b: u64| $int)),
            _ => return Err(pair.mismatch()),
        }
    }};
}

type Binary = fn(&Pair) -> Result<Data, Problem>;

fn combine(f: Binary, a: &Tensor, b: &Tensor) -> Result<Tensor, Problem> {
    let pair = Pair::new(a, b)?;
    let data = f(&pair)?;
    Ok(Tensor::new(pair.shape, data)?)
}

/// An operator on two inputs.
fn binary(maker: &Maker, f: Binary) -> Made {
    // Before version 7 broadcasting was asked for, and could begin at another axis.
    if maker.attributes.has("axis") {
        return Err("broadcasting at an axis, as before version 7, is not supported".into());
    }
    maker.attributes.ignore("broadcast");
    plain(move |inputs: &Inputs, _| Ok(combine(f, inputs.tensor(0)?, inputs.tensor(1)?)?.into()))
}

fn added(pair: &Pair) -> Result<Data, Problem> {
    Ok(arithmetic!(pair, a, b => a + b, a.wrapping_add(b)))
}

fn least(pair: &Pair) -> Result<Data, Problem> {
    Ok(arithmetic!(pair, a, b => if a.is_nan() || a < b { a } else { b }, a.min(b)))
}

fn most(pair: &Pair) -> Result<Data, Problem> {
    Ok(arithmetic!(pair, a, b => if a.is_nan() || a > b { a } else { b }, a.max(b)))
}

pub(super) fn add(maker: &mut Maker) -> Made {
    binary(maker, added)
}

pub(super) fn sub(maker: &mut Maker) -> Made {
    binary(maker, |pair| Ok(arithmetic!(pair, a, b => a - b, a.wrapping_sub(b))))
}

pub(super) fn mul(maker: &mut Maker) -> Made {
    binary(maker, |pair| Ok(arithmetic!(pair, a, b => a * b, a.wrapping_mul(b))))
}

/// Whether an input of integers has a 0, by which nothing can be divided.
fn has_zero(data: &Data) -> bool {
    match data {
        Data::I8(v) => v.contains(&0),
        Data::I16(v) => v.contains(&0),
        Data::I32(v) => v.contains(&0),
        Data::I64(v) => v.contains(&0),
        Data::U8(v) => v.contains(&0),
        Data::U16(v) => v.contains(&0),
        Data::U32(v) => v.contains(&0),
        Data::U64(v) => v.contains(&0),
        Data::F32(_) | Data::F64(_) | Data::F16(_) | Data::Bf16(_) | Data::Bool(_) | Data::String(_) => false,
    }
}

pub(super) fn div(maker: &mut Maker) -> Made {
    binary(maker, |pair| {
        if has_zero(pair.b.data()) {
            return Err("an integer is divided by 0".into());
        }
        Ok(arithmetic!(pair, a, b => a / b, a.wrapping_div(b)))
    })
}

pub(super) fn modulo(maker: &mut Maker) -> Made {
    let truncated = maker.attributes.int_or("fmod", 0)? != 0;
    if truncated {
        return binary(maker, |pair| {
            if has_zero(pair.b.data()) {
                return Err("an integer is divided by 0".into());
            }
            Ok(arithmetic!(pair, a, b => a % b, a.wrapping_rem(b)))
        });
    }
    binary(maker, |pair| {
        if has_zero(pair.b.data()) {
            return Err("an integer is divided by 0".into());
        }
        // The result has the sign of the divisor.
        #[allow(
            unused_comparisons,
            clippy::absurd_extreme_comparisons,
            reason = "the same words serve for signed and unsigned integers"
        )]
        let data = arithmetic!(pair, a, b => {
            let rest = a % b;
            if rest != 0.0 && (rest < 0.0) != (b < 0.0) { rest + b } else { rest }
        }, {
            let rest = a.wrapping_rem(b);
            if rest != 0 && (rest < 0) != (b < 0) { rest.wrapping_add(b) } else { rest }
        });
        Ok(data)
    })
}

pub(super) fn pow(maker: &mut Maker) -> Made {
    maker.attributes.ignore("broadcast");
    plain(|inputs: &Inputs, _| {
        let (x, y) = (inputs.tensor(0)?, inputs.tensor(1)?);
        // The exponent may be of another type; the result is of the first.
        let wide = super::cast::to_type(y.data(), crate::element::ElementType::F64)?;
        let Data::F64(exponents) = &wide else { return Err(unsupported(y.data())) };
        let shape = common(&[x.shape(), y.shape()])?;
        let (first, second) = (Places::new(x.shape(), &shape), Places::new(y.shape(), &shape));
        let total: usize = shape.iter().product();
        let data = match x.data() {
            Data::F32(v) => {
                Data::F32((0..total).map(|i| power(v[first.at(i)], exponents[second.at(i)])).collect())
            }
            Data::F64(v) => {
                Data::F64((0..total).map(|i| v[first.at(i)].powf(exponents[second.at(i)])).collect())
            }
            Data::I32(v) => {
                let one = |i| f64::from(v[first.at(i)]).powf(exponents[second.at(i)]) as i32;
                Data::I32((0..total).map(one).collect())
            }
            Data::I64(v) => {
                let one = |i| (v[first.at(i)] as f64).powf(exponents[second.at(i)]) as i64;
                Data::I64((0..total).map(one).collect())
            }
            other => return Err(unsupported(other)),
        };
        Ok(Tensor::new(shape, data)?.into())
    })
}

/// A power in `f32`; squares, the usual case, are exact products.
fn power(x: f32, exponent: f64) -> f32 {
    if exponent == 2.0 { x * x } else { x.powf(exponent as f32) }
}

/// An operator on any number of inputs, two at a time.
fn variadic(f: Binary) -> Made {
    plain(move |inputs: &Inputs, _| {
        let mut sum: Tensor = inputs.tensor(0)?.clone();
        for i in 1..inputs.len() {
            sum = combine(f, &sum, inputs.tensor(i)?)?;
        }
        Ok(sum.into())
    })
}

pub(super) fn sum(_: &mut Maker) -> Made {
    variadic(added)
}

pub(super) fn max(_: &mut Maker) -> Made {
    variadic(most)
}

pub(super) fn min(_: &mut Maker) -> Made {
    variadic(least)
}

pub(super) fn mean(_: &mut Maker) -> Made {
    plain(|inputs: &Inputs, _| {
        let mut sum: Tensor = inputs.tensor(0)?.clone();
        for i in 1..inputs.len() {
            sum = combine(added, &sum, inputs.tensor(i)?)?;
        }
        let (shape, data) = sum.into_parts();
        let data = match data {
            Data::F32(v) => Data::F32(v.into_iter().map(|x| x / inputs.len() as f32).collect()),
            Data::F64(v) => Data::F64(v.into_iter().map(|x| x / inputs.len() as f64).collect()),
            other => return Err(unsupported(&other)),
        };
        Ok(Tensor::new(shape, data)?.into())
    })
}

/// A comparison of two inputs of one type.
macro_rules! comparison {
    ($maker:expr, $a:ident, $b:ident => $test:expr, $($extra:ident)*) => {
        binary($maker, |pair| {
            Ok(Data::Bool(match (pair.a.data(), pair.b.data()) {
                (Data::F32(x), Data::F32(y)) => pair.each(x, y, |$a, $b| $test),
                (Data::F64(x), Data::F64(y)) => pair.each(x, y, |$a, $b| $test),
                (Data::F16(x), Data::F16(y)) => pair.each(x, y, |$a, $b| $test),
                (Data::I8(x), Data::I8(y)) => pair.each(x, y, |$a, $b| $test),
                (Data::I16(x), Data::I16(y)) => pair.each(x, y, |$a, $b| $test),
                (Data::I32(x), Data::I32(y)) => pair.each(x, y, |$a, $b| $test),
                (Data::I64(x), Data::I64(y)) => pair.each(x, y, |$a, $b| $test),
                (Data::U8(x), Data::U8(y)) => pair.each(x, y, |$a, $b| $test),
                (Data::U16(x), Data::U16(y)) => pair.each(x, y, |$a, $b| $test),
                (Data::U32(x), Data::U32(y)) => pair.each(x, y, |$a, $b| $test),
                (Data::U64(x), Data::U64(y)) => pair.each(x, y, |$a, $b| $test),
                $((Data::$extra(x), Data::$extra(y)) => pair.each(x, y, |$a, $b| $test),)*
                _ => return Err(pair.mismatch()),
            }))
        })
    };
}

pub(super) fn equal(maker: &mut Maker) -> Made {
    comparison!(maker, a, b => a == b, Bool String)
}

pub(super) fn less(maker: &mut Maker) -> Made {
    comparison!(maker, a, b => a < b,)
}

pub(super) fn less_or_equal(maker: &mut Maker) -> Made {
    comparison!(maker, a, b => a <= b,)
}

pub(super) fn greater(maker: &mut Maker) -> Made {
    comparison!(maker, a, b => a > b,)
}

pub(super) fn greater_or_equal(maker: &mut Maker) -> Made {
    comparison!(maker, a, b => a >= b,)
}

fn logical(maker: &Maker, f: fn(bool, bool) -> bool) -> Made {
    maker.attributes.ignore("broadcast");
    plain(move |inputs: &Inputs, _| {
        let pair = Pair::new(inputs.tensor(0)?, inputs.tensor(1)?)?;
        let (Data::Bool(x), Data::Bool(y)) = (pair.a.data(), pair.b.data()) else {
            return Err(pair.mismatch());
        };
        let data = Data::Bool(pair.each(x, y, f));
        Ok(Tensor::new(pair.shape, data)?.into())
    })
}

pub(super) fn and(maker: &mut Maker) -> Made {
    logical(maker, |a, b| a & b)
}

pub(super) fn or(maker: &mut Maker) -> Made {
    logical(maker, |a, b| a | b)
}

pub(super) fn xor(maker: &mut Maker) -> Made {
    logical(maker, |a, b| a ^ b)
}

pub(super) fn select(_: &mut Maker) -> Made {
    plain(|inputs: &Inputs, _| {
        let (test, a, b) = (inputs.tensor(0)?, inputs.tensor(1)?, inputs.tensor(2)?);
        let Data::Bool(flags) = test.data() else { return Err(unsupported(test.data())) };
        if a.data().element() != b.data().element() {
            return Err(Pair::new(a, b)?.mismatch());
        }
        let shape = common(&[test.shape(), a.shape(), b.shape()])?;
        let [test, first, second] = [test, a, b].map(|x| Places::new(x.shape(), &shape));
        let total: usize = shape.iter().product();
        // Both joined, so that one list of places picks from either.
        let places: Vec<usize> = (0..total)
            .map(|i| if flags[test.at(i)] { first.at(i) } else { a.data().len() + second.at(i) })
            .collect();
        let both = join(a.data(), b.data());
        Ok(Tensor::new(shape, pick(&both, &places))?.into())
    })
}

/// The elements of two inputs of one type, one after the other.
fn join(a: &Data, b: &Data) -> Data {
    macro_rules! joined {
        ($($kind:ident)*) => {
            match (a, b) {
                $((Data::$kind(a), Data::$kind(b)) => Data::$kind([&a[..], &b[..]].concat()),)*
                _ => a.clone(),
            }
        };
    }
    joined!(F32 F64 F16 Bf16 I8 I16 I32 I64 U8 U16 U32 U64 Bool String)
}
