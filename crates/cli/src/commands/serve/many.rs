//! Several models behind one server: which, from where, and how each is loaded.

pub(super) mod flags;

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use engine::encoder::EncoderSetup;
use engine::{Device, Engine, MemoryBudget, MemoryKind, Reservation, Setup};
use server::{LoadedModel, Server};
use service::{Loader, Registration};

use super::args::Args;
use super::prepare::{PlannedModel, Wanted, encoder_limits, measure, planned, text_of};
use super::{door, name};
use crate::encoders::LoadedEncoder;
use crate::loading::{Loaded, OTHER_BYTES, compute};
use crate::store::size;
use crate::{Failure, term};
use flags::time;

/// The share of the memory that can be had which models take together, unless a flag says otherwise.
const SHARE: f64 = 0.8;
/// Most models of one server.
const MOST: usize = 1_024;

/// One of the models.
struct Entry {
    wanted: Wanted,
    names: Vec<String>,
    pinned: bool,
    preload: bool,
    keep_alive: Option<Duration>,
}

/// All of the models: those of the command line, of the file, of the folder.
fn entries(args: &Args) -> Result<Vec<Entry>, Failure> {
    let flags = &args.many;
    let mut entries = Vec::new();
    let named = |model: &str| args.clients.names(&[], &name::of(model));
    for model in &args.model {
        entries.push(Entry {
            wanted: Wanted { model: Some(model.clone()), ..Wanted::default() },
            names: named(model),
            pinned: false,
            preload: true,
            keep_alive: flags.keep_alive,
        });
    }
    for table in &flags.model_table {
        let (keep, kv) = (table.keep_alive.as_deref(), table.kv_memory.as_deref());
        let wanted = Wanted {
            model: Some(table.model.clone()),
            context: table.context,
            kv_memory: kv.and_then(|text| door::bytes(text).ok()),
            kv_room: None,
        };
        let names = if table.names.is_empty() { named(&table.model) } else { table.names.clone() };
        let keep_alive = keep.and_then(|text| time(text).ok()).or(flags.keep_alive);
        let (pinned, preload) = (table.pinned, table.preload || table.pinned);
        entries.push(Entry { wanted, names, pinned, preload, keep_alive });
    }
    if let Some(folder) = &flags.models_dir {
        for path in found(folder)? {
            let model = path.to_string_lossy().into_owned();
            entries.push(Entry {
                names: named(&model),
                wanted: Wanted { model: Some(model), ..Wanted::default() },
                pinned: false,
                preload: false,
                keep_alive: flags.keep_alive,
            });
        }
    }
    if entries.is_empty() || entries.len() > MOST {
        return Err(Failure::new(format!("there are {} models; 1 to {MOST} can be served", entries.len())));
    }
    Ok(entries)
}

/// The models of a folder, by name: GGUF files (of split ones the first), and folders with a `config.json`.
fn found(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let at = folder.display();
    let cannot = |error: std::io::Error| Failure::new(format!("--models-dir {at}: {error}"));
    let mut models = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(cannot)? {
        let path = entry.map_err(cannot)?.path();
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let is_part = name.contains("-of-") && !name.contains("-00001-of-");
        if (name.ends_with(".gguf") && !is_part) || path.join("config.json").is_file() {
            models.push(path);
        }
    }
    models.sort();
    if models.is_empty() {
        return Err(Failure::new(format!(
            "--models-dir {at}: there is no model in it, neither a GGUF file nor a folder with a config.json"
        )));
    }
    Ok(models)
}

/// The loader of one of several models on the device that they share.
struct FromFile {
    args: Arc<Args>,
    server: Server,
    device: Device,
    wanted: Wanted,
    names: Vec<String>,
    /// Worked out once, so that what is reserved is what is taken.
    need: OnceLock<u64>,
}

impl Loader for FromFile {
    fn need_bytes(&self) -> Result<u64, String> {
        if let Some(need) = self.need.get() {
            return Ok(*need);
        }
        let planned = planned(&self.args, &self.wanted).map_err(|failure| failure.message)?;
        Ok(*self.need.get_or_init(|| planned.need().total()))
    }

    fn load(&self, progress: &dyn Fn(String)) -> Result<LoadedModel, String> {
        self.loaded(progress).map_err(|failure| failure.message)
    }
}

impl FromFile {
    fn loaded(&self, progress: &dyn Fn(String)) -> Result<LoadedModel, Failure> {
        let planned = planned(&self.args, &self.wanted)?;
        let reserve = |kind, bytes| {
            let memory = self.device.memory().reserve(&self.names[0], kind, bytes);
            memory.map_err(|full| Failure::new(full.to_string()))
        };
        let memory = reserve(MemoryKind::Weights, planned.need().weights)?;
        // The pool is the engines': a load must not make them wait.
        let compute = self.device.single_threaded();
        let compute = compute.map_err(|error| Failure::new(format!("no kernels to load with: {error}")))?;
        let mut progress = |share| progress(format!("{:.0} % of the weights are read", share * 100.0));
        match planned {
            PlannedModel::Generates(planned) => {
                self.generating(planned.load_with(compute, &mut progress)?, memory)
            }
            PlannedModel::Encodes(planned) => {
                let scratch = reserve(MemoryKind::Scratch, planned.need.scratch)?;
                self.encoding(planned.load_with(&compute, &mut progress)?, memory, scratch)
            }
        }
    }

    fn encoding(
        &self,
        loaded: LoadedEncoder,
        weights: Reservation,
        scratch: Reservation,
    ) -> Result<LoadedModel, Failure> {
        let log = self.args.operations.log_format;
        loaded.remarks.iter().for_each(|remark| log.say(remark));
        let name = &self.names[0];
        log.say(&format!("{name}: {}", loaded.say()));
        let limits = encoder_limits(&self.args, loaded.facts.max_tokens);
        let setup = EncoderSetup::new(name, limits).watched(self.server.watch_encoder(name));
        let details = loaded.details.clone();
        let encoding = loaded.start(&self.device, setup.holding(weights).holding(scratch))?;
        Ok(LoadedModel::encoder(self.names.clone(), encoding).with_details(details))
    }

    fn generating(&self, loaded: Loaded, memory: Reservation) -> Result<LoadedModel, Failure> {
        let name = &self.names[0];
        loaded.remarks.iter().for_each(|remark| self.args.operations.log_format.say(remark));
        let watch = self.server.watch_reads(name, &|rows| loaded.model.weight_read_bytes(rows));
        let setup = Setup::new(loaded.tokenizer.clone(), loaded.limits);
        let setup = setup.named(name.clone()).watched(watch).holding(memory);
        let engine = Engine::start_on(&self.device, loaded.model, loaded.draft, setup)?;
        let text = text_of(&self.args, loaded.tokenizer, loaded.template);
        Ok(LoadedModel::new(self.names.clone(), engine, text).with_details(loaded.details))
    }
}

/// Registers the models and loads those that are to be there from the start, as far as there is room for them. Gives back
/// a line about them.
///
/// # Errors
/// A model that cannot be found or loaded, or two of one name.
pub(super) fn start(args: &Arc<Args>, server: &Server, began: Instant) -> Result<String, Failure> {
    server.loading("finding the models");
    let mut entries = entries(args)?;
    let machine = cpu::probe::detect();
    let limit = limit(args, &machine);
    let share = limit / (2 * entries.len() as u64).max(1);
    entries.iter_mut().for_each(|entry| entry.wanted.kv_room = Some(share));
    let (tier, threads) = (args.compute.tier()?, args.compute.threads(&machine)?);
    let device = Device::new(compute(&machine, tier, threads, args.prompts)?, MemoryBudget::new(limit));
    measure(server, &machine);
    let registry = server.registry();
    let mut preload = Vec::new();
    for (index, entry) in entries.into_iter().enumerate() {
        let Entry { wanted, names, pinned, preload: now, keep_alive } = entry;
        let loader = Arc::new(FromFile {
            args: args.clone(),
            server: server.clone(),
            device: device.clone(),
            wanted,
            names: names.clone(),
            need: OnceLock::new(),
        });
        if now {
            preload.push((index, names[0].clone(), loader.clone()));
        }
        let registration = Registration { names, pinned, keep_alive, loader };
        registry.add(registration).map_err(Failure::new)?;
    }
    let mut loaded = Vec::new();
    for (index, name, loader) in preload {
        let need = loader.need_bytes().map_err(|why| Failure::new(format!("{name}: {why}")))?;
        let (reserved, limit) = registry.memory();
        if need > limit {
            return Err(Failure::new(format!(
                "{name} needs {} of memory; models may take {} together (--model-memory)",
                size(need),
                size(limit)
            )));
        }
        if need > limit - reserved {
            continue;
        }
        server.loading(format!("loading {}", term::clean(&name)));
        registry.load_now(index).map_err(|fault| Failure::new(fault.message))?;
        loaded.push(name);
    }
    server.open(began);
    let (reserved, limit) = registry.memory();
    let others = registry.facts().len() - loaded.len();
    Ok(format!(
        "{} loaded ({}), {others} more when they are asked for · {} of {} of memory · {threads} threads, {tier}",
        loaded.len(),
        loaded.join(", "),
        size(reserved),
        size(limit)
    ))
}

/// Bytes that models may take together.
pub(super) fn limit(args: &Args, machine: &cpu::probe::Machine) -> u64 {
    let can_be_had =
        machine.memory_available_bytes.min(machine.memory_limit_bytes).saturating_sub(OTHER_BYTES);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of a u64")]
    let share = (can_be_had as f64 * SHARE) as u64;
    args.many.model_memory.unwrap_or(share)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_has_files_and_folders_of_models() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        assert!(found(folder.path()).is_err());
        for name in ["b.gguf", "big-00001-of-00002.gguf", "big-00002-of-00002.gguf", "notes.txt"] {
            std::fs::write(at(name), b"").expect("a file");
        }
        std::fs::create_dir(at("hf")).expect("a folder");
        std::fs::write(at("hf/config.json"), b"{}").expect("a file");
        let names: Vec<String> = found(folder.path())
            .expect("models")
            .into_iter()
            .map(|path| path.file_name().expect("a name").to_string_lossy().into_owned())
            .collect();
        assert_eq!(names, ["b.gguf", "big-00001-of-00002.gguf", "hf"]);
    }
}
