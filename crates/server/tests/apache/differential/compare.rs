//! Differences between two answers to one request.

use super::{case::Request, differences::Differences, digest, html, xml};
use saker_testkit::Response;
use std::{collections::BTreeSet, io::Read};

pub struct Difference {
    /// `status`, `body`, or a field's name in small letters.
    pub what: String,
    pub text: String,
}

impl Difference {
    fn new(what: &str, apache: &str, saker: &str) -> Difference {
        Difference {
            what: what.to_owned(),
            text: format!("    {what}: apache2 {apache:?}, saker {saker:?}"),
        }
    }
}

/// Fields that hold a time or an age: a second may pass between the two.
const TIMES: &[&str] = &["expires", "last-modified"];
const TIME_TOLERANCE_S: i64 = 3;

pub fn compare(
    apache: &Result<Response, String>,
    saker: &Result<Response, String>,
    request: &Request,
    differences: &Differences,
) -> Vec<Difference> {
    let (apache, saker) = match (apache, saker) {
        (Ok(apache), Ok(saker)) => (apache, saker),
        (Err(one), Err(other)) if one == other => return Vec::new(),
        (one, other) => return vec![Difference::new("status", &outcome(one), &outcome(other))],
    };
    let mut found = Vec::new();
    if apache.status != saker.status {
        found.push(Difference::new(
            "status",
            &apache.status.to_string(),
            &saker.status.to_string(),
        ));
    }
    if request.reason && apache.reason != saker.reason {
        found.push(Difference::new("reason", &apache.reason, &saker.reason));
    }
    if let (Some(one), Some(other)) = (without_boundary(apache), without_boundary(saker)) {
        let mut found_in_parts = compare(&Ok(one), &Ok(other), request, differences);
        found.append(&mut found_in_parts);
        return found;
    }
    let own = !request.full && is_own_page(apache);
    let unframed = request.unframed
        && (saker.field("transfer-encoding").is_some() || request.method == "HEAD");
    fields(
        apache,
        saker,
        request,
        (own, unframed),
        differences,
        &mut found,
    );
    body(apache, saker, own, request, &mut found);
    found
}

/// Parts of a file without the text between them, which is each server's own, and of a length of its
/// own: apache2's is a random number without leading zeros.
fn without_boundary(response: &Response) -> Option<Response> {
    const KIND: &str = "multipart/byteranges; boundary=";
    let boundary = response.field("content-type")?.strip_prefix(KIND)?;
    let boundary = Some(boundary)
        .filter(|boundary| *boundary != "*")?
        .to_owned();
    let body = String::from_utf8(response.body.clone()).ok()?;
    let shown = body.replace(&boundary, "*").into_bytes();
    let length = response.body.len().to_string();
    let named = |(name, value): &(String, String)| {
        let is_length = name.eq_ignore_ascii_case("content-length") && *value == length;
        let value = match is_length {
            true => shown.len().to_string(),
            false => value.replace(&boundary, "*"),
        };
        (name.clone(), value)
    };
    Some(Response {
        version: response.version.clone(),
        status: response.status,
        reason: response.reason.clone(),
        fields: response.fields.iter().map(named).collect(),
        body: shown.clone(),
        trailers: response.trailers.clone(),
    })
}

fn outcome(response: &Result<Response, String>) -> String {
    response
        .as_ref()
        .map_or_else(Clone::clone, |response| response.status.to_string())
}

fn fields(
    apache: &Response,
    saker: &Response,
    request: &Request,
    (own, unframed): (bool, bool),
    differences: &Differences,
    found: &mut Vec<Difference>,
) {
    let names: BTreeSet<String> = apache
        .fields
        .iter()
        .chain(&saker.fields)
        .map(|(name, _)| name.to_ascii_lowercase())
        .collect();
    for name in names
        .iter()
        .filter(|name| !differences.ignores(name, apache.status))
    {
        let is_chunked = apache.field("transfer-encoding").is_some()
            || saker.field("transfer-encoding").is_some();
        let is_free = unframed || is_chunked || request.html || is_xml(apache) && is_xml(saker);
        if name == "content-length" && is_free {
            continue;
        }
        // They describe the page.
        if own && matches!(name.as_str(), "content-type" | "content-length") {
            continue;
        }
        // Encoders differ by some bytes.
        if name == "content-length" && is_encoded_alike(apache, saker) {
            continue;
        }
        let (left, right) = (joined(apache, name), joined(saker, name));
        let same = match (TIMES.contains(&name.as_str()), name.as_str()) {
            (true, _) => left == right || close(&left, &right),
            (_, "age") => left
                .parse::<i64>()
                .ok()
                .zip(right.parse::<i64>().ok())
                .is_some_and(|(left, right)| (left - right).abs() <= TIME_TOLERANCE_S),
            (_, "set-cookie") => are_same(
                &cookies(apache, request.sealed),
                &cookies(saker, request.sealed),
            ),
            (_, "etag" | "lock-token") => left.is_empty() == right.is_empty(),
            (_, "www-authenticate" | "authentication-info") => {
                digest::masked(&left) == digest::masked(&right)
            }
            (_, "vary" | "allow" | "content-language" | "content-encoding") => {
                tokens(&left) == tokens(&right)
            }
            _ => left == right,
        };
        if !same {
            found.push(Difference::new(name, &left, &right));
        }
    }
}

fn is_encoded_alike(apache: &Response, saker: &Response) -> bool {
    let coding = joined(apache, "content-encoding");
    matches!(coding.as_str(), "gzip" | "br") && coding == joined(saker, "content-encoding")
}

fn joined(response: &Response, name: &str) -> String {
    response.field_values(name).collect::<Vec<_>>().join(", ")
}

fn tokens(text: &str) -> BTreeSet<String> {
    text.split(',')
        .map(|token| token.trim().to_ascii_lowercase())
        .filter(|token| !token.is_empty())
        .collect()
}

/// Cookies that are set; one that is set twice in the same words counts once.
fn cookies(response: &Response, is_sealed: bool) -> Vec<String> {
    let mut all: Vec<&str> = Vec::new();
    for line in response.field_values("set-cookie") {
        if !all.contains(&line) {
            all.push(line);
        }
    }
    all.into_iter()
        .map(|line| cookie(line, is_sealed))
        .collect()
}

/// Cookies in the same words, but for the time at which each expires: the servers may have answered in
/// different seconds.
fn are_same(left: &[String], right: &[String]) -> bool {
    left.len() == right.len()
        && left.iter().zip(right).all(|(left, right)| {
            let ((left, left_time), (right, right_time)) = (expiring(left), expiring(right));
            left == right
                && match (left_time, right_time) {
                    (Some(left), Some(right)) => close(&left, &right),
                    (left, right) => left == right,
                }
        })
}

/// A cookie without its time of expiry, and this time.
fn expiring(cookie: &str) -> (String, Option<String>) {
    const NAME: &str = "expires=";
    let Some((before, after)) = cookie.split_once(NAME) else {
        return (cookie.to_owned(), None);
    };
    let (time, rest) = after.split_at(after.find(';').unwrap_or(after.len()));
    // The form that cookies have is older.
    (
        format!("{before}{NAME}{rest}"),
        Some(time.replace('-', " ")),
    )
}

/// Without what a clock or chance makes: the end of a session, and sealed values.
fn cookie(text: &str, is_sealed: bool) -> String {
    if let Some((name, rest)) = text.split_once('=').filter(|_| is_sealed) {
        let attributes = rest
            .split_once(';')
            .map_or("", |(_, attributes)| attributes);
        let is_readable = rest.contains("user");
        return format!("{name};{attributes};{is_readable}");
    }
    let mut parts = text.split("expiry=");
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        plain.push_str("expiry=");
        plain.push_str(part.trim_start_matches(|letter: char| letter.is_ascii_digit()));
    }
    plain
}

fn close(left: &str, right: &str) -> bool {
    match (seconds(left), seconds(right)) {
        (Some(left), Some(right)) => (left - right).abs() <= TIME_TOLERANCE_S,
        _ => false,
    }
}

fn seconds(text: &str) -> Option<i64> {
    saker_http::date::parse_date(text.as_bytes(), 0)
}

/// XML of WebDAV, whose prefixes and order are free.
fn is_xml(response: &Response) -> bool {
    joined(response, "content-type").starts_with("text/xml")
}

/// A page, listing or note that apache2 has made itself.
fn is_own_page(response: &Response) -> bool {
    let text = response.text();
    text.starts_with("<!DOCTYPE HTML PUBLIC") || (response.status >= 300 && text.is_empty())
}

fn body(
    apache: &Response,
    saker: &Response,
    own: bool,
    request: &Request,
    found: &mut Vec<Difference>,
) {
    if own {
        let (text, is_redirect) = (saker.text(), (300..400).contains(&apache.status));
        let is_built_in = text.to_ascii_lowercase().starts_with("<!doctype html")
            || text.is_empty() && (is_redirect || apache.body.is_empty());
        if !is_built_in {
            found.push(Difference::new(
                "body",
                "(a page of its own)",
                &shown(saker),
            ));
        }
    } else if is_xml(apache) && is_xml(saker) {
        let (left, right) = (
            xml::canonical(&apache.text()),
            xml::canonical(&saker.text()),
        );
        if left != right {
            let shown = |text: Option<String>| text.unwrap_or_else(|| "(no XML)".to_owned());
            let (left, right) = different_lines(&shown(left), &shown(right));
            found.push(Difference::new("body", &left, &right));
        }
    } else if request.html {
        let (left, right) = (
            html::canonical(&apache.text()),
            html::canonical(&saker.text()),
        );
        if left != right {
            let (left, right) = different_lines(&left, &right);
            found.push(Difference::new("body", &left, &right));
        }
    } else if request.method != "HEAD" && decoded(apache) != decoded(saker) {
        let (left, right) = different_lines(&apache.text(), &saker.text());
        found.push(Difference::new("body", &left, &right));
    }
}

/// Encoders differ by some bytes.
fn decoded(response: &Response) -> Vec<u8> {
    let mut plain = Vec::new();
    let read = match joined(response, "content-encoding").as_str() {
        "gzip" => flate2::read::MultiGzDecoder::new(response.body.as_slice())
            .read_to_end(&mut plain)
            .is_ok(),
        "br" => brotli::Decompressor::new(response.body.as_slice(), 4096)
            .read_to_end(&mut plain)
            .is_ok(),
        _ => false,
    };
    if read { plain } else { response.body.clone() }
}

/// Lines of long texts that the other one lacks.
fn different_lines(left: &str, right: &str) -> (String, String) {
    let only = |text: &str, other: &str| {
        let lines: Vec<&str> = text
            .lines()
            .filter(|line| !other.lines().any(|known| known == *line))
            .collect();
        lines.join("\n").chars().take(500).collect::<String>()
    };
    match left.lines().count() > 3 {
        true => (only(left, right), only(right, left)),
        false => (
            left.chars().take(300).collect(),
            right.chars().take(300).collect(),
        ),
    }
}

fn shown(response: &Response) -> String {
    response.text().chars().take(300).collect()
}
