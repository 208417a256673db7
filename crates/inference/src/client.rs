//! Who asks: the unit of fairness, of quotas and of shared bounds.

use std::net::{IpAddr, Ipv6Addr};

/// The identity of a key, as a number that says nothing about the key; 0 where no key is needed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Client(pub u64);

/// Whom an amount belongs to: a key where there are keys, else an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Owner {
    /// The number of a key.
    Key(u64),
    /// An address; of IPv6 the first 64 bits, which one host has to itself.
    Peer(IpAddr),
}

impl Owner {
    /// The owner of what this client at this address takes.
    pub fn new(client: Client, address: Option<IpAddr>) -> Owner {
        if client.0 == 0 { Owner::of_peer(address) } else { Owner::Key(client.0) }
    }

    /// The owner of what an address takes; one address where none is known.
    pub fn of_peer(address: Option<IpAddr>) -> Owner {
        let address = address.unwrap_or(IpAddr::V6(Ipv6Addr::UNSPECIFIED)).to_canonical();
        Owner::Peer(match address {
            IpAddr::V4(_) => address,
            IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from(u128::from(v6) >> 64 << 64)),
        })
    }
}
