//! Several models behind one server: which, from where, and how each is loaded.

pub(super) mod flags;
mod loader;
mod poll;
mod repository;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use engine::{Device, MemoryBudget};
use server::Server;
use service::{Loader, ModelId};
use tokio::runtime::Handle;
use wire::oip::{plain_name, versioned_name};

use super::args::Args;
use super::prepare::{Wanted, measure};
use super::{door, name};
use crate::loading::{OTHER_BYTES, compute};
use crate::store::size;
use crate::{Failure, term};
use flags::time;
use loader::{Entry, FromFile, Loaders};
use poll::{Known, Register, Repository};
use repository::{Found, Scan, Settings};

/// The share of the memory that can be had which models take together, unless a flag says otherwise.
const SHARE: f64 = 0.8;
/// Most models of one server.
const MOST: usize = 1_024;

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
            found: None,
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
        entries.push(Entry { wanted, names, pinned, preload, keep_alive, found: None });
    }
    Ok(entries)
}

/// An entry for a model of the folder.
fn of_folder(args: &Args, found: &Found) -> Entry {
    let Settings { names, pinned, preload, keep_alive, context, kv_memory, .. } = found.settings.clone();
    let names = match found.version {
        Some(version) if !found.is_default() => {
            let own = if names.is_empty() { vec![plain_name(&found.name).to_owned()] } else { names };
            own.iter().map(|name| versioned_name(name, &version.to_string())).collect()
        }
        _ => args.clients.names(&names, &found.name),
    };
    // The models of a pipeline are known only when all are registered: it is loaded when it is asked for.
    let is_whole = found.problem.is_none() && found.pipeline.is_none();
    Entry {
        names,
        wanted: Wanted {
            model: Some(found.path.to_string_lossy().into_owned()),
            context,
            kv_memory,
            kv_room: None,
        },
        pinned,
        preload: preload && is_whole,
        keep_alive: keep_alive.or(args.many.keep_alive),
        found: Some(found.clone()),
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
    let Scan { models } = scan.unwrap_or_default();
    for found in models {
        let id = register(&loaders, of_folder(args, &found), &mut preload)?;
        let is_failed = found.problem.is_some();
        known.insert(found.name, Known { id: Some(id), digest: found.digest, is_failed });
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
