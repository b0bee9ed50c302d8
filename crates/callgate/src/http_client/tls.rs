//! Whom to trust.

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
use thiserror::Error;

use super::endpoint::Endpoint;

/// TLS cannot be set up.
#[derive(Debug, Error)]
#[error("cannot set up TLS")]
pub struct NoTls;

/// A file that has no certificates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("there are no certificates in it; expected PEM, `-----BEGIN CERTIFICATE-----`")]
pub struct CertificateError;

/// The certificates in a PEM file, of which there must be some.
pub(crate) fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, CertificateError> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    found.ok().filter(|found| !found.is_empty()).ok_or(CertificateError)
}

/// Trust in the authorities of the system and in further ones. The system's are read only for a
/// server that needs them; `Endpoint` says whether.
pub(crate) fn client_config(
    endpoint: Option<&Endpoint>,
    further: &[CertificateDer<'static>],
    hint: &str,
) -> Result<ClientConfig, NoTls> {
    let mut roots = RootCertStore::empty();
    if endpoint.is_some_and(Endpoint::is_https) {
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        roots.add_parsable_certificates(further.iter().cloned());
        if roots.is_empty() {
            tracing::warn!("this system has no certificates to trust; name some with {hint}");
        }
    }
    let provider = rustls::crypto::ring::default_provider();
    let builder = ClientConfig::builder_with_provider(provider.into())
        .with_safe_default_protocol_versions()
        .map_err(|_| NoTls)?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}
