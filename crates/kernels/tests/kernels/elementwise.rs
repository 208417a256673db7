//! Activation functions against their formulas.

use cpu::{Pool, Tier};
use kernels::{Activation, Compute, activate, gated, soft_cap};

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
        for act in [Activation::Silu, Activation::GeluTanh, Activation::Gelu, Activation::Relu] {
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
fn a_value_does_not_depend_on_its_place() {
    for tier in Tier::available() {
        let c = Compute::new(tier, Pool::new(2, None).unwrap());
        let mut many = vec![0.777; 70_001];
        activate(&c, Activation::Silu, &mut many);
        assert!(many.iter().all(|v| *v == many[0]));
    }
}
