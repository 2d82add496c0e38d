//! TLS by rustls, with the certificate authorities of the operating system.

use std::sync::Arc;

use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// The certificate authorities that are trusted. Cheap to clone.
#[derive(Clone)]
pub struct TlsConfig(Arc<ClientConfig>);

/// Why there is no TLS.
#[derive(Debug, thiserror::Error)]
pub enum NoCertificates {
    /// No certificate authority is known.
    #[error(
        "this machine has no certificate authorities to check hosts with: install the package \
         ca-certificates, or name a file with SSL_CERT_FILE{}", _0.as_ref().map(|error| format!(" ({error})")).unwrap_or_default()
    )]
    None(Option<String>),
    /// The library refuses its own defaults.
    #[error("TLS cannot be set up: {0}")]
    Library(#[from] tokio_rustls::rustls::Error),
}

/// Has clients of this process that choose no cryptography themselves use that of ring.
pub(crate) fn use_ring() {
    // an error means that it was chosen before
    let _ = ring::default_provider().install_default();
}

impl TlsConfig {
    /// The certificate authorities of the operating system, or those of `SSL_CERT_FILE` and `SSL_CERT_DIR`.
    ///
    /// Errors: there are none.
    pub fn of_system() -> Result<Self, NoCertificates> {
        let found = rustls_native_certs::load_native_certs();
        if found.certs.is_empty() {
            return Err(NoCertificates::None(found.errors.first().map(ToString::to_string)));
        }
        Self::trusting(found.certs)
    }

    /// These certificate authorities alone. One that cannot be read is left out.
    ///
    /// Errors: there are none.
    pub(crate) fn trusting(
        authorities: impl IntoIterator<Item = CertificateDer<'static>>,
    ) -> Result<Self, NoCertificates> {
        let mut roots = RootCertStore::empty();
        if let (0, _) = roots.add_parsable_certificates(authorities) {
            return Err(NoCertificates::None(None));
        }
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self(Arc::new(config)))
    }

    pub(crate) fn connector(&self) -> TlsConnector {
        self.0.clone().into()
    }
}
