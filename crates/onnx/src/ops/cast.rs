//! `Cast` and `CastLike`.

use half::{bf16, f16};

use crate::element::ElementType;
use crate::error::Problem;
use crate::operator::{Inputs, Made, Maker, plain};
use crate::value::{Data, Tensor};

pub(super) fn cast(maker: &mut Maker) -> Made {
    // Only for 8-bit floats, which are not supported.
    maker.attributes.ignore("saturate");
    maker.attributes.ignore("round_mode");
    // Version 1 named the type.
    let to = maker.attributes.int("to")?.ok_or("attribute to is missing")?;
    let to = i32::try_from(to).map_err(|_| format!("attribute to is {to}"))?;
    let to = ElementType::from_number(to)?;
    plain(move |inputs: &Inputs, _| {
        let x = inputs.tensor(0)?;
        Ok(Tensor::new(x.shape().to_vec(), to_type(x.data(), to)?)?.into())
    })
}

pub(super) fn cast_like(maker: &mut Maker) -> Made {
    maker.attributes.ignore("saturate");
    maker.attributes.ignore("round_mode");
    plain(|inputs: &Inputs, _| {
        let x = inputs.tensor(0)?;
        let to = inputs.tensor(1)?.data().element();
        Ok(Tensor::new(x.shape().to_vec(), to_type(x.data(), to)?)?.into())
    })
}

/// Numbers as the vectors of one type: floats wide, integers signed or not.
enum Wide {
    Float(Vec<f64>),
    Signed(Vec<i64>),
    Unsigned(Vec<u64>),
}

fn wide(data: &Data) -> Result<Wide, Problem> {
    Ok(match data {
        Data::F32(v) => Wide::Float(v.iter().map(|&x| f64::from(x)).collect()),
        Data::F64(v) => Wide::Float(v.clone()),
        Data::F16(v) => Wide::Float(v.iter().map(|&x| f64::from(x)).collect()),
        Data::Bf16(v) => Wide::Float(v.iter().map(|&x| f64::from(x)).collect()),
        Data::I8(v) => Wide::Signed(v.iter().map(|&x| i64::from(x)).collect()),
        Data::I16(v) => Wide::Signed(v.iter().map(|&x| i64::from(x)).collect()),
        Data::I32(v) => Wide::Signed(v.iter().map(|&x| i64::from(x)).collect()),
        Data::I64(v) => Wide::Signed(v.clone()),
        Data::U8(v) => Wide::Unsigned(v.iter().map(|&x| u64::from(x)).collect()),
        Data::U16(v) => Wide::Unsigned(v.iter().map(|&x| u64::from(x)).collect()),
        Data::U32(v) => Wide::Unsigned(v.iter().map(|&x| u64::from(x)).collect()),
        Data::U64(v) => Wide::Unsigned(v.clone()),
        Data::Bool(v) => Wide::Unsigned(v.iter().map(|&x| u64::from(x)).collect()),
        Data::String(v) => {
            let number = |text: &String| {
                text.trim().parse().map_err(|_| Problem::Said(format!("the text '{text}' is no number")))
            };
            Wide::Float(v.iter().map(number).collect::<Result<_, _>>()?)
        }
    })
}

/// The elements in another type. Floats become integers by leaving off what is behind the point; what is out of range
/// ends at the range (the standard leaves it open).
pub(super) fn to_type(data: &Data, to: ElementType) -> Result<Data, Problem> {
    if data.element() == to {
        return Ok(data.clone());
    }
    if to == ElementType::String {
        return texts(data);
    }
    macro_rules! into {
        ($t:ty) => {
            match wide(data)? {
                Wide::Float(v) => v.into_iter().map(|x| x as $t).collect(),
                Wide::Signed(v) => v.into_iter().map(|x| x as $t).collect(),
                Wide::Unsigned(v) => v.into_iter().map(|x| x as $t).collect(),
            }
        };
    }
    let narrow = || -> Result<Vec<f32>, Problem> { Ok(into!(f32)) };
    Ok(match to {
        ElementType::F32 => Data::F32(narrow()?),
        ElementType::F64 => Data::F64(into!(f64)),
        ElementType::F16 => Data::F16(narrow()?.into_iter().map(f16::from_f32).collect()),
        ElementType::Bf16 => Data::Bf16(narrow()?.into_iter().map(bf16::from_f32).collect()),
        ElementType::I8 => Data::I8(into!(i8)),
        ElementType::I16 => Data::I16(into!(i16)),
        ElementType::I32 => Data::I32(into!(i32)),
        ElementType::I64 => Data::I64(into!(i64)),
        ElementType::U8 => Data::U8(into!(u8)),
        ElementType::U16 => Data::U16(into!(u16)),
        ElementType::U32 => Data::U32(into!(u32)),
        ElementType::U64 => Data::U64(into!(u64)),
        ElementType::Bool => Data::Bool(match wide(data)? {
            Wide::Float(v) => v.into_iter().map(|x| x != 0.0).collect(),
            Wide::Signed(v) => v.into_iter().map(|x| x != 0).collect(),
            Wide::Unsigned(v) => v.into_iter().map(|x| x != 0).collect(),
        }),
        ElementType::String => Data::String(Vec::new()),
    })
}

/// Numbers as texts, floats with at most eight digits as ONNX Runtime writes them (`%.8g`).
fn texts(data: &Data) -> Result<Data, Problem> {
    let texts = match data {
        Data::F32(v) => v.iter().map(|&x| general(f64::from(x), 8)).collect(),
        Data::F64(v) => v.iter().map(|&x| general(x, 17)).collect(),
        _ => match wide(data)? {
            Wide::Float(v) => v.iter().map(|&x| general(x, 8)).collect(),
            Wide::Signed(v) => v.iter().map(ToString::to_string).collect(),
            Wide::Unsigned(v) => v.iter().map(ToString::to_string).collect(),
        },
    };
    Ok(Data::String(texts))
}

/// As C's `%.{digits}g`.
fn general(x: f64, digits: usize) -> String {
    if x.is_nan() {
        return "NaN".to_owned();
    }
    if x.is_infinite() {
        return if x > 0.0 { "INF" } else { "-INF" }.to_owned();
    }
    let scientific = format!("{:.*e}", digits - 1, x);
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let trim = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    if exponent < -4 || exponent >= digits as i32 {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{}e{sign}{:02}", trim(mantissa), exponent.abs());
    }
    trim(&format!("{x:.*}", (digits as i32 - 1 - exponent).max(0) as usize))
}

#[cfg(test)]
mod tests {
    use super::general;

    #[test]
    fn numbers_are_written_as_c_writes_them() {
        let cases = [
            (1.0, "1"),
            (0.1f32 as f64, "0.1"),
            (1e-5, "1e-05"),
            (123456789.0, "1.2345679e+08"),
            (-2.5, "-2.5"),
        ];
        for (x, text) in cases {
            assert_eq!(general(x, 8), text);
        }
    }
}
