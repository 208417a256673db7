//! Which addresses are public: a table of the registries, and what Python's `ipaddress` says of 2,000 of them.

use std::net::IpAddr;

use webhooks::ranges::Class::{self, *};
use webhooks::ranges::refused;

/// Addresses, and why nothing is sent to them.
const TABLE: &[(&str, Option<Class>)] = &[
    ("0.0.0.0", Some(Unspecified)),
    ("0.255.255.255", Some(Unspecified)),
    ("1.0.0.0", None),
    ("9.255.255.255", None),
    ("10.0.0.0", Some(Private)),
    ("10.255.255.255", Some(Private)),
    ("11.0.0.0", None),
    ("100.63.255.255", None),
    ("100.64.0.0", Some(Shared)),
    ("100.100.100.200", Some(Metadata)),
    ("100.127.255.255", Some(Shared)),
    ("100.128.0.0", None),
    ("126.255.255.255", None),
    ("127.0.0.1", Some(Loopback)),
    ("127.255.255.255", Some(Loopback)),
    ("128.0.0.0", None),
    ("168.63.129.15", None),
    ("168.63.129.16", Some(Metadata)),
    ("169.253.255.255", None),
    ("169.254.169.254", Some(LinkLocal)),
    ("169.254.170.2", Some(LinkLocal)),
    ("169.255.0.0", None),
    ("172.15.255.255", None),
    ("172.16.0.0", Some(Private)),
    ("172.31.255.255", Some(Private)),
    ("172.32.0.0", None),
    ("191.255.255.255", None),
    ("192.0.0.0", Some(Reserved)),
    ("192.0.0.192", Some(Reserved)),
    ("192.0.1.0", None),
    ("192.0.2.1", Some(Documentation)),
    ("192.88.99.1", Some(Reserved)),
    ("192.167.255.255", None),
    ("192.168.0.1", Some(Private)),
    ("192.169.0.0", None),
    ("198.17.255.255", None),
    ("198.18.0.0", Some(Benchmark)),
    ("198.19.255.255", Some(Benchmark)),
    ("198.20.0.0", None),
    ("198.51.100.7", Some(Documentation)),
    ("203.0.113.7", Some(Documentation)),
    ("223.255.255.255", None),
    ("224.0.0.1", Some(Multicast)),
    ("239.255.255.250", Some(Multicast)),
    ("240.0.0.0", Some(Reserved)),
    ("255.255.255.255", Some(Reserved)),
    ("8.8.8.8", None),
    ("::", Some(Unspecified)),
    ("::1", Some(Loopback)),
    ("::2", Some(Reserved)),
    ("::7f00:1", Some(Reserved)),
    ("::8.8.8.8", Some(Reserved)),
    ("::ffff:127.0.0.1", Some(Loopback)),
    ("::ffff:169.254.169.254", Some(LinkLocal)),
    ("::ffff:a00:1", Some(Private)),
    ("::ffff:8.8.8.8", None),
    ("::ffff:0:127.0.0.1", Some(Reserved)),
    ("64:ff9b::7f00:1", Some(Loopback)),
    ("64:ff9b::10.0.0.1", Some(Private)),
    ("64:ff9b::a9fe:a9fe", Some(LinkLocal)),
    ("64:ff9b::8.8.8.8", None),
    ("64:ff9b:0:0:0:1:808:808", Some(Reserved)),
    ("64:ff9b:1::808:808", Some(Reserved)),
    ("100::1", Some(Reserved)),
    ("1fff:ffff::1", Some(Reserved)),
    ("2000::1", None),
    ("2001::1", Some(Reserved)),
    ("2001:0:4136:e378:8000:63bf:3fff:fdd2", Some(Reserved)),
    ("2001:2::1", Some(Benchmark)),
    ("2001:10::1", Some(Reserved)),
    ("2001:20::1", Some(Reserved)),
    ("2001:1ff:ffff::1", Some(Reserved)),
    ("2001:200::1", None),
    ("2001:db8::1", Some(Documentation)),
    ("2001:4860:4860::8888", None),
    ("2002:7f00:1::", Some(Reserved)),
    ("2002:a9fe:a9fe::1", Some(Reserved)),
    ("2002:808:808::1", Some(Reserved)),
    ("2003::1", None),
    ("2606:4700:4700::1111", None),
    ("2606:4700::5efe:10.0.0.1", Some(Private)),
    ("2606:4700::200:5efe:127.0.0.1", Some(Loopback)),
    ("2606:4700::5efe:8.8.8.8", None),
    ("2a00:1450:4001:82a::200e", None),
    ("3ffe:ffff::1", None),
    ("3fff::1", Some(Documentation)),
    ("3fff:fff:ffff::1", Some(Documentation)),
    ("3fff:1000::1", None),
    ("4000::1", Some(Reserved)),
    ("5f00::1", Some(Reserved)),
    ("fbff:ffff::1", Some(Reserved)),
    ("fc00::1", Some(Private)),
    ("fd00:ec2::254", Some(Private)),
    ("fe00::1", Some(Reserved)),
    ("fe80::1", Some(LinkLocal)),
    ("febf:ffff::1", Some(LinkLocal)),
    ("fec0::1", Some(Private)),
    ("ff02::1", Some(Multicast)),
    ("ff0e::1", Some(Multicast)),
];

#[test]
fn abuse_addresses_that_are_not_public() {
    for (text, class) in TABLE {
        let address: IpAddr = text.parse().unwrap();
        assert_eq!(refused(address), *class, "{text}");
    }
    assert!(TABLE.len() >= 80);
}

/// Blocks that Python calls global and that are refused nevertheless.
const STRICTER: &[(&str, u32, &str)] = &[
    ("100.64.0.0", 10, "shared, which Python overlooks in mapped ones"),
    ("224.0.0.0", 4, "to many"),
    ("ff00::", 8, "to many"),
    ("192.88.99.0", 24, "relays of 6to4"),
    ("192.0.0.9", 32, "anycast of a protocol"),
    ("192.0.0.10", 32, "anycast of a protocol"),
    ("168.63.129.16", 32, "a cloud's metadata"),
    ("64:ff9b::", 96, "decided by the address that it holds"),
    ("2001::", 23, "protocols"),
    ("fec0::", 10, "site-local"),
    ("3fff::", 20, "for documentation since 2024"),
];

fn within(address: IpAddr, first: &str, prefix: u32) -> bool {
    match (address, first.parse().unwrap()) {
        (IpAddr::V4(address), IpAddr::V4(first)) => {
            (address.to_bits() ^ first.to_bits()) >> (32 - prefix) == 0
        }
        (IpAddr::V6(address), IpAddr::V6(first)) => {
            (address.to_bits() ^ first.to_bits()) >> (128 - prefix) == 0
        }
        _ => false,
    }
}

#[test]
fn addresses_are_public_as_python_says_and_no_others() {
    let rows: Vec<(IpAddr, bool)> = serde_json::from_str(include_str!("fixtures/addresses.json")).unwrap();
    assert_eq!(rows.len(), 2_000);
    let mut agreed = 0;
    for (address, global) in rows {
        let public = refused(address).is_none();
        if public == global {
            agreed += 1;
            continue;
        }
        assert!(global, "{address} is not global, and not refused");
        let canonical = address.to_canonical();
        let unallocated = canonical.is_ipv6() && !within(canonical, "2000::", 3);
        let known = STRICTER.iter().any(|(first, prefix, _)| within(canonical, first, *prefix));
        assert!(unallocated || known, "{address} is global, and refused");
    }
    assert_eq!(agreed, 1_532);
}
