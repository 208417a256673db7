//! Where the server may listen, and sizes as people write them.

use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, ToSocketAddrs};

use crate::Failure;

/// Binds `host:port`. Without `guarded`, only to loopback.
pub(super) fn bind(host: &str, port: u16, guarded: bool) -> Result<TcpListener, Failure> {
    let name = host.strip_prefix('[').and_then(|h| h.strip_suffix(']')).unwrap_or(host);
    let addresses: Vec<SocketAddr> = (name, port)
        .to_socket_addrs()
        .map_err(|error| Failure::new(format!("--host {host} is no address of this machine: {error}")))?
        .collect();
    if let Some(open) = addresses.iter().find(|a| !a.ip().is_loopback())
        && !guarded
    {
        return Err(Failure::usage(format!(
            "--host {host} can be reached from other machines ({}): give the server a key (--api-key-file, \
             GRISTMILL_API_KEY) or say --insecure-no-auth",
            open.ip()
        )));
    }
    let listener = TcpListener::bind(addresses.as_slice()).map_err(|error| refused(host, port, &error))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Whether only this machine reaches `host`.
pub(super) fn is_loopback(host: &str) -> bool {
    let name = host.strip_prefix('[').and_then(|h| h.strip_suffix(']')).unwrap_or(host);
    let addresses = (name, 0).to_socket_addrs();
    addresses.is_ok_and(|mut addresses| addresses.all(|address| address.ip().is_loopback()))
}

/// Whether `host` is a place to listen that has no address of its own.
pub(super) fn is_unspecified(host: &str) -> bool {
    let name = host.strip_prefix('[').and_then(|h| h.strip_suffix(']')).unwrap_or(host);
    name.parse::<IpAddr>().is_ok_and(|ip| ip.is_unspecified())
}

/// An address that this machine can reach the server at: 0.0.0.0 is a place to listen, not to call.
pub(super) fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

fn refused(host: &str, port: u16, error: &std::io::Error) -> Failure {
    Failure::new(match error.kind() {
        ErrorKind::AddrInUse => {
            format!("port {port} on {host} is in use by another program; choose one with --port")
        }
        ErrorKind::PermissionDenied => {
            format!("this user may not listen on port {port}; choose one from 1024 on with --port")
        }
        ErrorKind::AddrNotAvailable => format!("--host {host} is no address of this machine"),
        _ => format!("cannot listen on {host}:{port}: {error}"),
    })
}

/// A wait of up to a day.
pub(super) fn seconds(text: &str) -> Result<f64, String> {
    let seconds: Option<f64> = text.trim().parse().ok();
    let fits = |seconds: &f64| (0.0..=86_400.0).contains(seconds);
    seconds.filter(fits).ok_or_else(|| "seconds between 0 and 86400 are wanted, as 30 or 0.5".to_owned())
}

/// `4M`, `1.5GiB`, `4194304`: powers of 1024, as memory is measured.
pub(crate) fn bytes(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = text.get(digits.len()..).unwrap_or_default().to_ascii_lowercase();
    let power = match unit.as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 1,
        "m" | "mb" | "mib" => 2,
        "g" | "gb" | "gib" => 3,
        "t" | "tb" | "tib" => 4,
        _ => return Err(format!("{text:?} has the unit {unit:?}; known are K, M, G and T")),
    };
    let number: f64 =
        digits.trim().parse().map_err(|_| format!("{text:?} is no size; write it as 512M or 2G"))?;
    let value = number * 1024_f64.powi(power);
    if !(0.0..9e15).contains(&value) {
        return Err(format!("{text:?} is no size that a machine has"));
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and 9e15")]
    Ok(value as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        assert_eq!(bytes("4M"), Ok(4 << 20));
        assert_eq!(bytes("1.5GiB"), Ok(3 << 29));
        assert_eq!(bytes("4096"), Ok(4096));
        for bad in ["", "M", "4X", "-1", "nan", "1e300", "4 M M", "٤M"] {
            assert!(bytes(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn loopback_or_a_key() {
        for open in ["0.0.0.0", "::", "[::]"] {
            let failure = bind(open, 0, false).unwrap_err();
            assert_eq!(failure.code, 2);
            assert!(failure.message.contains("--insecure-no-auth"), "{}", failure.message);
        }
        assert!(bind("0.0.0.0", 0, true).is_ok());
        assert!(bind("localhost", 0, false).is_ok());
        assert!(
            is_loopback("127.0.0.1")
                && is_loopback("[::1]")
                && !is_loopback("0.0.0.0")
                && !is_loopback("[::]")
        );
    }

    #[test]
    fn an_address_to_call() {
        for (listens, called) in
            [("0.0.0.0:80", "127.0.0.1:80"), ("[::]:80", "[::1]:80"), ("10.0.0.7:80", "10.0.0.7:80")]
        {
            assert_eq!(reachable(listens.parse().unwrap()).to_string(), called);
        }
    }

    #[test]
    fn a_port_in_use_is_one_line() {
        let taken = bind("127.0.0.1", 0, false).unwrap();
        let port = taken.local_addr().unwrap().port();
        let failure = bind("127.0.0.1", port, false).unwrap_err();
        assert_eq!(
            failure.message,
            format!("port {port} on 127.0.0.1 is in use by another program; choose one with --port")
        );
        assert!(bind("256.0.0.1", 80, false).is_err());
    }
}
