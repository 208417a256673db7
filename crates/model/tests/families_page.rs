//! docs/families.md is made from the table of families; `GRISTMILL_BLESS=1` rewrites it.

use model::families::FAMILIES;
use std::path::Path;

#[test]
fn the_page_lists_the_table() {
    let mut page = String::from(
        "# Families of models\n\nMade from the table in `crates/model/src/families/mod.rs`; see [how to add \
         one](contributing-families.md).\n\n| models | GGUF architecture | Hugging Face `architectures` or `model_type` |\n|---|---|---|\n",
    );
    for family in FAMILIES {
        let names: Vec<String> = family.hugging_face.iter().map(|n| format!("`{n}`")).collect();
        let gguf = if family.gguf { format!("`{}`", family.name) } else { "—".to_owned() };
        page += &format!("| {} | {gguf} | {} |\n", family.models, names.join(", "));
    }
    page += "\nRope scalings: linear, llama3, yarn, longrope. Every family is compared with transformers in fp32, from \
             safetensors and,\nwhere a GGUF can say the same, from GGUF: `cargo test -p model`.\n";
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/families.md");
    if std::env::var_os("GRISTMILL_BLESS").is_some() {
        std::fs::write(&path, &page).expect("docs/families.md can be written");
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(written, page, "run: GRISTMILL_BLESS=1 cargo test -p model --test model families_page");
}
