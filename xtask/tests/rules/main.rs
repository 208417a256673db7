//! The rules that the code of the workspace keeps, as ARCHITECTURE.md states them: which crate may depend on which, which effects
//! a crate may have, which files may import each other, how long things may be. Lints hold what lints can (`unsafe`, printing);
//! these tests hold the rest. They read the sources as syntax trees, so they see whole files. Beside them: what is written in
//! several places and must agree (limits, files for deployment, faults and their tests).

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
