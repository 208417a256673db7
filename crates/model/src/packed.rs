//! The packed cache: writes packed matrices to a file beside the model, and makes matrices from that file.
//!
//! [`weights::packed`] reads and writes the file, `kernels` defines the panels in it. If the file does not match or is
//! damaged, the model is loaded as if there were none.

use crate::error::Error;
use crate::locate::{EncoderFormat, LocatedWeight};
use crate::packing::{Packer, Progress};
use crate::residence::in_memory;
use crate::spec::Spec;
use crate::weight_role::WeightRole;
use cpu::{Arena, Backing, Map, ReadonlyBytes, Tier};
use kernels::{Compute, Matrix, PANEL_FORMAT_VERSION, Precision};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use weights::Opened;
use weights::packed::{self, CacheKey, MatrixEntry, PackedFile, Problem};

/// Whether a packed cache is used, and how it is brought into memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PackedCache {
    /// No packed cache.
    #[default]
    Off,
    /// The file is mapped: its pages in the page cache are the weights.
    Map,
    /// The file is read into anonymous memory.
    Read,
    /// As much of the file is read into anonymous memory as so many bytes hold, and the rest stays on the disk until it is
    /// used. For models larger than memory: neither writing the file nor loading it takes more.
    Partial(u64),
}

/// A packed cache and where its file is.
#[derive(Clone, Copy, Debug, Default)]
pub struct PackedPlace<'a> {
    /// Whether and how the cache is used.
    pub cache: PackedCache,
    /// The folder of the file; `None` is that of the model's first file.
    pub folder: Option<&'a Path>,
}

impl From<PackedCache> for PackedPlace<'_> {
    fn from(cache: PackedCache) -> Self {
        PackedPlace { cache, folder: None }
    }
}

/// What happened to the packed cache while a model was loaded.
#[derive(Debug, Default)]
pub struct PackedCacheReport {
    /// Whether the matrices came from the packed cache instead of being packed.
    pub used: bool,
    /// The packed cache that was written, and its length in bytes.
    pub written: Option<(PathBuf, u64)>,
    /// Why a packed cache did not match, was damaged, or could not be written.
    pub errors: Vec<packed::Error>,
}

/// The packed cache of one model: its path, key and matrices.
pub(crate) struct PackedStore<'a> {
    path: PathBuf,
    model: PathBuf,
    key: CacheKey,
    /// The matrices in the file's order, each with its index entry (without layout, power and offsets).
    matrices: Vec<(&'a LocatedWeight<'a>, MatrixEntry)>,
    tier: Tier,
    precision: Precision,
    format: EncoderFormat,
    cache: PackedCache,
}

/// The memory that matrices lie in.
pub(crate) enum WeightsMemory {
    /// Memory of the process's own, as it was when they had been loaded.
    Arena(Backing),
    /// A mapped file. What backs it is found when it is asked for: the kernel's account of a process with many models takes
    /// longer than a warm start.
    File(Arc<Map>),
}

impl WeightsMemory {
    /// The kind of memory (huge pages or not).
    pub(crate) fn backing(&self) -> Backing {
        match self {
            WeightsMemory::Arena(backing) => *backing,
            WeightsMemory::File(map) => map.backing(),
        }
    }
}

/// What the key and the file's name say of the format of an encoder's matrices.
fn suffix(format: EncoderFormat) -> &'static str {
    match format {
        EncoderFormat::File => "",
        EncoderFormat::Bf16 => ".bf16",
        EncoderFormat::Int8 => ".int8",
    }
}

/// All matrices of a model.
type Matrices = HashMap<WeightRole, Matrix>;

impl<'a> PackedStore<'a> {
    /// The packed cache of `opened`; `None` if the cache is off or the model is in memory only.
    pub(crate) fn for_model(
        opened: &Opened,
        found: &'a [LocatedWeight<'a>],
        tier: Tier,
        (precision, format): (Precision, EncoderFormat),
        PackedPlace { cache, folder }: PackedPlace<'_>,
    ) -> Option<PackedStore<'a>> {
        if cache == PackedCache::Off {
            return None;
        }
        let key = CacheKey {
            version: PANEL_FORMAT_VERSION,
            tier: tier.name().to_owned(),
            lanes: cpu::simd::lanes(tier),
            precision: [&format!("{precision:?}").to_lowercase(), suffix(format)].concat(),
            files: opened.file_keys()?.to_vec(),
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
        let matrices = found.iter().filter(|weight| weight.is_packed());
        let matrices = matrices.map(|weight| Some((weight, slot(weight)?))).collect::<Option<Vec<_>>>()?;
        // A model without the block that predicts further tokens has a file of its own.
        let predicts = |(weight, _): &(&LocatedWeight<'_>, MatrixEntry)| weight.role.is_of_prediction();
        let block = if matrices.iter().any(predicts) { ".mtp" } else { "" };
        let what = [tier.name(), suffix(format), block].concat();
        let path = packed::path_for(opened, folder, &what)?;
        let model = opened.first_file()?.to_owned();
        Some(PackedStore { path, model, key, matrices, tier, precision, format, cache })
    }

    /// The matrices from the file, if there is one that matches. If matrices may stay on the disk, a file is written,
    /// matrix by matrix, where none matches.
    ///
    /// # Errors
    /// As [`Packer::pack`], or a file that cannot be written or read; none where all matrices may be in memory.
    pub(crate) fn load_or_write(
        &self,
        spec: &Spec,
        packer: Packer<'_>,
        found: &[LocatedWeight<'_>],
        report: &mut PackedCacheReport,
        progress: &mut dyn FnMut(f32),
    ) -> Result<Option<(Matrices, WeightsMemory)>, Error> {
        let loaded = self.load(spec, packer.compute, report);
        if loaded.is_some() || !matches!(self.cache, PackedCache::Partial(_)) {
            return Ok(loaded);
        }
        let bytes = self.write_in_turn(packer, found, progress)?;
        report.written = Some((self.path.clone(), bytes));
        let mut again = PackedCacheReport::default();
        let loaded = self.load(spec, packer.compute, &mut again);
        loaded.map(Some).ok_or_else(|| again.errors.pop().map_or(Error::NoPlaceOnDisk, Error::from))
    }

    /// Packs the matrices into the file, with one of them in memory at a time.
    fn write_in_turn(
        &self,
        packer: Packer<'_>,
        found: &[LocatedWeight<'_>],
        progress: &mut dyn FnMut(f32),
    ) -> Result<u64, Error> {
        let entries: Vec<MatrixEntry> = self.matrices.iter().map(|(_, entry)| entry.clone()).collect();
        let most = self
            .matrices
            .iter()
            .map(|(weight, _)| weight.packed_bytes(self.tier, self.precision, self.format));
        let (path, model) = (&self.path, &self.model);
        let mut writer = packed::Writer::begin(path, model, self.key.clone(), entries, most.sum())?;
        let mut packed = Progress::new(found, progress);
        for (weight, _) in &self.matrices {
            let mut arena = packer.arena(std::slice::from_ref(weight))?;
            let matrix = packer.pack(&mut arena, weight)?;
            writer.put(matrix.layout_name(), matrix.max_exponent(), matrix.panels())?;
            packed.add(weight);
        }
        Ok(writer.finish()?)
    }

    /// The matrices from the file, if there is one that matches.
    fn load(
        &self,
        spec: &Spec,
        compute: &Compute,
        report: &mut PackedCacheReport,
    ) -> Option<(Matrices, WeightsMemory)> {
        let taken = packed::open(&self.path, &self.key).and_then(|there| {
            let Some(there) = there else { return Ok(None) };
            self.check(&there).map_err(|problem| there.wrong(problem))?;
            let taken = match self.cache {
                PackedCache::Map => self.map(compute, &there),
                PackedCache::Partial(budget) => {
                    let sizes: Vec<_> = self
                        .matrices
                        .iter()
                        .zip(there.slots())
                        .map(|((w, _), slot)| (w.role, slot.bytes))
                        .collect();
                    self.read(compute, &there, &in_memory(spec, &sizes, budget))
                }
                PackedCache::Off | PackedCache::Read => {
                    self.read(compute, &there, &vec![true; there.slots().len()])
                }
            };
            taken.map(Some)
        });
        match taken {
            Ok(taken) => {
                report.used = taken.is_some();
                taken
            }
            Err(error) => {
                report.errors.push(error);
                None
            }
        }
    }

    /// Checks that the file lists this model's matrices, each in a layout that packing could choose and of that
    /// layout's size.
    fn check(&self, there: &PackedFile) -> Result<(), Problem> {
        let slots = there.slots();
        let differs = |slot: &MatrixEntry| Problem::Matrix { role: slot.role.clone() };
        for ((weight, wanted), slot) in self.matrices.iter().zip(slots) {
            let MatrixEntry { layout, power, start, bytes, .. } = slot.clone();
            let &LocatedWeight { rows, cols, .. } = *weight;
            let (dtype, precision) = weight.packed_as(self.format, self.precision, self.tier);
            let fits = Matrix::panels_bytes(self.tier, dtype, rows, cols, precision, &layout);
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

    fn map(&self, compute: &Compute, there: &PackedFile) -> Result<(Matrices, WeightsMemory), packed::Error> {
        let map = there.map()?;
        map.populate(&compute.pool).map_err(|error| there.wrong(error.into()))?;
        let matrices = self.matrices(there, |slot| {
            let panels = there.range(slot).and_then(|range| ReadonlyBytes::of_file(&map, range));
            panels.ok_or_else(|| there.wrong(Problem::Place { role: slot.role.clone() }))
        })?;
        Ok((matrices, WeightsMemory::File(map)))
    }

    /// Reads the matrices `in_memory` into an allocation, and maps the others.
    fn read(
        &self,
        compute: &Compute,
        there: &PackedFile,
        in_memory: &[bool],
    ) -> Result<(Matrices, WeightsMemory), packed::Error> {
        let length = |slot: &MatrixEntry| usize::try_from(slot.bytes).unwrap_or(usize::MAX);
        let no_memory = |error: std::io::Error| there.wrong(error.into());
        let read = there.slots().iter().zip(in_memory).filter(|(_, in_memory)| **in_memory);
        let mut arena = Arena::new(read.map(|(slot, _)| length(slot))).map_err(no_memory)?;
        let map = if in_memory.contains(&false) { Some(there.map()?) } else { None };
        let mut in_memory = in_memory.iter();
        let matrices = self.matrices(there, |slot| {
            if let (Some(map), Some(false)) = (&map, in_memory.next()) {
                let panels = there.range(slot).and_then(|range| ReadonlyBytes::on_disk(map, range));
                return panels.ok_or_else(|| there.wrong(Problem::Place { role: slot.role.clone() }));
            }
            let mut panels = arena.take(length(slot)).map_err(no_memory)?;
            there.read(&compute.pool, slot, &mut panels)?;
            Ok(panels.freeze())
        })?;
        Ok((matrices, WeightsMemory::Arena(arena.backing())))
    }

    /// Makes each matrix from its panels.
    fn matrices(
        &self,
        there: &PackedFile,
        mut panels: impl FnMut(&MatrixEntry) -> Result<ReadonlyBytes, packed::Error>,
    ) -> Result<Matrices, packed::Error> {
        let matrix = |((weight, _), slot): (&(&LocatedWeight<'_>, MatrixEntry), &MatrixEntry)| {
            let &LocatedWeight { rows, cols, .. } = *weight;
            let panels = panels(slot)?;
            let tier = self.tier;
            let (dtype, precision) = weight.packed_as(self.format, self.precision, tier);
            let matrix =
                Matrix::from_panels(tier, dtype, rows, cols, precision, &slot.layout, slot.power, panels)
                    .map_err(|_| there.wrong(Problem::Matrix { role: slot.role.clone() }))?;
            Ok((weight.role, matrix))
        };
        self.matrices.iter().zip(there.slots()).map(matrix).collect()
    }

    /// Writes the packed matrices to the file.
    pub(crate) fn write(self, matrices: &Matrices, report: &mut PackedCacheReport) {
        let kept = self.matrices.into_iter().filter_map(|(weight, slot)| {
            let matrix = matrices.get(&weight.role)?;
            let (layout, power) = (matrix.layout_name().to_owned(), matrix.max_exponent());
            Some((MatrixEntry { layout, power, ..slot }, matrix.panels()))
        });
        match packed::write(&self.path, &self.model, self.key, kept.collect()) {
            Ok(bytes) => report.written = Some((self.path, bytes)),
            Err(error) => report.errors.push(error),
        }
    }
}
