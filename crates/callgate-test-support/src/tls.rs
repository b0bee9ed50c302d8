//! Certificates for `localhost`.

use std::sync::Arc;

use rcgen::{BasicConstraints, Certificate, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

/// Returns a TLS acceptor for `localhost` with these ALPN protocols. Its certificate is signed by a new authority,
/// whose certificate is returned as PEM.
pub fn localhost(protocols: &[&str]) -> (TlsAcceptor, String) {
    let mut authority = CertificateParams::default();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(authority, key()).expect("certificate is signed");
    let key = key();
    let certificate = params().signed_by(&key, &authority).expect("certificate is signed");
    (acceptor(&certificate, &key, protocols), authority.pem())
}

/// Returns a TLS acceptor for `localhost` with a self-signed certificate, and the certificate as PEM.
pub fn self_signed(is_ca: IsCa) -> (TlsAcceptor, String) {
    let key = key();
    let mut params = params();
    params.is_ca = is_ca;
    let certificate = params.self_signed(&key).expect("certificate is signed");
    (acceptor(&certificate, &key, &[]), certificate.pem())
}

fn key() -> KeyPair {
    KeyPair::generate().expect("key is generated")
}

fn params() -> CertificateParams {
    CertificateParams::new(["localhost".to_owned()]).expect("valid host name")
}

fn acceptor(certificate: &Certificate, key: &KeyPair, protocols: &[&str]) -> TlsAcceptor {
    let private_key = PrivateKeyDer::try_from(key.serialize_der()).expect("valid private key");
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("provider supports the default versions")
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], private_key)
        .expect("key matches the certificate");
    config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    TlsAcceptor::from(Arc::new(config))
}
