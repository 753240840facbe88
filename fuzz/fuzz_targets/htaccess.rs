//! Whatever an `.htaccess` file says: it is read or refused with one reason; what is permitted less
//! is refused more; and nothing that `AllowOverride` does not leave it ends up in the tree.

#![no_main]

use libfuzzer_sys::fuzz_target;
use saker_apache_syntax::{
    Environment, Htaccess, InMemory, Permission, Verdict, parse_htaccess, row::Overrides,
};
use std::sync::OnceLock;

fuzz_target!(|data: &[u8]| {
    let Some((knobs, text)) = data.split_first() else {
        return;
    };
    let mut permission = Permission {
        overrides: Overrides(u16::from(*knobs & 0x1f)),
        ..Permission::default()
    };
    permission.ignores_forbidden = knobs & 0x20 != 0;
    permission.ignores_unknown = knobs & 0x40 != 0;
    let read = parse(text, &permission);
    if let Err(error) = &read {
        assert!(error.is_error() && !error.message.is_empty());
    }
    let Ok(htaccess) = read else { return };
    htaccess.tree.walk(&mut |node| {
        let row = node
            .row
            .unwrap_or_else(|| panic!("{} is no directive", node.name));
        assert_eq!(permission.verdict(row), Verdict::Permitted, "{}", node.name);
    });
    if !permission.ignores_forbidden && !permission.ignores_unknown {
        let all = parse(text, &Permission::all())
            .unwrap_or_else(|error| panic!("refused with more permission: {error}"));
        assert_eq!(all.tree.dump(), htaccess.tree.dump());
    }
});

fn parse(text: &[u8], permission: &Permission) -> Result<Htaccess, Box<saker_config::Diagnostic>> {
    static ENVIRONMENT: OnceLock<Environment> = OnceLock::new();
    let environment = ENVIRONMENT.get_or_init(|| {
        let mut environment =
            Environment::new("/etc".into(), Default::default(), |pattern, subject| {
                Ok(subject.starts_with(pattern))
            });
        for module in [
            "env",
            "rewrite",
            "headers",
            "alias",
            "authz_core",
            "authn_core",
            "dir",
            "mime",
            "macro",
            "access_compat",
        ] {
            environment
                .modules
                .load(format!("{module}_module").as_bytes());
        }
        environment
    });
    parse_htaccess(
        text,
        "/srv/.htaccess",
        environment,
        permission,
        &InMemory::default(),
    )
}
