//! The output of `expand` loads as the same model, for all configurations of the repository.

#![allow(clippy::unwrap_used, clippy::panic)]

use super::*;
use crate::{PRESETS, parse};
use std::fs;

/// The model without places, and without what only names files that were read; then the routes in
/// their order, as that of the lines is lost: it differs in hash maps.
fn shown(text: &str, base: &Path) -> Vec<String> {
    let mut model = parse(text, "saker.toml", base)
        .unwrap_or_else(|diagnostics| panic!("{diagnostics}\n{text}"))
        .model;
    model.sources.clear();
    model.server.includes.clear();
    let mut lines = without_origins(&format!("{model:#?}"));
    lines.sort();
    for route in model.sites.iter().flat_map(|site| site.routes.iter()) {
        lines.push(format!(
            "{} {:?} {:?}",
            route.pattern, route.name, route.rewrite
        ));
    }
    lines
}

/// Removes what is in each `Origin { … }` of pretty debug output.
fn without_origins(text: &str) -> Vec<String> {
    let mut kept = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if line.trim_end().ends_with("Origin {") {
            kept.push(line.to_owned());
            lines
                .by_ref()
                .take_while(|line| !line.trim().starts_with('}'))
                .for_each(drop);
        } else {
            kept.push(line.to_owned());
        }
    }
    kept
}

fn round_trip(name: &str, text: &str, base: &Path) {
    let expanded = expand_text(text, "saker.toml", base).unwrap_or_else(|diagnostics| {
        panic!("{name}: {diagnostics}");
    });
    let again = expanded.to_toml();
    let (first, second) = (shown(text, base), shown(&again, Path::new("/nowhere")));
    if first != second {
        let difference = first.iter().zip(&second).find(|(a, b)| a != b);
        panic!("{name}: the model differs: {difference:?}\n{again}");
    }
    let twice = expand_text(&again, "saker.toml", Path::new("/nowhere")).unwrap();
    let values = |text: &str| {
        let each = text
            .lines()
            .map(|line| line.split("  # ").next().unwrap().to_owned());
        each.collect::<Vec<_>>()
    };
    assert_eq!(
        values(&again),
        values(&twice.to_toml()),
        "{name}: not stable"
    );
    let json = expanded.to_json();
    let configuration = &json["configuration"];
    assert!(configuration["site"].is_array() || configuration["stream"].is_array());
    assert!(json["origins"].is_object());
}

fn repository() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn fixtures_serve_the_same_when_expanded() {
    let folder = repository().join("tests/config");
    let mut count = 0;
    for entry in fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        let expected = fs::read_to_string(path.with_extension("expected")).unwrap_or_default();
        if path.extension().is_none_or(|extension| extension != "toml")
            || expected.contains(": error: ")
        {
            continue;
        }
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        round_trip(&name, &fs::read_to_string(&path).unwrap(), &folder);
        count += 1;
    }
    assert!(count >= 15, "{count} configurations");
    let docs = repository().join("docs");
    let example = fs::read_to_string(docs.join("saker.example.toml")).unwrap();
    round_trip("saker.example.toml", &example, &docs);
}

#[test]
fn scenarios_serve_the_same_when_expanded() {
    let folder = repository().join("crates/server/tests/scenarios");
    let mut count = 0;
    for entry in fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "toml") {
            continue;
        }
        let scenario: toml::Table = toml::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        let part = |key: &str| {
            scenario
                .get(key)
                .and_then(|value| value.as_str())
                .unwrap_or("")
        };
        let text = format!(
            "{}\n[[listener]]\naddress = \"127.0.0.1:0\"\n[[site]]\nroot = \".\"\n{}\n",
            part("top"),
            part("site")
        );
        if parse(&text, "saker.toml", &folder).is_err() {
            continue;
        }
        round_trip(&path.display().to_string(), &text, &folder);
        count += 1;
    }
    assert!(count >= 20, "{count} scenarios");
}

#[test]
fn presets_serve_the_same_when_expanded() {
    for preset in PRESETS {
        let own = "[[listener]]\naddress = \":80\"\n[[site]]\nroot = \".\"\n";
        let keys = format!(
            "preset = \"{}\"\nbody_size = 7\n[site.headers]\ncache-control = \"no-store\"\n\
             [[site.route]]\npath = \"/own/*\"\nrespond = \"x\"\n\
             [[site.redirect]]\nfrom = \"/old\"\nto = \"/new\"\n\
             [[site.route]]\npath = \"/*\"\nrespond = \"mine\"\n",
            preset.name
        );
        round_trip(preset.name, &format!("{own}{keys}"), Path::new("/srv"));
        let below = format!(
            "[[site.route]]\npath = \"/b.c/*\"\npreset = \"{}\"\nalias = \"/srv/b\"\n\
             [[site.route.route]]\npath = \"/b.c/x\"\ndeny = true\n",
            preset.name
        );
        round_trip(preset.name, &format!("{own}{below}"), Path::new("/srv"));
    }
}

#[test]
fn origins_are_files_presets_and_defaults() {
    let text = "[[listener]]\naddress = \":80\"\n[[site]]\nroot = \"www\"\npreset = \"spa\"\n";
    let toml = expand_text(text, "saker.toml", Path::new("/srv"))
        .unwrap()
        .to_toml();
    for line in [
        "workers = \"auto\"  # default",
        "address = \":80\"  # saker.toml:2",
        "root = \"/srv/www\"  # saker.toml:4",
        "index = [\"index.html\"]  # preset spa",
        "[[site.route]]  # preset spa",
        "listing = false  # default",
    ] {
        assert!(toml.lines().any(|found| found == line), "{line}\n{toml}");
    }
    assert!(!toml.contains("preset ="), "{toml}");
}
