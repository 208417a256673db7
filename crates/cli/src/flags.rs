//! Flags that several commands share, each spelled once.

#![allow(dead_code, reason = "shared flags: which commands read them changes with the commands")]

use crate::Failure;

/// Which instructions and how many threads to compute with. `#[command(flatten)]` it into a command's `Args`.
#[derive(clap::Args, Clone, Debug, Default)]
pub(crate) struct Compute {
    /// Instruction tier: scalar, avx2, avx512 or neon [default: the best this machine has].
    #[arg(long, value_name = "TIER", env = "GRISTMILL_ISA", help_heading = "Machine")]
    pub(crate) isa: Option<cpu::Tier>,

    /// Compute threads [default: the CPUs this process may use, its quota rounded down].
    #[arg(long, short = 't', value_name = "N", env = "GRISTMILL_THREADS", help_heading = "Machine")]
    pub(crate) threads: Option<usize>,
}

impl Compute {
    /// The tier to use: the flag (or `GRISTMILL_ISA`) if this machine has it, else the best there is.
    ///
    /// # Errors
    /// A tier that this machine lacks, with the list of those it has.
    pub(crate) fn tier(&self) -> Result<cpu::Tier, Failure> {
        let Some(asked) = self.isa else { return Ok(cpu::Tier::best()) };
        let available = cpu::Tier::available();
        if available.contains(&asked) {
            return Ok(asked);
        }
        let names: Vec<String> = available.iter().map(ToString::to_string).collect();
        Err(Failure::usage(format!("this machine lacks --isa {asked}; it has: {}", names.join(", "))))
    }

    /// The number of compute threads: the flag, else what the probe allows.
    ///
    /// # Errors
    /// Zero, or more than 1024.
    pub(crate) fn threads(&self, machine: &cpu::probe::Machine) -> Result<usize, Failure> {
        match self.threads {
            None => Ok(machine.threads),
            Some(n) if (1..=1024).contains(&n) => Ok(n),
            Some(n) => Err(Failure::usage(format!("--threads {n} is outside 1..=1024"))),
        }
    }
}
