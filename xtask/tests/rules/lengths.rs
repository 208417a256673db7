//! Rule: limits of the lines of functions and files, and of parameters and generics. `lengths.txt` holds the number of
//! items beyond each limit. The numbers only get smaller: `GRISTMILL_BLESS=1` rewrites them, and fails for larger ones.
//! `cargo xtask lengths` lists the items.

use crate::sources::leave_out_tests;
use crate::workspace::{packages, root, sources_under};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use syn::spanned::Spanned;
use syn::visit::Visit;

const LIST: &str = "xtask/tests/rules/lengths.txt";

/// The limits: their value, and what they count.
const LIMITS: [(&str, usize); 4] =
    [("lines of a function", 60), ("lines of a file", 500), ("parameters", 8), ("generics", 4)];

/// An item beyond a limit.
struct Long {
    /// Index in [`LIMITS`].
    kind: usize,
    place: String,
    size: usize,
}

struct Functions<'a> {
    file: &'a Path,
    found: Vec<Long>,
}

impl Functions<'_> {
    fn see(&mut self, signature: &syn::Signature, whole: proc_macro2::Span) {
        let types = |p: &&syn::GenericParam| !matches!(p, syn::GenericParam::Lifetime(_));
        let sizes = [
            (0, whole.end().line - signature.fn_token.span.start().line + 1),
            (2, signature.inputs.len()),
            (3, signature.generics.params.iter().filter(types).count()),
        ];
        for (kind, size) in sizes.into_iter().filter(|(kind, size)| *size > LIMITS[*kind].1) {
            let line = signature.fn_token.span.start().line;
            let place = format!("{}:{line} {}", self.file.display(), signature.ident);
            self.found.push(Long { kind, place, size });
        }
    }
}

impl<'a> Visit<'a> for Functions<'_> {
    fn visit_item_fn(&mut self, item: &'a syn::ItemFn) {
        self.see(&item.sig, item.span());
        syn::visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'a syn::ImplItemFn) {
        self.see(&item.sig, item.span());
        syn::visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'a syn::TraitItemFn) {
        self.see(&item.sig, item.span());
        syn::visit::visit_trait_item_fn(self, item);
    }
}

/// All items beyond a limit in the sources, without test code.
fn found() -> Vec<Long> {
    let mut found = Vec::new();
    let files = packages().into_iter().flat_map(|folder| sources_under(&format!("{folder}/src")));
    for file in files.filter(|file| !for_tests(file)) {
        let text = fs::read_to_string(root().join(&file)).expect("a source file");
        let mut syntax = syn::parse_file(&text).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        leave_out_tests(&mut syntax);
        let lines = text.lines().count();
        if lines > LIMITS[1].1 {
            found.push(Long { kind: 1, place: file.display().to_string(), size: lines });
        }
        let mut functions = Functions { file: &file, found: Vec::new() };
        functions.visit_file(&syntax);
        found.append(&mut functions.found);
    }
    found
}

/// Whether a file holds tests, by its name.
fn for_tests(file: &Path) -> bool {
    let stem = file.file_stem().map_or("", |stem| stem.to_str().unwrap_or(""));
    stem == "tests" || stem.ends_with("_tests") || file.components().any(|part| part.as_os_str() == "tests")
}

fn counts(found: &[Long]) -> [usize; 4] {
    std::array::from_fn(|kind| found.iter().filter(|long| long.kind == kind).count())
}

#[test]
fn nothing_more_is_long() {
    let now = counts(&found());
    let text = fs::read_to_string(root().join(LIST)).expect("the numbers");
    let stated = |name: &str| -> usize {
        let line = text.lines().find_map(|line| line.strip_suffix(name)).expect("a line each");
        line.trim().parse().expect("a number")
    };
    let limit = LIMITS.map(|(name, most)| (format!("more than {most} {name}"), name));
    for ((name, _), now) in limit.iter().zip(now) {
        let before = stated(name);
        assert!(now <= before, "{now} have {name}; {before} had: `cargo xtask lengths` names them");
    }
    if std::env::var_os("GRISTMILL_BLESS").is_some() {
        let lines = limit.iter().zip(now).map(|((name, _), now)| format!("{now:4} {name}\n"));
        let text: String = lines.collect();
        fs::write(root().join(LIST), text).expect("the numbers are written");
    }
}

#[test]
#[ignore = "prints what `cargo xtask lengths` shows"]
fn lengths_in_detail() {
    let mut found = found();
    found.sort_by_key(|long| (long.kind, std::cmp::Reverse(long.size)));
    let mut by_crate: BTreeMap<PathBuf, [usize; 4]> = BTreeMap::new();
    for long in &found {
        let folder = long.place.split("/src").next().unwrap_or_default();
        by_crate.entry(folder.into()).or_default()[long.kind] += 1;
        println!("{:5} {}: {}", long.size, LIMITS[long.kind].0, long.place);
    }
    let heads = LIMITS.map(|(name, most)| format!("> {most} {name}"));
    println!("\n{:20} {}", "", heads.join(" | "));
    for (folder, counts) in by_crate {
        println!("{:20} {}", folder.display(), counts.map(|n| n.to_string()).join(" | "));
    }
    println!("{:20} {}", "all", counts(&found).map(|n| n.to_string()).join(" | "));
}
