//! Families of series whose order in the text is always the same.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use prometheus_client::encoding::{EncodeMetric, MetricEncoder};
use prometheus_client::metrics::{MetricType, TypedMetric};

/// Labels of a series: names and values.
pub(crate) type Labels<const N: usize> = [(&'static str, &'static str); N];

/// Series by their labels, written in the order of these; `prometheus-client`'s own family is a hash table.
#[derive(Debug, Clone)]
pub(crate) struct SortedFamily<const N: usize, M> {
    series: Arc<RwLock<BTreeMap<Labels<N>, M>>>,
    new: fn() -> M,
}

impl<const N: usize, M: Clone> SortedFamily<N, M> {
    /// A family without series; `new` makes one.
    pub(crate) fn new(new: fn() -> M) -> SortedFamily<N, M> {
        SortedFamily { series: Arc::default(), new }
    }

    /// The series with these labels, made if it is not there.
    pub(crate) fn get(&self, labels: Labels<N>) -> M {
        let found = self.series.read().unwrap_or_else(PoisonError::into_inner).get(&labels).cloned();
        found.unwrap_or_else(|| {
            let mut series = self.series.write().unwrap_or_else(PoisonError::into_inner);
            series.entry(labels).or_insert_with(self.new).clone()
        })
    }
}

impl<const N: usize, M: EncodeMetric + TypedMetric> EncodeMetric for SortedFamily<N, M> {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> Result<(), fmt::Error> {
        let series = self.series.read().unwrap_or_else(PoisonError::into_inner);
        series.iter().try_for_each(|(labels, metric)| metric.encode(encoder.encode_family(labels)?))
    }

    fn metric_type(&self) -> MetricType {
        M::TYPE
    }

    fn is_empty(&self) -> bool {
        self.series.read().unwrap_or_else(PoisonError::into_inner).is_empty()
    }
}

/// Labels that tell one model's series from another's; the values are escaped.
pub(crate) type ModelLabels = [(&'static str, String); 2];

/// The families of one model, in the order in which they are written: the same for every model, so that a family's
/// series of all models can be written together, as the formats demand.
#[derive(Default)]
pub(crate) struct ModelFamilies(Vec<ModelFamily>);

struct ModelFamily {
    name: &'static str,
    help: &'static str,
    series: Vec<Series>,
}

/// One series, with the label that it has beside the model's.
struct Series {
    label: Option<(&'static str, &'static str)>,
    metric: Box<dyn SeriesMetric>,
}

trait SeriesMetric: EncodeMetric + Send + Sync {}

impl<M: EncodeMetric + Send + Sync> SeriesMetric for M {}

impl ModelFamilies {
    /// Adds a family of one series and hands it back; clones share their numbers.
    pub(crate) fn add<M: Clone + EncodeMetric + Send + Sync + 'static>(
        &mut self,
        name: &'static str,
        help: &'static str,
        metric: M,
    ) -> M {
        let series = vec![Series { label: None, metric: Box::new(metric.clone()) }];
        self.0.push(ModelFamily { name, help, series });
        metric
    }

    /// Adds a family of one series for each value of a label, and hands these back.
    pub(crate) fn add_by<const N: usize, M: Clone + Default + EncodeMetric + Send + Sync + 'static>(
        &mut self,
        name: &'static str,
        help: &'static str,
        label: &'static str,
        values: [&'static str; N],
    ) -> [M; N] {
        let metrics = values.map(|_| M::default());
        let series = values.iter().zip(&metrics);
        let series = series
            .map(|(value, metric)| Series { label: Some((label, value)), metric: Box::new(metric.clone()) });
        self.0.push(ModelFamily { name, help, series: series.collect() });
        metrics
    }

    /// Number of families.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The name, the description and the type of a family.
    pub(crate) fn describe(&self, family: usize) -> (&'static str, &'static str, MetricType) {
        let ModelFamily { name, help, series } = &self.0[family];
        (name, help, series.first().map_or(MetricType::Unknown, |series| series.metric.metric_type()))
    }

    /// Writes the series of a family for the model with these labels.
    pub(crate) fn encode(
        &self,
        family: usize,
        model: &ModelLabels,
        encoder: &mut MetricEncoder<'_>,
    ) -> Result<(), fmt::Error> {
        self.0[family].series.iter().try_for_each(|series| match series.label {
            None => series.metric.encode(encoder.encode_family(model)?),
            Some(label) => series.metric.encode(encoder.encode_family(&(model.as_slice(), [label]))?),
        })
    }
}
