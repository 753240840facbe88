//! Surroundings of the server of a scenario: files, databases, a directory, and the server behind.
//!
//! Called by: the runner of scenarios. Caveat: programs (sqlite3, slapd) start only for scenarios
//! with `database` or `directory`. Out of scope: the server itself.

use super::{file::Scenario, origin::Origin};
use crate::databases::Slapd;
use saker_testkit::{
    TempDir,
    mmdb::{Data, database},
    require,
};
use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    process::Command,
};

const LDAP_SCHEMA: &str =
    "include /etc/ldap/schema/cosine.schema\ninclude /etc/ldap/schema/inetorgperson.schema";

pub struct Programs {
    pub origin: Origin,
    slapd: Option<Slapd>,
}

impl Programs {
    /// Writes the files and starts the programs.
    pub fn start(dir: &TempDir, scenario: &Scenario) -> Programs {
        fs::create_dir(dir.join("www")).unwrap();
        for (path, content) in &scenario.files {
            let content = match path.starts_with("www/") {
                true => content.clone(),
                false => content.replace("{dir}", &dir.to_string_lossy()),
            };
            let file = dir.write(path, &content).unwrap();
            if content.starts_with("#!") {
                fs::set_permissions(file, fs::Permissions::from_mode(0o755)).unwrap();
            }
        }
        for (path, target) in &scenario.links {
            let link = dir.join(path);
            fs::create_dir_all(link.parent().unwrap()).unwrap();
            symlink(target, link).unwrap();
        }
        if let Some((network, length, country, number)) = &scenario.place {
            let place = Data::Map(&[
                ("country", Data::Map(&[("iso_code", Data::Text(country))])),
                ("autonomous_system_number", Data::Number(*number)),
            ]);
            dir.write("place.mmdb", database(*network, *length, &place))
                .unwrap();
        }
        sqlite(dir, &scenario.database);
        let entries = &scenario.directory;
        Programs {
            origin: Origin::listen(dir, &scenario.origin),
            slapd: (!entries.is_empty()).then(|| Slapd::start_with(dir, entries, LDAP_SCHEMA, "")),
        }
    }

    /// A part of the configuration, with the addresses of the programs.
    pub fn filled_in(&self, text: &str) -> String {
        let port = self.origin.port;
        let text = text
            .replace("{origin_url}", &format!("http://127.0.0.1:{port}"))
            .replace("{origin_name}", &format!("http://localhost:{port}"));
        match &self.slapd {
            Some(slapd) => text.replace("{directory_url}", &slapd.url()),
            None => text,
        }
    }
}

/// Carries out statements in `data.db`.
pub fn sqlite(dir: &TempDir, statements: &str) {
    if statements.is_empty() {
        return;
    }
    let status = Command::new(require("sqlite3").unwrap())
        .arg("-bail")
        .arg(dir.join("data.db"))
        .arg(statements)
        .status()
        .unwrap();
    assert!(status.success(), "sqlite3: {status}");
}
