//! IQ3_S: points of four in the file, a 4-bit index of each weight in memory, and a scale for 32.

use tensor::Dtype;

use super::Format;
use super::codes::{Lookup, Table, biased};
use super::scales::SuperScale32;

/// The format IQ3_S.
pub(crate) struct Iq3S;

impl Format for Iq3S {
    const DTYPE: Dtype = Dtype::IQ3_S;
    type Codes = Lookup<Iq3S>;
    type Scales = SuperScale32;
}

impl Table for Iq3S {
    const VALUES: [u8; 16] = biased(&tensor::format::iq3_s::TABLE);
}
