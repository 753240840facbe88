//! Changes that a form of the manager asks for.
//!
//! Called by: `balancer_manager`, once the form has proved where it comes from.
//! Caveat: a value that is out of its range changes nothing, as in Apache.

use crate::balancer_manager::view::{Parameters, Selected};
use saker_apache_model::{
    host::Host,
    proxy::{balancers::url, parameters::method},
};
use saker_config::model::{Member, Sticky, Upstream};

/// Length limit of routes, of what keeps sessions, and of URLs.
const TEXT_BYTES_MAX: usize = 255;
/// Seconds to wait for a member.
const WAIT_S_MAX: u64 = 7200;
const ATTEMPTS_MAX: usize = 99;
const SETS_MAX: u32 = 99;

pub fn apply(host: &Host, selected: &Selected, parameters: &Parameters) {
    match &selected.member {
        Some(wanted) => selected.balancer.change(|upstream| {
            let found = upstream.members.iter_mut();
            if let Some(member) = found.into_iter().find(|member| url(member) == *wanted) {
                change_member(member, parameters);
            }
        }),
        None => {
            selected
                .balancer
                .change(|upstream| change_balancer(upstream, parameters));
            add_member(host, selected, parameters);
        }
    }
}

fn change_member(member: &mut Member, parameters: &Parameters) {
    let factor = parameters
        .get("w_lf")
        .and_then(|text| text.parse::<f64>().ok());
    if let Some(factor) = factor.filter(|factor| (1.0..=100.0).contains(factor)) {
        member.weight = (factor * 100.0).round() as u32;
    }
    if let Some(route) = parameters.get("w_wr") {
        set_text(&mut member.route, route);
    }
    if let Some(redirect) = parameters.get("w_rr") {
        set_text(&mut member.redirect, redirect);
    }
    let set = parameters.get("w_ls").and_then(|text| text.parse().ok());
    if let Some(set) = set.filter(|set| *set <= SETS_MAX) {
        member.set = set;
    }
    for (name, flag) in [
        ("w_status_I", &mut member.ignores_errors),
        ("w_status_N", &mut member.is_draining),
        ("w_status_D", &mut member.is_disabled),
        ("w_status_S", &mut member.is_stopped),
        ("w_status_H", &mut member.is_standby),
        ("w_status_R", &mut member.is_spare),
    ] {
        if let Some(word) = parameters.get(name) {
            *flag = word.parse::<i64>().is_ok_and(|number| number != 0);
        }
    }
}

fn set_text(slot: &mut Option<Box<str>>, text: &str) {
    if text.len() <= TEXT_BYTES_MAX && !text.contains(char::is_control) {
        *slot = Some(text).filter(|text| !text.is_empty()).map(Into::into);
    }
}

fn change_balancer(upstream: &mut Upstream, parameters: &Parameters) {
    if let Some(balance) = parameters.get("b_lbm").and_then(|name| method(name).ok()) {
        upstream.balance = balance;
    }
    let number = |name: &str| parameters.get(name)?.parse::<u64>().ok();
    if let Some(seconds) = number("b_tmo").filter(|seconds| *seconds <= WAIT_S_MAX) {
        upstream.wait_ms = seconds * 1000;
    }
    let attempts = number("b_max").and_then(|count| usize::try_from(count).ok());
    if let Some(attempts) = attempts.filter(|count| *count <= ATTEMPTS_MAX) {
        upstream.attempts_max = Some(attempts);
    }
    if let Some(word) = parameters.get("b_sforce") {
        upstream.is_bound = word.parse::<i64>().is_ok_and(|number| number != 0);
    }
    if let Some(text) = parameters.get("b_ss") {
        set_sticky(&mut upstream.sticky, text);
    }
}

/// `-` ends it; nothing leaves it as it is.
fn set_sticky(sticky: &mut Option<Sticky>, text: &str) {
    let is_name = |name: &str| {
        !name.is_empty()
            && name
                .bytes()
                .all(|byte| byte.is_ascii_graphic() && !b";,=".contains(&byte))
    };
    let (cookie, parameter) = text.split_once('|').unwrap_or((text, text));
    if text == "-" {
        *sticky = None;
    } else if text.len() <= TEXT_BYTES_MAX && is_name(cookie) && is_name(parameter) {
        let (separator, semicolon_delimits) = match sticky {
            Some(known) => (known.separator, known.semicolon_delimits),
            None => (Some(b'.'), false),
        };
        *sticky = Some(Sticky {
            cookie: cookie.into(),
            parameter: parameter.into(),
            separator,
            semicolon_delimits,
        });
    }
}

/// `b_nwrkr` with `b_wyes`: as many as there is room for.
fn add_member(host: &Host, selected: &Selected, parameters: &Parameters) {
    let wanted = parameters
        .get("b_nwrkr")
        .filter(|url| (1..=TEXT_BYTES_MAX).contains(&url.len()));
    let (Some(text), Some("1")) = (wanted, parameters.get("b_wyes")) else {
        return;
    };
    let balancer = &selected.balancer;
    let Ok(member) = host.proxy.workers.further_member(balancer, text) else {
        return;
    };
    let members_max = balancer.members_max();
    balancer.change(|upstream| {
        let is_known = upstream
            .members
            .iter()
            .any(|known| url(known) == url(&member));
        if !is_known && upstream.members.len() < members_max {
            upstream.members.push(member);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use saker_config::model::{Backend, BackendAddress, Balance, Protocol, Tuning};

    fn member() -> Member {
        let address = BackendAddress::Tcp {
            host: "a.test".into(),
            port: 80,
        };
        Member::new(Backend::new(Protocol::Http1, address), Tuning::default())
    }

    #[test]
    fn members_change_within_bounds() {
        let mut member = member();
        let change = |member: &mut Member, text: &str| {
            change_member(member, &Parameters::read(text.as_bytes()))
        };
        change(
            &mut member,
            "w_lf=3.5&w_ls=2&w_wr=x&w_rr=y&w_status_D=1&w_status_N=1",
        );
        assert_eq!((member.weight, member.set), (350, 2));
        assert_eq!(member.route.as_deref(), Some("x"));
        assert_eq!(member.redirect.as_deref(), Some("y"));
        assert!(member.is_out() && member.is_draining);
        change(
            &mut member,
            "w_lf=100.5&w_ls=100&w_wr=a%0ab&w_status_D=0&w_status_S=1",
        );
        assert_eq!((member.weight, member.set), (350, 2));
        assert_eq!(member.route.as_deref(), Some("x"));
        assert!(member.is_out() && !member.is_disabled);
        change(&mut member, "w_lf=100&w_ls=99&w_wr=&w_status_S=0");
        assert_eq!(
            (member.weight, member.set, &member.route),
            (10_000, 99, &None)
        );
        assert!(!member.is_out());
    }

    #[test]
    fn balancers_change_within_bounds() {
        let mut upstream = Upstream::new("balancer://a", vec![member()]);
        let change = |upstream: &mut Upstream, text: &str| {
            change_balancer(upstream, &Parameters::read(text.as_bytes()))
        };
        change(
            &mut upstream,
            "b_lbm=bytraffic&b_tmo=7200&b_max=99&b_sforce=1&b_ss=A|b",
        );
        assert_eq!(
            (upstream.balance, upstream.wait_ms),
            (Balance::Traffic, 7_200_000)
        );
        assert_eq!((upstream.attempts_max, upstream.is_bound), (Some(99), true));
        let sticky = upstream.sticky.clone().unwrap();
        assert_eq!((&*sticky.cookie, &*sticky.parameter), ("A", "b"));
        change(
            &mut upstream,
            "b_lbm=none&b_tmo=7201&b_max=100&b_sforce=0&b_ss=",
        );
        assert_eq!(
            (upstream.balance, upstream.wait_ms),
            (Balance::Traffic, 7_200_000)
        );
        assert_eq!(
            (upstream.attempts_max, upstream.is_bound),
            (Some(99), false)
        );
        assert!(upstream.sticky.is_some());
        change(&mut upstream, "b_ss=-");
        assert_eq!(upstream.sticky, None);
    }
}
