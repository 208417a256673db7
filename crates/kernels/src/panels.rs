//! Panels in a packed cache, which outlives the program that packed them.

use cpu::simd::lanes;
use cpu::{ReadonlyBytes, Tier};
use tensor::Dtype;

use crate::matrix::{Layout, layout, pack_panel, panel_bytes};
use crate::{Error, Matrix, Precision};

/// The version of the packed bytes. It must be raised whenever the same weights are packed into other bytes, in any
/// format: panels of another version are packed anew. `tests/kernels/panels.rs` holds hashes of the bytes.
pub const PANEL_FORMAT_VERSION: u32 = 2;

impl Layout {
    fn name(self) -> &'static str {
        match self {
            Layout::Quantized(dtype) => dtype.name(),
            Layout::F32 => "F32",
            Layout::F16 => "F16",
            Layout::Bf16 => "BF16",
            Layout::Bf16Dict12 => "BF16 in 12 bits",
            Layout::Int8 => "I8 in blocks of 64",
        }
    }

    /// The layout with this name, if packing may choose it.
    fn named(name: &str, lanes: usize, dtype: Dtype, cols: usize, p: Precision) -> Option<Layout> {
        dtype.row_bytes(cols)?;
        let usual = layout(dtype, cols, p, lanes);
        // The fallback of weights that do not fit.
        let other = (usual == Layout::Bf16Dict12).then_some(Layout::Bf16);
        std::iter::once(usual).chain(other).find(|layout| layout.name() == name)
    }
}

/// The shape of a matrix's panels.
struct Shape {
    layout: Layout,
    panel_bytes: usize,
    bytes: usize,
}

impl Shape {
    /// That of the layout with this name, if packing may choose it.
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
    /// The packed weights. [`Matrix::from_panels`] makes the matrix from them again, on the same tier and with the same
    /// [`PANEL_FORMAT_VERSION`].
    pub fn panels(&self) -> &[u8] {
        &self.data
    }

    /// The panel of the file's `rows`, as [`Matrix::pack`] writes it for registers of `lanes` lanes, whether this
    /// machine has them or not, in the layout with this name: the bytes of [`PANEL_FORMAT_VERSION`]. None for a layout
    /// that packing does not choose, or for rows that do not fit it.
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

    /// The name of the layout.
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

    /// The matrix with the packed weights `panels`, as [`Matrix::pack`] made them of `dtype` for `tier` and `p`, and
    /// its [`Matrix::max_exponent`]. The bytes are not checked: others, or another exponent, give other sums, but no
    /// panic. The parameters are the fields of a slot in a packed cache.
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
        max_exponent: i32,
        panels: ReadonlyBytes,
    ) -> Result<Matrix, Error> {
        let lanes = lanes(tier);
        let shape = Shape::named(layout, lanes, dtype, rows, cols, p);
        let Some(Shape { layout, panel_bytes, .. }) = shape.filter(|shape| shape.bytes == panels.len())
        else {
            return Err(Error::Panels { rows, cols, dtype, layout: layout.to_owned(), got: panels.len() });
        };
        let q16_activations = p == Precision::Fine;
        // The range of float exponents.
        let max_exponent = max_exponent.clamp(-126, 129);
        Ok(Matrix {
            layout,
            q16_activations,
            tier,
            rows,
            cols,
            lanes,
            panel_bytes,
            max_exponent,
            data: panels,
        })
    }
}
