//! AArch64: type-checks the engine and what it stands on, which is where code differs by architecture, and runs the tests
//! of the crates with vector code, on each kind of CPU that the code distinguishes.
//!
//! Needs a standard library for the target, a linker, and (on another machine) an emulator. `rustup target add
//! aarch64-unknown-linux-gnu` installs the first; where rustup cannot download, `.ci/aarch64-toolchain FOLDER` unpacks
//! Debian's compiler and library, and `GRISTMILL_AARCH64=FOLDER` names them. Missing parts are reported, and are an
//! error only if `GRISTMILL_AARCH64` is set, as in CI.

use crate::shell::{TaskResult, call, cargo, has, output};
use std::path::PathBuf;
use std::process::Command;

const TARGET: &str = "aarch64-unknown-linux-gnu";
const LINKER: &str = "aarch64-linux-gnu-gcc";
/// The names under which Debian and others install the emulator.
const EMULATORS: [&str; 2] = ["qemu-aarch64-static", "qemu-aarch64"];

/// The emulated CPUs: one with dotprod and i8mm, one with dotprod only, one with neither. `cpu` chooses the dot-product
/// instruction by these features.
const CPUS: [&str; 3] = ["max", "neoverse-n1", "cortex-a53"];

/// A test that reads gigabytes to measure the machine's bandwidth: it takes a minute in the emulator and tells nothing.
const MEASURING_TEST: &str = "ceilings_are_looked_at_more_than_once";

/// Timeout of the tests of a crate in the emulator, in seconds: many times their usual time. If a test hangs, the
/// runner has named it by then.
const CRATE_SECONDS: &str = "600";

/// Filters of the tests that reach a dot product, in which the emulated CPUs differ.
const DOT_PRODUCTS: [&str; 4] = ["simd::", "matmul::", "activations::", "attention::"];

/// Runs the tests: on the first CPU all of the crates with AArch64 code, on the others those that reach a dot product.
fn run_tests(toolchain: &Toolchain) -> TaskResult {
    let Some(emulator) = toolchain.emulator else {
        return call(&mut toolchain.tests(&["cpu", "tensor", "kernels"]));
    };
    for cpu in CPUS {
        let (packages, selected): (&[&str], &[&str]) = match cpu {
            "max" => (&["cpu", "tensor", "kernels"], &[]),
            _ => (&["cpu", "kernels"], &DOT_PRODUCTS),
        };
        eprintln!("{emulator} -cpu {cpu}: {}", packages.join(", "));
        let runner =
            format!("timeout --foreground {CRATE_SECONDS} {emulator} -cpu {cpu} -L /usr/aarch64-linux-gnu");
        let mut tests = toolchain.tests(packages);
        tests.env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER", runner);
        call(tests.args(["--", "--skip", MEASURING_TEST]).args(selected))?;
    }
    Ok(())
}

pub fn run() -> TaskResult {
    let toolchain = match Toolchain::find() {
        Ok(toolchain) => toolchain,
        Err(missing) if std::env::var_os("GRISTMILL_AARCH64").is_none() => {
            eprintln!("skipped: {missing}");
            return Ok(());
        }
        Err(missing) => return Err(missing),
    };
    call(&mut toolchain.cargo(&["check", "--package", "engine", "--locked", "--quiet", "--target", TARGET]))?;
    if toolchain.emulator.is_none() && cfg!(not(target_arch = "aarch64")) {
        eprintln!("type-checked only: no {}", EMULATORS.join(" or "));
        return Ok(());
    }
    run_tests(&toolchain)
}

/// A compiler for the target.
pub struct Toolchain {
    /// Debian's, unpacked; `None` for rustup's own.
    unpacked: Option<PathBuf>,
    emulator: Option<&'static str>,
}

impl Toolchain {
    fn find() -> Result<Toolchain, String> {
        if !has(LINKER, "--version") {
            return Err(format!("no {LINKER} (Debian: gcc-aarch64-linux-gnu)"));
        }
        let emulator = EMULATORS.into_iter().find(|name| has(name, "--version"));
        if let Some(folder) = std::env::var_os("GRISTMILL_AARCH64").map(PathBuf::from) {
            let library = folder.join("usr/lib/rustlib").join(TARGET);
            if !library.is_dir() {
                return Err(format!(
                    "GRISTMILL_AARCH64: no {}; run .ci/aarch64-toolchain first",
                    library.display()
                ));
            }
            return Ok(Toolchain { unpacked: Some(folder), emulator });
        }
        let sysroot = output(Command::new("rustc").args(["--print", "sysroot"]))?;
        if !PathBuf::from(sysroot.trim()).join("lib/rustlib").join(TARGET).is_dir() {
            return Err(format!("no standard library for {TARGET} (rustup target add {TARGET})"));
        }
        Ok(Toolchain { unpacked: None, emulator })
    }

    /// The command for tests with debug assertions, which Cargo.toml switches off for the arithmetic crates.
    fn tests(&self, packages: &[&str]) -> Command {
        let mut command = self.cargo(&["test", "--locked", "--tests", "--target", TARGET]);
        for package in packages {
            command.args(["--package", package]);
        }
        for package in ["cpu", "tensor", "kernels"] {
            for check in ["debug-assertions", "overflow-checks"] {
                command.args(["--config", &format!("profile.dev.package.{package}.{check}=true")]);
            }
        }
        // Half the time to compile, and the tests are hardly slower in the emulator.
        command.args(["--config", "profile.dev.package.kernels.opt-level=1"]);
        command
    }

    fn cargo(&self, args: &[&str]) -> Command {
        let mut command = cargo(args);
        command.env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", LINKER);
        command.env("CC_aarch64_unknown_linux_gnu", LINKER);
        if let Some(folder) = &self.unpacked {
            // A separate target folder, as two compilers would discard each other's artifacts.
            let base = std::env::var_os("CARGO_TARGET_DIR")
                .map_or_else(|| crate::shell::root().join("target"), PathBuf::from);
            command.env("CARGO_TARGET_DIR", base.join("aarch64"));
            command.env("RUSTC", folder.join("usr/bin/rustc"));
            command.env("LD_LIBRARY_PATH", folder.join("usr/lib/x86_64-linux-gnu"));
        }
        command
    }
}
