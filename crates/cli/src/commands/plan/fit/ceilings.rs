//! What a machine can do: measured here, measured elsewhere, or from the table of those that one cannot touch.

use std::path::{Path, PathBuf};

use cpu::measure::{Ceilings as Measuring, Numbers};
use planner::Plan;
use planner::step::Ceilings;
use serde::Serialize;
use serde_json::Value;

use crate::commands::plan::bench_files::read_text;
use crate::{Failure, flags, store, term};

/// Where the machine is.
#[derive(clap::Args, Debug)]
pub(crate) struct Source {
    /// A machine of the table in place of this one; its figures are estimates.
    #[arg(long, value_name = "NAME", help_heading = "Machine", conflicts_with = "measured")]
    machine: Option<String>,

    /// What `gristmill doctor --measure --json` printed on another machine.
    #[arg(long, value_name = "FILE", help_heading = "Machine")]
    measured: Option<PathBuf>,

    #[command(flatten)]
    pub(super) compute: flags::Compute,
}

/// A machine with its ceilings.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Place {
    pub(crate) name: String,
    /// `measured`, or `estimated`.
    pub(crate) how: &'static str,
    pub(crate) threads: usize,
    pub(crate) memory_bytes: u64,
    pub(crate) ceilings: Ceilings,
    /// Of an estimate: when and where its figures were read, and those without a source.
    pub(crate) origin: Option<String>,
}

impl Source {
    /// # Errors
    /// An unknown machine, a file without measurements, or memory that cannot be had for measuring.
    pub(crate) fn place(&self, plan: &Plan) -> Result<Place, Failure> {
        match (&self.machine, &self.measured) {
            (Some(name), _) => from_table(plan, name),
            (None, Some(path)) => from_doctor(path),
            (None, None) => self.here(),
        }
    }

    /// Measures this machine: three seconds.
    pub(crate) fn here(&self) -> Result<Place, Failure> {
        let machine = cpu::probe::detect();
        let (tier, threads) = (self.compute.tier()?, self.compute.threads(&machine)?);
        let mut measuring = Measuring::new(&machine, tier, threads);
        let peak = |numbers| measuring.peak(numbers);
        let (int8, bf16, f32) = (peak(Numbers::Int8), peak(Numbers::Bf16), peak(Numbers::F32));
        let read = measuring.read_gb_per_s();
        let read = read.ok_or_else(|| Failure::new("there is no memory to measure how fast it is read"))?;
        Ok(Place {
            origin: None,
            name: machine.model_name.clone(),
            how: "measured",
            threads,
            memory_bytes: machine.memory_available_bytes.min(machine.memory_limit_bytes),
            ceilings: Ceilings {
                tier: tier.to_string(),
                read_gb_per_s: read,
                int8_g_per_s: int8,
                bf16_g_per_s: bf16,
                f32_g_per_s: f32,
            },
        })
    }
}

fn from_table(plan: &Plan, name: &str) -> Result<Place, Failure> {
    let found = plan.machine("--machine", name)?;
    let int8 = found.int8_g_per_s();
    // 512-bit registers have a product of bfloat16 pairs, and tiles many more at once; elsewhere it is widened to f32.
    let bf16 = match found.tier.as_str() {
        "amx" | "amx-fp16" => 4.0 * int8,
        "avx512" => int8 / 2.0,
        _ => int8 / 4.0,
    };
    let unsure = match found.unverified.join(", ") {
        none if none.is_empty() => String::new(),
        names => format!(" No source for {names}."),
    };
    Ok(Place {
        origin: Some(format!("as of {}: {}.{unsure}", found.date, found.source)),
        name: format!("{name} ({})", found.title),
        how: "estimated",
        threads: found.cores as usize,
        memory_bytes: (found.memory_gib * f64::from(1 << 30)) as u64,
        ceilings: Ceilings {
            tier: found.tier.clone(),
            read_gb_per_s: found.read_gb_per_s(),
            int8_g_per_s: int8,
            bf16_g_per_s: bf16,
            f32_g_per_s: int8 / 4.0,
        },
    })
}

fn from_doctor(path: &Path) -> Result<Place, Failure> {
    let text = read_text(path)?;
    let report: Value = serde_json::from_str(&text)
        .map_err(|error| Failure::new(format!("{} is no JSON: {error}", path.display())))?;
    let lacks = |what: &str| {
        let shown = path.display();
        Failure::new(format!(
            "{shown} has no {what}: it wants what `gristmill doctor --measure --json` prints"
        ))
    };
    let entry = |list: &str, key: &str, is: &str| -> Option<f64> {
        let all = report["measured"][list].as_array()?;
        all.iter().find(|entry| entry[key] == is)?["all_threads"].as_f64()
    };
    let peak = |numbers: &str| {
        entry("peaks", "numbers", numbers).ok_or_else(|| lacks(&format!("peak in {numbers}")))
    };
    let text = |key: &str| report[key].as_str().map(str::to_owned).ok_or_else(|| lacks(key));
    let number = |key: &str| report[key].as_u64().ok_or_else(|| lacks(key));
    Ok(Place {
        origin: None,
        name: text("model_name")?,
        how: "measured",
        threads: number("threads")? as usize,
        memory_bytes: number("memory_available_bytes")?.min(number("memory_limit_bytes")?),
        ceilings: Ceilings {
            tier: text("tier")?,
            read_gb_per_s: entry("bandwidth", "what", "memory")
                .ok_or_else(|| lacks("read bandwidth of memory"))?,
            int8_g_per_s: peak("int8")?,
            bf16_g_per_s: peak("bf16")?,
            f32_g_per_s: peak("f32")?,
        },
    })
}

impl Place {
    /// # Errors
    /// A table's tier that is none.
    pub(crate) fn tier(&self) -> Result<cpu::Tier, Failure> {
        let name = &self.ceilings.tier;
        name.parse().map_err(|_| Failure::new(format!("machine `{}`: no tier is called `{name}`", self.name)))
    }

    pub(super) fn say(&self) -> String {
        let ceilings = &self.ceilings;
        format!(
            "{} on {}, {}: reads {:.1} GB/s, multiplies and adds {:.0} G/s in int8, {:.0} in bf16, {:.0} in f32; {} of \
             memory.",
            ceilings.tier,
            term::number(self.threads, "thread"),
            self.how,
            ceilings.read_gb_per_s,
            ceilings.int8_g_per_s,
            ceilings.bf16_g_per_s,
            ceilings.f32_g_per_s,
            store::size(self.memory_bytes)
        )
    }
}
