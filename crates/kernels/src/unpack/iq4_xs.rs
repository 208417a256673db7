//! IQ4_XS: the steps of IQ4_NL with a 6-bit signed scale for 32 weights, in super-blocks of 256.

use tensor::Dtype;

use super::codes::Lookup;
use super::scales::SuperScale32;
use super::{Format, Iq4Nl};

/// The format IQ4_XS.
pub(crate) struct Iq4Xs;

impl Format for Iq4Xs {
    const DTYPE: Dtype = Dtype::IQ4_XS;
    type Codes = Lookup<Iq4Nl>;
    type Scales = SuperScale32;
}
