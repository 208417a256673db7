//! The tables of encoders.

use super::programs::{Peer, Rate, Subject};
use crate::peers::{VariantResult, median};
use std::fmt::Write as _;

/// The word with which cases of one text begin.
const QUERY: &str = "query";

/// The head of a table of the first of `programs` beside the others.
pub fn head(programs: &[Peer<'_>]) -> String {
    let mut head = String::from("| case");
    let mut rule = String::from("\n|---");
    for (at, program) in programs.iter().enumerate() {
        _ = match at {
            0 => write!(head, " | {}", program.name),
            _ => write!(head, " | {0}, best flags | Gristmill / {0}, spread", program.name),
        };
        rule.push_str(if at == 0 { "|---" } else { "|---|---" });
    }
    format!("{head} |{rule}|")
}

/// What was measured of a case.
pub struct Line {
    name: String,
    query: bool,
    /// Gristmill's rate in each round.
    pub ours: Vec<f64>,
    /// The flags and the rates in each round of a peer's settings, by the peer's position.
    theirs: Vec<Vec<(String, Vec<f64>)>>,
}

impl Line {
    pub fn new(subject: &Subject, case: &str) -> Line {
        let name = format!("{}/{case}", subject.model);
        Line { name, query: case.starts_with(QUERY), ours: Vec::new(), theirs: Vec::new() }
    }

    /// Adds a round of the settings of the peer at a position.
    pub fn add(&mut self, at: usize, rates: Vec<Rate>) {
        if self.theirs.len() <= at {
            self.theirs.resize_with(at + 1, Vec::new);
        }
        let Some(settings) = self.theirs.get_mut(at) else { return };
        for (flags, rate) in rates {
            match settings.iter_mut().find(|(known, _)| *known == flags) {
                Some((_, rates)) => rates.push(rate),
                None => settings.push((flags, vec![rate])),
            }
        }
    }

    /// The line of the table; a dash for each peer that cannot run the model.
    pub fn text(&self, peers: &[Peer<'_>]) -> String {
        let mut line = format!("| {} | {} |", self.name, self.shown(median(&mut self.ours.clone())));
        for (at, peer) in peers.iter().enumerate() {
            let settings = self.theirs.get(at).map_or(&[][..], Vec::as_slice);
            let results =
                settings.iter().map(|(flags, rates)| VariantResult::of(&[flags], &self.ours, rates));
            let results: Vec<VariantResult> = results.collect();
            results.iter().for_each(|result| eprintln!("{}: {} {result}", self.name, peer.name));
            _ = match results.iter().max_by(|a, b| a.rate.total_cmp(&b.rate)) {
                Some(best) => {
                    write!(line, " {} (`{}`) | {} |", self.shown(best.rate), best.flags, best.spread())
                }
                None => write!(line, " – | – |"),
            };
        }
        line
    }

    /// A rate as texts a second; of one text, the milliseconds that it takes.
    fn shown(&self, rate: f64) -> String {
        if self.query { format!("{:.2} ms", 1e3 / rate) } else { format!("{rate:.1}") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(case: &str) -> Line {
        Line::new(
            &Subject { model: "m".into(), checkpoint: Default::default(), folder: Default::default() },
            case,
        )
    }

    #[test]
    fn settings_keep_their_rounds_apart() {
        let mut line = line("mix-5-512");
        line.ours = vec![30.0, 60.0];
        for rates in [[10.0, 20.0], [40.0, 15.0]] {
            line.add(1, vec![("a".into(), rates[0]), ("b".into(), rates[1])]);
        }
        assert_eq!(line.theirs[1], [("a".to_owned(), vec![10.0, 40.0]), ("b".to_owned(), vec![20.0, 15.0])]);
        assert!(line.theirs[0].is_empty());
        assert_eq!(line.text(&[]), "| m/mix-5-512 | 60.0 |");
    }

    #[test]
    fn a_query_is_shown_in_milliseconds() {
        let mut line = line("query-16");
        line.ours = vec![500.0];
        assert_eq!(line.text(&[]), "| m/query-16 | 2.00 ms |");
    }
}
