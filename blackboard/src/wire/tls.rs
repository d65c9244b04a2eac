//! How every client of the program does TLS: ring as its cryptography, and the machine's roots or, where it has none, the
//! bundled ones of Mozilla.
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

/// A builder of clients that speak TLS. A client that is built without it has no cryptography and does not start.
pub fn client() -> reqwest::ClientBuilder {
    reqwest::Client::builder().tls_backend_preconfigured(config())
}

/// What [`client`] uses, for clients that are built otherwise; give it to `tls_backend_preconfigured`.
pub fn config() -> ClientConfig {
    static CONFIG: OnceLock<ClientConfig> = OnceLock::new();
    CONFIG.get_or_init(|| trusting(roots())).clone()
}

/// Files (PEM) by which a client trusts others than the machine's roots, or shows who it is; each with the setting that
/// names it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Pems {
    /// The only ones to trust.
    pub roots: Option<(String, PathBuf)>,
    /// The client's own certificate, with what vouches for it, and its key.
    pub own: Option<((String, PathBuf), (String, PathBuf))>,
}

/// A file that is of no use.
#[derive(Debug, thiserror::Error)]
#[error("{setting}: {} {why}", path.display())]
pub struct Unusable {
    setting: String,
    path: PathBuf,
    why: String,
}

impl Pems {
    /// The settings that name files.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let own = self.own.iter().flat_map(|(certificate, key)| [&certificate.0, &key.0]);
        self.roots.iter().map(|(name, _)| name).chain(own).map(String::as_str)
    }

    /// A builder of clients that do as these files say.
    pub fn client(&self) -> Result<reqwest::ClientBuilder, Unusable> {
        if *self == Self::default() {
            return Ok(client());
        }
        let roots = match &self.roots {
            None => roots(),
            Some(file) => {
                let mut roots = RootCertStore::empty();
                for certificate in certificates(file)? {
                    roots
                        .add(certificate)
                        .map_err(|error| unusable(file, format!("holds no root: {error}")))?;
                }
                roots
            }
        };
        let config = match &self.own {
            None => trusting(roots),
            Some((certificate, key)) => {
                let secret = PrivateKeyDer::from_pem_file(&key.1)
                    .map_err(|error| unusable(key, format!("holds no key: {error}")))?;
                known_to(roots)
                    .with_client_auth_cert(certificates(certificate)?, secret)
                    .map_err(|error| unusable(key, format!("is no key of that certificate: {error}")))?
            }
        };
        Ok(reqwest::Client::builder().tls_backend_preconfigured(config))
    }
}

/// Whether a request came to nothing because of certificates, or because one of the two does not speak TLS.
pub fn is_at_fault(error: &(dyn std::error::Error + 'static)) -> bool {
    // An I/O error hides what it holds from whoever asks for its source.
    std::iter::successors(Some(error), |error| match error.downcast_ref::<std::io::Error>() {
        Some(outer) => outer.get_ref().map(|within| within as &(dyn std::error::Error + 'static)),
        None => error.source(),
    })
    .any(|error| error.is::<rustls::Error>())
}

fn certificates(file: &(String, PathBuf)) -> Result<Vec<CertificateDer<'static>>, Unusable> {
    let read = |path: &Path| CertificateDer::pem_file_iter(path)?.collect::<Result<Vec<_>, _>>();
    match read(&file.1) {
        Ok(found) if found.is_empty() => Err(unusable(file, "holds no certificate (PEM)".to_owned())),
        Ok(found) => Ok(found),
        Err(error) => Err(unusable(file, format!("can't be read: {error}"))),
    }
}

fn unusable((setting, path): &(String, PathBuf), why: String) -> Unusable {
    Unusable { setting: setting.clone(), path: path.clone(), why }
}

/// `SSL_CERT_FILE` and `SSL_CERT_DIR` are honoured.
fn roots() -> RootCertStore {
    let found = rustls_native_certs::load_native_certs();
    for error in &found.errors {
        tracing::debug!(%error, "a certificate of this machine can't be read");
    }
    let mut roots = RootCertStore::empty();
    let (taken, refused) = roots.add_parsable_certificates(found.certs);
    tracing::debug!(taken, refused, "certificates of this machine");
    or_bundled(roots)
}

fn or_bundled(mut roots: RootCertStore) -> RootCertStore {
    if roots.is_empty() {
        tracing::debug!("this machine has no certificates; the bundled ones are used");
        roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    }
    roots
}

fn trusting(roots: RootCertStore) -> ClientConfig {
    known_to(roots).with_no_client_auth()
}

fn known_to(roots: RootCertStore) -> ConfigBuilder<ClientConfig, WantsClientCert> {
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
        let roots = or_bundled(RootCertStore::empty());
        assert!(roots.len() > 50, "{}", roots.len());
        reqwest::Client::builder().tls_backend_preconfigured(trusting(roots)).build().unwrap();
    }

    #[tokio::test]
    async fn a_certificate_that_nobody_vouches_for_is_refused_and_not_a_missing_feature() {
        // Whatever answers, it is no TLS server that a root of ours has signed.
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
        assert!(error.is_connect() && !is_at_fault(&error), "{error:?}");
        let handshake = 0x16;
        assert_eq!(answering.await.unwrap(), (1, handshake), "the client began a TLS handshake");
    }
}
