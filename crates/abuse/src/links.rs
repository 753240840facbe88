//! Hotlink protection (`referrers`), signed URLs, and pages that must be requested before downloads
//! (`trigger`).
//!
//! Called by: `control`, behind the rules about clients.
//! Caveat: signatures and pages decide per request, so such answers are not cached; the test of a
//! referrer is recorded.
//! Out of scope: the decisions themselves, which are pure functions (`hotlink`, `signed`).

use crate::{
    Abuse,
    context::{context, cookie, known},
    hotlink::{self, AllowedReferrer},
    signed::{self, Asked, Finding},
};
use saker_ap_expr::{Predicate, TextPredicate};
use saker_config::model::{Links, Referrers, Refusal, SignedUrls, Trigger};
use saker_http::Status;
use saker_ipset::ClientNetwork;
use saker_pipeline::{Exchange, Mapped, Response, Rules, Verdict, file_routes, request_conditions};
use std::{borrow::Cow, rc::Rc, sync::Arc};

/// The first rule that refuses decides.
pub fn check(exchange: &mut Exchange, rules: &dyn Rules, abuse: &Abuse) -> Verdict {
    let Links {
        referrers,
        signed,
        trigger,
    } = exchange.routing.settings.links.clone();
    let signature = signed.map(|rule| signature(exchange, rules, &rule));
    if let Some(refused @ (Verdict::Answer(_) | Verdict::Restart)) = signature {
        return refused;
    }
    if let Some(refused @ (Verdict::Answer(_) | Verdict::Restart)) =
        referrers.map(|rule| referrer(exchange, &rule))
    {
        return refused;
    }
    trigger.map_or(Verdict::Pass, |rule| triggered(exchange, abuse, &rule))
}

fn referrer(exchange: &mut Exchange, rule: &Arc<Referrers>) -> Verdict {
    let stands_in =
        matches!(&rule.refusal, Refusal::Instead(path) if path.as_bytes() == exchange.path);
    // What replaces a refused answer is shown, whatever rule its own path is under.
    let is_replaced = known(exchange).is_some_and(|context| context.by_referrer);
    let applies = hotlink::applies(rule, &exchange.path)
        || file_routes::file_of_path(exchange).is_some_and(|file| hotlink::applies(rule, file));
    if stands_in || is_replaced || !applies {
        return Verdict::Pass;
    }
    let allowed = AllowedReferrer {
        rule: Arc::clone(rule),
        site: Arc::clone(&exchange.routing.site),
        host: exchange.host.clone(),
    };
    let said = request_conditions::joined(exchange.head.view(), "referer").map(Cow::into_owned);
    let is_allowed = allowed.holds(said.as_deref()).unwrap_or(false);
    exchange.depends_on_field_test("referer", Predicate::Other(Rc::new(allowed)), is_allowed);
    if is_allowed {
        exchange.trace("abuse", None, || "`referrers` allows this".into());
        return Verdict::Pass;
    }
    let shown = String::from_utf8_lossy(&said.unwrap_or_default()).into_owned();
    exchange.trace("abuse", None, || {
        format!("`referrers` does not allow {shown:?}")
    });
    context(exchange).by_referrer = true;
    exchange.keep_answer();
    refuse(exchange, &rule.refusal)
}

fn signature(exchange: &mut Exchange, rules: &dyn Rules, rule: &Arc<SignedUrls>) -> Verdict {
    if rule.is_free_elsewhere && !exchange.path.starts_with(rule.prefix.as_bytes()) {
        return Verdict::Pass;
    }
    exchange.depends_on_request();
    if known(exchange).is_some_and(|context| context.opened.as_ref() == Some(&exchange.path)) {
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
            exchange.trace("abuse", None, || "`signed`: the signature is good".into());
            // The path was mapped with the token in it.
            let is_mapped = rest.is_some() && rules.binds_path();
            open(exchange, rule, rest);
            if is_mapped {
                Verdict::Restart
            } else {
                Verdict::Pass
            }
        }
        Finding::Expired => {
            exchange.trace("abuse", None, || "`signed`: the link has expired".into());
            Verdict::Answer(Response::new(rule.expired))
        }
        Finding::Wrong => {
            exchange.trace("abuse", None, || {
                "`signed`: there is no signature, or it is wrong".into()
            });
            Verdict::Answer(Response::new(Status::FORBIDDEN))
        }
    }
}

/// The requested path is the part after the token.
fn open(exchange: &mut Exchange, rule: &SignedUrls, rest: Option<Vec<u8>>) {
    if let Some(rest) = rest {
        let relative = rest.strip_prefix(b"/").unwrap_or(&rest);
        exchange.routing.mapped = rule.root.as_ref().map(|root| Mapped {
            root: Arc::clone(root),
            relative: relative.to_vec(),
        });
        exchange.path = [rule.prefix.as_bytes(), relative].concat();
    }
    let path = exchange.path.clone();
    context(exchange).opened = Some(path);
}

fn triggered(exchange: &mut Exchange, abuse: &Abuse, rule: &Trigger) -> Verdict {
    // A pattern that is given up makes no page of it, but a file that needs one.
    let is = |path: &[u8], patterns: &[saker_config::model::PathPattern], given_up: bool| {
        let mut patterns = patterns.iter();
        patterns.any(|pattern| pattern.is_match(path).unwrap_or(given_up))
    };
    let is_page = is(&exchange.path, &rule.pages, false);
    // A path may stand for a file that it does not name.
    let is_file = is(&exchange.path, &rule.files, true)
        || file_routes::file_of_path(exchange).is_some_and(|file| is(file, &rule.files, true));
    if !is_page && !is_file {
        return Verdict::Pass;
    }
    exchange.depends_on_request();
    if !is_page && !may_have(exchange, abuse, rule) {
        exchange.trace("abuse", None, || {
            "`trigger`: no page before this file".into()
        });
        return refuse(exchange, &rule.refusal);
    }
    exchange.trace("abuse", None, || {
        if is_page {
            "`trigger`: opens its files".into()
        } else {
            "`trigger`: the page was asked for".into()
        }
    });
    admit(exchange, abuse, rule);
    Verdict::Pass
}

fn may_have(exchange: &Exchange, abuse: &Abuse, rule: &Trigger) -> bool {
    if rule.by_cookie {
        let pass = cookie(exchange, &cookie_name(rule)).unwrap_or_default();
        return abuse
            .shared
            .keys
            .verify(pass, b"trigger", &bound_to(exchange, rule), exchange.now)
            .is_some();
    }
    let key = (ClientNetwork::of(exchange.client.ip()), rule.id);
    abuse
        .shared
        .triggers
        .find(&key)
        .is_some_and(|until| until > exchange.now)
}

fn admit(exchange: &mut Exchange, abuse: &Abuse, rule: &Trigger) {
    let until = exchange
        .now
        .saturating_add(i64::try_from(rule.within_s).unwrap_or(i64::MAX));
    if !rule.by_cookie {
        return abuse
            .shared
            .triggers
            .insert((ClientNetwork::of(exchange.client.ip()), rule.id), until);
    }
    let Some(pass) =
        abuse
            .shared
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
    context(exchange).cookies.push(value.into_bytes());
}

fn cookie_name(rule: &Trigger) -> String {
    format!("saker_trigger_{:x}", rule.id)
}

fn bound_to(exchange: &Exchange, rule: &Trigger) -> Vec<u8> {
    [&rule.id.to_be_bytes()[..], &exchange.host].concat()
}

/// The configured answer to a refused link.
fn refuse(exchange: &mut Exchange, refusal: &Refusal) -> Verdict {
    match refusal {
        Refusal::Status(status) => Verdict::Answer(Response::new(*status)),
        Refusal::Redirect(to) => {
            let mut response = Response::new(Status::FOUND);
            response
                .fields_mut()
                .set("Location", to.clone().into_bytes());
            response.fields_mut().set("Cache-Control", &b"no-store"[..]);
            Verdict::Answer(response)
        }
        Refusal::Instead(path) => {
            // The filter adds `Vary` and `no-store`, and a cached head passes no filter.
            exchange.depends_on_request();
            (exchange.path, exchange.query) = (path.clone().into_bytes(), None);
            Verdict::Restart
        }
    }
}
