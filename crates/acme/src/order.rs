//! One order, from new (or found again after a restart) to a chain.
//!
//! Called by: `tend`. The states are the authority's (RFC 8555 section 7.1.6): each is advanced one
//! step until the order is valid, so an order left in any state is continued there.
//! Caveat: the order's URL is saved before anything depends on it, its key before the authority
//! sees a request for it.

use crate::{
    certificate::Facts,
    event::Event,
    failure::{Failure, Retry, problem_said},
    present::{self, Places, Presented},
    record::{OpenOrder, Record},
    schedule,
    shared_values::{self, SharedValues},
    store::{Bundle, Store},
};
use instant_acme::{
    Account, AuthorizationHandle, AuthorizationStatus, CertificateIdentifier, Error, Identifier,
    NewOrder, Order, OrderStatus, RetryPolicy,
};
use rcgen::{CertificateParams, DistinguishedName, KeyPair, PKCS_ECDSA_P256_SHA256};
use saker_cluster::Held;
use saker_config::model::{AcmeChallenge, AcmeProfile};
use std::{net::IpAddr, time::Duration};

/// Authorities forget orders after about a week.
const ORDER_AGE_S_MAX: u64 = 6 * 86_400;
/// Pending, ready, processing, valid; and once more for good measure.
const STEPS_MAX: usize = 6;

/// The profile by which Let's Encrypt vouches for IP addresses.
const SHORT_LIVED: &str = "shortlived";

const VALIDATION: RetryPolicy = RetryPolicy::new().timeout(Duration::from_secs(120));
const SIGNING: RetryPolicy = RetryPolicy::new().timeout(Duration::from_secs(120));

/// Everything an order needs in addition to its account.
pub struct Terms<'a> {
    pub store: &'a Store,
    pub places: &'a Places,
    /// Challenge types, in order of preference.
    pub ways: &'a [AcmeChallenge],
    pub dns_wait: Duration,
    pub directory: &'a str,
    /// The profile that is asked for.
    pub profile: Option<&'a AcmeProfile>,
    /// The certificate that this one takes the place of, where the same authority signed it.
    pub replaces: Option<&'a Facts>,
    pub events: &'a (dyn Fn(Event) + Send + Sync),
    /// The cluster, and the lock that lets this server order for it.
    pub together: Option<(&'a SharedValues, &'a Held)>,
}

/// Orders a certificate for the record's names, or continues its open order. The record is saved on
/// the way.
pub async fn obtain(
    terms: &Terms<'_>,
    account: &Account,
    record: &mut Record,
) -> Result<Bundle, Failure> {
    let (mut order, key) = match resume(terms, account, record).await? {
        Some(open) => open,
        None => begin(terms, account, record).await?,
    };
    for _ in 0..STEPS_MAX {
        match order.state().status {
            OrderStatus::Pending => authorize(terms, &mut order).await?,
            OrderStatus::Ready => finalize(&mut order, &record.names, &key).await?,
            OrderStatus::Processing => drop(
                order
                    .poll_certificate(&SIGNING)
                    .await
                    .map_err(|error| Failure::of("no certificate", error))?,
            ),
            OrderStatus::Valid => {
                let chain = order
                    .certificate()
                    .await
                    .map_err(|error| Failure::of("no certificate", error))?;
                return chain
                    .map(|chain| Bundle { chain, key })
                    .ok_or_else(|| Failure::passing("no certificate yet"));
            }
            OrderStatus::Invalid => return Err(why_invalid(&mut order).await),
        }
    }
    Err(Failure::refused("the order does not get on"))
}

/// The open order, unless it is of another directory, too old, or forgotten by the authority.
async fn resume(
    terms: &Terms<'_>,
    account: &Account,
    record: &mut Record,
) -> Result<Option<(Order, String)>, Failure> {
    let Some(open) = record.order.take() else {
        return Ok(None);
    };
    if open.directory != terms.directory
        || open.made_at.saturating_add(ORDER_AGE_S_MAX) < schedule::now()
    {
        return Ok(None);
    }
    match account.order(open.url.clone()).await {
        Ok(mut order) => {
            if order.state().status == OrderStatus::Invalid {
                return Ok(None);
            }
            let key = open.key.clone();
            record.order = Some(open);
            Ok(Some((order, key)))
        }
        Err(error) => {
            let failure = Failure::of("the open order", error);
            if failure.order_is_lost && failure.retry == Retry::Later {
                return Ok(None);
            }
            record.order = Some(open);
            Err(failure)
        }
    }
}

async fn begin(
    terms: &Terms<'_>,
    account: &Account,
    record: &mut Record,
) -> Result<(Order, String), Failure> {
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)
        .map_err(Failure::passing)?
        .serialize_pem();
    let identifiers: Vec<Identifier> = record.names.iter().map(|name| identifier(name)).collect();
    let offered: Vec<&str> = account.profiles().map(|profile| profile.name).collect();
    let profile = profile(terms.profile, &identifiers, &offered)?;
    let replaced = terms.replaces.and_then(identity);
    let order = new_order(account, (&identifiers, profile), replaced).await;
    let order = order.map_err(|error| Failure::of("no order", error))?;
    let open = OpenOrder {
        url: order.url().to_owned(),
        directory: terms.directory.to_owned(),
        key: key.clone(),
        made_at: schedule::now(),
    };
    record.order = Some(open);
    terms
        .store
        .save_record(record)
        .map_err(|error| Failure::passing(format!("the order can't be kept: {error}")))?;
    shared_values::share_order(terms.together, terms.store, &record.names).await?;
    Ok((order, key))
}

/// Creates an order. An authority may refuse the `replaces` of an order without objecting to the
/// order itself (RFC 9773 section 5).
async fn new_order(
    account: &Account,
    (identifiers, profile): (&[Identifier], Option<&str>),
    replaced: Option<CertificateIdentifier<'static>>,
) -> Result<Order, Error> {
    let order = || match profile {
        Some(profile) => NewOrder::new(identifiers).profile(profile),
        None => NewOrder::new(identifiers),
    };
    if let Some(replaced) = replaced {
        match account.new_order(&order().replaces(replaced)).await {
            Err(Error::Api(problem)) if problem.status == Some(429) => {
                return Err(Error::Api(problem));
            }
            Err(Error::Api(_) | Error::Unsupported(_) | Error::Other(_)) => {}
            made => return made,
        }
    }
    account.new_order(&order()).await
}

/// Returns the profile to order by; `None`: the authority's own.
fn profile<'a>(
    wanted: Option<&'a AcmeProfile>,
    identifiers: &[Identifier],
    offered: &[&str],
) -> Result<Option<&'a str>, Failure> {
    let is_offered = |name: &str| offered.contains(&name);
    match wanted {
        Some(wanted) if is_offered(&wanted.name) => Ok(Some(&wanted.name)),
        Some(wanted) if wanted.is_mandatory => Err(Failure::refused(match offered {
            [] => format!("it offers no profiles, and not {}", wanted.name),
            _ => format!(
                "it offers no profile {}, but {}",
                wanted.name,
                offered.join(", ")
            ),
        })),
        Some(_) => Ok(None),
        None => {
            let mut identifiers = identifiers.iter();
            let has_address = identifiers.any(|name| matches!(name, Identifier::Ip(_)));
            Ok((has_address && is_offered(SHORT_LIVED)).then_some(SHORT_LIVED))
        }
    }
}

fn identifier(name: &str) -> Identifier {
    name.parse::<IpAddr>()
        .map_or_else(|_| Identifier::Dns(name.to_owned()), Identifier::Ip)
}

/// Identifier of an issued certificate for renewal information (RFC 9773 section 4.1).
pub fn identity(facts: &Facts) -> Option<CertificateIdentifier<'static>> {
    let authority_key = facts.authority_key.as_deref()?;
    Some(
        CertificateIdentifier::new(authority_key.into(), facts.serial.as_slice().into())
            .into_owned(),
    )
}

/// Presents a challenge for each name, tells the authority, and waits for its judgement.
async fn authorize(terms: &Terms<'_>, order: &mut Order) -> Result<(), Failure> {
    let mut presented = Vec::new();
    let outcome = prove(terms, order, &mut presented).await;
    for one in presented {
        if let Err((record, reason)) = one.withdraw().await {
            (terms.events)(Event::RecordLeft { record, reason });
        }
    }
    outcome
}

async fn prove(
    terms: &Terms<'_>,
    order: &mut Order,
    presented: &mut Vec<Presented>,
) -> Result<(), Failure> {
    let mut authorizations = order.authorizations();
    while let Some(authorization) = authorizations.next().await {
        let authorization =
            authorization.map_err(|error| Failure::of("the authority's challenges", error))?;
        presented.extend(present_one(terms, authorization).await?);
    }
    if presented.iter().any(Presented::is_record) {
        tokio::time::sleep(terms.dns_wait).await;
    }
    let mut authorizations = order.authorizations();
    while let Some(authorization) = authorizations.next().await {
        let mut authorization =
            authorization.map_err(|error| Failure::of("the authority's challenges", error))?;
        if let Some(way) = way_for(terms, &authorization) {
            let challenge = authorization.challenge(present::challenge_type(way));
            let mut challenge =
                challenge.ok_or_else(|| Failure::passing("the challenge is gone"))?;
            let name = challenge.identifier().to_string();
            challenge
                .set_ready()
                .await
                .map_err(|error| Failure::of(&name, error))?;
        }
    }
    judgement(order).await
}

async fn judgement(order: &mut Order) -> Result<(), Failure> {
    match order.poll_ready(&VALIDATION).await {
        Ok(OrderStatus::Invalid) => Err(why_invalid(order).await),
        Ok(_) => Ok(()),
        Err(error @ Error::Api(_)) => {
            let why = why_invalid(order).await;
            Err(if why.reason == UNKNOWN {
                Failure::of("the order", error)
            } else {
                why
            })
        }
        Err(error) => Err(Failure {
            order_is_lost: true,
            ..Failure::of("the authority's judgement", error)
        }),
    }
}

/// `None`: the name is proved already.
async fn present_one(
    terms: &Terms<'_>,
    mut authorization: AuthorizationHandle<'_>,
) -> Result<Option<Presented>, Failure> {
    let name = authorization.identifier().to_string();
    match authorization.status {
        AuthorizationStatus::Valid => return Ok(None),
        AuthorizationStatus::Pending => {}
        status => {
            return Err(Failure::refused(format!(
                "{name}: the authorization is {}",
                format!("{status:?}").to_lowercase()
            )));
        }
    }
    let way = way_for(terms, &authorization).ok_or_else(|| no_way(terms, &name, &authorization))?;
    let challenge = authorization
        .challenge(present::challenge_type(way))
        .ok_or_else(|| Failure::passing("the challenge is gone"))?;
    let (token, key) = (challenge.token.clone(), challenge.key_authorization());
    present::present(terms.places, way, &name, &token, &key)
        .await
        .map(Some)
}

/// The first of our challenge types that the authority offers for a name that is still to be
/// proved. IP addresses are not validated by TLS-ALPN here: they would need a reversed name (RFC
/// 8738 section 6).
fn way_for(terms: &Terms<'_>, authorization: &AuthorizationHandle<'_>) -> Option<AcmeChallenge> {
    let is_address = matches!(authorization.identifier().identifier, Identifier::Ip(_));
    let is_offered = |way: &&AcmeChallenge| {
        let offered = authorization
            .challenges
            .iter()
            .any(|challenge| challenge.r#type == present::challenge_type(**way));
        offered && !(is_address && **way == AcmeChallenge::TlsAlpn01)
    };
    let is_open = authorization.status == AuthorizationStatus::Pending;
    terms
        .ways
        .iter()
        .find(is_offered)
        .copied()
        .filter(|_| is_open)
}

fn no_way(terms: &Terms<'_>, name: &str, authorization: &AuthorizationHandle<'_>) -> Failure {
    let offered: Vec<String> = authorization
        .challenges
        .iter()
        .map(|challenge| format!("{:?}", challenge.r#type))
        .collect();
    let ours: Vec<String> = terms.ways.iter().map(|way| format!("{way:?}")).collect();
    let list = |words: Vec<String>| {
        if words.is_empty() {
            "none".to_owned()
        } else {
            words.join(", ")
        }
    };
    Failure::refused(format!(
        "{name}: of its challenges ({}) none is possible here ({})",
        list(offered),
        list(ours)
    ))
}

async fn finalize(order: &mut Order, names: &[String], key: &str) -> Result<(), Failure> {
    let request = request(names, key)?;
    order
        .finalize_csr(&request)
        .await
        .map_err(|error| Failure::of("the authority refuses to sign", error))
}

/// The certificate signing request, in DER: names alone.
fn request(names: &[String], key: &str) -> Result<Vec<u8>, Failure> {
    let key = KeyPair::from_pem(key).map_err(Failure::refused)?;
    let mut params = CertificateParams::new(names.to_vec()).map_err(Failure::refused)?;
    params.distinguished_name = DistinguishedName::new();
    params
        .serialize_request(&key)
        .map(|request| request.der().to_vec())
        .map_err(Failure::refused)
}

const UNKNOWN: &str = "the authority gives no reason";

/// The authority's objections to the names or to the order.
async fn why_invalid(order: &mut Order) -> Failure {
    let mut reasons = Vec::new();
    let mut authorizations = order.authorizations();
    while let Some(Ok(mut authorization)) = authorizations.next().await {
        // The stored authorization is older than the decision.
        if authorization.refresh().await.is_err() {
            continue;
        }
        let name = authorization.identifier().to_string();
        let problems = authorization
            .challenges
            .iter()
            .filter_map(|challenge| challenge.error.as_ref());
        reasons.extend(problems.map(|problem| format!("{name}: {}", problem_said(problem))));
    }
    reasons.truncate(5);
    let of_order = order.state().error.as_ref().map(problem_said);
    match (reasons.is_empty(), of_order) {
        (false, _) => Failure::refused(reasons.join("; ")),
        (true, Some(reason)) => Failure::refused(reason),
        (true, None) => Failure::refused(UNKNOWN),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profiles() {
        let wanted = |name: &str, is_mandatory| AcmeProfile {
            name: name.into(),
            is_mandatory,
        };
        let (name, address) = (
            [Identifier::Dns("a.example".into())],
            [Identifier::Ip("192.0.2.1".parse().unwrap())],
        );
        let offered = ["classic", "shortlived"];
        let chosen = |wanted: Option<&AcmeProfile>, names: &[Identifier], offered: &[&str]| {
            let chosen = profile(wanted, names, offered);
            chosen
                .map(|name| name.map(str::to_owned))
                .map_err(|failure| failure.reason)
        };
        let some = |name: &str| Ok(Some(name.to_owned()));
        assert_eq!(chosen(None, &name, &offered), Ok(None));
        assert_eq!(chosen(None, &address, &offered), some("shortlived"));
        assert_eq!(chosen(None, &address, &[]), Ok(None));
        let classic = wanted("classic", true);
        assert_eq!(chosen(Some(&classic), &address, &offered), some("classic"));
        let other = wanted("other", false);
        assert_eq!(chosen(Some(&other), &name, &offered), Ok(None));
        let other = wanted("other", true);
        let why = chosen(Some(&other), &name, &offered).unwrap_err();
        assert!(
            why.contains("no profile other, but classic, shortlived"),
            "{why}"
        );
        let why = chosen(Some(&other), &name, &[]).unwrap_err();
        assert!(why.contains("no profiles, and not other"), "{why}");
    }

    #[test]
    fn identifiers() {
        assert_eq!(
            identifier("*.a.example"),
            Identifier::Dns("*.a.example".into())
        );
        assert_eq!(
            identifier("192.0.2.1"),
            Identifier::Ip("192.0.2.1".parse().unwrap())
        );
    }

    #[test]
    fn a_request_names_its_names() {
        let key = KeyPair::generate().unwrap().serialize_pem();
        let request = request(&["a.example".into(), "*.b.example".into()], &key).unwrap();
        let has = |text: &str| {
            request
                .windows(text.len())
                .any(|window| window == text.as_bytes())
        };
        assert!(has("a.example") && has("*.b.example") && !has("rcgen"));
        assert!(super::request(&["a.example".into()], "no key").is_err());
    }

    /// The example of RFC 9773 section 4.1.
    #[test]
    fn what_a_certificate_is_called() {
        let authority_key = [
            0x69, 0x88, 0x5b, 0x6b, 0x87, 0x46, 0x40, 0x41, 0xe1, 0xb3, 0x7b, 0x84, 0x7b, 0xa0,
            0xae, 0x2c, 0xde, 0x01, 0xc8, 0xd4,
        ];
        let facts = Facts {
            not_before: 0,
            not_after: 1,
            serial: vec![0, 0x87, 0x65, 0x43, 0x21],
            authority_key: Some(authority_key.to_vec()),
        };
        assert_eq!(
            identity(&facts).unwrap().to_string(),
            "aYhba4dGQEHhs3uEe6CuLN4ByNQ.AIdlQyE"
        );
        assert!(
            identity(&Facts {
                authority_key: None,
                ..facts
            })
            .is_none()
        );
    }
}
