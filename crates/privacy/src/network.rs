//! E-mail and network addresses.

use crate::kind::Kind;
use crate::numbers::Number;
use crate::sink::{LIKELY, SHAPE, SURE, Sink};
use std::net::Ipv6Addr;

/// Bytes of an address's local part and of its domain (RFC 5321, 4.5.3.1).
const LOCAL: usize = 64;
const DOMAIN: usize = 253;

/// Names of file types that stand where a top-level domain would: `icon@2x.png`.
const FILES: [&[u8]; 18] = [
    b"png", b"jpg", b"jpeg", b"gif", b"svg", b"webp", b"ico", b"css", b"js", b"ts", b"tsx", b"json", b"html",
    b"xml", b"txt", b"pdf", b"tgz", b"bmp",
];

fn is_local(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte >= 0x80 || b".!#$%&'*+-/=?^_`{|}~".contains(&byte)
}

/// Offers the address around an `@`.
pub(crate) fn email(sink: &mut Sink, at: usize) {
    let text = sink.text;
    let local = text[..at].iter().rev().take(LOCAL + 1).take_while(|&&byte| is_local(byte)).count();
    let mut start = at - local.min(LOCAL);
    // Signs that are allowed at the begin of an address, and mean something else there in texts.
    while start < at && !(text[start].is_ascii_alphanumeric() || text[start] >= 0x80 || text[start] == b'_') {
        start += 1;
    }
    // "email=a@b.c" and "to:a@b.c" in queries and forms; UTF-8's later bytes cannot begin a part.
    if let Some(sign) = text[start..at].iter().rposition(|byte| b"=/?&|'`{}".contains(byte)) {
        start += sign + 1;
    }
    while start < at && (text[start] & 0xC0 == 0x80) {
        start += 1;
    }
    let Some(end) = domain(text, at + 1) else { return };
    let name = &text[start..at];
    let dots =
        name.first() == Some(&b'.') || name.last() == Some(&b'.') || name.windows(2).any(|two| two == b"..");
    let ssh = name == b"git" && text.get(end) == Some(&b':');
    if !name.is_empty() && !dots && !ssh {
        sink.offer(Kind::Email, start, end, SURE);
    }
}

/// The end of the domain that begins there: labels, of which the last can be a top-level domain.
fn domain(text: &[u8], from: usize) -> Option<usize> {
    let is_domain = |byte: &u8| byte.is_ascii_alphanumeric() || *byte >= 0x80 || matches!(byte, b'.' | b'-');
    let long = text[from..].iter().take(DOMAIN).take_while(|byte| is_domain(byte)).count();
    let mut end = from + long;
    loop {
        while end > from && matches!(text[end - 1], b'.' | b'-') {
            end -= 1;
        }
        let dot = text[from..end].iter().rposition(|byte| *byte == b'.')? + from;
        let last = &text[dot + 1..end];
        let named = last.len() >= 2
            && (last.iter().all(|byte| byte.is_ascii_alphabetic() || *byte >= 0x80)
                || last.starts_with(b"xn--"));
        let labels = !text[from..end].split(|byte| *byte == b'.').any(<[u8]>::is_empty);
        let is_file = FILES.iter().any(|file| last.eq_ignore_ascii_case(file));
        if named && labels && !is_file {
            return Some(end);
        }
        if is_file {
            return None;
        }
        end = dot;
    }
}

/// Offers an IPv4 address: four octets, unless they name no host of anybody's.
pub(crate) fn ipv4(sink: &mut Sink, number: &Number) {
    let octets = number.lens.len() == 4 && number.seps == b"..." && number.lens.iter().all(|&len| len <= 3);
    if !octets || number.lead == b'+' {
        return;
    }
    let mut from = 0;
    let mut parts = [0_u64; 4];
    for (part, &len) in parts.iter_mut().zip(number.lens) {
        let digits = &number.digits[from..from + usize::from(len)];
        from += usize::from(len);
        *part = crate::checks::number(digits);
        if *part > 255 || (digits.len() > 1 && digits[0] == 0) {
            return;
        }
    }
    // Unspecified, loopback, masks and broadcast belong to nobody.
    if matches!(parts, [0 | 127 | 255, ..]) {
        return;
    }
    // Object identifiers and versions have small numbers.
    let small = parts.iter().all(|&part| part < 20);
    sink.offer(Kind::Ipv4, number.start, number.end, if small { 40 } else { 65 });
}

/// Offers what colons hold together around a place: IPv6 and MAC addresses. The end of what was looked at.
pub(crate) fn colons(sink: &mut Sink, at: usize, floor: usize) -> usize {
    let text = sink.text;
    let is_part = |byte: &u8| byte.is_ascii_hexdigit() || *byte == b':';
    let left = text[floor..at].iter().rev().take(46).take_while(|byte| is_part(byte)).count();
    let right = text[at..].iter().take(46).take_while(|byte| is_part(byte) || **byte == b'.').count();
    let (start, mut end) = (at - left, at + right);
    while end > at && (text[end - 1] == b'.' || (text[end - 1] == b':' && !text[..end].ends_with(b"::"))) {
        end -= 1;
    }
    let word = |at: Option<&u8>| at.is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    if word(start.checked_sub(1).map(|at| &text[at])) || word(text.get(end)) || end <= start {
        return at + right;
    }
    let found = &text[start..end];
    if found.len() == 17 && found.iter().enumerate().all(|(at, byte)| (at % 3 == 2) == (*byte == b':')) {
        mac(sink, start, end, SURE);
    } else if let Some(address) =
        std::str::from_utf8(found).ok().and_then(|text| text.parse::<Ipv6Addr>().ok())
    {
        let groups = found.split(|byte| *byte == b':').filter(|group| !group.is_empty()).count();
        let first = found.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
        let written = found.iter().any(u8::is_ascii_digit) && (groups >= 4 || (groups >= 2 && first == 4));
        if written && !address.is_loopback() && !address.is_unspecified() {
            sink.offer(Kind::Ipv6, start, end, SURE);
        }
    }
    at + right
}

/// Offers a MAC address that has hyphens or dots: `AA-BB-CC-DD-EE-FF`, `0011.2233.44ff`.
pub(crate) fn mac_word(sink: &mut Sink, start: usize) {
    let text = sink.text;
    if start > 0 && matches!(text[start - 1], b'.' | b'-' | b':' | b'/') {
        return;
    }
    let closed = |at: usize| !text.get(at).is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'-');
    let hyphens =
        |(at, byte): (usize, &u8)| if at % 3 == 2 { *byte == b'-' } else { byte.is_ascii_hexdigit() };
    let dots = |(at, byte): (usize, &u8)| if at % 5 == 4 { *byte == b'.' } else { byte.is_ascii_hexdigit() };
    if text.get(start..start + 17).is_some_and(|found| found.iter().enumerate().all(hyphens))
        && closed(start + 17)
    {
        mac(sink, start, start + 17, 90);
    } else if text
        .get(start..start + 14)
        .is_some_and(|found| found.iter().enumerate().all(dots) && found.iter().any(u8::is_ascii_alphabetic))
        && closed(start + 14)
    {
        mac(sink, start, start + 14, SHAPE + 10);
    }
}

fn mac(sink: &mut Sink, start: usize, end: usize, score: u8) {
    let mut nibbles = sink.text[start..end].iter().filter(|byte| byte.is_ascii_hexdigit());
    let first = nibbles.next().map(u8::to_ascii_lowercase);
    // All zeros or ones: no device's. Times such as 10:20:30:40:50:60 are rare enough.
    let one =
        nibbles.all(|byte| Some(byte.to_ascii_lowercase()) == first) && matches!(first, Some(b'0' | b'f'));
    if !one {
        sink.offer(Kind::Mac, start, end, score);
    }
}

/// Offers user and password of a URL whose `://` begins there.
pub(crate) fn url_credentials(sink: &mut Sink, at: usize) {
    let text = sink.text;
    let scheme = text[..at]
        .iter()
        .rev()
        .take(16)
        .take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'+')
        .count();
    let from = at + 3;
    let stop = |byte: &u8| byte.is_ascii_whitespace() || b"/?#\"'<>\\`()[]{}".contains(byte);
    let length = text[from..].iter().take(512).take_while(|byte| !stop(byte)).count();
    let authority = &text[from..from + length];
    let Some(host) = authority.iter().rposition(|byte| *byte == b'@') else { return };
    let Some(colon) = authority[..host].iter().position(|byte| *byte == b':') else { return };
    if scheme > 0 && host - colon > 1 && authority.len() > host + 1 {
        sink.offer(Kind::UrlCredentials, from, from + host, if colon > 0 { SURE + 1 } else { LIKELY });
    }
}
