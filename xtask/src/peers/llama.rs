//! llama.cpp and its fork ik_llama.cpp, on the same GGUF file, with their own benchmarks.

use super::{Bench, CONTEXT_TOKENS, Case, Test, number, parse};
use crate::shell::{call, has, output, output_and_errors};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The Python package whose source distribution contains llama.cpp.
pub const PACKAGE: &str = "llama-cpp-python==0.3.36";

/// The programs to build; for AVX2, all but the last.
const PROGRAMS: [&str; 3] = ["llama-bench", "llama-batched-bench", SERVER];
pub const SERVER: &str = "llama-server";

pub const LLAMA: &[&[&str]] = &[&["--repack", "1"], &["--repack", "0"]];
pub const IK: &[&[&str]] = &[&["-rtr", "0"], &["-rtr", "1"]];

/// The folders with llama.cpp's programs.
pub struct Llama {
    pub folder: PathBuf,
    /// The programs built without AVX-512.
    pub avx2: Option<PathBuf>,
}

/// A folder with llama-bench and llama-batched-bench.
struct Programs<'a>(&'a Path);

impl Bench for Llama {
    fn ready(&self, _: &Case, _: &Path) -> Result<bool, String> {
        Ok(true)
    }

    fn without_avx512(&self) -> bool {
        self.avx2.is_some()
    }

    fn rate(&self, case: &Case, file: &Path, flags: &[&str], threads: &str) -> Result<f64, String> {
        let folder = if case.avx2 { self.avx2.as_ref() } else { Some(&self.folder) };
        let programs = Programs(folder.ok_or("no build without AVX-512")?);
        match case.test {
            Test::Prompt(tokens) => programs.alone(file, flags, threads, (tokens, 0)),
            Test::Decode { steps, streams: 1 } => programs.alone(file, flags, threads, (0, steps)),
            Test::Decode { steps, streams } => programs.together(file, flags, threads, (steps, streams)),
        }
    }
}

impl Programs<'_> {
    fn alone(
        &self,
        file: &Path,
        flags: &[&str],
        threads: &str,
        (prompt, steps): (usize, usize),
    ) -> Result<f64, String> {
        let mut command = self.program("llama-bench");
        command.arg("-m").arg(file).args(["-t", threads, "-r", "1", "-fa", "1", "-o", "json"]).args(flags);
        command.args(["-p", &prompt.to_string(), "-n", &steps.to_string()]);
        number(&parse(&output(&mut command)?)?[0], "avg_ts")
    }

    fn together(
        &self,
        file: &Path,
        flags: &[&str],
        threads: &str,
        (steps, streams): (usize, usize),
    ) -> Result<f64, String> {
        let mut command = self.program("llama-batched-bench");
        command.arg("-m").arg(file).args(["-t", threads, "-c", "4096", "-fa", "on"]);
        // The benchmarks of several streams have other flags, for non-default values only.
        command.args(match *flags {
            ["--repack", "0"] => &["--no-repack"][..],
            ["-rtr", "1"] => &["-rtr"],
            _ => &[],
        });
        command.args([
            "-npp",
            &CONTEXT_TOKENS.to_string(),
            "-ntg",
            &steps.to_string(),
            "-npl",
            &streams.to_string(),
        ]);
        // llama.cpp's prints its table, ik_llama.cpp's logs it.
        generated(&output_and_errors(&mut command)?)
            .ok_or_else(|| "llama-batched-bench reported nothing".into())
    }

    fn program(&self, name: &str) -> Command {
        let mut command = Command::new(self.0.join(name));
        // The programs may write a log into the current folder.
        command.env("LD_LIBRARY_PATH", self.0).current_dir(std::env::temp_dir());
        command
    }
}

/// The commit that llama-bench reports to be built from, if any.
pub fn commit(folder: &Path, file: &Path) -> Option<String> {
    let mut command = Programs(folder).program("llama-bench");
    command.arg("-m").arg(file).args(["-p", "1", "-n", "0", "-r", "1", "-o", "json"]);
    let commit = parse(&output(&mut command).ok()?).ok()?[0]["build_commit"].as_str()?.to_owned();
    (!commit.is_empty() && commit != "unknown").then_some(commit)
}

/// The decode rate (S_TG) in llama-batched-bench's table: `| PP | TG | B | N_KV | T_PP | S_PP | T_TG | S_TG | …`.
fn generated(text: &str) -> Option<f64> {
    text.lines().rev().find_map(|line| {
        let cells: Vec<&str> = line.strip_prefix('|')?.split('|').map(str::trim).collect();
        cells.first()?.parse::<u32>().ok()?;
        cells.get(7)?.parse().ok()
    })
}

/// Builds llama.cpp for this machine, or for AVX2, from the Python package's sources, once.
pub fn build(cache: &Path, avx2: bool) -> Result<PathBuf, String> {
    let build = cache.join(if avx2 { "llama.cpp-avx2" } else { "llama.cpp" });
    let bin = build.join("bin");
    let programs = if avx2 { &PROGRAMS[..2] } else { &PROGRAMS };
    if programs.iter().all(|program| bin.join(program).exists()) {
        return Ok(bin);
    }
    for (tool, arg) in [("cmake", "--version"), ("python3", "--version")] {
        if !has(tool, arg) {
            return Err(format!("{tool} is needed to build llama.cpp; or give --llama DIR"));
        }
    }
    let tree = sources(cache)?;
    let flags = ["-DCMAKE_BUILD_TYPE=Release", "-DLLAMA_CURL=OFF", "-DLLAMA_BUILD_TESTS=OFF"];
    let instructions: &[&str] = match avx2 {
        true => &["-DGGML_NATIVE=OFF", "-DGGML_AVX2=ON", "-DGGML_FMA=ON", "-DGGML_F16C=ON", "-DGGML_BMI2=ON"],
        false => &["-DGGML_NATIVE=ON"],
    };
    call(Command::new("cmake").arg("-S").arg(&tree).arg("-B").arg(&build).args(flags).args(instructions))?;
    // Without a number, make runs all compilers at once, which takes too much memory on many machines.
    let jobs = std::thread::available_parallelism().map_or(1, usize::from).to_string();
    let mut make = Command::new("cmake");
    make.arg("--build").arg(&build).args(["--parallel", &jobs, "--target"]).args(programs);
    call(&mut make)?;
    Ok(bin)
}

/// The folder of llama.cpp's sources, with its converter, from the Python package; downloaded once.
pub fn sources(cache: &Path) -> Result<PathBuf, String> {
    let sources = cache.join("sources");
    let tree = sources.join("llama_cpp_python-0.3.36/vendor/llama.cpp");
    if tree.exists() {
        return Ok(tree);
    }
    std::fs::create_dir_all(&sources).map_err(|error| format!("{}: {error}", sources.display()))?;
    // Only this package from source; its build tools may be prebuilt.
    let pip = ["-m", "pip", "download", "--no-deps", "--no-binary", "llama-cpp-python", PACKAGE, "--dest"];
    call(Command::new("python3").args(pip).arg(&sources))?;
    let archive = sources.join("llama_cpp_python-0.3.36.tar.gz");
    call(Command::new("tar").arg("xzf").arg(&archive).arg("-C").arg(&sources))?;
    Ok(tree)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_a_batched_bench_is_read() {
        let table = "x\n|    PP |     TG |\n|-------|--------|\n|   128 |    32 |    4 |    640 |    1.5 |   341.3 |    0.7 |   182.86 | 1 | 2 |\n\n";
        assert_eq!(generated(table), Some(182.86));
        assert_eq!(generated("| nothing |"), None);
    }
}
