//! Each micro-architecture's tuning on this CPU, whichever it is: what only Zen 4 runs by default is tested wherever its instructions are.

use std::process::Command;

use cpu::{Tier, Uarch};
use kernels::has_pow2_scale;

/// Tests of what tuning changes: the int8 path, register tiles, prefetch.
const TUNED: [&str; 4] = ["matmul::", "activations::", "attention::", "tuning::zen4"];

/// The micro-architecture is found once a process, so the other one's tests run in another.
#[test]
fn the_other_micro_architecture_passes_the_same_tests() {
    if !Tier::Avx512.is_available() {
        return;
    }
    let other = match Uarch::current() {
        Uarch::Zen4 => "generic",
        Uarch::Generic => "zen4",
    };
    let mut command = Command::new(std::env::current_exe().unwrap());
    // What nextest tells a test about itself is not true of the child.
    let out = command.args(TUNED).env("GRISTMILL_UARCH", other).env_remove("NEXTEST").output().unwrap();
    let said = String::from_utf8_lossy(&out.stdout);
    assert!(out.status.success(), "GRISTMILL_UARCH={other}: {said}");
    assert!(!said.contains(" 0 passed"), "{other}: nothing was tested: {said}");
}

/// With `GRISTMILL_UARCH=zen4`, as in the child of the test above, activations have power-of-two scales where the CPU has the bf16
/// dot product.
#[test]
fn zen4_has_power_of_two_scales() {
    let expected = Uarch::current() == Uarch::Zen4 && cpu::simd::has_bf16_dot(Tier::Avx512);
    assert_eq!(has_pow2_scale(Tier::Avx512), expected);
    assert!(!has_pow2_scale(Tier::Avx2));
}
