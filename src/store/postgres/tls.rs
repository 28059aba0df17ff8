//! TLS to the database. `sslmode` means what it means to libpq: `require` encrypts without a check of the
//! certificate unless `sslrootcert` names roots, `verify-ca` checks who signed it, and `verify-full` also
//! that it is of this host.

use crate::store::postgres::pool_error::PoolError;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio_postgres::config::SslMode;
use tokio_postgres_rustls::MakeRustlsConnect;
use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::client::{WebPkiServerVerifier, verify_server_name};
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::server::ParsedCertificate;
use tokio_rustls::rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
};

/// The value of `sslrootcert` for roots that everybody trusts.
const SYSTEM: &str = "system";

/// How much a connection trusts the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TlsMode {
    /// Never TLS.
    Disable,
    /// TLS if the server has it.
    Prefer,
    /// TLS with any certificate.
    Require,
    /// The certificate is signed by one of the roots.
    VerifyCa,
    /// It is also of the host that the URL names.
    VerifyFull,
}

/// Whom the certificate has to be signed by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RootSource {
    /// The roots of Mozilla.
    System,
    /// PEM certificates.
    File(PathBuf),
}

impl RootSource {
    /// The value of `sslrootcert`.
    pub(crate) fn of(value: &str) -> Self {
        if value == SYSTEM { Self::System } else { Self::File(PathBuf::from(value)) }
    }
}

impl TlsMode {
    /// The mode of these parameters. Errors are for people.
    pub(crate) fn of(mode: Option<&str>, roots: Option<&RootSource>) -> Result<Self, String> {
        let mode = match mode {
            Some("disable") => Self::Disable,
            Some("require") => Self::Require,
            Some("verify-ca") => Self::VerifyCa,
            Some("verify-full") => Self::VerifyFull,
            None if roots == Some(&RootSource::System) => Self::VerifyFull,
            None | Some("allow" | "prefer") => Self::Prefer,
            Some(other) => {
                return Err(format!(
                    "sslmode must be disable, prefer, require, verify-ca or verify-full, not '{other}'"
                ));
            }
        };
        match (mode, roots) {
            // Anybody can get a certificate that one of these roots has signed.
            (Self::Prefer | Self::Require | Self::VerifyCa, Some(RootSource::System)) => {
                Err("sslrootcert=system needs sslmode=verify-full".to_owned())
            }
            (Self::VerifyCa, None) => {
                Err("sslmode=verify-ca needs sslrootcert=FILE, the certificate (PEM) of the authority that signed the \
                     server's; or use verify-full"
                    .to_owned())
            }
            (Self::Require, Some(RootSource::File(_))) => Ok(Self::VerifyCa),
            (mode, _) => Ok(mode),
        }
    }

    /// The mode for the driver, which leaves checks to TLS.
    pub(crate) fn of_driver(self) -> SslMode {
        match self {
            Self::Disable => SslMode::Disable,
            Self::Prefer => SslMode::Prefer,
            Self::Require | Self::VerifyCa | Self::VerifyFull => SslMode::Require,
        }
    }

    /// Whether a connection proves that the server is who it should be.
    pub(crate) fn checks_certificate(self) -> bool {
        matches!(self, Self::VerifyCa | Self::VerifyFull)
    }
}

/// What makes connections with TLS.
pub(crate) fn connector(mode: TlsMode, roots: Option<&RootSource>) -> Result<MakeRustlsConnect, PoolError> {
    let provider = Arc::new(ring::default_provider());
    let verifier = DatabaseVerifier {
        chain: roots_of(mode, roots)?
            .map(|(store, own)| {
                let chain =
                    WebPkiServerVerifier::builder_with_provider(Arc::new(store), Arc::clone(&provider));
                chain.build().map(|chain| (chain, own)).map_err(|error| PoolError::Tls(error.to_string()))
            })
            .transpose()?,
        checks_name: mode == TlsMode::VerifyFull,
        provider: Arc::clone(&provider),
    };
    let client = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| PoolError::Tls(error.to_string()))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    Ok(MakeRustlsConnect::new(client))
}

type Roots = (RootCertStore, Vec<CertificateDer<'static>>);

/// The roots, and those of the user among them; `None`: nothing is checked.
fn roots_of(mode: TlsMode, roots: Option<&RootSource>) -> Result<Option<Roots>, PoolError> {
    match roots {
        Some(RootSource::File(path)) if mode != TlsMode::Disable => read_roots(path).map(Some),
        _ if mode == TlsMode::VerifyFull => {
            let store = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
            Ok(Some((store, Vec::new())))
        }
        _ => Ok(None),
    }
}

fn read_roots(path: &Path) -> Result<Roots, PoolError> {
    let refused = |error: &dyn std::fmt::Display| {
        PoolError::Parameter(format!("sslrootcert: '{}': {error}", path.display()))
    };
    let text = std::fs::read(path).map_err(|error| refused(&error))?;
    let own: Vec<CertificateDer<'static>> =
        CertificateDer::pem_slice_iter(&text).collect::<Result<_, _>>().map_err(|error| refused(&error))?;
    if own.is_empty() {
        return Err(refused(&"it has no certificate in PEM form (BEGIN CERTIFICATE)"));
    }
    let mut store = RootCertStore::empty();
    for root in &own {
        store.add(root.clone()).map_err(|error| refused(&error))?;
    }
    Ok((store, own))
}

/// Checks the server's certificate as far as the mode asks for it.
#[derive(Debug)]
struct DatabaseVerifier {
    /// The check of the chain, and the roots of the user; `None`: any certificate will do.
    chain: Option<(Arc<WebPkiServerVerifier>, Vec<CertificateDer<'static>>)>,
    checks_name: bool,
    provider: Arc<CryptoProvider>,
}

impl DatabaseVerifier {
    /// A certificate that signed itself is its own root. The library refuses it if it also says that it may
    /// sign others, as those of `openssl req -x509` do.
    fn verify_own_root(
        &self,
        certificate: &CertificateDer<'_>,
        host: &ServerName<'_>,
    ) -> Result<ServerCertVerified, Error> {
        if self.checks_name {
            verify_server_name(&ParsedCertificate::try_from(certificate)?, host)?;
        }
        Ok(ServerCertVerified::assertion())
    }
}

fn is_of_name(error: &CertificateError) -> bool {
    matches!(error, CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. })
}

fn is_of_time(error: &CertificateError) -> bool {
    matches!(
        error,
        CertificateError::Expired
            | CertificateError::ExpiredContext { .. }
            | CertificateError::NotValidYet
            | CertificateError::NotValidYetContext { .. }
    )
}

impl ServerCertVerifier for DatabaseVerifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        host: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some((chain, own)) = &self.chain else { return Ok(ServerCertVerified::assertion()) };
        match chain.verify_server_cert(certificate, intermediates, host, ocsp_response, now) {
            // The name is checked last.
            Err(Error::InvalidCertificate(fault)) if is_of_name(&fault) && !self.checks_name => {
                Ok(ServerCertVerified::assertion())
            }
            Err(Error::InvalidCertificate(fault))
                if !is_of_name(&fault) && !is_of_time(&fault) && own.contains(certificate) =>
            {
                self.verify_own_root(certificate, host)
            }
            outcome => outcome,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        match &self.chain {
            Some((chain, _)) => chain.verify_tls12_signature(message, certificate, signed),
            // The certificate proves nothing, and may be too old for the library.
            None => Ok(HandshakeSignatureValid::assertion()),
        }
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        match &self.chain {
            Some((chain, _)) => chain.verify_tls13_signature(message, certificate, signed),
            None => Ok(HandshakeSignatureValid::assertion()),
        }
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_mean_what_they_mean_to_libpq() {
        let file = RootSource::of("/etc/ca.pem");
        let of = |mode, roots| TlsMode::of(mode, roots);
        assert_eq!(of(None, None), Ok(TlsMode::Prefer));
        assert_eq!(of(Some("allow"), None), Ok(TlsMode::Prefer));
        assert_eq!(of(Some("require"), None), Ok(TlsMode::Require));
        assert_eq!(of(Some("require"), Some(&file)), Ok(TlsMode::VerifyCa), "roots are there to be used");
        assert_eq!(of(Some("verify-full"), Some(&file)), Ok(TlsMode::VerifyFull));
        assert_eq!(of(Some("verify-full"), None), Ok(TlsMode::VerifyFull));
        assert_eq!(of(None, Some(&RootSource::System)), Ok(TlsMode::VerifyFull));
        for weak in ["prefer", "require", "verify-ca"] {
            let refused = of(Some(weak), Some(&RootSource::System)).unwrap_err();
            assert!(refused.contains("verify-full"), "{refused}");
        }
        assert!(of(Some("verify-ca"), None).unwrap_err().contains("sslrootcert=FILE"));
        assert!(of(Some("VERIFY-FULL"), None).is_err());
    }
}
