//! Series whose label values are known at run time only.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use prometheus_client::encoding::{EncodeMetric, MetricEncoder, text as encoding};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Metric, Registry};

use crate::{Format, text};

/// Series by label values that are known at run time only, written in their order. Values beyond [`MOST_SERIES`] share
/// the series `other`.
#[derive(Debug, Clone)]
pub(crate) struct NamedFamily<const N: usize, M> {
    names: [&'static str; N],
    series: Arc<RwLock<Series<N, M>>>,
    new: fn() -> M,
}

/// Metrics by their escaped label values.
type Series<const N: usize, M> = BTreeMap<[Cow<'static, str>; N], M>;

/// Most series of a family: upstreams times models of a large configuration.
const MOST_SERIES: usize = 4_096;

impl<const N: usize, M: Clone> NamedFamily<N, M> {
    /// No series yet; `new` makes one.
    pub(crate) fn new(names: [&'static str; N], new: fn() -> M) -> NamedFamily<N, M> {
        NamedFamily { names, series: Arc::default(), new }
    }

    /// The series of these label values.
    pub(crate) fn get(&self, values: [&str; N]) -> M {
        let key = values.map(text::escape);
        if let Some(found) = find(&self.series.read().unwrap_or_else(PoisonError::into_inner), &key) {
            return found;
        }
        let mut series = self.series.write().unwrap_or_else(PoisonError::into_inner);
        let key = match series.len() >= MOST_SERIES {
            true => [(); N].map(|()| Cow::Borrowed("other")),
            false => key.map(|value| Cow::Owned(value.into_owned())),
        };
        series.entry(key).or_insert_with(self.new).clone()
    }
}

/// The metric of these values. Its own lifetime lets values be looked up that are not kept.
fn find<'a, const N: usize, M: Clone>(
    series: &BTreeMap<[Cow<'a, str>; N], M>,
    key: &[Cow<'a, str>; N],
) -> Option<M> {
    series.get(key).cloned()
}

impl<const N: usize, M: Clone + EncodeMetric> EncodeMetric for NamedFamily<N, M> {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> Result<(), fmt::Error> {
        let series = self.series.read().unwrap_or_else(PoisonError::into_inner);
        for (values, metric) in series.iter() {
            let labels: Vec<(&'static str, &str)> =
                self.names.iter().copied().zip(values.iter().map(AsRef::as_ref)).collect();
            metric.encode(encoder.encode_family(&labels)?)?;
        }
        Ok(())
    }

    fn metric_type(&self) -> MetricType {
        (self.new)().metric_type()
    }

    fn is_empty(&self) -> bool {
        self.series.read().unwrap_or_else(PoisonError::into_inner).is_empty()
    }
}

/// Registers a metric; what comes back is the same one.
pub(crate) fn add<M: Metric + Clone>(registry: &mut Registry, name: &str, help: &str, metric: M) -> M {
    registry.register(name, help, metric.clone());
    metric
}

/// Everything of a registry as text.
pub(crate) fn written(registry: &Registry, format: Format) -> String {
    let mut out = String::with_capacity(16 << 10);
    encoding::encode_registry(&mut out, registry).expect("writing to a String does not fail");
    match format {
        Format::OpenMetrics => out,
        Format::Prometheus => text::to_prometheus(&out),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prometheus_client::metrics::counter::Counter;

    #[test]
    fn names_are_bounded() {
        let family = NamedFamily::new(["upstream"], Counter::<u64>::default);
        for at in 0..MOST_SERIES + 10 {
            family.get([&format!("u{at}")]).inc();
        }
        assert_eq!(family.series.read().unwrap().len(), MOST_SERIES + 1);
    }
}
