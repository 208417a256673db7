//! The number types of tree ensembles.

/// A type of thresholds, features and weights.
pub(crate) trait Real: Copy + PartialOrd + Send + Sync + 'static {
    const ZERO: Self;
    const ONE: Self;
    const INFINITY: Self;
    const NEG_INFINITY: Self;

    /// The largest number below this one.
    fn below(self) -> Self;
    fn nan(self) -> bool;
    fn plus(self, other: Self) -> Self;
    fn times(self, other: Self) -> Self;
    fn over(self, count: usize) -> Self;
    fn to_f32(self) -> f32;
}

macro_rules! real {
    ($t:ident) => {
        impl Real for $t {
            const ZERO: $t = 0.0;
            const ONE: $t = 1.0;
            const INFINITY: $t = $t::INFINITY;
            const NEG_INFINITY: $t = $t::NEG_INFINITY;

            fn below(self) -> $t {
                self.next_down()
            }

            #[inline(always)]
            fn nan(self) -> bool {
                self.is_nan()
            }

            #[inline(always)]
            fn plus(self, other: $t) -> $t {
                self + other
            }

            fn times(self, other: $t) -> $t {
                self * other
            }

            fn over(self, count: usize) -> $t {
                self / count as $t
            }

            fn to_f32(self) -> f32 {
                self as f32
            }
        }
    };
}

real!(f32);
real!(f64);
