//! The rows of which logits are wanted, alone: what is left to compute when the last layer has kept its keys.

use crate::scratch::Scratch;
use crate::spec::Spec;
use kernels::SeqRows;

/// Moves the rows `want` to the front of every buffer that layer `last` and those after it still read.
pub(crate) fn compact(spec: &Spec, last: usize, want: &[usize], scratch: &mut Scratch) {
    let width = spec.width;
    let layer = &spec.layers[last];
    let out_width = layer.mixer.out_width(spec.query_width_of(layer));
    let per_layer = spec.layers.len() * spec.per_layer_width;
    let streams = spec.alt_up.map_or(0, |alt_up| alt_up.streams * width);
    let beside = if scratch.beside.is_empty() { 0 } else { width };
    for (to, &from) in want.iter().enumerate() {
        if to == from {
            continue;
        }
        let moved = |cols: usize| (from * cols..(from + 1) * cols, to * cols);
        let buffers = [
            (&mut scratch.x, width),
            (&mut scratch.h, width),
            (&mut scratch.attention_out, out_width),
            (&mut scratch.per_layer, per_layer),
            (&mut scratch.beside, beside),
            (&mut scratch.streams, streams),
        ];
        for (buffer, cols) in buffers {
            let (range, at) = moved(cols);
            buffer.copy_within(range, at);
        }
        if last + 1 < spec.layers.len() {
            scratch.ropes.iter_mut().for_each(|table| table.copy_row(from, to));
        }
    }
}

/// Appends the rows `want` of `sequences` as they are after [`compact`]: a run of consecutive rows at a time.
pub(crate) fn sequences<'a>(sequences: &[SeqRows<'a>], want: &[usize], out: &mut Vec<SeqRows<'a>>) {
    let mut at = 0;
    for sequence in sequences {
        while let Some(&first) = want.get(at).filter(|&&row| row < sequence.rows.end) {
            let run = want[at..].iter().zip(first..sequence.rows.end).take_while(|(row, next)| *row == next);
            let rows = at..at + run.count();
            at = rows.end;
            let first_position = sequence.first_position + (first - sequence.rows.start);
            out.push(SeqRows { rows, first_position, ..sequence.clone() });
        }
    }
}

/// An empty list with the memory of another one, whose sequences may have been of another batch.
pub(crate) fn emptied<'a>(mut list: Vec<SeqRows<'_>>) -> Vec<SeqRows<'a>> {
    list.clear();
    list.into_iter().map(|_| SeqRows::last(0..0, 0, &[])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wanted_rows_are_runs_of_their_sequences() {
        let (first, second): (&[u32], &[u32]) = (&[4], &[7, 2]);
        let all =
            [SeqRows::last(0..3, 5, first), SeqRows::last(3..4, 0, first), SeqRows::last(4..9, 30, second)];
        let mut runs = Vec::new();
        sequences(&all, &[1, 2, 4, 7, 8], &mut runs);
        let told: Vec<_> =
            runs.iter().map(|run| (run.rows.clone(), run.first_position, run.keys, run.blocks)).collect();
        assert_eq!(told, [(0..2, 6, 8, first), (2..3, 30, 35, second), (3..5, 33, 35, second)]);
    }

    #[test]
    fn an_emptied_list_keeps_its_memory() {
        let mut list = Vec::with_capacity(9);
        list.push(SeqRows::last(0..1, 0, &[3]));
        let memory = list.as_ptr().cast::<u8>();
        let list = emptied(list);
        assert!(list.is_empty() && list.capacity() >= 9);
        assert_eq!(list.as_ptr().cast::<u8>(), memory);
    }
}
