//! The manager's page: a table of each balancer and its members, and a form for the one that is
//! changed.
//!
//! Called by: `balancer_manager`. Programs that watch balancers read this page, so its cells stand
//! where Apache has them.
//! Caveat: names and URLs are those of configurations and administrators; all are escaped.

use crate::{
    balancer_manager::view::{Selected, View, escaped, short_name},
    listing::page::short_size,
};
use saker_apache_model::proxy::{
    balancers::{Balancer, Nonce, url},
    pass::{From, Pass},
};
use saker_config::model::{Balance, Member, Upstream};
use std::fmt::Write as _;

const STYLE: &str = "table{border:1px solid gray;border-collapse:collapse;text-align:center}\
th,td{border:1px dotted gray;padding:2px}th{background-color:lightgray}";

/// Balancing methods by Apache's names.
const METHODS: [(&str, Balance); 3] = [
    ("byrequests", Balance::Requests),
    ("bybusyness", Balance::Busyness),
    ("bytraffic", Balance::Traffic),
];

pub fn html(view: &View<'_>) -> String {
    let mut out = String::from(
        "<!DOCTYPE HTML PUBLIC \"-//W3C//DTD HTML 4.01//EN\" \"http://www.w3.org/TR/html4/strict.dtd\">\n\
         <html><head><title>Balancer Manager</title>\n",
    );
    let (of_balancers, of_passes) = view.host.proxy.workers.inherits;
    let not = |is_so: bool| if is_so { "" } else { "NOT " };
    let _ = write!(
        out,
        "<style type='text/css'>\n{STYLE}\n</style>\n</head>\n<body><h1>Load Balancer Manager for {}</h1>\n\n\
         <dl><dt>Server Version: {}</dt>\n<dt>Balancer changes will NOT be persisted on restart.</dt>\
         <dt>Balancers are {}inherited from main server.</dt>\
         <dt>ProxyPass settings are {}inherited from main server.</dt></dl>\n<hr />\n",
        escaped(&view.name),
        escaped(&view.software),
        not(of_balancers),
        not(of_passes),
    );
    for balancer in &view.host.proxy.workers.balancers {
        table(view, balancer, &mut out);
    }
    if let Some(selected) = &view.selected {
        form(view, selected, &mut out);
    }
    out.push_str("</body></html>\n");
    out
}

fn table(view: &View<'_>, balancer: &Balancer, out: &mut String) {
    let upstream = balancer.current();
    let name = escaped(&balancer.name);
    let _ = write!(
        out,
        "<h3>LoadBalancer Status for <a href=\"{}\">{name}</a></h3>\n\n\n\
         <table><tr><th>MaxMembers</th><th>StickySession</th><th>DisableFailover</th><th>Timeout</th>\
         <th>FailoverAttempts</th><th>Method</th><th>Path</th><th>Active</th></tr>\n\
         <tr><td>{} [{} Used]</td>\n<td>{}</td><td>{}</td>\n<td>{}</td><td>{}</td>\n<td>{}</td>\n<td>{}</td>\n<td>Yes</td>\n</tr>\n</table>\n<br />\n\n",
        link(view, balancer, None),
        balancer.members_max(),
        upstream.members.len(),
        sticky(&upstream).map_or(" (None) ".to_owned(), |text| escaped(&text)),
        on_off(upstream.is_bound),
        upstream.wait_ms / 1000,
        attempts(&upstream),
        method_name(upstream.balance),
        escaped(&path_of(&view.host.proxy.passes, &balancer.name)),
    );
    out.push_str(
        "<table><tr><th>Worker URL</th><th>Route</th><th>RouteRedir</th><th>Factor</th><th>Set</th><th>Status</th>\
         <th>Elected</th><th>Busy</th><th>Load</th><th>To</th><th>From</th></tr>\n",
    );
    for member in &upstream.members {
        row(view, balancer, member, out);
    }
    out.push_str("</table>\n<hr />\n");
}

fn row(view: &View<'_>, balancer: &Balancer, member: &Member, out: &mut String) {
    let (busy, requests, _) = member.state.figures();
    let (sent, received) = member.state.bytes();
    let url = url(member);
    let _ = writeln!(
        out,
        "<tr>\n<td><a href=\"{}\">{}</a></td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td>\
         <td>{requests}</td><td>{busy}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
        link(view, balancer, Some(&url)),
        escaped(&url),
        escaped(member.route.as_deref().unwrap_or_default()),
        escaped(member.redirect.as_deref().unwrap_or_default()),
        factor(member),
        member.set,
        status(member),
        member.weight,
        short_size(sent),
        short_size(received),
    );
}

fn link(view: &View<'_>, balancer: &Balancer, member: Option<&str>) -> String {
    let mut query = format!("b={}", encoded(short_name(balancer)));
    if let Some(url) = member {
        let _ = write!(query, "&amp;w={}", encoded(url));
    }
    if let Nonce::Text(nonce) = &balancer.nonce {
        let _ = write!(query, "&amp;nonce={}", encoded(nonce));
    }
    format!("{}?{query}", escaped(&view.path))
}

/// In a query inside of an attribute.
fn encoded(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b':' | b'/' => {
                out.push(char::from(byte));
            }
            _ => drop(write!(out, "%{byte:02X}")),
        }
    }
    out
}

pub fn factor(member: &Member) -> String {
    format!("{}.{:02}", member.weight / 100, member.weight % 100)
}

pub fn on_off(is_on: bool) -> &'static str {
    if is_on { "On" } else { "Off" }
}

pub fn attempts(upstream: &Upstream) -> usize {
    let all = upstream.members.len().saturating_sub(1);
    upstream.attempts_max.unwrap_or(all)
}

pub fn method_name(balance: Balance) -> &'static str {
    let known = METHODS.iter().find(|(_, known)| *known == balance);
    known.map_or("byrequests", |(name, _)| name)
}

/// Names of cookie and parameter.
fn sticky(upstream: &Upstream) -> Option<String> {
    let sticky = upstream.sticky.as_ref()?;
    Some(match sticky.cookie == sticky.parameter {
        true => sticky.cookie.to_string(),
        false => format!("{}|{}", sticky.cookie, sticky.parameter),
    })
}

/// The first path that is passed on to the balancer.
fn path_of(passes: &[Pass], name: &str) -> String {
    let is_to = |pass: &&Pass| {
        pass.to.as_deref().is_some_and(|to| {
            let to = to.to_ascii_lowercase();
            to.strip_prefix(name)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        })
    };
    match passes.iter().find(is_to).map(|pass| &pass.from) {
        Some(From::Prefix(path)) => String::from_utf8_lossy(path).into_owned(),
        _ => String::new(),
    }
}

/// The words of Apache's status flags, in its order.
pub fn status(member: &Member) -> String {
    let is_down = member.state.is_down();
    let flags = [
        (true, "Init "),
        (member.ignores_errors, "Ign "),
        (member.is_draining, "Drn "),
        (member.is_disabled, "Dis "),
        (member.is_stopped, "Stop "),
        (member.is_standby, "Stby "),
        (member.is_spare, "Spar "),
        (is_down, "HcFl "),
        (!member.is_out() && !is_down, "Ok "),
    ];
    let words = flags.iter().filter(|(is_set, _)| *is_set);
    words.map(|(_, word)| *word).collect()
}

fn form(view: &View<'_>, selected: &Selected, out: &mut String) {
    let (balancer, upstream) = (&selected.balancer, selected.balancer.current());
    let member = selected.member.as_ref().and_then(|wanted| {
        upstream
            .members
            .iter()
            .find(|member| url(member) == *wanted)
    });
    let title = match member {
        Some(member) => format!("worker settings for {}", escaped(&url(member))),
        None => format!("balancer settings for {}", escaped(&balancer.name)),
    };
    let _ = write!(
        out,
        "<h3>Edit {title}</h3>\n<form method='POST' enctype='application/x-www-form-urlencoded' action=\"{}\">\n<table>\n",
        escaped(&view.action)
    );
    match member {
        Some(member) => member_fields(member, out),
        None => balancer_fields(balancer, &upstream, out),
    }
    out.push_str("<tr><td colspan='2'><input type=submit value='Submit'></td></tr>\n</table>\n");
    if let Some(member) = member {
        hidden("w", &url(member), out);
    }
    hidden("b", short_name(balancer), out);
    if let Nonce::Text(nonce) = &balancer.nonce {
        hidden("nonce", nonce, out);
    }
    out.push_str("</form>\n<hr />\n");
}

fn hidden(name: &str, value: &str, out: &mut String) {
    let value = escaped(value);
    let _ = writeln!(
        out,
        "<input type=hidden name='{name}' id='{name}' value=\"{value}\">"
    );
}

fn input(label: &str, name: &str, value: &str, out: &mut String) {
    let value = escaped(value);
    let _ = writeln!(
        out,
        "<tr><td>{label}:</td><td><input name='{name}' id='{name}' type=text value=\"{value}\"></td></tr>"
    );
}

fn switch(label: &str, name: &str, is_on: bool, out: &mut String) {
    let mark = |shown: bool| if shown { " checked" } else { "" };
    let _ = writeln!(
        out,
        "<tr><td>{label}:</td><td>On <input name='{name}' type=radio value='1'{}> Off <input name='{name}' type=radio value='0'{}></td></tr>",
        mark(is_on),
        mark(!is_on)
    );
}

fn member_fields(member: &Member, out: &mut String) {
    let text = |text: &Option<Box<str>>| text.as_deref().unwrap_or_default().to_owned();
    input("Load factor", "w_lf", &factor(member), out);
    input("LB Set", "w_ls", &member.set.to_string(), out);
    input("Route", "w_wr", &text(&member.route), out);
    input("Route Redirect", "w_rr", &text(&member.redirect), out);
    for (label, name, is_on) in [
        ("Ignore Errors", "w_status_I", member.ignores_errors),
        ("Draining Mode", "w_status_N", member.is_draining),
        ("Disabled", "w_status_D", member.is_disabled),
        ("Stopped", "w_status_S", member.is_stopped),
        ("Hot Standby", "w_status_H", member.is_standby),
        ("Hot Spare", "w_status_R", member.is_spare),
    ] {
        switch(label, name, is_on, out);
    }
}

fn balancer_fields(balancer: &Balancer, upstream: &Upstream, out: &mut String) {
    out.push_str("<tr><td>LBmethod:</td><td>\n<select name='b_lbm' id='b_lbm'>");
    for (name, balance) in METHODS {
        let mark = if balance == upstream.balance {
            " selected"
        } else {
            ""
        };
        let _ = writeln!(out, "<option value='{name}'{mark}>{name}");
    }
    out.push_str("</select>\n</td></tr>\n");
    input(
        "Timeout",
        "b_tmo",
        &(upstream.wait_ms / 1000).to_string(),
        out,
    );
    input(
        "Failover Attempts",
        "b_max",
        &attempts(upstream).to_string(),
        out,
    );
    switch("Disable Failover", "b_sforce", upstream.is_bound, out);
    input(
        "Sticky Session",
        "b_ss",
        &sticky(upstream).unwrap_or_default(),
        out,
    );
    if upstream.members.len() < balancer.members_max() {
        input("Add New Worker", "b_nwrkr", "", out);
        out.push_str("<tr><td>Are you sure?</td><td><input name='b_wyes' type=checkbox value='1'></td></tr>\n");
    }
}
