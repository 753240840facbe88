//! Referrers, signatures, and pages that come before downloads.

use super::{Guarded, cookie, refuse};
use crate::{Exchange, Mapped, Response, Services, Verdict};
use saker_abuse::{
    Who, referrer,
    signed::{self, Asked, Finding},
};
use saker_config::model::{Links, Referrers, Refusal, SignedUrls, Trigger};
use saker_http::{KnownField, Status};
use std::sync::Arc;

pub(super) fn check(exchange: &mut Exchange, services: &Services) -> Verdict {
    let Links {
        referrers,
        signed,
        trigger,
    } = exchange.settings.links.clone();
    let signature = signed.map(|rule| signature(exchange, services, &rule));
    if let Some(refused @ (Verdict::Answer(_) | Verdict::Restart)) = signature {
        return refused;
    }
    if let Some(refused @ (Verdict::Answer(_) | Verdict::Restart)) =
        referrers.map(|rule| referrer(exchange, &rule))
    {
        return refused;
    }
    trigger.map_or(Verdict::Pass, |rule| triggered(exchange, services, &rule))
}

fn referrer(exchange: &mut Exchange, rule: &Referrers) -> Verdict {
    let stands_in =
        matches!(&rule.refusal, Refusal::Instead(path) if path.as_bytes() == exchange.path);
    // What is shown in place of something is shown, whatever other rule its own path is under.
    let is_replaced = exchange
        .guarded
        .as_ref()
        .is_some_and(|guarded| guarded.by_referrer);
    if stands_in || is_replaced || !referrer::applies(rule, &exchange.path) {
        return Verdict::Pass;
    }
    exchange.depends_on_request();
    let said = exchange.head.view().known(KnownField::Referer);
    if referrer::is_allowed(rule, said, &exchange.site.names, &exchange.host) {
        exchange.trace("guard", None, || "`referrers` allows this".into());
        return Verdict::Pass;
    }
    let shown = String::from_utf8_lossy(said.unwrap_or_default()).into_owned();
    exchange.trace("guard", None, || {
        format!("`referrers` does not allow {shown:?}")
    });
    exchange.guarded().by_referrer = true;
    refuse(exchange, &rule.refusal)
}

fn signature(exchange: &mut Exchange, services: &Services, rule: &Arc<SignedUrls>) -> Verdict {
    if rule.is_free_elsewhere && !exchange.path.starts_with(rule.prefix.as_bytes()) {
        return Verdict::Pass;
    }
    exchange.depends_on_request();
    if exchange
        .guarded
        .as_ref()
        .is_some_and(|guarded| guarded.opened.as_ref() == Some(&exchange.path))
    {
        return Verdict::Pass;
    }
    let asked = Asked {
        path: &exchange.path,
        query: exchange.query.as_deref(),
        host: &exchange.host,
        address: exchange.client.ip(),
    };
    match signed::check(rule, &asked, exchange.now) {
        Finding::Good(rest) => {
            exchange.trace("guard", None, || "`signed`: the signature is good".into());
            // The rules of a front-end have mapped the path with the token in it.
            let is_mapped = rest.is_some()
                && services
                    .rules
                    .as_deref()
                    .is_some_and(|rules| rules.apply_to(exchange.site_index));
            open(exchange, rule, rest);
            if is_mapped {
                Verdict::Restart
            } else {
                Verdict::Pass
            }
        }
        Finding::Expired => {
            exchange.trace("guard", None, || "`signed`: the link was good once".into());
            Verdict::Answer(Response::new(rule.expired))
        }
        Finding::Wrong => {
            exchange.trace("guard", None, || {
                "`signed`: there is no signature, or a wrong one".into()
            });
            Verdict::Answer(Response::new(Status::FORBIDDEN))
        }
    }
}

/// What follows the token is what was asked for.
fn open(exchange: &mut Exchange, rule: &SignedUrls, rest: Option<Vec<u8>>) {
    if let Some(rest) = rest {
        let relative = rest.strip_prefix(b"/").unwrap_or(&rest);
        exchange.mapped = rule.root.as_ref().map(|root| Mapped {
            root: Arc::clone(root),
            relative: relative.to_vec(),
        });
        exchange.path = [rule.prefix.as_bytes(), relative].concat();
    }
    let path = exchange.path.clone();
    exchange.guarded().opened = Some(path);
}

fn triggered(exchange: &mut Exchange, services: &Services, rule: &Trigger) -> Verdict {
    let is = |patterns: &[saker_config::model::PathPattern]| {
        patterns
            .iter()
            .any(|pattern| pattern.captures(&exchange.path).is_some())
    };
    let (is_page, is_file) = (is(&rule.pages), is(&rule.files));
    if !is_page && !is_file {
        return Verdict::Pass;
    }
    exchange.depends_on_request();
    if !is_page && !may_have(exchange, services, rule) {
        exchange.trace("guard", None, || {
            "`trigger`: no page before this file".into()
        });
        return refuse(exchange, &rule.refusal);
    }
    exchange.trace("guard", None, || {
        if is_page {
            "`trigger`: opens its files".into()
        } else {
            "`trigger`: the page was asked for".into()
        }
    });
    admit(exchange, services, rule);
    Verdict::Pass
}

fn may_have(exchange: &Exchange, services: &Services, rule: &Trigger) -> bool {
    if rule.by_cookie {
        let pass = cookie(exchange, &cookie_name(rule)).unwrap_or_default();
        return services
            .guard
            .keys
            .verify(pass, b"trigger", &bound_to(exchange, rule), exchange.now)
            .is_some();
    }
    let key = (Who::of(exchange.client.ip()), rule.id);
    services
        .guard
        .triggers
        .find(&key)
        .is_some_and(|until| until > exchange.now)
}

fn admit(exchange: &mut Exchange, services: &Services, rule: &Trigger) {
    let until = exchange
        .now
        .saturating_add(i64::try_from(rule.within_s).unwrap_or(i64::MAX));
    if !rule.by_cookie {
        return services
            .guard
            .triggers
            .insert((Who::of(exchange.client.ip()), rule.id), until);
    }
    let Some(pass) =
        services
            .guard
            .keys
            .sign(b"trigger", &bound_to(exchange, rule), until, exchange.now)
    else {
        return;
    };
    let secure = if exchange.client.secure {
        "; Secure"
    } else {
        ""
    };
    let value = format!(
        "{}={pass}; Path=/; Max-Age={}; HttpOnly; SameSite=Lax{secure}",
        cookie_name(rule),
        rule.within_s
    );
    let Guarded { cookies, .. } = exchange.guarded();
    cookies.push(value.into_bytes());
}

fn cookie_name(rule: &Trigger) -> String {
    format!("saker_trigger_{:x}", rule.id)
}

fn bound_to(exchange: &Exchange, rule: &Trigger) -> Vec<u8> {
    [&rule.id.to_be_bytes()[..], &exchange.host].concat()
}
