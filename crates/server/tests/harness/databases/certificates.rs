//! Certificates of an authority of the test's own, which databases show and ask for.

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use std::{
    fs,
    os::unix::fs::{PermissionsExt, chown},
    path::{Path, PathBuf},
};

/// In a folder: `ca.pem` and, of it, `server.pem` for `localhost` and `client.pem` for saker, each
/// with a `.key`; `other.pem` is another authority's.
pub struct Certificates(PathBuf);

impl Certificates {
    pub fn make(folder: &Path) -> Certificates {
        let made = Certificates(folder.join("certificates"));
        fs::create_dir_all(&made.0).expect("folder");
        let ca = authority("the authority of the test");
        made.write("ca.pem", &ca.1);
        made.write("other.pem", &authority("another authority").1);
        for (name, host) in [("server", "localhost"), ("client", "saker")] {
            let key = KeyPair::generate().expect("a key");
            let mut params = CertificateParams::new([host.to_owned()]).expect("a name");
            params.distinguished_name.push(DnType::CommonName, host);
            params.is_ca = IsCa::ExplicitNoCa;
            made.write(
                &format!("{name}.pem"),
                &params.signed_by(&key, &ca.0).expect("signed").pem(),
            );
            made.write(&format!("{name}.key"), &key.serialize_pem());
        }
        made
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.0.join(name), text).expect("written");
    }

    pub fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }

    /// PostgreSQL demands that no other user can read its key.
    pub fn give_to(&self, user: &str) {
        let key = self.0.join("server.key");
        fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).expect("permissions");
        if rustix::process::geteuid().is_root() {
            let users = fs::read_to_string("/etc/passwd").expect("users");
            let id = users.lines().find_map(|line| {
                line.strip_prefix(&format!("{user}:"))?
                    .split(':')
                    .nth(1)?
                    .parse()
                    .ok()
            });
            chown(&key, id, None).expect("given");
        }
    }
}

fn authority(name: &str) -> (Issuer<'static, KeyPair>, String) {
    let key = KeyPair::generate().expect("a key");
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, name);
    let pem = params.self_signed(&key).expect("signed").pem();
    (Issuer::new(params, key), pem)
}
