//! Several models behind one server: which, from where, and how each is loaded.

pub(super) mod flags;
mod poll;
mod repository;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use engine::encoder::EncoderSetup;
use engine::{Device, Engine, MemoryBudget, MemoryKind, Reservation, Setup};
use server::{LoadedModel, Server};
use service::{Loader, ModelId, OnnxModel, Registration, onnx_bytes};
use tokio::runtime::Handle;

use super::args::Args;
use super::prepare::{PlannedModel, Wanted, encoder_limits, measure, planned, text_of};
use super::{door, name};
use crate::encoders::LoadedEncoder;
use crate::loading::{Loaded, OTHER_BYTES, compute};
use crate::store::size;
use crate::{Failure, term};
use flags::{is_onnx, time};
use poll::{Known, Register, Repository};
use repository::{Found, Scan, Settings};

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

/// The models of the command line and of the file of `--config`.
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
    Ok(entries)
}

/// An entry for a model of the folder.
fn of_folder(args: &Args, found: &Found) -> Entry {
    let Settings { names, pinned, preload, keep_alive, context, kv_memory, .. } = found.settings.clone();
    Entry {
        names: args.clients.names(&names, &found.name),
        wanted: Wanted {
            model: Some(found.path.to_string_lossy().into_owned()),
            context,
            kv_memory,
            kv_room: None,
        },
        pinned,
        preload,
        keep_alive: keep_alive.or(args.many.keep_alive),
    }
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
        if let Some(path) = self.onnx() {
            let need = onnx_bytes(&path).map_err(|why| format!("{}: {why}", path.display()))?;
            return Ok(*self.need.get_or_init(|| need));
        }
        let planned = planned(&self.args, &self.wanted).map_err(|failure| failure.message)?;
        Ok(*self.need.get_or_init(|| planned.need().total()))
    }

    fn load(&self, progress: &dyn Fn(String)) -> Result<LoadedModel, String> {
        self.loaded(progress).map_err(|failure| failure.message)
    }

    fn operations(&self) -> Vec<&'static str> {
        if self.onnx().is_some() { vec!["infer"] } else { vec!["generate", "tokenize"] }
    }
}

impl FromFile {
    /// The file of an ONNX model.
    fn onnx(&self) -> Option<PathBuf> {
        self.wanted.model.as_deref().filter(|model| is_onnx(model)).map(PathBuf::from)
    }

    fn graph(&self, path: &Path, memory: Reservation) -> Result<LoadedModel, Failure> {
        let name = &self.names[0];
        let loaded = OnnxModel::load(name, path, self.device.clone(), memory);
        let model = loaded.map_err(|why| Failure::new(format!("{}: {why}", path.display())))?;
        self.args
            .operations
            .log_format
            .say(&format!("{name}: an ONNX model, computed by {}", model.runtime()));
        let weight_bytes = std::fs::metadata(path)?.len();
        let details =
            server::ModelDetails { format: "onnx".into(), weight_bytes, ..server::ModelDetails::default() };
        Ok(LoadedModel::tensor_model(self.names.clone(), Arc::new(model)).with_details(details))
    }

    fn loaded(&self, progress: &dyn Fn(String)) -> Result<LoadedModel, Failure> {
        let reserve = |kind, bytes| {
            let memory = self.device.memory().reserve(&self.names[0], kind, bytes);
            memory.map_err(|full| Failure::new(full.to_string()))
        };
        if let Some(path) = self.onnx() {
            let need = self.need_bytes().map_err(Failure::new)?;
            return self.graph(&path, reserve(MemoryKind::Weights, need)?);
        }
        let planned = planned(&self.args, &self.wanted)?;
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

/// What all loaders have in common.
#[derive(Clone)]
struct Loaders {
    args: Arc<Args>,
    server: Server,
    device: Device,
    /// Bytes of the KV cache that a model may take.
    kv_room: u64,
}

impl Loaders {
    /// A model as it is registered, with its loader.
    fn registration(&self, entry: Entry) -> (Registration, Arc<FromFile>) {
        let Entry { mut wanted, names, pinned, keep_alive, .. } = entry;
        wanted.kv_room = Some(self.kv_room);
        let loader = Arc::new(FromFile {
            args: self.args.clone(),
            server: self.server.clone(),
            device: self.device.clone(),
            wanted,
            names: names.clone(),
            need: OnceLock::new(),
        });
        (Registration { names, pinned, keep_alive, loader: loader.clone() }, loader)
    }
}

/// A model that is to be there from the start.
struct Preload {
    id: ModelId,
    name: String,
    loader: Arc<FromFile>,
}

/// Registers the models and loads those that are to be there from the start, as far as there is room for them. From then on
/// the folder of models is followed on `runtime`. Gives back a line about them.
///
/// # Errors
/// A model that cannot be found or loaded, or two of one name.
pub(super) fn start(
    args: &Arc<Args>,
    server: &Server,
    runtime: &Handle,
    began: Instant,
) -> Result<String, Failure> {
    server.loading("finding the models");
    let entries = entries(args)?;
    let scan = args.many.models_dir.as_deref().map(repository::scan).transpose()?;
    let in_folder = scan.as_ref().map_or(0, |scan| scan.models.len());
    let count = entries.len() + in_folder;
    let is_followed = args.many.poll().is_some();
    if count > MOST || (count == 0 && !is_followed) {
        return Err(Failure::new(format!("there are {count} models; 1 to {MOST} can be served")));
    }
    let machine = cpu::probe::detect();
    let limit = limit(args, &machine);
    let (tier, threads) = (args.compute.tier()?, args.compute.threads(&machine)?);
    let device = Device::new(compute(&machine, tier, threads, args.prompts)?, MemoryBudget::new(limit));
    measure(server, &machine);
    let kv_room = limit / (2 * count as u64).max(1);
    let loaders = Loaders { args: args.clone(), server: server.clone(), device, kv_room };
    let mut preload = Vec::new();
    for entry in entries {
        register(&loaders, entry, &mut preload)?;
    }
    let mut known = HashMap::new();
    let log = args.operations.log_format;
    let Scan { models, refused } = scan.unwrap_or_default();
    refused.iter().for_each(|one| log.say(&one.to_string()));
    for found in models {
        let id = register(&loaders, of_folder(args, &found), &mut preload)?;
        known.insert(found.name, Known { id: Some(id), digest: found.digest });
    }
    let loaded = load_now(server, preload)?;
    server.open(began);
    if let (Some(folder), Some(every)) = (args.many.models_dir.clone(), args.many.poll()) {
        let args = args.clone();
        let register: Register = Box::new(move |found| loaders.registration(of_folder(&args, found)).0);
        runtime.spawn(Repository { folder, server: server.clone(), log, register, known }.follow(every));
    }
    let (reserved, limit) = server.registry().memory();
    Ok(format!(
        "{} loaded ({}), {} more when they are asked for · {} of {} of memory · {threads} threads, {tier}",
        loaded.len(),
        loaded.join(", "),
        count - loaded.len(),
        size(reserved),
        size(limit)
    ))
}

fn register(loaders: &Loaders, entry: Entry, preload: &mut Vec<Preload>) -> Result<ModelId, Failure> {
    let (name, now) = (entry.names[0].clone(), entry.preload);
    let (registration, loader) = loaders.registration(entry);
    let id = loaders.server.registry().add(registration).map_err(Failure::new)?;
    if now {
        preload.push(Preload { id, name, loader });
    }
    Ok(id)
}

/// Loads models as far as there is room for them; gives back their names.
fn load_now(server: &Server, preload: Vec<Preload>) -> Result<Vec<String>, Failure> {
    let registry = server.registry();
    let mut loaded = Vec::new();
    for Preload { id, name, loader } in preload {
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
        registry.load_now(id).map_err(|fault| Failure::new(fault.message))?;
        loaded.push(name);
    }
    Ok(loaded)
}

/// Bytes that models may take together.
pub(super) fn limit(args: &Args, machine: &cpu::probe::Machine) -> u64 {
    let can_be_had =
        machine.memory_available_bytes.min(machine.memory_limit_bytes).saturating_sub(OTHER_BYTES);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of a u64")]
    let share = (can_be_had as f64 * SHARE) as u64;
    args.many.model_memory.unwrap_or(share)
}
