//! Precision and recall on labelled texts, beside Presidio's on the same texts.
//!
//! `tools/fixtures/privacy.py` makes the texts and Presidio's counts. `ours.json` has the counts of this crate, below which
//! no kind may fall; `GRISTMILL_BLESS=1` rewrites it. With `--nocapture` every miss and every wrong finding is shown, and the
//! table of docs/privacy.md.

use privacy::{Kind, Rules};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// A text and its places: first byte, end, kind.
#[derive(Deserialize)]
struct Line {
    text: String,
    spans: Vec<(usize, usize, String)>,
}

/// Hits, findings that are none, misses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Counts(u32, u32, u32);

/// Counts by kind.
type ByKind = BTreeMap<String, Counts>;

/// Presidio's counts by set of texts and by least score.
#[derive(Deserialize)]
struct Presidio {
    sets: BTreeMap<String, BTreeMap<String, ByKind>>,
}

/// The row that leaves kinds aside.
const ANY: &str = "any";

const SETS: [&str; 2] = ["tuning", "held_out"];

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

fn read<T: serde::de::DeserializeOwned>(name: &str) -> T {
    serde_json::from_slice(&std::fs::read(fixture(name)).unwrap()).unwrap()
}

/// Whether a finding is a span's: at least half of both together is common to both.
fn same(span: &Range<usize>, found: &Range<usize>) -> bool {
    let common = span.end.min(found.end).saturating_sub(span.start.max(found.start));
    common * 2 >= span.end.max(found.end) - span.start.min(found.start)
}

#[allow(clippy::print_stdout, reason = "shown with --nocapture")]
/// Counts by kind, and for the kinds that Presidio knows, whatever the kind.
fn count(rules: &Rules, lines: &[Line], presidio: &ByKind) -> ByKind {
    let names = Kind::ALL.iter().map(|kind| kind.name()).chain([ANY]);
    let mut counts: ByKind = names.map(|name| (name.to_owned(), Counts::default())).collect();
    for line in lines {
        let found = rules.find(&line.text);
        let any = counts.get_mut(ANY).unwrap();
        let touch =
            |span: &(usize, usize, String), range: &Range<usize>| span.0 < range.end && range.start < span.1;
        for span in line.spans.iter().filter(|span| presidio.contains_key(&span.2)) {
            let hit = found.iter().any(|one| touch(span, &one.range));
            *(if hit { &mut any.0 } else { &mut any.2 }) += 1;
        }
        let known = |one: &&privacy::Finding| presidio.contains_key(one.kind.name());
        let apart = |one: &&privacy::Finding| !line.spans.iter().any(|span| touch(span, &one.range));
        any.1 += found.iter().filter(known).filter(apart).count() as u32;
        for (start, end, kind) in &line.spans {
            let hit = found.iter().any(|one| one.kind.name() == kind && same(&(*start..*end), &one.range));
            let counts = counts.get_mut(kind).unwrap();
            if hit {
                counts.0 += 1;
            } else {
                counts.2 += 1;
                println!("missed {kind}: {:?} in {:?}", &line.text[*start..*end], line.text);
            }
        }
        for one in &found {
            let kind = one.kind.name();
            if !line.spans.iter().any(|(start, end, name)| name == kind && same(&(*start..*end), &one.range))
            {
                counts.get_mut(kind).unwrap().1 += 1;
                println!(
                    "wrong {kind} {}: {:?} in {:?}",
                    one.score,
                    &line.text[one.range.clone()],
                    line.text
                );
            }
        }
    }
    counts
}

fn percent(part: u32, rest: u32) -> String {
    if part + rest == 0 {
        "–".to_owned()
    } else {
        format!("{:.0}", 100.0 * f64::from(part) / f64::from(part + rest))
    }
}

fn table(set: &str, ours: &ByKind, presidio: &Presidio) -> String {
    let mut out = format!(
        "\n{set}: precision / recall in percent\n| kind | texts | Gristmill | Presidio, 0.4 | Presidio, all |\n|---|---|---|---|---|\n"
    );
    let cell = |counts: Option<&Counts>| {
        counts.map_or("–".to_owned(), |it| format!("{} / {}", percent(it.0, it.1), percent(it.0, it.2)))
    };
    let [some, all] = ["0.4", "0.0"].map(|least| &presidio.sets[set][least]);
    for kind in Kind::ALL {
        let name = kind.name();
        let mine = ours[name];
        let cells = [cell(Some(&mine)), cell(some.get(name)), cell(all.get(name))].join(" | ");
        writeln!(out, "| `{name}` | {} | {cells} |", mine.0 + mine.2).unwrap();
    }
    let shared = |counts: &ByKind| {
        let known = counts.iter().filter(|(name, _)| *name != ANY && some.contains_key(*name));
        known.fold(Counts::default(), |sum, (_, it)| Counts(sum.0 + it.0, sum.1 + it.1, sum.2 + it.2))
    };
    let sums = [ours, some, all].map(shared);
    let cells = sums.each_ref().map(|sum| cell(Some(sum))).join(" | ");
    writeln!(out, "| kinds of both | {} | {cells} |", sums[0].0 + sums[0].2).unwrap();
    let cells = [ours, some, all].map(|counts| cell(counts.get(ANY))).join(" | ");
    writeln!(out, "| … whatever the kind | {} | {cells} |", sums[0].0 + sums[0].2).unwrap();
    out
}

#[test]
#[allow(clippy::print_stdout, reason = "shown with --nocapture")]
fn no_kind_falls_below_its_counts() {
    let rules = Rules::default();
    let presidio: Presidio = read("presidio.json");
    let mut counts: BTreeMap<String, ByKind> = BTreeMap::new();
    let mut tables = String::new();
    for set in SETS {
        println!("{set}");
        let ours = count(&rules, &read::<Vec<Line>>(&format!("{set}.json")), &presidio.sets[set]["0.4"]);
        tables.push_str(&table(set, &ours, &presidio));
        counts.insert(set.to_owned(), ours);
    }
    println!("{tables}");
    if std::env::var_os("GRISTMILL_BLESS").is_some() {
        std::fs::write(fixture("ours.json"), serde_json::to_string_pretty(&counts).unwrap() + "\n").unwrap();
        return;
    }
    // The page shows the held-out texts: as counted now.
    let page = std::fs::read_to_string(fixture("../../../../docs/privacy.md")).unwrap();
    let rows = tables.split("held_out: ").nth(1).unwrap();
    for row in rows.lines().filter(|line| line.starts_with("| `") || line.starts_with("| … ")) {
        assert!(page.contains(row), "docs/privacy.md lacks {row}");
    }
    let floors: BTreeMap<String, ByKind> = read("ours.json");
    for (set, floors) in &floors {
        for (kind, floor) in floors {
            let now = counts[set][kind];
            assert!(
                now.0 >= floor.0 && now.1 <= floor.1,
                "{set}, {kind}: {now:?} where {floor:?} was reached"
            );
        }
    }
}
