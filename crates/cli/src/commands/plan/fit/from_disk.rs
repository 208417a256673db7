//! Models larger than the memory, with a part of their weights on the disk.

use model::Residence;
use serde::Serialize;

use crate::commands::plan::models::Looked;
use crate::commands::plan::report::{Report, rate};
use crate::store::size;

/// Memory for weights is told in whole units of this.
const UNIT: u64 = 1 << 28;

/// How a model runs that does not fit.
#[derive(Serialize)]
pub(super) struct FromDisk {
    /// What `--weights-memory` would be.
    weights_memory_bytes: u64,
    /// What stays on the disk.
    disk_bytes: u64,
    /// What a token of one stream reads of it, if none is cached.
    read_bytes_per_token: u64,
    /// Tokens a second of one stream.
    tokens_per_s: f64,
}

impl FromDisk {
    /// With weights in what `memory` bytes leave beside `others`; none if that is nothing, or all of the model fits. A step
    /// of one stream takes `step` seconds without the disk, which reads `disk_gb_per_s`.
    pub(super) fn of(
        looked: &Looked,
        (memory, others): (u64, u64),
        step: f64,
        disk_gb_per_s: f64,
    ) -> Option<FromDisk> {
        let room = memory.saturating_sub(others) / UNIT * UNIT;
        if room == 0 || others + looked.weight_bytes <= memory {
            return None;
        }
        let residence = Residence::of(&looked.spec, &looked.packed, room);
        let read = residence.read_by(1.0, looked.spec.experts());
        Some(FromDisk {
            weights_memory_bytes: room,
            disk_bytes: residence.disk(),
            read_bytes_per_token: read as u64,
            // The two overlap only in part, and the disk is nearly all of it.
            tokens_per_s: 1.0 / (step + read / (disk_gb_per_s * 1e9)),
        })
    }

    pub(super) fn say(&self, model: &str, disk_gb_per_s: f64, report: &mut Report) {
        report.text(format!(
            "{model} with --weights-memory {}M: {} of the weights stay on the disk, a token reads {} of them, which at {disk_gb_per_s} \
             GB/s is {} tokens/s of one stream.",
            self.weights_memory_bytes >> 20,
            size(self.disk_bytes),
            size(self.read_bytes_per_token),
            rate(self.tokens_per_s)
        ));
    }
}
