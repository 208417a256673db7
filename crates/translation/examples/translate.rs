//! Translates standard input: `translate FROM TO request|answer|stream|error [MODEL] [STATUS]`. Warnings, path and ending go
//! to standard error. For the checks with the official clients (`tools/clients/translation_check.py`).

use std::error::Error;
use std::io::{Read as _, Write as _};

use translation::{AnswerOptions, Dialect, RequestOptions, StreamTranslator};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let argument = |at: usize| arguments.get(at).map(String::as_str);
    let (Some(from), Some(to), Some(what)) = (argument(0), argument(1), argument(2)) else {
        return Err("usage: translate FROM TO request|answer|stream|error [MODEL] [STATUS]".into());
    };
    let (from, to): (Dialect, Dialect) = (from.parse()?, to.parse()?);
    let model = argument(3);
    let mut body = Vec::new();
    std::io::stdin().read_to_end(&mut body)?;
    let options = AnswerOptions {
        model,
        id: "example",
        created_s: 1_700_000_000,
        include_usage: true,
        ..AnswerOptions::default()
    };
    let mut notes = std::io::stderr();
    let mut out = Vec::new();
    match what {
        "request" => {
            let options = RequestOptions { model, ..RequestOptions::default() };
            let translated = translation::request(from, to, &body, &options)?;
            writeln!(notes, "{}", translated.path)?;
            translated.warnings.iter().try_for_each(|warning| writeln!(notes, "{warning}"))?;
            out = translated.body;
        }
        "answer" => {
            let translated = translation::answer(from, to, &body, &options)?;
            translated.warnings.iter().try_for_each(|warning| writeln!(notes, "{warning}"))?;
            out = translated.body;
        }
        "stream" => {
            let mut translator = StreamTranslator::new(from, to, options);
            translator.feed(&body, &mut out)?;
            writeln!(notes, "{:?}", translator.finish(&mut out))?;
        }
        "error" => {
            let status = argument(4).unwrap_or("400").parse()?;
            let (status, body) = translation::error(to, status, &body);
            writeln!(notes, "{status}")?;
            out = body;
        }
        other => return Err(format!("{other} is none of request, answer, stream, error").into()),
    }
    std::io::stdout().write_all(&out)?;
    Ok(())
}
