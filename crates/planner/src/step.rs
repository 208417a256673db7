//! Roofline model of a step: its time from the model's weights and the machine's measured bandwidth and peaks.
//!
//! A step computes a batch of rows: a decode row of each decoding sequence, and prefill chunks. It reads all weights
//! once and the KV cache of every sequence, multiplies each row by each weight, and does elementwise work (norms, rope,
//! activation quantization) on each row. Memory reads and products overlap in part:
//!
//! `t = (memory^p + products^p)^(1/p) + elementwise + attention`
//!
//! The constants, here and in `kernels.toml`, were fitted once for each kind of CPU, on the shapes and batches that
//! docs/planner-predictions.md names, and are validated there on others.

use serde::{Deserialize, Serialize};
use std::sync::OnceLock;

use crate::error::{Error, positive};

/// Time of the output head's products over that of as many multiply-adds of the body (fitted).
const HEAD_COST_FACTOR: f64 = 1.44;
/// Multiply-adds of attention as a share of the bfloat16 peak, or of the f32 peak without bfloat16.
const ATTENTION_EFFICIENCY: f64 = 0.65;

/// All weights of one format, of the body or of the output head.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WeightGroup {
    /// The format's GGUF name: `Q4_K`.
    pub format: String,
    /// Multiply-adds of one row that uses all weights of the group.
    pub multiply_adds: f64,
    /// Bytes of the weights in memory.
    pub bytes: f64,
    /// Mixture of experts: number of experts, and experts used by a row. None for dense weights.
    pub experts: Option<(f64, f64)>,
}

/// Attention layers with the same window.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct AttentionLayers {
    /// Multiply-adds of one row for each attended position, summed over the layers.
    pub multiply_adds: f64,
    /// Bytes of the KV cache of one position, summed over the layers.
    pub bytes: f64,
    /// Sliding window, in positions; none without one.
    pub window: Option<f64>,
}

/// The work of a model's forward pass.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ModelWork {
    /// Weights of the layers, which every row is multiplied by.
    pub body: Vec<WeightGroup>,
    /// Weights of the output head, which only rows with logits are multiplied by.
    pub head: Vec<WeightGroup>,
    /// Attention over the KV cache.
    pub attention: Vec<AttentionLayers>,
    /// Elements of a row with elementwise work, summed over the layers.
    pub elements: f64,
}

/// A machine's measured bandwidth and peaks, of all compute threads together.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Ceilings {
    /// ISA tier of the kernels.
    pub tier: String,
    /// Read bandwidth of memory, GB/s (1e9 bytes).
    pub read_gb_per_s: f64,
    /// Eight-bit multiply-adds, 1e9 a second.
    pub int8_g_per_s: f64,
    /// bfloat16 multiply-adds, 1e9 a second.
    pub bf16_g_per_s: f64,
    /// f32 multiply-adds, 1e9 a second.
    pub f32_g_per_s: f64,
}

/// The rows of a step.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Batch {
    /// Decode rows, all with logits.
    pub decode_rows: f64,
    /// Mean number of positions that a decode row attends to.
    pub decode_context: f64,
    /// Prefill rows.
    pub prompt_rows: f64,
    /// Mean number of positions that a prefill row attends to.
    pub prompt_context: f64,
    /// Prompts that end in this step, each with one row with logits.
    pub prompts_ended: f64,
}

/// The roofline model of a model on a machine: the time of any step.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Roofline {
    work: ModelWork,
    ceilings: Ceilings,
}

#[derive(Deserialize)]
struct KernelFile {
    rows: Vec<f64>,
    step: Vec<StepConstants>,
    share: Vec<KernelEfficiency>,
}

/// Fitted constants of a step on the CPUs of a tier: `[[step]]` of `kernels.toml`.
#[derive(Deserialize)]
struct StepConstants {
    tier: String,
    /// The exponent `p` of the overlap of memory reads and products: 1 is no overlap, infinity is full overlap.
    overlap: f64,
    /// Bandwidth of reading weights as a share of the measured read bandwidth of long streams.
    read_share: f64,
    /// Elementwise work on an element of a row, in f32 multiply-adds at peak.
    element_cost: f64,
}

impl StepConstants {
    /// The constants of `tier`, or the first ones for tiers without an entry.
    fn of(tier: &str) -> &'static StepConstants {
        let all = &kernels().step;
        all.iter().find(|step| step.tier == tier).unwrap_or(&all[0])
    }
}

/// The share of peak of the kernels of a tier for a format: `[[share]]` of `kernels.toml`.
#[derive(Deserialize)]
struct KernelEfficiency {
    tier: String,
    format: String,
    numbers: String,
    of_peak: Vec<f64>,
    /// Share of peak of prefill rows where another kernel multiplies them (AMX tiles), with at least the last of
    /// `rows`. Fewer rows take as long as that.
    prompts: Option<f64>,
}

fn kernels() -> &'static KernelFile {
    static FILE: OnceLock<KernelFile> = OnceLock::new();
    FILE.get_or_init(|| toml::from_str(include_str!("../kernels.toml")).expect("kernels.toml is tested"))
}

impl Roofline {
    /// The roofline model of `work` on a machine with these `ceilings`.
    ///
    /// # Errors
    /// A ceiling of zero or less, or a format whose kernels were not measured.
    pub fn new(work: ModelWork, ceilings: Ceilings) -> Result<Roofline, Error> {
        for (name, value) in [
            ("read_gb_per_s", ceilings.read_gb_per_s),
            ("int8_g_per_s", ceilings.int8_g_per_s),
            ("bf16_g_per_s", ceilings.bf16_g_per_s),
            ("f32_g_per_s", ceilings.f32_g_per_s),
        ] {
            positive(&format!("machine {name}"), value)?;
        }
        for part in work.body.iter().chain(&work.head) {
            kernel_efficiency(&ceilings.tier, &part.format)?;
        }
        Ok(Roofline { work, ceilings })
    }

    /// Seconds of a step with this batch; 0 for no rows.
    #[must_use]
    pub fn seconds(&self, batch: &Batch) -> f64 {
        let rows = batch.decode_rows + batch.prompt_rows;
        if rows <= 0.0 {
            return 0.0;
        }
        let wanted = batch.decode_rows + batch.prompts_ended;
        let &StepConstants { overlap, read_share, element_cost, .. } = StepConstants::of(&self.ceilings.tier);
        let memory = self.bytes(batch) / (read_share * self.ceilings.read_gb_per_s * 1e9);
        let products = self.products(&self.work.body, batch.decode_rows, batch.prompt_rows)
            + HEAD_COST_FACTOR * self.products(&self.work.head, wanted, 0.0);
        let together = (memory.powf(overlap) + products.powf(overlap)).powf(1.0 / overlap);
        let elementwise = rows * self.work.elements * element_cost / (self.ceilings.f32_g_per_s * 1e9);
        together + elementwise + self.attention(batch)
    }

    /// Points of (rows, milliseconds) for [`crate::fleet::StepCost::measured`]: steps of up to `decode_rows` decode
    /// rows, then of up to `prompt_rows` prefill rows, all at `context` positions.
    #[must_use]
    pub fn points(&self, decode_rows: u32, prompt_rows: u32, context: f64) -> Vec<(f64, f64)> {
        let decode = (1..=decode_rows).filter(|rows| rows.is_power_of_two() || *rows == decode_rows);
        let decode = decode.map(|rows| {
            let rows = f64::from(rows);
            (rows, Batch { decode_rows: rows, decode_context: context, ..Batch::default() })
        });
        let prompt =
            [1, 2, 4].map(|part| prompt_rows / part).into_iter().rev().filter(|rows| *rows > decode_rows);
        let prompt = prompt.map(|rows| {
            let rows = f64::from(rows);
            let prompt_context = context / 2.0;
            (rows, Batch { prompt_rows: rows, prompt_context, prompts_ended: 1.0, ..Batch::default() })
        });
        let mut least = 0.0_f64;
        let ms = |(rows, batch): (f64, Batch)| {
            least = least.max(self.seconds(&batch) * 1e3);
            (rows, least)
        };
        decode.chain(prompt).map(ms).collect()
    }

    /// Bytes of weights and KV cache that a step reads.
    #[must_use]
    pub fn bytes(&self, batch: &Batch) -> f64 {
        let rows = batch.decode_rows + batch.prompt_rows;
        let used = |part: &WeightGroup| match part.experts {
            Some(experts) => part.bytes * share_of_experts(experts, rows),
            None => part.bytes,
        };
        let wanted = batch.decode_rows + batch.prompts_ended;
        let head = if wanted > 0.0 { self.work.head.iter().map(used).sum() } else { 0.0 };
        let seen = |context: f64, layers: &AttentionLayers| {
            layers.bytes * layers.window.map_or(context, |window| context.min(window))
        };
        let kv = |layers: &AttentionLayers| {
            // A prefill chunk reads its KV cache once for all its rows.
            let chunk = if batch.prompt_rows > 0.0 { seen(batch.prompt_context, layers) } else { 0.0 };
            batch.decode_rows * seen(batch.decode_context, layers) + chunk
        };
        self.work.body.iter().map(used).sum::<f64>() + head + self.work.attention.iter().map(kv).sum::<f64>()
    }

    fn products(&self, parts: &[WeightGroup], decode: f64, prompts: f64) -> f64 {
        let time = |part: &WeightGroup| {
            let Ok(kernel) = kernel_efficiency(&self.ceilings.tier, &part.format) else { return 0.0 };
            let peak = self.peak(&kernel.numbers) * 1e9;
            let used = part.experts.map_or(1.0, |(count, used)| used / count);
            // Rows are spread over the experts, so each of those that are used multiplies fewer.
            let spread = |rows| part.experts.map_or(1.0, |experts| used / share_of_experts(experts, rows));
            let by = |rows: f64, of_peak: &dyn Fn(f64) -> f64| match rows {
                ..=0.0 => 0.0,
                _ => {
                    let each = if part.experts.is_some() { (rows * spread(rows)).max(1.0) } else { rows };
                    rows * used * part.multiply_adds / (of_peak(each) * peak)
                }
            };
            let together = |rows: f64| efficiency_at(&kernel.of_peak, rows);
            match kernel.prompts {
                Some(of_peak) => {
                    let most = kernels().rows.last().copied().unwrap_or(1.0);
                    by(decode, &together) + by(prompts, &|rows| of_peak * (rows / most).min(1.0))
                }
                None => by(decode + prompts, &together),
            }
        };
        parts.iter().map(time).sum()
    }

    fn attention(&self, batch: &Batch) -> f64 {
        let seen = |layers: &AttentionLayers| {
            let within = |context: f64| layers.window.map_or(context, |window| context.min(window));
            let positions = batch.decode_rows * within(batch.decode_context)
                + batch.prompt_rows * within(batch.prompt_context);
            layers.multiply_adds * positions
        };
        let sum: f64 = self.work.attention.iter().map(seen).sum();
        // Attention runs on vector registers, where bf16 pairs reach about twice the f32 peak. The higher peak of AMX
        // tiles does not apply.
        let peak = self.ceilings.bf16_g_per_s.min(2.2 * self.ceilings.f32_g_per_s);
        sum / (ATTENTION_EFFICIENCY * peak * 1e9)
    }

    fn peak(&self, numbers: &str) -> f64 {
        match numbers {
            "bf16" => self.ceilings.bf16_g_per_s,
            "f32" => self.ceilings.f32_g_per_s,
            _ => self.ceilings.int8_g_per_s,
        }
    }
}

/// The measured kernel of a tier for a format, or an error with the formats that were measured.
fn kernel_efficiency(tier: &str, format: &str) -> Result<&'static KernelEfficiency, Error> {
    let measured =
        |tier: &str| kernels().share.iter().find(|share| share.tier == tier && share.format == format);
    let own = measured(tier);
    // Tiers and formats without a measurement take that of the tier with the same, or the most similar, instructions.
    let tier = match tier {
        "neon" | "scalar" => "avx2",
        "amx-fp16" => "amx",
        other => other,
    };
    own.or_else(|| measured(tier)).ok_or_else(|| {
        let known = kernels().share.iter().filter(|share| share.tier == tier);
        Error::Unknown {
            field: "model".to_owned(),
            what: "measured kernel",
            name: format!("{format} on {tier}"),
            known: known.map(|share| share.format.as_str()).collect::<Vec<_>>().join(", "),
        }
    })
}

/// The share of peak at a number of rows: interpolated over the logarithm of rows, constant beyond the points.
fn efficiency_at(of_peak: &[f64], rows: f64) -> f64 {
    let points = kernels().rows.iter().copied().zip(of_peak.iter().copied());
    interpolate(points, rows.max(1.0), f64::ln)
}

/// Linear interpolation at `x` between points in ascending order, constant beyond them, with `scale` applied to the x
/// axis. 0 without points.
pub(crate) fn interpolate(
    points: impl IntoIterator<Item = (f64, f64)>,
    x: f64,
    scale: impl Fn(f64) -> f64,
) -> f64 {
    let mut before: Option<(f64, f64)> = None;
    for (at, value) in points {
        match before {
            _ if x == at => return value,
            None if x < at => return value,
            Some((left, low)) if x < at => {
                let part = (scale(x) - scale(left)) / (scale(at) - scale(left));
                return low + part * (value - low);
            }
            _ => before = Some((at, value)),
        }
    }
    before.map_or(0.0, |(_, value)| value)
}

/// The share of a layer's experts that `rows` rows use together, as expected where a router prefers none.
fn share_of_experts((count, used): (f64, f64), rows: f64) -> f64 {
    1.0 - (1.0 - used / count).powf(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A model of `bytes` bytes of Q4_K, without an output head.
    fn model(bytes: f64) -> ModelWork {
        let part =
            WeightGroup { format: "Q4_K".to_owned(), multiply_adds: bytes * 1.78, bytes, experts: None };
        let attention = AttentionLayers { multiply_adds: 1e5, bytes: 1e5, window: None };
        ModelWork { body: vec![part], head: Vec::new(), attention: vec![attention], elements: 1e5 }
    }

    fn machine(read: f64, peak: f64) -> Ceilings {
        Ceilings {
            tier: "avx512".to_owned(),
            read_gb_per_s: read,
            int8_g_per_s: peak,
            bf16_g_per_s: peak / 2.0,
            f32_g_per_s: peak / 4.0,
        }
    }

    fn decode(rows: f64) -> Batch {
        Batch { decode_rows: rows, decode_context: 100.0, ..Batch::default() }
    }

    #[test]
    fn one_row_is_bound_by_memory_and_many_by_the_peak() {
        let slow = Roofline::new(model(1e9), machine(35.0, 460.0)).unwrap();
        let fast = Roofline::new(model(1e9), machine(70.0, 460.0)).unwrap();
        let gain = |rows| slow.seconds(&decode(rows)) / fast.seconds(&decode(rows));
        assert!(gain(1.0) > 1.5 && gain(64.0) < 1.15, "{} {}", gain(1.0), gain(64.0));
        // No step beats its bytes.
        assert!(slow.seconds(&decode(1.0)) > 1e9 / 35e9);
        assert_eq!(slow.seconds(&Batch::default()), 0.0);
    }

    #[test]
    fn more_rows_never_take_less_and_cost_less_each() {
        let roofline = Roofline::new(model(4e8), machine(50.0, 460.0)).unwrap();
        let times: Vec<f64> = (1..=32).map(|rows| roofline.seconds(&decode(f64::from(rows)))).collect();
        assert!(times.windows(2).all(|pair| pair[0] < pair[1]), "{times:?}");
        assert!(times[15] / 16.0 < times[0] / 2.0);
    }

    #[test]
    fn points_can_be_simulated_with() {
        let roofline = Roofline::new(model(4e8), machine(50.0, 460.0)).unwrap();
        let points = roofline.points(8, 256, 500.0);
        let rows: Vec<f64> = points.iter().map(|(rows, _)| *rows).collect();
        assert_eq!(rows, [1.0, 2.0, 4.0, 8.0, 64.0, 128.0, 256.0]);
        assert!(crate::fleet::StepCost::measured(&points).is_ok());
    }

    #[test]
    fn unused_experts_are_neither_read_nor_multiplied() {
        let mut sparse = model(1e9);
        sparse.body[0].experts = Some((64.0, 8.0));
        let roofline = |work| Roofline::new(work, machine(35.0, 460.0)).unwrap();
        let (sparse, dense) = (roofline(sparse), roofline(model(1e9)));
        assert!(sparse.seconds(&decode(1.0)) < dense.seconds(&decode(1.0)) / 4.0);
        assert!((sparse.bytes(&decode(1.0)) - 1e9 / 8.0 - 1e7).abs() < 1.0);
        // Two rows share an eighth of their experts, and 64 leave hardly one unused.
        assert!((sparse.bytes(&decode(2.0)) - 1e9 * 15.0 / 64.0 - 2e7).abs() < 1.0);
        let left_out = 1.0 - sparse.bytes(&decode(64.0)) / dense.bytes(&decode(64.0));
        assert!(left_out > 0.0 && left_out < 1e-3, "{left_out}");
    }

    #[test]
    fn a_window_bounds_what_is_seen() {
        let mut work = model(1e8);
        work.attention[0].window = Some(512.0);
        let roofline = Roofline::new(work, machine(35.0, 460.0)).unwrap();
        let at = |context| Batch { decode_rows: 1.0, decode_context: context, ..Batch::default() };
        assert_eq!(roofline.seconds(&at(512.0)), roofline.seconds(&at(4096.0)));
    }

    #[test]
    fn every_kernel_has_a_share_for_each_number_of_rows() {
        for share in &kernels().share {
            assert_eq!(share.of_peak.len(), kernels().rows.len());
            // A tile's peak is that of sixteen rows, of which one row is one.
            let least = if share.tier == "amx-fp16" { 0.02 / 16.0 } else { 0.02 };
            assert!(share.of_peak.iter().all(|of| (least..1.0).contains(of)), "{}", share.format);
            // Of the peak of registers, which tiles are above.
            assert!(
                share.prompts.is_none_or(|of| share.tier == "amx" && (1.0..3.0).contains(&of)),
                "{}",
                share.format
            );
        }
        assert!(kernel_efficiency("neon", "Q4_K").is_ok());
        for same in kernels().share.iter().filter(|share| share.tier == "avx512") {
            assert!(
                kernels().share.iter().any(|s| s.tier == "amx" && s.format == same.format),
                "{}",
                same.format
            );
        }
        let unknown = kernel_efficiency("avx512", "Q9_Z").err().map(|error| error.to_string()).unwrap();
        assert!(
            unknown.starts_with("model: no measured kernel is called `Q9_Z on avx512`; there are: F32, "),
            "{unknown}"
        );
    }

    #[test]
    fn lines_are_flat_beyond_their_ends() {
        let at = |x| interpolate([(1.0, 10.0), (4.0, 40.0)], x, f64::ln);
        assert_eq!((at(0.5), at(1.0), at(2.0), at(4.0), at(9.0)), (10.0, 10.0, 25.0, 40.0, 40.0));
    }
}
