//! Instruction counts of the hot kernels, compared with those recorded in crates/kernels/counts.txt.
//!
//! Time drifts with the machine, by a fifth within the hour; instructions do not. The example `counts` of the crate
//! `kernels` calls one kernel on fixed data under callgrind, once N times and once 2 N times: the difference is the
//! kernel alone, including all functions that it calls. The tier is AVX2, the widest that valgrind supports. For all
//! tiers, the program is searched for intrinsics that were not inlined, and so are called with registers in memory.
//!
//! Counts depend on the compiler, which rust-toolchain.toml does not pin: the file names the one it was written with.
//! With another, a kernel that got worse still fails (users build with that compiler too, and the check would otherwise
//! be off until the file is rewritten), and the message says that the compiler may be the cause; one that got better is
//! only reported.

use crate::shell::{TaskResult, cargo, executables, has, output, parallel_map, root, write_whole};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

const FILE: &str = "crates/kernels/counts.txt";
const TIER: &str = "avx2";
/// Calls of the shorter of two runs; the longer one has twice as many.
const CALLS: u64 = 2;
/// Tolerance of a count: changes of the code's layout move counts by less.
const TOLERANCE_PERCENT: u64 = 2;
/// Environment variables that would override the repository's compiler flags.
const FLAGS: [&str; 3] = ["RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS", "CARGO_BUILD_RUSTFLAGS"];

/// A kernel's instructions for each call, as measured or recorded.
#[derive(Debug, PartialEq)]
struct Count {
    kernel: String,
    /// Multiply-adds, or values, of a call.
    work: u64,
    instructions: u64,
}

/// The contents of the committed file.
#[derive(Debug, PartialEq)]
struct Record {
    compiler: String,
    counts: Vec<Count>,
}

pub fn write() -> TaskResult {
    let valgrind = valgrind()?;
    let record = Record { compiler: compiler()?, counts: measure(&valgrind)? };
    let text = page(&record, &output(Command::new(&valgrind).arg("--version"))?);
    write_whole(&root().join(FILE), &text)?;
    print!("{text}");
    Ok(())
}

pub fn check() -> TaskResult {
    let valgrind = valgrind()?;
    let text = std::fs::read_to_string(root().join(FILE))
        .map_err(|error| format!("{FILE}: {error}; `cargo xtask counts --write` makes it"))?;
    let recorded = read(&text)?;
    let now = Record { compiler: compiler()?, counts: measure(&valgrind)? };
    let (told, wrong) = compare(&recorded, &now);
    print!("{told}");
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}

/// As [`check`], but without valgrind the check is skipped, unless `GRISTMILL_VALGRIND` is set.
pub fn check_where_possible() -> TaskResult {
    match valgrind() {
        Err(missing) if std::env::var_os("GRISTMILL_VALGRIND").is_none() => {
            eprintln!("skipped: {missing}");
            Ok(())
        }
        Err(missing) => Err(missing),
        Ok(_) => check(),
    }
}

fn valgrind() -> Result<PathBuf, String> {
    if cfg!(not(target_arch = "x86_64")) {
        return Err(format!("the counts are of {TIER}, which needs an x86-64 CPU"));
    }
    let path = std::env::var_os("GRISTMILL_VALGRIND").map_or_else(|| "valgrind".into(), PathBuf::from);
    let found = path.to_str().is_some_and(|path| has(path, "--version"));
    if found { Ok(path) } else { Err(format!("no {} (Debian: valgrind)", path.display())) }
}

fn compiler() -> Result<String, String> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    Ok(output(Command::new(rustc).arg("--version").current_dir(root()))?.trim().to_owned())
}

fn measure(valgrind: &Path) -> Result<Vec<Count>, String> {
    let program = build()?;
    let listed = output(&mut Command::new(&program))?;
    let folder = std::env::temp_dir().join(format!("gristmill-counts-{}", std::process::id()));
    std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let lines: Vec<&str> = listed.lines().collect();
    // Instruction counts do not depend on the machine's load.
    let counts = parallel_map(&lines, |line| count(valgrind, &program, line, &folder));
    std::fs::remove_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    counts
}

/// Counts the instructions of one kernel; `line` has its name and the work of a call.
fn count(valgrind: &Path, program: &Path, line: &str, folder: &Path) -> Result<Count, String> {
    let (kernel, work) = line.split_once(' ').ok_or_else(|| format!("`{line}`: no kernel and its work"))?;
    let work = work.parse().map_err(|_| format!("`{line}`: `{work}` is no number"))?;
    eprintln!("{kernel}");
    let all = |calls| instructions(valgrind, program, kernel, calls, folder);
    let (short, long) = (all(CALLS)?, all(2 * CALLS)?);
    let more = long.checked_sub(short).ok_or_else(|| format!("{kernel}: {long} for twice of {short}"))?;
    Ok(Count { kernel: kernel.to_owned(), work, instructions: more / CALLS })
}

/// Builds the example with the repository's flags, as a user would. The development profile has the release's settings
/// for the arithmetic crates, and the build of the workspace's tests has compiled them already.
fn build() -> Result<PathBuf, String> {
    let args = ["build", "--workspace", "--example", "counts", "--locked"];
    let mut command = cargo(&args);
    for name in FLAGS {
        command.env_remove(name);
    }
    // As in CI. With incremental compilation, counts of kernels differ by up to 5 %.
    command.env("CARGO_INCREMENTAL", "0");
    let program = executables(command)?.pop().ok_or_else(|| "cargo built no example `counts`".to_owned())?;
    let symbols = output(Command::new("nm").arg("--demangle").arg(&program))?;
    match calls_of_instructions(&symbols).as_slice() {
        [] => Ok(program),
        found => Err(format!(
            "compiled as functions of their own and called: {}; a closure, or a function that is not `inline(always)`, uses lanes \
             without the tier's instructions (cpu::simd)",
            found.join(", ")
        )),
    }
}

/// Intrinsics of any tier that were not inlined: each is a function of the program instead of an instruction.
fn calls_of_instructions(symbols: &str) -> Vec<&str> {
    let names = symbols.lines().filter_map(|line| line.split_once(" core::core_arch::"));
    // `_xgetbv` is called once, to detect what the system supports.
    names.map(|(_, name)| name).filter(|name| !name.ends_with("::_xgetbv")).collect()
}

/// Total instructions of a run with `calls` calls.
fn instructions(
    valgrind: &Path,
    program: &Path,
    kernel: &str,
    calls: u64,
    folder: &Path,
) -> Result<u64, String> {
    let out = folder.join(format!("{}.out", kernel.replace('/', "-")));
    let mut command = Command::new(valgrind);
    command.args(["--quiet", "--tool=callgrind"]);
    command.arg(format!("--callgrind-out-file={}", out.display()));
    command.arg(program).args([kernel, TIER, &calls.to_string()]);
    output(&mut command)?;
    let text = std::fs::read_to_string(&out).map_err(|error| format!("{}: {error}", out.display()))?;
    let summary = text.lines().find_map(|line| line.strip_prefix("summary: "));
    summary
        .and_then(|count| count.trim().parse().ok())
        .ok_or_else(|| format!("{kernel}: callgrind wrote no `summary:` with a number"))
}

fn page(record: &Record, valgrind: &str) -> String {
    let mut text = format!(
        "# Instructions of the hot kernels: tier {TIER}, one thread. Written by `cargo xtask counts --write`;\n\
         # `cargo xtask counts` fails where a kernel needs {TOLERANCE_PERCENT} % more. See docs/performance.md.\n\
         # A product is named by format and rows of activations (256 x 1024 weights); `each` is a multiply-add, or a\n\
         # value for `quantize`, `gated`, `activated`, the norms and `rope`.\n\
         # compiler: {}\n\
         # counted by: {}\n",
        record.compiler,
        valgrind.trim()
    );
    let _ = writeln!(text, "{:<20} {:>12} {:>14} {:>10}", "# kernel", "a call", "work of a call", "each");
    for count in &record.counts {
        let each = count.instructions as f64 / count.work as f64;
        let _ =
            writeln!(text, "{:<20} {:>12} {:>14} {each:>10.4}", count.kernel, count.instructions, count.work);
    }
    text
}

fn read(text: &str) -> Result<Record, String> {
    let compiler = text.lines().find_map(|line| line.strip_prefix("# compiler: "));
    let compiler = compiler.ok_or_else(|| format!("{FILE}: no line `# compiler: …`"))?.to_owned();
    let lines = text.lines().enumerate().filter(|(_, line)| !line.starts_with('#') && !line.is_empty());
    let counts = lines.map(|(at, line)| {
        let mut words = line.split_whitespace();
        let mut next = || words.next().ok_or_else(|| format!("{FILE}:{}: `{line}` is cut short", at + 1));
        let kernel = next()?.to_owned();
        let mut number = || {
            let word = next()?;
            word.parse().map_err(|_| format!("{FILE}:{}: `{word}` is no count", at + 1))
        };
        let (instructions, work) = (number()?, number()?);
        Ok(Count { kernel, work, instructions })
    });
    Ok(Record { compiler, counts: counts.collect::<Result<_, String>>()? })
}

/// The report, a line for each kernel, and the failures.
fn compare(recorded: &Record, now: &Record) -> (String, Vec<String>) {
    let (mut told, mut wrong) = (String::new(), Vec::new());
    let same_compiler = recorded.compiler == now.compiler;
    for count in &now.counts {
        let name = &count.kernel;
        let Some(old) = recorded.counts.iter().find(|old| old.kernel == *name && old.work == count.work)
        else {
            wrong.push(format!(
                "{name}: not recorded with {} of work; run `cargo xtask counts --write`",
                count.work
            ));
            continue;
        };
        let change = count.instructions as f64 / old.instructions.max(1) as f64 - 1.0;
        let figures = format!(
            "recorded {}, measured {} ({:+.1} %)",
            old.instructions,
            count.instructions,
            change * 100.0
        );
        let _ = writeln!(told, "{name:<20} {figures}");
        let limit = old.instructions * (100 + TOLERANCE_PERCENT) / 100;
        let better = old.instructions * (100 - TOLERANCE_PERCENT) / 100;
        if count.instructions > limit {
            wrong.push(format!(
                "{name}: {figures}, limit {limit}; if it must be, `cargo xtask counts --write`"
            ));
        } else if count.instructions < better && same_compiler {
            wrong.push(format!("{name}: {figures}: better, so record it: `cargo xtask counts --write`"));
        }
    }
    for old in recorded.counts.iter().filter(|old| !now.counts.iter().any(|count| count.kernel == old.kernel))
    {
        wrong.push(format!(
            "{}: recorded, but no such kernel is measured; run `cargo xtask counts --write`",
            old.kernel
        ));
    }
    if !same_compiler {
        let note = format!("recorded with {}, measured with {}", recorded.compiler, now.compiler);
        let _ = writeln!(told, "{note}");
        if !wrong.is_empty() {
            wrong.push(format!("{note}: it may be the compiler"));
        }
    }
    (told, wrong)
}

#[cfg(test)]
mod tests {
    use super::{Count, Record, calls_of_instructions, compare, page, read};

    fn record(compiler: &str, instructions: u64) -> Record {
        let count = |kernel: &str, instructions| Count { kernel: kernel.to_owned(), work: 100, instructions };
        Record { compiler: compiler.to_owned(), counts: vec![count("a/1", instructions), count("b", 500)] }
    }

    #[test]
    fn the_file_says_what_was_measured() {
        let one = record("rustc 1.2.3 (abc 2026-01-01)", 1000);
        assert_eq!(read(&page(&one, "valgrind-3.0\n")), Ok(one));
        assert!(read("a 1 2").unwrap_err().contains("compiler"));
        assert!(read("# compiler: x\na 1").unwrap_err().contains("counts.txt:2"));
        assert!(read("# compiler: x\na many 1").unwrap_err().contains("`many`"));
    }

    #[test]
    fn two_percent_more_fails_and_less_wants_to_be_recorded() {
        let old = record("x", 1000);
        assert!(compare(&old, &record("x", 1020)).1.is_empty());
        assert!(compare(&old, &record("x", 980)).1.is_empty());
        let (_, wrong) = compare(&old, &record("x", 1021));
        assert!(wrong[0].contains("a/1: recorded 1000, measured 1021 (+2.1 %), limit 1020"), "{wrong:?}");
        let (_, wrong) = compare(&old, &record("x", 979));
        assert!(wrong[0].contains("--write"), "{wrong:?}");
    }

    #[test]
    fn with_another_compiler_only_worse_fails() {
        let old = record("x", 1000);
        let (told, wrong) = compare(&old, &record("y", 900));
        assert!(told.contains("recorded with x, measured with y") && wrong.is_empty());
        let (_, wrong) = compare(&old, &record("y", 1100));
        assert!(wrong.last().is_some_and(|last| last.contains("may be the compiler")), "{wrong:?}");
    }

    #[test]
    fn kernels_on_one_side_only_fail() {
        let (old, mut now) = (record("x", 1000), record("x", 1000));
        now.counts.remove(0);
        assert!(compare(&old, &now).1[0].contains("no such kernel"));
        assert!(compare(&now, &old).1[0].contains("not recorded"));
    }

    #[test]
    fn an_intrinsic_that_is_called_is_found() {
        let symbols = "0000000000001000 t core::core_arch::x86::xsave::_xgetbv\n\
                       0000000000002000 t core::core_arch::x86::avx::_mm256_mul_ps\n\
                       0000000000003000 T kernels::matmul::matmul\n";
        assert_eq!(calls_of_instructions(symbols), ["x86::avx::_mm256_mul_ps"]);
    }
}
