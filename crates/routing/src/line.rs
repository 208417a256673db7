//! A regression line whose observations fade, with the line through the origin or the mean where they tell no slope.

/// Decayed sums of a least-squares line `y = base + slope * x`, with base and slope at least 0.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Line {
    n: f64,
    x: f64,
    y: f64,
    xx: f64,
    xy: f64,
}

/// Weight of the sums at the next observation: about fifty observations count.
const DECAY: f64 = 0.98;

impl Line {
    /// Adds an observation; values that are not finite and not negative are left out.
    pub(crate) fn observe(&mut self, x: f64, y: f64) {
        if !((0.0..1e12).contains(&x) && (0.0..1e12).contains(&y)) {
            return;
        }
        for (sum, value) in [
            (&mut self.n, 1.0),
            (&mut self.x, x),
            (&mut self.y, y),
            (&mut self.xx, x * x),
            (&mut self.xy, x * y),
        ] {
            *sum = *sum * DECAY + value;
        }
    }

    /// Effective number of observations.
    pub(crate) fn count(&self) -> f64 {
        self.n
    }

    /// Base and slope. None without observations.
    pub(crate) fn fit(&self) -> Option<(f64, f64)> {
        if self.n < 0.5 {
            return None;
        }
        let spread = self.n * self.xx - self.x * self.x;
        let slope = (self.n * self.xy - self.x * self.y) / spread;
        let base = (self.y - slope * self.x) / self.n;
        // Values of x that differ by less than a tenth tell no slope.
        let is_spread = spread > 0.01 * self.x * self.x && self.n > 2.0;
        match () {
            () if is_spread && slope >= 0.0 && base >= 0.0 => Some((base, slope)),
            // A falling line is noise about the mean.
            () if is_spread && slope < 0.0 => Some((self.y / self.n, 0.0)),
            () if self.xx > 0.0 => Some((0.0, self.xy / self.xx)),
            () => Some((self.y / self.n, 0.0)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn a_noisy_line_is_found_and_followed() {
        let (mut line, mut random) = (Line::default(), Random::new(3));
        assert_eq!(line.fit(), None);
        for (base, slope) in [(0.5, 0.002), (0.1, 0.01)] {
            for _ in 0..500 {
                let x = 1000.0 * random.unit();
                line.observe(x, base + slope * x + 0.1 * (random.unit() - 0.5));
            }
            let (found_base, found_slope) = line.fit().unwrap_or_default();
            assert!((found_base - base).abs() < 0.08, "{found_base}");
            assert!((found_slope / slope - 1.0).abs() < 0.1, "{found_slope}");
        }
        line.observe(f64::NAN, 1.0);
        line.observe(1.0, f64::INFINITY);
        assert!(line.fit().is_some_and(|(base, slope)| base.is_finite() && slope.is_finite()));
    }

    #[test]
    fn equal_points_are_a_line_through_the_origin() {
        let mut line = Line::default();
        (0..9).for_each(|_| line.observe(100.0, 2.0));
        assert_eq!(line.fit().map(|(base, slope)| (base, (slope * 1e6).round())), Some((0.0, 20_000.0)));
        let mut flat = Line::default();
        (0..9).for_each(|_| flat.observe(0.0, 2.0));
        assert!(flat.fit().is_some_and(|(base, slope)| (base - 2.0).abs() < 1e-9 && slope == 0.0));
    }
}
