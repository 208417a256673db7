//! Parses and prints model sources. Does not access the network.
//!
//! - `hf:org/repo`, `hf:org/repo@revision`, `hf:org/repo:file.gguf`, `hf:org/repo:Q4_K_M`
//! - `https://host/path/model.gguf`, with an optional `#sha256=<64 hex digits>`
//! - `py:name==version`, `py:name==version:path/in/the/wheel.gguf`, `py:name==version:directory/`
//!
//! In the `py:` form a range in braces stands for several packages, or versions of one, whose members are joined in
//! order, as in a shell: `py:big-part{1..3}==1.0:big_part{1..3}/part{01..03}.bin`. Behind `!` is what to take out of a
//! zip archive, which the member is or the joined members are: `py:big==1.{1..3}:big/part.bin!model/`.

use std::fmt;

/// The longest range in braces.
const MAX_PARTS: usize = 1000;

/// A source of a model's files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModelSource {
    /// A repository of the Hugging Face hub.
    Hub(HubSource),
    /// An http or https address.
    Url(UrlSource),
    /// Python packages.
    Python(PythonSource),
}

/// `hf:org/repo[@revision][:file]`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HubSource {
    /// `org/name`, or a single name for the hub's oldest repositories.
    pub repo: String,
    /// Branch, tag or commit; `None` for `main`.
    pub revision: Option<String>,
    /// A file's path, or part of a GGUF's name such as `Q4_K_M`; `None` for the whole model.
    pub file: Option<String>,
}

/// `http(s)://…[#sha256=…]`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UrlSource {
    /// Address without its fragment.
    pub url: String,
    /// Expected hash, lower-case hex.
    pub sha256: Option<String>,
}

/// `name==version[:member[!inside]]`, or several of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PythonSource {
    /// The packages; the files of several are joined in order. Never empty.
    pub parts: Vec<PythonPart>,
    /// File or (with `/` at its end) directory within the zip archive that the (joined) file is; `None` if the file is
    /// the model itself.
    pub inside: Option<String>,
}

/// `name==version[:member]`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PythonPart {
    /// Distribution name.
    pub name: String,
    /// Exact version.
    pub version: String,
    /// File or (with `/` at its end) directory within the wheel; `None` to search for the model.
    pub member: Option<String>,
}

impl ModelSource {
    /// Whether `text` has the prefix of a source, well-formed or not.
    pub fn has_source_prefix(text: &str) -> bool {
        ["hf:", "py:", "http://", "https://"].iter().any(|prefix| text.starts_with(prefix))
    }

    /// Parses a source; the error does not repeat the text, which may hold secrets.
    pub fn parse(text: &str) -> Result<ModelSource, String> {
        if let Some(rest) = text.strip_prefix("hf:") {
            return parse_hub(rest).map(ModelSource::Hub);
        }
        if let Some(rest) = text.strip_prefix("py:") {
            return parse_python(rest).map(ModelSource::Python);
        }
        if text.starts_with("http://") || text.starts_with("https://") {
            return parse_url(text).map(ModelSource::Url);
        }
        Err("a source begins with hf:, py:, http:// or https://".to_owned())
    }
}

impl fmt::Display for ModelSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ModelSource::Hub(hub) => write!(f, "{hub}"),
            ModelSource::Url(url) => f.write_str(&shown(&url.url)),
            ModelSource::Python(python) => write!(f, "{python}"),
        }
    }
}

impl fmt::Display for PythonSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(first) = self.parts.first() else { return f.write_str("py:") };
        write!(f, "py:{}=={}", first.name, first.version)?;
        match self.parts.last() {
            Some(last) if self.parts.len() > 1 => {
                write!(f, " … {}=={} ({} parts)", last.name, last.version, self.parts.len())?;
            }
            _ => first.member.as_ref().map_or(Ok(()), |member| write!(f, ":{member}"))?,
        }
        self.inside.as_ref().map_or(Ok(()), |inside| write!(f, "!{inside}"))
    }
}

impl fmt::Display for HubSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "hf:{}", self.repo)?;
        if let Some(revision) = &self.revision {
            write!(f, "@{revision}")?;
        }
        if let Some(file) = &self.file {
            write!(f, ":{file}")?;
        }
        Ok(())
    }
}

/// An address for messages: without its query, which may hold a signature.
pub(crate) fn shown(url: &str) -> String {
    url.split(['?', '#']).next().unwrap_or_default().to_owned()
}

/// Checks that an untrusted path is relative and stays below its directory.
pub(crate) fn check_relative(path: &str) -> Result<(), String> {
    if path.is_empty() || path.len() > 512 {
        return Err(format!("a path of {} bytes is outside 1 to 512", path.len()));
    }
    if path.contains(['\\', '\0', ':']) || path.chars().any(char::is_control) {
        return Err(format!("the path {path:?} holds a character that is not allowed"));
    }
    let fine = path.split('/').all(|part| !part.is_empty() && part != "." && part != "..");
    if fine { Ok(()) } else { Err(format!("the path {path:?} leaves its directory")) }
}

fn parse_hub(text: &str) -> Result<HubSource, String> {
    let (place, file) = match text.split_once(':') {
        Some((place, file)) => (place, Some(file)),
        None => (text, None),
    };
    let (repo, revision) = match place.split_once('@') {
        Some((repo, revision)) => (repo, Some(revision)),
        None => (place, None),
    };
    let word = |part: &str| {
        !part.is_empty()
            && part.len() <= 128
            && !part.starts_with(['.', '-'])
            && part.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
    };
    let parts: Vec<&str> = repo.split('/').collect();
    if parts.len() > 2 || !parts.iter().all(|part| word(part)) {
        return Err("expected hf:org/repo, hf:org/repo:file or hf:org/repo@revision:file".to_owned());
    }
    if let Some(revision) = revision {
        let fine = revision.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-/".contains(&b));
        if !fine || check_relative(revision).is_err() {
            return Err(format!("{revision:?} is no revision"));
        }
    }
    if let Some(file) = file {
        check_relative(file)?;
    }
    Ok(HubSource {
        repo: repo.to_owned(),
        revision: revision.map(str::to_owned),
        file: file.map(str::to_owned),
    })
}

fn parse_url(text: &str) -> Result<UrlSource, String> {
    let (url, fragment) = match text.split_once('#') {
        Some((url, fragment)) => (url, Some(fragment)),
        None => (text, None),
    };
    let uri: ureq::http::Uri = url.parse().map_err(|error| format!("not an address: {error}"))?;
    let authority = uri.authority().ok_or("the address has no host")?;
    if authority.as_str().contains('@') {
        return Err("an address with a user name or password in it is not taken".to_owned());
    }
    let sha256 = match fragment {
        None => None,
        Some(fragment) => {
            let hash = fragment.strip_prefix("sha256=").map(str::to_ascii_lowercase);
            match hash {
                Some(hash) if super::is_sha256(&hash) => Some(hash),
                _ => return Err("after # only sha256= with 64 hex digits is taken".to_owned()),
            }
        }
    };
    Ok(UrlSource { url: url.to_owned(), sha256 })
}

fn parse_python(text: &str) -> Result<PythonSource, String> {
    let mut parts = Vec::new();
    let mut inside = None;
    for (number, text) in expand(text)?.iter().enumerate() {
        let (part, within) = parse_part(text)?;
        parts.push(part);
        if number > 0 && within != inside {
            return Err("what is behind ! must be the same for all packages".to_owned());
        }
        inside = within;
    }
    let file = |part: &PythonPart| part.member.as_ref().is_some_and(|member| !member.ends_with('/'));
    if parts.len() > 1 && !parts.iter().all(file) {
        return Err("several packages can only be joined when each names a file".to_owned());
    }
    if inside.is_some() && !parts.iter().all(file) {
        return Err("before ! a package names a file, a zip archive".to_owned());
    }
    Ok(PythonSource { parts, inside })
}

/// One package, and what to take out of the archive that its member is.
fn parse_part(text: &str) -> Result<(PythonPart, Option<String>), String> {
    let (package, member) = match text.split_once(':') {
        Some((package, member)) => (package, Some(member)),
        None => (text, None),
    };
    let (name, version) =
        package.split_once("==").ok_or("expected py:name==version or py:name==version:member")?;
    let word = |part: &str, also: &[u8]| {
        part.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric())
            && part.len() <= 128
            && part.bytes().all(|b| b.is_ascii_alphanumeric() || also.contains(&b))
    };
    if !word(name, b"._-") {
        return Err(format!("{name:?} is no package name"));
    }
    if !word(version, b".!+_-") {
        return Err(format!("{version:?} is no exact version"));
    }
    let (member, inside) = match member.and_then(|member| member.split_once('!')) {
        Some((member, inside)) => (Some(member), Some(inside)),
        None => (member, None),
    };
    for path in [member, inside].into_iter().flatten() {
        check_relative(path.strip_suffix('/').unwrap_or(path))?;
    }
    if inside.is_some_and(|inside| inside.contains('!')) {
        return Err("a member has at most one !".to_owned());
    }
    let part =
        PythonPart { name: name.to_owned(), version: version.to_owned(), member: member.map(str::to_owned) };
    Ok((part, inside.map(str::to_owned)))
}

/// Expands the ranges in braces; all ranges advance together.
fn expand(text: &str) -> Result<Vec<String>, String> {
    enum Piece<'a> {
        Text(&'a str),
        Range { from: usize, width: usize },
    }
    let mut pieces = Vec::new();
    let mut count = None;
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        let (range, tail) = after.split_once('}').ok_or("a { has no }")?;
        let (from, to) =
            range.split_once("..").ok_or_else(|| format!("{{{range}}} is no range such as {{1..6}}"))?;
        let width = if from.starts_with('0') { from.len() } else { 0 };
        let number =
            |text: &str| text.parse::<usize>().map_err(|_| format!("{{{range}}} is no range of numbers"));
        let (from, to) = (number(from)?, number(to)?);
        let length =
            to.checked_sub(from).and_then(|d| d.checked_add(1)).filter(|&n| n <= MAX_PARTS && width <= 16);
        let length = length.ok_or_else(|| format!("{{{range}}} must rise and span at most {MAX_PARTS}"))?;
        if count.is_some_and(|count| count != length) {
            return Err("all ranges in braces must be of one length".to_owned());
        }
        count = Some(length);
        pieces.push(Piece::Text(before));
        pieces.push(Piece::Range { from, width });
        rest = tail;
    }
    pieces.push(Piece::Text(rest));
    let one = |index: usize| {
        pieces.iter().fold(String::new(), |mut text, piece| {
            match *piece {
                Piece::Text(piece) => text.push_str(piece),
                Piece::Range { from, width } => text.push_str(&format!("{:0width$}", from + index)),
            }
            text
        })
    };
    Ok((0..count.unwrap_or(1)).map(one).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_forms_are_read() {
        let hub = |repo: &str, revision: Option<&str>, file: Option<&str>| {
            ModelSource::Hub(HubSource {
                repo: repo.to_owned(),
                revision: revision.map(str::to_owned),
                file: file.map(str::to_owned),
            })
        };
        assert_eq!(ModelSource::parse("hf:a/b"), Ok(hub("a/b", None, None)));
        assert_eq!(ModelSource::parse("hf:gpt2"), Ok(hub("gpt2", None, None)));
        assert_eq!(ModelSource::parse("hf:a/b:x/y.gguf"), Ok(hub("a/b", None, Some("x/y.gguf"))));
        assert_eq!(ModelSource::parse("hf:a/b@v1:Q4_K_M"), Ok(hub("a/b", Some("v1"), Some("Q4_K_M"))));
        let sha = "ab".repeat(32);
        assert_eq!(
            ModelSource::parse(&format!("https://h/x.gguf?sig=1#sha256={}", sha.to_uppercase())),
            Ok(ModelSource::Url(UrlSource { url: "https://h/x.gguf?sig=1".to_owned(), sha256: Some(sha) }))
        );
    }

    #[test]
    fn ranges_advance_together_and_keep_their_width() {
        let python = |text: &str| match ModelSource::parse(text) {
            Ok(ModelSource::Python(python)) => python,
            other => panic!("{other:?}"),
        };
        let text: Vec<_> = python("py:p{1..3}==0.9:p{1..3}/x{00..02}.bin")
            .parts
            .iter()
            .map(|p| format!("{} {}", p.name, p.member.as_deref().unwrap()))
            .collect();
        assert_eq!(text, ["p1 p1/x00.bin", "p2 p2/x01.bin", "p3 p3/x02.bin"]);
        let source = ModelSource::parse("py:p{9..10}==0.9:m{9..10}").unwrap();
        assert_eq!(source.to_string(), "py:p9==0.9 … p10==0.9 (2 parts)");
        let versions = python("py:p==0.2.{9..11}:p/chunk.bin");
        let text: Vec<_> = versions.parts.iter().map(|p| format!("{}=={}", p.name, p.version)).collect();
        assert_eq!(text, ["p==0.2.9", "p==0.2.10", "p==0.2.11"]);
        assert_eq!(versions.to_string(), "py:p==0.2.9 … p==0.2.11 (3 parts)");
        assert_eq!(versions.inside, None);
    }

    #[test]
    fn behind_an_exclamation_mark_is_what_an_archive_holds() {
        let read = |text: &str| match ModelSource::parse(text) {
            Ok(ModelSource::Python(python)) => {
                Ok((python.parts[0].member.clone(), python.inside.clone(), python.to_string()))
            }
            Ok(other) => panic!("{other}"),
            Err(reason) => Err(reason),
        };
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(
            read("py:p==1:p/m.zip!m/model.gguf"),
            Ok((some("p/m.zip"), some("m/model.gguf"), "py:p==1:p/m.zip!m/model.gguf".to_owned()))
        );
        assert_eq!(
            read("py:p{1..2}==1:p{1..2}/x!m/"),
            Ok((some("p1/x"), some("m/"), "py:p1==1 … p2==1 (2 parts)!m/".to_owned()))
        );
        // An epoch in a version is no member.
        assert_eq!(read("py:p==1!2.0:x/m.gguf").unwrap().1, None);
        for (text, reason) in [
            ("py:p==1:!m/", "outside 1 to 512"),
            ("py:p==1:x!", "outside 1 to 512"),
            ("py:p==1:x!../m", "leaves its directory"),
            ("py:p==1:x!/m", "leaves its directory"),
            ("py:p==1:x!a.zip!b", "at most one !"),
            ("py:p==1:x/!m/", "before ! a package names a file"),
            ("py:p{1..2}==1:x{1..2}!m{1..2}/", "the same for all packages"),
        ] {
            let said = read(text).unwrap_err();
            assert!(said.contains(reason), "{text}: {said}");
        }
    }

    #[test]
    fn what_is_not_a_source_is_refused() {
        for text in [
            "hf:",
            "hf:a/b/c",
            "hf:../b",
            "hf:a/b:../../etc/passwd",
            "hf:a/b:/etc/passwd",
            "hf:a/b@../x",
            "hf:-a/b",
            "py:x",
            "py:x==",
            "py:==1",
            "py:-r==1",
            "py:x==1 --index-url=y",
            "py:x==1:../y",
            "py:x==1:/y",
            "py:x{1..2}==1",
            "py:x{1..2}==1:y{1..3}",
            "py:x{2..1}==1:y",
            "py:x{1..99999999}==1:y{1..99999999}",
            "py:x{1..==1",
            "py:x{a..b}==1:y",
            "https://",
            "https://u:p@h/x.gguf",
            "https://h/x#md5=1",
            "ftp://h/x",
        ] {
            assert!(ModelSource::parse(text).is_err(), "{text} was taken");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_breaks_the_reader(text in "(hf:|py:|https://)?[a-z0-9{}.=:!/@#_ é-]{0,60}") {
            if let Ok(source) = ModelSource::parse(&text) {
                proptest::prop_assert!(!source.to_string().is_empty());
                if let ModelSource::Python(python) = source {
                    proptest::prop_assert!((1..=MAX_PARTS).contains(&python.parts.len()));
                }
            }
            if check_relative(&text).is_ok() {
                let joined = std::path::Path::new("/base").join(&text);
                proptest::prop_assert!(joined.starts_with("/base") && text.split('/').all(|part| part != ".."), "{text}");
            }
        }
    }

    #[test]
    fn signatures_are_not_shown() {
        assert_eq!(
            ModelSource::parse("https://h/x.gguf?token=s3cret").unwrap().to_string(),
            "https://h/x.gguf"
        );
    }
}
