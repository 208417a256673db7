//! The program `gristmill`, built for a chore.

use crate::shell::{cargo, executables};
use std::path::PathBuf;
use std::process::Command;

/// A built `gristmill`, without its optimizations but for those of the arithmetic.
pub struct Program(PathBuf);

impl Program {
    /// Built without the tests, but with the features that they are built with: naming one test beside the program makes cargo
    /// unify features over the whole workspace, so nothing is compiled a second time for a chore.
    pub fn alone() -> Result<Program, String> {
        let selected = ["--workspace", "--bin", "gristmill", "--test", "rules"];
        Program::of(&[&["build", "--locked", "--quiet"], &selected[..]].concat())
    }

    /// Built with the tests of all rooms. Cargo compiles a package once for each set of features, which depends on what is
    /// built beside it; so where the tests run anyway, this is the build that they share.
    pub fn with_tests() -> Result<Program, String> {
        Program::of(&["test", "--workspace", "--no-run", "--locked", "--quiet"])
    }

    /// A program from elsewhere.
    pub fn at(path: &str) -> Program {
        Program(PathBuf::from(path))
    }

    fn of(build: &[&str]) -> Result<Program, String> {
        let found = executables(cargo(build))?
            .into_iter()
            .find(|path| path.file_stem().is_some_and(|n| n == "gristmill"));
        found.map(Program).ok_or_else(|| "cargo built no `gristmill`".to_owned())
    }

    /// To be run with these arguments.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.0);
        command.args(args).current_dir(crate::shell::root());
        command
    }
}
