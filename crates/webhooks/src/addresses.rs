//! Addresses and hosts that an operator allows although they are not of the public Internet.

use std::net::IpAddr;

use crate::ranges::{Class, refused};

/// Rules that are kept.
const MOST_RULES: usize = 1_024;

/// What an operator allows.
#[derive(Clone, Debug, Default)]
pub struct AddressRules {
    ranges: Vec<Cidr>,
    hosts: Vec<HostRule>,
}

/// A range of addresses, such as `10.1.0.0/16`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cidr {
    first: IpAddr,
    prefix: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum HostRule {
    Exactly(String),
    /// With the dot: `*.corp.internal` is `.corp.internal`.
    Below(String),
}

/// A rule that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    /// Neither a range nor a host.
    #[error("{0:?} is neither a range such as 10.1.0.0/16, nor an address, a host or *.DOMAIN")]
    Unreadable(String),
    /// A prefix that is too long.
    #[error("{0:?} has a prefix of {1} bits; an address has {2}")]
    Prefix(String, u32, u32),
    /// A range whose first address is another one.
    #[error("{0:?} is no range: its first address is {1}")]
    First(String, IpAddr),
    /// Too many rules.
    #[error("{0} rules of allowed addresses; at most {MOST_RULES} are taken")]
    TooMany(usize),
}

impl AddressRules {
    /// Reads rules: ranges, addresses, hosts and `*.DOMAIN`, each a text; commas between them are read too.
    ///
    /// # Errors
    /// A rule that is none of these.
    pub fn parse<T: AsRef<str>>(rules: impl IntoIterator<Item = T>) -> Result<AddressRules, RuleError> {
        let mut all = AddressRules::default();
        for text in rules {
            for rule in text.as_ref().split(',').map(str::trim).filter(|rule| !rule.is_empty()) {
                all.add(rule)?;
            }
        }
        let count = all.ranges.len() + all.hosts.len();
        if count > MOST_RULES { Err(RuleError::TooMany(count)) } else { Ok(all) }
    }

    fn add(&mut self, rule: &str) -> Result<(), RuleError> {
        let bare = rule.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(rule);
        if bare.contains('/') || bare.parse::<IpAddr>().is_ok() {
            self.ranges.push(Cidr::parse(bare)?);
            return Ok(());
        }
        let (below, name) = match rule.strip_prefix("*.") {
            Some(name) => (true, name),
            None => (false, rule),
        };
        let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
        if !crate::names::is_name(&name) {
            return Err(RuleError::Unreadable(rule.to_owned()));
        }
        self.hosts.push(if below { HostRule::Below(format!(".{name}")) } else { HostRule::Exactly(name) });
        Ok(())
    }

    /// Whether a rule names this host, which is in lower case.
    pub fn allows_host(&self, host: &str) -> bool {
        self.hosts.iter().any(|rule| match rule {
            HostRule::Exactly(name) => host == name,
            HostRule::Below(end) => host.ends_with(end.as_str()),
        })
    }

    /// Whether a rule names a range with this address.
    pub fn allows_address(&self, address: IpAddr) -> bool {
        self.ranges.iter().any(|range| range.contains(address))
    }

    /// Whether a rule names any range.
    pub fn has_ranges(&self) -> bool {
        !self.ranges.is_empty()
    }

    /// Checks an address to which a host was resolved. `host_allowed` is the answer of [`AddressRules::allows_host`].
    ///
    /// # Errors
    /// The class of an address to which nothing is sent.
    pub fn check(&self, host_allowed: bool, address: IpAddr) -> Result<(), Class> {
        match refused(address) {
            None => Ok(()),
            Some(_) if self.allows_address(address) => Ok(()),
            Some(class) if host_allowed && class.is_of_own_networks() => Ok(()),
            Some(class) => Err(class),
        }
    }
}

impl Cidr {
    /// Reads `ADDRESS/BITS`, or an address as the range of it alone.
    ///
    /// # Errors
    /// A text that is none, a prefix that is too long, or bits beyond it.
    pub fn parse(text: &str) -> Result<Cidr, RuleError> {
        let unreadable = || RuleError::Unreadable(text.to_owned());
        let (address, bits) =
            text.split_once('/').map_or((text, None), |(address, bits)| (address, Some(bits)));
        let first: IpAddr = address.parse().map_err(|_| unreadable())?;
        let width = if first.is_ipv4() { 32 } else { 128 };
        let prefix = match bits {
            None => width,
            Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                digits.parse().map_err(|_| unreadable())?
            }
            Some(_) => return Err(unreadable()),
        };
        if prefix > width {
            return Err(RuleError::Prefix(text.to_owned(), prefix, width));
        }
        let range = Cidr { first: canonical(first), prefix };
        let start = start_of(first, prefix);
        if start != first {
            return Err(RuleError::First(text.to_owned(), start));
        }
        // A range of mapped addresses is the range of the IPv4 ones.
        match (first, range.first) {
            (IpAddr::V6(_), IpAddr::V4(_)) if prefix >= 96 => Ok(Cidr { prefix: prefix - 96, ..range }),
            (IpAddr::V6(_), IpAddr::V4(_)) => Ok(Cidr { first, prefix }),
            _ => Ok(range),
        }
    }

    /// Whether an address is in the range. Mapped ones (`::ffff:10.0.0.1`) are what they are mapped to.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (canonical(address), self.first) {
            (IpAddr::V4(_), IpAddr::V4(_)) | (IpAddr::V6(_), IpAddr::V6(_)) => {
                start_of(canonical(address), self.prefix) == self.first
            }
            _ => false,
        }
    }
}

fn canonical(address: IpAddr) -> IpAddr {
    address.to_canonical()
}

/// The first address of the range of `prefix` bits with this address.
fn start_of(address: IpAddr, prefix: u32) -> IpAddr {
    match address {
        IpAddr::V4(address) => {
            let mask = u32::MAX.checked_shl(32 - prefix).unwrap_or(0);
            IpAddr::V4((address.to_bits() & mask).into())
        }
        IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(128 - prefix).unwrap_or(0);
            IpAddr::V6((address.to_bits() & mask).into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn rules_are_ranges_addresses_hosts_and_domains() {
        let rules = AddressRules::parse([
            "10.1.0.0/16, fd00::/8",
            "192.168.1.7",
            "Hooks.Corp",
            "*.svc.cluster.local",
        ]);
        let rules = rules.unwrap();
        for allowed in ["10.1.255.255", "fd12::1", "192.168.1.7", "::ffff:10.1.0.1"] {
            assert!(rules.allows_address(ip(allowed)), "{allowed}");
        }
        for other in ["10.2.0.0", "fc00::1", "192.168.1.8", "::a01:1"] {
            assert!(!rules.allows_address(ip(other)), "{other}");
        }
        assert!(rules.allows_host("hooks.corp") && rules.allows_host("a.b.svc.cluster.local"));
        assert!(!rules.allows_host("a.hooks.corp") && !rules.allows_host("svc.cluster.local"));
        assert!(!rules.allows_host("evilsvc.cluster.local"));
        assert!(AddressRules::parse(["0.0.0.0/0"]).unwrap().allows_address(ip("127.0.0.1")));
        assert!(AddressRules::parse(["::ffff:10.0.0.0/104"]).unwrap().allows_address(ip("10.9.9.9")));
    }

    #[test]
    fn rules_that_are_none_are_refused() {
        let of = |text: &str| AddressRules::parse([text]).unwrap_err();
        for text in
            ["10.0.0.0/", "10.0.0/8", "10.0.0.0/+8", "*", "*.", "a b", "http://x", "x:80", "a..b", "[::1"]
        {
            assert_eq!(of(text), RuleError::Unreadable(text.to_owned()));
        }
        assert_eq!(of("10.0.0.0/33"), RuleError::Prefix("10.0.0.0/33".to_owned(), 33, 32));
        assert_eq!(of("10.0.0.1/8"), RuleError::First("10.0.0.1/8".to_owned(), ip("10.0.0.0")));
        assert_eq!(AddressRules::parse(vec!["a.example"; 1_025]).unwrap_err(), RuleError::TooMany(1_025));
    }

    #[test]
    fn abuse_a_host_that_is_allowed_by_name_does_not_open_the_metadata() {
        let rules = AddressRules::parse(["hooks.corp"]).unwrap();
        for own in ["10.0.0.1", "127.0.0.1", "::1", "fd00::1", "100.64.0.1", "::ffff:192.168.0.1"] {
            assert_eq!(rules.check(true, ip(own)), Ok(()), "{own}");
            assert!(rules.check(false, ip(own)).is_err(), "{own}");
        }
        assert_eq!(rules.check(true, ip("169.254.169.254")), Err(Class::LinkLocal));
        assert_eq!(rules.check(true, ip("100.100.100.200")), Err(Class::Metadata));
        assert_eq!(rules.check(true, ip("224.0.0.1")), Err(Class::Multicast));
        let range = AddressRules::parse(["169.254.0.0/16"]).unwrap();
        assert_eq!(range.check(false, ip("169.254.169.254")), Ok(()));
    }
}
