//! Packed weights kept beside a model: the next start has the same bits, and whatever is wrong is noticed.

use crate::runner;

use cpu::{PageKind, Tier};
use kernels::{KvDtype, Precision};
use model::{PackedCache, PackedCacheReport, Spec};
use runner::{Runner, cases, files};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A copy of a model, a folder or a file, in a folder of its own.
fn copy(model: &Path) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let copy = |from: &Path| {
        let to = folder.path().join(from.file_name().expect("a name"));
        std::fs::copy(from, &to).expect("a fixture");
        to
    };
    if model.is_dir() {
        for name in ["config.json", "model.safetensors"] {
            copy(&model.join(name));
        }
        let path = folder.path().to_owned();
        return (folder, path);
    }
    let path = copy(model);
    (folder, path)
}

/// The logits of a prompt, and what came of the packed weights.
fn logits(
    path: &Path,
    tier: Tier,
    precision: Precision,
    cache: PackedCache,
) -> (Vec<f32>, PackedCacheReport) {
    let spec = Spec::read(&weights::open(path).expect("a fixture")).expect("a fixture");
    let (mut runner, cached) = Runner::cached(path, spec, tier, precision, KvDtype::F16, cache);
    if cached.used {
        let mapped = runner.model.backing().kind == PageKind::File;
        assert_eq!(mapped, cache == PackedCache::Map);
        assert!(runner.model.backing().bytes > 0);
    }
    (runner.prompt(&(0..40).collect::<Vec<u32>>(), 9), cached)
}

fn fast(path: &Path, cache: PackedCache) -> (Vec<f32>, PackedCacheReport) {
    logits(path, Tier::best(), Precision::Fast, cache)
}

/// The one reason why packed weights were not used; then they are packed anew and kept.
fn trouble(cached: &PackedCacheReport) -> String {
    assert!(!cached.used && cached.written.is_some() && cached.errors.len() == 1, "{cached:?}");
    cached.errors[0].to_string()
}

fn kept(folder: &TempDir) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder.path()).expect("a folder");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    paths.filter(|path| path.to_string_lossy().contains(".packed")).collect()
}

#[test]
fn the_next_start_has_the_same_bits() {
    for model in cases().iter().flat_map(|case| files(case)) {
        for precision in [Precision::Fast, Precision::F32] {
            let (folder, path) = copy(&model);
            let (truth, cached) = logits(&path, Tier::best(), precision, PackedCache::Off);
            assert!(!cached.used && cached.written.is_none() && kept(&folder).is_empty());
            for cache in [PackedCache::Map, PackedCache::Map, PackedCache::Read] {
                let first = kept(&folder).is_empty();
                let (said, cached) = logits(&path, Tier::best(), precision, cache);
                assert!(cached.errors.is_empty(), "{}: {:?}", model.display(), cached.errors);
                assert_eq!((cached.written.is_some(), cached.used), (first, !first));
                assert!(said == truth, "{} {precision:?} {cache:?}", model.display());
            }
            let bytes = std::fs::metadata(&kept(&folder)[0]).expect("it was written").len();
            assert!(kept(&folder).len() == 1 && bytes > 0);
        }
    }
}

#[test]
fn weights_that_stay_on_the_disk_give_the_same_bits() {
    for model in cases().iter().flat_map(|case| files(case)) {
        let (folder, path) = copy(&model);
        let (truth, _) = fast(&path, PackedCache::Off);
        for (budget, written) in [(0, true), (20_000, false), (u64::MAX, false)] {
            let (said, cached) = fast(&path, PackedCache::Partial(budget));
            assert!(cached.errors.is_empty(), "{}: {:?}", model.display(), cached.errors);
            assert_eq!((cached.written.is_some(), cached.used), (written, !written));
            assert!(said == truth, "{} {budget}", model.display());
        }
        // The same file as one that was written at once.
        let (said, cached) = fast(&path, PackedCache::Map);
        assert!(cached.used && said == truth && kept(&folder).len() == 1);
    }
}

#[test]
fn weights_that_cannot_be_written_to_the_disk_are_an_error_with_the_path() {
    let (folder, path) = copy(&runner::fixtures().join("llama-3"));
    std::fs::create_dir(folder.path().join(format!("model.safetensors.{}.packed.part", Tier::best().name())))
        .expect("a folder");
    let opened = weights::open(&path).expect("a fixture");
    let compute = kernels::Compute::new(Tier::best(), cpu::Pool::new(1, None).expect("a thread"));
    let spec = Spec::read(&opened).expect("a fixture");
    let partial = PackedCache::Partial(0);
    let loaded = model::Model::load_cached(spec, &opened, &compute, Precision::Fast, partial, &mut |_| ());
    let said = loaded.err().expect("a folder is in the way").to_string();
    assert!(said.contains(".packed") && said.ends_with("not a regular file"), "{said}");
}

#[test]
fn a_changed_model_is_packed_anew() {
    for model in files(&runner::fixtures().join("qwen2")) {
        let (_folder, path) = copy(&model);
        let (before, _) = fast(&path, PackedCache::Map);
        let file = if path.is_dir() { path.join("model.safetensors") } else { path.clone() };
        let changed = |edit: &dyn Fn(&mut Vec<u8>), keep_time: bool| {
            let modified = std::fs::metadata(&file).and_then(|m| m.modified()).expect("a time");
            let mut bytes = std::fs::read(&file).expect("a model");
            edit(&mut bytes);
            std::fs::write(&file, bytes).expect("a folder");
            if keep_time {
                let file = std::fs::File::options().write(true).open(&file).expect("a file");
                file.set_modified(modified).expect("a time");
            }
        };
        // Only the time is another.
        changed(&|_| (), false);
        let said = trouble(&fast(&path, PackedCache::Read).1);
        assert!(said.contains("packed from other weights than the model's files hold now"), "{said}");
        // Length and time are the same, and the weights are not.
        changed(&|bytes| bytes.iter_mut().rev().take(4000).for_each(|byte| *byte ^= 1), true);
        let (after, cached) = fast(&path, PackedCache::Map);
        assert!(trouble(&cached).contains("packed from other weights"));
        assert!(after != before);
        assert!(fast(&path, PackedCache::Map).0 == after);
    }
}

#[test]
fn another_tier_has_a_file_of_its_own_and_does_not_take_this_ones() {
    let (folder, path) = copy(&runner::fixtures().join("llama-3"));
    let tiers = Tier::available();
    for tier in &tiers {
        assert!(logits(&path, *tier, Precision::Fast, PackedCache::Map).1.written.is_some());
    }
    assert_eq!(kept(&folder).len(), tiers.len());
    for tier in &tiers {
        assert!(logits(&path, *tier, Precision::Fast, PackedCache::Map).1.used);
    }
    // Under another tier's name, and for another precision.
    let name = |tier: &Tier| path.join(format!("model.safetensors.{tier}.packed"));
    if let [first, .., last] = tiers[..] {
        std::fs::remove_file(name(&last)).expect("a file");
        std::fs::copy(name(&first), name(&last)).expect("a folder");
        let said = trouble(&logits(&path, last, Precision::Fast, PackedCache::Map).1);
        assert!(
            said.contains(&format!("packed for {first} (")) && said.contains(&format!("not for {last} ("))
        );
    }
    let said = trouble(&fast_f32(&path));
    assert!(said.contains("fine), not for") && said.contains("f32)"), "{said}");
}

fn fast_f32(path: &Path) -> PackedCacheReport {
    logits(path, Tier::best(), Precision::F32, PackedCache::Map).1
}

#[test]
fn another_reading_of_the_same_file_is_noticed() {
    let (_folder, path) = copy(&runner::fixtures().join("llama-3"));
    fast(&path, PackedCache::Map);
    // The files are the same, and what is made of them is not: as when a family reads them otherwise than before.
    let opened = weights::open(&path).expect("a fixture");
    let key = opened.file_keys().expect("a file on disk");
    let tier = Tier::best();
    let file = weights::packed::path_beside(&opened, tier.name()).expect("a file on disk");
    let key = weights::packed::CacheKey {
        version: kernels::PANEL_FORMAT_VERSION,
        tier: tier.name().to_owned(),
        lanes: cpu::simd::lanes(tier),
        precision: "fine".to_owned(),
        files: key.to_vec(),
    };
    let there = weights::packed::open(&file, &key).expect("a good file").expect("a file");
    let with = |edit: &dyn Fn(&mut Vec<weights::packed::MatrixEntry>)| {
        let mut slots = there.slots().to_vec();
        edit(&mut slots);
        let zeros = vec![0; slots.iter().map(|slot| slot.bytes as usize).max().unwrap_or(0)];
        let matrices = slots.iter().map(|slot| (slot.clone(), &zeros[..slot.bytes as usize])).collect();
        let model = path.join("model.safetensors");
        weights::packed::write(&file, &model, key.clone(), matrices).expect("a folder");
        fast(&path, PackedCache::Read).1
    };
    assert!(with(&|_| ()).used, "zeros in all the right places");
    let said = trouble(&with(&|slots| slots.truncate(3)));
    assert!(said.contains(" is not as the model has it"), "{said}");
    let said = trouble(&with(&|slots| slots.push(slots[0].clone())));
    assert!(said.contains("the matrix Embedding is not as the model has it"), "{said}");
    type Edit = fn(&mut weights::packed::MatrixEntry);
    let edits: [Edit; 7] = [
        |slot| slot.rows += 1,
        |slot| slot.cols += 32,
        |slot| slot.source_start += 2,
        |slot| slot.layout = "Q4_K".into(),
        |slot| slot.bytes -= 1,
        |slot| slot.role = "Head".into(),
        |slot| slot.file = 1,
    ];
    for edit in edits {
        let said = trouble(&with(&|slots| edit(&mut slots[1])));
        assert!(said.contains(" is not as the model has it"), "{said}");
    }
}

#[test]
fn a_damaged_file_is_packed_anew_and_one_of_other_bits_computes() {
    let (folder, path) = copy(&runner::fixtures().join("qwen3moe"));
    let (truth, cached) = fast(&path, PackedCache::Map);
    let (file, length) = cached.written.expect("a folder");
    let good = std::fs::read(&file).expect("it was written");
    assert_eq!(good.len() as u64, length);
    let put = |bytes: &[u8]| {
        std::fs::remove_file(&file).expect("a file");
        std::fs::write(&file, bytes).expect("a folder");
    };
    for cache in [PackedCache::Map, PackedCache::Read] {
        for bytes in [&good[..0], &good[..40], &good[..good.len() / 2], &good[..good.len() - 1]] {
            put(bytes);
            let (said, cached) = fast(&path, cache);
            assert!(trouble(&cached).starts_with(&file.display().to_string()));
            assert!(said == truth);
            assert!(std::fs::read(&file).expect("it was written anew") == good);
        }
        // The packed weights themselves are not looked at.
        let mut other = good.clone();
        other.iter_mut().skip(good.len() / 2).for_each(|byte| *byte = byte.wrapping_mul(77) ^ 0x5a);
        put(&other);
        let (said, cached) = fast(&path, cache);
        assert!(cached.used && said.len() == truth.len());
        put(&good);
    }
    assert_eq!(kept(&folder).len(), 1);
}

#[test]
fn what_cannot_be_kept_is_told_and_no_error() {
    let (folder, path) = copy(&runner::fixtures().join("llama-2"));
    let tier = Tier::best();
    let file = path.join(format!("model.safetensors.{tier}.packed"));
    std::fs::create_dir(file.with_extension("packed.part")).expect("a folder");
    let (_, cached) = fast(&path, PackedCache::Map);
    assert!(!cached.used && cached.written.is_none(), "{cached:?}");
    let said = cached.errors[0].to_string();
    assert!(said.starts_with(&file.display().to_string()) && said.ends_with("not a regular file"), "{said}");
    drop(folder);
}
