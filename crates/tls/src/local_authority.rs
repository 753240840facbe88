//! Certificate authority of this machine, for `saker serve` and sites that no other authority can
//! certify.
//!
//! Created once and kept in the state directory: an authority for ten years, and a certificate
//! signed by it that is renewed in time or when the names change.
//!
//! Caveat: clients that trust the authority's certificate trust every certificate it signs, so its
//! key never leaves the directory. A directory or key that belongs to another user, or that others
//! can write to or read, is refused: it could be another user's authority.

use crate::{
    der::{self, CertificateFacts},
    identities::Certificate,
    unix_time::now,
};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose,
};
use rustls::pki_types::DnsName;
use std::{
    fs, io,
    io::Write,
    net::IpAddr,
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    process,
    time::{Duration, SystemTime},
};

const DAY: u64 = 86_400;
const AUTHORITY_DAYS: u64 = 3_650;
/// Lifetime of a leaf certificate, in days; browsers accept at most 398.
const LEAF_DAYS: u64 = 397;
/// Renewed when it has no more than this to live.
const RENEW_DAYS: u64 = 30;
const CERTIFICATE: &str = "authority.pem";
const KEY: &str = "authority.key";
const ALWAYS_NAMED: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

#[derive(Clone, Debug)]
pub struct LocalCertificate {
    /// The certificate and its authority's.
    pub chain_pem: Vec<u8>,
    pub key_pem: Vec<u8>,
    /// File with the authority's certificate, for clients to trust.
    pub authority_path: PathBuf,
    /// It is new, so no client trusts it yet.
    pub created_authority: bool,
}

/// A certificate for `localhost`, the loopback addresses, this host's name and `names`, signed by
/// the authority in `dir`. Both are made if they are not there, in a folder and in files that only
/// their owner can read.
///
/// `user`: the user that the server switches to, to whom the files may belong, too.
pub fn local_certificate(
    dir: &Path,
    names: &[String],
    user: Option<u32>,
) -> io::Result<LocalCertificate> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)?;
    check_owner(dir, user)?;
    let (authority, created_authority) = authority(dir)?;
    let names = all_names(names);
    let (chain_path, key_path) = (dir.join("local.pem"), dir.join("local.key"));
    let kept = if created_authority {
        None
    } else {
        kept_leaf(&chain_path, &key_path, &names, &authority)
    };
    let (chain_pem, key_pem) = match kept {
        Some(kept) => kept,
        None => {
            let (chain, key) = make_leaf(&names, &authority)?;
            write_secret(&key_path, &key)?;
            write_secret(&chain_path, &chain)?;
            (chain, key)
        }
    };
    Ok(LocalCertificate {
        chain_pem,
        key_pem,
        authority_path: dir.join(CERTIFICATE),
        created_authority,
    })
}

/// Returns the certificate of the authority in `dir`, which is made if it is not there, as
/// [`local_certificate`] makes it.
///
/// # Errors
/// The directory is not this user's, or can't be written to.
pub fn local_authority(dir: &Path, user: Option<u32>) -> io::Result<PathBuf> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)?;
    check_owner(dir, user)?;
    authority(dir)?;
    Ok(dir.join(CERTIFICATE))
}

/// Returns the common name of a certificate in PEM form.
pub fn certificate_name(pem: &[u8]) -> Option<String> {
    use rustls::pki_types::{CertificateDer, pem::PemObject};
    let certificate = CertificateDer::from_pem_slice(pem).ok()?;
    der::common_name(&der::certificate(&certificate)?.subject)
}

/// Refuses a directory with an authority that may be another user's. Root may have made what is in
/// it; a server that switches to another user keeps it.
fn check_owner(dir: &Path, user: Option<u32>) -> io::Result<()> {
    let own = rustix::process::geteuid().as_raw();
    for (path, forbidden) in [
        (dir.to_owned(), 0o022),
        (dir.join(KEY), 0o077),
        (dir.join(CERTIFICATE), 0o022),
    ] {
        let found = match fs::symlink_metadata(&path) {
            Ok(found) => found,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        let (shown, mode) = (path.display(), found.mode() & 0o777);
        let why = if found.is_symlink() {
            format!("{shown} is a symbolic link; remove it")
        } else if ![0, own].contains(&found.uid()) && user != Some(found.uid()) {
            let owner = found.uid();
            format!("{shown} belongs to another user ({owner}); remove it")
        } else if mode & forbidden != 0 {
            format!(
                "other users can use {shown} (mode {mode:04o}); remove it, and trust the new one"
            )
        } else {
            continue;
        };
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    }
    Ok(())
}

struct Authority {
    pem: String,
    /// DER.
    subject: Vec<u8>,
    issuer: Issuer<'static, KeyPair>,
}

fn authority(dir: &Path) -> io::Result<(Authority, bool)> {
    let (path, key_path) = (dir.join(CERTIFICATE), dir.join(KEY));
    if let (Ok(pem), Ok(key)) = (fs::read_to_string(&path), fs::read_to_string(&key_path))
        && let Some(kept) = kept_authority(pem, &key)
    {
        return Ok((kept, false));
    }
    let (made, key) = make_authority()?;
    write_secret(&key_path, key.as_bytes())?;
    write_secret(&path, made.pem.as_bytes())?;
    Ok((made, true))
}

/// `None` if it is broken or near its end: then a new one is made.
fn kept_authority(pem: String, key: &str) -> Option<Authority> {
    // That the two belong together is what a certificate of a site is checked for.
    let facts = Certificate::from_pem(pem.as_bytes(), key.as_bytes())
        .ok()?
        .facts;
    let key = KeyPair::from_pem(key).ok()?;
    let params = authority_params(&der::common_name(&facts.subject)?);
    has_days(&facts, LEAF_DAYS).then_some(Authority {
        pem,
        subject: facts.subject,
        issuer: Issuer::new(params, key),
    })
}

fn make_authority() -> io::Result<(Authority, String)> {
    let name = format!(
        "Saker local authority ({})",
        host_name().unwrap_or_else(|| "localhost".into())
    );
    let key = KeyPair::generate().map_err(io::Error::other)?;
    let key_pem = key.serialize_pem();
    let made = authority_params(&name)
        .self_signed(&key)
        .map_err(io::Error::other)?;
    let subject = der::certificate(made.der())
        .map(|facts| facts.subject)
        .unwrap_or_default();
    Ok((
        Authority {
            pem: made.pem(),
            subject,
            issuer: Issuer::new(authority_params(&name), key),
        },
        key_pem,
    ))
}

fn authority_params(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    set_validity(&mut params, AUTHORITY_DAYS);
    params
}

fn make_leaf(names: &[String], authority: &Authority) -> io::Result<(Vec<u8>, Vec<u8>)> {
    let mut params = CertificateParams::new(names).map_err(io::Error::other)?;
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(
        DnType::CommonName,
        names.first().map_or("localhost", String::as_str),
    );
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.use_authority_key_identifier_extension = true;
    set_validity(&mut params, LEAF_DAYS);
    let key = KeyPair::generate().map_err(io::Error::other)?;
    let leaf = params
        .signed_by(&key, &authority.issuer)
        .map_err(io::Error::other)?;
    Ok((
        format!("{}{}", leaf.pem(), authority.pem).into_bytes(),
        key.serialize_pem().into_bytes(),
    ))
}

/// From a day ago, for clocks that are behind.
fn set_validity(params: &mut CertificateParams, days: u64) {
    let start = SystemTime::now() - Duration::from_secs(DAY);
    params.not_before = start.into();
    params.not_after = (start + Duration::from_secs(days * DAY)).into();
}

fn kept_leaf(
    chain_path: &Path,
    key_path: &Path,
    names: &[String],
    authority: &Authority,
) -> Option<(Vec<u8>, Vec<u8>)> {
    let (chain, key) = (fs::read(chain_path).ok()?, fs::read(key_path).ok()?);
    let facts = Certificate::from_pem(&chain, &key).ok()?.facts;
    let mut named: Vec<String> = facts
        .addresses
        .iter()
        .map(ToString::to_string)
        .chain(facts.dns_names.iter().cloned())
        .collect();
    let mut wanted = names.to_vec();
    named.sort();
    wanted.sort();
    let is_ours = facts.issuer == authority.subject && chain.ends_with(authority.pem.as_bytes());
    (named == wanted && is_ours && has_days(&facts, RENEW_DAYS)).then_some((chain, key))
}

fn has_days(facts: &CertificateFacts, days: u64) -> bool {
    i64::try_from(days * DAY).is_ok_and(|seconds| facts.not_after > now() + seconds)
}

/// Names that fit into a certificate, each once, in lower case; addresses in their usual spelling.
fn all_names(further: &[String]) -> Vec<String> {
    let host = host_name();
    let mut names: Vec<String> = Vec::new();
    for name in ALWAYS_NAMED
        .into_iter()
        .chain(host.as_deref())
        .chain(further.iter().map(String::as_str))
    {
        let name = name
            .parse::<IpAddr>()
            .map_or_else(|_| name.to_ascii_lowercase(), |address| address.to_string());
        let is_usable = name.parse::<IpAddr>().is_ok()
            || DnsName::try_from(name.strip_prefix("*.").unwrap_or(&name)).is_ok();
        if is_usable && !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

fn host_name() -> Option<String> {
    let name = fs::read_to_string("/proc/sys/kernel/hostname")
        .ok()?
        .trim()
        .to_ascii_lowercase();
    DnsName::try_from(name.as_str()).is_ok().then_some(name)
}

/// Written beside and renamed, so that a crash leaves the old or the new, and readable by the owner
/// alone from the first moment.
fn write_secret(path: &Path, content: &[u8]) -> io::Result<()> {
    let beside = path.with_extension(format!("new-{}", process::id()));
    let _ = fs::remove_file(&beside);
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&beside)?;
    file.write_all(content)?;
    file.sync_all()?;
    fs::rename(&beside, path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use saker_testkit::TempDir;
    use std::os::unix::fs::PermissionsExt;

    fn made(dir: &Path, names: &[&str]) -> LocalCertificate {
        local_certificate(
            dir,
            &names
                .iter()
                .map(|name| (*name).to_owned())
                .collect::<Vec<_>>(),
            None,
        )
        .unwrap()
    }

    fn facts(made: &LocalCertificate) -> CertificateFacts {
        Certificate::from_pem(&made.chain_pem, &made.key_pem)
            .unwrap()
            .facts
    }

    #[test]
    fn is_made_once_and_kept_secret() {
        let temp = TempDir::new("authority").unwrap();
        let dir = temp.join("state/tls");
        let first = made(&dir, &["Dev.Example", "127.0.0.1", "not a name"]);
        assert!(first.created_authority);
        let again = made(&dir, &["dev.example"]);
        assert!(!again.created_authority);
        assert_eq!(
            (first.chain_pem, first.key_pem),
            (again.chain_pem, again.key_pem)
        );
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&dir), 0o700);
        for name in ["authority.key", "authority.pem", "local.key", "local.pem"] {
            assert_eq!(mode(&dir.join(name)), 0o600, "{name}");
        }
    }

    #[test]
    fn another_users_authority_is_not_used() {
        let temp = TempDir::new("authority").unwrap();
        let dir = temp.join("state");
        made(&dir, &[]);
        let chmod = |name: &str, mode: u32| {
            let path = dir.join(name);
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        };
        let refusal = || local_certificate(&dir, &[], None).unwrap_err().to_string();
        for (name, mode, usual) in [
            ("", 0o720, 0o700),
            (KEY, 0o640, 0o600),
            (CERTIFICATE, 0o622, 0o600),
        ] {
            chmod(name, mode);
            assert!(refusal().contains("other users can use"), "{name}");
            chmod(name, usual);
            assert!(local_certificate(&dir, &[], None).is_ok(), "{name}");
        }
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(dir.join(KEY), Some(4321), None).unwrap();
            assert!(refusal().contains("belongs to another user (4321)"));
            assert!(local_certificate(&dir, &[], Some(4321)).is_ok());
            std::os::unix::fs::chown(dir.join(KEY), Some(0), None).unwrap();
        }
        fs::rename(dir.join(KEY), temp.join("key")).unwrap();
        std::os::unix::fs::symlink(temp.join("key"), dir.join(KEY)).unwrap();
        assert!(refusal().contains("symbolic link"));
        assert!(local_authority(&dir, None).is_err());
    }

    #[test]
    fn names_and_times() {
        let temp = TempDir::new("authority").unwrap();
        let leaf = facts(&made(&temp, &["dev.example", "*.dev.example", "10.1.2.3"]));
        for name in ["localhost", "dev.example", "*.dev.example"] {
            assert!(leaf.dns_names.iter().any(|own| own == name), "{name}");
        }
        for address in ["127.0.0.1", "::1", "10.1.2.3"] {
            assert!(
                leaf.addresses.contains(&address.parse().unwrap()),
                "{address}"
            );
        }
        assert_eq!(leaf.not_after - leaf.not_before, 397 * 86_400);
        let authority = fs::read(temp.join("authority.pem")).unwrap();
        let authority =
            Certificate::from_pem(&authority, &fs::read(temp.join("authority.key")).unwrap())
                .unwrap()
                .facts;
        assert_eq!(authority.not_after - authority.not_before, 3_650 * 86_400);
        assert_eq!(leaf.issuer, authority.subject);
        assert!(
            der::common_name(&authority.subject)
                .unwrap()
                .starts_with("Saker local authority (")
        );
    }

    #[test]
    fn other_names_renew_the_leaf_alone() {
        let temp = TempDir::new("authority").unwrap();
        let (first, second) = (made(&temp, &[]), made(&temp, &["dev.example"]));
        assert!(!second.created_authority);
        assert_ne!(first.chain_pem, second.chain_pem);
        assert_eq!(facts(&first).issuer, facts(&second).issuer);
    }

    #[test]
    fn what_is_broken_is_made_anew() {
        let temp = TempDir::new("authority").unwrap();
        let first = made(&temp, &[]);
        fs::write(temp.join("local.key"), "broken").unwrap();
        let second = made(&temp, &[]);
        assert!(!second.created_authority && second.key_pem != first.key_pem);
        fs::write(temp.join("authority.pem"), "broken").unwrap();
        assert!(made(&temp, &[]).created_authority);
    }
}
