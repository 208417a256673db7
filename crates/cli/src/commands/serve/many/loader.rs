//! How a model of a server of several models is loaded.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use engine::encoder::EncoderSetup;
use engine::{Device, Engine, MemoryKind, Reservation, Setup};
use pipeline::{Definition, Plan};
use server::{LoadedModel, Server};
use service::{
    ConfiguredModel, Loader, OnnxModel, OutputLabels, Pipeline, Registration, onnx_bytes, part_name,
    part_names,
};
use wire::oip::{ModelConfig, VERSION};

use super::flags::is_onnx;
use super::repository::{Found, small_text};
use crate::Failure;
use crate::commands::serve::args::Args;
use crate::commands::serve::prepare::{PlannedModel, Wanted, encoder_limits, planned, text_of};
use crate::encoders::LoadedEncoder;
use crate::loading::Loaded;

/// What a pipeline is taken to hold beside its models.
const PIPELINE_BYTES: u64 = 1 << 20;
/// Most bytes of a file with the names of classes.
const LABEL_BYTES: u64 = 1 << 20;

/// One of the models.
pub(super) struct Entry {
    pub(super) wanted: Wanted,
    pub(super) names: Vec<String>,
    pub(super) pinned: bool,
    pub(super) preload: bool,
    pub(super) keep_alive: Option<Duration>,
    /// What the folder of models says of it.
    pub(super) found: Option<Found>,
}

/// The loader of one of several models on the device that they share.
pub(super) struct FromFile {
    args: Arc<Args>,
    server: Server,
    device: Device,
    wanted: Wanted,
    names: Vec<String>,
    /// What the folder of models says of it.
    found: Option<Found>,
    /// Worked out once, so that what is reserved is what is taken.
    need: OnceLock<u64>,
}

impl Loader for FromFile {
    fn need_bytes(&self) -> Result<u64, String> {
        if let Some(need) = self.need.get() {
            return Ok(*need);
        }
        if let Some(why) = self.problem() {
            return Err(why);
        }
        if self.definition().is_some() {
            return Ok(PIPELINE_BYTES);
        }
        if let Some(path) = self.onnx() {
            let need = onnx_bytes(&path).map_err(|why| format!("{}: {why}", path.display()))?;
            return Ok(*self.need.get_or_init(|| need));
        }
        let planned = planned(&self.args, &self.wanted).map_err(|failure| failure.message)?;
        Ok(*self.need.get_or_init(|| planned.need().total()))
    }

    fn load(&self, progress: &dyn Fn(String)) -> Result<LoadedModel, String> {
        if let Some(definition) = self.definition() {
            return self.pipeline(definition);
        }
        let model = self.loaded(progress).map_err(|failure| failure.message)?;
        match self.config() {
            None => Ok(model),
            Some(config) => self.configured(model, config).map_err(|why| format!("config.pbtxt: {why}")),
        }
    }

    fn operations(&self) -> Vec<&'static str> {
        let is_tensors = self.onnx().is_some() || self.definition().is_some();
        if is_tensors { vec!["infer"] } else { vec!["generate", "tokenize"] }
    }

    fn version(&self) -> Arc<str> {
        let version = self.found.as_ref().and_then(|found| found.version);
        version.map_or_else(|| Arc::from(VERSION), |version| version.to_string().into())
    }

    fn parts(&self) -> Vec<String> {
        self.definition().map(|definition| part_names(definition)).unwrap_or_default()
    }

    fn problem(&self) -> Option<String> {
        self.found.as_ref().and_then(|found| found.problem.clone())
    }
}

impl FromFile {
    fn config(&self) -> Option<&Arc<ModelConfig>> {
        self.found.as_ref().and_then(|found| found.config.as_ref())
    }

    /// The graph of a pipeline.
    fn definition(&self) -> Option<&Arc<Definition>> {
        self.found.as_ref().and_then(|found| found.pipeline.as_ref())
    }

    /// The pipeline, checked against its models.
    fn pipeline(&self, definition: &Arc<Definition>) -> Result<LoadedModel, String> {
        let registry = self.server.registry();
        let resolve = |model: &str, version: Option<u64>| registry.part(&part_name(model, version));
        let plan = Plan::new(Definition::clone(definition), &resolve)?;
        let config = self.config().cloned();
        let labels = config.as_deref().map(|config| self.labels(config)).transpose()?.unwrap_or_default();
        let details = server::ModelDetails { format: "pipeline".into(), ..server::ModelDetails::default() };
        let model = LoadedModel::pipeline_of(self.names.clone(), Pipeline::new(plan, labels));
        Ok(model.with_details(details).with_config(config))
    }

    /// The names of the classes of outputs.
    fn labels(&self, config: &ModelConfig) -> Result<OutputLabels, String> {
        let folder = self.found.as_ref().map(|found| found.folder.as_path()).unwrap_or(Path::new(""));
        let mut labels = OutputLabels::new();
        for output in &config.outputs {
            if let Some(file) = &output.labels {
                labels.insert(output.name.clone(), label_file(folder, file)?);
            }
        }
        Ok(labels)
    }

    /// The model as its configuration has it.
    fn configured(&self, model: LoadedModel, config: &Arc<ModelConfig>) -> Result<LoadedModel, String> {
        let Some(tensors) = model.tensors() else {
            config.check(&model.signature())?;
            return Ok(model.with_config(Some(config.clone())));
        };
        let configured = ConfiguredModel::new(tensors.clone(), config, self.labels(config)?)?;
        let (names, details) = (model.names.clone(), model.details.clone());
        let configured = LoadedModel::tensor_model(names, Arc::new(configured));
        Ok(configured.with_details(details).with_config(Some(config.clone())))
    }

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
                let fingerprint = planned.fingerprint()?;
                self.generating(planned.load_with(compute, &mut progress)?, memory, fingerprint)
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

    fn generating(
        &self,
        loaded: Loaded,
        memory: Reservation,
        fingerprint: String,
    ) -> Result<LoadedModel, Failure> {
        let name = &self.names[0];
        loaded.remarks.iter().for_each(|remark| self.args.operations.log_format.say(remark));
        let watch = self.server.watch_reads(name, &|rows| loaded.model.weight_read_bytes(rows));
        let setup = Setup::new(loaded.tokenizer.clone(), loaded.limits);
        let setup = setup.named(name.clone()).watched(watch).holding(memory);
        let engine = Engine::start_on(&self.device, loaded.model, loaded.draft, setup)?;
        let text = text_of(&self.args, loaded.tokenizer, loaded.template);
        let model = LoadedModel::new(self.names.clone(), engine, text).with_fingerprint(fingerprint);
        Ok(model.with_details(loaded.details))
    }
}

/// What all loaders have in common.
#[derive(Clone)]
pub(super) struct Loaders {
    pub(super) args: Arc<Args>,
    pub(super) server: Server,
    pub(super) device: Device,
    /// Bytes of the KV cache that a model may take.
    pub(super) kv_room: u64,
}

impl Loaders {
    /// A model as it is registered, with its loader.
    pub(super) fn registration(&self, entry: Entry) -> (Registration, Arc<FromFile>) {
        let Entry { mut wanted, names, pinned, keep_alive, found, .. } = entry;
        if let Some(found) = &found {
            self.say(found);
        }
        wanted.kv_room = Some(self.kv_room);
        let loader = Arc::new(FromFile {
            args: self.args.clone(),
            server: self.server.clone(),
            device: self.device.clone(),
            wanted,
            names: names.clone(),
            found,
            need: OnceLock::new(),
        });
        (Registration { names, pinned, keep_alive, loader: loader.clone() }, loader)
    }

    /// Tells what of a model's configuration is left out, and why it cannot be served.
    fn say(&self, found: &Found) {
        let log = self.args.operations.log_format;
        let name = &found.name;
        if let Some(why) = &found.problem {
            log.say(&format!("{name} is not served: {why}"));
        }
        let Some(config) = found.config.as_ref().filter(|_| found.is_default()) else { return };
        let list = |names: &[String]| names.join(", ");
        if !config.unknown.is_empty() {
            let fields = list(&config.unknown);
            log.say(&format!(
                "{name}: config.pbtxt has fields that nobody knows, which are left out: {fields}"
            ));
        }
        if !config.ignored.is_empty() {
            let fields = list(&config.ignored);
            log.say(&format!("{name}: fields of config.pbtxt that change nothing here: {fields}"));
        }
    }
}

/// The names of classes in a file: a line each.
fn label_file(folder: &Path, file: &str) -> Result<Arc<[String]>, String> {
    let text = small_text(&folder.join(file), LABEL_BYTES)?;
    let text = text.ok_or_else(|| format!("label_filename: there is no {file} in {}", folder.display()))?;
    Ok(text.lines().map(|line| line.trim_end().to_owned()).collect())
}
