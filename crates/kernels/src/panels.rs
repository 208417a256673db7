//! Panels that are kept between starts, and so outlive the program that packed them.

use cpu::simd::lanes;
use cpu::{ReadonlyBytes, Tier};
use tensor::Dtype;

use crate::matrix::{Layout, layout, pack_panel, panel_bytes};
use crate::{Error, Matrix, Precision};

/// The version of what packing writes. To be raised whenever the same weights give other bytes, for any format: panels of
/// another version are packed anew. `tests/kernels/panels.rs` knows the bytes.
pub const PANELS: u32 = 2;

impl Layout {
    fn name(self) -> &'static str {
        match self {
            Layout::Quantized(dtype) => dtype.name(),
            Layout::F32 => "F32",
            Layout::F16 => "F16",
            Layout::Bf16 => "BF16",
            Layout::Bf16Dict12 => "BF16 in 12 bits",
        }
    }

    /// The layout of this name among those that packing may choose.
    fn named(name: &str, lanes: usize, dtype: Dtype, cols: usize, p: Precision) -> Option<Layout> {
        dtype.row_bytes(cols)?;
        let usual = layout(dtype, cols, p, lanes);
        // Weights that do not fit are packed as the other one.
        let other = (usual == Layout::Bf16Dict12).then_some(Layout::Bf16);
        std::iter::once(usual).chain(other).find(|layout| layout.name() == name)
    }
}

/// The panels of a matrix.
struct Shape {
    layout: Layout,
    panel_bytes: usize,
    bytes: usize,
}

impl Shape {
    /// Those of the layout of this name, if packing may choose it.
    fn named(
        layout: &str,
        lanes: usize,
        dtype: Dtype,
        rows: usize,
        cols: usize,
        p: Precision,
    ) -> Option<Shape> {
        let layout = Layout::named(layout, lanes, dtype, cols, p)?;
        let panel_bytes = panel_bytes(layout, lanes, cols);
        Some(Shape { layout, panel_bytes, bytes: rows.div_ceil(lanes).checked_mul(panel_bytes)? })
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
        pack_panel(layout, dtype, lanes, cols, rows, &mut panel).map(|_| panel)
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
        Shape::named(layout, lanes(tier), dtype, rows, cols, p).map(|shape| shape.bytes)
    }

    /// The matrix whose packed weights are `panels`, as [`Matrix::pack`] made them of `dtype` for `tier` and `p`, with its
    /// [`Matrix::power`]. The bytes are not looked at: other ones, or another power, give other sums, and no worse.
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
        power: i32,
        panels: ReadonlyBytes,
    ) -> Result<Matrix, Error> {
        let lanes = lanes(tier);
        let shape = Shape::named(layout, lanes, dtype, rows, cols, p);
        let Some(Shape { layout, panel_bytes, .. }) = shape.filter(|shape| shape.bytes == panels.len())
        else {
            return Err(Error::Panels { rows, cols, dtype, layout: layout.to_owned(), got: panels.len() });
        };
        let q16_activations = p == Precision::Fine;
        // As far as any float goes.
        let power = power.clamp(-126, 129);
        Ok(Matrix { layout, q16_activations, tier, rows, cols, lanes, panel_bytes, power, data: panels })
    }
}
