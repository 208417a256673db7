//! Seconds of steps, from the roofline.

use planner::step::{Batch, Roofline};

/// A prompt alone, cut into steps as the engine cuts it, after `depth` positions.
pub(super) fn prefill_seconds(roofline: &Roofline, prompt: usize, chunk: usize, depth: usize) -> f64 {
    let (mut done, mut seconds) = (0, 0.0);
    while done < prompt {
        let rows = (prompt - done).min(chunk);
        seconds += roofline.seconds(&Batch {
            prompt_rows: rows as f64,
            prompt_context: (depth + done) as f64 + rows as f64 / 2.0,
            prompts_ended: f64::from(u8::from(done + rows == prompt)),
            ..Batch::default()
        });
        done += rows;
    }
    seconds
}

/// A step of streams that all see `depth` positions.
pub(super) fn decode_seconds(roofline: &Roofline, streams: u32, depth: usize) -> f64 {
    roofline.seconds(&Batch {
        decode_rows: f64::from(streams),
        decode_context: depth as f64,
        ..Batch::default()
    })
}
