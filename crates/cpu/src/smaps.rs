//! The kernel's account of a process's memory (proc_pid_smaps(5)).

use std::io::{BufRead, BufReader, Read};

/// What is read of the file at most; a mapping takes less than a kilobyte.
const LIMIT: u64 = 64 << 20;

/// Of the `len` bytes at the address `start`, those that are in transparent huge pages, anonymous ones or a file's.
pub(crate) fn huge_bytes(start: usize, len: usize) -> Option<usize> {
    let file = std::fs::File::open("/proc/self/smaps").ok()?;
    sum(BufReader::new(file.take(LIMIT)), start, len)
}

/// Where a neighbour is in the same mapping, the huge pages are taken to be ours first.
fn sum(smaps: impl BufRead, start: usize, len: usize) -> Option<usize> {
    let end = start.checked_add(len)?;
    let (mut huge, mut ours, mut told) = (0, 0, false);
    for line in smaps.lines() {
        let line = line.ok()?;
        let pages = line.strip_prefix("AnonHugePages:").or_else(|| line.strip_prefix("FilePmdMapped:"));
        if let Some(kib) = pages {
            let kib: usize = kib.trim().trim_end_matches("kB").trim().parse().ok()?;
            let here = kib.saturating_mul(1024).min(ours);
            huge += here;
            told |= ours > 0;
            // A mapping has lines of both kinds: what one counted is not there for the other.
            ours -= here;
        } else if let Some((from, to)) = range(&line) {
            ours = to.min(end).saturating_sub(from.max(start));
        }
    }
    told.then_some(huge)
}

/// `7f0000000000-7f0000200000 rw-p …`: a mapping's head.
fn range(line: &str) -> Option<(usize, usize)> {
    let (from, to) = line.split_once(' ')?.0.split_once('-')?;
    Some((usize::from_str_radix(from, 16).ok()?, usize::from_str_radix(to, 16).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn smaps_are_summed_over_the_mappings_that_are_ours() {
        let smaps = "\
1000-200000 rw-p 00000000 00:00 0 \nRss: 4 kB\nAnonHugePages:      4096 kB\nFilePmdMapped: 0 kB\nVmFlags: rd wr\n\
200000-a00000 rw-p 00000000 00:00 0 \nAnonHugePages:      6144 kB\nFilePmdMapped: 0 kB\n\
a00000-c00000 rw-p 00000000 00:00 0 \nAnonHugePages:         0 kB\nFilePmdMapped: 0 kB\n\
c00000-1000000 r--p 00000000 08:01 77 /m\nAnonHugePages:         0 kB\nFilePmdMapped:      2048 kB\n";
        let sum_of = |start, len| sum(smaps.as_bytes(), start, len);
        assert_eq!(sum_of(0x20_0000, 0xa0_0000), Some(6 << 20));
        assert_eq!(sum_of(0x20_0000, 0x20_0000), Some(2 << 20), "no more than asked for");
        assert_eq!(sum_of(0xa0_0000, 0x20_0000), Some(0));
        assert_eq!(sum_of(0xc0_0000, 0x40_0000), Some(2 << 20), "a file's");
        assert_eq!(sum_of(0x200_0000, 0x1000), None, "not there");
        assert_eq!(sum("1-2 x\nAnonHugePages: much kB\n".as_bytes(), 0, 9), None);
    }
}
