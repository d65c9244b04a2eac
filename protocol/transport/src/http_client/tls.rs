//! TLS of every client: ring for cryptography, and the machine's root certificates or, if it has none, the bundled ones of
//! Mozilla.
//!
//! An image without `/etc/ssl/certs` is common, and reqwest's own choice of roots fails there for `http://` URLs too.

use rustls::{
    ClientConfig, ConfigBuilder, RootCertStore,
    client::WantsClientCert,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};
use std::{
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

/// A builder of clients with TLS. A client that is built otherwise has no cryptography provider and fails to build.
pub fn client() -> reqwest::ClientBuilder {
    reqwest::Client::builder().tls_backend_preconfigured(config())
}

/// The configuration of [`client`], for `tls_backend_preconfigured` of other builders.
pub fn config() -> ClientConfig {
    static CONFIG: OnceLock<ClientConfig> = OnceLock::new();
    CONFIG.get_or_init(|| config_trusting(machine_roots())).clone()
}

/// PEM files of a client: its roots, if not the machine's, and its own certificate. Each has the setting that names it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TlsFiles {
    /// The only roots to trust.
    pub roots: Option<(String, PathBuf)>,
    /// The client's certificate chain and its key.
    pub own: Option<((String, PathBuf), (String, PathBuf))>,
}

/// A file that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{setting}: {} {why}", path.display())]
pub struct TlsFileError {
    setting: String,
    path: PathBuf,
    why: String,
}

impl TlsFiles {
    /// The settings that name files.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let own = self.own.iter().flat_map(|(certificate, key)| [&certificate.0, &key.0]);
        self.roots.iter().map(|(name, _)| name).chain(own).map(String::as_str)
    }

    /// A builder of clients that use these files.
    pub fn client(&self) -> Result<reqwest::ClientBuilder, TlsFileError> {
        if *self == Self::default() {
            return Ok(client());
        }
        let roots = match &self.roots {
            None => machine_roots(),
            Some(file) => {
                let mut roots = RootCertStore::empty();
                for certificate in certificates(file)? {
                    roots
                        .add(certificate)
                        .map_err(|error| file_error(file, format!("holds no root: {error}")))?;
                }
                roots
            }
        };
        let config = match &self.own {
            None => config_trusting(roots),
            Some((certificate, key)) => {
                let secret = PrivateKeyDer::from_pem_file(&key.1)
                    .map_err(|error| file_error(key, format!("holds no key: {error}")))?;
                config_builder(roots)
                    .with_client_auth_cert(certificates(certificate)?, secret)
                    .map_err(|error| file_error(key, format!("is no key of that certificate: {error}")))?
            }
        };
        Ok(reqwest::Client::builder().tls_backend_preconfigured(config))
    }
}

/// Whether a request failed because of certificates, or because one side does not speak TLS.
pub fn is_tls_error(error: &(dyn std::error::Error + 'static)) -> bool {
    // `source` of an I/O error skips the error that it holds.
    std::iter::successors(Some(error), |error| match error.downcast_ref::<std::io::Error>() {
        Some(outer) => outer.get_ref().map(|within| within as &(dyn std::error::Error + 'static)),
        None => error.source(),
    })
    .any(|error| error.is::<rustls::Error>())
}

fn certificates(file: &(String, PathBuf)) -> Result<Vec<CertificateDer<'static>>, TlsFileError> {
    let read = |path: &Path| CertificateDer::pem_file_iter(path)?.collect::<Result<Vec<_>, _>>();
    match read(&file.1) {
        Ok(found) if found.is_empty() => Err(file_error(file, "holds no certificate (PEM)".to_owned())),
        Ok(found) => Ok(found),
        Err(error) => Err(file_error(file, format!("can't be read: {error}"))),
    }
}

fn file_error((setting, path): &(String, PathBuf), why: String) -> TlsFileError {
    TlsFileError { setting: setting.clone(), path: path.clone(), why }
}

/// The machine's roots; `SSL_CERT_FILE` and `SSL_CERT_DIR` are honoured.
fn machine_roots() -> RootCertStore {
    let found = rustls_native_certs::load_native_certs();
    for error in &found.errors {
        tracing::debug!(%error, "a certificate of this machine can't be read");
    }
    let mut roots = RootCertStore::empty();
    let (taken, refused) = roots.add_parsable_certificates(found.certs);
    tracing::debug!(taken, refused, "certificates of this machine");
    or_bundled_roots(roots)
}

fn or_bundled_roots(mut roots: RootCertStore) -> RootCertStore {
    if roots.is_empty() {
        tracing::debug!("this machine has no certificates; the bundled ones are used");
        roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    }
    roots
}

fn config_trusting(roots: RootCertStore) -> ClientConfig {
    config_builder(roots).with_no_client_auth()
}

fn config_builder(roots: RootCertStore) -> ConfigBuilder<ClientConfig, WantsClientCert> {
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let versioned = match config.with_safe_default_protocol_versions() {
        Ok(versioned) => versioned,
        Err(error) => unreachable!("ring speaks TLS 1.2 and 1.3: {error}"),
    };
    versioned.with_root_certificates(roots)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_without_certificates_trusts_the_bundled_ones() {
        let roots = or_bundled_roots(RootCertStore::empty());
        assert!(roots.len() > 50, "{}", roots.len());
        reqwest::Client::builder().tls_backend_preconfigured(config_trusting(roots)).build().unwrap();
    }

    #[tokio::test]
    async fn a_client_begins_a_tls_handshake() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://{}/", listener.local_addr().unwrap());
        let answering = tokio::spawn(async move {
            let (socket, _) = listener.accept().await.unwrap();
            let mut first = [0; 1];
            socket.readable().await.unwrap();
            let read = socket.try_read(&mut first).unwrap();
            (read, first[0])
        });
        let error = client().no_proxy().build().unwrap().get(url).send().await.unwrap_err();
        assert!(error.is_connect() && !is_tls_error(&error), "{error:?}");
        let handshake = 0x16;
        assert_eq!(answering.await.unwrap(), (1, handshake), "the client began a TLS handshake");
    }
}
