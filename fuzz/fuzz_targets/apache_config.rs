//! Whatever configuration files say, reading them ends, within its bounds: every node has a place
//! in what was read, sections are nested no deeper than the bound, all diagnostics can be shown,
//! and the dump of a tree without errors reads to the same tree again.

#![no_main]

use libfuzzer_sys::fuzz_target;
use saker_apache_syntax::{
    InMemory, Loaded, Setup,
    limits::{Limits, NESTING_MAX},
    load,
};
use saker_config::Diagnostic;

const MODULES: &str = "LoadModule macro_module x\nLoadModule env_module x\nLoadModule rewrite_module x\nLoadModule authz_core_module x\n";

fuzz_target!(|data: &[u8]| {
    // The second part is a file that the first can include.
    let (main, included) = match data.iter().position(|byte| *byte == 0xff) {
        Some(at) => (&data[..at], &data[at + 1..]),
        None => (data, &b""[..]),
    };
    let loaded = read(&[MODULES.as_bytes(), main].concat(), included);
    for diagnostic in &loaded.diagnostics {
        let shown = diagnostic.to_string();
        let before_lines = shown.split('\n').skip(1);
        assert!(
            before_lines.clone().all(|line| !line.contains('\x1b')) || diagnostic.help.is_some(),
            "{shown:?}"
        );
    }
    let mut sequence = 0;
    loaded.tree.walk(&mut |node| {
        assert!(node.sequence >= sequence && node.origin.line > 0);
        sequence = node.sequence;
    });
    assert!(depth(&loaded.tree.nodes) <= NESTING_MAX);
    if loaded
        .diagnostics
        .iter()
        .all(|diagnostic| !diagnostic.is_error() && !is_about_variables(diagnostic))
    {
        again(&loaded);
    }
});

fn read(main: &[u8], included: &[u8]) -> Loaded {
    let files = InMemory::default()
        .with("/etc/httpd.conf", main)
        .with("/etc/a.conf", included)
        .with("/etc/conf.d/b.conf", included);
    let mut setup = Setup::new("/etc", "httpd.conf");
    setup.matches = |pattern, subject| Ok(subject.starts_with(pattern));
    setup.limits = Limits {
        nodes_max: 5_000,
        files_max: 100,
        macro_uses_max: 200,
        text_bytes_max: 1 << 20,
        ..Limits::default()
    };
    load(&setup, &files)
}

/// Text that a variable or a macro inserted is not scanned again, but the dump is.
fn is_about_variables(diagnostic: &Diagnostic) -> bool {
    diagnostic.message.contains("is not defined") || diagnostic.message.contains("macro")
}

fn again(loaded: &Loaded) {
    let dump = loaded.tree.dump();
    // Sections without content have no closing line in a dump; a backslash at the end of a line or
    // a reference means something again.
    let sections = || {
        dump.lines()
            .map(str::trim_start)
            .filter(|line| line.starts_with('<'))
    };
    let (closed, opened) = (
        sections().filter(|line| line.starts_with("</")).count(),
        sections().filter(|line| !line.starts_with("</")).count(),
    );
    if opened != closed
        || dump.contains("\\\n")
        || dump.contains("${")
        || dump.contains('\u{fffd}')
        || dump.contains('\r')
    {
        return;
    }
    let second = read(&[MODULES.as_bytes(), dump.as_bytes()].concat(), b"");
    assert_eq!(dump, second.tree.dump());
}

fn depth(nodes: &[saker_apache_syntax::Node]) -> usize {
    nodes
        .iter()
        .map(|node| 1 + depth(&node.children))
        .max()
        .unwrap_or(0)
}
