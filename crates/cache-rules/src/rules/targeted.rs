//! The field that controls this cache: Surrogate-Control, a targeted field (RFC 9213), or
//! Cache-Control with Expires.
//!
//! Called by: judgements, first.
//! Caveat: a valid targeted field replaces the others entirely, an invalid one counts as absent
//! (section 2.1).
//! Out of scope: unlisted names ending in `-Cache-Control`; section 2.4 forbids using the suffix.

use super::{
    control::{Directive, ResponseControl, Scope, Seconds, directive, members, take_until},
    settings::RuleSettings,
    structured::{Item, Member, dictionary},
};
use saker_http::{
    Fields,
    chars::{is_token, trim_ows},
};
use std::borrow::Cow;

/// The name of this surrogate in Surrogate-Capability and Surrogate-Control.
pub const SURROGATE: &[u8] = b"saker";

/// A response's instructions to this cache, and their source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    pub control: ResponseControl,
    /// Name of the field that decides.
    pub field: Cow<'static, str>,
    /// The field is for caches like this one only, so Cache-Control and Expires don't apply.
    pub targeted: bool,
    /// Surrogate-Control: `content="ESI/1.0"`.
    pub esi: bool,
}

/// True if the response announces ESI for this cache ([`Policy::esi`]).
pub fn is_esi(fields: &Fields, settings: &RuleSettings) -> bool {
    settings.surrogate_control && fields.has("surrogate-control") && surrogate(fields).esi
}

/// Reads the field that decides.
pub fn policy(fields: &Fields, settings: &RuleSettings) -> Policy {
    if settings.surrogate_control && fields.has("surrogate-control") {
        let surrogate = surrogate(fields);
        if surrogate.targeted {
            return surrogate;
        }
        // Only about the content; the lifetime is in another field.
        return Policy {
            esi: surrogate.esi,
            ..untargeted(fields, settings)
        };
    }
    untargeted(fields, settings)
}

/// All lines of a field.
pub(crate) fn lines<'a>(fields: &'a Fields, name: &'a str) -> impl Iterator<Item = &'a [u8]> {
    fields
        .iter()
        .filter(move |line| line.0.eq_ignore_ascii_case(name))
        .map(|line| line.1)
}

fn untargeted(fields: &Fields, settings: &RuleSettings) -> Policy {
    let targeted = settings
        .targets
        .iter()
        .find_map(|name| Some((name, targeted(fields, name)?)));
    match targeted {
        Some((name, control)) => Policy {
            control,
            field: name.clone().into(),
            targeted: true,
            esi: false,
        },
        None => Policy {
            control: ResponseControl::parse(lines(fields, "cache-control")),
            field: "Cache-Control".into(),
            ..Policy::default()
        },
    }
}

/// `None` if the field is absent, empty or malformed.
fn targeted(fields: &Fields, name: &str) -> Option<ResponseControl> {
    let members = dictionary(lines(fields, name)).filter(|members| !members.is_empty())?;
    let mut control = ResponseControl::default();
    members
        .iter()
        .for_each(|(key, member)| add(&mut control, key, member));
    Some(control)
}

/// Section 2.1: a value of the wrong type is ignored. Then an age is invalid, and a directive that
/// forbids applies unless explicitly false.
fn add(control: &mut ResponseControl, key: &[u8], member: &Member) {
    let truth = match member {
        Member::Item(Item::Boolean(truth)) => Some(*truth),
        _ => None,
    };
    let seconds = match member {
        Member::Item(Item::Integer(seconds)) => u64::try_from(*seconds)
            .map_or(Seconds::Invalid, |seconds| {
                Seconds::Given(seconds.min(super::control::DELTA_SECONDS_MAX))
            }),
        _ => Seconds::Invalid,
    };
    match key {
        b"max-age" => control.max_age = seconds,
        b"s-maxage" => control.s_maxage = seconds,
        b"stale-while-revalidate" => control.stale_while_revalidate = seconds,
        b"stale-if-error" => control.stale_if_error = seconds,
        b"no-cache" => add_scope(&mut control.no_cache, member),
        b"private" => add_scope(&mut control.private, member),
        b"no-store" => control.no_store = truth != Some(false),
        b"must-revalidate" => control.must_revalidate = truth != Some(false),
        b"proxy-revalidate" => control.proxy_revalidate = truth != Some(false),
        b"no-transform" => control.no_transform = truth != Some(false),
        b"public" => control.public = truth == Some(true),
        b"must-understand" => control.must_understand = truth == Some(true),
        b"immutable" => control.immutable = truth == Some(true),
        _ => {}
    }
}

fn add_scope(scope: &mut Scope, member: &Member) {
    match member {
        Member::Item(Item::Boolean(false)) => {}
        Member::Item(Item::String(names)) => scope.add(Some(names)),
        _ => scope.add(None),
    }
}

/// The Edge Architecture's field as used with Varnish and Fastly: `max-age=600`, `max-age=600+30`
/// (stale for 30 more), `no-store`, `content="ESI/1.0"`.
fn surrogate(fields: &Fields) -> Policy {
    let mut policy = Policy {
        field: "Surrogate-Control".into(),
        ..Policy::default()
    };
    let directives: Vec<Surrogate<'_>> = lines(fields, "surrogate-control")
        .flat_map(members)
        .filter_map(Surrogate::parse)
        .collect();
    for Surrogate { directive, is_ours } in &directives {
        let is_overridden = !is_ours
            && directives.iter().any(|other| {
                other.is_ours && other.directive.name.eq_ignore_ascii_case(directive.name)
            });
        if is_overridden {
            continue;
        }
        match directive.name.to_ascii_lowercase().as_slice() {
            b"content" => {
                policy.esi |= directive
                    .argument
                    .as_deref()
                    .is_some_and(|text| has_word(text, b"ESI/1.0"))
            }
            b"max-age" => add_surrogate_age(&mut policy, directive),
            b"no-store"
            | b"no-cache"
            | b"private"
            | b"stale-while-revalidate"
            | b"stale-if-error" => {
                policy.targeted = true;
                policy.control.add(directive);
            }
            _ => {}
        }
    }
    policy
}

/// A directive for this surrogate: `max-age=60`, or, with the name by which Surrogate-Capability
/// announces it, `max-age=60;saker`. The second form overrides the first (Edge Architecture
/// section 2.3).
struct Surrogate<'a> {
    directive: Directive<'a>,
    is_ours: bool,
}

impl<'a> Surrogate<'a> {
    /// `None` for another surrogate's.
    fn parse(member: &'a [u8]) -> Option<Surrogate<'a>> {
        let (plain, target) = take_until(member, b';');
        let (has_target, target) = (plain.len() < member.len(), trim_ows(target));
        let directive = directive(trim_ows(plain));
        // A malformed name names no other surrogate: what forbids applies, an age is invalid.
        let is_malformed = has_target && !is_token(target);
        let is_ours = has_target && target.eq_ignore_ascii_case(SURROGATE);
        (is_ours || is_malformed || !has_target).then_some(Surrogate {
            directive: Directive {
                sound: directive.sound && !is_malformed,
                ..directive
            },
            is_ours,
        })
    }
}

fn add_surrogate_age(policy: &mut Policy, directive: &Directive<'_>) {
    policy.targeted = true;
    let text = directive.argument.as_deref().unwrap_or_default();
    let mut parts = text.splitn(2, |byte| *byte == b'+');
    let mut part = |name: &'static [u8]| {
        parts.next().map(|text| Directive {
            name,
            argument: Some(text.to_vec().into()),
            sound: directive.sound,
        })
    };
    let (fresh, stale) = (part(b"max-age"), part(b"stale-while-revalidate"));
    fresh
        .into_iter()
        .chain(stale)
        .for_each(|directive| policy.control.add(&directive));
}

fn has_word(text: &[u8], word: &[u8]) -> bool {
    text.split(|byte| byte.is_ascii_whitespace())
        .any(|part| part.eq_ignore_ascii_case(word))
}
