//! Presets load without diagnostics, and keys and routes of a site come over theirs.

#![allow(clippy::unwrap_used, clippy::panic)]

use super::*;
use crate::{
    load::parse,
    model::{Action, Model, Settings},
};
use std::path::Path;

fn load(site: &str) -> Result<Model, String> {
    let text = format!(
        "[[listener]]\naddress = \"127.0.0.1:0\"\n[[site]]\nroot = \"{}\"\n{site}",
        std::env::temp_dir().display()
    );
    match parse(&text, "saker.toml", Path::new("/")) {
        Ok(loaded) if loaded.warnings.is_empty() => Ok(loaded.model),
        Ok(loaded) => Err(format!("{:?}", loaded.warnings)),
        Err(diagnostics) => Err(diagnostics.to_string()),
    }
}

fn routes(model: &Model) -> Vec<(String, bool, bool)> {
    model.sites[0]
        .routes
        .iter()
        .map(|route| {
            let is_denial = matches!(route.action, Action::Deny);
            (
                route.pattern.to_string(),
                is_denial,
                is_preset(&route.origin.file),
            )
        })
        .collect()
}

#[test]
fn every_preset_loads_in_sites_and_routes() {
    for preset in PRESETS {
        let name = preset.name;
        let model =
            load(&format!("preset = \"{name}\"\n")).unwrap_or_else(|why| panic!("{name}: {why}"));
        assert!(!model.sites[0].routes.is_empty(), "{name}");
        let below = format!("[[site.route]]\npath = \"/a.b/c/*\"\npreset = \"{name}\"\n");
        let model = load(&below).unwrap_or_else(|why| panic!("{name}: {why}"));
        for (pattern, _, is_of_preset) in routes(&model) {
            let is_below = pattern.contains("/a.b/c") || pattern.contains("/a\\.b/c");
            assert!(
                is_below || !is_of_preset || name == "proxy",
                "{name}: {pattern}"
            );
        }
        assert!(!preset.text("").contains("{base}") && !preset.summary.ends_with('.'));
        assert_eq!(Preset::find(name).map(|found| found.name), Some(name));
    }
    assert_eq!(PRESETS.len(), NAMES.len());
}

#[test]
fn denials_come_first_and_own_routes_before_the_others() {
    let model = load(
        "preset = \"wordpress\"\n[[site.route]]\npath = \"/wp-content/*\"\nrespond = \"own\"\n\
         [[site.redirect]]\nfrom = \"/feed\"\nto = \"/feed/\"\n",
    )
    .unwrap();
    let order: Vec<(bool, bool)> = routes(&model)
        .into_iter()
        .map(|(_, deny, preset)| (deny, preset))
        .collect();
    assert_eq!(
        order,
        [
            (true, true),
            (true, true),
            (true, true),
            (true, true),
            (false, false),
            (false, false),
            (false, true),
            (false, true)
        ]
    );
}

#[test]
fn a_route_with_the_same_path_takes_its_place() {
    let all = routes(&load("preset = \"wordpress\"\n").unwrap());
    let own =
        load("preset = \"wordpress\"\n[[site.route]]\npath = \"/*\"\nrespond = \"own\"\n").unwrap();
    let own = routes(&own);
    assert_eq!(own.len(), all.len());
    assert_eq!(
        own.iter().filter(|(pattern, ..)| pattern == "/*").count(),
        1
    );
    assert!(own.contains(&("/*".to_owned(), false, false)));
}

#[test]
fn keys_of_the_site_win() {
    let model = load(
        "body_size = 5\nphp = \"off\"\nindex = [\"a.html\"]\npreset = \"nextcloud\"\ncache = false\n\
         [site.headers]\nx-frame-options = \"DENY\"\ncache-control = \"no-store\"\n",
    )
    .unwrap();
    let site = &model.sites[0];
    assert_eq!(site.settings.body_bytes_max, Some(5));
    let all =
        std::iter::once(&site.settings).chain(site.routes.iter().map(|route| &route.settings));
    for settings in all {
        let values = |settings: &Settings, name: &str| {
            let each = settings
                .fields
                .iter()
                .filter(|edit| edit.name.eq_ignore_ascii_case(name));
            each.map(|edit| format!("{:?}", edit.action))
                .collect::<Vec<_>>()
        };
        assert_eq!(values(settings, "X-Frame-Options"), ["Set(\"DENY\")"]);
        assert_eq!(values(settings, "Cache-Control"), ["Set(\"no-store\")"]);
        assert_eq!(values(settings, "Referrer-Policy").len(), 1);
    }
}

#[test]
fn origins_name_the_preset() {
    let model = load("preset = \"spa\"\n").unwrap();
    let origin = &model.sites[0].routes[0].origin;
    assert!(origin.to_string().starts_with("preset spa:"), "{origin}");
}

#[test]
fn inner_routes_have_the_directory_of_the_outer_one() {
    let model =
        load("[[site.route]]\npath = \"/blog/*\"\nalias = \"/srv/blog\"\npreset = \"wordpress\"\n")
            .unwrap();
    for route in model.sites[0].routes.iter() {
        let root = route.settings.root.as_ref().unwrap();
        assert_eq!(
            (&*root.folder, &*root.prefix),
            (Path::new("/srv/blog"), "/blog/")
        );
    }
}
