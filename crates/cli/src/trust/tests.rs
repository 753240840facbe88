//! Stores of a home and of a machine in a directory.

use super::*;
use saker_testkit::TempDir;

fn authority_in(dir: &Path) -> Authority {
    let path = local_authority(&dir.join("authority"), None).unwrap();
    let pem = fs::read_to_string(&path).unwrap();
    let name = certificate_name(pem.as_bytes()).unwrap();
    Authority { path, pem, name }
}

#[test]
fn databases_of_browsers() {
    let dir = TempDir::private("trust").unwrap();
    let authority = authority_in(&dir);
    assert!(authority.name.starts_with("Saker local authority"));
    if std::process::Command::new("certutil")
        .arg("-H")
        .output()
        .is_err()
    {
        let steps = nss::change(&dir, &authority, false);
        assert!(matches!(&steps[..], [Step::LeftOut(why)] if why.contains("libnss3-tools")));
        return;
    }
    let profile = dir.join(".mozilla/firefox/a.default");
    fs::create_dir_all(&profile).unwrap();
    let first = nss::change(&dir, &authority, false);
    assert!(
        matches!(&first[..], [Step::Done(text)] if text.contains("Chromium") && text.ends_with("added")),
        "{first:?}"
    );
    // A profile with a database, and a second time.
    for file in ["cert9.db", "key4.db", "pkcs11.txt"] {
        fs::copy(dir.join(".pki/nssdb").join(file), profile.join(file)).unwrap();
    }
    for _ in 0..2 {
        let again = nss::change(&dir, &authority, false);
        assert!(
            matches!(&again[..], [Step::Done(_), Step::Done(firefox)] if firefox.contains("Firefox")),
            "{again:?}"
        );
    }
    for expected in ["removed", "not there"] {
        let removed = nss::change(&dir, &authority, true);
        assert_eq!(removed.len(), 2);
        for step in removed {
            assert!(
                matches!(&step, Step::Done(text) if text.ends_with(expected)),
                "{step:?}"
            );
        }
    }
}

#[test]
fn a_home_without_databases_has_nothing_to_remove() {
    let dir = TempDir::private("trust").unwrap();
    let authority = authority_in(&dir);
    let steps = nss::change(&dir.join("home"), &authority, true);
    assert!(matches!(&steps[..], [Step::Done(text)] if text.contains("no database")));
    assert!(!dir.join("home").exists());
}

#[test]
fn a_system_without_a_store_is_told_the_file() {
    let dir = TempDir::private("trust").unwrap();
    let authority = authority_in(&dir);
    let step = system::change(&dir, &authority, false);
    let path = authority.path.display().to_string();
    assert!(
        matches!(&step, Step::LeftOut(text) if text.contains(&path)),
        "{step:?}"
    );
}

#[test]
fn removal_leaves_files_of_others() {
    let dir = TempDir::private("trust").unwrap();
    let authority = authority_in(&dir);
    let store = dir.join("usr/local/share/ca-certificates");
    fs::create_dir_all(&store).unwrap();
    fs::write(store.join("other.crt"), "other").unwrap();
    let step = system::change(&dir, &authority, true);
    assert!(
        matches!(&step, Step::Done(text) if text.contains("not there")),
        "{step:?}"
    );
    assert_eq!(fs::read_dir(&store).unwrap().count(), 1);
}

#[test]
fn a_file_that_is_no_certificate_is_refused() {
    let dir = TempDir::private("trust").unwrap();
    let file = dir.join("a.pem");
    fs::write(&file, "-----BEGIN NOTHING-----").unwrap();
    let trust = Trust {
        system: false,
        nss: true,
        print: false,
        remove: false,
        certificate: Some(file),
        config: None,
    };
    assert!(authority(&trust).unwrap_err().contains("not a certificate"));
}
