//! `saker check --cost`: the rules that keep responses off the route cache, and those that it asks
//! as conditions.
//!
//! Called by: `check`.
//! Caveat: for Apache, the `.htaccess` file in each document root is read, too, but none below it.
//! Out of scope: what one request depends on (`explain`).

use crate::source::{ApacheInput, apache_setup};
use saker_ap_expr::{Cost, RequestPart};
use saker_apache::{Apache, CostLine, cost_lines};
use saker_apache_syntax::{OnDisk, OnDiskPrivileged, Permission, limits::HTACCESS_BYTES_MAX};
use saker_config::{
    Model,
    model::{ModSecurityMode, Origin, Settings},
};
use serde_json::{Value, json};
use std::{collections::BTreeSet, fmt::Write as _, path::Path, sync::Arc};

/// The lines of an Apache configuration, and those of `.htaccess` files in its document roots.
pub fn of_apache(input: &ApacheInput, apache: &Apache) -> Vec<CostLine> {
    let (setup, _) = apache_setup(input);
    let tree = saker_apache_syntax::load(&setup, &OnDiskPrivileged).tree;
    let mut lines = cost_lines(&tree.nodes);
    let roots: BTreeSet<&Path> = apache
        .hosts
        .iter()
        .map(|host| host.document_root.as_path())
        .collect();
    for root in roots {
        lines.extend(of_htaccess(&root.join(".htaccess"), apache));
    }
    lines
}

/// A file that can't be read, or has errors, costs nothing here; requests are denied there.
fn of_htaccess(path: &Path, apache: &Apache) -> Vec<CostLine> {
    let Ok(text) = saker_files::read_regular(path, HTACCESS_BYTES_MAX as u64) else {
        return Vec::new();
    };
    let name = path.display().to_string();
    let parsed = saker_apache_syntax::parse_htaccess(
        &text,
        &name,
        &apache.environment,
        &Permission::all(),
        &OnDisk,
    );
    parsed.map_or(Vec::new(), |parsed| cost_lines(&parsed.tree.nodes))
}

/// The sites and routes of saker.toml.
pub fn of_model(model: &Model) -> Vec<CostLine> {
    let mut lines = Vec::new();
    for site in &model.sites {
        let mut own = of_settings(&site.settings);
        if site.https_redirect.is_some() {
            own.condition(RequestPart::Secure);
            own.condition(RequestPart::Query);
        }
        push(&mut lines, &site.origin, "[[site]]".to_owned(), own.clone());
        for route in site.routes.iter() {
            if Arc::ptr_eq(&route.settings, &site.settings) {
                continue;
            }
            let cost = without(of_settings(&route.settings), &own);
            push(&mut lines, &route.origin, "[[site.route]]".to_owned(), cost);
        }
    }
    lines
}

fn push(lines: &mut Vec<CostLine>, origin: &Origin, text: String, cost: Cost) {
    if cost != Cost::default() {
        let origin = origin.clone();
        lines.push(CostLine { origin, text, cost });
    }
}

/// The cost that a route adds to its site's.
fn without(cost: Cost, of_site: &Cost) -> Cost {
    let mut own = Cost::default();
    for part in cost.conditions() {
        if !of_site.conditions().contains(part) {
            own.condition(part.clone());
        }
    }
    for reason in cost.reasons() {
        if !of_site.reasons().contains(reason) {
            own.dispatch(reason);
        }
    }
    own
}

fn of_settings(settings: &Settings) -> Cost {
    let mut cost = Cost::default();
    let (links, visitors) = (&settings.links, &settings.visitors);
    if links.referrers.is_some() {
        cost.condition(RequestPart::Field("referer".into()));
    }
    let is_inspected = settings
        .modsecurity
        .as_ref()
        .is_some_and(|modsecurity| modsecurity.mode != ModSecurityMode::Off);
    let reasons = [
        (links.signed.is_some(), "checks signatures (`signed`)"),
        (
            links.trigger.is_some(),
            "looks for an earlier request (`trigger`)",
        ),
        (
            visitors.challenge.as_ref().is_some_and(|rule| rule.always),
            "asks for a clearance cookie (`challenge`)",
        ),
        (visitors.robots.is_some(), "verifies crawlers (`robots`)"),
        (
            visitors.logins.is_some(),
            "watches login attempts (`logins`)",
        ),
        (
            settings.authorize.is_some(),
            "asks an authorization server (`authorize`)",
        ),
        (is_inspected, "inspects requests (`modsecurity`)"),
        (
            settings.throttle.counts() || settings.throttle.site_requests.is_some(),
            "counts requests (`throttle`)",
        ),
    ];
    for (_, reason) in reasons.iter().filter(|(is_set, _)| *is_set) {
        cost.dispatch(reason);
    }
    cost
}

/// One line for each rule, and a summary.
pub fn text(lines: &[CostLine]) -> String {
    let mut page = String::new();
    let (mut dispatched, mut conditions) = (0, 0);
    for line in lines {
        let (origin, text) = (&line.origin, printable(&line.text));
        if !line.cost.reasons().is_empty() {
            dispatched += 1;
            let reasons = line.cost.reasons().join(", ");
            let _ = writeln!(page, "{origin}: dispatched each time: `{text}` {reasons}");
        } else {
            conditions += 1;
            let parts = parts(&line.cost).join(", ");
            let _ = writeln!(page, "{origin}: condition: `{text}` tests {parts}");
        }
    }
    let _ = writeln!(
        page,
        "cost: {dispatched} rule{} off the route cache, {conditions} asked as conditions",
        if dispatched == 1 { "" } else { "s" }
    );
    page
}

pub fn json(lines: &[CostLine]) -> Value {
    let line = |line: &CostLine| {
        json!({
            "file": &*line.origin.file,
            "line": line.origin.line,
            "column": line.origin.column,
            "rule": line.text,
            "conditions": parts(&line.cost),
            "dispatched": line.cost.reasons(),
        })
    };
    lines.iter().map(line).collect()
}

fn parts(cost: &Cost) -> Vec<String> {
    cost.conditions().iter().map(ToString::to_string).collect()
}

/// Text from a file must not move the cursor.
fn printable(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { '\u{fffd}' } else { c })
        .collect()
}
