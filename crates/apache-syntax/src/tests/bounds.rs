//! Each bound of `limits.rs` from both sides, and what a large configuration costs.

#![allow(clippy::unwrap_used, clippy::panic)]

use saker_apache_syntax::{
    InMemory, Loaded, Permission, Setup,
    limits::{
        HTACCESS_BYTES_MAX, INCLUDE_DEPTH_MAX, Limits, MACRO_NESTING_MAX, MACRO_PARAMETERS_MAX,
        NESTING_MAX, UNDEFINED_PER_LINE_MAX,
    },
    load, parse_htaccess,
};
use std::time::{Duration, Instant};

const HEAD: &str = "LoadModule macro_module x\nLoadModule env_module x\n";

fn read_with(text: &str, limits: Limits, files: InMemory) -> Loaded {
    let mut setup = Setup::new("/etc", "httpd.conf");
    setup.limits = limits;
    load(
        &setup,
        &files.with("/etc/httpd.conf", format!("{HEAD}{text}")),
    )
}

fn first_error(loaded: &Loaded) -> String {
    loaded
        .errors()
        .next()
        .map(|error| error.message.clone())
        .unwrap_or_default()
}

fn error(text: &str, limits: Limits) -> String {
    first_error(&read_with(text, limits, InMemory::default()))
}

fn nested(open: &str, close: &str, depth: usize) -> String {
    format!("{}{}", open.repeat(depth), close.repeat(depth))
}

#[test]
fn sections_and_conditions_nest_up_to_the_bound() {
    let limits = Limits::default();
    for (open, close) in [
        ("<Files a>\n", "</Files>\n"),
        ("<IfModule core.c>\n", "</IfModule>\n"),
    ] {
        assert_eq!(
            error(&nested(open, close, NESTING_MAX), limits),
            "",
            "{open}"
        );
        assert_eq!(
            error(&nested(open, close, NESTING_MAX + 1), limits),
            format!("sections nest deeper than {NESTING_MAX}")
        );
    }
    assert_eq!(
        error(
            &nested("<IfModule no.c>\n", "</IfModule>\n", 10_000),
            limits
        ),
        "",
        "what is skipped costs no depth"
    );
}

#[test]
fn files_include_files_up_to_the_bound() {
    let chain = |length: usize| {
        let files = (0..length).fold(InMemory::default(), |files, number| {
            files.with(
                &format!("/etc/{number}.conf"),
                if number + 1 < length {
                    format!("Include {}.conf\n", number + 1)
                } else {
                    String::new()
                },
            )
        });
        first_error(&read_with("Include 0.conf\n", Limits::default(), files))
    };
    assert_eq!(chain(INCLUDE_DEPTH_MAX), "");
    assert_eq!(
        chain(INCLUDE_DEPTH_MAX + 1),
        "Exceeded maximum include depth of 128, There appears to be a recursion."
    );
}

#[test]
fn counts_up_to_the_bound() {
    let limits = Limits {
        nodes_max: 10,
        files_max: 3,
        macro_uses_max: 5,
        text_bytes_max: 1000,
        ..Limits::default()
    };
    assert_eq!(error(&"SetEnv a b\n".repeat(10), limits), "");
    assert_eq!(
        error(&"SetEnv a b\n".repeat(11), limits),
        "more than 10 directives"
    );
    let files = || InMemory::default().with("/etc/a", "");
    assert_eq!(
        first_error(&read_with(&"Include a\n".repeat(2), limits, files())),
        ""
    );
    assert_eq!(
        first_error(&read_with(&"Include a\n".repeat(3), limits, files())),
        "more than 3 files"
    );
    let uses = |count: usize| {
        format!(
            "<Macro m>\n# x\nSetEnv a b\n</Macro>\n{}",
            "Use m\n".repeat(count)
        )
    };
    assert_eq!(error(&uses(5), limits), "");
    assert_eq!(error(&uses(6), limits), "macros are used more than 5 times");
    let long = |length: usize| {
        format!(
            "<Macro m $a>\nSetEnv a $a\n</Macro>\nDefine x {}\nUse m ${{x}}${{x}}\n",
            "x".repeat(length)
        )
    };
    assert_eq!(error(&long(100), limits), "");
    assert_eq!(
        error(&long(500), limits),
        "more than 1000 bytes with variables and macros put in"
    );
}

#[test]
fn macros_that_double_end() {
    let text: String = (0..40)
        .map(|number| {
            format!(
                "<Macro m{number} $a>\nUse m{} $a\nUse m{0} $a\n</Macro>\n",
                number + 1
            )
        })
        .collect();
    let limits = Limits {
        macro_uses_max: 1000,
        ..Limits::default()
    };
    let started = Instant::now();
    let message = error(
        &format!("{text}<Macro m40 $a>\nSetEnv $a b\n</Macro>\nUse m0 x\n"),
        limits,
    );
    assert_eq!(message, "macros are used more than 1000 times");
    assert!(started.elapsed() < Duration::from_secs(60));
}

#[test]
fn an_htaccess_file_up_to_the_bound() {
    let loaded = read_with("", Limits::default(), InMemory::default());
    let parse = |text: &[u8]| {
        parse_htaccess(
            text,
            ".htaccess",
            &loaded.environment,
            &Permission::all(),
            &InMemory::default(),
        )
    };
    let mut text = vec![b'#'; HTACCESS_BYTES_MAX];
    assert!(parse(&text).is_ok());
    text.push(b'#');
    assert!(parse(&text).is_err_and(|error| error.message.contains("larger than")));
}

#[test]
fn many_virtual_hosts_are_read_in_time() {
    let host = |number: usize| {
        format!(
            "<VirtualHost *:80>\nServerName s{number}.example\nServerAlias a{number}.example\nDocumentRoot /srv/{number}\nErrorLog log\n\
             <Directory /srv/{number}>\nOptions None\nAllowOverride All\nSetEnv a b\n</Directory>\n</VirtualHost>\n"
        )
    };
    let text: String = (0..10_000).map(host).collect();
    let started = Instant::now();
    let loaded = read_with(&text, Limits::default(), InMemory::default());
    assert_eq!(
        (first_error(&loaded), loaded.tree.nodes.len()),
        (String::new(), 10_000)
    );
    // Generous: this is a build without optimization, and other tests run beside it.
    assert!(
        started.elapsed() < Duration::from_secs(60),
        "{:?}",
        started.elapsed()
    );
}

#[test]
fn a_file_of_mistakes_is_refused_in_time() {
    let started = Instant::now();
    let text = "NoSuchThing x\n".repeat(50_000);
    let loaded = read_with(&text, Limits::default(), InMemory::default());
    assert_eq!((loaded.errors().count(), loaded.left_out), (10_000, 40_000));
    let refused = parse_htaccess(
        text.as_bytes(),
        ".htaccess",
        &loaded.environment,
        &Permission::all(),
        &InMemory::default(),
    );
    assert_eq!(refused.unwrap_err().origin.line, 1);
    assert!(
        started.elapsed() < Duration::from_secs(60),
        "{:?}",
        started.elapsed()
    );
}

#[test]
fn macros_are_bounded_in_parameters_and_depth() {
    let parameters = |count: usize| {
        let names: Vec<String> = (0..count).map(|number| format!("$p{number}x")).collect();
        error(
            &format!("<Macro m {}>\nSetEnv a b\n</Macro>\n", names.join(" ")),
            Limits::default(),
        )
    };
    assert_eq!(parameters(MACRO_PARAMETERS_MAX), "");
    assert!(parameters(MACRO_PARAMETERS_MAX + 1).ends_with("more than 64 arguments"));
    let chain = |depth: usize| {
        let text: String = (0..depth)
            .map(|number| format!("<Macro m{number}>\nUse m{}\n</Macro>\n", number + 1))
            .collect();
        error(
            &format!("{text}<Macro m{depth}>\nSetEnv a b\n</Macro>\nUse m0\n"),
            Limits::default(),
        )
    };
    assert_eq!(chain(MACRO_NESTING_MAX - 1), "");
    assert_eq!(
        chain(MACRO_NESTING_MAX),
        "macros are used within each other deeper than 64"
    );
}

#[test]
fn a_long_line_of_undefined_variables_is_told_briefly() {
    let loaded = read_with(
        &format!("SetEnv a \"{}\"\n", "${no} ".repeat(200_000)),
        Limits::default(),
        InMemory::default(),
    );
    assert_eq!(
        loaded
            .diagnostics
            .iter()
            .filter(|diagnostic| diagnostic.message.contains("not defined"))
            .count(),
        UNDEFINED_PER_LINE_MAX
    );
    assert!(
        loaded
            .diagnostics
            .iter()
            .all(|diagnostic| diagnostic.to_string().len() < 1000)
    );
}
