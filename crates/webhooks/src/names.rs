//! Names of hosts: which are names at all, and which mean a machine of the server's own networks.

/// Names that are refused with everything below them.
const DOMAINS: &[&str] = &[
    "localhost",
    "localdomain",
    "local",
    "internal",
    "intranet",
    "private",
    "corp",
    "home",
    "lan",
    "home.arpa",
    "svc",
    "cluster.local",
];

/// Whether a text is a name by its letters: labels of letters, digits, `-` and `_`, each of 1 to 63, 253 in all. A name
/// whose last label is a number is an address in some notation, and none.
pub(crate) fn is_name(text: &str) -> bool {
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
    };
    text.len() <= 253 && text.split('.').all(label) && !ends_in_number(text)
}

/// Whether the last label is a number, as the URL standard decides what is an IPv4 address: digits, or `0x` and hex.
pub(crate) fn ends_in_number(text: &str) -> bool {
    let last = text.strip_suffix('.').unwrap_or(text).rsplit('.').next().unwrap_or_default();
    let hex = last.strip_prefix("0x").or_else(|| last.strip_prefix("0X"));
    match hex {
        Some(digits) => digits.bytes().all(|byte| byte.is_ascii_hexdigit()),
        None => !last.is_empty() && last.bytes().all(|byte| byte.is_ascii_digit()),
    }
}

/// Whether a name, in lower case and without a dot at its end, is of a network that is not public: one without a dot is
/// looked for in the server's own domains.
pub(crate) fn is_internal(name: &str) -> bool {
    let below =
        |domain: &str| name.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
    !name.contains('.') || DOMAINS.iter().any(|domain| below(domain))
}
