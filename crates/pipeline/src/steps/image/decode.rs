//! PNG and JPEG files as pixels of red, green and blue. Sizes are read from the head and checked before anything is
//! decoded. Transparency is left out, and so is the orientation that a camera noted.

use zune_core::bytestream::ZCursor;
use zune_core::colorspace::ColorSpace;
use zune_core::options::DecoderOptions;
use zune_jpeg::JpegDecoder;
use zune_png::PngDecoder;

use crate::steps::resize::Pixels;

/// Most pixels of an image.
pub(in crate::steps) const MAX_PIXELS: usize = 1 << 24;
/// Longest side of a file's image.
const MAX_FILE_SIDE: usize = 1 << 14;

const PNG: &[u8] = b"\x89PNG\r\n\x1a\n";
const JPEG: &[u8] = b"\xff\xd8\xff";

/// The pixels of a file.
pub(super) fn decode(file: &[u8]) -> Result<Pixels, String> {
    let options = DecoderOptions::default()
        .set_max_width(MAX_FILE_SIDE)
        .set_max_height(MAX_FILE_SIDE)
        .png_set_strip_to_8bit(true)
        .png_set_decode_animated(false)
        .jpeg_set_out_colorspace(ColorSpace::RGB);
    if file.starts_with(PNG) {
        png(file, options).map_err(|why| format!("the PNG file {why}"))
    } else if file.starts_with(JPEG) {
        jpeg(file, options).map_err(|why| format!("the JPEG file {why}"))
    } else {
        Err(format!("{} bytes that are neither a PNG nor a JPEG file", file.len()))
    }
}

fn png(file: &[u8], options: DecoderOptions) -> Result<Pixels, String> {
    let mut decoder = PngDecoder::new_with_options(ZCursor::new(file), options);
    decoder.decode_headers().map_err(|error| format!("is not sound: {error:?}"))?;
    let (width, height) = decoder.dimensions().ok_or("has no size")?;
    check(width, height)?;
    let channels = match decoder.colorspace() {
        Some(ColorSpace::Luma) => 1,
        Some(ColorSpace::LumaA) => 2,
        Some(ColorSpace::RGB) => 3,
        Some(ColorSpace::RGBA) => 4,
        _ => return Err("has colours that are not read".into()),
    };
    let raw = decoder.decode_raw().map_err(|error| format!("is not sound: {error:?}"))?;
    rgb(width, height, channels, &raw)
}

fn jpeg(file: &[u8], options: DecoderOptions) -> Result<Pixels, String> {
    let mut decoder = JpegDecoder::new_with_options(ZCursor::new(file), options);
    decoder.decode_headers().map_err(|error| format!("is not sound: {error}"))?;
    let (width, height) = decoder.dimensions().ok_or("has no size")?;
    check(width, height)?;
    let raw = decoder.decode().map_err(|error| format!("is not sound: {error}"))?;
    let channels = decoder.output_colorspace().map_or(3, |space| space.num_components());
    rgb(width, height, channels, &raw)
}

fn check(width: usize, height: usize) -> Result<(), String> {
    let pixels = width.saturating_mul(height);
    if width == 0 || height == 0 || pixels > MAX_PIXELS {
        return Err(format!("is {width} × {height}; an image has 1 to {MAX_PIXELS} pixels"));
    }
    Ok(())
}

/// Pixels of one to four channels as those of three.
fn rgb(width: usize, height: usize, channels: usize, raw: &[u8]) -> Result<Pixels, String> {
    if Some(raw.len()) != width.checked_mul(height).and_then(|pixels| pixels.checked_mul(channels)) {
        return Err(format!("has {} bytes of {width} × {height} pixels of {channels} channels", raw.len()));
    }
    let data = match channels {
        1 | 2 => raw.chunks_exact(channels).flat_map(|pixel| [pixel[0]; 3]).collect(),
        3 => raw.to_vec(),
        _ => raw.chunks_exact(channels).flat_map(|pixel| [pixel[0], pixel[1], pixel[2]]).collect(),
    };
    Ok(Pixels { width, height, channels: 3, data })
}
