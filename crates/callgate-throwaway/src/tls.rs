//! Certificates for `localhost`, and servers that present them.

use std::sync::Arc;

use rcgen::{BasicConstraints, Certificate, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

/// Returns the server's side of TLS for `localhost`, with these ALPN protocols, and the certificate of
/// its authority in PEM.
pub fn localhost(protocols: &[&str]) -> (TlsAcceptor, String) {
    let mut authority = CertificateParams::default();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(authority, key()).expect("it is signed");
    let key = key();
    let server = params().signed_by(&key, &authority).expect("it is signed");
    (acceptor(&server, &key, protocols), authority.pem())
}

/// Returns the server's side of TLS for `localhost` with a certificate that signed itself, and that
/// certificate in PEM.
pub fn self_signed(is_ca: IsCa) -> (TlsAcceptor, String) {
    let key = key();
    let mut server = params();
    server.is_ca = is_ca;
    let server = server.self_signed(&key).expect("it is signed");
    (acceptor(&server, &key, &[]), server.pem())
}

fn key() -> KeyPair {
    KeyPair::generate().expect("a key is made")
}

fn params() -> CertificateParams {
    CertificateParams::new(["localhost".to_owned()]).expect("a name of a host")
}

fn acceptor(server: &Certificate, key: &KeyPair, protocols: &[&str]) -> TlsAcceptor {
    let private = PrivateKeyDer::try_from(key.serialize_der()).expect("it is a key");
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("the provider has them")
        .with_no_client_auth()
        .with_single_cert(vec![server.der().clone()], private)
        .expect("the key belongs to it");
    config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    TlsAcceptor::from(Arc::new(config))
}
