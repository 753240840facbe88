//! Signed URLs: verifying and creating them. Both sides of each form use the same function for the
//! hashed text.
//!
//! Called by: the abuse rules, and `saker sign-url`. The formats match those of other servers byte
//! for byte, so that existing links and the programs that create them keep working; one format is
//! our own.
//! Caveat: anything unsigned can be changed by the holder of a link. Texts are therefore compared
//! as written: no alternative spelling of a hash (uppercase hexadecimal digits, unused bits of
//! Base64) is valid, though nginx and lighttpd accept some.

use crate::mac;
use saker_config::model::{SignAlgorithm, SignForm, SignPart, SignedUrls, TokenForm};
use saker_http::query;
use std::net::IpAddr;

#[cfg(test)]
mod tests;

/// Signed-URL values of a request.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// Decoded and normalized.
    pub path: &'a [u8],
    /// The query as sent.
    pub query: Option<&'a [u8]>,
    pub host: &'a [u8],
    pub address: IpAddr,
}

const ENDLESS: &str = "links of this form have no end: say neither for how long nor until when";

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// Rest of the path after the token, with its slash, if the path contains a token.
    Good(Option<Vec<u8>>),
    Expired,
    Wrong,
}

/// `now` in seconds since the epoch.
pub fn check(rule: &SignedUrls, asked: &Asked<'_>, now: i64) -> Finding {
    match &rule.form {
        SignForm::PathMd5 => check_path_md5(rule, asked),
        SignForm::Token(form) => check_token(rule, form, asked, now),
        SignForm::Expression {
            parts,
            hash_argument,
            expires_argument,
        } => check_expression(
            rule,
            parts,
            hash_argument,
            expires_argument.as_deref(),
            asked,
            now,
        ),
        SignForm::Whole {
            hash_argument,
            expires_argument,
            address,
            host,
        } => {
            let Some(given) = argument(asked.query, hash_argument) else {
                return Finding::Wrong;
            };
            let message = whole_message(asked, hash_argument, *address, *host);
            let is_good =
                |secret: &Vec<u8>| mac::same(whole_code(secret, &message).as_bytes(), given);
            match argument(asked.query, expires_argument) {
                _ if !any(rule, is_good) => Finding::Wrong,
                Some(time) => in_time(number(time), now),
                None => Finding::Good(None),
            }
        }
    }
}

/// A link to `asked` (whose path is that of the file below the prefix for forms with a token in the
/// path, with the prefix for others). `time` is that of its end, for lighttpd's form that of its
/// beginning; `None` where it has none. The error says why there can be none.
pub fn sign(rule: &SignedUrls, asked: &Asked<'_>, time: Option<i64>) -> Result<String, String> {
    let secret = rule.secrets.first().ok_or("there is no secret")?;
    match &rule.form {
        SignForm::PathMd5 if time.is_some() => Err(ENDLESS.into()),
        SignForm::PathMd5 => {
            let rest = asked.path.strip_prefix(b"/").unwrap_or(asked.path);
            let hash = mac::hex(&mac::md5(&[rest, secret]));
            Ok(url(
                &[rule.prefix.as_bytes(), hash.as_bytes(), b"/", rest],
                asked.query,
                &[],
            ))
        }
        SignForm::Token(form) => sign_token(rule, form, secret, asked, time),
        SignForm::Expression {
            parts,
            hash_argument,
            expires_argument,
        } => {
            let expires = expiry(expires_argument.as_deref(), time)?;
            let text = expires.as_ref().map(|(_, text)| text.as_bytes());
            let hash = expression_code(parts, secret, asked, text);
            let mut more = vec![(hash_argument.as_str(), hash)];
            more.extend(expires);
            Ok(url(&[asked.path], asked.query, &more))
        }
        SignForm::Whole {
            hash_argument,
            expires_argument,
            address,
            host,
        } => {
            let ends = time.map(|time| format!("{expires_argument}={time}").into_bytes());
            let pieces: Vec<&[u8]> = asked
                .query
                .filter(|query| !query.is_empty())
                .into_iter()
                .chain(ends.as_deref())
                .collect();
            let query = (!pieces.is_empty()).then(|| pieces.join(&b'&'));
            let asked = Asked {
                query: query.as_deref(),
                ..*asked
            };
            let code = whole_code(
                secret,
                &whole_message(&asked, hash_argument, *address, *host),
            );
            Ok(url(&[asked.path], asked.query, &[(hash_argument, code)]))
        }
    }
}

/// The token and its time stand in the path (lighttpd's mod_secdownload).
fn sign_token(
    rule: &SignedUrls,
    form: &TokenForm,
    secret: &[u8],
    asked: &Asked<'_>,
    time: Option<i64>,
) -> Result<String, String> {
    let time = time
        .and_then(|time| u32::try_from(time).ok())
        .ok_or("its time has to be from 1970 to 2106")?;
    let stamp = format!("{time:08x}");
    let token = token(form, secret, asked, &stamp, asked.path);
    let parts = [
        rule.prefix.as_bytes(),
        token.as_bytes(),
        b"/",
        stamp.as_bytes(),
        asked.path,
    ];
    Ok(url(&parts, asked.query, &[]))
}

/// The argument with the end of the link, where its form has one.
fn expiry(argument: Option<&str>, time: Option<i64>) -> Result<Option<(&str, String)>, String> {
    match (argument, time) {
        (Some(name), Some(time)) => Ok(Some((name, time.to_string()))),
        (None, None) => Ok(None),
        (Some(_), None) => {
            Err("links of this form have an end: say for how long it is good".into())
        }
        (None, Some(_)) => Err(ENDLESS.into()),
    }
}

/// Tries every secret, so that the time taken does not tell which one matched.
fn any(rule: &SignedUrls, is_good: impl Fn(&Vec<u8>) -> bool) -> bool {
    rule.secrets
        .iter()
        .fold(false, |good, secret| good | is_good(secret))
}

fn check_path_md5(rule: &SignedUrls, asked: &Asked<'_>) -> Finding {
    let Some((given, rest)) = asked
        .path
        .strip_prefix(rule.prefix.as_bytes())
        .and_then(|token| split(token, 32))
    else {
        return Finding::Wrong;
    };
    let Some(link) = rest.strip_prefix(b"/").filter(|link| !link.is_empty()) else {
        return Finding::Wrong;
    };
    match any(rule, |secret| {
        mac::same(mac::hex(&mac::md5(&[link, secret])).as_bytes(), given)
    }) {
        true => Finding::Good(Some(rest.to_vec())),
        false => Finding::Wrong,
    }
}

fn check_token(rule: &SignedUrls, form: &TokenForm, asked: &Asked<'_>, now: i64) -> Finding {
    let Some((given, stamp, rest)) = asked
        .path
        .strip_prefix(rule.prefix.as_bytes())
        .and_then(|path| parts_of(form, path))
    else {
        return Finding::Wrong;
    };
    let Some(time) = std::str::from_utf8(stamp)
        .ok()
        .and_then(|stamp| Some((stamp, u32::from_str_radix(stamp, 16).ok()?)))
    else {
        return Finding::Wrong;
    };
    let is_good =
        |secret: &Vec<u8>| mac::same(token(form, secret, asked, time.0, rest).as_bytes(), given);
    match (
        any(rule, is_good),
        i64::from(time.1).abs_diff(now) <= form.lifetime_s,
    ) {
        (false, _) => Finding::Wrong,
        (true, false) => Finding::Expired,
        (true, true) => Finding::Good(Some(rest.to_vec())),
    }
}

/// Token, time, and the rest including its slash.
fn parts_of<'p>(form: &TokenForm, path: &'p [u8]) -> Option<(&'p [u8], &'p [u8], &'p [u8])> {
    let length = match form.algorithm {
        SignAlgorithm::Md5 => 32,
        SignAlgorithm::HmacSha1 => 27,
        SignAlgorithm::HmacSha256 => 43,
    };
    let (token, behind) = split(path, length)?;
    let (stamp, rest) = split(behind.strip_prefix(b"/")?, 8)?;
    let is_stamp = stamp
        .iter()
        .all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(byte));
    (is_stamp && rest.starts_with(b"/")).then_some((token, stamp, rest))
}

/// mod_secdownload hashes secret, path and time by MD5, and by HMAC a path of time and path;
/// mod_auth_token the client's address, too.
fn token(form: &TokenForm, secret: &[u8], asked: &Asked<'_>, stamp: &str, rest: &[u8]) -> String {
    let mut signed = first_segments(rest, form.path_segments).to_vec();
    if let Some(query) = asked.query.filter(|query| form.query && !query.is_empty()) {
        signed.push(b'?');
        signed.extend_from_slice(query);
    }
    let address = if form.address {
        asked.address.to_canonical().to_string()
    } else {
        String::new()
    };
    let message = || [b"/", stamp.as_bytes(), &signed, address.as_bytes()].concat();
    match form.algorithm {
        SignAlgorithm::Md5 => mac::hex(&mac::md5(&[
            secret,
            &signed,
            stamp.as_bytes(),
            address.as_bytes(),
        ])),
        SignAlgorithm::HmacSha1 => mac::base64url(&mac::hmac_sha1(secret, &message())),
        SignAlgorithm::HmacSha256 => mac::base64url(&mac::hmac_sha256(secret, &message())),
    }
}

/// Up to the slash behind the last of them; all where there are no more.
fn first_segments(path: &[u8], count: u32) -> &[u8] {
    let slashes = path
        .iter()
        .enumerate()
        .skip(1)
        .filter(|(_, byte)| **byte == b'/')
        .map(|(at, _)| at);
    let end = count
        .checked_sub(1)
        .and_then(|before| slashes.into_iter().nth(before as usize));
    end.and_then(|end| path.get(..end)).unwrap_or(path)
}

fn check_expression(
    rule: &SignedUrls,
    parts: &[SignPart],
    hash_argument: &str,
    expires_argument: Option<&str>,
    asked: &Asked<'_>,
    now: i64,
) -> Finding {
    let Some(given) = argument(asked.query, hash_argument) else {
        return Finding::Wrong;
    };
    // Padding, which some makers of links leave in.
    let given = given.strip_suffix(b"==").unwrap_or(given);
    let expires = expires_argument.map(|name| argument(asked.query, name));
    if expires == Some(None) {
        return Finding::Wrong;
    }
    let expires = expires.flatten();
    match any(rule, |secret| {
        mac::same(
            expression_code(parts, secret, asked, expires).as_bytes(),
            given,
        )
    }) {
        false => Finding::Wrong,
        true => expires.map_or(Finding::Good(None), |time| in_time(number(time), now)),
    }
}

fn expression_code(
    parts: &[SignPart],
    secret: &[u8],
    asked: &Asked<'_>,
    expires: Option<&[u8]>,
) -> String {
    let address = asked.address.to_canonical().to_string();
    let pieces: Vec<&[u8]> = parts
        .iter()
        .map(|part| match part {
            SignPart::Text(text) => text.as_bytes(),
            SignPart::Secret => secret,
            SignPart::Expires => expires.unwrap_or_default(),
            SignPart::Path => asked.path,
            SignPart::Address => address.as_bytes(),
            SignPart::Host => asked.host,
            SignPart::Argument(name) => argument(asked.query, name).unwrap_or_default(),
        })
        .collect();
    mac::base64url(&mac::md5(&pieces))
}

/// Path, arguments without the signature's own, address and host; a line each, none of which can
/// hold a line break.
fn whole_message(asked: &Asked<'_>, hash_argument: &str, address: bool, host: bool) -> Vec<u8> {
    let own = format!("{hash_argument}=");
    let others: Vec<&[u8]> = pairs(asked.query)
        .filter(|pair| !pair.starts_with(own.as_bytes()))
        .collect();
    let address = if address {
        asked.address.to_canonical().to_string()
    } else {
        String::new()
    };
    let host = if host { asked.host } else { b"" };
    // The path is decoded and may hold anything, so its length says where it ends.
    let length = asked.path.len().to_string();
    [
        length.as_bytes(),
        asked.path,
        &others.join(&b'&'),
        address.as_bytes(),
        host,
    ]
    .join(&b'\n')
}

fn whole_code(secret: &[u8], message: &[u8]) -> String {
    mac::base64url(&mac::hmac_sha256(secret, message))
}

/// Good as long as the second that it names has not passed.
fn in_time(time: Option<i64>, now: i64) -> Finding {
    match time {
        Some(time) if time >= now => Finding::Good(None),
        Some(_) => Finding::Expired,
        None => Finding::Wrong,
    }
}

fn number(text: &[u8]) -> Option<i64> {
    let is_number = !text.is_empty() && text.len() <= 18 && text.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(text)
        .ok()
        .filter(|_| is_number)?
        .parse()
        .ok()
}

fn pairs(query: Option<&[u8]>) -> impl Iterator<Item = &[u8]> {
    query
        .into_iter()
        .flat_map(query::parameters)
        .map(|parameter| parameter.text)
        .filter(|pair| !pair.is_empty())
}

/// The first of that name.
fn argument<'q>(query: Option<&'q [u8]>, name: &str) -> Option<&'q [u8]> {
    query::value(query?, name.as_bytes())
}

fn split(bytes: &[u8], at: usize) -> Option<(&[u8], &[u8])> {
    bytes.split_at_checked(at)
}

fn url(path: &[&[u8]], query: Option<&[u8]>, more: &[(&str, String)]) -> String {
    let mut text = Vec::new();
    saker_http::escape::uri_path(&path.concat(), &mut text);
    let mut mark = b'?';
    if let Some(pair) = query.filter(|query| !query.is_empty()) {
        text.push(mark);
        text.extend_from_slice(pair);
        mark = b'&';
    }
    for (name, value) in more {
        text.push(mark);
        text.extend_from_slice(format!("{name}={value}").as_bytes());
        mark = b'&';
    }
    String::from_utf8_lossy(&text).into_owned()
}
