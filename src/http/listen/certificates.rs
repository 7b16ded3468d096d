//! The certificate and key for TLS, which can be replaced while the server runs.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;

use parking_lot::RwLock;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::{self, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::{ClientHello, ResolvesServerCert};
use tokio_rustls::rustls::sign::CertifiedKey;
use tokio_rustls::rustls::{Error, InconsistentKeys, ServerConfig};

use crate::config::{Fault, Tls};

/// The certificate and key in force. A connection keeps the certificate that it began with.
#[derive(Debug)]
pub struct Certificates(RwLock<Arc<CertifiedKey>>);

impl Certificates {
    /// Reads the files. The faults name the keys of the configuration, such as
    /// `server.tls.certificate`.
    pub fn read(files: &Tls) -> Result<Self, Vec<Fault>> {
        let (chain, key) = match (read_chain(&files.certificate), read_key(&files.key)) {
            (Ok(chain), Ok(key)) => (chain, key),
            (chain, key) => return Err([chain.err(), key.err()].into_iter().flatten().collect()),
        };
        let certified = certified_key(chain, &key, files).map_err(|fault| vec![fault])?;
        Ok(Self(RwLock::new(Arc::new(certified))))
    }

    /// Reads the files again; `None` if they hold the certificates in force.
    pub fn renewed(&self, files: &Tls) -> Result<Option<Self>, Vec<Fault>> {
        let read = Self::read(files)?;
        // The keys need no comparison: each has been checked to match its certificate.
        let is_new = read.current().cert != self.current().cert;
        Ok(is_new.then_some(read))
    }

    /// Puts another certificate in force for connections that begin from now on.
    pub fn replace(&self, others: Self) {
        *self.0.write() = others.0.into_inner();
    }

    fn current(&self) -> Arc<CertifiedKey> {
        Arc::clone(&self.0.read())
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current())
    }
}

/// Accepts TLS connections; each handshake uses the certificate in force when it begins.
pub(super) fn acceptor(certificates: Arc<Certificates>) -> io::Result<TlsAcceptor> {
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .with_no_client_auth()
        .with_cert_resolver(certificates);
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

fn contents(name: &str, path: &Path) -> Result<Vec<u8>, Fault> {
    fs::read(path).map_err(|error| fault(name, path, &format!("cannot be read: {error}")))
}

fn fault(name: &str, path: &Path, problem: &str) -> Fault {
    let problem = format!("{}: {problem}", path.display());
    Fault::new(format!("server.tls.{name}"), problem)
}

fn read_chain(path: &Path) -> Result<Vec<CertificateDer<'static>>, Fault> {
    let text = contents("certificate", path)?;
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    let chain = chain.map_err(|error| fault("certificate", path, &not_pem(&error)))?;
    if chain.is_empty() {
        let problem = "there is no certificate in it; expected a PEM file with the server's certificate, followed by the \
                       intermediate ones (-----BEGIN CERTIFICATE-----)";
        return Err(fault("certificate", path, problem));
    }
    Ok(chain)
}

fn read_key(path: &Path) -> Result<PrivateKeyDer<'static>, Fault> {
    let missing = "there is no private key in it; expected a PEM file with a key that is not encrypted (-----BEGIN PRIVATE \
                   KEY-----)";
    PrivateKeyDer::from_pem_slice(&contents("key", path)?).map_err(|error| match error {
        pem::Error::NoItemsFound => fault("key", path, missing),
        error => fault("key", path, &not_pem(&error)),
    })
}

fn not_pem(error: &pem::Error) -> String {
    format!("is not in PEM format: {error}")
}

fn certified_key(
    chain: Vec<CertificateDer<'static>>,
    key: &PrivateKeyDer<'static>,
    files: &Tls,
) -> Result<CertifiedKey, Fault> {
    let key_fault = |problem: &str| fault("key", &files.key, problem);
    let key = ring::sign::any_supported_type(key).map_err(|error| {
        key_fault(&format!(
            "cannot be used: {error}; expected an RSA, ECDSA (P-256, P-384) or Ed25519 key"
        ))
    })?;
    let certified = CertifiedKey::new(chain, key);
    // Unknown: rustls cannot compare keys of this type.
    match certified.keys_match() {
        Ok(()) | Err(Error::InconsistentKeys(InconsistentKeys::Unknown)) => Ok(certified),
        Err(Error::InconsistentKeys(_)) => {
            let certificate = files.certificate.display();
            Err(key_fault(&format!(
                "is not the key of the first certificate in {certificate}; expected the one that it was made with"
            )))
        }
        Err(error) => Err(fault(
            "certificate",
            &files.certificate,
            &format!("cannot be used: {error}"),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Files of a new certificate for that name.
    fn files(directory: &Path, name: &str) -> Tls {
        let made = rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
        let tls = Tls {
            certificate: directory.join("cert.pem"),
            key: directory.join("key.pem"),
        };
        fs::write(&tls.certificate, made.cert.pem()).unwrap();
        fs::write(&tls.key, made.signing_key.serialize_pem()).unwrap();
        tls
    }

    fn problems(read: Result<impl Sized, Vec<Fault>>) -> Vec<String> {
        read.err()
            .expect("there are faults")
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn each_fault_names_its_key_and_file() {
        let directory = tempfile::tempdir().unwrap();
        let good = files(directory.path(), "a.test");
        assert!(Certificates::read(&good).is_ok());
        let missing = directory.path().join("missing.pem");
        let both = problems(Certificates::read(&Tls {
            certificate: missing.clone(),
            key: missing,
        }));
        assert!(
            both.len() == 2 && both[0].starts_with("server.tls.certificate: "),
            "{both:?}"
        );
        assert!(
            both[1].starts_with("server.tls.key: ") && both[1].contains("missing.pem"),
            "{both:?}"
        );
        let swapped = Tls {
            certificate: good.key.clone(),
            key: good.certificate.clone(),
        };
        let swapped = problems(Certificates::read(&swapped));
        assert!(
            swapped[0].contains("no certificate") && swapped[1].contains("no private key"),
            "{swapped:?}"
        );
        let other = tempfile::tempdir().unwrap();
        let wrong = Tls {
            key: files(other.path(), "a.test").key,
            ..good.clone()
        };
        let wrong = problems(Certificates::read(&wrong));
        assert!(
            wrong.len() == 1 && wrong[0].starts_with("server.tls.key: "),
            "{wrong:?}"
        );
        assert!(
            wrong[0].contains("is not the key of the first certificate"),
            "{wrong:?}"
        );
        let pem = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        fs::write(&good.certificate, pem).unwrap();
        let broken = problems(Certificates::read(&good));
        assert!(
            broken.len() == 1 && broken[0].starts_with("server.tls.certificate: "),
            "{broken:?}"
        );
        fs::write(&good.certificate, pem.replace("AAAA", "!")).unwrap();
        assert!(problems(Certificates::read(&good))[0].contains("PEM"));
    }

    #[test]
    fn broken_files_leave_the_old_certificate_in_force() {
        let directory = tempfile::tempdir().unwrap();
        let tls = files(directory.path(), "a.test");
        let certificates = Certificates::read(&tls).unwrap();
        let first = certificates.current();
        assert!(
            certificates.renewed(&tls).unwrap().is_none(),
            "nothing has changed"
        );
        fs::write(&tls.key, "").unwrap();
        assert!(certificates.renewed(&tls).is_err());
        assert!(Arc::ptr_eq(&first, &certificates.current()));
        files(directory.path(), "b.test");
        certificates.replace(certificates.renewed(&tls).unwrap().unwrap());
        assert!(certificates.renewed(&tls).unwrap().is_none());
        assert!(!Arc::ptr_eq(&first, &certificates.current()));
    }
}
