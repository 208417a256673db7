//! One file per format: its layout, and the scalar code that defines it.
//!
//! Every quantized format here uses one formula: a weight is `scale * (q - offset) - min`, with `scale` and `min`
//! shared by a group of 16 or 32 weights and `q` a small unsigned code. So a format is its [`BlockShape`] and a way to
//! read codes, scales and minima from a block ([`codes`]); dequantizing is written once, on top of that. The results
//! are bit for bit those of the `gguf` Python package, since each step is one IEEE operation on the same values in the
//! same order. Layouts: `ggml/src/ggml-common.h` of llama.cpp; MXFP4 also in the OCP Microscaling Formats specification
//! 1.0.

pub(crate) mod bits;
mod encode;
mod grids;
mod i_quant;
pub mod iq1_m;
pub mod iq1_s;
pub mod iq2_s;
pub mod iq2_xs;
pub mod iq2_xxs;
pub mod iq3_s;
pub mod iq3_xxs;
pub mod iq4_nl;
pub mod iq4_xs;
pub mod mxfp4;
pub mod nvfp4;
pub mod plain;
pub mod q2_k;
pub mod q3_k;
pub mod q4_0;
pub mod q4_1;
pub mod q4_k;
pub mod q5_0;
pub mod q5_1;
pub mod q5_k;
pub mod q6_k;
pub mod q8_0;
mod shape;
pub mod tq1_0;
pub mod tq2_0;

pub use shape::{BlockShape, SuperScales};

use crate::{Dtype, Error};
use shape::ReadSubScales;

/// Most weights in a block of any format.
pub const MAX_BLOCK_WEIGHTS: usize = 256;
/// Most bytes in a block of any format.
pub const MAX_BLOCK_BYTES: usize = 210;
/// Most groups in a block of any format.
pub const MAX_GROUPS: usize = 16;

type ReadCodes = fn(block: &[u8], q: &mut [u8], scale: &mut [f32], min: &mut [f32]);

/// The functions of one quantized format, by which the dispatch below is one table. Lengths are exact: a block of
/// bytes, a block of weights, one scale and one minimum for each group.
struct Format {
    codes: ReadCodes,
    encode: fn(values: &[f32], block: &mut [u8]),
    sub_scales: Option<ReadSubScales>,
}

macro_rules! formats {
    ($($dtype:ident => $module:ident),* $(,)?) => {
        const fn shape(dtype: Dtype) -> Option<BlockShape> {
            match dtype {
                $(Dtype::$dtype => Some($module::BLOCK_SHAPE),)*
                Dtype::F32 | Dtype::F16 | Dtype::BF16 => None,
            }
        }

        fn format(dtype: Dtype) -> Option<Format> {
            match dtype {
                $(Dtype::$dtype => Some(Format {
                    codes: $module::codes,
                    encode: $module::encode,
                    sub_scales: $module::SUB_SCALES,
                }),)*
                Dtype::F32 | Dtype::F16 | Dtype::BF16 => None,
            }
        }

        // What holds for every format.
        const _: () = {
            $(
                let shape = $module::BLOCK_SHAPE;
                let weights = Dtype::$dtype.block_weights();
                assert!(weights <= MAX_BLOCK_WEIGHTS && weights.is_multiple_of(shape.group));
                assert!(weights / shape.group <= MAX_GROUPS);
                assert!(Dtype::$dtype.block_bytes() <= MAX_BLOCK_BYTES);
                assert!($module::BYTES == Dtype::$dtype.block_bytes());
            )*
        };
    };
}

formats! {
    Q4_0 => q4_0,
    Q4_1 => q4_1,
    Q5_0 => q5_0,
    Q5_1 => q5_1,
    Q8_0 => q8_0,
    Q2_K => q2_k,
    Q3_K => q3_k,
    Q4_K => q4_k,
    Q5_K => q5_k,
    Q6_K => q6_k,
    IQ4_NL => iq4_nl,
    IQ4_XS => iq4_xs,
    MXFP4 => mxfp4,
    NVFP4 => nvfp4,
    IQ1_S => iq1_s,
    IQ1_M => iq1_m,
    IQ2_XXS => iq2_xxs,
    IQ2_XS => iq2_xs,
    IQ2_S => iq2_s,
    IQ3_XXS => iq3_xxs,
    IQ3_S => iq3_s,
    TQ1_0 => tq1_0,
    TQ2_0 => tq2_0,
}

/// The shape of a quantized format; none for the plain floats.
pub const fn block_shape(dtype: Dtype) -> Option<BlockShape> {
    shape(dtype)
}

/// Reads one block of a quantized format: `weight[i] = scale[g] * (q[i] - offset) - min[g]` with `g = i / group`.
///
/// `block`: [`Dtype::block_bytes`]; `q`: `[block_weights]`, in weight order; `scale` and `min`: `[groups]`, `min` all 0
/// where the format has none. For the formats with a [`table`] `q` is the table's value plus the offset, so that the
/// formula holds for them too; [`indices`] gives their 4-bit indices.
///
/// # Panics
/// On lengths other than these, and on plain floats, which have no codes: both are mistakes of the caller.
pub fn codes(dtype: Dtype, block: &[u8], q: &mut [u8], scale: &mut [f32], min: &mut [f32]) {
    let (Some(shape), Some(format)) = (shape(dtype), format(dtype)) else {
        panic!("{dtype} has no codes");
    };
    let groups = dtype.block_weights() / shape.group;
    assert_eq!(block.len(), dtype.block_bytes(), "{dtype}: bytes of a block");
    assert_eq!(q.len(), dtype.block_weights(), "{dtype}: weights of a block");
    assert_eq!((scale.len(), min.len()), (groups, groups), "{dtype}: groups of a block");
    (format.codes)(block, q, scale, min);
}

/// The raw scales of one block: `sub_scales` and `sub_minima` (`[groups]`, minima 0 where the format has none) under
/// the two f16 that are returned. The formats with one scale a block have sub-scales of 1. None for plain floats, and
/// for the formats whose scales are small floats: [`scale_bytes`].
///
/// # Panics
/// On lengths that are not a block and its groups.
pub fn sub_scales(
    dtype: Dtype,
    block: &[u8],
    sub_scales: &mut [i8],
    sub_minima: &mut [u8],
) -> Option<SuperScales> {
    let (shape, read) = (shape(dtype)?, format(dtype)?.sub_scales?);
    let groups = dtype.block_weights() / shape.group;
    assert_eq!(block.len(), dtype.block_bytes(), "{dtype}: bytes of a block");
    assert_eq!((sub_scales.len(), sub_minima.len()), (groups, groups), "{dtype}: groups of a block");
    Some(read(block, sub_scales, sub_minima))
}

/// The bytes of a block's scales where they are small floats: the exponent of MXFP4 ([`mxfp4::half_power`]), a scale to
/// each group of NVFP4 ([`nvfp4::half_scale`]). None for the other formats.
///
/// # Panics
/// If `block` is shorter than a block.
pub fn scale_bytes(dtype: Dtype, block: &[u8]) -> Option<&[u8]> {
    match dtype {
        Dtype::MXFP4 => Some(&block[mxfp4::E..mxfp4::QS]),
        Dtype::NVFP4 => Some(&block[nvfp4::SCALES..nvfp4::QS]),
        _ => None,
    }
}

/// The table that a format's 4-bit indices look up, if it has one. Tables of less than sixteen values end in zeros that no
/// index looks up.
pub const fn table(dtype: Dtype) -> Option<&'static [i8; 16]> {
    match dtype {
        Dtype::IQ4_NL | Dtype::IQ4_XS => Some(&iq4_nl::TABLE),
        Dtype::MXFP4 | Dtype::NVFP4 => Some(&mxfp4::TABLE),
        Dtype::IQ1_S | Dtype::IQ1_M => Some(&iq1_s::TABLE),
        Dtype::IQ2_XXS | Dtype::IQ2_XS | Dtype::IQ2_S => Some(&iq2_xxs::TABLE),
        Dtype::IQ3_XXS => Some(&iq3_xxs::TABLE),
        Dtype::IQ3_S => Some(&iq3_s::TABLE),
        _ => None,
    }
}

/// The indices of one block of a format with a [`table`], in weight order; false for the other formats.
///
/// # Panics
/// On lengths that are not a block and its weights.
pub fn indices(dtype: Dtype, block: &[u8], q: &mut [u8]) -> bool {
    let read: fn(&[u8], &mut [u8]) = match dtype {
        Dtype::IQ4_NL => |block, q| bits::nibbles(&block[iq4_nl::QS..], 16, q),
        Dtype::IQ4_XS => |block, q| bits::nibbles(&block[iq4_xs::QS..], 16, q),
        Dtype::MXFP4 => |block, q| bits::nibbles(&block[mxfp4::QS..], 16, q),
        Dtype::NVFP4 => nvfp4::indices,
        Dtype::IQ1_S => iq1_s::indices,
        Dtype::IQ1_M => iq1_m::indices,
        Dtype::IQ2_XXS => iq2_xxs::indices,
        Dtype::IQ2_XS => iq2_xs::indices,
        Dtype::IQ2_S => iq2_s::indices,
        Dtype::IQ3_XXS => iq3_xxs::indices,
        Dtype::IQ3_S => iq3_s::indices,
        _ => return false,
    };
    assert_eq!(block.len(), dtype.block_bytes(), "{dtype}: bytes of a block");
    assert_eq!(q.len(), dtype.block_weights(), "{dtype}: weights of a block");
    read(block, q);
    true
}

/// Turns encoded weights into f32, bit for bit as the `gguf` Python package does.
///
/// # Errors
/// `out` is not whole blocks, or `bytes` is not their size.
pub fn dequantize(dtype: Dtype, bytes: &[u8], out: &mut [f32]) -> Result<(), Error> {
    let need = dtype.row_bytes(out.len()).ok_or(Error::NotWholeBlocks { dtype, weights: out.len() })?;
    if bytes.len() != need {
        return Err(Error::WrongLength { dtype, weights: out.len(), need, have: bytes.len() });
    }
    let (Some(shape), Some(format)) = (shape(dtype), format(dtype)) else {
        plain::decode(dtype, bytes, out);
        return Ok(());
    };
    let weights = dtype.block_weights();
    let groups = weights / shape.group;
    let (mut q, mut scale, mut min) = ([0; MAX_BLOCK_WEIGHTS], [0.0; MAX_GROUPS], [0.0; MAX_GROUPS]);
    for (block, out) in bytes.chunks_exact(dtype.block_bytes()).zip(out.chunks_exact_mut(weights)) {
        (format.codes)(block, &mut q[..weights], &mut scale[..groups], &mut min[..groups]);
        for (g, (out, q)) in out.chunks_exact_mut(shape.group).zip(q.chunks_exact(shape.group)).enumerate() {
            for (w, &q) in out.iter_mut().zip(q) {
                // Taking away a minimum of 0 changes no bit, not even of a negative zero.
                *w = scale[g] * (i32::from(q) - shape.offset) as f32 - min[g];
            }
        }
    }
    Ok(())
}

/// Appends `values` encoded. Any valid encoding: the formats of one scale as the `gguf` package rounds them, K-quants by
/// the range of each group.
///
/// # Errors
/// `values` are not whole blocks, or one is not finite and the format is a quantized one.
pub fn quantize(dtype: Dtype, values: &[f32], out: &mut Vec<u8>) -> Result<(), Error> {
    let bytes =
        dtype.row_bytes(values.len()).ok_or(Error::NotWholeBlocks { dtype, weights: values.len() })?;
    let Some(format) = format(dtype) else {
        plain::encode(dtype, values, out);
        return Ok(());
    };
    if let Some(index) = values.iter().position(|v| !v.is_finite()) {
        return Err(Error::NotFinite { dtype, index, value: values[index].to_string() });
    }
    let start = out.len();
    out.resize(start + bytes, 0);
    let blocks = out[start..].chunks_exact_mut(dtype.block_bytes());
    for (block, values) in blocks.zip(values.chunks_exact(dtype.block_weights())) {
        (format.encode)(values, block);
    }
    Ok(())
}

/// Checks that every weight is a finite number, which for quantized formats needs their scales only.
///
/// # Errors
/// The first weight that is not finite (of a block: its first), or bytes that are not whole blocks.
pub fn check_finite(dtype: Dtype, bytes: &[u8]) -> Result<(), Error> {
    let (size, weights) = (dtype.block_bytes(), dtype.block_weights());
    if !bytes.len().is_multiple_of(size) {
        let blocks = bytes.len() / size;
        return Err(Error::WrongLength {
            dtype,
            weights: blocks * weights,
            need: blocks * size,
            have: bytes.len(),
        });
    }
    if finite(dtype, bytes) {
        return Ok(());
    }
    let block = bytes.chunks_exact(size).position(|block| !finite(dtype, block)).unwrap_or_default();
    Err(Error::NotFinite { dtype, index: block * weights, value: "not a finite number".to_owned() })
}

/// Whether all weights of whole blocks are finite, in one pass without a branch for each.
fn finite(dtype: Dtype, bytes: &[u8]) -> bool {
    // The exponent of an infinity or NaN is all ones.
    fn all<const B: usize>(bytes: &[u8], finite: impl Fn(&[u8; B]) -> bool) -> bool {
        bytes.as_chunks::<B>().0.iter().fold(true, |all, block| all & finite(block))
    }
    fn halves<const B: usize>(bytes: &[u8], at: [usize; 2]) -> bool {
        let finite = |block: &[u8; B], at| bits::half_bits(block, at) & 0x7c00 != 0x7c00;
        all::<B>(bytes, |block| finite(block, at[0]) & finite(block, at[1]))
    }
    match dtype {
        Dtype::F32 => all::<4>(bytes, |four| u32::from_le_bytes(*four) & 0x7f80_0000 != 0x7f80_0000),
        Dtype::F16 => all::<2>(bytes, |two| u16::from_le_bytes(*two) & 0x7c00 != 0x7c00),
        Dtype::BF16 => all::<2>(bytes, |two| u16::from_le_bytes(*two) & 0x7f80 != 0x7f80),
        Dtype::MXFP4 => all::<{ mxfp4::BYTES }>(bytes, |block| block[mxfp4::E] <= mxfp4::MAX_FINITE_E),
        Dtype::Q4_0 => halves::<{ q4_0::BYTES }>(bytes, [0, 0]),
        Dtype::Q5_0 => halves::<{ q5_0::BYTES }>(bytes, [0, 0]),
        Dtype::Q8_0 => halves::<{ q8_0::BYTES }>(bytes, [0, 0]),
        Dtype::IQ4_NL => halves::<{ iq4_nl::BYTES }>(bytes, [0, 0]),
        Dtype::IQ4_XS => halves::<{ iq4_xs::BYTES }>(bytes, [0, 0]),
        Dtype::Q4_1 => halves::<{ q4_1::BYTES }>(bytes, [0, 2]),
        Dtype::Q5_1 => halves::<{ q5_1::BYTES }>(bytes, [0, 2]),
        Dtype::Q4_K => halves::<{ q4_k::BYTES }>(bytes, [q4_k::D, q4_k::DMIN]),
        Dtype::Q5_K => halves::<{ q5_k::BYTES }>(bytes, [0, 2]),
        Dtype::Q2_K => halves::<{ q2_k::BYTES }>(bytes, [q2_k::D, q2_k::DMIN]),
        Dtype::Q3_K => halves::<{ q3_k::BYTES }>(bytes, [q3_k::D, q3_k::D]),
        Dtype::Q6_K => halves::<{ q6_k::BYTES }>(bytes, [q6_k::D, q6_k::D]),
        Dtype::IQ1_S => halves::<{ iq1_s::BYTES }>(bytes, [0, 0]),
        Dtype::IQ1_M => all::<{ iq1_m::BYTES }>(bytes, |block| iq1_m::scale_bits(block) & 0x7c00 != 0x7c00),
        Dtype::IQ2_XXS => halves::<{ iq2_xxs::BYTES }>(bytes, [0, 0]),
        Dtype::IQ2_XS => halves::<{ iq2_xs::BYTES }>(bytes, [0, 0]),
        Dtype::IQ2_S => halves::<{ iq2_s::BYTES }>(bytes, [0, 0]),
        Dtype::IQ3_XXS => halves::<{ iq3_xxs::BYTES }>(bytes, [0, 0]),
        Dtype::IQ3_S => halves::<{ iq3_s::BYTES }>(bytes, [0, 0]),
        Dtype::TQ1_0 => halves::<{ tq1_0::BYTES }>(bytes, [tq1_0::D, tq1_0::D]),
        Dtype::TQ2_0 => halves::<{ tq2_0::BYTES }>(bytes, [tq2_0::D, tq2_0::D]),
        // What E4M3 has for NaN is zero.
        Dtype::NVFP4 => true,
    }
}
