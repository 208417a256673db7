//! The values and the unit of a format, read at run time.

/// What the codes of a format mean where the layout does not say it.
#[derive(Clone, Copy)]
pub(crate) struct Grid {
    /// The values that indices stand for, each plus 128, where codes are indices.
    pub(crate) values: [u8; 16],
    /// A factor of all scales, where the layout [has one](super::BlockLayout::HAS_UNIT). Not in the stored f16, which might be
    /// too small a number for it.
    pub(crate) unit: f32,
}

impl Grid {
    /// The grid of `values`, with scales in units of `unit`.
    pub(super) const fn new(values: &[i8; 16], unit: f32) -> Grid {
        let mut biased = [0; 16];
        let mut i = 0;
        while i < 16 {
            biased[i] = values[i].cast_unsigned() ^ 0x80;
            i += 1;
        }
        Grid { values: biased, unit }
    }
}
