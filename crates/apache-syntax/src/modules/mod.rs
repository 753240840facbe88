//! All modules, and those of them that a configuration has loaded.
//!
//! Nothing is loaded from files: `LoadModule` switches on the support that Saker has under that
//! name, so that `<IfModule>` answers as Apache would.
//!
//! Called by: `read`, for `LoadModule` and `<IfModule>`.
//! Caveat: `<IfModule>` never finds a third-party module that Saker does not replace, so that what
//! configurations do without it happens; unless it decides over access, which must not be lost.

mod foreign;
mod httpd_a_to_k;
mod httpd_l_to_z;
mod row;

pub use row::{Link, ModuleRow, Provision};

use std::collections::BTreeSet;

/// Other names of one module: PHP's changed with its versions.
const ALIASES: &[(&str, &str)] = &[("php7_module", "php_module"), ("php5_module", "php_module")];

/// Parts of the names of modules that log users in or select clients.
const OF_ACCESS: &[&str] = &[
    "auth",
    "shib",
    "cas",
    "openid",
    "oidc",
    "saml",
    "krb",
    "ntlm",
    "radius",
    "crowd",
    "identity",
    "dnsbl",
    "dnsblacklist",
    "geoip",
    "otp",
];

/// All modules, Apache's own first.
pub fn modules() -> impl Iterator<Item = &'static ModuleRow> {
    let tables = [
        httpd_a_to_k::MODULES,
        httpd_l_to_z::MODULES,
        foreign::MODULES,
    ];
    tables.into_iter().flatten()
}

/// The module by its identifier.
pub fn find_module(identifier: &str) -> Option<&'static ModuleRow> {
    modules().find(|row| row.identifier == identifier)
}

/// The result of `LoadModule`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadOutcome {
    Loaded(Provision),
    Already,
    Unknown,
}

/// The modules that are there.
#[derive(Clone, Debug)]
pub struct LoadedModules {
    identifiers: BTreeSet<&'static str>,
    /// Names under which `<IfModule>` asks for unknown modules that decide over access.
    unknown_guards: BTreeSet<Vec<u8>>,
}

impl Default for LoadedModules {
    fn default() -> LoadedModules {
        let there = modules().filter(|row| row.link != Link::Loadable);
        LoadedModules {
            identifiers: there.map(|row| row.identifier).collect(),
            unknown_guards: BTreeSet::new(),
        }
    }
}

impl LoadedModules {
    /// Everything that Saker knows, as for a configuration without `LoadModule`.
    pub fn everything() -> LoadedModules {
        let there = modules()
            .filter(|row| !matches!(row.provision, Provision::Foreign | Provision::ForeignGuard));
        LoadedModules {
            identifiers: there.map(|row| row.identifier).collect(),
            unknown_guards: BTreeSet::new(),
        }
    }

    pub fn load(&mut self, identifier: &[u8]) -> LoadOutcome {
        let Some(row) = modules().find(|row| row.identifier.as_bytes() == identifier) else {
            return LoadOutcome::Unknown;
        };
        match self.identifiers.insert(row.identifier) {
            true => LoadOutcome::Loaded(row.provision),
            false => LoadOutcome::Already,
        }
    }

    /// Notes an unknown module, by its identifier and its file, if its name says that it decides over
    /// access.
    pub fn note_unknown(&mut self, identifier: &[u8], file: &[u8]) {
        let name = String::from_utf8_lossy(identifier).to_ascii_lowercase();
        if !OF_ACCESS.iter().any(|part| name.contains(part)) {
            return;
        }
        let stem = |text: &[u8]| {
            let base = text.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
            base.strip_suffix(b".so").unwrap_or(base).to_vec()
        };
        let bare = identifier.strip_suffix(b"_module").unwrap_or(identifier);
        let sources = [[b"mod_", bare].concat(), stem(file)];
        for source in sources {
            self.unknown_guards.insert([&*source, b".c"].concat());
            self.unknown_guards.insert(source);
        }
        self.unknown_guards.insert(identifier.to_vec());
    }

    /// True for an unknown module that is loaded and decides over access, as `<IfModule>` names it.
    pub fn is_unknown_guard(&self, name: &[u8]) -> bool {
        self.unknown_guards.contains(name)
    }

    /// Returns whether one of them is loaded, also under another of its names.
    pub fn has_any(&self, identifiers: &[&str]) -> bool {
        let other_names = |identifier: &str| {
            ALIASES
                .iter()
                .any(|(alias, name)| *name == identifier && self.identifiers.contains(alias))
        };
        identifiers
            .iter()
            .any(|identifier| self.identifiers.contains(identifier) || other_names(identifier))
    }

    /// Evaluates `<IfModule name>`: an identifier or a source file, in exact spelling.
    pub fn answers_to(&self, name: &[u8]) -> bool {
        let named = |row: &&ModuleRow| {
            row.identifier.as_bytes() == name || row.source_file.as_bytes() == name
        };
        modules().filter(named).any(|row| {
            !matches!(row.provision, Provision::Absent | Provision::Foreign)
                && self.identifiers.contains(row.identifier)
        })
    }

    /// In the order of the table.
    pub fn rows(&self) -> impl Iterator<Item = &'static ModuleRow> {
        modules().filter(|row| self.identifiers.contains(row.identifier))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn unknown_modules_that_decide_over_access() {
        let mut loaded = LoadedModules::default();
        loaded.note_unknown(b"authnz_pam_module", b"modules/mod_authnz_pam.so");
        loaded.note_unknown(b"lookup_identity", b"/usr/lib/mod_lookup_identity.so");
        loaded.note_unknown(b"upload_module", b"mod_upload.so");
        for name in [
            "authnz_pam_module",
            "mod_authnz_pam.c",
            "lookup_identity",
            "mod_lookup_identity.c",
        ] {
            assert!(loaded.is_unknown_guard(name.as_bytes()), "{name}");
        }
        assert!(!loaded.is_unknown_guard(b"mod_upload.c"));
    }

    #[test]
    fn every_name_is_there_once() {
        let mut seen = HashSet::new();
        for row in modules() {
            assert!(
                seen.insert(row.identifier) && seen.insert(row.source_file),
                "{}",
                row.identifier
            );
            assert_eq!(
                row.shared_object.is_empty(),
                row.link != Link::Loadable,
                "{}",
                row.identifier
            );
        }
        for (alias, name) in ALIASES {
            assert!(find_module(alias).is_some() && find_module(name).is_some());
        }
    }

    #[test]
    fn loading() {
        let mut loaded = LoadedModules::default();
        assert!(!loaded.answers_to(b"mod_rewrite.c"));
        assert_eq!(
            loaded.load(b"rewrite_module"),
            LoadOutcome::Loaded(Provision::Native)
        );
        assert_eq!(loaded.load(b"rewrite_module"), LoadOutcome::Already);
        assert_eq!(loaded.load(b"Rewrite_Module"), LoadOutcome::Unknown);
        assert!(loaded.answers_to(b"mod_rewrite.c") && loaded.answers_to(b"rewrite_module"));
        assert!(!loaded.answers_to(b"mod_rewrite") && !loaded.answers_to(b"MOD_REWRITE.C"));
    }

    #[test]
    fn modules_of_others() {
        let mut loaded = LoadedModules::default();
        assert!(
            loaded.answers_to(b"LiteSpeed")
                && loaded.answers_to(b"mod_litespeed.c")
                && loaded.answers_to(b"core.c")
        );
        loaded.load(b"pagespeed_module");
        assert!(
            !loaded.answers_to(b"mod_pagespeed.c"),
            "its directives would be unknown"
        );
        loaded.load(b"php7_module");
        assert!(
            loaded.answers_to(b"mod_php7.c")
                && !loaded.answers_to(b"mod_php.c")
                && loaded.has_any(&["php_module"])
        );
        assert!(LoadedModules::everything().answers_to(b"mod_lua.c"));
    }

    /// Sections about them would set what is an error.
    #[test]
    fn modules_that_are_absent() {
        let mut loaded = LoadedModules::everything();
        for name in ["heartbeat", "heartmonitor", "lbmethod_heartbeat"] {
            let identifier = format!("{name}_module");
            loaded.load(identifier.as_bytes());
            assert!(!loaded.answers_to(format!("mod_{name}.c").as_bytes()));
            assert!(!loaded.answers_to(identifier.as_bytes()));
            assert!(loaded.has_any(&[&identifier]), "its directives are known");
        }
        assert!(loaded.answers_to(b"mod_lbmethod_bybusyness.c"));
    }
}
