//! An opened model: metadata and memory-mapped tensors, from a GGUF file or a Hugging Face directory.

mod entry;
mod error;
mod fold;
mod kept;
mod repacked;
mod tensors;

use std::collections::HashMap;
use std::collections::hash_map::Entry as Slot;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::UNIX_EPOCH;

use cpu::Map;

use crate::element::Element;
use crate::gguf::{self, Gguf, Split};
use crate::huggingface::{self, ExtraWeights, Quantization};
use crate::ledger::Ledger;
use crate::magic;
use crate::packed::{self, FileKey};
use crate::safetensors;

use entry::{Entry, Place};
pub use error::Error;
use kept::Bytes;
pub use kept::TensorBytes;
pub use repacked::Repacked;
pub use tensors::{PlacedTensor, Tensor, TensorInfo};

/// The file format of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelFormat {
    /// One GGUF file, or a split one.
    Gguf,
    /// A directory with config.json and safetensors files.
    HuggingFace,
}

impl fmt::Display for ModelFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            ModelFormat::Gguf => "GGUF",
            ModelFormat::HuggingFace => "Hugging Face",
        })
    }
}

/// A model's metadata, in the terms of its file format.
#[derive(Clone, Debug)]
pub enum Metadata {
    /// The key/value pairs of the (first) GGUF file.
    Gguf(gguf::Metadata),
    /// The JSON files of a directory.
    HuggingFace(Box<huggingface::Metadata>),
}

impl Metadata {
    /// The key/value pairs, if it is a GGUF file.
    pub fn gguf(&self) -> Option<&gguf::Metadata> {
        match self {
            Metadata::Gguf(metadata) => Some(metadata),
            Metadata::HuggingFace(_) => None,
        }
    }

    /// The JSON files, if it is a Hugging Face directory.
    pub fn hugging_face(&self) -> Option<&huggingface::Metadata> {
        match self {
            Metadata::Gguf(_) => None,
            Metadata::HuggingFace(metadata) => Some(metadata),
        }
    }
}

#[derive(Debug)]
struct Part {
    path: PathBuf,
    bytes: Arc<Bytes>,
}

/// An opened model: its metadata is read, its weights are mapped.
#[derive(Debug)]
pub struct Opened {
    path: PathBuf,
    metadata: Metadata,
    parts: Vec<Part>,
    entries: Vec<Entry>,
    index: HashMap<String, usize>,
    quantization: Option<Quantization>,
    /// Worked out once.
    keys: OnceLock<Option<Vec<FileKey>>>,
}

/// Opens the GGUF file (any part of a split one) or the Hugging Face directory at `path`.
///
/// # Errors
/// The file, and why it cannot be opened.
pub fn open(path: &Path) -> Result<Opened, Error> {
    let meta = std::fs::metadata(path).map_err(|source| Error::Io { path: path.to_owned(), source })?;
    if meta.is_dir() {
        return Opened::directory(path);
    }
    if !meta.is_file() {
        let what = "a pipe or a device; a model is a regular file, or a folder".to_owned();
        return Err(Error::Foreign { path: path.to_owned(), what });
    }
    Opened::gguf(path)
}

impl Opened {
    /// A model in memory, with GGUF metadata. Tensors may share bytes.
    ///
    /// # Panics
    /// If a name occurs twice, a tensor's rows are not whole blocks, or its bytes are not inside its part.
    pub fn in_memory(
        name: &Path,
        metadata: gguf::Metadata,
        parts: Vec<Vec<u8>>,
        tensors: Vec<PlacedTensor>,
    ) -> Opened {
        let mut opened = Opened::empty(name, Metadata::Gguf(metadata));
        let part = |bytes| Part { path: name.to_owned(), bytes: Arc::new(Bytes::Memory(bytes)) };
        opened.parts = parts.into_iter().map(part).collect();
        for t in tensors {
            let rows: usize = t.shape.iter().rev().skip(1).product();
            let row_bytes = t.dtype.row_bytes(t.shape.last().copied().unwrap_or(1));
            let bytes = rows * row_bytes.expect("rows of whole blocks");
            let range = t.start..t.start + bytes;
            assert!(range.end <= opened.parts[t.part].bytes.len(), "tensor {} is inside its part", t.name);
            let element = Element::Weights(t.dtype);
            let entry = Entry { name: t.name, element, shape: t.shape, part: t.part, range, recipe: None };
            opened.add(entry).expect("each name once");
        }
        opened
    }

    fn gguf(path: &Path) -> Result<Opened, Error> {
        let (part, file) = map_gguf(path)?;
        let split = file.split().map_err(|source| Error::Gguf { path: path.to_owned(), source })?;
        let mut opened = Opened::empty(path, Metadata::Gguf(gguf::Metadata::default()));
        match split {
            None => opened.add_gguf(part, file)?,
            Some(split) => opened.add_split(path, split)?,
        }
        Ok(opened)
    }

    /// Opens every part of the split model that `path` is a part of, in order.
    fn add_split(&mut self, path: &Path, split: Split) -> Result<(), Error> {
        let paths = part_paths(path, split)?;
        if let Some((number, missing)) = paths.iter().enumerate().find(|(_, path)| !path.exists()) {
            let problem = format!(
                "part {} of {} is missing: all parts of a split model lie in one folder",
                number + 1,
                split.count
            );
            return Err(Error::Part { path: missing.clone(), problem });
        }
        for (number, path) in paths.iter().enumerate() {
            let (part, file) = map_gguf(path)?;
            let found = file.split().map_err(|source| Error::Gguf { path: path.clone(), source })?;
            let expected = Split { number, ..split };
            if found != Some(expected) {
                let found = match found {
                    Some(found) => format!("part {} of {}", found.number + 1, found.count),
                    None => "a file that is no part".to_owned(),
                };
                let problem = format!("expected part {} of {}, found {found}", number + 1, split.count);
                return Err(Error::Part { path: path.clone(), problem });
            }
            self.add_gguf(part, file)?;
        }
        if self.entries.len() != split.tensors {
            let (have, want) = (self.entries.len(), split.tensors);
            let problem = format!("the parts hold {have} tensors, split.tensors.count is {want}");
            return Err(Error::Part { path: path.to_owned(), problem });
        }
        Ok(())
    }

    fn add_gguf(&mut self, part: Part, file: Gguf) -> Result<(), Error> {
        // The first file has the model's metadata, the others little more than their index.
        if self.parts.is_empty() {
            self.metadata = Metadata::Gguf(file.metadata);
        }
        let number = self.parts.len();
        self.parts.push(part);
        for t in file.tensors {
            self.add(Entry {
                name: t.name,
                element: t.element,
                shape: t.shape,
                part: number,
                range: t.range,
                recipe: None,
            })?;
        }
        Ok(())
    }

    fn directory(dir: &Path) -> Result<Opened, Error> {
        let metadata = huggingface::Metadata::read(dir)?;
        let network = metadata.network_dir(dir);
        let extra = huggingface::extra_weights(dir, metadata.modules.as_deref().unwrap_or_default())?;
        let mut opened = Opened::empty(dir, Metadata::HuggingFace(Box::new(metadata)));
        for (path, listed) in huggingface::shards(&network)? {
            let number = opened.add_safetensors(&path, "")?;
            let here =
                |name: &String| opened.index.get(name).is_some_and(|&i| opened.entries[i].part == number);
            if let Some(name) = listed.iter().find(|name| !here(name)) {
                return Err(Error::Absent { name: name.clone(), path });
            }
        }
        for ExtraWeights { file, prefix } in extra {
            opened.add_safetensors(&file, &prefix)?;
        }
        opened.fold_quantized();
        Ok(opened)
    }

    /// Makes one weight of the tensors of each layer that another library quantized. Where that is not possible, the
    /// tensors stay, and [`Opened::quantization`] says why.
    fn fold_quantized(&mut self) {
        let Metadata::HuggingFace(metadata) = &self.metadata else { return };
        let Some((name, method)) = huggingface::method(&metadata.config) else { return };
        let folded =
            method.and_then(|method| fold::fold(&self.entries, method, &|place| self.bytes_at(place)));
        let (entries, refused) = match folded {
            Ok(entries) => (Some(entries), None),
            Err(why) => (None, Some(why)),
        };
        self.quantization = Some(Quantization { method: name, refused });
        if let Some(entries) = entries {
            self.index = entries.iter().enumerate().map(|(at, entry)| (entry.name.clone(), at)).collect();
            self.entries = entries;
        }
    }

    fn bytes_at(&self, place: &Place) -> Option<&[u8]> {
        self.parts.get(place.part)?.bytes.get(place.range.clone())
    }

    /// Maps a safetensors file and adds its tensors, their names behind `prefix`; returns the index of its part.
    fn add_safetensors(&mut self, path: &Path, prefix: &str) -> Result<usize, Error> {
        let map = Map::open(path).map_err(|source| Error::Io { path: path.to_owned(), source })?;
        let records =
            safetensors::parse(&map).map_err(|source| match magic::in_place_of_safetensors(&map) {
                Some(what) => Error::Foreign { path: path.to_owned(), what },
                None => Error::Safetensors { path: path.to_owned(), source },
            })?;
        let number = self.parts.len();
        self.parts.push(Part { path: path.to_owned(), bytes: Arc::new(Bytes::File(map)) });
        for t in records {
            let name = format!("{prefix}{}", t.name);
            let (element, shape, range) = (t.element, t.shape, t.range);
            self.add(Entry { name, element, shape, part: number, range, recipe: None })?;
        }
        Ok(number)
    }

    fn empty(path: &Path, metadata: Metadata) -> Opened {
        let path = path.to_owned();
        let (parts, entries, index) = (Vec::new(), Vec::new(), HashMap::new());
        Opened { path, metadata, parts, entries, index, quantization: None, keys: OnceLock::new() }
    }

    fn add(&mut self, entry: Entry) -> Result<(), Error> {
        match self.index.entry(entry.name.clone()) {
            Slot::Occupied(slot) => Err(Error::Duplicate {
                name: entry.name,
                first: self.parts[self.entries[*slot.get()].part].path.clone(),
                second: self.parts[entry.part].path.clone(),
            }),
            Slot::Vacant(slot) => {
                slot.insert(self.entries.len());
                self.entries.push(entry);
                Ok(())
            }
        }
    }

    /// The path that was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file format.
    pub fn kind(&self) -> ModelFormat {
        match self.metadata {
            Metadata::Gguf(_) => ModelFormat::Gguf,
            Metadata::HuggingFace(_) => ModelFormat::HuggingFace,
        }
    }

    /// The model's metadata.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// The files that hold tensors, with their sizes in bytes.
    pub fn files(&self) -> impl Iterator<Item = (&Path, u64)> {
        self.parts.iter().map(|p| (p.path.as_path(), p.bytes.len() as u64))
    }

    /// Every tensor, in file order.
    pub fn tensors(&self) -> impl ExactSizeIterator<Item = TensorInfo<'_>> {
        self.entries.iter().map(Entry::info)
    }

    /// The name, type, shape and size of the tensor `name`.
    pub fn info(&self, name: &str) -> Option<TensorInfo<'_>> {
        self.index.get(name).map(|&i| self.entries[i].info())
    }

    /// How another library quantized the weights, and whether they are read; `None` if none did.
    pub fn quantization(&self) -> Option<&Quantization> {
        self.quantization.as_ref()
    }

    /// The weight `name` if another library quantized it: it is no tensor of the file, but made of several.
    pub fn repacked(&self, name: &str) -> Option<Repacked<'_>> {
        let entry = &self.entries[*self.index.get(name)?];
        // Folding has checked it.
        Repacked::new(entry, |place| self.bytes_at(place))?.ok()
    }

    /// The tensor `name`; `None` if there is no such tensor, its element type is not a supported weight format, or it is
    /// [repacked](Opened::repacked).
    pub fn tensor(&self, name: &str) -> Option<Tensor<'_>> {
        let entry = &self.entries[*self.index.get(name)?];
        if entry.recipe.is_some() {
            return None;
        }
        let Element::Weights(dtype) = entry.element else { return None };
        let bytes = &self.parts[entry.part].bytes[entry.range.clone()];
        Some(Tensor { name: &entry.name, dtype, shape: entry.shape.clone(), bytes })
    }

    /// The bytes of the tensor `name`, whatever its element type.
    pub fn bytes(&self, name: &str) -> Option<&[u8]> {
        let entry = &self.entries[*self.index.get(name)?];
        Some(&self.parts[entry.part].bytes[entry.range.clone()])
    }

    /// The bytes of the tensor `name` for as long as they are held: its file stays mapped when this model is dropped.
    pub fn kept(&self, name: &str) -> Option<TensorBytes> {
        let entry = &self.entries[*self.index.get(name)?];
        Some(TensorBytes::new(Arc::clone(&self.parts[entry.part].bytes), entry.range.clone()))
    }

    /// A ledger of all tensors, none of them claimed.
    pub fn ledger(&self) -> Ledger {
        Ledger::new(self.entries.iter().map(|e| e.name.clone()))
    }

    /// Size of all files with tensors, in bytes.
    pub fn file_bytes(&self) -> u64 {
        self.files().map(|(_, bytes)| bytes).sum()
    }

    /// Releases the resident pages of the weights; the next access reads them from the file again.
    pub fn drop_pages(&self) {
        for part in &self.parts {
            part.bytes.drop_range(0..part.bytes.len());
        }
    }

    /// Releases the pages of `bytes`, a slice of a tensor of this model, as [`Opened::drop_pages`]. For loaders that
    /// have repacked them. See [`Map::drop_range`] for partial pages.
    pub fn drop_pages_of(&self, bytes: &[u8]) {
        if let Some((part, start)) = self.place_of(bytes) {
            self.parts[part].bytes.drop_range(start..start.saturating_add(bytes.len()));
        }
    }

    /// The index in [`Opened::files`] of the file that holds `bytes`, a slice of a tensor of this model, and the
    /// offset.
    pub fn place_of(&self, bytes: &[u8]) -> Option<(usize, usize)> {
        let address = |bytes: &[u8]| bytes.as_ptr().addr();
        let starts = self.parts.iter().map(|part| address(bytes).wrapping_sub(address(&part.bytes)));
        let inside = |(part, start): &(usize, usize)| *start < self.parts[*part].bytes.len();
        starts.enumerate().find(inside)
    }

    /// The first of [`Opened::files`]; `None` for a model in memory.
    pub fn first_file(&self) -> Option<&Path> {
        let on_disk = |part: &&Part| matches!(*part.bytes, Bytes::File(_));
        self.parts.first().filter(on_disk).map(|part| part.path.as_path())
    }

    /// The identity of each file, for the packed cache; `None` for a model in memory, or without modification times.
    pub fn file_keys(&self) -> Option<&[FileKey]> {
        self.keys.get_or_init(|| self.hash_files()).as_deref()
    }

    /// Takes the identities that [`Opened::file_keys`] gave when the same files were opened before, in place of hashing
    /// them again. Those of files with another size or time are not taken.
    pub fn remember_file_keys(&self, keys: Vec<FileKey>) {
        let is_same = |(part, key): (&Part, &FileKey)| {
            let Bytes::File(map) = &*part.bytes else { return false };
            map.len() as u64 == key.bytes && modified_ns(map) == Some(key.modified_ns)
        };
        if keys.len() == self.parts.len() && self.parts.iter().zip(&keys).all(is_same) {
            let _ = self.keys.set(Some(keys));
        }
    }

    fn hash_files(&self) -> Option<Vec<FileKey>> {
        let key = |(number, part): (usize, &Part)| {
            let Bytes::File(map) = &*part.bytes else { return None };
            let own = self.entries.iter().filter(|entry| entry.part == number);
            let data = own.map(|entry| entry.range.start).min().unwrap_or(map.len());
            Some(packed::file_key(map, data, modified_ns(map)?))
        };
        self.parts.iter().enumerate().map(key).collect()
    }
}

/// When a file had been changed last as it was mapped, in nanoseconds since 1970.
fn modified_ns(map: &Map) -> Option<u64> {
    u64::try_from(map.modified()?.duration_since(UNIX_EPOCH).ok()?.as_nanos()).ok()
}

fn map_gguf(path: &Path) -> Result<(Part, Gguf), Error> {
    let map = Map::open(path).map_err(|source| Error::Io { path: path.to_owned(), source })?;
    let file = gguf::parse(&map).map_err(|source| match magic::describe(magic::head(&map)) {
        Some(what) if !gguf::is_gguf(&map) => {
            Error::Foreign { path: path.to_owned(), what: magic::with_directory_advice(path, what) }
        }
        _ => Error::Gguf { path: path.to_owned(), source },
    })?;
    Ok((Part { path: path.to_owned(), bytes: Arc::new(Bytes::File(map)) }, file))
}

/// The paths of all parts of a split model, from the name of one: `NAME-00002-of-00005.gguf`.
fn part_paths(path: &Path, split: Split) -> Result<Vec<PathBuf>, Error> {
    let tail = |number: usize| format!("-{:05}-of-{:05}.gguf", number + 1, split.count);
    let name = path.file_name().and_then(|name| name.to_str());
    let Some(stem) = name.and_then(|name| name.strip_suffix(&tail(split.number))) else {
        let problem = format!(
            "part {} of {} must end its name in '{}'",
            split.number + 1,
            split.count,
            tail(split.number)
        );
        return Err(Error::Part { path: path.to_owned(), problem });
    };
    Ok((0..split.count).map(|n| path.with_file_name(format!("{stem}{}", tail(n)))).collect())
}
