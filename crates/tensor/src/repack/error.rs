//! Why a layer cannot be repacked.

use crate::Dtype;

/// Why a layer cannot be repacked.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Error {
    /// Rows or columns that no block can hold.
    #[error(
        "a matrix of {rows} × {cols} with a scale for {group} columns; columns and groups are multiples of 32"
    )]
    Shape {
        /// Outputs.
        rows: usize,
        /// Inputs.
        cols: usize,
        /// Columns that share a scale.
        group: usize,
    },
    /// Bytes that are not those of the shape.
    #[error("its {part} take {need} bytes, {have} were given")]
    Bytes {
        /// Codes, scales or zero points.
        part: &'static str,
        /// The bytes of the shape.
        need: usize,
        /// The bytes given.
        have: usize,
    },
    /// Zero points in AWQ's order, which are 4 bits wide, beside codes of another width.
    #[error("zero points in AWQ's order go with codes of 4 bits, these have {bits}")]
    ZeroBits {
        /// Bits of a code.
        bits: u32,
    },
    /// A weight whose code has no place in the format.
    #[error(
        "the weight in row {row}, column {col} is {value} steps from zero; {dtype} holds {least} to {most}"
    )]
    Code {
        /// The format.
        dtype: Dtype,
        /// The row.
        row: usize,
        /// The column.
        col: usize,
        /// Code minus zero point.
        value: i32,
        /// The least that the format holds.
        least: i32,
        /// The most that it holds.
        most: i32,
    },
    /// A scale that is no number or too large.
    #[error("the scale in row {row}, column {col} is {value}; the largest is 65504")]
    Scale {
        /// The row.
        row: usize,
        /// The column.
        col: usize,
        /// The scale.
        value: f32,
    },
}
