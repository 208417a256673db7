//! Packed weights kept beside the model: which they are, and matrices made of them again.
//!
//! [`weights::packed`] knows the file, `kernels` what is in it; here the two meet. Whatever is wrong with the file, the model
//! is loaded as without it.

use crate::locate::LocatedWeight;
use crate::spec::WeightRole;
use cpu::{Arena, Backing, ReadonlyBytes, Tier};
use kernels::{Compute, Matrix, PANEL_FORMAT_VERSION, Precision};
use std::collections::HashMap;
use std::path::PathBuf;
use weights::Opened;
use weights::packed::{self, CacheKey, MatrixEntry, PackedFile, Problem};

/// Whether packed weights are kept beside the model, and how they come into memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PackedCache {
    /// They are not.
    #[default]
    Off,
    /// The file is mapped: its pages in the page cache are the weights.
    Map,
    /// The file is read into memory of this process's own.
    Read,
}

/// What came of a file of packed weights.
#[derive(Debug, Default)]
pub struct PackedCacheReport {
    /// Whether the matrices came from a file and were not packed.
    pub used: bool,
    /// The file that they were kept in, and its length in bytes.
    pub written: Option<(PathBuf, u64)>,
    /// Why a file was of no use, or could not be written.
    pub trouble: Vec<packed::Error>,
}

/// The place of a model's packed weights, and what belongs there.
pub(crate) struct PackedStore<'a> {
    path: PathBuf,
    model: PathBuf,
    key: CacheKey,
    /// The matrices, in the file's order, and of each the slot that it has there but for layout, power and place.
    matrices: Vec<(&'a LocatedWeight<'a>, MatrixEntry)>,
    tier: Tier,
    precision: Precision,
    cache: PackedCache,
}

/// All matrices of a model.
type Matrices = HashMap<WeightRole, Matrix>;

impl<'a> PackedStore<'a> {
    /// None if nothing is to be kept, or the model is on no disk.
    pub(crate) fn for_model(
        opened: &Opened,
        found: &'a [LocatedWeight<'a>],
        tier: Tier,
        precision: Precision,
        cache: PackedCache,
    ) -> Option<PackedStore<'a>> {
        if cache == PackedCache::Off {
            return None;
        }
        let key = CacheKey {
            version: PANEL_FORMAT_VERSION,
            tier: tier.name().to_owned(),
            lanes: cpu::simd::lanes(tier),
            precision: format!("{precision:?}").to_lowercase(),
            files: opened.file_keys()?,
        };
        let slot = |weight: &LocatedWeight<'_>| {
            let (file, source_start) = opened.place_of(weight.bytes)?;
            Some(MatrixEntry {
                role: format!("{:?}", weight.role),
                dtype: weight.dtype.name().to_owned(),
                rows: weight.rows,
                cols: weight.cols,
                file,
                source_start,
                source_bytes: weight.bytes.len(),
                layout: String::new(),
                power: 0,
                start: 0,
                bytes: 0,
            })
        };
        let matrices = found.iter().filter(|weight| !weight.vector);
        let matrices = matrices.map(|weight| Some((weight, slot(weight)?))).collect::<Option<_>>()?;
        let path = packed::path_beside(opened, tier.name())?;
        let model = opened.first_file()?.to_owned();
        Some(PackedStore { path, model, key, matrices, tier, precision, cache })
    }

    /// The matrices from the file, if it has them.
    pub(crate) fn take(
        &self,
        compute: &Compute,
        cached: &mut PackedCacheReport,
    ) -> Option<(Matrices, Backing)> {
        let taken = packed::open(&self.path, &self.key).and_then(|there| {
            let Some(there) = there else { return Ok(None) };
            self.check(&there).map_err(|problem| there.wrong(problem))?;
            let taken = if self.cache == PackedCache::Map {
                self.map(compute, &there)
            } else {
                self.read(compute, &there)
            };
            taken.map(Some)
        });
        match taken {
            Ok(taken) => {
                cached.used = taken.is_some();
                taken
            }
            Err(error) => {
                cached.trouble.push(error);
                None
            }
        }
    }

    /// Whether the file's matrices are the model's: each in a layout that packing chooses, with as many bytes as it has.
    fn check(&self, there: &PackedFile) -> Result<(), Problem> {
        let slots = there.slots();
        let differs = |slot: &MatrixEntry| Problem::Matrix { role: slot.role.clone() };
        for ((weight, wanted), slot) in self.matrices.iter().zip(slots) {
            let MatrixEntry { layout, power, start, bytes, .. } = slot.clone();
            let &LocatedWeight { dtype, rows, cols, .. } = *weight;
            let fits = Matrix::panels_bytes(self.tier, dtype, rows, cols, self.precision, &layout);
            if fits.map(|fits| fits as u64) != Some(bytes)
                || *slot != (MatrixEntry { layout, power, start, bytes, ..wanted.clone() })
            {
                return Err(differs(slot));
            }
        }
        match (self.matrices.get(slots.len()), slots.get(self.matrices.len())) {
            (Some((_, slot)), _) | (None, Some(slot)) => Err(differs(slot)),
            (None, None) => Ok(()),
        }
    }

    fn map(&self, compute: &Compute, there: &PackedFile) -> Result<(Matrices, Backing), packed::Error> {
        let map = there.map()?;
        map.populate(&compute.pool).map_err(|error| there.wrong(error.into()))?;
        let matrices = self.matrices(there, |slot| {
            let panels = there.range(slot).and_then(|range| ReadonlyBytes::of_file(&map, range));
            panels.ok_or_else(|| there.wrong(Problem::Place { role: slot.role.clone() }))
        })?;
        Ok((matrices, map.backing()))
    }

    fn read(&self, compute: &Compute, there: &PackedFile) -> Result<(Matrices, Backing), packed::Error> {
        let length = |slot: &MatrixEntry| usize::try_from(slot.bytes).unwrap_or(usize::MAX);
        let no_memory = |error: std::io::Error| there.wrong(error.into());
        let mut arena = Arena::new(there.slots().iter().map(length)).map_err(no_memory)?;
        let matrices = self.matrices(there, |slot| {
            let mut panels = arena.take(length(slot)).map_err(no_memory)?;
            there.read(&compute.pool, slot, &mut panels)?;
            Ok(panels.freeze())
        })?;
        Ok((matrices, arena.backing()))
    }

    /// Makes each matrix of its panels.
    fn matrices(
        &self,
        there: &PackedFile,
        mut panels: impl FnMut(&MatrixEntry) -> Result<ReadonlyBytes, packed::Error>,
    ) -> Result<Matrices, packed::Error> {
        let matrix = |((weight, _), slot): (&(&LocatedWeight<'_>, MatrixEntry), &MatrixEntry)| {
            let &LocatedWeight { dtype, rows, cols, .. } = *weight;
            let panels = panels(slot)?;
            let (tier, precision) = (self.tier, self.precision);
            let matrix =
                Matrix::from_panels(tier, dtype, rows, cols, precision, &slot.layout, slot.power, panels)
                    .map_err(|_| there.wrong(Problem::Matrix { role: slot.role.clone() }))?;
            Ok((weight.role, matrix))
        };
        self.matrices.iter().zip(there.slots()).map(matrix).collect()
    }

    /// Keeps the packed matrices in the file.
    pub(crate) fn put(self, matrices: &Matrices, cached: &mut PackedCacheReport) {
        let kept = self.matrices.into_iter().filter_map(|(weight, slot)| {
            let matrix = matrices.get(&weight.role)?;
            let (layout, power) = (matrix.layout_name().to_owned(), matrix.max_exponent());
            Some((MatrixEntry { layout, power, ..slot }, matrix.panels()))
        });
        match packed::write(&self.path, &self.model, self.key, kept.collect()) {
            Ok(bytes) => cached.written = Some((self.path, bytes)),
            Err(error) => cached.trouble.push(error),
        }
    }
}
