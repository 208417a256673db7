//! Regular expressions of the string formats of JSON Schema.

/// How a `format` is handled.
pub(super) enum Format {
    /// Enforced: strings must match this regular expression completely.
    Held(String),
    /// A standard format without an expression here: not enforced, with a warning.
    Standard,
    /// A format that the standard does not define: ignored, as the standard allows.
    Annotation,
}

const TIME: &str =
    r"(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{1,6})?(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])";
const LABEL: &str = "[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?";
const BYTE: &str = "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])";
const PATH: &str = "(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})";

/// Looks up a format by name.
pub(super) fn look_up(name: &str) -> Format {
    Format::Held(match name {
        "date" => date(),
        "time" => TIME.into(),
        "date-time" => format!("{}T{TIME}", date()),
        "duration" => duration(),
        "email" => {
            let atom = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]{1,20}";
            format!(r"{atom}(?:\.{atom}){{0,2}}@{LABEL}(?:\.{LABEL}){{0,2}}\.[A-Za-z]{{2,24}}")
        }
        "hostname" => format!(r"{LABEL}(?:\.{LABEL}){{0,3}}"),
        "ipv4" => ipv4(),
        "ipv6" => ipv6(),
        "uuid" => "[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}".into(),
        "uri" => uri(),
        "json-pointer" => "(?:/(?:[^/~]|~[01])*)*".into(),
        "relative-json-pointer" => "(?:0|[1-9][0-9]{0,8})(?:#|(?:/(?:[^/~]|~[01])*)*)".into(),
        "uri-reference" | "iri" | "iri-reference" | "uri-template" | "idn-email" | "idn-hostname"
        | "regex" => {
            return Format::Standard;
        }
        _ => return Format::Annotation,
    })
}

/// Valid calendar dates from the year 1 on.
fn date() -> String {
    let year = "(?!0000)[0-9]{4}";
    let leap = "(?!0000)(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)";
    let long = "(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])";
    let short = "(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)";
    format!("(?:{year}-(?:{long}|{short}|02-(?:0[1-9]|1[0-9]|2[0-8]))|{leap}-02-29)")
}

fn duration() -> String {
    let number = "[0-9]{1,4}";
    let time = format!("T(?:{number}H(?:{number}M(?:{number}S)?)?|{number}M(?:{number}S)?|{number}S)");
    let days = format!("(?:{number}Y(?:{number}M(?:{number}D)?)?|{number}M(?:{number}D)?|{number}D)");
    format!("P(?:{days}(?:{time})?|{time}|{number}W)")
}

fn ipv4() -> String {
    format!(r"(?:{BYTE}\.){{3}}{BYTE}")
}

fn ipv6() -> String {
    let h = "[0-9A-Fa-f]{1,4}";
    let last = format!("(?:{h}:{h}|{})", ipv4());
    let mut forms = vec![format!("(?:{h}:){{6}}{last}"), format!("::(?:{h}:){{5}}{last}")];
    for before in 1..=5 {
        let (front, behind) = (before - 1, 5 - before);
        forms.push(format!("(?:(?:{h}:){{0,{front}}}{h})?::(?:{h}:){{{behind}}}{last}"));
    }
    forms.push(format!("(?:(?:{h}:){{0,5}}{h})?::{h}"));
    forms.push(format!("(?:(?:{h}:){{0,6}}{h})?::"));
    format!("(?:{})", forms.join("|"))
}

fn uri() -> String {
    let name = format!(r"(?:{LABEL}(?:\.{LABEL})*|{}|\[{}\])", ipv4(), ipv6());
    let user = "(?:(?:[A-Za-z0-9._~!$&'()*+,;=:-]|%[0-9A-Fa-f]{2})*@)?";
    let authority = format!("//{user}{name}(?::[0-9]{{1,4}})?(?:/{PATH}*)*");
    let file = format!("//(?:/{PATH}+)+");
    let rootless = format!("{PATH}+(?:/{PATH}*)*");
    let tail = format!("(?:{PATH}|[/?])*");
    format!(
        r"[A-Za-z][A-Za-z0-9+.-]*:(?:{authority}|{file}|/(?:{rootless})?|{rootless})(?:\?{tail})?(?:#{tail})?"
    )
}
