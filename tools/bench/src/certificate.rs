//! The certificate that all servers of a run have: P-256, self-made, for this run only.

use rcgen::generate_simple_self_signed;
use saker_testkit::PeerTls;
use std::{
    fs,
    path::{Path, PathBuf},
};

pub struct Certificate {
    chain: PathBuf,
    key: PathBuf,
}

impl Certificate {
    pub fn write(folder: &Path) -> Result<Certificate, String> {
        let made = generate_simple_self_signed(["localhost".to_owned(), "127.0.0.1".to_owned()])
            .map_err(|error| error.to_string())?;
        let files = Certificate {
            chain: folder.join("chain.pem"),
            key: folder.join("key.pem"),
        };
        let save = |file: &Path, text: String| {
            fs::write(file, text).map_err(|error| format!("{}: {error}", file.display()))
        };
        save(&files.chain, made.cert.pem())?;
        save(&files.key, made.signing_key.serialize_pem())?;
        Ok(files)
    }

    /// Another machine's, of which this one has the chain alone.
    pub fn of_chain(folder: &Path, chain: &str) -> Result<Certificate, String> {
        let files = Certificate {
            chain: folder.join("chain.pem"),
            key: folder.join("no-key.pem"),
        };
        fs::write(&files.chain, chain)
            .map_err(|error| format!("{}: {error}", files.chain.display()))?;
        Ok(files)
    }

    pub fn files(&self) -> PeerTls<'_> {
        PeerTls {
            chain: &self.chain,
            key: &self.key,
        }
    }
}
