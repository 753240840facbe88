//! The side of a server that an authority sees: HTTP-01 on one port, TLS-ALPN-01 on another; and
//! the certificates that are installed.

use rustls::{
    ServerConfig, ServerConnection, StreamOwned,
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, pem::PemObject},
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
};
use saker_acme::{Challenges, Installer};
use std::{
    collections::HashMap,
    io::{BufRead, BufReader, Read, Write},
    net::TcpListener,
    sync::{Arc, Mutex},
    thread,
};

#[derive(Debug, Default)]
pub struct Site {
    /// Names, chain and key, in the order in which they came.
    pub installed: Mutex<Vec<(Vec<String>, String, String)>>,
    challenges: Mutex<HashMap<String, Arc<CertifiedKey>>>,
    /// Refuses the chains installed from now on.
    pub refuses: Mutex<bool>,
}

impl Site {
    pub fn installed_names(&self) -> Vec<Vec<String>> {
        self.installed
            .lock()
            .unwrap()
            .iter()
            .map(|(names, ..)| names.clone())
            .collect()
    }

    pub fn has_challenges(&self) -> bool {
        !self.challenges.lock().unwrap().is_empty()
    }
}

impl Installer for Site {
    fn install(&self, names: &[String], chain_pem: &str, key_pem: &str) -> Result<(), String> {
        let chain: Vec<_> = CertificateDer::pem_slice_iter(chain_pem.as_bytes())
            .collect::<Result<_, _>>()
            .unwrap();
        let key = PrivateKeyDer::from_pem_slice(key_pem.as_bytes()).unwrap();
        CertifiedKey::from_der(chain, key, &aws_lc_rs::default_provider())
            .unwrap()
            .keys_match()
            .unwrap();
        if *self.refuses.lock().unwrap() {
            return Err("not wanted".into());
        }
        self.installed
            .lock()
            .unwrap()
            .push((names.to_vec(), chain_pem.into(), key_pem.into()));
        Ok(())
    }

    fn uninstall(&self, names: &[String]) {
        self.installed
            .lock()
            .unwrap()
            .retain(|(installed, ..)| !installed.iter().any(|name| names.contains(name)));
    }

    fn set_challenge(&self, name: &str, certificate_der: &[u8], key_der: &[u8]) {
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key_der.to_vec()));
        let key = aws_lc_rs::sign::any_supported_type(&key).unwrap();
        // Not `from_der`, which does not know the critical extension.
        let certified = CertifiedKey::new(vec![certificate_der.to_vec().into()], key);
        self.challenges
            .lock()
            .unwrap()
            .insert(name.into(), Arc::new(certified));
    }

    fn clear_challenge(&self, name: &str) {
        self.challenges.lock().unwrap().remove(name);
    }
}

impl ResolvesServerCert for Site {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.challenges
            .lock()
            .unwrap()
            .get(hello.server_name()?)
            .cloned()
    }
}

/// Answers as a worker does on a plain listener.
pub fn serve_http(port: u16, challenges: Arc<Challenges>) {
    let listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut line = String::new();
            let _: Result<usize, _> = BufReader::new(&stream).read_line(&mut line);
            let path = line.split(' ').nth(1).unwrap_or_default();
            let answer = match challenges.answer(path.as_bytes()) {
                Some(body) => format!(
                    "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
                    body.len()
                ),
                None => "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
                    .into(),
            };
            let _: Result<(), _> = (&stream).write_all(answer.as_bytes());
        }
    });
}

/// Handshakes as `acme-tls/1`.
pub fn serve_tls(port: u16, site: Arc<Site>) {
    let listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
    let mut config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_cert_resolver(site);
    config.alpn_protocols = vec![b"acme-tls/1".to_vec()];
    let config = Arc::new(config);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let session = ServerConnection::new(config.clone()).unwrap();
            let _: Result<usize, _> = StreamOwned::new(session, stream).read(&mut [0; 16]);
        }
    });
}
