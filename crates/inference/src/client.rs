//! The client of a request: the unit of fair queueing, quotas and shared limits.

use std::net::{IpAddr, Ipv6Addr};

/// The identity of an API key: a number from which the key cannot be derived; 0 where no key is needed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Client(pub u64);

/// The holder of a share of a limit: an API key where keys are used, else an IP address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Owner {
    /// The identity of an API key ([`Client`]).
    Key(u64),
    /// An IP address; of IPv6 the /64 prefix, which belongs to one host.
    Peer(IpAddr),
}

impl Owner {
    /// The owner for a client at an address.
    pub fn new(client: Client, address: Option<IpAddr>) -> Owner {
        if client.0 == 0 { Owner::of_peer(address) } else { Owner::Key(client.0) }
    }

    /// The owner for an address without a key; all unknown addresses are one owner.
    pub fn of_peer(address: Option<IpAddr>) -> Owner {
        let address = address.unwrap_or(IpAddr::V6(Ipv6Addr::UNSPECIFIED)).to_canonical();
        Owner::Peer(match address {
            IpAddr::V4(_) => address,
            IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from(u128::from(v6) >> 64 << 64)),
        })
    }
}
