//! Where a message may go, by its URL: what can be told before the host is looked up.
//!
//! A URL has one reading only: whatever another program might read as another host is refused (spaces, backslashes,
//! user names, percent signs, numbers for addresses, letters beyond ASCII).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::addresses::AddressRules;
use crate::names;
use crate::ranges::Class;

/// The longest URL, in bytes.
pub const MOST_URL_BYTES: usize = 2_048;
const HTTPS_PORT: u16 = 443;
const HTTP_PORT: u16 = 80;
/// Ports below belong to services of the system.
const FIRST_FREE_PORT: u16 = 1_024;

/// The parts of a URL to which a message may go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Whether the connection is encrypted.
    pub tls: bool,
    /// The host.
    pub host: Host,
    /// The port.
    pub port: u16,
    /// Path and query, from `/` on.
    pub path: String,
    /// Whether a rule names the host.
    pub host_allowed: bool,
}

/// A host as a URL names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Host {
    /// A name, in lower case and without a dot at its end.
    Name(String),
    /// An address.
    Address(IpAddr),
}

/// Why nothing is sent to a URL. The texts do not tell which address a name has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// Too long.
    #[error("the URL has {0} bytes; at most {MOST_URL_BYTES} are taken")]
    Long(usize),
    /// Neither `https` nor `http`.
    #[error("the URL must begin with https://")]
    Scheme,
    /// `http` to a host that no rule names.
    #[error("the URL must begin with https://; http:// is for hosts and addresses that the operator allows")]
    Plain,
    /// A character that URLs do not have.
    #[error(
        "the URL has the character {0:?}, which must be percent-encoded; names of hosts are written in Punycode"
    )]
    Character(char),
    /// A name or a password.
    #[error("the URL has a user name or a password; neither is taken")]
    User,
    /// A fragment.
    #[error("the URL has a fragment (`#`), which is never sent")]
    Fragment,
    /// No host, or none that can be.
    #[error("the URL's host {0:?} is no name of a host")]
    Host(String),
    /// A number in place of an address.
    #[error("the URL's host {0:?} is a number; addresses are written as four decimal numbers")]
    Number(String),
    /// An IPv6 address that is none, or has a zone.
    #[error("the URL's host [{0}] is no IPv6 address; zones are not taken")]
    Ipv6(String),
    /// Not a port, or one of the system's.
    #[error("the URL's port {0:?} is not 443 and not between 1024 and 65535")]
    Port(String),
    /// A name of the server's own networks.
    #[error("the URL's host is an internal name")]
    Internal,
    /// An address that is not public.
    #[error("the address of the URL's host is not public: {0}")]
    Address(Class),
}

impl Target {
    /// Reads a URL and checks what can be checked without a lookup.
    ///
    /// # Errors
    /// Why nothing may be sent there.
    pub fn parse(url: &str, rules: &AddressRules) -> Result<Target, Refused> {
        check_characters(url)?;
        let (tls, rest) = scheme_of(url).ok_or(Refused::Scheme)?;
        let (authority, path) = rest.find(['/', '?']).map_or((rest, ""), |at| rest.split_at(at));
        if authority.contains('@') {
            return Err(Refused::User);
        }
        let (host, port) = split_port(authority)?;
        let host = Host::parse(host)?;
        let port = port_of(port, tls)?;
        let host_allowed = match &host {
            Host::Name(name) => rules.allows_host(name),
            Host::Address(_) => false,
        };
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        let target = Target { tls, host, port, path, host_allowed };
        target.check(rules)?;
        Ok(target)
    }

    fn check(&self, rules: &AddressRules) -> Result<(), Refused> {
        match &self.host {
            Host::Name(_) if self.host_allowed => Ok(()),
            Host::Name(name) if names::is_internal(name) => Err(Refused::Internal),
            // A name without a rule may turn out to be in an allowed range.
            Host::Name(_) if !self.tls && !rules.has_ranges() => Err(Refused::Plain),
            Host::Name(_) => Ok(()),
            Host::Address(address) => self.check_address(*address, rules),
        }
    }

    /// Checks an address of the host: public, or allowed by a rule. Without TLS a rule must name the host or the address.
    ///
    /// # Errors
    /// Why nothing may be sent there.
    pub fn check_address(&self, address: IpAddr, rules: &AddressRules) -> Result<(), Refused> {
        rules.check(self.host_allowed, address).map_err(Refused::Address)?;
        if self.tls || self.host_allowed || rules.allows_address(address) {
            Ok(())
        } else {
            Err(Refused::Plain)
        }
    }

    /// The value of the header `Host`.
    pub fn authority(&self) -> String {
        let default = if self.tls { HTTPS_PORT } else { HTTP_PORT };
        if self.port == default { self.host.to_string() } else { format!("{}:{}", self.host, self.port) }
    }
}

impl Host {
    fn parse(text: &str) -> Result<Host, Refused> {
        if let Some(rest) = text.strip_prefix('[') {
            let inner = rest.strip_suffix(']').unwrap_or(rest);
            let address: Ipv6Addr = inner.parse().map_err(|_| Refused::Ipv6(inner.to_owned()))?;
            return Ok(Host::Address(IpAddr::V6(address)));
        }
        let name = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
        if names::ends_in_number(&name) {
            let address: Ipv4Addr = name.parse().map_err(|_| Refused::Number(text.to_owned()))?;
            return Ok(Host::Address(IpAddr::V4(address)));
        }
        if names::is_name(&name) { Ok(Host::Name(name)) } else { Err(Refused::Host(text.to_owned())) }
    }
}

impl std::fmt::Display for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Host::Name(name) => f.write_str(name),
            Host::Address(IpAddr::V4(address)) => write!(f, "{address}"),
            Host::Address(IpAddr::V6(address)) => write!(f, "[{address}]"),
        }
    }
}

fn check_characters(url: &str) -> Result<(), Refused> {
    if url.len() > MOST_URL_BYTES {
        return Err(Refused::Long(url.len()));
    }
    match url.chars().find(|c| !c.is_ascii_graphic() || "\"<>\\^`{|}#".contains(*c)) {
        Some('#') => Err(Refused::Fragment),
        Some(other) => Err(Refused::Character(other)),
        None => Ok(()),
    }
}

/// Whether the scheme encrypts, and what follows it.
fn scheme_of(url: &str) -> Option<(bool, &str)> {
    let (scheme, rest) = url.split_once("://")?;
    if scheme.eq_ignore_ascii_case("https") {
        Some((true, rest))
    } else if scheme.eq_ignore_ascii_case("http") {
        Some((false, rest))
    } else {
        None
    }
}

/// The host and the digits of the port, if there are any.
fn split_port(authority: &str) -> Result<(&str, Option<&str>), Refused> {
    if authority.starts_with('[') {
        let end = authority.find(']').ok_or_else(|| Refused::Ipv6(authority[1..].to_owned()))?;
        let (host, rest) = authority.split_at(end + 1);
        return match rest.strip_prefix(':') {
            Some(port) => Ok((host, Some(port))),
            None if rest.is_empty() => Ok((host, None)),
            None => Err(Refused::Host(authority.to_owned())),
        };
    }
    Ok(authority.split_once(':').map_or((authority, None), |(host, port)| (host, Some(port))))
}

fn port_of(digits: Option<&str>, tls: bool) -> Result<u16, Refused> {
    let default = if tls { HTTPS_PORT } else { HTTP_PORT };
    let Some(digits) = digits else { return Ok(default) };
    let wrong = || Refused::Port(digits.to_owned());
    if digits.is_empty() || digits.starts_with('0') || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(wrong());
    }
    let port: u16 = digits.parse().map_err(|_| wrong())?;
    if port >= FIRST_FREE_PORT || port == HTTPS_PORT || port == default { Ok(port) } else { Err(wrong()) }
}
