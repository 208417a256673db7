//! Check that links between the project's pages lead to files and headings that exist.

use crate::shell::{TaskResult, root};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Pages outside `docs/`.
const OTHER_PAGES: [&str; 6] =
    ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "fuzz/README.md"];

/// Checks every relative link and anchor of all pages.
pub fn check() -> TaskResult {
    let mut pages: Vec<PathBuf> = OTHER_PAGES.iter().map(|name| root().join(name)).collect();
    super::markdown(&root().join("docs"), &mut pages)?;
    pages.push(root().join("docs/cli.md"));
    let mut wrong = Vec::new();
    for page in pages {
        let text = std::fs::read_to_string(&page).map_err(|error| format!("{}: {error}", page.display()))?;
        for (line, target) in targets(&text) {
            if let Some(problem) = problem(&page, &text, &target) {
                let page = page.strip_prefix(root()).unwrap_or(&page);
                wrong.push(format!("{}:{line}: {problem}", page.display()));
            }
        }
    }
    if wrong.is_empty() { Ok(()) } else { Err(format!("links that lead nowhere:\n{}", wrong.join("\n"))) }
}

/// The error in a link of `page`, if any.
fn problem(page: &Path, text: &str, target: &str) -> Option<String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
    let file = page.parent().unwrap_or(page).join(path);
    if !path.is_empty() && !file.exists() {
        return Some(format!("no file `{path}`"));
    }
    let here = path.is_empty();
    if anchor.is_empty() || !(here || path.ends_with(".md")) {
        return None;
    }
    let known =
        if here { anchors(text) } else { anchors(&std::fs::read_to_string(&file).unwrap_or_default()) };
    (!known.contains(anchor)).then(|| format!("no heading for `{target}`"))
}

/// The targets of Markdown links outside code, with their lines from 1.
fn targets(text: &str) -> Vec<(usize, String)> {
    let mut targets = Vec::new();
    for (number, line) in prose(text) {
        // Text in backticks is no link, but a link's text may have backticks.
        let mut rest = line;
        while let Some((_, after)) = rest.split_once("](") {
            let Some((target, after)) = after.split_once(')') else { break };
            targets.push((number, target.split_whitespace().next().unwrap_or_default().to_owned()));
            rest = after;
        }
    }
    targets
}

/// The anchors that GitHub gives the headings of a page.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    for (_, line) in prose(text) {
        if let Some((id, _)) = line.split_once("<a id=\"").and_then(|(_, id)| id.split_once('"')) {
            anchors.insert(id.to_owned());
        }
        if !line.starts_with('#') {
            continue;
        }
        let title = plain(line.trim_start_matches('#').trim());
        let anchor: String = title
            .to_lowercase()
            .chars()
            .filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c))
            .map(|c| if c == ' ' { '-' } else { c })
            .collect();
        let mut numbered = anchor.clone();
        for number in 1.. {
            if anchors.insert(numbered) {
                break;
            }
            numbered = format!("{anchor}-{number}");
        }
    }
    anchors
}

/// A heading's text without the targets of its links.
fn plain(title: &str) -> String {
    let mut parts = title.split("](");
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        plain.push_str(part.split_once(')').map_or(part, |(_, after)| after));
    }
    plain
}

/// The lines outside fenced code, from 1.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut inside = false;
    text.lines().enumerate().filter_map(move |(at, line)| {
        let fence = line.trim_start().starts_with("```");
        inside ^= fence;
        (!inside && !fence).then_some((at + 1, line))
    })
}

#[cfg(test)]
mod tests {
    use super::{anchors, targets};

    #[test]
    fn headings_have_the_anchors_that_github_gives() {
        let known = anchors(
            "# What it costs: `gristmill plan`\n## A, b\n## A, b\n```sh\n# no\n```\n## [x](y.md) --json\n",
        );
        for anchor in ["what-it-costs-gristmill-plan", "a-b", "a-b-1", "x---json"] {
            assert!(known.contains(anchor), "{anchor}: {known:?}");
        }
        assert!(!known.contains("no"));
    }

    #[test]
    fn links_are_found_outside_code() {
        let found = targets("[a](b.md) and [`c`](d.md#e)\n```\n[f](g)\n```\n![h](i.png)\n");
        let found: Vec<&str> = found.iter().map(|(_, target)| target.as_str()).collect();
        assert_eq!(found, ["b.md", "d.md#e", "i.png"]);
    }
}
