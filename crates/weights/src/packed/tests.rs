use super::*;
use std::fs;
use std::os::unix::fs::PermissionsExt;

fn key() -> CacheKey {
    let file = FileKey { bytes: 9, modified_ns: 5, sha256: "00".into() };
    CacheKey { version: 1, tier: "avx2".into(), lanes: 8, precision: "fast".into(), files: vec![file] }
}

fn slot(role: &str) -> MatrixEntry {
    MatrixEntry {
        role: role.into(),
        dtype: "Q4_K".into(),
        rows: 3,
        cols: 256,
        file: 0,
        source_start: 64,
        source_bytes: 432,
        layout: "Q4_K".into(),
        power: -3,
        start: 0,
        bytes: 0,
    }
}

/// Matrices of a byte each, of no whole pages, of none, and of more than is written at a time.
fn panels() -> Vec<Vec<u8>> {
    let long = (0..(5 << 20) + 77_u32).map(|i| (i % 253) as u8).collect();
    vec![vec![1], vec![2; 5000], Vec::new(), long, vec![9; 4096]]
}

struct Folder {
    folder: tempfile::TempDir,
}

impl Folder {
    fn new() -> Folder {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("m.gguf"), b"a model").unwrap();
        Folder { folder }
    }

    fn model(&self) -> PathBuf {
        self.folder.path().join("m.gguf")
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("m.gguf.avx2.packed")
    }

    fn part(&self) -> PathBuf {
        self.folder.path().join("m.gguf.avx2.packed.part")
    }

    fn write_in_turn(&self) -> Result<u64, Error> {
        let panels = panels();
        let entries = (0..panels.len()).map(|i| slot(&i.to_string())).collect();
        let bytes = panels.iter().map(|panels| panels.len() as u64).sum();
        let mut writer = Writer::begin(&self.path(), &self.model(), key(), entries, bytes)?;
        for panels in &panels {
            writer.put("Q4_K", -3, panels)?;
        }
        writer.finish()
    }

    fn write(&self) -> Result<u64, Error> {
        let panels = panels();
        let matrices = panels.iter().enumerate().map(|(i, panels)| (slot(&i.to_string()), &panels[..]));
        write(&self.path(), &self.model(), key(), matrices.collect())
    }

    /// What opening says of a file of these bytes.
    fn said(&self, bytes: &[u8]) -> String {
        let _ = fs::remove_file(self.path());
        fs::write(self.path(), bytes).unwrap();
        open(&self.path(), &key()).unwrap_err().to_string()
    }
}

/// A file with this index, right but for what it says, and `data` zeros.
fn file(index: &Index, data: usize) -> Vec<u8> {
    let json = serde_json::to_vec(index).unwrap();
    let mut bytes = MAGIC.to_vec();
    bytes.extend((json.len() as u64).to_le_bytes());
    bytes.extend(Sha256::digest(&json));
    bytes.extend(json);
    bytes.resize(bytes.len().next_multiple_of(ALIGN as usize) + data, 0);
    bytes
}

#[test]
fn what_was_written_is_there_mapped_and_read() {
    let folder = Folder::new();
    assert!(open(&folder.path(), &key()).unwrap().is_none());
    let bytes = folder.write().unwrap();
    assert_eq!(fs::metadata(folder.path()).unwrap().len(), bytes);
    assert!(!folder.part().exists());
    let packed = open(&folder.path(), &key()).unwrap().unwrap();
    let (map, pool) = (packed.map().unwrap(), Pool::new(2, None).unwrap());
    assert_eq!(packed.slots().len(), panels().len());
    for (slot, want) in packed.slots().iter().zip(panels()) {
        let range = packed.range(slot).unwrap();
        assert_eq!(range.start % ALIGN as usize, 0);
        assert!(map[range] == want);
        let mut read = vec![0; want.len()];
        packed.read(&pool, slot, &mut read).unwrap();
        assert!(read == want);
    }
    let whole = fs::read(folder.path()).unwrap();
    assert_eq!(parse(&whole).unwrap().slots, packed.slots());
    // Once it is mapped, another may be put into its place.
    folder.write().unwrap();
    assert!(map[packed.range(&packed.slots()[3]).unwrap()] == panels()[3]);
}

#[test]
fn a_damaged_file_is_refused_with_its_name_and_a_reason() {
    let folder = Folder::new();
    folder.write().unwrap();
    let good = fs::read(folder.path()).unwrap();
    let index_end = PRELUDE + serde_json::to_vec(&parse(&good).unwrap()).unwrap().len();
    for at in 0..index_end {
        let mut bad = good.clone();
        bad[at] ^= 0x10;
        assert!(parse(&bad).is_err(), "byte {at}");
    }
    for length in [0, 7, 47, 48, 100, index_end, 4095, 4096, good.len() - 1] {
        let said = folder.said(&good[..length]);
        assert!(said.contains("m.gguf.avx2.packed: "), "{said}");
    }
    let mut longer = good.clone();
    longer.push(0);
    let (have, want) = (longer.len() - 4096, good.len() - 4096);
    let said = folder.said(&longer);
    assert!(said.ends_with(&format!("{have} bytes of matrices, {want} by its index")), "{said}");
    let mut endless = good.clone();
    endless[8..16].copy_from_slice(&u64::MAX.to_le_bytes());
    let said = folder.said(&endless);
    assert!(said.contains("an index of 18446744073709551615 bytes does not fit into "), "{said}");
}

#[test]
fn matrices_outside_the_file_or_in_each_other_are_refused() {
    let folder = Folder::new();
    let places: [(u64, u64); 7] =
        [(1, 10), (4096, 8192), (8192, 1), (u64::MAX - 4095, 4096), (0, u64::MAX), (1 << 63, 1), (0, 4097)];
    for (start, bytes) in places {
        let second = MatrixEntry { start, bytes, ..slot("second") };
        let slots = vec![MatrixEntry { bytes: 100, ..slot("first") }, second];
        let said = folder.said(&file(&Index { key: key(), slots }, 8192));
        assert!(said.ends_with("the matrix second lies outside the file or in another one"), "{said}");
    }
    let index = Index { key: key(), slots: vec![] };
    assert!(parse(&file(&index, 0)).is_ok());
    assert!(folder.said(&file(&index, 1)).contains("1 bytes of matrices, 0 by its index"));
    let text = |json: &[u8]| Index::read(json, 0).unwrap_err().to_string();
    assert!(text(b"[[[").contains("the index cannot be read"));
    assert!(text(br#"{"key": 1, "slots": [], "more": 0}"#).contains("the index cannot be read"));
}

/// A change to a key, and what is said of it.
type Edit = (fn(&mut CacheKey), &'static str);

#[test]
fn packed_weights_of_other_ones_are_refused() {
    let folder = Folder::new();
    let edits: [Edit; 7] = [
        (|key| key.version = 2, "packed by another version of the program (layout 2, this one's is 1)"),
        (|key| key.tier = "amx".into(), "packed for amx (8 lanes, fast), not for avx2 (8 lanes, fast)"),
        (|key| key.lanes = 16, "packed for avx2 (16 lanes, fast), not for avx2 (8 lanes, fast)"),
        (|key| key.precision = "f32".into(), "packed for avx2 (8 lanes, f32), not for avx2 (8 lanes, fast)"),
        (|key| key.files[0].bytes = 8, "packed from other weights than the model's files hold now"),
        (|key| key.files[0].modified_ns = 6, "packed from other weights than the model's files hold now"),
        (|key| key.files.clear(), "packed from other weights than the model's files hold now"),
    ];
    for (edit, reason) in edits {
        let mut other = Index { key: key(), slots: vec![] };
        edit(&mut other.key);
        let said = folder.said(&file(&other, 0));
        assert!(said.ends_with(reason), "{said}");
    }
}

#[test]
fn what_a_killed_writer_left_is_written_over_and_a_living_one_is_left_alone() {
    let folder = Folder::new();
    fs::write(folder.part(), vec![0xff; 20 << 20]).unwrap();
    assert!(open(&folder.path(), &key()).unwrap().is_none(), "half a file is not under the name");
    folder.write().unwrap();
    assert!(!folder.part().exists());
    let whole = fs::read(folder.path()).unwrap();
    assert!(parse(&whole).is_ok());

    fs::write(folder.part(), b"half").unwrap();
    let living = File::options().write(true).open(folder.part()).unwrap();
    living.try_lock().unwrap();
    let said = folder.write().unwrap_err().to_string();
    assert!(said.ends_with("m.gguf.avx2.packed: another process is writing it"), "{said}");
    assert_eq!(fs::read(folder.part()).unwrap(), b"half");
    assert!(fs::read(folder.path()).unwrap() == whole);
}

#[test]
fn what_cannot_be_written_leaves_nothing_behind() {
    let folder = Folder::new();
    let nowhere = folder.folder.path().join("nowhere/m.packed");
    assert!(matches!(write(&nowhere, &folder.model(), key(), vec![]).unwrap_err().problem, Problem::Io(_)));
    let gone = write(&folder.path(), &folder.folder.path().join("gone.gguf"), key(), vec![]);
    assert!(matches!(gone.unwrap_err().problem, Problem::Io(_)));
    assert!(!folder.part().exists());
    fs::create_dir(folder.part()).unwrap();
    assert!(matches!(folder.write().unwrap_err().problem, Problem::NotAFile));
    let _ = fs::remove_file(folder.path());
    fs::create_dir(folder.path()).unwrap();
    let said = open(&folder.path(), &key()).unwrap_err().to_string();
    assert!(said.ends_with("not a regular file"), "{said}");
}

#[test]
fn who_may_read_the_model_may_read_it_and_nobody_may_write() {
    let folder = Folder::new();
    for (model, packed) in [(0o644, 0o444), (0o600, 0o400), (0o640, 0o440)] {
        fs::set_permissions(folder.model(), fs::Permissions::from_mode(model)).unwrap();
        folder.write().unwrap();
        let mode = fs::metadata(folder.path()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, packed, "{model:o}");
    }
}

#[test]
fn a_file_is_known_by_its_beginning_and_by_pieces_of_its_tensors() {
    let bytes: Vec<u8> = (0..3_000_000_u32).map(|i| ((i * 31) >> 7) as u8).collect();
    let same = file_key(&bytes, 1000, 7);
    assert_eq!(same, file_key(&bytes, 1000, 7));
    for at in [0, 999, 1000, 5000, bytes.len() - 1] {
        let mut other = bytes.clone();
        other[at] ^= 1;
        assert_ne!(file_key(&other, 1000, 7), same, "{at}");
    }
    // Another training changes them all, some here or there.
    let mut other = bytes.clone();
    other.iter_mut().skip(1_000_000).step_by(999).for_each(|byte| *byte ^= 1);
    assert_ne!(file_key(&other, 1000, 7), same);
    assert_ne!(file_key(&bytes, 1000, 8), same);
    for length in [0, 1, 100, 4096, 5000] {
        assert_eq!(file_key(&bytes[..length], 1000, 7).bytes, length as u64);
    }
}

#[test]
fn a_file_written_matrix_by_matrix_reads_as_one_written_whole() {
    let (whole, parts) = (Folder::new(), Folder::new());
    whole.write().unwrap();
    let bytes = parts.write_in_turn().unwrap();
    assert_eq!(fs::metadata(parts.path()).unwrap().len(), bytes);
    let open = |folder: &Folder| open(&folder.path(), &key()).unwrap().unwrap();
    let (whole, there) = (open(&whole), open(&parts));
    assert_eq!(whole.slots(), there.slots());
    let map = there.map().unwrap();
    for (slot, panels) in there.slots().iter().zip(panels()) {
        assert!(map[there.range(slot).unwrap()] == panels[..]);
    }
    assert!(!parts.part().exists());
}

#[test]
fn a_file_without_all_its_matrices_is_not_kept() {
    let folder = Folder::new();
    let entries = || vec![slot("0"), slot("1")];
    let mut writer = Writer::begin(&folder.path(), &folder.model(), key(), entries(), 9000).unwrap();
    writer.put("Q4_K", 0, &[1; 5000]).unwrap();
    let said = writer.finish().unwrap_err().to_string();
    assert!(said.ends_with("1 matrices of 2"), "{said}");
    let mut writer = Writer::begin(&folder.path(), &folder.model(), key(), entries(), 9000).unwrap();
    let busy = Writer::begin(&folder.path(), &folder.model(), key(), entries(), 9000).err().unwrap();
    assert!(matches!(busy.problem, Problem::Busy), "{busy}");
    for _ in 0..2 {
        writer.put("Q4_K", 0, &[1; 3]).unwrap();
    }
    let said = writer.put("Q4_K", 0, &[1]).unwrap_err().to_string();
    assert!(said.ends_with("more matrices than entries"), "{said}");
    drop(writer);
    assert!(!folder.path().exists() && !folder.part().exists());
}
