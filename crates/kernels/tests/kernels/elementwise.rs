//! Activation functions against their formulas.

use cpu::{Pool, Tier};
use kernels::{Activation, CLAMPED_SWISH_ALPHA, CLAMPED_SWISH_LIMIT, Compute, activate, gated, soft_cap};

/// The error function by its Taylor series, for the test.
fn erf_series(x: f64) -> f64 {
    let (mut term, mut sum) = (x, x);
    for n in 1..200 {
        term *= -x * x / f64::from(n);
        sum += term / f64::from(2 * n + 1);
    }
    sum * 2.0 / std::f64::consts::PI.sqrt()
}

#[test]
fn activations_match_their_formulas_on_every_tier() {
    let x: Vec<f32> = (0..1003).map(|i| (i as f32 - 500.0) * 0.01).collect();
    for tier in Tier::available() {
        let c = Compute::new(tier, Pool::new(2, None).unwrap());
        for act in [
            Activation::Silu,
            Activation::GeluTanh,
            Activation::Gelu,
            Activation::Relu,
            Activation::Relu2,
            Activation::Tanh,
            Activation::Sigmoid,
        ] {
            let mut got = x.clone();
            activate(&c, act, &mut got);
            let mut with_up = x.clone();
            gated(&c, act, &mut with_up, &x);
            for (i, &v) in x.iter().enumerate() {
                let v = f64::from(v);
                let want = match act {
                    Activation::Silu => v / (1.0 + (-v).exp()),
                    Activation::GeluTanh => {
                        let u = (2.0 / std::f64::consts::PI).sqrt() * (v + 0.044715 * v * v * v);
                        v / 2.0 * (1.0 + u.tanh())
                    }
                    Activation::Gelu => v / 2.0 * (1.0 + erf_series(v / 2f64.sqrt())),
                    Activation::Relu => v.max(0.0),
                    Activation::Relu2 => v.max(0.0) * v.max(0.0),
                    Activation::Tanh => v.tanh(),
                    Activation::Sigmoid => 1.0 / (1.0 + (-v).exp()),
                    Activation::ClampedSwish => unreachable!("its gate has a test of its own"),
                };
                assert!((f64::from(got[i]) - want).abs() < 2e-6, "{tier} {act:?}({v}) = {}", got[i]);
                assert_eq!(with_up[i], got[i] * x[i]);
            }
        }
        let mut capped = x.clone();
        soft_cap(&c, &mut capped, 2.0);
        assert!(capped.iter().zip(&x).all(|(c, v)| (c - 2.0 * (v / 2.0).tanh()).abs() < 2e-6));
    }
}

#[test]
fn a_clamped_swish_limits_both_sides_and_hides_no_nan() {
    // Beyond the limit on both sides, which the other factor crosses in the other order.
    let gate: Vec<f32> = (0..1003).map(|i| (i as f32 - 500.0) * 0.03).collect();
    let up: Vec<f32> = (0..1003).map(|i| ((i * 7 % 1003) as f32 - 500.0) * 0.02).collect();
    let (alpha, limit) = (f64::from(CLAMPED_SWISH_ALPHA), f64::from(CLAMPED_SWISH_LIMIT));
    for tier in Tier::available() {
        let c = Compute::new(tier, Pool::new(2, None).unwrap());
        let mut got = gate.clone();
        gated(&c, Activation::ClampedSwish, &mut got, &up);
        for ((got, gate), up) in got.iter().zip(&gate).zip(&up) {
            let gate = f64::from(*gate).min(limit);
            let want = (f64::from(*up).clamp(-limit, limit) + 1.0) * gate / (1.0 + (-alpha * gate).exp());
            assert!((f64::from(*got) - want).abs() < 1e-5, "{tier}: {got}, not {want}");
        }
        let mut broken = [f32::NAN, 1.0, -1e30];
        gated(&c, Activation::ClampedSwish, &mut broken, &[1.0, f32::NAN, 1.0]);
        assert!(broken[0].is_nan() && broken[1].is_nan(), "{tier}: {broken:?}");
        assert!(broken[2].abs() < 1e-6, "{tier}: {}", broken[2]);
    }
}

#[test]
fn gelu_is_that_of_the_error_function() {
    let x: Vec<f32> = (0..20_001).map(|i| (i as f32 - 10_000.0) * 0.0005).collect();
    for tier in Tier::available() {
        let c = Compute::new(tier, Pool::new(1, None).unwrap());
        let mut got = x.clone();
        activate(&c, Activation::Gelu, &mut got);
        for (v, got) in x.iter().map(|v| f64::from(*v)).zip(got) {
            let want = v / 2.0 * (1.0 + erf_series(v / 2f64.sqrt()));
            // The approximation is within 6e-7 of the error function; the rest rounds a few times.
            let off = (f64::from(got) - want).abs();
            assert!(
                off <= v.abs() / 2.0 * (6e-7 + 4.0 * f64::from(f32::EPSILON)),
                "{tier} {v}: {got}, not {want}"
            );
        }
        // That of tanh is off by up to 4.7e-4.
        let mut other = x.clone();
        activate(&c, Activation::GeluTanh, &mut other);
        let mut exact = x.clone();
        activate(&c, Activation::Gelu, &mut exact);
        assert!(other.iter().zip(&exact).any(|(other, exact)| (other - exact).abs() > 4e-4));
    }
}

#[test]
fn tanh_hides_no_nan_and_stays_within_one() {
    for tier in Tier::available() {
        let c = Compute::new(tier, Pool::new(1, None).unwrap());
        let mut x = [f32::NAN, 1e30, -1e30, 100.0, -100.0, 0.0, 0.5];
        activate(&c, Activation::Tanh, &mut x);
        assert!(x[0].is_nan());
        assert_eq!(x[1..6], [1.0, -1.0, 1.0, -1.0, 0.0], "{tier}");
        assert!((x[6] - 0.5f32.tanh()).abs() < 2e-7, "{tier}");
    }
}

#[test]
fn a_value_does_not_depend_on_its_place() {
    for tier in Tier::available() {
        let c = Compute::new(tier, Pool::new(2, None).unwrap());
        let mut many = vec![0.777; 70_001];
        activate(&c, Activation::Silu, &mut many);
        assert!(many.iter().all(|v| *v == many[0]));
    }
}
