//! Images of other sizes: separable filters with as many taps as the image shrinks, in whole numbers.
//!
//! The arithmetic is that of Pillow's `Image.resize`: coefficients of 22 bits, each pass rounded to eight bits. So results
//! are equal to Pillow's, pixel by pixel, or one level apart where it takes the two passes in the other order.

use serde::Deserialize;

/// An image of eight bits a channel, `[height, width, channels]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pixels {
    pub(crate) width: usize,
    pub(crate) height: usize,
    pub(crate) channels: usize,
    pub(crate) data: Vec<u8>,
}

/// How pixels between pixels are made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Filter {
    Nearest,
    Box,
    #[default]
    Bilinear,
    Bicubic,
    Lanczos,
}

/// Bits of a coefficient's fraction.
const PRECISION: u32 = 32 - 8 - 2;

impl Filter {
    /// How far the filter reaches, in pixels of the smaller image.
    fn support(self) -> f64 {
        match self {
            Filter::Nearest => 0.0,
            Filter::Box => 0.5,
            Filter::Bilinear => 1.0,
            Filter::Bicubic => 2.0,
            Filter::Lanczos => 3.0,
        }
    }

    fn weight(self, x: f64) -> f64 {
        /// The parameter of the cubic filter.
        const A: f64 = -0.5;
        let sinc = |x: f64| {
            if x == 0.0 {
                1.0
            } else {
                let x = x * std::f64::consts::PI;
                x.sin() / x
            }
        };
        match self {
            Filter::Nearest => 0.0,
            Filter::Box => f64::from(x > -0.5 && x <= 0.5),
            Filter::Bilinear => (1.0 - x.abs()).max(0.0),
            Filter::Bicubic => match x.abs() {
                x if x < 1.0 => ((A + 2.0) * x - (A + 3.0)) * x * x + 1.0,
                x if x < 2.0 => (((x - 5.0) * x + 8.0) * x - 4.0) * A,
                _ => 0.0,
            },
            Filter::Lanczos if (-3.0..3.0).contains(&x) => sinc(x) * sinc(x / 3.0),
            Filter::Lanczos => 0.0,
        }
    }
}

/// The pixels that make one pixel: the first of them, and their coefficients.
struct Taps {
    first: usize,
    weights: Vec<i32>,
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "bounded by the size of an image"
)]
fn taps(from: usize, to: usize, filter: Filter) -> Vec<Taps> {
    let scale = from as f64 / to as f64;
    let stretch = scale.max(1.0);
    let support = filter.support() * stretch;
    let one = |at: usize| {
        let center = (at as f64 + 0.5) * scale;
        let first = (center - support + 0.5).max(0.0) as usize;
        let last = ((center + support + 0.5).max(0.0) as usize).min(from);
        let weight = |x: usize| filter.weight((x as f64 - center + 0.5) * (1.0 / stretch));
        let weights: Vec<f64> = (first..last).map(weight).collect();
        let sum: f64 = weights.iter().sum();
        let fixed = |weight: f64| {
            let weight = if sum == 0.0 { weight } else { weight / sum } * f64::from(1 << PRECISION);
            (if weight < 0.0 { weight - 0.5 } else { weight + 0.5 }) as i32
        };
        Taps { first, weights: weights.into_iter().map(fixed).collect() }
    };
    (0..to).map(one).collect()
}

fn clip(sum: i32) -> u8 {
    u8::try_from((sum >> PRECISION).clamp(0, 255)).unwrap_or(u8::MAX)
}

impl Pixels {
    /// The image in another size.
    pub(super) fn resized(&self, width: usize, height: usize, filter: Filter) -> Pixels {
        if filter == Filter::Nearest {
            return self.nearest(width, height);
        }
        // The smaller image is the one between the passes, as far as that is plain.
        if width > self.width && height < self.height {
            return self.columns(height, filter).rows(width, filter);
        }
        let wide = if width == self.width { self.clone() } else { self.rows(width, filter) };
        if height == self.height { wide } else { wide.columns(height, filter) }
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "bounded by the size of an image"
    )]
    fn nearest(&self, width: usize, height: usize) -> Pixels {
        let place = |at: usize, from: usize, to: usize| {
            (((at as f64 + 0.5) * (from as f64 / to as f64)) as usize).min(from - 1)
        };
        let mut data = Vec::with_capacity(width * height * self.channels);
        for y in (0..height).map(|y| place(y, self.height, height)) {
            for x in (0..width).map(|x| place(x, self.width, width)) {
                let at = (y * self.width + x) * self.channels;
                data.extend_from_slice(&self.data[at..at + self.channels]);
            }
        }
        Pixels { width, height, channels: self.channels, data }
    }

    /// Another width.
    fn rows(&self, width: usize, filter: Filter) -> Pixels {
        let taps = taps(self.width, width, filter);
        let channels = self.channels;
        let mut data = Vec::with_capacity(width * self.height * channels);
        for row in self.data.chunks_exact(self.width * channels) {
            for Taps { first, weights } in &taps {
                for channel in 0..channels {
                    let pixels = row[first * channels + channel..].iter().step_by(channels);
                    let terms = pixels.zip(weights).map(|(pixel, weight)| i32::from(*pixel) * weight);
                    data.push(clip(terms.fold(1 << (PRECISION - 1), i32::wrapping_add)));
                }
            }
        }
        Pixels { width, height: self.height, channels, data }
    }

    /// Another height.
    fn columns(&self, height: usize, filter: Filter) -> Pixels {
        let row = self.width * self.channels;
        let mut data = Vec::with_capacity(height * row);
        let mut sums = vec![0_i32; row];
        for Taps { first, weights } in taps(self.height, height, filter) {
            sums.fill(1 << (PRECISION - 1));
            for (pixels, weight) in self.data[first * row..].chunks_exact(row).zip(&weights) {
                for (sum, pixel) in sums.iter_mut().zip(pixels) {
                    *sum = sum.wrapping_add(i32::from(*pixel) * weight);
                }
            }
            data.extend(sums.iter().map(|sum| clip(*sum)));
        }
        Pixels { width: self.width, height, channels: self.channels, data }
    }

    /// A part of the image, from a corner that may lie outside; what is outside has the value `pad`.
    pub(super) fn cropped(&self, from: (isize, isize), width: usize, height: usize, pad: u8) -> Pixels {
        let mut data = vec![pad; width * height * self.channels];
        let inside = |at: usize, from: isize, size: usize| {
            from.checked_add_unsigned(at).and_then(|at| usize::try_from(at).ok()).filter(|at| *at < size)
        };
        for y in 0..height {
            let Some(their_y) = inside(y, from.1, self.height) else { continue };
            for x in 0..width {
                let Some(their_x) = inside(x, from.0, self.width) else { continue };
                let theirs = (their_y * self.width + their_x) * self.channels;
                let ours = (y * width + x) * self.channels;
                data[ours..ours + self.channels].copy_from_slice(&self.data[theirs..theirs + self.channels]);
            }
        }
        Pixels { width, height, channels: self.channels, data }
    }
}
