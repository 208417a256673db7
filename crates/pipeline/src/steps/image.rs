//! `image`: PNG and JPEG files, decoded, in one size, as numbers for a network.

mod decode;

use std::sync::Arc;

use serde::Deserialize;
use toml::Table;
use wire::oip::{Datatype, Tensor, TensorData};

use super::resize::{Filter, Pixels};
use super::table::{one_to_one, options};
use crate::definition::Node;
use crate::files::Files;
use crate::operation::Operation;
use crate::spec::Spec;
use decode::{MAX_PIXELS, decode};

/// Longest side of what an image becomes.
const MAX_SIDE: usize = 4_096;
/// Most images of a request, and pixels of all their files.
const MAX_IMAGES: usize = 64;
const MAX_ALL_PIXELS: usize = 1 << 26;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Fit {
    /// The whole image in the size, whatever its proportions.
    #[default]
    Stretch,
    /// The image fills the size; what is too much at its ends is cut.
    Cover,
    /// The whole image in its proportions, at the upper left; the rest is padded.
    Contain,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Color {
    #[default]
    Rgb,
    Bgr,
    Gray,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
enum Layout {
    #[default]
    #[serde(rename = "NCHW")]
    Nchw,
    #[serde(rename = "NHWC")]
    Nhwc,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Options {
    width: usize,
    height: usize,
    #[serde(default)]
    fit: Fit,
    /// The shorter side before what is too much is cut, for `fit = "cover"`.
    shorter: Option<usize>,
    #[serde(default)]
    pad: u8,
    #[serde(default)]
    filter: Filter,
    #[serde(default)]
    color: Color,
    #[serde(default)]
    layout: Layout,
    datatype: Option<String>,
    scale: Option<f32>,
    mean: Option<Vec<f32>>,
    std: Option<Vec<f32>>,
}

#[derive(Debug)]
struct Image {
    options: Options,
    is_float: bool,
    scale: f32,
    /// The mean of each channel.
    mean: Vec<f32>,
    std: Vec<f32>,
}

pub(super) fn read(table: Table, _: &Files<'_>) -> Result<Node, String> {
    one_to_one(table, "image", |table| {
        Image::new(options(table)?).map(|image| Arc::new(image) as Arc<dyn Operation>)
    })
}

impl Image {
    fn new(options: Options) -> Result<Image, String> {
        for (what, size) in
            [("width", Some(options.width)), ("height", Some(options.height)), ("shorter", options.shorter)]
        {
            if let Some(size) = size.filter(|size| !(1..=MAX_SIDE).contains(size)) {
                return Err(format!("{what} is {size}; it must be 1 to {MAX_SIDE}"));
            }
        }
        match options.shorter {
            Some(_) if options.fit != Fit::Cover => return Err("shorter goes with fit = \"cover\"".into()),
            Some(shorter) if shorter < options.width.min(options.height) => {
                return Err(format!("shorter is {shorter}; it must not be less than width and height"));
            }
            _ => {}
        }
        let is_float = match options.datatype.as_deref() {
            None | Some("FP32") => true,
            Some("UINT8") => false,
            Some(other) => return Err(format!("the datatype is {other:?}; it must be FP32 or UINT8")),
        };
        if !is_float && (options.scale.is_some() || options.mean.is_some() || options.std.is_some()) {
            return Err("scale, mean and std go with the datatype FP32".into());
        }
        let channels = options.color.channels();
        let each = |what: &str, values: &Option<Vec<f32>>, default: f32| match values.as_deref() {
            None => Ok(vec![default; channels]),
            Some([one]) => Ok(vec![*one; channels]),
            Some(values) if values.len() == channels => Ok(values.to_vec()),
            Some(values) => {
                Err(format!("{what} has {} numbers; there are {channels} channels", values.len()))
            }
        };
        let (mean, std) = (each("mean", &options.mean, 0.0)?, each("std", &options.std, 1.0)?);
        let scale = options.scale.unwrap_or(1.0 / 255.0);
        let is_sound = |value: &f32| value.is_finite();
        if !mean.iter().chain(&std).all(is_sound) || !scale.is_finite() || std.contains(&0.0) {
            return Err("scale, mean and std must be finite, and std not 0".into());
        }
        Ok(Image { options, is_float, scale, mean, std })
    }

    /// The image in the step's size.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "sides are bounded")]
    #[expect(clippy::cast_possible_wrap, reason = "sides are bounded")]
    fn fitted(&self, image: &Pixels) -> Result<Pixels, String> {
        let Options { width, height, fit, shorter, pad, filter, .. } = self.options;
        Ok(match fit {
            Fit::Stretch => image.resized(width, height, filter),
            Fit::Contain => {
                let scale = (width as f64 / image.width as f64).min(height as f64 / image.height as f64);
                let side = |side: usize, most: usize| ((side as f64 * scale).round() as usize).clamp(1, most);
                let small = image.resized(side(image.width, width), side(image.height, height), filter);
                small.cropped((0, 0), width, height, pad)
            }
            Fit::Cover => {
                let (wide, high) = match shorter {
                    Some(shorter) => covering(image, shorter),
                    None => {
                        let scale =
                            (width as f64 / image.width as f64).max(height as f64 / image.height as f64);
                        let side =
                            |side: usize, least: usize| ((side as f64 * scale).round() as usize).max(least);
                        (side(image.width, width), side(image.height, height))
                    }
                };
                if wide.saturating_mul(high) > MAX_PIXELS {
                    return Err(format!(
                        "it would be {wide} × {high} pixels; the limit is {MAX_PIXELS} together"
                    ));
                }
                let large = image.resized(wide, high, filter);
                let from = |large: usize, side: usize| half_even(large as isize - side as isize);
                large.cropped((from(large.width, width), from(large.height, height)), width, height, pad)
            }
        })
    }

    fn push(&self, image: &Pixels, out: &mut Vec<u8>) {
        let channels = image.channels;
        let mut push = |pixel: u8, channel: usize| {
            if self.is_float {
                let value = (f32::from(pixel) * self.scale - self.mean[channel]) / self.std[channel];
                out.extend_from_slice(&value.to_le_bytes());
            } else {
                out.push(pixel);
            }
        };
        match self.options.layout {
            Layout::Nhwc => {
                image.data.iter().enumerate().for_each(|(at, pixel)| push(*pixel, at % channels));
            }
            Layout::Nchw => {
                for channel in 0..channels {
                    image.data[channel..].iter().step_by(channels).for_each(|pixel| push(*pixel, channel));
                }
            }
        }
    }
}

impl Color {
    fn channels(self) -> usize {
        if self == Color::Gray { 1 } else { 3 }
    }

    /// The channels of an image of red, green and blue.
    fn of(self, mut image: Pixels) -> Pixels {
        match self {
            Color::Rgb => image,
            Color::Bgr => {
                image.data.as_chunks_mut::<3>().0.iter_mut().for_each(|pixel| pixel.swap(0, 2));
                image
            }
            Color::Gray => {
                // The weights of ITU-R 601-2, as Pillow has them.
                let luma = |[r, g, b]: &[u8; 3]| {
                    let sum =
                        u32::from(*r) * 19_595 + u32::from(*g) * 38_470 + u32::from(*b) * 7_471 + 0x8000;
                    u8::try_from(sum >> 16).unwrap_or(u8::MAX)
                };
                let data = image.data.as_chunks::<3>().0.iter().map(luma).collect();
                Pixels { channels: 1, data, ..image }
            }
        }
    }
}

/// Half of a difference, rounded to even.
fn half_even(difference: isize) -> isize {
    let half = difference.div_euclid(2);
    if difference.rem_euclid(2) == 1 && half.rem_euclid(2) == 1 { half + 1 } else { half }
}

/// The size of an image whose shorter side is so long.
fn covering(image: &Pixels, shorter: usize) -> (usize, usize) {
    let longer = |long: usize, short: usize| shorter * long / short;
    if image.width <= image.height {
        (shorter, longer(image.height, image.width))
    } else {
        (longer(image.width, image.height), shorter)
    }
}

impl Operation for Image {
    fn check(&self, inputs: &[Spec]) -> Result<Vec<Spec>, String> {
        inputs[0].one_of(&[Datatype::Bytes]).map_err(|why| format!("its input {why}"))?;
        let rows = match inputs[0].shape.as_deref() {
            None => -1,
            Some([rows] | [rows, 1 | -1]) => *rows,
            Some(shape) => {
                return Err(format!("its input has {} dimensions; it must be [n] or [n,1]", shape.len()));
            }
        };
        let of = |size: usize| i64::try_from(size).unwrap_or(i64::MAX);
        let Options { width, height, layout, color, .. } = &self.options;
        let (width, height, channels) = (of(*width), of(*height), of(color.channels()));
        let shape = match layout {
            Layout::Nchw => vec![rows, channels, height, width],
            Layout::Nhwc => vec![rows, height, width, channels],
        };
        Ok(vec![Spec::new(if self.is_float { Datatype::Fp32 } else { Datatype::Uint8 }, shape)])
    }

    fn run(&self, inputs: &[&Tensor], stop: &(dyn Fn() -> bool + Sync)) -> Result<Vec<Tensor>, String> {
        let input = inputs[0];
        let TensorData::Strings(files) = &input.data else {
            return Err(format!("{} must be BYTES, an image each", input.described()));
        };
        if !matches!(input.shape[..], [_] | [_, 1]) || files.len() > MAX_IMAGES {
            return Err(format!(
                "{} must have the shape [n] or [n,1], of at most {MAX_IMAGES} images",
                input.described()
            ));
        }
        let Options { width, height, layout, color, .. } = &self.options;
        let channels = color.channels();
        let size = if self.is_float { 4 } else { 1 };
        let bytes = files.len() * width * height * channels * size;
        if bytes > wire::limits::TENSOR_BYTES {
            return Err(format!(
                "{} images would take {bytes} bytes; the limit is {}",
                files.len(),
                wire::limits::TENSOR_BYTES
            ));
        }
        let mut out = Vec::with_capacity(bytes);
        let mut pixels = 0;
        for (at, file) in files.iter().enumerate() {
            if stop() {
                return Err("it was stopped".into());
            }
            let image = decode(file).and_then(|image| {
                pixels += image.width * image.height;
                if pixels > MAX_ALL_PIXELS {
                    return Err(format!(
                        "the images up to it have {pixels} pixels; the limit is {MAX_ALL_PIXELS}"
                    ));
                }
                self.fitted(&color.of(image))
            });
            self.push(&image.map_err(|why| format!("image {at}: {why}"))?, &mut out);
        }
        let shape = match layout {
            Layout::Nchw => vec![files.len(), channels, *height, *width],
            Layout::Nhwc => vec![files.len(), *height, *width, channels],
        };
        let datatype = if self.is_float { Datatype::Fp32 } else { Datatype::Uint8 };
        let tensor = Tensor::raw("", datatype, shape, out.into());
        Ok(vec![tensor.map_err(|why| format!("the images make a tensor that {why}"))?])
    }
}
