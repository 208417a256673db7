//! Panels that are kept between starts, and so outlive the program that packed them.

use cpu::lanes::lanes;
use cpu::{Frozen, Tier};
use tensor::Dtype;

use crate::matrix::{Layout, layout, pack_panel, panel_bytes};
use crate::{Error, Matrix, Precision};

/// The version of what packing writes. To be raised whenever the same weights give other bytes, for any format: panels of
/// another version are packed anew. `tests/kernels/panels.rs` knows the bytes.
pub const PANELS: u32 = 1;

impl Layout {
    fn name(self) -> &'static str {
        match self {
            Layout::Quantized(dtype) => dtype.name(),
            Layout::F32 => "F32",
            Layout::F16 => "F16",
            Layout::Bf16 => "BF16",
            Layout::Twelve => "BF16 in 12 bits",
        }
    }

    /// The layout of this name among those that packing may choose.
    fn named(name: &str, lanes: usize, dtype: Dtype, cols: usize, p: Precision) -> Option<Layout> {
        dtype.row_bytes(cols)?;
        let usual = layout(dtype, cols, p, lanes);
        // Weights that do not fit are packed as the other one.
        let other = (usual == Layout::Twelve).then_some(Layout::Bf16);
        std::iter::once(usual).chain(other).find(|layout| layout.name() == name)
    }
}

impl Matrix {
    /// The packed weights. [`Matrix::from_panels`] makes a matrix of them again, on the same tier and with the same
    /// [`PANELS`].
    pub fn panels(&self) -> &[u8] {
        &self.data
    }

    /// The panel of the file's `rows`, as [`Matrix::pack`] writes it for registers of `lanes` lanes, whether this machine has them
    /// or not, in the layout of this name: what [`PANELS`] stands for. None for a layout that is not chosen there, or for
    /// rows that do not fit it.
    pub fn panel_for(
        lanes: usize,
        dtype: Dtype,
        cols: usize,
        p: Precision,
        layout: &str,
        rows: &[u8],
    ) -> Option<Vec<u8>> {
        let layout = Layout::named(layout, lanes, dtype, cols, p)?;
        let mut panel = vec![0; panel_bytes(layout, lanes, cols)];
        pack_panel(layout, dtype, lanes, cols, rows, &mut panel).then_some(panel)
    }

    /// What the panels hold, by a name of its own.
    pub fn layout_name(&self) -> &'static str {
        self.layout.name()
    }

    /// Bytes of the panels that a matrix of `[rows, cols]` weights in `dtype` has if it is packed as `layout`; none if
    /// packing never does that.
    pub fn panels_bytes(
        tier: Tier,
        dtype: Dtype,
        rows: usize,
        cols: usize,
        p: Precision,
        layout: &str,
    ) -> Option<usize> {
        let lanes = lanes(tier);
        let layout = Layout::named(layout, lanes, dtype, cols, p)?;
        rows.div_ceil(lanes).checked_mul(panel_bytes(layout, lanes, cols))
    }

    /// The matrix whose packed weights are `panels`, as [`Matrix::pack`] made them of `dtype` for `tier` and `p`. The bytes
    /// are not looked at: other ones give other sums, and no worse.
    ///
    /// # Errors
    /// A layout that packing does not choose for such a matrix, or bytes of another number.
    pub fn from_panels(
        tier: Tier,
        dtype: Dtype,
        rows: usize,
        cols: usize,
        p: Precision,
        layout: &str,
        panels: Frozen,
    ) -> Result<Matrix, Error> {
        let bytes = Matrix::panels_bytes(tier, dtype, rows, cols, p, layout);
        let lanes = lanes(tier);
        let layout = match Layout::named(layout, lanes, dtype, cols, p) {
            Some(layout) if bytes == Some(panels.len()) => layout,
            _ => {
                return Err(Error::Panels {
                    rows,
                    cols,
                    dtype,
                    layout: layout.to_owned(),
                    got: panels.len(),
                });
            }
        };
        let (fine, panel_bytes) = (p == Precision::Fine, panel_bytes(layout, lanes, cols));
        Ok(Matrix { layout, fine, tier, rows, cols, lanes, panel_bytes, data: panels })
    }
}
