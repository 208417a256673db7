//! The base URL of an upstream, taken apart once.

use axum::http::Uri;

/// Where an upstream is: scheme, host, port and the path that all its paths begin with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Address {
    /// Whether TLS is spoken.
    pub(crate) tls: bool,
    /// Name or address of the host, without brackets.
    pub(crate) host: String,
    /// Where to connect in place of the host.
    pub(crate) ip: Option<std::net::IpAddr>,
    /// Port.
    pub(crate) port: u16,
    /// The value of `Host`.
    pub(crate) authority: String,
    /// The path, without a slash at its end.
    pub(crate) path: String,
}

impl Address {
    /// The address of a URL.
    ///
    /// # Errors
    /// What is wrong with it, to be read after the URL.
    pub(crate) fn parse(url: &str) -> Result<Address, &'static str> {
        let uri: Uri = url.parse().map_err(|_| "is not a URL")?;
        let tls = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err("must begin with http:// or https://"),
        };
        let authority = uri.authority().ok_or("has no host")?;
        if authority.as_str().contains('@') {
            return Err("holds a user or a password; give a key by key_env or key_file");
        }
        if uri.query().is_some() {
            return Err("has a query");
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        if host.is_empty() {
            return Err("has no host");
        }
        let port = authority.port_u16().unwrap_or(if tls { 443 } else { 80 });
        let path = uri.path().trim_end_matches('/').to_owned();
        Ok(Address { tls, host, ip: None, port, authority: authority.as_str().to_owned(), path })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_taken_apart() {
        let address = Address::parse("https://api.example.com/v1/").unwrap();
        assert_eq!((address.tls, address.port, address.path.as_str()), (true, 443, "/v1"));
        let address = Address::parse("http://[::1]:8080").unwrap();
        assert_eq!((address.host.as_str(), address.port, address.path.as_str()), ("::1", 8080, ""));
        for wrong in ["", "localhost:80", "ftp://a", "http://u:p@a", "http://a?b=c", "http://"] {
            assert!(Address::parse(wrong).is_err(), "{wrong}");
        }
    }
}
