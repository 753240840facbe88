//! The manager's page for programs (`xml=1`), with Apache's names.
//!
//! Called by: `balancer_manager`.
//! Out of scope: settings that only Apache's own pools of connections have.

use crate::balancer_manager::{
    page::{attempts, factor, method_name, on_off, status},
    view::{View, escaped},
};
use saker_apache_model::proxy::balancers::{Balancer, Nonce, url};
use saker_config::model::{BackendAddress, Member};
use std::fmt::Write as _;

pub fn text(view: &View<'_>) -> String {
    let mut out = String::from(
        "<?xml version='1.0' encoding='UTF-8' ?>\n<httpd:manager xmlns:httpd='http://httpd.apache.org'>\n  <httpd:balancers>\n",
    );
    for balancer in &view.host.proxy.workers.balancers {
        of_balancer(balancer, &mut out);
    }
    out.push_str("  </httpd:balancers>\n</httpd:manager>\n");
    out
}

fn element(depth: usize, name: &str, value: &str, out: &mut String) {
    let (blanks, value) = ("  ".repeat(depth), escaped(value));
    let _ = writeln!(out, "{blanks}<httpd:{name}>{value}</httpd:{name}>");
}

fn of_balancer(balancer: &Balancer, out: &mut String) {
    let upstream = balancer.current();
    out.push_str("    <httpd:balancer>\n");
    element(3, "name", &balancer.name, out);
    if let Nonce::Text(nonce) = &balancer.nonce {
        element(3, "nonce", nonce, out);
    }
    if let Some(sticky) = &upstream.sticky {
        element(3, "stickysession", &sticky.cookie, out);
        element(3, "nofailover", on_off(upstream.is_bound), out);
    }
    element(3, "timeout", &(upstream.wait_ms / 1000).to_string(), out);
    element(3, "maxattempts", &attempts(&upstream).to_string(), out);
    element(3, "lbmethod", method_name(upstream.balance), out);
    out.push_str("      <httpd:workers>\n");
    upstream
        .members
        .iter()
        .for_each(|member| of_member(member, out));
    out.push_str("      </httpd:workers>\n    </httpd:balancer>\n");
}

fn of_member(member: &Member, out: &mut String) {
    let (busy, requests, failures) = member.state.figures();
    let (sent, received) = member.state.bytes();
    let (host, port) = match &member.backend.address {
        BackendAddress::Tcp { host, port } => (host.to_string(), *port),
        BackendAddress::Unix(path) => (path.display().to_string(), 0),
    };
    out.push_str("        <httpd:worker>\n");
    for (name, value) in [
        ("name", url(member)),
        ("scheme", member.backend.scheme().to_owned()),
        ("hostname", host),
        ("loadfactor", factor(member)),
        ("port", port.to_string()),
        ("status", status(member)),
        ("transferred", sent.to_string()),
        ("read", received.to_string()),
        ("elected", requests.to_string()),
        ("errors", failures.to_string()),
        (
            "route",
            member.route.as_deref().unwrap_or_default().to_owned(),
        ),
        (
            "redirect",
            member.redirect.as_deref().unwrap_or_default().to_owned(),
        ),
        ("busy", busy.to_string()),
        ("lbset", member.set.to_string()),
    ] {
        element(5, name, &value, out);
    }
    out.push_str("        </httpd:worker>\n");
}
