//! Tests of the workspace's rules, as stated in ARCHITECTURE.md: dependencies between crates, effects of crates,
//! imports between files, lengths. Lints enforce what they can (`unsafe`, printing); these tests enforce the rest, on
//! the syntax trees of whole files. Further tests compare what is written in several places and must agree: limits,
//! files for deployment, faults and their tests.

#![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

mod crates;
mod cycles;
mod dependencies;
mod deploy;
mod effects;
mod faults;
mod lengths;
mod licences;
mod limits;
mod sources;
mod test_files;
mod workspace;
