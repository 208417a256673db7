//! TLS by rustls: a certificate that can be replaced while connections are open.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::server::TlsStream;

/// Certificates of a chain.
const MAX_CHAIN: usize = 16;

/// A certificate chain with its key. Debug output shows neither.
#[derive(Clone)]
pub struct Tls(Arc<ServerConfig>);

/// Why a certificate cannot be used. The message never holds key material.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The certificate file.
    #[error("the certificate: {0}")]
    Certificate(String),
    /// The key file.
    #[error("the private key: {0}")]
    Key(String),
    /// The two together.
    #[error("the certificate and the key do not go together: {0}")]
    Pair(String),
}

impl Tls {
    /// Reads PEM texts: a chain, the server's own certificate first, and its private key (PKCS #8, PKCS #1 or SEC1).
    /// TLS 1.2 and 1.3 are spoken, and HTTP/2 or HTTP/1.1 in them, as the client prefers.
    ///
    /// # Errors
    /// What is missing, malformed, or does not go together.
    pub fn from_pem(certificate: &[u8], key: &[u8]) -> Result<Tls, TlsError> {
        let unreadable = |error: &dyn fmt::Display| TlsError::Certificate(error.to_string());
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(certificate).take(MAX_CHAIN).collect();
        let chain = chain.map_err(|error| unreadable(&error))?;
        if chain.is_empty() {
            return Err(unreadable(&"no CERTIFICATE section in PEM"));
        }
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| TlsError::Key(error.to_string()))?;
        let pair = |error: tokio_rustls::rustls::Error| TlsError::Pair(error.to_string());
        let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(pair)?
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .map_err(pair)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Tls(Arc::new(config)))
    }

    /// Shakes hands, for at most `limit`.
    pub(crate) async fn accept(self, stream: TcpStream, limit: Duration) -> io::Result<TlsStream<TcpStream>> {
        let hands = TlsAcceptor::from(self.0).accept(stream);
        tokio::time::timeout(limit, hands).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tls")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_certificate_is_named() {
        let error = |certificate: &[u8], key: &[u8]| Tls::from_pem(certificate, key).unwrap_err().to_string();
        assert!(error(b"", b"").starts_with("the certificate: no CERTIFICATE"));
        let empty = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        assert!(error(empty, b"secret").starts_with("the private key:"));
        assert!(!error(empty, b"secret").contains("secret"));
    }
}
