//! Granite 3 with experts, and with a shared expert beside them (`GraniteMoeShared`).

use super::granite;
use crate::error::Error;
use crate::mixture::{Router, Score, SharedExpert};
use crate::source::{Key, Source};
use crate::spec::Spec;

pub(super) fn read(source: &Source) -> Result<Spec, Error> {
    let mut spec = granite::read(source)?;
    spec.family = "granitemoe";
    experts(source, &mut spec)?;
    Ok(spec)
}

/// Gives all layers experts, and the shared expert that the file declares.
pub(super) fn experts(source: &Source, spec: &mut Spec) -> Result<(), Error> {
    let router = Router { score: Score::SoftmaxOfPicked, renormalise: false, ..Router::SOFTMAX };
    let mut mixture = source.mixture(spec.feed_width(), router)?;
    mixture.shared = match source.is_gguf() {
        true => source.gguf_shared(spec.layers.len(), false)?,
        false => {
            let width = source.size(Key("", &["shared_intermediate_size"]))?.filter(|&width| width > 0);
            width.map(|width| SharedExpert { width, gated: false })
        }
    };
    source.spread(spec, mixture, |_| true);
    Ok(())
}
