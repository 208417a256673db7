//! The program `gristmill`, built for a task.

use crate::shell::{cargo, executables};
use std::path::PathBuf;
use std::process::Command;

/// A development build of `gristmill`, in which only the arithmetic crates are optimized.
pub struct Program(PathBuf);

impl Program {
    /// Builds the program without the tests, but with their features: naming one test with the program makes cargo
    /// unify features over the whole workspace, so that nothing is compiled twice.
    pub fn alone() -> Result<Program, String> {
        let selected = ["--workspace", "--bin", "gristmill", "--test", "rules"];
        Program::of(&[&["build", "--locked", "--quiet"], &selected[..]].concat())
    }

    /// Builds the program with the tests of all crates. Cargo compiles a package once for each set of features, which
    /// depends on the other packages of the build; so if the tests run anyway, both share this build.
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

    /// The command of the program with these arguments.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.0);
        command.args(args).current_dir(crate::shell::root());
        command
    }
}
