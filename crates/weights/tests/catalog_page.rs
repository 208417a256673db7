//! The table in `docs/store.md` is the catalog's. `GRISTMILL_WRITE_DOCS=1` writes it anew.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use weights::catalog::Catalog;

const BEGIN: &str = "<!-- catalog: generated, see crates/weights/tests/catalog_page.rs -->\n";
const END: &str = "<!-- /catalog -->";

fn table() -> String {
    let mut text = "| name | what | family | kind | licence | size | sources | pinned |\n|---|---|---|---|---|---|---|---|\n".to_owned();
    for entry in &Catalog::embedded().entries {
        let exact = !entry.files.is_empty() && entry.file.is_some();
        let about = if exact { "" } else { "~" };
        let sources: Vec<String> = entry.sources.iter().map(|source| format!("`{source}`")).collect();
        let pinned = if entry.files.is_empty() { "" } else { "yes" };
        text.push_str(&format!(
            "| `{}` | {} | {} | {} | {} | {about}{:.0} MB | {} | {pinned} |\n",
            entry.name,
            entry.description,
            entry.family,
            entry.kind,
            entry.licence,
            entry.size_bytes as f64 / 1e6,
            sources.join("<br>"),
        ));
    }
    text
}

#[test]
fn the_page_lists_the_catalog() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/store.md");
    let page = std::fs::read_to_string(path).unwrap();
    let (head, rest) = page.split_once(BEGIN).expect("the mark of the table's beginning");
    let (old, tail) = rest.split_once(END).expect("the mark of the table's end");
    if std::env::var_os("GRISTMILL_WRITE_DOCS").is_some() {
        std::fs::write(path, format!("{head}{BEGIN}{}{END}{tail}", table())).unwrap();
        return;
    }
    assert_eq!(old, table(), "docs/store.md is behind the catalog; see the end of that page");
}
