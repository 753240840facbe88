use super::*;
use CompressionCoding::{Brotli, Gzip};
use saker_pipeline::Environment;

fn by_type(names: &[&str], types: &[&str]) -> Filters {
    let mut filters = Filters::default();
    for name in names {
        let link: Box<str> = format!("BYTYPE:{name}").into();
        filters.chain.names.push(link.clone());
        let types = types.iter().map(|kind| (*kind).into()).collect();
        let provider = Provider {
            filter: (*name).into(),
            condition: Condition::Types(types),
        };
        filters
            .links
            .entry(link)
            .or_default()
            .providers
            .push(Arc::new(provider));
    }
    filters
}

fn link(stage: Option<Stage>, providers: &[(&str, &str)]) -> Filters {
    let mut filters = Filters::default();
    let provider = |(filter, text): &(&str, &str)| {
        let condition = Condition::Holds(
            Expression::compile(text.as_bytes(), saker_ap_expr::ExpressionOptions::default())
                .unwrap(),
        );
        Arc::new(Provider {
            filter: (*filter).into(),
            condition,
        })
    };
    filters.links.insert(
        "A".into(),
        Link {
            stage,
            providers: providers.iter().map(provider).collect(),
        },
    );
    filters.chain.names.push("A".into());
    filters
}

fn set(names: &[&str]) -> Filters {
    Filters {
        set: Some(names.iter().map(|name| (*name).into()).collect()),
        ..Filters::default()
    }
}

fn stage_of(name: &str) -> Option<Stage> {
    match name {
        "DEFLATE" | "BROTLI_COMPRESS" => Some(Stage::ContentSet),
        _ => Some(Stage::Resource),
    }
}

fn chosen(filters: &Filters, content_type: &str) -> Vec<String> {
    let none = Environment::default();
    let by_extension: [Box<str>; 1] = ["EXT".into()];
    let all = filters.chosen(
        stage_of,
        &by_extension,
        Some(content_type),
        &none,
        &mut Dependencies::new(),
    );
    all.iter().map(|one| one.name.to_owned()).collect()
}

fn codings(filters: &Filters, content_type: &str, environment: &[&str]) -> Vec<CompressionCoding> {
    let none = Environment::default();
    let names = filters.chosen(
        stage_of,
        &[],
        Some(content_type),
        &none,
        &mut Dependencies::new(),
    );
    filters
        .compression(&names, Some(content_type), |name| {
            environment.contains(&name)
        })
        .codings
}

#[test]
fn names_become_codings_in_their_order() {
    let cases = [
        (
            by_type(&["BROTLI_COMPRESS", "DEFLATE"], &["text/html"]),
            "text/html; charset=utf-8",
            &[][..],
            vec![Brotli, Gzip],
        ),
        (
            by_type(&["DEFLATE"], &["text/html"]),
            "TEXT/HTML",
            &[],
            vec![Gzip],
        ),
        (
            by_type(&["DEFLATE"], &["text/html"]),
            "text/css",
            &[],
            vec![],
        ),
        (
            by_type(&["DEFLATE"], &["text/html"]),
            "text/html",
            &["no-gzip"],
            vec![],
        ),
        (set(&["DEFLATE"]), "image/png", &[], vec![Gzip]),
        (
            set(&["DEFLATE"]),
            "text/css",
            &["gzip-only-text/html"],
            vec![],
        ),
        (set(&["INCLUDES"]), "text/html", &[], vec![]),
    ];
    for (filters, content_type, environment, expected) in cases {
        assert_eq!(
            codings(&filters, content_type, environment),
            expected,
            "{filters:?} {content_type} {environment:?}"
        );
    }
}

#[test]
fn kinds_go_before_the_order_of_names() {
    assert_eq!(
        chosen(&set(&["DEFLATE", "SUBSTITUTE"]), "text/html"),
        ["EXT", "SUBSTITUTE", "DEFLATE"]
    );
    assert_eq!(
        chosen(
            &link(Some(Stage::ContentSet), &[("SUBSTITUTE", "true")]),
            "text/html"
        ),
        ["EXT", "SUBSTITUTE"]
    );
    let both = set(&["DEFLATE"]).merge(&link(Some(Stage::Decode), &[("SUBSTITUTE", "true")]));
    assert_eq!(chosen(&both, "text/html"), ["SUBSTITUTE", "EXT", "DEFLATE"]);
}

#[test]
fn the_last_provider_that_is_met_is_the_one() {
    assert_eq!(
        chosen(
            &link(None, &[("X", "true"), ("Y", "true"), ("Z", "false")]),
            "text/html"
        ),
        ["EXT", "Y"]
    );
    assert_eq!(chosen(&link(None, &[("Z", "false")]), "text/html"), ["EXT"]);
}

#[test]
fn inner_sections_take_links_over() {
    let merged = by_type(&["X"], &["text/html"]).merge(&by_type(&["X"], &["text/css"]));
    assert_eq!(
        (chosen(&merged, "text/html"), chosen(&merged, "text/css")),
        (
            vec!["EXT".into()],
            vec!["EXT".into(), "X".into(), "X".into()]
        )
    );
    let empty = Filters {
        chain: Chain {
            is_new: true,
            names: Vec::new(),
        },
        ..Filters::default()
    };
    assert_eq!(
        chosen(&by_type(&["X"], &["text/html"]).merge(&empty), "text/html"),
        ["EXT"]
    );
}
