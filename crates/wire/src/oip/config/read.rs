//! From fields of the text format to a model's configuration. Each message has its fields in one `match`.

use std::collections::HashSet;

use super::error::ConfigError;
use super::model::{ConfigTensor, EnsembleStep, ModelConfig, VersionPolicy};
use super::text::{self, Field, Value};
use crate::error::quote;
use crate::limits;
use crate::oip::Datatype;

/// What is taken and changes nothing here: how Triton's backends schedule, measure and warm up.
const IGNORED: [&str; 10] = [
    "cc_model_filenames",
    "dynamic_batching",
    "metric_tags",
    "model_metrics",
    "model_warmup",
    "optimization",
    "profile",
    "rate_limiter",
    "response_cache",
    "runtime",
];
/// Of instance groups.
const IGNORED_OF_GROUPS: [&str; 7] =
    ["name", "gpus", "host_policy", "passive", "profile", "rate_limiter", "secondary_devices"];
/// What would change answers, or run code that is not here.
const REFUSED: [&str; 5] =
    ["batch_input", "batch_output", "model_operations", "model_repository_agents", "sequence_batching"];
/// What there is one of in a configuration, in an input or output, and in a step.
const SINGLE: [&str; 8] = [
    "backend",
    "default_model_filename",
    "ensemble_scheduling",
    "max_batch_size",
    "model_transaction_policy",
    "name",
    "platform",
    "version_policy",
];
const SINGLE_OF_TENSORS: [&str; 8] = [
    "allow_ragged_batch",
    "data_type",
    "format",
    "is_non_linear_format_io",
    "is_shape_tensor",
    "label_filename",
    "name",
    "optional",
];
const SINGLE_OF_STEPS: [&str; 2] = ["model_name", "model_version"];
/// What instance groups compute on.
const KINDS: [&str; 4] = ["KIND_AUTO", "KIND_GPU", "KIND_CPU", "KIND_MODEL"];
/// Most entries of a list of a configuration.
const MOST: usize = 1_024;

impl ModelConfig {
    /// Reads the text of a `config.pbtxt`.
    ///
    /// # Errors
    /// A text that is not in the format, a field of another type, one that is not supported.
    pub fn parse(text: &str) -> Result<ModelConfig, ConfigError> {
        let fields = text::parse(text)?;
        let mut reader = Reader::default();
        let mut config = reader.config(&fields)?;
        (config.ignored, config.unknown) = (reader.ignored, reader.unknown);
        config.check_names()?;
        Ok(config)
    }
}

impl Field {
    fn wrong<T>(&self, message: impl std::fmt::Display) -> Result<T, ConfigError> {
        Err(ConfigError::at(self.line, format!("{} {message}", self.name)))
    }

    fn text(&self) -> Result<String, ConfigError> {
        let Value::Text(bytes) = &self.value else { return self.wrong("must be a string") };
        match std::str::from_utf8(bytes) {
            Ok(text) => Ok(text.to_owned()),
            Err(_) => self.wrong("is not UTF-8"),
        }
    }

    fn word(&self) -> Option<&str> {
        if let Value::Word(word) = &self.value { Some(word) } else { None }
    }

    /// A whole number: decimal, octal or hexadecimal.
    fn integer(&self) -> Result<i64, ConfigError> {
        let number = self.word().and_then(|word| {
            let (negative, digits) = word.strip_prefix('-').map_or((false, word), |digits| (true, digits));
            let (digits, radix) = match digits.as_bytes() {
                [b'0', b'x' | b'X', ..] => (&digits[2..], 16),
                [b'0', _, ..] => (&digits[1..], 8),
                _ => (digits, 10),
            };
            // `from_str_radix` would take a second sign.
            let plain = !digits.is_empty() && digits.chars().all(|digit| digit.is_digit(radix));
            let number = plain.then(|| i128::from_str_radix(digits, radix).ok()).flatten()?;
            i64::try_from(if negative { -number } else { number }).ok()
        });
        number.map_or_else(|| self.wrong("must be a whole number"), Ok)
    }

    fn within(&self, least: i64, most: i64) -> Result<i64, ConfigError> {
        let number = self.integer()?;
        if (least..=most).contains(&number) {
            return Ok(number);
        }
        self.wrong(format!("is {number}; it must be between {least} and {most}"))
    }

    fn boolean(&self) -> Result<bool, ConfigError> {
        match self.word() {
            Some("true" | "True" | "t" | "1") => Ok(true),
            Some("false" | "False" | "f" | "0") => Ok(false),
            _ => self.wrong("must be true or false"),
        }
    }

    fn datatype(&self) -> Result<Datatype, ConfigError> {
        let number = self.integer().ok();
        let is = |datatype: &Datatype| match number {
            Some(number) => i64::from(datatype.config_number()) == number,
            None => self.word() == Some(&datatype.config_name()),
        };
        let found = Datatype::ALL.into_iter().find(is);
        found.map_or_else(|| self.wrong("must be a datatype such as TYPE_FP32"), Ok)
    }

    fn message(&self) -> Result<&[Field], ConfigError> {
        let Value::Message(fields) = &self.value else { return self.wrong("must be a message in { }") };
        Ok(fields)
    }
}

/// Reads messages; gathers what is left out.
#[derive(Default)]
struct Reader {
    ignored: Vec<String>,
    unknown: Vec<String>,
}

/// The fields of a message that there may be one of, by name.
struct Once<'a>(HashSet<&'a str>);

impl<'a> Once<'a> {
    /// Marks a field as there.
    fn only(&mut self, field: &'a Field) -> Result<(), ConfigError> {
        if field.listed {
            return field.wrong("is no list");
        }
        if self.0.insert(&field.name) { Ok(()) } else { field.wrong("is there twice") }
    }
}

fn push<T>(into: &mut Vec<T>, value: T, field: &Field) -> Result<(), ConfigError> {
    if into.len() == MOST {
        return field.wrong(format!("is there more than {MOST} times"));
    }
    into.push(value);
    Ok(())
}

impl Reader {
    fn note(list: &mut Vec<String>, field: &Field) {
        if !list.contains(&field.name) && list.len() < MOST {
            list.push(field.name.clone());
        }
    }

    fn left_out(&mut self, field: &Field) {
        Reader::note(&mut self.unknown, field);
    }

    fn config(&mut self, fields: &[Field]) -> Result<ModelConfig, ConfigError> {
        let mut config = ModelConfig::default();
        let mut once = Once(HashSet::new());
        for field in fields {
            match field.name.as_str() {
                "input" => push(&mut config.inputs, self.tensor(field)?, field)?,
                "output" => push(&mut config.outputs, self.tensor(field)?, field)?,
                "instance_group" => {
                    let count = self.group(field)?;
                    config.instances = Some(config.instances.unwrap_or(0).saturating_add(count));
                }
                "parameters" => {
                    let entry = self.entry(field, true)?;
                    push(&mut config.parameters, entry, field)?;
                }
                name if REFUSED.contains(&name) => return field.wrong("is not supported"),
                name if IGNORED.contains(&name) => Reader::note(&mut self.ignored, field),
                name if SINGLE.contains(&name) => {
                    once.only(field)?;
                    self.single(&mut config, field)?;
                }
                _ => self.left_out(field),
            }
        }
        Ok(config)
    }

    /// A field of a configuration that there is one of.
    fn single(&mut self, config: &mut ModelConfig, field: &Field) -> Result<(), ConfigError> {
        match field.name.as_str() {
            "name" => config.name = field.text()?,
            "platform" => config.platform = field.text()?,
            "backend" => config.backend = field.text()?,
            "default_model_filename" => config.file = Some(file_name(field)?),
            "max_batch_size" => {
                let number = field.within(0, i64::from(i32::MAX))?;
                config.max_batch_size = usize::try_from(number).unwrap_or(0);
            }
            "version_policy" => config.versions = self.policy(field)?,
            "ensemble_scheduling" => {
                for inner in field.message()? {
                    match inner.name.as_str() {
                        "step" => push(&mut config.steps, self.step(inner)?, inner)?,
                        "max_inflight_requests" => Reader::note(&mut self.ignored, inner),
                        _ => self.left_out(inner),
                    }
                }
                if config.steps.is_empty() {
                    return field.wrong("has no step");
                }
            }
            "model_transaction_policy" => {
                for inner in field.message()? {
                    match inner.name.as_str() {
                        "decoupled" => config.decoupled = inner.boolean()?,
                        _ => self.left_out(inner),
                    }
                }
            }
            _ => self.left_out(field),
        }
        Ok(())
    }

    fn tensor(&mut self, field: &Field) -> Result<ConfigTensor, ConfigError> {
        let (mut name, mut datatype, mut dims) = (String::new(), None, Vec::new());
        let (mut labels, mut optional) = (None, false);
        let mut once = Once(HashSet::new());
        for inner in field.message()? {
            match inner.name.as_str() {
                "dims" => {
                    let dim = inner.integer()?;
                    if dim < 1 && dim != -1 {
                        return inner.wrong(format!("has {dim}; it must be at least 1, or -1 for any"));
                    }
                    if dims.len() == limits::TENSOR_RANK {
                        return inner.wrong(format!("has more than {} dimensions", limits::TENSOR_RANK));
                    }
                    dims.push(dim);
                    continue;
                }
                "reshape" => return inner.wrong("is not supported: write the model's own shape as dims"),
                name if SINGLE_OF_TENSORS.contains(&name) => once.only(inner)?,
                _ => {}
            }
            match inner.name.as_str() {
                "name" => name = inner.text()?,
                "data_type" => datatype = Some(inner.datatype()?),
                "label_filename" if field.name == "output" => {
                    labels = Some(file_name(inner)?).filter(|name| !name.is_empty());
                }
                "optional" if field.name == "input" => optional = inner.boolean()?,
                "is_shape_tensor" | "allow_ragged_batch" | "is_non_linear_format_io" => {
                    if inner.boolean()? {
                        return inner.wrong("is not supported");
                    }
                }
                // A hint: the dimensions are those of `dims`.
                "format" if field.name == "input" => Reader::note(&mut self.ignored, inner),
                _ => self.left_out(inner),
            }
        }
        let Some(datatype) = datatype else {
            return field.wrong(format!("{} has no data_type", quote(&name)));
        };
        match (name.is_empty(), dims.is_empty()) {
            (true, _) => field.wrong("has no name"),
            (false, true) => field.wrong(format!("{} has no dims", quote(&name))),
            (false, false) => Ok(ConfigTensor { name, datatype, dims, labels, optional }),
        }
    }

    fn group(&mut self, field: &Field) -> Result<usize, ConfigError> {
        let mut count = 1;
        let mut once = Once(HashSet::new());
        for inner in field.message()? {
            match inner.name.as_str() {
                "count" => {
                    once.only(inner)?;
                    count = usize::try_from(inner.within(1, 1_024)?).unwrap_or(1);
                }
                "kind" => {
                    let number = inner.integer().ok();
                    let is_kind = inner.word().is_some_and(|word| KINDS.contains(&word));
                    if !is_kind && !number.is_some_and(|number| (0..4).contains(&number)) {
                        return inner.wrong(format!("must be one of {}", KINDS.join(", ")));
                    }
                    if inner.word() == Some("KIND_GPU") || number == Some(1) {
                        Reader::note(&mut self.ignored, inner);
                    }
                }
                name if IGNORED_OF_GROUPS.contains(&name) => {}
                _ => self.left_out(inner),
            }
        }
        Ok(count)
    }

    fn policy(&mut self, field: &Field) -> Result<Option<VersionPolicy>, ConfigError> {
        let mut found = None;
        for inner in field.message()? {
            let policy = match inner.name.as_str() {
                "latest" => {
                    let mut count = 0;
                    for number in inner.message()? {
                        match number.name.as_str() {
                            "num_versions" => count = number.within(1, 1_024)?,
                            _ => self.left_out(number),
                        }
                    }
                    if count == 0 {
                        return inner.wrong("must have num_versions of at least 1");
                    }
                    VersionPolicy::Latest(usize::try_from(count).unwrap_or(1))
                }
                "all" => {
                    inner.message()?;
                    VersionPolicy::All
                }
                "specific" => {
                    let mut versions = Vec::new();
                    for number in inner.message()? {
                        match number.name.as_str() {
                            "versions" => {
                                let version = number.within(1, i64::MAX)?;
                                push(&mut versions, u64::try_from(version).unwrap_or(0), number)?;
                            }
                            _ => self.left_out(number),
                        }
                    }
                    VersionPolicy::Specific(versions)
                }
                _ => {
                    self.left_out(inner);
                    continue;
                }
            };
            if found.replace(policy).is_some() {
                return inner.wrong("is a second version policy");
            }
        }
        Ok(found)
    }

    fn step(&mut self, field: &Field) -> Result<EnsembleStep, ConfigError> {
        let mut step = EnsembleStep { line: field.line, ..EnsembleStep::default() };
        let mut once = Once(HashSet::new());
        for inner in field.message()? {
            match inner.name.as_str() {
                "input_map" => push(&mut step.inputs, self.entry(inner, false)?, inner)?,
                "output_map" => push(&mut step.outputs, self.entry(inner, false)?, inner)?,
                "model_namespace" => return inner.wrong("is not supported"),
                name if SINGLE_OF_STEPS.contains(&name) => {
                    once.only(inner)?;
                    if name == "model_name" {
                        step.model = inner.text()?;
                    } else {
                        let version = inner.within(-1, i64::MAX)?;
                        step.version = u64::try_from(version).ok().filter(|version| *version > 0);
                    }
                }
                _ => self.left_out(inner),
            }
        }
        match (step.model.is_empty(), step.inputs.is_empty() || step.outputs.is_empty()) {
            (true, _) => field.wrong("has no model_name"),
            (false, true) => {
                field.wrong(format!("of {} needs an input_map and an output_map", quote(&step.model)))
            }
            (false, false) => Ok(step),
        }
    }

    /// An entry of a map of strings; `wrapped` values are the `string_value` of a message.
    fn entry(&mut self, field: &Field, wrapped: bool) -> Result<(String, String), ConfigError> {
        let (mut key, mut value) = (String::new(), String::new());
        let mut once = Once(HashSet::new());
        for inner in field.message()? {
            match inner.name.as_str() {
                "key" => {
                    once.only(inner)?;
                    key = inner.text()?;
                }
                "value" if wrapped => {
                    once.only(inner)?;
                    for text in inner.message()? {
                        match text.name.as_str() {
                            "string_value" => value = text.text()?,
                            _ => self.left_out(text),
                        }
                    }
                }
                "value" => {
                    once.only(inner)?;
                    value = inner.text()?;
                }
                _ => self.left_out(inner),
            }
        }
        Ok((key, value))
    }
}

/// The name of a file beside the configuration or the model.
fn file_name(field: &Field) -> Result<String, ConfigError> {
    let name = field.text()?;
    let is_plain = !name.contains('\\')
        && !name.chars().any(char::is_control)
        && name.split('/').all(|part| !part.is_empty() && part != "." && part != "..");
    if is_plain || name.is_empty() {
        return Ok(name);
    }
    field.wrong(format!("is {}; it must be the name of a file inside the model's folder", quote(&name)))
}
