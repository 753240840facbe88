//! Whether a response is kept, for whom, by whose word and for how long; or why it is not.
//!
//! Place in the walk: the first step of keeping (`keep`). Absent on purpose: anything that is
//! written. The rules are `saker_cache_rules`'s.

use super::{look_up::now_ms, parts::Piece, record::By, visit::Visit};
use saker_cache_rules::{
    lscache::{
        self,
        control::{Audience, Control, NotStored},
    },
    rules::{Life, Pass, RuleSettings, judge_response},
};
use saker_http::Status;
use saker_pipeline::{Exchange, Response};

/// What is to become of a response.
pub struct Decision {
    pub by: By,
    pub life: Life,
    pub is_private: bool,
    /// Cookies and rules make no difference.
    pub is_one: bool,
    pub is_template: bool,
}

/// Why a response is not kept: a word to count by, and a sentence for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub word: &'static str,
    pub sentence: String,
}

impl Refusal {
    pub fn new(word: &'static str, sentence: impl Into<String>) -> Refusal {
        Refusal {
            word,
            sentence: sentence.into(),
        }
    }
}

impl From<Pass> for Refusal {
    fn from(pass: Pass) -> Refusal {
        Refusal::new(pass.name(), pass.to_string())
    }
}

impl From<NotStored> for Refusal {
    fn from(why: NotStored) -> Refusal {
        Refusal::new(why.name(), why.sentence())
    }
}

pub fn decide(
    visit: &Visit,
    exchange: &Exchange,
    response: &Response,
) -> Result<Decision, Refusal> {
    let (given, fields) = (&visit.terms.given, response.fields());
    let length = response.body.length();
    if length.is_some_and(|length| {
        length < given.entry_bytes_min || given.entry_bytes_max.is_some_and(|max| length > max)
    }) {
        return Err(Refusal::new(
            "size",
            "its content is smaller or larger than what is kept",
        ));
    }
    if given.obeys_lscache {
        let mut control = Control::from_settings(&visit.terms.lscache);
        let before = control.clone();
        visit.said.apply_to(&mut control);
        if let Some(list) = visit
            .inside
            .as_ref()
            .and_then(|inside| inside.said.control_for(fields))
        {
            control.apply(&list);
        }
        let is_said = control != before;
        let explicit = control.apply_response(fields, &visit.terms.lscache);
        if explicit || is_said {
            return by_lscache(visit, exchange, response, &control, explicit, length);
        }
    }
    if response.status == Status::PARTIAL_CONTENT {
        Piece::of(response)?;
    }
    if !given.obeys_http {
        return Err(Refusal::new(
            "not-asked",
            "X-LiteSpeed-Cache-Control does not ask for it",
        ));
    }
    let view = exchange.head.view();
    let with_ttl = visit
        .inside
        .as_ref()
        .and_then(|inside| inside.said.ttl_s)
        .map(|ttl_s| RuleSettings {
            default_ttl_s: Some(ttl_s),
            default_ttl_needs_validator: false,
            ..visit.terms.http.clone()
        });
    let rules = with_ttl.as_ref().unwrap_or(&visit.terms.http);
    let life = judge_response(
        view,
        response.status,
        fields,
        rules,
        visit.began_ms,
        now_ms(),
    )?;
    if !visit.may_use(&life) {
        return Err(Pass::Authorization.into());
    }
    Ok(Decision {
        by: By::Http,
        life,
        is_private: false,
        is_one: false,
        is_template: false,
    })
}

fn by_lscache(
    visit: &Visit,
    exchange: &Exchange,
    response: &Response,
    control: &Control,
    explicit: bool,
    length: Option<u64>,
) -> Result<Decision, Refusal> {
    let settings = &visit.terms.lscache;
    let target = exchange.head.view();
    lscache::control::judge_request(
        visit.query.is_some(),
        target.has(saker_http::KnownField::Cookie),
        settings,
    )?;
    let outcome = lscache::control::Outcome {
        method: target.method(),
        status: response.status,
        explicit,
        sets_cookie: response.fields().has("set-cookie"),
        content_bytes: length,
        failed: false,
        static_file: false,
    };
    let audience = control.judge(outcome, settings)?;
    let is_private = matches!(audience, Audience::Private { .. });
    if is_private && visit.visitor.is_none() {
        return Err(Refusal::new(
            "visitor-unknown",
            "it is for one client, and nothing identifies this one (no session cookie, no credentials)",
        ));
    }
    Ok(Decision {
        by: By::Lscache,
        life: control.life(settings, now_ms()),
        is_private,
        is_one: control.no_vary,
        is_template: false,
    })
}
