//! Properties of all rows.

use super::*;
use crate::{
    context::{self, CONTEXTS, ContextRow, Contexts},
    kind::Kind,
    load::parse,
};
use std::{collections::HashSet, fs, path::Path};

/// A configuration with `key = value` in a table of the context, and the required keys of that
/// table.
fn file_with(context: Contexts, key: &str, value: &str) -> String {
    let given = (key, value);
    let block = |header: &str, base: &[(&str, &str)]| {
        format!("{header}\n{}\n", lines(base, given).join("\n"))
    };
    let inline = |name: &str, base: &[(&str, &str)]| {
        format!("{name} = {{ {} }}\n", lines(base, given).join(", "))
    };
    let listener = [("address", "\"127.0.0.1:8080\"")];
    let site = [("root", "\"/\"")];
    let (mut parts, none) = (
        [
            "".to_owned(),
            block_of("[[listener]]", &listener),
            block_of("[[site]]", &site),
            String::new(),
        ],
        &[],
    );
    match context {
        context::FILE => parts[0] = block("", none),
        context::SERVER
        | context::LIMITS
        | context::TLS
        | context::ACME
        | context::PHP
        | context::CACHE_STORE => parts[0] = block(context.described().header, none),
        context::LISTENER => {
            parts[1] = block(
                "[[listener]]",
                if key == "addresses" { none } else { &listener },
            )
        }
        context::SITE => parts[2] = block("[[site]]", &site),
        context::ROUTE => parts[3] = block("[[site.route]]", &[("path", "\"/\"")]),
        context::WHEN => parts[3] = block("[[site.when]]", &[("match", "{ method = \"GET\" }")]),
        context::METRICS => parts[0] = block("[metrics]", &[("address", "\"127.0.0.1:9145\"")]),
        context::CLUSTER => parts[0] = block("[cluster]", &[("url", "\"rediss://a\"")]),
        context::CONSOLE => parts[0] = block("[console]", &[("address", "\"127.0.0.1:7080\"")]),
        context::CONSOLE_OIDC => {
            let console = [("address", "\"127.0.0.1:7080\"")];
            let provider = [
                ("issuer", "\"https://a\""),
                ("client_id", "\"a\""),
                ("roles", "{ a = \"viewer\" }"),
            ];
            let table = block("[console.oidc]", &provider);
            parts[0] = format!("{}{table}", block_of("[console]", &console));
        }
        context::TRACING => parts[0] = block("[tracing]", &[("endpoint", "\"http://a\"")]),
        context::MIRROR => {
            let mirror = inline("mirror", &[("to", "\"http://a\"")]);
            parts[3] = format!("[[site.route]]\npath = \"/\"\nproxy = \"http://a\"\n{mirror}")
        }
        context::ROTATE => {
            let pairs = lines(&[("age", "\"24h\"")], given).join(", ");
            parts[3] = format!("access_log = {{ path = \"a\", rotate = {{ {pairs} }} }}\n")
        }
        context::REDIRECT => {
            parts[3] = block("[[site.redirect]]", &[("from", "\"/\""), ("to", "\"/\"")])
        }
        context::CERTIFICATE => {
            parts[3] = block("[[site.tls.certificate]]", &[("certificate", "\"a\"")])
        }
        context::ACME_DIRECTORY => {
            parts[0] = format!(
                "[acme]\n{}",
                inline("directory", &[("url", "\"letsencrypt\"")])
            )
        }
        context::UPSTREAM => {
            parts[3] = block(
                "[[upstream]]",
                &[("name", "\"a\""), ("servers", "[\"http://a\"]")],
            )
        }
        context::UPSTREAM_SERVER => {
            parts[3] = format!(
                "[[upstream]]\nname = \"a\"\nservers = [{{ {} }}]\n",
                lines(&[("address", "\"http://a\"")], given).join(", ")
            )
        }
        context::STREAM_SERVER => {
            parts[3] = format!(
                "[[stream]]\nlisten = \"127.0.0.1:1\"\nproxy = [{{ {} }}]\n",
                lines(&[("address", "\"10.0.0.1:1\"")], given).join(", ")
            )
        }
        context::STREAM_LOG => {
            let table = lines(&[("path", "\"a\"")], given).join(", ");
            parts[3] = format!("[[stream]]\naccess_log = {{ {table} }}\n")
        }
        context::UPSTREAM_TLS => {
            let upstream = [("name", "\"a\""), ("servers", "[\"https://a\"]")];
            let table = block("[upstream.tls]", none);
            parts[3] = format!("{}{table}", block_of("[[upstream]]", &upstream));
        }
        context::UPSTREAM_DISCOVER => {
            let upstream = block_of("[[upstream]]", &[("name", "\"a\"")]);
            parts[3] = format!("{upstream}{}", block("[upstream.discover]", none));
        }
        context::STREAM_ROUTE | context::STREAM_TLS | context::STREAM_ACCESS => {
            let header = context.described().header;
            parts[3] = format!("[[stream]]\n{}", block(header, none))
        }
        context::ACCESS_LOG => parts[3] = inline("access_log", &[("path", "\"a\"")]),
        context::RATE => parts[3] = inline("throttle.out_per_site", &[("rate", "\"1B/s\"")]),
        context::REQUEST_RATE => {
            parts[3] = inline("throttle.requests_static", &[("rate", "\"1/s\"")])
        }
        context::FIELD => parts[3] = inline("headers.A", none),
        context::UPSTREAM_FIELD => parts[3] = inline("upstream_headers.A", none),
        _ => parts[3] = block(context.described().header, none),
    }
    parts.join("\n")
}

fn block_of(header: &str, pairs: &[(&str, &str)]) -> String {
    format!(
        "{header}\n{}",
        pairs
            .iter()
            .map(|(key, value)| format!("{key} = {value}\n"))
            .collect::<String>()
    )
}

fn lines(base: &[(&str, &str)], given: (&str, &str)) -> Vec<String> {
    let others = base.iter().filter(|(key, _)| *key != given.0);
    others
        .chain([&given])
        .map(|(key, value)| format!("{key} = {value}"))
        .collect()
}

/// The diagnostic about the row's own value, not about what the rest of the file lacks.
fn complaint(context: Contexts, row: &Directive, value: &str) -> Option<String> {
    let text = file_with(context, row.name, value);
    let diagnostics = parse(&text, "test.toml", Path::new("/")).err()?;
    let about_value = |message: &str| {
        message.starts_with("unknown key")
            || message.contains("must be")
            || message.starts_with("invalid value")
    };
    diagnostics
        .iter()
        .find(|diagnostic| about_value(&diagnostic.message))
        .map(ToString::to_string)
}

#[test]
fn examples_and_defaults_pass_their_own_row() {
    for row in catalog().iter() {
        for context in row.contexts.each() {
            for value in row.default.iter().chain(&row.example) {
                assert_eq!(
                    complaint(context.context, row, value),
                    None,
                    "{} in {}",
                    row.name,
                    context.header
                );
            }
        }
    }
}

#[test]
fn a_value_of_a_wrong_type_is_refused() {
    for row in catalog().iter() {
        for context in row.contexts.each() {
            let refused = complaint(context.context, row, "2020-01-01").is_some();
            let is_table = matches!(*row.kind, Kind::Section(_) | Kind::Sections(_));
            assert!(
                refused || is_table,
                "{} in {} takes a date",
                row.name,
                context.header
            );
        }
    }
}

/// Writing out a default must change nothing.
#[test]
fn documented_defaults_are_the_defaults() {
    let shown = |text: &str| {
        let loaded = parse(text, "test.toml", Path::new("/"))
            .unwrap_or_else(|diagnostics| panic!("{diagnostics}"));
        let model = loaded.model;
        format!(
            "{:?} {:?} {:?} {:?} {:?} {:?}",
            model.server,
            model.limits,
            model.sites[0].settings,
            (&model.sites[0].names, &model.sites[0].access_logs),
            (
                &model.tls,
                &model.sites[0].tls,
                &model.sites[0].https_redirect
            ),
            model
                .listeners
                .iter()
                .map(|listener| (
                    listener.backlog,
                    listener.mode,
                    listener.http2,
                    &listener.tls
                ))
                .collect::<Vec<_>>()
        )
    };
    let plain = shown(&file_with(context::SITE, "trace", "false"));
    for row in catalog().iter() {
        let Some(default) = row.default else { continue };
        for context in row.contexts.each() {
            let tables = [
                context::FILE,
                context::SERVER,
                context::LIMITS,
                context::TLS,
                context::ACME,
                context::LISTENER,
                context::SITE,
                context::SITE_TLS,
            ];
            if tables.contains(&context.context)
                || [context::COMPRESSION, context::THROTTLE].contains(&context.context)
            {
                assert_eq!(
                    shown(&file_with(context.context, row.name, default)),
                    plain,
                    "{}",
                    row.name
                );
            }
        }
    }
}

#[test]
fn contexts_have_a_bit_of_their_own() {
    for (at, row) in CONTEXTS.iter().enumerate() {
        let same = |other: &&ContextRow| other.context.includes(row.context);
        let others: Vec<&str> = CONTEXTS[..at]
            .iter()
            .filter(same)
            .map(|row| row.id)
            .collect();
        assert!(others.is_empty(), "{} and {others:?}", row.id);
    }
}

#[test]
fn rows_are_whole() {
    let mut seen = HashSet::new();
    for row in catalog().iter() {
        assert!(
            !row.summary.is_empty() && row.summary.ends_with(['.', '?'])
                || row.summary.ends_with("always is."),
            "{}",
            row.name
        );
        for context in row.contexts.each() {
            assert!(
                seen.insert((row.name, context.header)),
                "{} twice in {}",
                row.name,
                context.header
            );
        }
        let is_table = matches!(*row.kind, Kind::Section(_) | Kind::Sections(_));
        assert!(
            is_table || row.default.is_some() || row.example.is_some(),
            "{} has neither default nor example",
            row.name
        );
    }
}

#[test]
fn numbers_have_both_edges() {
    for row in catalog().iter() {
        let (Kind::Integer { min, max } | Kind::Bytes { min, max }) = *row.kind else {
            continue;
        };
        for context in row.contexts.each().map(|context| context.context) {
            let refused = |number: i128| complaint(context, row, &number.to_string()).is_some();
            assert!(
                !refused(min.into()) && !refused(max.into()),
                "{} at its edges",
                row.name
            );
            assert!(
                refused(i128::from(min) - 1) && refused(i128::from(max) + 1),
                "{} beyond its edges",
                row.name
            );
        }
    }
}

/// A group that the catalog does not have could not be read.
#[test]
fn all_rows_are_in_the_catalog() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/directives");
    let catalog = fs::read_to_string(folder.join("mod.rs")).unwrap();
    let mut groups = 0;
    for file in fs::read_dir(&folder).unwrap() {
        let file = file.unwrap().path();
        let module = file.file_stem().unwrap().to_str().unwrap().to_owned();
        for line in fs::read_to_string(&file).unwrap().lines() {
            let group = line
                .strip_prefix("pub const ")
                .and_then(|rest| rest.split_once(':'));
            let Some((group, _)) = group.filter(|(name, _)| name.ends_with("ROWS")) else {
                continue;
            };
            groups += 1;
            assert!(
                catalog.contains(&format!("directives({module}::{group})")),
                "{module}::{group} is not in the catalog"
            );
        }
    }
    assert!(groups > 40, "{groups} groups");
}

#[test]
fn deprecated_spellings_are_no_other_keys() {
    for row in catalog().iter() {
        for old in row.deprecated {
            for context in row.contexts.each() {
                let is_taken = catalog()
                    .within(context.context)
                    .any(|row| row.name == *old);
                assert!(!is_taken, "{old} is a key of {}", context.header);
            }
        }
    }
}
