//! Parsing the name of a format.

use std::str::FromStr;

use crate::{Dtype, Error};

impl FromStr for Dtype {
    type Err = Error;

    fn from_str(s: &str) -> Result<Self, Error> {
        Self::ALL
            .into_iter()
            .find(|d| d.name().eq_ignore_ascii_case(s))
            .ok_or_else(|| Error::UnknownFormat { name: s.to_owned() })
    }
}
