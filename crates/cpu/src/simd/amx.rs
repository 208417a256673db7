//! AMX (Sapphire Rapids and later): tile registers and their products, on top of the registers of AVX-512. Of the
//! products, those of bf16 and f16; int8 (`TDPBSSD`) is deliberately absent: docs/lab/amx-tiles.md, decision 23.
//!
//! A tile is up to 16 rows of 64 bytes. `C[m][n] += Σ_k A[m][k] · B[k][n]`, where a row of `A` is a row of activations, a row of
//! `C` its accumulators with 16 rows of weights, and a row of `B` a bf16 pair of consecutive `k` for each of these 16: what
//! a register of [`super::avx512`] holds. The instructions are assembly, since their intrinsics are unstable in the compilers
//! that we build with.
//!
//! Formulas: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 1, chapter 18, and volume 2,
//! `LDTILECFG`, `TDPBF16PS` and `TDPFP16PS`.

use std::arch::asm;
use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::OnceLock;

use super::avx512::Avx512;
use crate::Tier;
use crate::probe::environment;

/// Rows of a tile.
pub const ROWS: usize = 16;

/// Proof that this CPU has AMX for bf16 as well as AVX-512 with VNNI, and that the system lets this process use it.
#[derive(Clone, Copy, Debug)]
pub struct Amx(Avx512<false>);

impl Amx {
    /// The token, if this CPU has the instructions and the system allows them. Asks the system once a process.
    pub fn new() -> Option<Amx> {
        static PERMITTED: OnceLock<bool> = OnceLock::new();
        let avx512 = Avx512::new()?;
        (*PERMITTED.get_or_init(|| missing_features().is_empty() && request_permission()))
            .then_some(Amx(avx512))
    }

    /// The token, if `tier` is an AMX tier and it can be used: also decides whether activations are packed for tiles.
    pub fn for_tier(tier: Tier) -> Option<Amx> {
        if matches!(tier, Tier::Amx | Tier::AmxFp16) { Amx::new() } else { None }
    }

    /// The token of the registers that accompany the tiles, the one that [`super::dispatch`] uses.
    pub fn avx512(self) -> Avx512<false> {
        self.0
    }
}

/// Proof that this CPU has f16 products in AMX tiles and f16 arithmetic in registers (Granite Rapids and later),
/// besides [`Amx`].
#[derive(Clone, Copy, Debug)]
pub struct AmxFp16(Avx512<false, true>);

impl AmxFp16 {
    /// The token, if this CPU has the instructions and the system allows them. Asks the CPU once a process, since CPUID is slow in
    /// virtual machines.
    pub fn new() -> Option<AmxFp16> {
        static HERE: OnceLock<bool> = OnceLock::new();
        Amx::new()?;
        let avx512 = Avx512::new()?;
        HERE.get_or_init(|| missing_fp16_features().is_empty()).then_some(AmxFp16(avx512))
    }

    /// The token, if `tier` is the one that uses it.
    pub fn for_tier(tier: Tier) -> Option<AmxFp16> {
        if tier == Tier::AmxFp16 { AmxFp16::new() } else { None }
    }

    /// The token of the tiles.
    pub fn amx(self) -> Amx {
        Amx(self.0.plain())
    }

    /// The token of the registers that accompany the tiles.
    pub fn avx512(self) -> Avx512<false, true> {
        self.0
    }
}

/// The features of [`AmxFp16`] beyond those of [`Amx`] that this CPU lacks, by their name in `/proc/cpuinfo`.
pub(crate) fn missing_fp16_features() -> Vec<&'static str> {
    let mut lacking = Vec::new();
    if !std::arch::is_x86_feature_detected!("avx512fp16") {
        lacking.push("avx512_fp16");
    }
    if !(cpuid_lists_fp16() || lacking.is_empty() && named_in_environment() && executes_tdpfp16ps()) {
        lacking.push("amx_fp16");
    }
    lacking
}

/// Whether CPUID lists f16 products in tiles.
fn cpuid_lists_fp16() -> bool {
    // Subleaf 1 is there if subleaf 0 says so.
    let there = std::arch::x86_64::__cpuid(0).eax >= 7 && std::arch::x86_64::__cpuid_count(7, 0).eax >= 1;
    there && std::arch::x86_64::__cpuid_count(7, 1).eax >> 21 & 1 == 1
}

/// Whether `GRISTMILL_ISA` names the tier.
fn named_in_environment() -> bool {
    environment::isa().is_some_and(|name| name.parse() == Ok(Tier::AmxFp16))
}

/// Whether the instruction runs, whatever the CPU says: hosts hide features from virtual machines that they may move to an older
/// CPU, and some hide this one from all. Tried in a process of its own, which the system ends if the CPU has no such instruction.
#[cfg(target_os = "linux")]
fn executes_tdpfp16ps() -> bool {
    if Amx::new().is_none() {
        return false;
    }
    // SAFETY: the child does nothing but to compute in registers and to leave: it takes no lock, allocates no memory and never
    // returns, so that it does not matter where other threads were. All calls take numbers or memory of this function.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
            libc::setrlimit(libc::RLIMIT_CORE, &raw const none);
            libc::signal(libc::SIGILL, libc::SIG_DFL);
            configure(ROWS, 64);
            asm!("tdpfp16ps tmm0, tmm4, tmm6", options(nomem, nostack, preserves_flags));
            asm!("tilerelease", options(nomem, nostack, preserves_flags));
            libc::_exit(0);
        }
        let mut status = 0;
        while child > 0 && libc::waitpid(child, &raw mut status, 0) < 0 {
            if std::io::Error::last_os_error().kind() != std::io::ErrorKind::Interrupted {
                return false;
            }
        }
        child > 0 && libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0
    }
}

#[cfg(not(target_os = "linux"))]
fn executes_tdpfp16ps() -> bool {
    false
}

/// The features of AMX that this CPU lacks, by their name in `/proc/cpuinfo`.
pub(crate) fn missing_features() -> Vec<&'static str> {
    let highest = std::arch::x86_64::__cpuid(0).eax;
    let bits = if highest < 7 { 0 } else { std::arch::x86_64::__cpuid_count(7, 0).edx };
    [(22, "amx_bf16"), (24, "amx_tile")]
        .into_iter()
        .filter(|(bit, _)| bits >> bit & 1 == 0)
        .map(|(_, name)| name)
        .collect()
}

/// Requests that the system saves the tiles of this process (Linux: `Documentation/arch/x86/xstate.rst`); whether it will.
#[cfg(target_os = "linux")]
fn request_permission() -> bool {
    const ARCH_REQ_XCOMP_PERM: libc::c_long = 0x1023;
    const XFEATURE_XTILEDATA: libc::c_long = 18;
    // SAFETY: this call takes two integers and touches no memory of ours.
    unsafe { libc::syscall(libc::SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0 }
}

#[cfg(not(target_os = "linux"))]
fn request_permission() -> bool {
    false
}

/// Bytes of a tile of sixteen rows.
const TILE_BYTES: usize = 64 * ROWS;

/// What `LDTILECFG` reads: palette 1, then for each tile bytes in a row and rows.
#[repr(C, align(64))]
struct TileConfig {
    palette: u8,
    start: u8,
    reserved: [u8; 14],
    row_bytes: [u16; 16],
    rows: [u8; 16],
}

/// Configures the tiles of this thread (`LDTILECFG`).
///
/// # Safety
/// The CPU has tiles and the system allows them; at most 16 `rows`, and `width` up to 64.
unsafe fn configure(rows: usize, width: usize) {
    let mut shapes =
        TileConfig { palette: 1, start: 0, reserved: [0; 14], row_bytes: [0; 16], rows: [0; 16] };
    for tile in 0..8 {
        // All of these fit.
        let (bytes, rows) = match tile {
            0..4 => (64, rows),
            4..6 => (width, rows),
            _ => (64, width / 4),
        };
        (shapes.row_bytes[tile], shapes.rows[tile]) = (bytes as u16, rows as u8);
    }
    // SAFETY: the caller's promise; it reads 64 bytes, all of `shapes`, which describe palette 1 within its limits of 16 rows of 64
    // bytes.
    unsafe { asm!("ldtilecfg [{}]", in(reg) &raw const shapes, options(readonly, nostack, preserves_flags)) };
}

thread_local! {
    static CONFIGURED: Cell<bool> = const { Cell::new(false) };
}

/// The eight tiles of this thread: `C` 0 to 3, `A` 0 and 1, `B` 0 and 1. Released when dropped, so that an idle thread has no
/// 8 KiB of state to be switched.
pub struct Tiles {
    rows: usize,
    width: usize,
    not_send: PhantomData<*const ()>,
}

impl Tiles {
    /// Configures the tiles for `rows` rows of activations at a time, `width` bytes of each.
    ///
    /// # Panics
    /// For no or more than 16 rows, for a width that is no multiple of four from 4 to 64, and where this thread has its tiles
    /// already.
    pub fn new(_: Amx, rows: usize, width: usize) -> Tiles {
        assert!((1..=ROWS).contains(&rows), "{rows} rows of a tile of up to {ROWS}");
        assert!((4..=64).contains(&width) && width.is_multiple_of(4), "rows of {width} bytes");
        assert!(!CONFIGURED.replace(true), "a thread has its tiles once");
        // SAFETY: the token vouches for the instruction and the permission of the system; the bounds were just asserted.
        unsafe { configure(rows, width) };
        Tiles { rows, width, not_send: PhantomData }
    }

    /// Rows of activations in a tile.
    #[inline(always)]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// `C = 0`
    #[inline(always)]
    pub fn zero<const C: usize>(&self) {
        const { assert!(C < 4) };
        // SAFETY: while `self` lives the tiles are configured; no memory is touched.
        unsafe { asm!("tilezero tmm{c}", c = const C, options(nomem, nostack, preserves_flags)) };
    }

    /// Loads tile `A` from rows at `x[0]`, `x[step]`, `x[2 * step]` and so on, each `from` bytes after that.
    ///
    /// # Panics
    /// When a row would end outside `x`.
    #[inline(always)]
    pub fn load_a<const A: usize, T: Copy>(&self, x: &[T], step: usize, from: usize) {
        const { assert!(A < 2) };
        let stride = step * size_of::<T>();
        assert!((self.rows - 1) * stride + from + self.width <= size_of_val(x), "a tile beyond its rows");
        // SAFETY: as for `zero`; the rows lie in `x`, as was just asserted, and bytes that are not initialized are read by
        // assembly alone.
        unsafe {
            asm!("tileloadd tmm{a}, [{x} + {stride}*1]", a = const A + 4, x = in(reg) x.as_ptr().cast::<u8>().add(from),
                stride = in(reg) stride, options(readonly, nostack, preserves_flags));
        }
    }

    /// Loads tile `B` from rows of 64 bytes that begin at `w[0]`, `w[step]` and so on, `width / 4` of them.
    ///
    /// # Panics
    /// When a row would end outside `w`.
    #[inline(always)]
    pub fn load_b<const B: usize, T: Copy>(&self, w: &[T], step: usize) {
        const { assert!(B < 2) };
        let stride = step * size_of::<T>();
        assert!((self.width / 4 - 1) * stride + 64 <= size_of_val(w), "a tile beyond its weights");
        // SAFETY: as for `load_a`.
        unsafe {
            asm!("tileloadd tmm{b}, [{w} + {stride}*1]", b = const B + 6, w = in(reg) w.as_ptr(),
                stride = in(reg) stride, options(readonly, nostack, preserves_flags));
        }
    }

    /// Loads tile `C` from rows of sixteen that begin at `x[0]`, `x[step]` and so on.
    ///
    /// # Panics
    /// When a row would end outside `x`.
    #[inline(always)]
    pub fn load_c<const C: usize>(&self, x: &[f32], step: usize) {
        const { assert!(C < 4) };
        assert!((self.rows - 1) * step + 16 <= x.len(), "a tile beyond its sums");
        // SAFETY: as for `load_a`.
        unsafe {
            asm!("tileloadd tmm{c}, [{x} + {stride}*1]", c = const C, x = in(reg) x.as_ptr(),
                stride = in(reg) 4 * step, options(readonly, nostack, preserves_flags));
        }
    }

    /// Stores tile `C` where [`Tiles::load_c`] would read it; what lies between and after its rows is left as it is.
    ///
    /// # Panics
    /// When a row would end outside `out`.
    #[inline(always)]
    pub fn store_c<const C: usize>(&self, out: &mut [f32], step: usize) {
        const { assert!(C < 4) };
        assert!((self.rows - 1) * step + 16 <= out.len(), "a tile beyond its sums");
        // SAFETY: as for `load_a`; whatever the bits, they are floats.
        unsafe {
            asm!("tilestored [{out} + {stride}*1], tmm{c}", c = const C, out = in(reg) out.as_mut_ptr(),
                stride = in(reg) 4 * step, options(nostack, preserves_flags));
        }
    }

    /// Loads tile `A` from rows of 64 bytes, one after the other. They bypass L1 (`tileloaddt1`): activations, read once for each pair of
    /// tiles of weights, would evict these.
    #[inline(always)]
    pub fn load_full_a<const A: usize, T: Copy>(&self, tile: &T) {
        const { assert!(A < 2 && size_of::<T>() == TILE_BYTES) };
        // SAFETY: as for `zero`; no shape has more than sixteen rows of 64 bytes, which the type holds.
        unsafe {
            asm!("tileloaddt1 tmm{a}, [{x} + {stride}*1]", a = const A + 4, x = in(reg) tile, stride = in(reg) 64_usize,
                options(readonly, nostack, preserves_flags));
        }
    }

    /// Loads tile `B` from rows of 64 bytes, one after the other.
    #[inline(always)]
    pub fn load_full_b<const B: usize, T: Copy>(&self, tile: &T) {
        const { assert!(B < 2 && size_of::<T>() == TILE_BYTES) };
        // SAFETY: as for `load_full_a`.
        unsafe {
            asm!("tileloadd tmm{b}, [{x} + {stride}*1]", b = const B + 6, x = in(reg) tile, stride = in(reg) 64_usize,
                options(readonly, nostack, preserves_flags));
        }
    }

    /// Loads tile `C` from consecutive rows.
    #[inline(always)]
    pub fn load_full_c<const C: usize>(&self, sums: &[[f32; 16]; ROWS]) {
        const { assert!(C < 4) };
        // SAFETY: as for `load_full_a`.
        unsafe {
            asm!("tileloadd tmm{c}, [{x} + {stride}*1]", c = const C, x = in(reg) sums, stride = in(reg) 64_usize,
                options(readonly, nostack, preserves_flags));
        }
    }

    /// Stores tile `C` where [`Tiles::load_full_c`] would read it.
    #[inline(always)]
    pub fn store_full_c<const C: usize>(&self, sums: &mut [[f32; 16]; ROWS]) {
        const { assert!(C < 4) };
        // SAFETY: as for `load_full_a`; whatever the bits, they are floats.
        unsafe {
            asm!("tilestored [{x} + {stride}*1], tmm{c}", c = const C, x = in(reg) sums, stride = in(reg) 64_usize,
                options(nostack, preserves_flags));
        }
    }

    /// `C += A · B` of bf16 pairs: the first and the second of each pair are summed apart in `f32`, then both are added to
    /// `C`.
    #[inline(always)]
    pub fn dot_bf16<const C: usize, const A: usize, const B: usize>(&self) {
        const { assert!(C < 4 && A < 2 && B < 2) };
        // SAFETY: as for `zero`; the shapes of `A`, `B` and `C` fit together for every width.
        unsafe {
            asm!("tdpbf16ps tmm{c}, tmm{a}, tmm{b}", c = const C, a = const A + 4, b = const B + 6,
                options(nomem, nostack, preserves_flags));
        }
    }
}

impl Tiles {
    /// [`Tiles::dot_bf16`] of f16 pairs: denormal inputs count, denormal sums become zero.
    #[inline(always)]
    pub fn dot_f16<const C: usize, const A: usize, const B: usize>(&self, _: AmxFp16) {
        const { assert!(C < 4 && A < 2 && B < 2) };
        // SAFETY: as for `dot_bf16`; the token vouches for the instruction.
        unsafe {
            asm!("tdpfp16ps tmm{c}, tmm{a}, tmm{b}", c = const C, a = const A + 4, b = const B + 6,
                options(nomem, nostack, preserves_flags));
        }
    }
}

impl Drop for Tiles {
    fn drop(&mut self) {
        // SAFETY: the token that `self` was made with vouches for the instruction.
        unsafe { asm!("tilerelease", options(nomem, nostack, preserves_flags)) };
        CONFIGURED.set(false);
    }
}

#[cfg(test)]
mod tests;
