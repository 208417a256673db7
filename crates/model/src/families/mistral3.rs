//! Ministral 3: Mistral whose queries are scaled by their position, with YaRN. GGUF files of Mistral Small 3 have this
//! architecture too, without that scale.

use super::llama;
use crate::error::Error;
use crate::source::{Defaults, Key, ORIGINAL, Source, WINDOW, missing};
use crate::spec::{QueryTemperature, Spec};

/// The key of `rope_parameters` with the scale of queries.
const BETA: &str = "llama_4_scaling_beta";

pub(super) fn read(source: &Source) -> Result<Spec, Error> {
    let defaults = Defaults {
        eps: Some(1e-5),
        kv_heads: Some(8),
        head_dim: (!source.is_gguf()).then_some(128),
        context: Some(262_144),
        rope_base: 1_000_000.0,
        ..Defaults::default()
    };
    let mut spec = llama::body(source, "mistral3", &defaults)?;
    let window = source.size(WINDOW)?.filter(|&w| w > 0);
    spec.layers.iter_mut().for_each(|layer| layer.window = window);
    spec.query_temperature = temperature(source, spec.context)?;
    Ok(spec)
}

/// The factor on queries. `config.json` must have it; a GGUF without it has none.
fn temperature(source: &Source, context: usize) -> Result<Option<QueryTemperature>, Error> {
    if source.is_gguf() {
        let scale = source.float(Key("attention.temperature_scale", &[]))?.filter(|&scale| scale != 0.0);
        let step = source.size(ORIGINAL)?.unwrap_or(context);
        return Ok(scale.map(|scale| QueryTemperature { scale, step }));
    }
    let scale = source.rope_number(BETA)?.ok_or_else(|| missing(BETA))? as f32;
    let step = source.rope_original()?;
    Ok(Some(QueryTemperature { scale, step }))
}
