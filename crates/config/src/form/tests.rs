use super::*;
use crate::context::CONTEXTS;

const TEXT: &str = "\
# The server.
[server]
workers = 2   # as many as cores

[[listener]]
address = \":80\"

[[site]]
names = [\"a.example\"]
root = \"/srv/a\"
listing = true
cache = true

# Downloads.
[[site.route]]
path = \"/get/*\"
headers = { A = \"b\" }

[[site]]
names = [\"b.example\"]
redirect = [{ from = \"/old\", to = \"/new\" }]
";

fn setting(path: &str, name: &str) -> Setting {
    let form = form(TEXT, path).expect("a form");
    let found = form.settings.into_iter().find(|one| one.name == name);
    found.expect("a setting")
}

#[test]
fn values_know_where_they_come_from() {
    let workers = setting("server", "workers");
    assert_eq!(
        (workers.value.as_deref(), workers.origin),
        (Some("2"), Origin::Here(3))
    );
    let listing = setting("site.0.route.0", "listing");
    assert_eq!(listing.value, None);
    let inherited = Origin::Inherited {
        header: "[[site]]",
        line: 11,
        value: "true".into(),
    };
    assert_eq!(listing.origin, inherited);
    assert_eq!(setting("site.1", "listing").origin, Origin::Default);
    assert_eq!(setting("site.0", "root").value.as_deref(), Some("/srv/a"));
    let listing = setting("site.0", "listing");
    assert_eq!(
        (listing.default, listing.input),
        (Some("false"), Input::Boolean)
    );
}

#[test]
fn every_table_of_the_reference_has_a_form() {
    let mut seen = std::collections::HashSet::new();
    let mut waiting = vec![String::new()];
    while let Some(path) = waiting.pop() {
        let form = form("", &path).expect("a form");
        // A route may have routes: each kind of table is entered once.
        if !seen.insert(form.header) {
            continue;
        }
        waiting.extend(form.tables.into_iter().map(|table| table.path));
    }
    // Values of maps with free keys: the map itself is one value of its table's form.
    seen.extend(["[map.NAME]", "{ set = \"...\", ... }"]);
    seen.insert("{ set = \"...\", ... } of `upstream_headers`");
    let missing: Vec<&str> = CONTEXTS
        .iter()
        .filter(|row| !seen.contains(row.header))
        .map(|row| row.header)
        .collect();
    assert_eq!(missing, [""; 0]);
}

#[test]
fn changes_leave_the_rest_alone() {
    let changed = change(TEXT, "server", &[("workers", "4"), ("log_level", "info")]).expect("done");
    let expected = TEXT.replace(
        "workers = 2   # as many as cores\n",
        "workers = 4   # as many as cores\nlog_level = \"info\"\n",
    );
    assert_eq!(changed, expected);
    let same = change(TEXT, "site.0", &[("root", "/srv/a"), ("index", "")]).expect("done");
    assert_eq!(same, TEXT);
    let removed = change(TEXT, "site.0", &[("listing", "")]).expect("done");
    assert_eq!(removed, TEXT.replace("listing = true\n", ""));
}

#[test]
fn tables_are_added_where_they_belong() {
    let changed = change(TEXT, "site.0.tls", &[("automatic", "true")]).expect("done");
    let (before, after) = changed
        .split_once("[site.tls]\nautomatic = true\n")
        .expect(&changed);
    assert!(
        before.contains("a.example") && !before.contains("b.example"),
        "{changed}"
    );
    assert!(after.contains("b.example"), "{changed}");
    assert!(form(&changed, "site.0.tls").expect("a form").line.is_some());
    // In place of a value that is no table.
    let cache = form(TEXT, "site.0.cache").expect("a form");
    assert_eq!(cache.line, None);
    // Within a line.
    let entry = "from = \"/x\"\nto = \"/y\"\n";
    let inline = append(TEXT, "site.1.redirect", entry).expect("done");
    assert!(
        inline.contains("{ from = \"/old\", to = \"/new\" },"),
        "{inline}"
    );
    assert_eq!(
        form(&inline, "site.1.redirect.1")
            .expect("a form")
            .settings
            .len(),
        form(TEXT, "site.1.redirect.0")
            .expect("a form")
            .settings
            .len()
    );
    let block = append(TEXT, "site.0.redirect", entry).expect("done");
    let at = |text: &str| block.find(text).expect(text);
    assert!(
        at("[[site.redirect]]") < at("b.example") && at("[[site.redirect]]") > at("a.example"),
        "{block}"
    );
    let site = "names = [\"c.example\"]\nroot = \"/srv/c\"\n[tls]\nautomatic = true\n[[route]]\npath = \"/x\"\ndeny = true\n";
    let third = append(TEXT, "site", site).expect("done");
    assert!(third.starts_with(TEXT), "{third}");
    assert!(third.contains("\n[[site]]\nnames = [\"c.example\"]\nroot = \"/srv/c\"\n\n[site.tls]\nautomatic = true\n\n[[site.route]]\n") || third.contains("[[site]]\nnames = [\"c.example\"]\nroot = \"/srv/c\"\n[site.tls]\nautomatic = true\n[[site.route]]\n"), "{third}");
    assert_eq!(places(&third, "site").len(), 3);
}

#[test]
fn what_does_not_fit_is_refused() {
    for (path, key, value) in [
        ("server", "listing", "true"),
        ("server", "log_level_x", "info"),
        ("site.0", "listing", "maybe"),
        ("site.0", "headers", "true"),
        ("site.9", "listing", "true"),
        ("nothing", "listing", "true"),
        ("site", "listing", "true"),
        ("site.0.headers", "A", "b"),
        ("site.0.0", "listing", "true"),
    ] {
        assert!(change(TEXT, path, &[(key, value)]).is_err(), "{path} {key}");
    }
    assert!(form("a = ", "").is_err());
    let deep = ["site.0"; 1]
        .into_iter()
        .chain(["route.0"; 20])
        .collect::<Vec<_>>()
        .join(".");
    assert!(form("", &deep).is_err());
    assert!(append(TEXT, "server", "workers = 1").is_err());
}

#[test]
fn strings_are_strings() {
    let root = "/srv/\"x\"\n[server]";
    let changed = change(TEXT, "site.0", &[("root", root)]).expect("done");
    assert_eq!(
        form(&changed, "site.0")
            .expect("a form")
            .settings
            .iter()
            .find(|one| one.name == "root")
            .and_then(|one| one.value.clone())
            .as_deref(),
        Some(root)
    );
    assert_eq!(
        form(&changed, "").expect("a form").tables.len(),
        form(TEXT, "").expect("a form").tables.len()
    );
}

#[test]
fn values_are_added_to_lists() {
    let added = add(TEXT, "abuse", "deny", &["192.0.2.1"]).expect("done");
    assert!(added.contains("[abuse]\ndeny = [\"192.0.2.1\"]"), "{added}");
    let twice = add(&added, "abuse", "deny", &["192.0.2.1", "2001:db8::/32"]).expect("done");
    assert!(
        twice.contains("deny = [\"192.0.2.1\", \"2001:db8::/32\"]"),
        "{twice}"
    );
    assert!(add(TEXT, "site.0", "listing", &["x"]).is_err());
    assert_eq!(quoted("a\"b"), "'a\"b'");
    assert_eq!(quoted_list(&["a", "b"]), "[\"a\", \"b\"]");
}
