//! Attempts over TLS, with authorities of the test's own.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use webhooks::addresses::AddressRules;
use webhooks::sender::{Failure, Sender};

use crate::receiver::{Answers, Changing, LONG, serve};

struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Authority {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        Authority { issuer }
    }

    fn pem(&self) -> String {
        self.issuer.as_ref().pem()
    }

    /// The settings of a receiver with a certificate for a name.
    fn receiver(&self, name: &str) -> ServerConfig {
        let key = KeyPair::generate().unwrap();
        let certificate =
            CertificateParams::new(vec![name.to_owned()]).unwrap().signed_by(&key, &self.issuer).unwrap();
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)
            .unwrap()
    }
}

/// What a receiver saw.
#[derive(Default)]
struct Seen {
    /// Names that were asked for by TLS.
    names: Mutex<Vec<Option<String>>>,
    requests: Arc<Mutex<Vec<String>>>,
}

async fn listen(config: ServerConfig) -> (u16, Arc<Seen>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let seen = Arc::new(Seen::default());
    let keeps = seen.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let Ok(stream) = acceptor.accept(stream).await else { continue };
            keeps.names.lock().unwrap().push(stream.get_ref().1.server_name().map(str::to_owned));
            let answer = Answers::Bytes(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n".to_vec());
            serve(stream, answer, keeps.requests.clone()).await;
        }
    });
    (port, seen)
}

fn sender(authorities: Option<&str>) -> Sender {
    let rules = AddressRules::parse(["127.0.0.1"]).unwrap();
    Sender::new(rules, authorities).unwrap().with_resolver(Changing::new(&[&["127.0.0.1"]]))
}

#[tokio::test]
async fn the_name_of_the_url_is_that_of_tls_and_of_the_host() {
    let authority = Authority::new();
    let (port, seen) = listen(authority.receiver("hooks.example")).await;
    let url = format!("https://hooks.example:{port}/a");
    let sent = sender(Some(&authority.pem())).send(&url, &[], Bytes::new(), LONG).await;
    assert_eq!(sent.result.unwrap().status, 200);
    assert_eq!(*seen.names.lock().unwrap(), [Some("hooks.example".to_owned())]);
    assert!(seen.requests.lock().unwrap()[0].contains(&format!("host: hooks.example:{port}\r\n")));
}

#[tokio::test]
async fn an_address_is_checked_by_its_certificate_too() {
    let authority = Authority::new();
    let (port, _) = listen(authority.receiver("127.0.0.1")).await;
    let url = format!("https://127.0.0.1:{port}/");
    let sent = sender(Some(&authority.pem())).send(&url, &[], Bytes::new(), LONG).await;
    assert_eq!(sent.result.unwrap().status, 200);
}

#[tokio::test]
async fn abuse_certificates_of_others_are_not_taken() {
    let (authority, other) = (Authority::new(), Authority::new());
    let (port, seen) = listen(authority.receiver("elsewhere.example")).await;
    let url = format!("https://hooks.example:{port}/");
    for authorities in [None, Some(other.pem()), Some(authority.pem())] {
        let sent = sender(authorities.as_deref()).send(&url, &[], Bytes::new(), LONG).await;
        assert!(matches!(sent.result, Err(Failure::Tls(_))), "{sent:?}");
    }
    assert!(seen.requests.lock().unwrap().is_empty());
}

#[tokio::test]
async fn abuse_a_receiver_without_tls_gets_nothing() {
    let receiver = crate::receiver::Receiver::answering("200 OK").await;
    let url = format!("https://hooks.example:{}/", receiver.port);
    let most = std::time::Duration::from_millis(500);
    let sent = sender(None).send(&url, &[], Bytes::new(), most).await;
    assert!(matches!(sent.result, Err(Failure::Tls(_) | Failure::Timeout { .. })), "{sent:?}");
    assert!(receiver.requests().iter().all(|request| !request.contains("POST")));
}

#[test]
fn authorities_that_are_none_are_refused() {
    let of = |pem: &str| Sender::new(AddressRules::default(), Some(pem)).unwrap_err();
    assert_eq!(of("x"), "the authorities have no certificate");
    let damaged = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    assert!(of(damaged).starts_with("an authority cannot be used"));
}
