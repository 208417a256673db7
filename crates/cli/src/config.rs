//! `serve`'s flags from a file and from the environment.
//!
//! A flag's name is its name everywhere: `--max-queued 32` is `max-queued = 32` in the file and
//! `GRISTMILL_MAX_QUEUED=32` in the environment. What the file says is put behind the command line as flags and read by
//! the same parser, so that there is one set of names, ranges and errors. The command line wins over the environment,
//! that over the file, that over the defaults.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::parser::ValueSource;
use clap::{ArgAction, ArgMatches, Command};

use crate::Failure;

/// The command that has a file.
const SERVE: &str = "serve";
/// Bytes of a file.
const MAX_BYTES: u64 = 1 << 20;
/// Flags that make no sense in a file or a variable.
const NOT_THERE: [&str; 5] = ["help", "version", "config", "check", "model_table"];

/// Gives every flag of `serve` its variable, without showing it in the help.
pub(crate) fn with_environment(command: Command) -> Command {
    command.mut_subcommand(SERVE, |serve| {
        serve.mut_args(|arg| {
            let id = arg.get_id().as_str();
            if arg.get_env().is_some() || ["help", "version", "check"].contains(&id) {
                return arg;
            }
            let name = format!("GRISTMILL_{}", id.to_uppercase());
            arg.env(name).hide_env(true)
        })
    })
}

/// The file that `matches` names, as flags to put behind the command line; nothing without a file.
///
/// # Errors
/// A file that cannot be read, is no TOML, or has a key that is no flag or a value that none can have.
pub(crate) fn arguments(command: &Command, matches: &ArgMatches) -> Result<Vec<OsString>, Failure> {
    let Some((SERVE, matches)) = matches.subcommand() else { return Ok(Vec::new()) };
    let Some(path) = matches.get_one::<PathBuf>("config") else { return Ok(Vec::new()) };
    let table = read(path)?;
    let Some(serve) = command.find_subcommand(SERVE) else { return Ok(Vec::new()) };
    let mut arguments = Vec::new();
    let mut models: Vec<OsString> = Vec::new();
    for (key, value) in &table {
        let wrong = |what: String| Failure::usage(format!("--config {}: {key} {what}", path.display()));
        let id = key.replace('-', "_");
        let known = serve.get_arguments().find(|arg| arg.get_id().as_str() == id);
        let Some(arg) = known.filter(|arg| !NOT_THERE.contains(&arg.get_id().as_str())) else {
            return Err(wrong("is no flag of serve; see gristmill serve --help".to_owned()));
        };
        if matches!(matches.value_source(&id), Some(ValueSource::CommandLine | ValueSource::EnvVariable)) {
            continue;
        }
        let flag = arg.get_long().map(|long| format!("--{long}"));
        let is_switch = matches!(arg.get_action(), ArgAction::SetTrue);
        match (flag, value) {
            (None, toml::Value::Array(tables)) if tables.iter().all(toml::Value::is_table) => {
                for table in tables {
                    let json = serde_json::to_string(table).map_err(|error| wrong(error.to_string()))?;
                    arguments.push(format!("--model-table={json}").into());
                }
            }
            (None, toml::Value::Array(values)) => {
                for value in values {
                    models.push(plain(value).map_err(wrong)?.into());
                }
            }
            (Some(flag), toml::Value::Boolean(on)) if is_switch => {
                arguments.extend(on.then(|| OsString::from(flag)));
            }
            (Some(_), _) if is_switch => return Err(wrong("is true or false".to_owned())),
            (Some(flag), toml::Value::Array(values)) => {
                for value in values {
                    arguments.push(format!("{flag}={}", plain(value).map_err(wrong)?).into());
                }
            }
            (Some(flag), value) => arguments.push(format!("{flag}={}", plain(value).map_err(wrong)?).into()),
            (None, value) => models.push(plain(value).map_err(wrong)?.into()),
        }
    }
    if !models.is_empty() {
        arguments.push("--".into());
        arguments.extend(models);
    }
    Ok(arguments)
}

fn read(path: &Path) -> Result<toml::Table, Failure> {
    let at = path.display();
    let file = crate::files::read("--config", path, MAX_BYTES)?;
    let text = file.text("--config", path)?;
    text.parse().map_err(|error: toml::de::Error| {
        let line =
            error.span().map_or(0, |span| text.bytes().take(span.start).filter(|b| *b == b'\n').count());
        Failure::usage(format!("--config {at}, line {}: {}", line + 1, error.message()))
    })
}

/// A value as a command line would have it.
fn plain(value: &toml::Value) -> Result<String, String> {
    match value {
        toml::Value::String(text) => Ok(text.clone()),
        toml::Value::Integer(number) => Ok(number.to_string()),
        toml::Value::Float(number) => Ok(number.to_string()),
        toml::Value::Boolean(on) => Ok(on.to_string()),
        other => Err(format!("is a {}, and no flag takes one", other.type_str())),
    }
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::*;
    use crate::Cli;

    /// What `arguments` makes of `text` behind `words`.
    fn made(words: &[&str], text: &str) -> Result<Vec<String>, Failure> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        let command = with_environment(Cli::command());
        let words: Vec<&str> =
            [&["gristmill", "serve", "--config", file.path().to_str().unwrap()], words].concat();
        let matches = command.clone().try_get_matches_from(&words).unwrap();
        let made = arguments(&command, &matches)?;
        Ok(made.into_iter().map(|word| word.into_string().unwrap()).collect())
    }

    #[test]
    fn keys_become_flags() {
        let text = "model = \"./m.gguf\"\nport = 9000\nmax_queued = 3\nmax-body = \"2M\"\n\
                    insecure-no-auth = true\nserved-model-name = [\"a\", \"b\"]";
        let mut found = made(&[], text).unwrap();
        assert_eq!(found.split_off(found.len() - 2), ["--", "./m.gguf"]);
        found.sort();
        let flags = [
            "--insecure-no-auth",
            "--max-body=2M",
            "--max-queued=3",
            "--port=9000",
            "--served-model-name=a",
            "--served-model-name=b",
        ];
        assert_eq!(found, flags);
        assert!(Cli::try_parse_from([&["gristmill", "serve"], &flags[..]].concat()).is_ok());
    }

    #[test]
    fn the_command_line_wins() {
        let text = "model = \"m\"\nport = 9000\ninsecure-no-auth = false";
        assert!(made(&["--port", "1", "other"], text).unwrap().is_empty());
    }

    #[test]
    fn mistakes_are_named() {
        for (text, word) in [
            ("prot = 1", "prot is no flag"),
            ("config = \"x\"", "config is no flag"),
            ("check = true", "check is no flag"),
            ("insecure-no-auth = 1", "insecure-no-auth is true or false"),
            ("port = { a = 1 }", "port is a table"),
            ("port = 1\n= 2", "line 2"),
        ] {
            let failure = made(&[], text).unwrap_err();
            assert!(failure.code == 2 && failure.message.contains(word), "{}", failure.message);
        }
    }

    #[test]
    fn every_flag_has_a_variable() {
        let command = with_environment(Cli::command());
        let serve = command.find_subcommand("serve").unwrap();
        for arg in serve.get_arguments().filter(|arg| !["help", "check"].contains(&arg.get_id().as_str())) {
            let name = arg.get_env().unwrap_or_else(|| panic!("{} has no variable", arg.get_id()));
            assert!(name.to_str().unwrap().starts_with("GRISTMILL_"), "{name:?}");
        }
    }
}
