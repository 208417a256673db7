//! What generated text depends on, as a short text: two servers with equal ones continue each other's answers exactly.

use cpu::Tier;
use kernels::KvDtype;

use super::Planned;
use crate::{Failure, packed_files};

/// Digits of the files' digest in a fingerprint.
const DIGITS: usize = 16;

impl Planned {
    /// The fingerprint, as `3f2a9c0d11e85b47.avx512.f16.0.9.0` or, with prompts in tiles, `….amx.tiles.f16.0.9.0`: the
    /// model's files, the tier, how prompts are computed, how keys and values are kept, and the version of Gristmill, whose
    /// kernels may round otherwise than another's. Threads, batches and draft models change no text.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub(crate) fn fingerprint(&self) -> Result<String, Failure> {
        let digest = match &self.packed {
            Some(packed) => packed.digest().to_owned(),
            None => packed_files::digest(&self.path, &self.opened)?,
        };
        Ok(of(&digest, self.tier, self.prompts.prompt_tiles, self.kv_dtype))
    }
}

fn of(digest: &str, tier: Tier, prompt_tiles: bool, kv_dtype: KvDtype) -> String {
    let digest: String = digest.chars().take(DIGITS).collect();
    // Elsewhere the flag changes nothing.
    let tiles = if prompt_tiles && tier.to_string().starts_with("amx") { ".tiles" } else { "" };
    format!("{digest}.{tier}{tiles}.{}.{}", kv_dtype.name(), env!("CARGO_PKG_VERSION"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fingerprint_has_what_text_depends_on() {
        let digest = "0ab1".repeat(16);
        let plain = of(&digest, Tier::Scalar, true, KvDtype::F16);
        assert_eq!(
            plain,
            format!("0ab10ab10ab10ab1.scalar.{}.{}", KvDtype::F16.name(), env!("CARGO_PKG_VERSION"))
        );
        assert_eq!(of(&digest, Tier::Scalar, false, KvDtype::F16), plain, "there are no tiles to use");
        assert_ne!(of(&digest, Tier::Scalar, true, KvDtype::Q8_0), plain);
    }
}
