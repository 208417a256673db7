//! The scalar tier: small tiles, since larger ones are no faster and take longer to compile.

use super::neon;
use super::table::Tune;

pub(super) const TUNE: Tune = Tune { mr: 2, query_tile: 2, ..neon::TUNE };
