//! Certificates for tests, and sites that show them.

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, CertifiedIssuer, DnType,
    ExtendedKeyUsagePurpose, IsCa, KeyIdMethod, KeyPair, KeyUsagePurpose, PKCS_RSA_SHA256,
    RevokedCertParams, RsaKeySize, SerialNumber, date_time_ymd,
};
use rustls::{
    RootCertStore,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};
use saker_config::{
    HostTable, Model,
    model::{Address, CertificateFiles, Listener, ListenerTls, Origin, Site, SiteName, SiteTls},
};
use saker_testkit::TempDir;
use saker_tls::{Acceptor, Identities, LoadProblem, Tickets};
use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    Ecdsa,
    Rsa,
}

pub struct Authority {
    pub issuer: CertifiedIssuer<'static, KeyPair>,
}

pub struct Leaf {
    pub chain: String,
    pub key: String,
}

impl Authority {
    pub fn new(name: &str) -> Authority {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        Authority {
            issuer: CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap(),
        }
    }

    pub fn pem(&self) -> String {
        self.issuer.pem()
    }

    pub fn leaf(&self, key: Key, names: &[&str]) -> Leaf {
        self.leaf_with(key, names, |_| {})
    }

    pub fn leaf_with(
        &self,
        key: Key,
        names: &[&str],
        change: impl FnOnce(&mut CertificateParams),
    ) -> Leaf {
        let mut params = CertificateParams::new(
            names
                .iter()
                .map(|name| (*name).to_owned())
                .collect::<Vec<_>>(),
        )
        .unwrap();
        params.distinguished_name.push(
            DnType::CommonName,
            names.first().copied().unwrap_or("nobody"),
        );
        params.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        params.use_authority_key_identifier_extension = true;
        change(&mut params);
        let key = match key {
            Key::Ecdsa => KeyPair::generate().unwrap(),
            Key::Rsa => KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_2048).unwrap(),
        };
        let made = params.signed_by(&key, &self.issuer).unwrap();
        Leaf {
            chain: made.pem(),
            key: key.serialize_pem(),
        }
    }

    /// A revocation list, good until then.
    pub fn revocation_list(&self, serials: &[u64], until_year: i32) -> String {
        let revoked_certs = serials.iter().map(|serial| RevokedCertParams {
            serial_number: SerialNumber::from(*serial),
            revocation_time: date_time_ymd(2024, 1, 1),
            reason_code: None,
            invalidity_date: None,
        });
        let params = CertificateRevocationListParams {
            this_update: date_time_ymd(2024, 1, 1),
            next_update: date_time_ymd(until_year, 1, 1),
            crl_number: SerialNumber::from(1_u64),
            issuing_distribution_point: None,
            revoked_certs: revoked_certs.collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        params.signed_by(&self.issuer).unwrap().pem().unwrap()
    }

    pub fn roots(&self) -> RootCertStore {
        let mut roots = RootCertStore::empty();
        roots.add(self.issuer.der().clone()).unwrap();
        roots
    }
}

impl Leaf {
    pub fn chain_der(&self) -> Vec<CertificateDer<'static>> {
        CertificateDer::pem_slice_iter(self.chain.as_bytes())
            .map(Result::unwrap)
            .collect()
    }

    pub fn key_der(&self) -> PrivateKeyDer<'static> {
        PrivateKeyDer::from_pem_slice(self.key.as_bytes()).unwrap()
    }
}

/// Sites with their files in a folder of their own.
pub struct Sites {
    pub dir: TempDir,
    pub sites: Vec<(Vec<SiteName>, SiteTls)>,
    /// Place of the site with the same index; empty fields match everywhere.
    places: Vec<Place>,
    files: usize,
}

/// A listener's port, or an address of this machine.
#[derive(Clone, Copy, Default)]
struct Place {
    port: Option<u16>,
    local: Option<IpAddr>,
}

impl Sites {
    pub fn new() -> Sites {
        Sites {
            dir: TempDir::new("tls-test").unwrap(),
            sites: Vec::new(),
            places: Vec::new(),
            files: 0,
        }
    }

    /// A site of these names (`*.x` for a wildcard) with these certificates.
    pub fn with(mut self, names: &[&str], leaves: &[&Leaf]) -> Sites {
        let names = names
            .iter()
            .map(|name| match (*name, name.strip_prefix("*.")) {
                ("*", _) => SiteName::Any,
                (_, Some(parent)) => SiteName::Wildcard(parent.into()),
                _ => SiteName::Exact((*name).into()),
            });
        let names = names.collect();
        let certificates = leaves.iter().map(|leaf| self.files_of(leaf)).collect();
        self.sites.push((
            names,
            SiteTls {
                certificates,
                ..SiteTls::default()
            },
        ));
        self
    }

    /// Restricts the last site to the listener of that port.
    pub fn on(mut self, port: u16) -> Sites {
        self.place().port = Some(port);
        self
    }

    /// Restricts the last site to that local address.
    pub fn at(mut self, local: IpAddr) -> Sites {
        self.place().local = Some(local);
        self
    }

    fn place(&mut self) -> &mut Place {
        self.places.resize(self.sites.len(), Place::default());
        self.places.last_mut().unwrap()
    }

    /// With a listener for each port that sites are on, and [`PORT`].
    pub fn model(&self) -> Model {
        let mut ports = vec![PORT];
        ports.extend(self.places.iter().filter_map(|place| place.port));
        ports.sort_unstable();
        ports.dedup();
        let site = |(index, (names, tls)): (usize, &(Vec<SiteName>, SiteTls))| {
            let Place { port, local } = self.places.get(index).copied().unwrap_or_default();
            Arc::new(Site {
                names: names.clone(),
                tls: Arc::new(tls.clone()),
                listeners: port.map(address).into_iter().collect(),
                local_addresses: local
                    .map(|local| SocketAddr::new(local, 0))
                    .into_iter()
                    .collect(),
                ..Site::new(origin(100))
            })
        };
        let sites = self.sites.iter().enumerate().map(site).collect();
        Model {
            listeners: ports.into_iter().map(listener).collect(),
            sites,
            ..Model::default()
        }
    }

    /// Changes what was added last.
    pub fn where_tls(mut self, change: impl FnOnce(&mut SiteTls, &TempDir)) -> Sites {
        change(&mut self.sites.last_mut().unwrap().1, &self.dir);
        self
    }

    fn files_of(&mut self, leaf: &Leaf) -> CertificateFiles {
        self.files += 1;
        let certificate = self
            .dir
            .write(&format!("{}.pem", self.files), &leaf.chain)
            .unwrap();
        let key = self.write_key(&format!("{}.key", self.files), &leaf.key);
        CertificateFiles::new(certificate, key, origin(self.files))
    }

    pub fn write_key(&self, name: &str, content: &str) -> PathBuf {
        use std::os::unix::fs::PermissionsExt;
        let path = self.dir.write(name, content).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        path
    }

    pub fn load(&self) -> (Identities, Vec<LoadProblem>) {
        self.load_after(None)
    }

    pub fn load_after(&self, previous: Option<&Identities>) -> (Identities, Vec<LoadProblem>) {
        let model = self.model();
        Identities::load(&model, &Arc::new(HostTable::new(&model)), previous)
    }

    /// Loads the identities, without any problem.
    pub fn identities(&self) -> Arc<Identities> {
        let (identities, problems) = self.load();
        assert_eq!(problems, []);
        Arc::new(identities)
    }

    pub fn acceptor(&self) -> Acceptor {
        acceptor(&self.identities())
    }
}

pub fn origin(line: usize) -> Origin {
    Origin {
        file: "saker.toml".into(),
        line: u32::try_from(line).unwrap(),
        column: 1,
    }
}

/// The listener's where nothing else is said.
pub const PORT: u16 = 443;
pub const LOCAL: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

pub fn address(port: u16) -> Address {
    Address::Tcp(SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), port))
}

pub fn listener(port: u16) -> Listener {
    Listener {
        tls: Some(ListenerTls::default()),
        ..Listener::new(address(port), origin(1))
    }
}

pub fn acceptor(identities: &Arc<Identities>) -> Acceptor {
    acceptor_on(
        identities,
        PORT,
        &Arc::new(Tickets::own(Duration::from_secs(3600))),
    )
}

pub fn acceptor_on(identities: &Arc<Identities>, port: u16, tickets: &Arc<Tickets>) -> Acceptor {
    Acceptor::new(
        Arc::clone(identities),
        &listener(port),
        Arc::clone(tickets),
        &[b"h2", b"http/1.1"],
    )
}
