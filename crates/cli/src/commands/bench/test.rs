//! The tests, named as llama-bench names them.

use std::fmt;

use crate::Failure;

/// One test: prompts computed, tokens generated, or both mixed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Test {
    /// Prompt tokens a stream.
    pub(super) prompt: usize,
    /// Generated tokens a stream.
    pub(super) generate: usize,
    /// Tokens that each stream holds before.
    pub(super) depth: usize,
    /// Streams that run together.
    pub(super) streams: usize,
}

/// `pp512`, `tg128`, `tg128 x4`, `pp128+tg128 x4`, each perhaps with ` @ d4096`.
impl fmt::Display for Test {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.prompt, self.generate) {
            (prompt, 0) => write!(f, "pp{prompt}")?,
            (0, generate) => write!(f, "tg{generate}")?,
            (prompt, generate) => write!(f, "pp{prompt}+tg{generate}")?,
        }
        if self.streams > 1 {
            write!(f, " x{}", self.streams)?;
        }
        if self.depth > 0 {
            write!(f, " @ d{}", self.depth)?;
        }
        Ok(())
    }
}

impl Test {
    /// Tokens that a stream holds at its end.
    pub(super) fn context(&self) -> usize {
        self.depth + self.prompt + self.generate
    }

    /// Tokens of all streams, prompt and generated.
    pub(super) fn tokens(&self) -> usize {
        self.streams * (self.prompt + self.generate)
    }

    /// What touches all that the test will: the prompts whole, then one token.
    pub(super) fn warm_up(&self) -> Test {
        Test { generate: self.generate.min(1), ..*self }
    }
}

/// Every test that the flags ask for, in the order in which they run. One stream: prompts and generation apart.
/// Several: generation, and both mixed.
///
/// # Errors
/// A flag that leaves nothing to do, or no stream.
pub(super) fn list(
    prompts: &[usize],
    generates: &[usize],
    streams: &[usize],
    depths: &[usize],
) -> Result<Vec<Test>, Failure> {
    const MOST: usize = 1 << 24;
    for (flag, values, least, most) in [
        ("--prompt", prompts, 0, MOST),
        ("--gen", generates, 0, MOST),
        ("--depth", depths, 0, MOST),
        ("--streams", streams, 1, 1024),
    ] {
        if let Some(value) = values.iter().find(|value| !(least..=most).contains(*value)) {
            return Err(Failure::usage(format!("{flag} {value} is outside {least}..={most}")));
        }
    }
    let mut tests = Vec::new();
    for (&depth, &streams) in depths.iter().flat_map(|depth| streams.iter().map(move |b| (depth, b))) {
        let mut add = |prompt, generate| {
            let test = Test { prompt, generate, depth, streams };
            if prompt + generate > 0 && !tests.contains(&test) {
                tests.push(test);
            }
        };
        if streams == 1 {
            prompts.iter().for_each(|&prompt| add(prompt, 0));
        }
        generates.iter().for_each(|&generate| add(0, generate));
        let both = prompts.iter().flat_map(|&p| generates.iter().map(move |&g| (p, g)));
        both.filter(|&(p, g)| streams > 1 && p > 0 && g > 0).for_each(|(p, g)| add(p, g));
    }
    if tests.is_empty() {
        return Err(Failure::usage("nothing to measure: --prompt and --gen are both 0"));
    }
    Ok(tests)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(prompts: &[usize], generates: &[usize], streams: &[usize], depths: &[usize]) -> Vec<String> {
        list(prompts, generates, streams, depths).unwrap().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn names_are_those_of_llama_bench() {
        assert_eq!(names(&[512], &[128], &[1], &[0]), ["pp512", "tg128"]);
        assert_eq!(names(&[512], &[0], &[1], &[0, 512]), ["pp512", "pp512 @ d512"]);
        assert_eq!(names(&[128], &[64], &[1, 4], &[0]), ["pp128", "tg64", "tg64 x4", "pp128+tg64 x4"]);
        assert_eq!(names(&[0], &[16, 16], &[8], &[32]), ["tg16 x8 @ d32"]);
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_its_value() {
        let refused = |result: Result<Vec<Test>, Failure>| result.unwrap_err().message;
        assert_eq!(
            refused(list(&[0], &[0], &[1], &[0])),
            "nothing to measure: --prompt and --gen are both 0"
        );
        assert_eq!(refused(list(&[1], &[1], &[0], &[0])), "--streams 0 is outside 1..=1024");
    }
}
