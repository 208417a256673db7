//! The probe: one detection of the machine, as this process may use it.
//!
//! Everything that sizes threads, pools, caches or queues reads the [`Machine`] found here, so that a container with 4
//! CPUs on a 64-CPU host runs 4 threads. Files under `/proc` and `/sys` are read through a root that tests replace by
//! trees recorded on other machines; CPUID and environment variables are asked in `environment` and `uarch`.
//!
//! Deliberately absent: a second detection. Affinity and quotas can change while a process runs; it is restarted then.

mod cgroup;
mod detect;
pub(crate) mod environment;
mod machine;
mod root;
mod topology;
mod uarch;
mod warnings;

#[cfg(test)]
mod tests;

pub use machine::{Cache, HugePages, Machine, Node, Smt, Warning};
pub use uarch::Uarch;

use environment::Environment;
use root::Root;

/// Detects this machine. Takes a few milliseconds and never fails: what cannot be read is left at its plainest value.
#[must_use]
pub fn detect() -> Machine {
    detect::detect(&Root::at("/"), &Environment::current())
}

/// Every file that [`detect`] reads on this machine, as one text (`== PATH`, then its lines), for a bug report or a test.
#[must_use]
pub fn record() -> String {
    let root = Root::at("/");
    let _ = detect::detect(&root, &Environment::current());
    root.recording()
}
