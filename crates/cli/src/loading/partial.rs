//! Models of which not all weights fit in memory.

use kernels::Precision;
use model::{PackedCache, Residence, Spec};
use weights::Opened;

use crate::store::size;

/// Memory for weights is told in whole units of this.
const UNIT: u64 = 64 << 20;

/// Where the weights of a model are to be.
pub(crate) struct Weights {
    pub(crate) residence: Residence,
    experts: (usize, usize),
}

impl Weights {
    /// All in memory, or as much of them as `cache` says.
    ///
    /// # Errors
    /// As [`Spec::weight_bytes`].
    pub(crate) fn of(
        spec: &Spec,
        opened: &Opened,
        tier: cpu::Tier,
        precision: Precision,
        cache: PackedCache,
    ) -> Result<Weights, model::Error> {
        let PackedCache::Partial(budget) = cache else {
            let memory = spec.weight_bytes(opened, tier, precision)?;
            return Ok(Weights { residence: Residence { memory, ..Residence::default() }, experts: (0, 0) });
        };
        let packed = spec.packed_weights(opened, tier, precision)?;
        Ok(Weights { residence: Residence::of(spec, &packed, budget), experts: spec.experts() })
    }

    /// What the user is told of weights on the disk; none if there are none.
    pub(crate) fn remark(&self) -> Option<String> {
        let on_disk = self.residence.disk();
        (on_disk > 0).then(|| {
            format!(
                "{} of the weights stay on the disk: a token of one stream reads {} of them, unless the system has them cached",
                size(on_disk),
                size(self.residence.read_by(1.0, self.experts) as u64)
            )
        })
    }
}

/// What the refusal of a model adds that needs `need` bytes, of which `weights` could partly stay on the disk.
pub(crate) fn way_out(need: u64, weights: u64, available: u64) -> String {
    let others = need.saturating_sub(weights);
    let room = available.saturating_sub(others) / UNIT * UNIT;
    if need <= available || room == 0 || weights == 0 {
        return String::new();
    }
    let mib = room >> 20;
    format!(
        "; --weights-memory {mib}M would leave {} of the weights on the disk, which is slow",
        size(weights - room)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_told_its_way_out() {
        let gb = 1_000_000_000;
        let said = way_out(41 * gb, 40 * gb, 32 * gb);
        assert_eq!(
            said,
            "; --weights-memory 29504M would leave 9.1 GB of the weights on the disk, which is slow"
        );
        assert_eq!(way_out(41 * gb, 40 * gb, 42 * gb), "");
        assert_eq!(way_out(41 * gb, 4 * gb, 20 * gb), "");
        assert_eq!(way_out(41 * gb, 0, 20 * gb), "");
    }

    #[test]
    fn weights_on_the_disk_are_told_with_what_a_token_reads() {
        let residence =
            Residence { memory: 1, disk_step: 1_000_000_000, disk_experts: 8_000_000_000, disk_rows: 0 };
        let said = Weights { residence, experts: (8, 2) }.remark().unwrap();
        assert!(
            said.starts_with("9.0 GB of the weights stay on the disk: a token of one stream reads 3.0 GB"),
            "{said}"
        );
        let residence = Residence { memory: 1, ..Residence::default() };
        assert_eq!(Weights { residence, experts: (8, 2) }.remark(), None);
    }
}
