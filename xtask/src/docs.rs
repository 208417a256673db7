//! Checks of the docs: docs/cli.md is generated from `gristmill --help`, commands in pages have flags that exist, links
//! resolve, and code blocks run as written.

mod blocks;
mod links;
mod run;

use crate::program::Program;
use crate::shell::{TaskResult, output, root};
use std::path::{Path, PathBuf};

const PAGE: &str = "docs/cli.md";

/// A subcommand and its help.
struct Help {
    name: String,
    text: String,
}

pub fn write(program: &Program) -> TaskResult {
    let helps = helps(program)?;
    let path = root().join(PAGE);
    std::fs::write(&path, page(&helps)).map_err(|error| format!("{}: {error}", path.display()))?;
    mentions(&helps)?;
    links::check()?;
    run::readable()
}

pub use run::run;

pub fn check(program: &Program) -> TaskResult {
    let helps = helps(program)?;
    let written = std::fs::read_to_string(root().join(PAGE)).map_err(|error| format!("{PAGE}: {error}"))?;
    if written != page(&helps) {
        return Err(format!("{PAGE} is not what the flags say; run `cargo xtask docs` and commit it"));
    }
    mentions(&helps)?;
    links::check()?;
    run::readable()
}

/// The help of all subcommands, after the overall help under the name `gristmill`.
fn helps(program: &Program) -> Result<Vec<Help>, String> {
    let help = |command: &[&str]| help(program, command);
    let top = help(&[])?;
    let names = subcommands(&top);
    let mut helps = vec![Help { name: "gristmill".to_owned(), text: top }];
    for name in names {
        let text = help(&[&name])?;
        let below = subcommands(&text);
        helps.push(Help { name: name.clone(), text });
        for below in below {
            let text = help(&[&name, &below])?;
            helps.push(Help { name: format!("{name} {below}"), text });
        }
    }
    Ok(helps)
}

/// The names below `Commands:` in a help text.
fn subcommands(help: &str) -> Vec<String> {
    let commands = help.lines().skip_while(|line| !line.starts_with("Commands:")).skip(1);
    commands
        .take_while(|line| !line.trim().is_empty())
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next().map(str::to_owned))
        .filter(|name| name != "help")
        .collect()
}

fn help(program: &Program, command: &[&str]) -> Result<String, String> {
    let mut command = program.command(&[command, &["--help"]].concat());
    // Help shows the current values of environment variables, which the page must not depend on.
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(|name| name.starts_with("GRISTMILL_") || name == "COLUMNS") {
            command.env_remove(name);
        }
    }
    let text = output(&mut command)?;
    Ok(text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n").trim().to_owned())
}

fn page(helps: &[Help]) -> String {
    let mut page = "# Commands and flags\n\nWritten by `cargo xtask docs` from the program; CI checks that it is up to date.\n".to_owned();
    for help in helps {
        let title = if help.name == "gristmill" {
            "gristmill".to_owned()
        } else {
            format!("gristmill {}", help.name)
        };
        page.push_str(&format!("\n## {title}\n\n```text\n{}\n```\n", help.text));
    }
    page
}

/// Checks that every `gristmill …` and `cargo run … -- …` line in code blocks has a command and flags that exist.
fn mentions(helps: &[Help]) -> TaskResult {
    let mut wrong = Vec::new();
    for path in pages()? {
        let text = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let mut inside = false;
        for (number, line) in text.lines().enumerate() {
            if line.trim_start().starts_with("```") {
                inside = !inside && !line.contains("text");
                continue;
            }
            if let Some(problem) = inside.then(|| problem(line, helps)).flatten() {
                wrong.push(format!("{}:{}: {problem}", path.display(), number + 1));
            }
        }
    }
    if wrong.is_empty() { Ok(()) } else { Err(format!("commands that do not exist:\n{}", wrong.join("\n"))) }
}

/// The error in a line of a code block, if it is a `gristmill` command.
fn problem(line: &str, helps: &[Help]) -> Option<String> {
    let line = line.trim().trim_start_matches("$ ");
    let command = match line.split_once("cargo run --release -- ") {
        Some((_, rest)) => rest,
        None => line.split("&& ").find_map(|part| part.trim().strip_prefix("gristmill "))?,
    };
    // The command ends at a pipe, a redirection or a comment.
    let words: Vec<&str> = command
        .split_whitespace()
        .take_while(|word| !["|", ">", ">>", "#", "&", "&&", ";"].contains(word))
        .collect();
    let name = words.first().filter(|word| !word.starts_with('-'))?;
    let below = words.get(1).map(|second| format!("{name} {second}"));
    let named = |wanted: &str| helps.iter().find(|help| help.name == wanted);
    let Some(help) = below.and_then(|below| named(&below)).or_else(|| named(name)) else {
        return Some(format!("`gristmill {name}` is no command"));
    };
    let flags = words.iter().filter(|word| word.starts_with("--") && word.len() > 2);
    for flag in flags.map(|word| word.split('=').next().unwrap_or(word)) {
        let known =
            help.text.split(|c: char| c.is_whitespace() || ",=[<".contains(c)).any(|word| word == flag);
        if !known {
            return Some(format!("`gristmill {name}` has no `{flag}`"));
        }
    }
    None
}

fn pages() -> Result<Vec<PathBuf>, String> {
    let mut pages: Vec<PathBuf> =
        ["README.md", "CONTRIBUTING.md"].iter().map(|name| root().join(name)).collect();
    pages.retain(|page| page.is_file());
    markdown(&root().join("docs"), &mut pages)?;
    Ok(pages)
}

fn markdown(folder: &Path, pages: &mut Vec<PathBuf>) -> TaskResult {
    let entries = std::fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    for path in entries.flatten().map(|entry| entry.path()) {
        if path.is_dir() {
            markdown(&path, pages)?;
        } else if path.extension().is_some_and(|ext| ext == "md") && !path.ends_with("cli.md") {
            pages.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{Help, problem};

    #[test]
    fn commands_in_pages_are_held_to_the_help() {
        let help = |name: &str, text: &str| Help { name: name.to_owned(), text: text.to_owned() };
        let helps = [
            help("serve", "  --port <PORT>  where [default: 8080]"),
            help("bench", "  --shape <SHAPE>"),
            help("bench kernels", "  --json"),
        ];
        assert_eq!(problem("$ gristmill serve --port 80 | tee log --x", &helps), None);
        assert_eq!(problem("cargo run --release -- serve --port=80", &helps), None);
        assert_eq!(problem("curl --port localhost", &helps), None);
        assert!(problem("gristmill serve --ports 80", &helps).is_some_and(|p| p.contains("--ports")));
        assert_eq!(problem("gristmill bench kernels --json", &helps), None);
        assert!(problem("gristmill bench --json", &helps).is_some());
        assert!(problem("gristmill server", &helps).is_some_and(|p| p.contains("no command")));
    }
}
