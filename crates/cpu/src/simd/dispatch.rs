//! Choosing the token of a tier at run time.

#[cfg(target_arch = "aarch64")]
use super::neon;
use super::scalar;
use super::traits::{DotKind, Job, Simd};
#[cfg(target_arch = "x86_64")]
use super::{amx, avx2, avx512};
use crate::Tier;
#[cfg(target_arch = "x86_64")]
use crate::Uarch;

/// Runs `job` with the token of `tier`, or with the scalar one when this CPU lacks the tier.
#[inline]
pub fn dispatch<J: Job>(tier: Tier, job: J) -> J::Out {
    dispatch_in_unit::<J, J>(tier, job)
}

/// As [`dispatch`], compiled in the codegen unit of the type `U`, see [`Simd::call_in_unit`].
pub fn dispatch_in_unit<U, J: Job>(tier: Tier, job: J) -> J::Out {
    match tier {
        #[cfg(target_arch = "x86_64")]
        Tier::Avx512 | Tier::Amx | Tier::AmxFp16 => {
            // CPUs with AMX take two cycles for `vdpbf16ps` (Sapphire Rapids, measured): as long as for four FMAs.
            if const { matches!(J::DOT_KIND, DotKind::Bf16) }
                && tier == Tier::Avx512
                && let Some(s) = avx512::Avx512::<true>::new()
            {
                return match Uarch::current() {
                    Uarch::Zen4 => s.for_zen4().call_in_unit::<U, J>(job),
                    Uarch::Generic => s.call_in_unit::<U, J>(job),
                };
            }
            if let Some(s) = avx512::Avx512::<false>::new() {
                if const { matches!(J::DOT_KIND, DotKind::Int8) } && Uarch::current() == Uarch::Zen4 {
                    return s.for_zen4().call_in_unit::<U, J>(job);
                }
                return s.call_in_unit::<U, J>(job);
            }
        }
        #[cfg(target_arch = "x86_64")]
        Tier::Avx2 => {
            if let Some(s) = avx2::Avx2::new() {
                return s.call_in_unit::<U, J>(job);
            }
        }
        #[cfg(target_arch = "aarch64")]
        Tier::Neon => {
            if const { matches!(J::DOT_KIND, DotKind::Int8) } {
                if let Some(s) = neon::Neon::<true, true>::new() {
                    return s.call_in_unit::<U, J>(job);
                }
                if let Some(s) = neon::Neon::<true, false>::new() {
                    return s.call_in_unit::<U, J>(job);
                }
            }
            if let Some(s) = neon::Neon::<false, false>::new() {
                return s.call_in_unit::<U, J>(job);
            }
        }
        Tier::Scalar => {}
        // Tiers of other architectures. No catch-all: a new tier must not run as scalar unnoticed.
        #[cfg(not(target_arch = "x86_64"))]
        Tier::Avx2 | Tier::Avx512 | Tier::Amx | Tier::AmxFp16 => {}
        #[cfg(not(target_arch = "aarch64"))]
        Tier::Neon => {}
    }
    scalar::Scalar.call_in_unit::<U, J>(job)
}

/// As [`dispatch_in_unit`], with the token for Zen 4 that has the bf16 dot product.
///
/// # Errors
/// The job, where `tier` has no such token on this CPU.
pub fn dispatch_zen4_bf16_in_unit<U, J: Job>(tier: Tier, job: J) -> Result<J::Out, J> {
    #[cfg(target_arch = "x86_64")]
    if tier == Tier::Avx512
        && Uarch::current() == Uarch::Zen4
        && let Some(s) = avx512::Avx512::<true>::new()
    {
        return Ok(s.for_zen4().call_in_unit::<U, J>(job));
    }
    let _ = tier;
    Err(job)
}

/// Whether [`dispatch_zen4_bf16_in_unit`] runs jobs of `tier` on this CPU.
pub fn has_zen4_bf16(tier: Tier) -> bool {
    struct Nothing;
    impl Job for Nothing {
        type Out = ();
        #[inline(always)]
        fn run<S: Simd>(self, _: S) {}
    }
    dispatch_zen4_bf16_in_unit::<Nothing, _>(tier, Nothing).is_ok()
}

/// `LANES` of the token that [`dispatch`] uses for `tier` on this CPU: the register width in floats.
pub fn lanes(tier: Tier) -> usize {
    struct Lanes;
    impl Job for Lanes {
        type Out = usize;
        #[inline(always)]
        fn run<S: Simd>(self, _: S) -> usize {
            S::LANES
        }
    }
    dispatch(tier, Lanes)
}

/// Whether `tier` has AMX tiles that can be used here, [`amx::Tiles`].
pub fn has_tiles(tier: Tier) -> bool {
    #[cfg(target_arch = "x86_64")]
    return amx::Amx::for_tier(tier).is_some();
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = tier;
        false
    }
}

/// Whether `tier` has AMX tiles of f16 that can be used here.
pub fn has_f16_tiles(tier: Tier) -> bool {
    #[cfg(target_arch = "x86_64")]
    return amx::AmxFp16::for_tier(tier).is_some();
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = tier;
        false
    }
}

/// Whether [`dispatch`] on `tier` has a bf16 dot product for jobs that want one.
pub fn has_bf16_dot(tier: Tier) -> bool {
    struct HasBf16Dot;
    impl Job for HasBf16Dot {
        type Out = bool;
        const DOT_KIND: DotKind = DotKind::Bf16;
        #[inline(always)]
        fn run<S: Simd>(self, _: S) -> bool {
            S::BF16_DOT
        }
    }
    dispatch(tier, HasBf16Dot)
}

/// The instructions with which [`dispatch`] on `tier` multiplies bytes on this CPU.
pub fn int8_instructions(tier: Tier) -> &'static str {
    struct Int8;
    impl Job for Int8 {
        type Out = &'static str;
        const DOT_KIND: DotKind = DotKind::Int8;
        #[inline(always)]
        fn run<S: Simd>(self, _: S) -> &'static str {
            S::INT8
        }
    }
    dispatch(tier, Int8)
}
