//! Addresses that are not of the public Internet: the special-purpose registries of IANA, and what lies beside them.
//!
//! Of IPv6, only what is allocated as global unicast (`2000::/3`) is public, and of that not the blocks listed here.
//! Addresses that hold an IPv4 address (NAT64, ISATAP, mapped ones) are as public as that one.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Why an address is no place for a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// `0.0.0.0/8`, `::`.
    Unspecified,
    /// `127.0.0.0/8`, `::1`.
    Loopback,
    /// RFC 1918, `fc00::/7`.
    Private,
    /// `100.64.0.0/10`: between a carrier and its customers.
    Shared,
    /// `169.254.0.0/16`, `fe80::/10`: where clouds keep their metadata.
    LinkLocal,
    /// Addresses outside these ranges by which a cloud talks to its machines.
    Metadata,
    /// Blocks for examples.
    Documentation,
    /// `198.18.0.0/15`, `2001:2::/48`.
    Benchmark,
    /// To many.
    Multicast,
    /// Protocols, transition and what nobody has been given.
    Reserved,
}

impl Class {
    /// The class in words, such as `private address`.
    pub fn name(self) -> &'static str {
        match self {
            Class::Unspecified => "unspecified address",
            Class::Loopback => "loopback address",
            Class::Private => "private address",
            Class::Shared => "shared address",
            Class::LinkLocal => "link-local address",
            Class::Metadata => "metadata address",
            Class::Documentation => "documentation address",
            Class::Benchmark => "benchmark address",
            Class::Multicast => "multicast address",
            Class::Reserved => "reserved address",
        }
    }

    /// Whether an operator who allows a host by its name means addresses of this class. Others need their range named.
    pub(crate) fn is_of_own_networks(self) -> bool {
        matches!(self, Class::Loopback | Class::Private | Class::Shared)
    }
}

impl std::fmt::Display for Class {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// A block: its first address, the bits of its prefix, its class.
type Block<Bits> = (Bits, u32, Class);

const fn v4(a: u8, b: u8, c: u8, d: u8, prefix: u32, class: Class) -> Block<u32> {
    (u32::from_be_bytes([a, b, c, d]), prefix, class)
}

const fn v6(first: [u16; 4], prefix: u32, class: Class) -> Block<u128> {
    (Ipv6Addr::new(first[0], first[1], first[2], first[3], 0, 0, 0, 0).to_bits(), prefix, class)
}

/// The first block that has an address decides.
const IPV4: &[Block<u32>] = &[
    v4(0, 0, 0, 0, 8, Class::Unspecified),
    v4(10, 0, 0, 0, 8, Class::Private),
    // Alibaba Cloud.
    v4(100, 100, 100, 200, 32, Class::Metadata),
    v4(100, 64, 0, 0, 10, Class::Shared),
    v4(127, 0, 0, 0, 8, Class::Loopback),
    // Azure.
    v4(168, 63, 129, 16, 32, Class::Metadata),
    v4(169, 254, 0, 0, 16, Class::LinkLocal),
    v4(172, 16, 0, 0, 12, Class::Private),
    v4(192, 0, 2, 0, 24, Class::Documentation),
    v4(192, 0, 0, 0, 24, Class::Reserved),
    // Relays of 6to4, which are no more.
    v4(192, 88, 99, 0, 24, Class::Reserved),
    v4(192, 168, 0, 0, 16, Class::Private),
    v4(198, 18, 0, 0, 15, Class::Benchmark),
    v4(198, 51, 100, 0, 24, Class::Documentation),
    v4(203, 0, 113, 0, 24, Class::Documentation),
    v4(224, 0, 0, 0, 4, Class::Multicast),
    v4(240, 0, 0, 0, 4, Class::Reserved),
];

/// The first block that has an address decides; what is in none and outside `2000::/3` is reserved.
const IPV6: &[Block<u128>] = &[
    v6([0, 0, 0, 0], 128, Class::Unspecified),
    (1, 128, Class::Loopback),
    // NAT64 of one network; what its addresses hold is its own affair.
    v6([0x64, 0xff9b, 1, 0], 48, Class::Reserved),
    v6([0x2001, 2, 0, 0], 48, Class::Benchmark),
    v6([0x2001, 0xdb8, 0, 0], 32, Class::Documentation),
    // Protocols, Teredo and ORCHID among them.
    v6([0x2001, 0, 0, 0], 23, Class::Reserved),
    // 6to4, which is no more.
    v6([0x2002, 0, 0, 0], 16, Class::Reserved),
    v6([0x3fff, 0, 0, 0], 20, Class::Documentation),
    v6([0xfc00, 0, 0, 0], 7, Class::Private),
    v6([0xfe80, 0, 0, 0], 10, Class::LinkLocal),
    v6([0xfec0, 0, 0, 0], 10, Class::Private),
    v6([0xff00, 0, 0, 0], 8, Class::Multicast),
];

/// Why an address is none of the public Internet; nothing if it is.
pub fn refused(address: IpAddr) -> Option<Class> {
    match address {
        IpAddr::V4(address) => refused_v4(address),
        IpAddr::V6(address) => refused_v6(address),
    }
}

fn refused_v4(address: Ipv4Addr) -> Option<Class> {
    let bits = address.to_bits();
    let block = IPV4.iter().find(|(first, prefix, _)| (bits ^ first) >> (32 - prefix) == 0);
    block.map(|(_, _, class)| *class)
}

fn refused_v6(address: Ipv6Addr) -> Option<Class> {
    let bits = address.to_bits();
    // A mapped address is dialed by IPv4, a NAT64 one is outside `2000::/3` and may be public nevertheless.
    if let Some(held) = address.to_ipv4_mapped().or_else(|| nat64(address)) {
        return refused_v4(held);
    }
    let block = IPV6.iter().find(|(first, prefix, _)| (bits ^ first) >> (128 - prefix) == 0);
    if let Some((_, _, class)) = block {
        return Some(*class);
    }
    if bits >> 125 != 1 {
        return Some(Class::Reserved);
    }
    isatap(address).and_then(refused_v4)
}

/// The IPv4 address in one of `64:ff9b::/96` (RFC 6052).
fn nat64(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let [.., a, b, c, d] = address.octets();
    matches!(address.segments(), [0x64, 0xff9b, 0, 0, 0, 0, ..]).then_some(Ipv4Addr::new(a, b, c, d))
}

/// The IPv4 address in one whose interface is ISATAP's (RFC 5214).
fn isatap(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let [.., a, b, c, d] = address.octets();
    let interface = (address.segments()[4], address.segments()[5]);
    matches!(interface, (0 | 0x200, 0x5efe)).then_some(Ipv4Addr::new(a, b, c, d))
}
