//! Keys, tokens and passwords: by the prefixes that their issuers gave them, or by the word beside them.

use crate::kind::Kind;
use crate::sink::{SURE, Sink};
use aho_corasick::{AhoCorasick, MatchKind};
use std::sync::LazyLock;

/// What the rest of a token is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Made {
    Hex,
    Base32,
    Alphanumeric,
    /// Letters, digits, `-` and `_`.
    UrlSafe,
    /// And `.`, as in parts of signed tokens.
    Dotted,
}

impl Made {
    fn has(self, byte: u8) -> bool {
        match self {
            Made::Hex => byte.is_ascii_hexdigit(),
            Made::Base32 => byte.is_ascii_uppercase() || matches!(byte, b'2'..=b'7'),
            Made::Alphanumeric => byte.is_ascii_alphanumeric(),
            Made::UrlSafe => byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'),
            Made::Dotted => byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'),
        }
    }
}

/// Prefixes of tokens, with what follows and its least and greatest length: the issuers' documentation, and their entries
/// in GitHub's list of supported secret-scanning patterns.
const PREFIXES: &[(&[u8], Made, usize, usize)] = &[
    // OpenAI, Anthropic, OpenRouter, DeepSeek.
    (b"sk-", Made::UrlSafe, 20, 200),
    (b"ghp_", Made::Alphanumeric, 36, 251),
    (b"gho_", Made::Alphanumeric, 36, 251),
    (b"ghu_", Made::Alphanumeric, 36, 251),
    (b"ghs_", Made::Dotted, 36, 1_024),
    (b"ghr_", Made::Alphanumeric, 36, 251),
    (b"github_pat_", Made::UrlSafe, 50, 251),
    (b"glpat-", Made::Dotted, 20, 300),
    (b"gldt-", Made::UrlSafe, 20, 60),
    (b"glrt-", Made::Dotted, 20, 300),
    (b"AKIA", Made::Base32, 16, 16),
    (b"ASIA", Made::Base32, 16, 16),
    (b"ABIA", Made::Base32, 16, 16),
    (b"xoxb-", Made::UrlSafe, 20, 200),
    (b"xoxp-", Made::UrlSafe, 20, 200),
    (b"xoxa-", Made::UrlSafe, 20, 200),
    (b"xoxs-", Made::UrlSafe, 20, 200),
    (b"xoxr-", Made::UrlSafe, 20, 200),
    (b"xoxe-", Made::UrlSafe, 20, 300),
    (b"xapp-", Made::UrlSafe, 20, 200),
    (b"AIza", Made::UrlSafe, 35, 35),
    (b"ya29.", Made::UrlSafe, 20, 2_048),
    (b"GOCSPX-", Made::UrlSafe, 28, 28),
    (b"sk_live_", Made::Alphanumeric, 16, 247),
    (b"sk_test_", Made::Alphanumeric, 16, 247),
    (b"rk_live_", Made::Alphanumeric, 16, 247),
    (b"rk_test_", Made::Alphanumeric, 16, 247),
    (b"whsec_", Made::Alphanumeric, 24, 100),
    (b"SG.", Made::Dotted, 60, 80),
    (b"hf_", Made::Alphanumeric, 30, 60),
    (b"npm_", Made::Alphanumeric, 36, 36),
    (b"pypi-AgE", Made::UrlSafe, 50, 300),
    (b"dop_v1_", Made::Hex, 64, 64),
    (b"doo_v1_", Made::Hex, 64, 64),
    (b"dor_v1_", Made::Hex, 64, 64),
    (b"shpat_", Made::Hex, 32, 32),
    (b"shpss_", Made::Hex, 32, 32),
    (b"shpca_", Made::Hex, 32, 32),
    (b"shppa_", Made::Hex, 32, 32),
    (b"glsa_", Made::UrlSafe, 32, 60),
    (b"lin_api_", Made::Alphanumeric, 30, 60),
    (b"hvs.", Made::UrlSafe, 24, 300),
    (b"nvapi-", Made::UrlSafe, 40, 100),
    (b"gsk_", Made::Alphanumeric, 40, 80),
    (b"r8_", Made::Alphanumeric, 37, 37),
    (b"pplx-", Made::Alphanumeric, 40, 64),
    (b"xai-", Made::Alphanumeric, 60, 100),
    (b"sq0atp-", Made::UrlSafe, 22, 43),
    (b"sq0csp-", Made::UrlSafe, 43, 43),
    (b"EAACEdEose0cBA", Made::Alphanumeric, 20, 300),
    (b"key-", Made::Hex, 32, 32),
    (b"PMAK-", Made::UrlSafe, 50, 70),
    (b"rubygems_", Made::Hex, 48, 48),
    (b"dckr_pat_", Made::UrlSafe, 20, 40),
    (b"ATATT3", Made::UrlSafe, 150, 250),
    (b"sntrys_", Made::Dotted, 40, 400),
    (b"phc_", Made::Alphanumeric, 40, 50),
    (b"fw_", Made::Alphanumeric, 22, 48),
    (b"tvly-", Made::UrlSafe, 20, 60),
    (b"AGE-SECRET-KEY-1", Made::Alphanumeric, 58, 58),
    (b"gristmill-", Made::UrlSafe, 20, 100),
];

/// The shortest token that is looked at.
pub(crate) const SHORTEST: usize = 16;

/// Bytes of a private key in PEM form that are looked through for its end.
const PEM: usize = 16 << 10;

/// Offers what a word of letters, digits, `-` and `_` may be. The end of what was found, or of the word.
pub(crate) fn word(sink: &mut Sink, start: usize, end: usize) -> usize {
    let text = sink.text;
    // A prefix may follow another word: "Bearer_sk-…" is rare, "key=sk-…" is not and begins a word.
    for (prefix, made, least, most) in PREFIXES {
        let Some(rest) = text[start..].strip_prefix(*prefix) else { continue };
        let length = rest.iter().take(most + 1).take_while(|byte| made.has(**byte)).count();
        let body = &rest[..length];
        // A sentence's full stop is no part of a token.
        let trimmed = length - body.iter().rev().take_while(|byte| **byte == b'.').count();
        let various = body.iter().any(u8::is_ascii_digit) || body.iter().any(u8::is_ascii_uppercase);
        if (*least..=*most).contains(&trimmed) && various && entropy(body) > 2.5 {
            let kind = if *prefix == b"AGE-SECRET-KEY-1" { Kind::PrivateKey } else { Kind::ApiKey };
            let found = start + prefix.len() + trimmed;
            sink.offer(kind, start, found, SURE);
            return found.max(end);
        }
    }
    if text[start..].starts_with(b"eyJ")
        && let Some(found) = jwt(text, start)
    {
        sink.offer(Kind::Jwt, start, found, SURE);
        return found.max(end);
    }
    end
}

/// The end of a token of three parts in base64 whose first two are JSON objects (RFC 7519).
fn jwt(text: &[u8], start: usize) -> Option<usize> {
    let part = |from: usize| {
        let length = text[from..].iter().take(8_192).take_while(|byte| Made::UrlSafe.has(**byte)).count();
        from + length
    };
    let first = part(start);
    let second =
        (text.get(first) == Some(&b'.') && text[first + 1..].starts_with(b"eyJ")).then(|| part(first + 1))?;
    let third = if text.get(second) == Some(&b'.') { part(second + 1) } else { return None };
    (first - start >= 10 && second - first >= 10).then_some(third)
}

/// Offers a private key whose `-----BEGIN` begins there, to its end or as far as it goes. The end of what was found.
pub(crate) fn pem(sink: &mut Sink, start: usize) -> Option<usize> {
    let text = sink.text;
    let head = &text[start..text.len().min(start + 64)];
    let title = head.windows(5).skip(11).position(|five| five == b"-----")? + 11;
    if !head[..title].ends_with(b"PRIVATE KEY") && !head[..title].ends_with(b"PRIVATE KEY BLOCK") {
        return None;
    }
    let body = &text[start + title..text.len().min(start + PEM)];
    let closing = body.windows(9).position(|nine| nine == b"-----END ");
    let end = match closing {
        Some(at) => {
            let from = start + title + at;
            let line = text[from..]
                .iter()
                .take(64)
                .position(|byte| *byte == b'\n' || *byte == b'"' || *byte == b'\\');
            from + line.unwrap_or_else(|| text.len().min(from + 64) - from)
        }
        None => start + title + body.len(),
    };
    // What a long line holds behind the end is not the key's.
    let end = end.max(start + title + 5).min(text.len());
    sink.offer(Kind::PrivateKey, start, end, 100);
    Some(end)
}

/// Names of what is secret; the first are passwords, which may be short.
const NAMES: [&str; 25] = [
    "password",
    "passwd",
    "passphrase",
    "passwort",
    "wachtwoord",
    "pwd",
    "secret",
    "token",
    "api_key",
    "apikey",
    "api-key",
    "api key",
    "access_key",
    "accesskey",
    "access key",
    "private_key",
    "private key",
    "account_key",
    "accountkey",
    "sharedaccesskey",
    "authorization",
    "credential",
    "credentials",
    "auth_key",
    "secret_key",
];
const PASSWORDS: usize = 6;

static WORDS: LazyLock<AhoCorasick> = LazyLock::new(|| {
    let mut builder = AhoCorasick::builder();
    let built = builder.ascii_case_insensitive(true).match_kind(MatchKind::LeftmostLongest).build(NAMES);
    // A few short words always make an automaton.
    built.unwrap_or_else(|error| unreachable!("{error}"))
});

/// Offers the whole text where its key says that it is a secret: `{"password": "…"}`.
pub(crate) fn whole(sink: &mut Sink) {
    if is_secret(sink.text, 6) && sink.text.len() <= 512 && !sink.text.contains(&b' ') {
        sink.offer(Kind::Password, 0, sink.text.len(), 60);
    }
}

/// Offers a token or password that stands behind a word that says so and a sign: `password: …`, `TOKEN=…`, `Bearer …`.
pub(crate) fn assigned(sink: &mut Sink, at: usize) {
    let text = sink.text;
    let name = name_before(text, at);
    if name.is_empty() || !sink.wants(Kind::Password) {
        return;
    }
    let mut password = None;
    for found in WORDS.find_iter(name) {
        let is_password = found.pattern().as_usize() < PASSWORDS;
        // "password_hint" is one too; "token_count" is no token.
        if is_password || found.end() == name.len() {
            password = Some(is_password || password == Some(true));
        }
    }
    let Some(password) = password else { return };
    let Some((start, end)) = value_after(text, at + 1) else { return };
    let value = &text[start..end];
    if is_secret(value, if password { 6 } else { 12 }) {
        sink.offer(Kind::Password, start, end, if password { 85 } else { 75 });
    }
}

/// Offers the token behind "Bearer" or "Basic".
pub(crate) fn bearer(sink: &mut Sink, end_of_word: usize) {
    let Some((start, end)) = value_after(sink.text, end_of_word) else { return };
    if is_secret(&sink.text[start..end], 16) {
        sink.offer(Kind::Password, start, end, 80);
    }
}

/// The name before a sign, without quotes and spaces.
fn name_before(text: &[u8], at: usize) -> &[u8] {
    let before = &text[at.saturating_sub(40)..at];
    let skipped = before
        .iter()
        .rev()
        .take(3)
        .take_while(|byte| matches!(byte, b' ' | b'"' | b'\'' | b'\\' | b'`' | b'*'))
        .count();
    let before = &before[..before.len() - skipped];
    let long = before
        .iter()
        .rev()
        .take_while(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b' '))
        .count();
    &before[before.len() - long..]
}

/// The value behind a sign: its range, without quotes.
fn value_after(text: &[u8], from: usize) -> Option<(usize, usize)> {
    let skipped = text[from..]
        .iter()
        .take(4)
        .take_while(|byte| matches!(byte, b' ' | b'"' | b'\'' | b'\\' | b'=' | b'`' | b'>'))
        .count();
    let start = from + skipped;
    let is_end = |byte: &u8| byte.is_ascii_whitespace() || b"\"'`,;<>()[]{}\\|".contains(byte);
    let length = text[start..].iter().take(513).take_while(|byte| !is_end(byte)).count();
    let mut end = start + length;
    while end > start && matches!(text[end - 1], b'.' | b'!' | b'?' | b':') {
        end -= 1;
    }
    (length <= 512 && end > start).then_some((start, end))
}

/// Whether a value looks like a secret: long and mixed enough, and neither a name in code nor a placeholder.
fn is_secret(value: &[u8], least: usize) -> bool {
    let digits = value.iter().filter(|byte| byte.is_ascii_digit()).count();
    let letters = value.iter().filter(|byte| byte.is_ascii_alphabetic()).count();
    let signs = value.len() - digits - letters;
    let template = value.starts_with(b"$")
        || value.starts_with(b"%")
        || value.starts_with(b"<")
        || value.starts_with(b"{");
    let path = value.starts_with(b"/")
        || value.starts_with(b"http")
        || value.starts_with(b"os.")
        || value.starts_with(b"process.");
    let mixed =
        digits > 0 && (letters > 0 || digits == value.len() && least < 12) || (signs > 0 && digits > 0);
    // A password may have signs and no digit: "Tr!ckster#".
    let signed = least < 12 && value.iter().any(|byte| b"!@#$%^&*+".contains(byte));
    value.len() >= least
        && !template
        && !path
        && (mixed || signed)
        && entropy(value) >= if least < 12 { 2.0 } else { 3.0 }
}

/// Shannon's entropy of the bytes, in bits a byte.
fn entropy(bytes: &[u8]) -> f32 {
    let mut counts = [0_u16; 256];
    let taken = bytes.iter().take(512);
    taken.clone().for_each(|byte| counts[usize::from(*byte)] += 1);
    let all = taken.count() as f32;
    let parts = counts.iter().filter(|&&count| count > 0);
    parts.map(|&count| f32::from(count) / all).map(|part| -part * part.log2()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_looks_like_a_secret() {
        for value in ["hunter2!", "S3cure#Pass", "123456", "Tr!ckster#"] {
            assert!(is_secret(value.as_bytes(), 6), "{value}");
        }
        for value in ["${PASSWORD}", "required", "str", "os.getenv1", "/run/secret1"] {
            assert!(!is_secret(value.as_bytes(), 6), "{value}");
        }
        assert!(is_secret(b"wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", 12));
        assert!(!is_secret(b"max_tokens", 12));
    }
}
