//! `gristmill tokenize`: a text as a model sees it.

use std::fs::File;
use std::io::{BufRead, BufReader, IsTerminal, Read};
use std::path::{Path, PathBuf};

use serde::Serialize;
use text::{Special, Tokenizer};

use crate::Failure;
use crate::term::{err, json_text, out};

/// Bytes of one text; a line longer than this is not a text.
const MAX_TEXT_BYTES: u64 = 256 << 20;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Catalog name, GGUF (one with only a vocabulary will do), folder with a tokenizer.json, that file, or a source.
    #[arg(value_name = "MODEL")]
    model: String,

    /// The text (after `--` if it begins with a hyphen); `-` reads all of standard input as one text.
    #[arg(value_name = "TEXT", conflicts_with_all = ["file", "decode"])]
    text: Option<String>,

    /// Take each line of this file as a text (`-` for standard input).
    #[arg(long, short, value_name = "F")]
    file: Option<PathBuf>,

    /// Turn token ids, separated by commas or spaces, back into text.
    #[arg(long, value_name = "IDS", conflicts_with = "file")]
    decode: Option<String>,

    /// Take names of control tokens in the text as text, never as control tokens.
    #[arg(long, visible_alias = "no-parse-special")]
    no_special: bool,

    /// Put the tokens around the text that the model expects there (such as the first token of a text).
    #[arg(long)]
    add_special: bool,

    /// Print one JSON object a text: {"tokens": [ids], "pieces": [texts, or bytes where they are no text]}.
    #[arg(long)]
    json: bool,
}

/// One text, as `--json` prints it.
#[derive(Serialize)]
struct Report<'a> {
    tokens: &'a [u32],
    pieces: Vec<Piece<'a>>,
}

/// What a token says: a text, or bytes that are only part of a character.
#[derive(Serialize)]
#[serde(untagged)]
enum Piece<'a> {
    Text(&'a str),
    Bytes(&'a [u8]),
}

/// Decoded ids, as `--json` prints them.
#[derive(Serialize)]
struct Decoded {
    text: String,
}

pub(crate) fn run(args: Args) -> Result<(), Failure> {
    let tokenizer = Tokenizer::open_path(&locate(&args.model)?)?;
    if let Some(ids) = &args.decode {
        return decode(&tokenizer, ids, &args);
    }
    match (&args.text, &args.file) {
        (None, Some(path)) => each_line(path, &args, &tokenizer),
        (Some(text), _) if text != "-" => show(&tokenizer, text, &args),
        (None, None) if std::io::stdin().is_terminal() => {
            Err(Failure::usage("no text: give TEXT, --file F, --decode IDS, or text on standard input"))
        }
        _ => {
            let mut bytes = Vec::new();
            let read = std::io::stdin().lock().take(MAX_TEXT_BYTES + 1).read_to_end(&mut bytes);
            read.map_err(|error| unreadable("standard input", &error))?;
            show(&tokenizer, &checked(bytes, "standard input")?, &args)
        }
    }
}

/// The file or folder that MODEL means. A folder with only a tokenizer is no model to the store.
pub(crate) fn locate(model: &str) -> Result<PathBuf, Failure> {
    let path = Path::new(model);
    let is_json = path.extension().is_some_and(|extension| extension == "json") && path.is_file();
    if is_json || path.join("tokenizer.json").is_file() {
        return Ok(path.to_owned());
    }
    crate::store::resolve(model)
}

fn each_line(path: &Path, args: &Args, tokenizer: &Tokenizer) -> Result<(), Failure> {
    let piped = path == Path::new("-");
    let name = if piped { "standard input".to_owned() } else { path.display().to_string() };
    let mut lines: Box<dyn BufRead> = if piped {
        Box::new(std::io::stdin().lock())
    } else {
        Box::new(BufReader::new(File::open(path).map_err(|error| unreadable(&name, &error))?))
    };
    for number in 1_u64.. {
        let mut line = Vec::new();
        let read = lines.by_ref().take(MAX_TEXT_BYTES + 1).read_until(b'\n', &mut line);
        if read.map_err(|error| unreadable(&name, &error))? == 0 {
            break;
        }
        line.pop_if(|byte| *byte == b'\n');
        if number > 1 && !args.json {
            out!("");
        }
        show(tokenizer, &checked(line, &format!("{name}, line {number}"))?, args)?;
    }
    Ok(())
}

fn unreadable(name: &str, error: &std::io::Error) -> Failure {
    Failure::new(format!("cannot read {name}: {error}"))
}

/// A text of reasonable size; bytes that are not UTF-8 become U+FFFD, which is said.
fn checked(bytes: Vec<u8>, place: &str) -> Result<String, Failure> {
    if bytes.len() as u64 > MAX_TEXT_BYTES {
        return Err(Failure::new(format!("{place}: a text is longer than {MAX_TEXT_BYTES} bytes")));
    }
    Ok(String::from_utf8(bytes).unwrap_or_else(|error| {
        err!("warning: {place}: bytes that are not UTF-8 are taken as U+FFFD");
        String::from_utf8_lossy(error.as_bytes()).into_owned()
    }))
}

fn show(tokenizer: &Tokenizer, text: &str, args: &Args) -> Result<(), Failure> {
    let special = if args.no_special { Special::Plain } else { Special::Parse };
    let tokens = tokenizer.encode(text, special, args.add_special)?;
    if args.json {
        let pieces = tokens.iter().map(|id| piece(tokenizer, *id)).collect();
        out!("{}", json_text(&serde_json::to_string(&Report { tokens: &tokens, pieces })?));
        return Ok(());
    }
    for id in &tokens {
        let bytes = tokenizer.token_bytes(*id).unwrap_or_default();
        out!("{id:>6} -> '{}'", bytes.escape_lossy());
    }
    Ok(())
}

fn piece(tokenizer: &Tokenizer, id: u32) -> Piece<'_> {
    let bytes = tokenizer.token_bytes(id).unwrap_or_default();
    std::str::from_utf8(bytes).map_or(Piece::Bytes(bytes), Piece::Text)
}

fn decode(tokenizer: &Tokenizer, ids: &str, args: &Args) -> Result<(), Failure> {
    let words = ids.split([',', ' ', '\n', '\t', '[', ']']).filter(|word| !word.is_empty());
    let mut tokens = Vec::new();
    for word in words {
        let id: u32 = word.parse().map_err(|_| Failure::usage(format!("{word:?} is no token id")))?;
        if id as usize >= tokenizer.vocab_size() {
            let size = tokenizer.vocab_size();
            return Err(Failure::new(format!("token id {id} is beyond the vocabulary of {size} tokens")));
        }
        tokens.push(id);
    }
    let text = tokenizer.decode(&tokens, args.no_special);
    if args.json {
        out!("{}", json_text(&serde_json::to_string(&Decoded { text })?));
    } else {
        out!("{text}");
    }
    Ok(())
}

/// Bytes for a terminal: text as it is, control characters and stray bytes escaped.
trait EscapeLossy {
    fn escape_lossy(&self) -> String;
}

impl EscapeLossy for [u8] {
    fn escape_lossy(&self) -> String {
        let mut shown = String::new();
        for chunk in self.utf8_chunks() {
            for c in chunk.valid().chars() {
                if c.is_control() { shown.extend(c.escape_default()) } else { shown.push(c) }
            }
            shown.extend(chunk.invalid().iter().map(|byte| format!("\\x{byte:02x}")));
        }
        shown
    }
}
