//! A package's sources as a tree of modules, and the paths in their code. Paths are resolved as far as the rules need:
//! through imports, re-exports and `super`, not through types.

use crate::workspace::{root, sources_under};
use proc_macro2::{Delimiter, TokenStream, TokenTree};
use quote::ToTokens;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use syn::visit_mut::VisitMut;

/// The modules of one root file (`lib.rs`, `main.rs`) and of all files that it declares.
pub struct Tree {
    /// Path from the project's root.
    pub files: Vec<PathBuf>,
    /// The root module first; parents before their children.
    pub modules: Vec<Module>,
}

/// A module, without its tests.
#[derive(Default)]
pub struct Module {
    pub file: usize,
    parent: Option<usize>,
    children: BTreeMap<String, usize>,
    imports: Vec<Import>,
    /// The names that the module defines.
    items: BTreeSet<String>,
    tokens: Vec<Token>,
}

/// A name that `use` imports into a module.
struct Import {
    /// The imported name; `*` for a glob import.
    name: String,
    path: Vec<String>,
    exported: bool,
    line: usize,
}

/// A token that is not whitespace or a comment.
pub struct Token {
    pub text: String,
    pub line: usize,
}

/// A path in the code, with its first name resolved.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Clone)]
pub struct Named {
    pub line: usize,
    pub path: Vec<String>,
    /// Whether the path is in the package; its names then start at the root module. Otherwise the first name is another
    /// package's.
    pub inside: bool,
}

impl Tree {
    /// The tree of a root file, from the project's root.
    pub fn read(file: &Path) -> Tree {
        let mut tree = Tree { files: Vec::new(), modules: Vec::new() };
        let folder = file.parent().expect("a file in a folder").to_owned();
        tree.file(file, &folder, None);
        tree
    }

    fn file(&mut self, file: &Path, children: &Path, parent: Option<usize>) -> usize {
        let text =
            fs::read_to_string(root().join(file)).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        let mut syntax = syn::parse_file(&text).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        WithoutTests.visit_file_mut(&mut syntax);
        self.files.push(file.to_owned());
        self.module(syntax.items, self.files.len() - 1, children, parent)
    }

    /// Adds a module of these items; the files of its child modules are in the folder `children`.
    fn module(
        &mut self,
        items: Vec<syn::Item>,
        file: usize,
        children: &Path,
        parent: Option<usize>,
    ) -> usize {
        let mut imports = Imports::default();
        let (modules, mut rest): (Vec<syn::Item>, Vec<syn::Item>) =
            items.into_iter().partition(|item| matches!(item, syn::Item::Mod(_)));
        rest.iter_mut().for_each(|item| imports.visit_item_mut(item));
        rest.retain(|item| match item {
            syn::Item::Use(item) => {
                imports.add(item);
                false
            }
            _ => true,
        });
        let mut tokens = Vec::new();
        rest.iter().for_each(|item| flatten(item.to_token_stream(), &mut tokens));
        let items = rest.iter().filter_map(name_of).collect();
        self.modules.push(Module { file, parent, imports: imports.0, items, tokens, ..Module::default() });
        let this = self.modules.len() - 1;
        for item in modules {
            let syn::Item::Mod(item) = item else { continue };
            let name = plain(&item.ident);
            let folder = children.join(&name);
            let child = match item.content {
                Some((_, items)) => self.module(items, file, &folder, Some(this)),
                None => {
                    let stated = stated_path(&item.attrs)
                        .map(|path| self.files[file].parent().expect("a file in a folder").join(path));
                    let beside = children.join(format!("{name}.rs"));
                    let inside = folder.join("mod.rs");
                    let found = [stated, Some(beside), Some(inside)]
                        .into_iter()
                        .flatten()
                        .find(|path| root().join(path).is_file())
                        .unwrap_or_else(|| {
                            panic!("{}: no file of module {name}", self.files[file].display())
                        });
                    self.file(&found, &folder, Some(this))
                }
            };
            self.modules[this].children.insert(name, child);
        }
        this
    }

    /// The paths of a module: its imports, and those in its code.
    pub fn named(&self, module: usize) -> Vec<Named> {
        let this = &self.modules[module];
        let imported = this.imports.iter().filter_map(|import| {
            // What is only passed on is not used; whoever uses it is seen to.
            let used = !import.exported;
            used.then(|| self.absolute(module, &import.path, import.line)).flatten()
        });
        let coded = paths(&this.tokens).into_iter().filter_map(|path| {
            let single = path.names.len() == 1;
            let import = this.imports.iter().find(|import| import.name == path.names[0]);
            let child = this.children.contains_key(&path.names[0]);
            // A name alone means something here if it is imported; a local variable may share it.
            let known = path.leading || !single || child || import.is_some_and(|_| path.is_item());
            known.then(|| self.absolute_of(module, &path)).flatten()
        });
        let from_globs = paths(&this.tokens).into_iter().filter_map(|path| {
            let first = &path.names[0];
            let here = this.items.contains(first)
                || this.children.contains_key(first)
                || this.imports.iter().any(|import| import.name == *first);
            if path.leading || here || !path.is_item() {
                return None;
            }
            this.imports.iter().filter(|import| import.name == "*").find_map(|import| {
                let glob = self.absolute(module, &import.path, path.line)?;
                let target = self.module_at(&glob)?;
                self.modules[target].knows(first).then(|| Named {
                    line: path.line,
                    path: [glob.path.as_slice(), &path.names].concat(),
                    inside: true,
                })
            })
        });
        imported.chain(coded).chain(from_globs).collect()
    }

    /// The file that defines the item of a path in the package; `None` if the path names a module only.
    pub fn defined_in(&self, named: &Named) -> Option<usize> {
        if named.inside { self.find(0, &named.path, 0) } else { None }
    }

    fn find(&self, module: usize, names: &[String], depth: usize) -> Option<usize> {
        let (first, rest) = names.split_first()?;
        let this = &self.modules[module];
        if this.items.contains(first) && (rest.is_empty() || !this.children.contains_key(first)) {
            return Some(this.file);
        }
        if let Some(child) = this.children.get(first) {
            return self.find(*child, rest, depth);
        }
        // A re-export in a circle ends here.
        if depth > 8 {
            return None;
        }
        if let Some(import) = this.imports.iter().find(|import| import.name == *first) {
            let path: Vec<String> = import.path.iter().chain(rest).cloned().collect();
            let named = self.absolute(module, &path, import.line)?;
            return if named.inside { self.find(0, &named.path, depth + 1) } else { None };
        }
        this.imports.iter().filter(|import| import.name == "*").find_map(|import| {
            let glob = self.absolute(module, &import.path, import.line)?;
            let target = self.module_at(&glob)?;
            self.find(target, names, depth + 1)
        })
    }

    fn module_at(&self, named: &Named) -> Option<usize> {
        if !named.inside {
            return None;
        }
        named.path.iter().try_fold(0, |module, name| self.modules[module].children.get(name).copied())
    }

    fn absolute_of(&self, module: usize, path: &CodePath) -> Option<Named> {
        if path.leading {
            return Some(Named { line: path.line, path: path.names.clone(), inside: false });
        }
        self.absolute(module, &path.names, path.line)
    }

    /// Resolves a path as written in a module, to one from the package's root or from another package's name.
    fn absolute(&self, module: usize, names: &[String], line: usize) -> Option<Named> {
        let mut at = module;
        let mut names = names;
        let mut relative = false;
        loop {
            match names.first().map(String::as_str) {
                Some("crate") => at = 0,
                Some("super") => at = self.modules[at].parent?,
                Some("self") => {}
                _ => break,
            }
            names = &names[1..];
            relative = true;
        }
        let Some(first) = names.first() else {
            return Some(Named { line, path: self.path_of(at), inside: true });
        };
        let this = &self.modules[at];
        if relative || this.children.contains_key(first) || this.items.contains(first) {
            return Some(Named { line, path: [self.path_of(at).as_slice(), names].concat(), inside: true });
        }
        let import = this.imports.iter().find(|import| import.name == *first);
        match import {
            // `use text;` brings another package's name, not one from here.
            Some(import) if import.path.first() != Some(first) => {
                let path: Vec<String> = import.path.iter().chain(&names[1..]).cloned().collect();
                self.absolute(at, &path, line)
            }
            Some(import) => {
                let path: Vec<String> = import.path.iter().chain(&names[1..]).cloned().collect();
                Some(Named { line, path, inside: false })
            }
            None => Some(Named { line, path: names.to_vec(), inside: false }),
        }
    }

    fn path_of(&self, module: usize) -> Vec<String> {
        let Some(parent) = self.modules[module].parent else { return Vec::new() };
        let name = self.modules[parent].children.iter().find(|(_, child)| **child == module);
        let mut path = self.path_of(parent);
        path.extend(name.map(|(name, _)| name.clone()));
        path
    }
}

impl Module {
    fn knows(&self, name: &str) -> bool {
        self.items.contains(name)
            || self.children.contains_key(name)
            || self.imports.iter().any(|import| import.name == name)
    }

    /// The lines of a sequence of tokens in the module's code.
    pub fn lines_with(&self, sequence: &[&str]) -> Vec<usize> {
        let here =
            |window: &&[Token]| window.iter().map(|token| token.text.as_str()).eq(sequence.iter().copied());
        self.tokens.windows(sequence.len()).filter(here).map(|window| window[0].line).collect()
    }
}

/// Removes test-only items from a file.
pub fn leave_out_tests(file: &mut syn::File) {
    WithoutTests.visit_file_mut(file);
}

struct WithoutTests;

/// Whether attributes restrict an item to tests.
fn only_for_tests(attributes: &[syn::Attribute]) -> bool {
    fn wants_test(tokens: TokenStream) -> bool {
        let mut negated = false;
        tokens.into_iter().any(|token| match token {
            TokenTree::Ident(word) => {
                negated = word == "not" || word == "any";
                word == "test"
            }
            TokenTree::Group(group) => !negated && wants_test(group.stream()),
            _ => false,
        })
    }
    attributes.iter().any(|attribute| match &attribute.meta {
        syn::Meta::Path(path) => path.is_ident("test"),
        syn::Meta::List(list) => list.path.is_ident("cfg") && wants_test(list.tokens.clone()),
        syn::Meta::NameValue(_) => false,
    })
}

fn attributes(item: &syn::Item) -> &[syn::Attribute] {
    match item {
        syn::Item::Const(item) => &item.attrs,
        syn::Item::Enum(item) => &item.attrs,
        syn::Item::ExternCrate(item) => &item.attrs,
        syn::Item::Fn(item) => &item.attrs,
        syn::Item::ForeignMod(item) => &item.attrs,
        syn::Item::Impl(item) => &item.attrs,
        syn::Item::Macro(item) => &item.attrs,
        syn::Item::Mod(item) => &item.attrs,
        syn::Item::Static(item) => &item.attrs,
        syn::Item::Struct(item) => &item.attrs,
        syn::Item::Trait(item) => &item.attrs,
        syn::Item::TraitAlias(item) => &item.attrs,
        syn::Item::Type(item) => &item.attrs,
        syn::Item::Union(item) => &item.attrs,
        syn::Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

impl VisitMut for WithoutTests {
    fn visit_file_mut(&mut self, file: &mut syn::File) {
        file.items.retain(|item| !only_for_tests(attributes(item)));
        syn::visit_mut::visit_file_mut(self, file);
    }

    fn visit_item_mod_mut(&mut self, module: &mut syn::ItemMod) {
        if let Some((_, items)) = &mut module.content {
            items.retain(|item| !only_for_tests(attributes(item)));
        }
        syn::visit_mut::visit_item_mod_mut(self, module);
    }

    fn visit_item_impl_mut(&mut self, block: &mut syn::ItemImpl) {
        block.items.retain(|item| match item {
            syn::ImplItem::Fn(item) => !only_for_tests(&item.attrs),
            syn::ImplItem::Const(item) => !only_for_tests(&item.attrs),
            _ => true,
        });
        syn::visit_mut::visit_item_impl_mut(self, block);
    }

    fn visit_block_mut(&mut self, block: &mut syn::Block) {
        block.stmts.retain(|statement| match statement {
            syn::Stmt::Item(item) => !only_for_tests(attributes(item)),
            syn::Stmt::Local(local) => !only_for_tests(&local.attrs),
            _ => true,
        });
        syn::visit_mut::visit_block_mut(self, block);
    }
}

/// Moves `use` items out of functions; they count as the module's.
#[derive(Default)]
struct Imports(Vec<Import>);

impl VisitMut for Imports {
    fn visit_block_mut(&mut self, block: &mut syn::Block) {
        block.stmts.retain(|statement| match statement {
            syn::Stmt::Item(syn::Item::Use(item)) => {
                self.add(item);
                false
            }
            _ => true,
        });
        syn::visit_mut::visit_block_mut(self, block);
    }
}

impl Imports {
    fn add(&mut self, item: &syn::ItemUse) {
        let exported = !matches!(item.vis, syn::Visibility::Inherited);
        let line = item.use_token.span.start().line;
        self.tree(&item.tree, &mut Vec::new(), exported, line);
    }

    fn tree(&mut self, tree: &syn::UseTree, before: &mut Vec<String>, exported: bool, line: usize) {
        let mut add = |name: String, path: Vec<String>| {
            self.0.push(Import { name, path, exported, line });
        };
        match tree {
            syn::UseTree::Path(part) => {
                before.push(plain(&part.ident));
                self.tree(&part.tree, before, exported, line);
                before.pop();
            }
            syn::UseTree::Group(group) => {
                group.items.iter().for_each(|tree| self.tree(tree, before, exported, line));
            }
            syn::UseTree::Glob(_) => add("*".to_owned(), before.clone()),
            syn::UseTree::Name(name) if name.ident == "self" => {
                add(before.last().cloned().unwrap_or_default(), before.clone());
            }
            syn::UseTree::Name(name) => {
                let path = before.iter().cloned().chain([plain(&name.ident)]).collect();
                add(plain(&name.ident), path);
            }
            syn::UseTree::Rename(renamed) => {
                let own = (renamed.ident != "self").then(|| plain(&renamed.ident));
                add(plain(&renamed.rename), before.iter().cloned().chain(own).collect());
            }
        }
    }
}

/// The name of an identifier, without `r#`.
fn plain(word: &proc_macro2::Ident) -> String {
    word.to_string().trim_start_matches("r#").to_owned()
}

fn name_of(item: &syn::Item) -> Option<String> {
    match item {
        syn::Item::Const(item) => Some(plain(&item.ident)),
        syn::Item::Enum(item) => Some(plain(&item.ident)),
        syn::Item::Fn(item) => Some(plain(&item.sig.ident)),
        syn::Item::Macro(item) => item.ident.as_ref().map(plain),
        syn::Item::Static(item) => Some(plain(&item.ident)),
        syn::Item::Struct(item) => Some(plain(&item.ident)),
        syn::Item::Trait(item) => Some(plain(&item.ident)),
        syn::Item::Type(item) => Some(plain(&item.ident)),
        syn::Item::Union(item) => Some(plain(&item.ident)),
        _ => None,
    }
}

/// The text after `#[path = …]`.
fn stated_path(attributes: &[syn::Attribute]) -> Option<String> {
    attributes.iter().find_map(|attribute| match &attribute.meta {
        syn::Meta::NameValue(pair) if pair.path.is_ident("path") => match &pair.value {
            syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) => Some(text.value()),
            _ => None,
        },
        _ => None,
    })
}

fn flatten(tokens: TokenStream, out: &mut Vec<Token>) {
    for token in tokens {
        let line = token.span().start().line;
        match token {
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    Delimiter::Parenthesis => ("(", ")"),
                    Delimiter::Brace => ("{", "}"),
                    Delimiter::Bracket => ("[", "]"),
                    Delimiter::None => ("", ""),
                };
                out.push(Token { text: open.to_owned(), line });
                flatten(group.stream(), out);
                out.push(Token { text: close.to_owned(), line });
            }
            TokenTree::Ident(word) => out.push(Token { text: plain(&word), line }),
            TokenTree::Punct(sign) => out.push(Token { text: sign.as_char().to_string(), line }),
            TokenTree::Literal(_) => out.push(Token { text: "\"".to_owned(), line }),
        }
    }
}

/// A path as written in code: `a::b::c`.
struct CodePath {
    names: Vec<String>,
    line: usize,
    /// Whether the path starts with `::`, so that the first name is a package's.
    leading: bool,
    /// The token after the path.
    next: String,
}

impl CodePath {
    /// Whether the path looks like an item, not like a variable or a field.
    fn is_item(&self) -> bool {
        self.names.len() > 1
            || self.names[0].starts_with(char::is_uppercase)
            || ["(", "!"].contains(&self.next.as_str())
    }
}

fn paths(tokens: &[Token]) -> Vec<CodePath> {
    let is_name = |at: usize| {
        tokens.get(at).is_some_and(|t: &Token| t.text.starts_with(|c: char| c.is_alphabetic() || c == '_'))
    };
    let is = |at: usize, text: &str| tokens.get(at).is_some_and(|token| token.text == text);
    let joined = |at: usize| is(at, ":") && is(at + 1, ":");
    let mut found = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let lifetime = at > 0 && is(at - 1, "'");
        let field = at > 0 && is(at - 1, ".") && !(at > 1 && is(at - 2, "."));
        if !is_name(at) || lifetime || field {
            at += 1;
            continue;
        }
        let leading = at > 1 && joined(at - 2);
        // `<T as A>::b` and `a::<T>::b` go on from a type.
        let qualified = leading && at > 2 && (is(at - 3, ">") || is_name(at - 3));
        let line = tokens[at].line;
        let mut names = vec![tokens[at].text.clone()];
        at += 1;
        while joined(at) && is_name(at + 2) {
            names.push(tokens[at + 2].text.clone());
            at += 3;
        }
        let next = tokens.get(at).map(|token| token.text.clone()).unwrap_or_default();
        if !qualified {
            found.push(CodePath { names, line, leading, next });
        }
    }
    found
}

/// The first names of all paths and imports under these folders, including tests: packages that they may use.
pub fn first_names(folders: &[String]) -> BTreeSet<String> {
    struct Roots(BTreeSet<String>);
    impl<'a> syn::visit::Visit<'a> for Roots {
        fn visit_item_use(&mut self, item: &'a syn::ItemUse) {
            fn first(tree: &syn::UseTree, out: &mut BTreeSet<String>) {
                match tree {
                    syn::UseTree::Path(part) => drop(out.insert(plain(&part.ident))),
                    syn::UseTree::Name(name) => drop(out.insert(plain(&name.ident))),
                    syn::UseTree::Rename(name) => drop(out.insert(plain(&name.ident))),
                    syn::UseTree::Group(group) => group.items.iter().for_each(|tree| first(tree, out)),
                    syn::UseTree::Glob(_) => {}
                }
            }
            first(&item.tree, &mut self.0);
        }
    }
    let mut roots = Roots(BTreeSet::new());
    for file in folders.iter().flat_map(|folder| sources_under(folder)) {
        let text = fs::read_to_string(root().join(&file)).expect("a source file");
        let syntax = syn::parse_file(&text).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        syn::visit::Visit::visit_file(&mut roots, &syntax);
        let mut tokens = Vec::new();
        flatten(syntax.to_token_stream(), &mut tokens);
        roots.0.extend(
            paths(&tokens)
                .into_iter()
                .filter(|path| path.names.len() > 1)
                .map(|path| path.names.into_iter().next().unwrap_or_default()),
        );
    }
    roots.0
}

/// Writes a tree of files for a test.
fn written(name: &str, files: &[(&str, &str)]) -> Tree {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    for (file, text) in files {
        let path = folder.join(file);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder is made");
        fs::write(path, text).expect("a file is written");
    }
    Tree::read(&folder.join("lib.rs"))
}

#[test]
fn code_after_tests_is_read_and_tests_are_not() {
    let tree = written(
        "rules-tests",
        &[(
            "lib.rs",
            "#[cfg(test)]\nuse std::env;\nuse std::fs as files;\n#[cfg(all(test, unix))]\nfn a() { std::process::exit(1) }\n\
             #[cfg(test)]\nmod tests { fn b() { std::net::TcpStream::connect(\"\"); } }\n\
             struct S;\nimpl S { #[cfg(test)] fn c() { std::thread::scope(|_| ()); }\n\
             /* std::io::stdout() */ fn d() { use std::time::{self, Instant}; println!(\"std::io::stdout()\");\n\
             files::read(\"x\"); Instant::now(); time::SystemTime\n::now(); } }\n\
             #[cfg(not(test))]\nfn e() { std::arch::asm!(\"\") }",
        )],
    );
    let paths: BTreeSet<String> = tree.named(0).iter().map(|named| named.path.join("::")).collect();
    for there in [
        "std::fs",
        "std::fs::read",
        "std::time::Instant::now",
        "std::time::SystemTime::now",
        "std::arch::asm",
    ] {
        assert!(paths.contains(there), "{there}: {paths:?}");
    }
    for not in ["std::env", "std::process", "std::net", "std::thread", "std::io"] {
        assert!(!paths.iter().any(|path| path.starts_with(not)), "{not}: {paths:?}");
    }
}

#[test]
fn names_are_followed_through_re_exports() {
    let tree = written(
        "rules-exports",
        &[
            ("lib.rs", "mod a;\nmod b;\npub use a::deep::Inner;\n"),
            ("a/mod.rs", "pub mod deep;\npub(crate) use deep::Inner as Renamed;\npub struct Own;\n"),
            ("a/deep.rs", "use super::Own;\npub struct Inner(Own);\n"),
            (
                "b.rs",
                "use crate::a::{self, Renamed};\nfn f(_: crate::Inner, _: Renamed) { a::deep::Inner; }\n",
            ),
        ],
    );
    let defined = |module: usize| -> BTreeSet<String> {
        let files = tree.named(module).into_iter().filter_map(|named| tree.defined_in(&named));
        files.map(|file| tree.files[file].file_name().unwrap().to_string_lossy().into_owned()).collect()
    };
    let module = |end: &str| tree.modules.iter().position(|m| tree.files[m.file].ends_with(end)).unwrap();
    // What is passed on is no use of it; what is had through it is a use of where it comes from.
    assert!(defined(module("lib.rs")).is_empty());
    assert!(defined(module("a/mod.rs")).is_empty());
    assert_eq!(defined(module("a/deep.rs")), BTreeSet::from(["mod.rs".to_owned()]));
    assert_eq!(defined(module("b.rs")), BTreeSet::from(["deep.rs".to_owned()]));
}
