//! The code blocks of a page, and the comments before them that say how they are checked.

/// Start of a comment that excludes a block from running; the reason follows.
const NOT_RUN: &str = "<!-- not run:";
/// Start of a comment that names the file in which a reader saves a block.
const FILE: &str = "<!-- file:";
const COMMENT_END: &str = "-->";
/// Languages of blocks that are run, and of those that are only shown.
const RUN: [&str; 3] = ["sh", "console", "python"];
const SHOWN: [&str; 9] = ["text", "json", "toml", "ini", "rust", "promql", "yaml", "nginx", "caddyfile"];

/// A fenced block.
#[derive(Debug, PartialEq)]
pub struct Block {
    /// Line of the opening fence, from 1.
    pub line: usize,
    pub language: String,
    /// The block's text, without the fences and their indentation.
    pub text: String,
    pub use_: Use,
}

/// How a block is checked.
#[derive(Debug, PartialEq)]
pub enum Use {
    Run,
    /// Not run, for this reason.
    Skip(String),
    /// Saved under this name, for the blocks after it.
    Save(String),
    /// Shown to the reader only.
    Show,
}

/// The blocks of a page, in order; an error for an unknown language or a comment that does not fit its block.
pub fn of(page: &str) -> Result<Vec<Block>, String> {
    let mut blocks = Vec::new();
    let mut comment: Option<&str> = None;
    let mut lines = page.lines().enumerate();
    while let Some((at, line)) = lines.next() {
        let text = line.trim_start();
        let Some(language) = text.strip_prefix("```") else {
            if let Some(unused) = comment {
                return Err(format!("line {}: no code block follows `{unused}`", at + 1));
            }
            comment = (text.starts_with(NOT_RUN) || text.starts_with(FILE)).then_some(text);
            continue;
        };
        let indent = line.len() - text.len();
        let mut body = String::new();
        for (_, line) in lines.by_ref().take_while(|(_, line)| !line.trim_start().starts_with("```")) {
            body.push_str(line.get(indent..).unwrap_or_default());
            body.push('\n');
        }
        let use_ = use_of(language, comment.take()).map_err(|error| format!("line {}: {error}", at + 1))?;
        blocks.push(Block { line: at + 1, language: language.to_owned(), text: body, use_ });
    }
    Ok(blocks)
}

fn use_of(language: &str, comment: Option<&str>) -> Result<Use, String> {
    let said = |start: &str| {
        let said = comment?.strip_prefix(start)?;
        Some(said.trim().strip_suffix(COMMENT_END).map(str::trim).filter(|said| !said.is_empty()))
    };
    let runs = RUN.contains(&language);
    if !runs && !SHOWN.contains(&language) {
        return Err(format!(
            "a code block is of language {language:?}; known are {} and {}",
            RUN.join(", "),
            SHOWN.join(", ")
        ));
    }
    match (said(NOT_RUN), said(FILE)) {
        (Some(_), _) if !runs => Err(format!("a block of {language} is never run: leave out `{NOT_RUN}`")),
        (Some(Some(reason)), _) => Ok(Use::Skip(reason.to_owned())),
        (_, Some(Some(name))) => Ok(Use::Save(name.to_owned())),
        (Some(None), _) => Err(format!("`{NOT_RUN} REASON {COMMENT_END}` has no reason")),
        (_, Some(None)) => Err(format!("`{FILE} NAME {COMMENT_END}` has no name")),
        (None, None) if runs => Ok(Use::Run),
        (None, None) => Ok(Use::Show),
    }
}

/// A part of a shell block.
#[derive(Debug, PartialEq)]
pub enum Part {
    /// Commands that terminate.
    Commands(String),
    /// A command that runs until it is stopped.
    Server { command: String, port: u16, tls: bool },
}

/// The parts of a shell block: each command that starts a server is a part of its own.
pub fn parts(text: &str) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut commands = String::new();
    let mut statement = String::new();
    let mut heredoc: Option<String> = None;
    for line in text.lines() {
        statement.push_str(line);
        statement.push('\n');
        if let Some(end) = &heredoc {
            if line.trim() != end.as_str() {
                continue;
            }
            heredoc = None;
        } else if let Some((_, word)) = line.split_once("<<") {
            heredoc =
                Some(word.split_whitespace().next().unwrap_or_default().trim_matches(['\'', '"']).to_owned());
            continue;
        } else if line.ends_with('\\') {
            continue;
        }
        match server(&statement) {
            Some(server) => {
                if !commands.trim().is_empty() {
                    parts.push(Part::Commands(std::mem::take(&mut commands)));
                }
                commands.clear();
                parts.push(server);
            }
            None => commands.push_str(&statement),
        }
        statement.clear();
    }
    commands.push_str(&statement);
    if !commands.trim().is_empty() {
        parts.push(Part::Commands(commands));
    }
    parts
}

fn server(statement: &str) -> Option<Part> {
    // The text of a here-document is no command.
    let command = statement.split("<<").next().unwrap_or(statement);
    let words: Vec<&str> = command
        .split_whitespace()
        .map(|word| word.trim_matches(['(', ')', ';']))
        .take_while(|word| !word.is_empty() && !["#", "|"].contains(word))
        .collect();
    let serves = words.windows(2).any(|pair| pair == ["gristmill", "serve"] || pair == ["--", "serve"]);
    if !serves || words.iter().any(|word| ["--check", "--help"].contains(word)) {
        return None;
    }
    let port = words.iter().position(|word| *word == "--port").and_then(|at| words.get(at + 1)?.parse().ok());
    Some(Part::Server {
        command: statement.to_owned(),
        port: port.unwrap_or(8080),
        tls: words.contains(&"--tls-cert"),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may fail where it stands")]

    use super::{Part, Use, of, parts};

    #[test]
    fn a_page_has_its_blocks_with_what_is_done_with_each() {
        let page = "# T\n\n```sh\na\n```\n\n<!-- not run: needs systemd -->\n```sh\nb\n```\n- c\n\n  <!-- file: p.toml -->\n  ```toml\n  x = 1\n    y\n  ```\n\n```text\nz\n```\n";
        let blocks = of(page).unwrap();
        let uses: Vec<&Use> = blocks.iter().map(|block| &block.use_).collect();
        let skip = Use::Skip("needs systemd".to_owned());
        assert_eq!(uses, [&Use::Run, &skip, &Use::Save("p.toml".to_owned()), &Use::Show]);
        assert_eq!(blocks[2].text, "x = 1\n  y\n");
        assert_eq!(blocks[1].line, 8);
    }

    #[test]
    fn what_misleads_is_an_error() {
        for (page, why) in [
            ("```\na\n```\n", "language"),
            ("```bash\na\n```\n", "language"),
            ("<!-- not run: -->\n```sh\na\n```\n", "no reason"),
            ("<!-- not run: x -->\n\n```sh\na\n```\n", "no code block follows"),
            ("<!-- not run: x -->\n```text\na\n```\n", "never run"),
        ] {
            let error = of(page).unwrap_err();
            assert!(error.contains(why), "{page}: {error}");
        }
    }

    #[test]
    fn servers_stand_alone() {
        let text = "A=1\ngristmill serve --port 81 \\\n  --tls-cert c # b\ncat <<'E'\ngristmill serve\nE\n(gristmill serve --check)\n";
        let commands = |text: &str| Part::Commands(text.to_owned());
        let server = Part::Server {
            command: "gristmill serve --port 81 \\\n  --tls-cert c # b\n".to_owned(),
            port: 81,
            tls: true,
        };
        let rest = commands("cat <<'E'\ngristmill serve\nE\n(gristmill serve --check)\n");
        assert_eq!(parts(text), [commands("A=1\n"), server, rest]);
    }
}
