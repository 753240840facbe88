//! Certificates whose files the name of a handshake leads to.
//!
//! Called by: `table`, when a handshake asks for its certificate.
//! Caveat: a name comes from a client, so its files are read with the rights of the server's user, and
//! never through the broker. A name has no slash and no empty part.
//! Out of scope: what a name leads to (the front end).

use super::{Certificate, files::FileStamp};
use saker_config::model::HandshakeCertificate;
use saker_telemetry::{error_log, message};
use std::{
    collections::HashMap,
    fs::File,
    io::Read,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

/// Names whose certificates are kept in memory.
const KEPT_MAX: usize = 1024;
/// A chain, or a key.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// A certificate of a site, by what its texts say for a name.
#[derive(Debug)]
pub struct OfHandshake {
    terms: HandshakeCertificate,
    kept: Mutex<HashMap<Sources, Kept>>,
}

/// Values of the certificate's text and the key's.
type Sources = (Vec<u8>, Vec<u8>);

#[derive(Debug)]
struct Kept {
    stamps: [FileStamp; 2],
    certificate: Arc<Certificate>,
}

impl OfHandshake {
    pub fn new(terms: HandshakeCertificate) -> OfHandshake {
        OfHandshake {
            terms,
            kept: Mutex::default(),
        }
    }

    /// Returns the certificate for a name; `None`: there is none that can be used.
    pub fn find(&self, name: Option<&str>) -> Option<Arc<Certificate>> {
        let name = name.unwrap_or_default();
        let sources = (
            (self.terms.certificate.value)(name),
            (self.terms.key.value)(name),
        );
        // Before the content, so that a change in between is seen as one.
        let stamps = [self.stamp(&sources.0), self.stamp(&sources.1)];
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = kept.get(&sources).filter(|known| known.stamps == stamps) {
            return Some(Arc::clone(&known.certificate));
        }
        let read = self.read(&sources.0).and_then(|chain| {
            let key = self.read(&sources.1)?;
            Certificate::from_pem(&chain, &key)
        });
        let certificate = match read {
            Ok(certificate) => Arc::new(certificate),
            Err(why) => {
                kept.remove(&sources);
                let source = &self.terms.certificate.source;
                error_log::log(
                    &message::HANDSHAKE_CERTIFICATE,
                    format_args!("`{source}` for the name \"{name}\": {why}"),
                );
                return None;
            }
        };
        if kept.len() >= KEPT_MAX
            && let Some(other) = kept.keys().next().cloned()
        {
            kept.remove(&other);
        }
        let certificate_kept = Arc::clone(&certificate);
        kept.insert(
            sources,
            Kept {
                stamps,
                certificate: certificate_kept,
            },
        );
        Some(certificate)
    }

    fn stamp(&self, source: &[u8]) -> FileStamp {
        match source.strip_prefix(b"data:") {
            Some(_) => FileStamp::default(),
            None => FileStamp::of_unprivileged(&self.path(source)),
        }
    }

    fn path(&self, source: &[u8]) -> std::path::PathBuf {
        self.terms
            .base
            .join(Path::new(&*String::from_utf8_lossy(source)))
    }

    fn read(&self, source: &[u8]) -> Result<Vec<u8>, String> {
        if let Some(pem) = source.strip_prefix(b"data:") {
            return Ok(pem.to_vec());
        }
        if source.is_empty() {
            return Err("there is none for it".to_owned());
        }
        let path = self.path(source);
        let failed = |error: std::io::Error| format!("cannot read {}: {error}", path.display());
        let file = File::open(&path).map_err(failed)?;
        let found = file.metadata().map_err(failed)?;
        if !found.is_file() || found.len() > FILE_BYTES_MAX {
            return Err(format!("{} is no file of a sensible size", path.display()));
        }
        let mut content = Vec::new();
        file.take(FILE_BYTES_MAX)
            .read_to_end(&mut content)
            .map_err(failed)?;
        Ok(content)
    }
}
