//! TLS towards upstreams.

use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

/// The settings of connections to upstreams: Mozilla's authorities, and those of a PEM text.
///
/// # Errors
/// A text without certificates, or with one that cannot be used.
pub(crate) fn client(authorities: Option<&str>) -> Result<Arc<ClientConfig>, String> {
    let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    if let Some(pem) = authorities {
        let mut count = 0;
        for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
            let certificate = certificate.map_err(|error| format!("is not PEM: {error}"))?;
            roots
                .add(certificate)
                .map_err(|error| format!("has a certificate that cannot be used: {error}"))?;
            count += 1;
        }
        if count == 0 {
            return Err("has no certificate in it".to_owned());
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    Ok(Arc::new(builder.with_root_certificates(roots).with_no_client_auth()))
}
