//! TLS settings: which certificates are trusted.

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
use thiserror::Error;

use super::endpoint::Endpoint;

/// TLS could not be configured.
///
/// Part of [`ForwardError`](crate::upstream::forward::ForwardError) and
/// [`BridgeError`](crate::bridge::BridgeError).
#[derive(Debug, Error)]
#[error("failed to configure TLS")]
pub struct TlsSetupError;

/// Error for a PEM file without certificates.
///
/// Error of [`ForwardOptions::ca_certificates`](crate::upstream::forward::ForwardOptions::ca_certificates) and
/// [`Options::ca_certificates`](crate::bridge::Options::ca_certificates).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the file has no certificates; expected PEM, `-----BEGIN CERTIFICATE-----`")]
pub struct CertificateError;

pub(crate) fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, CertificateError> {
    let parsed: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    parsed.ok().filter(|parsed| !parsed.is_empty()).ok_or(CertificateError)
}

/// Returns a configuration that trusts the system's certificate authorities and those in `extra_roots`. Loads
/// certificates only if the endpoint is `https`.
pub(crate) fn client_config(
    endpoint: Option<&Endpoint>,
    extra_roots: &[CertificateDer<'static>],
    hint: &str,
) -> Result<ClientConfig, TlsSetupError> {
    let mut roots = RootCertStore::empty();
    if endpoint.is_some_and(Endpoint::is_https) {
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        roots.add_parsable_certificates(extra_roots.iter().cloned());
        if roots.is_empty() {
            tracing::warn!(
                "no trusted certificates found on this system; name trusted certificates with {hint}"
            );
        }
    }
    let provider = rustls::crypto::ring::default_provider();
    let builder = ClientConfig::builder_with_provider(provider.into())
        .with_safe_default_protocol_versions()
        .map_err(|_| TlsSetupError)?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}
