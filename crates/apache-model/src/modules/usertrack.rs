//! Settings of mod_usertrack, and the cookie that they describe.
//!
//! Called by: `dir_config`, whose table names the setters.
//! Out of scope: finding or sending the cookie (`saker_apache`).

use crate::{
    arguments::texts,
    reading::{Reading, Set},
};
use saker_apache_syntax::Node;
use saker_telemetry::local_time::Civil;
use std::{fmt::Write as _, sync::Arc};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    Netscape,
    Rfc2109,
    Rfc2965,
}

/// Settings of few hosts, so that all others have a pointer only.
#[derive(Clone, Debug, Default)]
pub struct UserTrack(Option<Arc<Tracking>>);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tracking {
    is_on: Option<bool>,
    name: Option<Box<str>>,
    expires_s: Option<u64>,
    domain: Option<Box<str>>,
    style: Option<Style>,
    same_site: Option<Box<str>>,
    is_secure: Option<bool>,
    is_http_only: Option<bool>,
}

impl UserTrack {
    pub const DIRECTIVES: &'static [(&'static str, Set<UserTrack>)] = &[
        ("CookieTracking", |node, usertrack, _| {
            crate::arguments::set_flag(node, &mut usertrack.own().is_on)
        }),
        ("CookieName", set_name),
        ("CookieExpires", set_expires),
        ("CookieDomain", set_domain),
        ("CookieStyle", set_style),
        ("CookieSameSite", set_same_site),
        ("CookieSecure", |node, usertrack, _| {
            crate::arguments::set_flag(node, &mut usertrack.own().is_secure)
        }),
        ("CookieHttpOnly", |node, usertrack, _| {
            crate::arguments::set_flag(node, &mut usertrack.own().is_http_only)
        }),
    ];

    fn own(&mut self) -> &mut Tracking {
        Arc::make_mut(self.0.get_or_insert_default())
    }

    /// As Apache: what a section says of any of them replaces all that was said outside.
    pub fn merge(&self, over: &UserTrack) -> UserTrack {
        UserTrack(over.0.as_ref().or(self.0.as_ref()).cloned())
    }

    /// The settings, where cookies are sent.
    pub fn active(&self) -> Option<Arc<Tracking>> {
        self.0
            .clone()
            .filter(|tracking| tracking.is_on == Some(true))
    }
}

impl Tracking {
    pub fn name(&self) -> &str {
        self.name.as_deref().unwrap_or("Apache")
    }

    /// The field's value, with its parts in Apache's order.
    pub fn cookie(&self, value: &str, now_s: i64) -> String {
        let mut cookie = format!("{}={value}; path=/", self.name());
        let style = self.style.unwrap_or(Style::Netscape);
        if let Some(expires_s) = self.expires_s.filter(|seconds| *seconds > 0) {
            let _ = match style {
                Style::Netscape => write!(
                    cookie,
                    "; expires={}",
                    date(now_s.saturating_add_unsigned(expires_s))
                ),
                _ => write!(cookie, "; max-age={expires_s}"),
            };
        }
        if let Some(domain) = &self.domain {
            let _ = write!(
                cookie,
                "; domain={domain}{}",
                if style == Style::Rfc2965 {
                    "; version=1"
                } else {
                    ""
                }
            );
        }
        if let Some(same_site) = &self.same_site {
            let _ = write!(cookie, "; {same_site}");
        }
        let flags = [
            (self.is_secure, "; Secure"),
            (self.is_http_only, "; HttpOnly"),
        ];
        flags
            .iter()
            .filter(|(is_on, _)| *is_on == Some(true))
            .for_each(|(_, text)| cookie.push_str(text));
        cookie
    }
}

/// `Sat, 05-Dec-26 20:35:27 GMT`
fn date(unix_s: i64) -> String {
    let civil = Civil::at(unix_s, 0);
    let short = |name: &'static str| name.get(..3).unwrap_or_default();
    format!(
        "{}, {:02}-{}-{:02} {:02}:{:02}:{:02} GMT",
        short(civil.weekday_name()),
        civil.day,
        short(civil.month_name()),
        civil.year % 100,
        civil.hour,
        civil.minute,
        civil.second
    )
}

fn first(node: &Node) -> String {
    texts(node).into_iter().next().unwrap_or_default()
}

fn set_name(node: &Node, usertrack: &mut UserTrack, _: &mut Reading<'_>) -> Result<(), String> {
    let name = first(node);
    let is_token = !name.is_empty()
        && name
            .bytes()
            .all(|byte| byte.is_ascii_graphic() && !b"()<>@,;:\\\"/[]?={}".contains(&byte));
    if !is_token {
        return Err("CookieName must be the name of a cookie".into());
    }
    usertrack.own().name = Some(name.into());
    Ok(())
}

/// Seconds, or `[plus] {number unit}…`; a unit is told by its first letters.
fn set_expires(node: &Node, usertrack: &mut UserTrack, _: &mut Reading<'_>) -> Result<(), String> {
    let text = texts(node).join(" ");
    if let Ok(seconds) = text.parse() {
        usertrack.own().expires_s = Some(seconds);
        return Ok(());
    }
    let mut words = text
        .split_whitespace()
        .skip_while(|word| word.starts_with(['p', 'P']));
    let mut sum_s = 0_u64;
    while let Some(number) = words.next() {
        let number: u64 = number
            .parse()
            .map_err(|_| "bad expires code, numeric value expected.")?;
        let unit = words
            .next()
            .ok_or("bad expires code, missing <type>")?
            .to_ascii_lowercase();
        let factor = match unit.as_bytes() {
            [b'y', ..] => 31_536_000,
            [b'm', b'o', ..] => 2_592_000,
            [b'w', ..] => 604_800,
            [b'd', ..] => 86_400,
            [b'h', ..] => 3_600,
            [b'm', b'i', ..] => 60,
            [b's', ..] => 1,
            _ => return Err("bad expires code, unrecognized type".into()),
        };
        sum_s = sum_s.saturating_add(number.saturating_mul(factor));
    }
    usertrack.own().expires_s = Some(sum_s);
    Ok(())
}

fn set_domain(node: &Node, usertrack: &mut UserTrack, _: &mut Reading<'_>) -> Result<(), String> {
    let domain = first(node);
    match domain.strip_prefix('.') {
        None => Err("CookieDomain values must begin with a dot".into()),
        Some(rest) if !rest.contains('.') || domain.contains([';', ',', ' ']) => {
            Err("CookieDomain values must contain at least one embedded dot".into())
        }
        Some(_) => {
            usertrack.own().domain = Some(domain.into());
            Ok(())
        }
    }
}

fn set_style(
    node: &Node,
    usertrack: &mut UserTrack,
    reading: &mut Reading<'_>,
) -> Result<(), String> {
    let word = first(node);
    usertrack.own().style = Some(match word.to_ascii_lowercase().as_str() {
        "netscape" => Style::Netscape,
        "cookie" | "rfc2109" => Style::Rfc2109,
        "cookie2" | "rfc2965" => {
            reading.warn(
                node,
                "Set-Cookie2 is obsolete: the cookie is sent in Set-Cookie",
            );
            Style::Rfc2965
        }
        _ => return Err(format!("Invalid CookieStyle keyword: {word}")),
    });
    Ok(())
}

fn set_same_site(
    node: &Node,
    usertrack: &mut UserTrack,
    _: &mut Reading<'_>,
) -> Result<(), String> {
    let value = match first(node).to_ascii_lowercase().as_str() {
        "strict" => "SameSite=Strict",
        "lax" => "SameSite=Lax",
        "none" => "SameSite=None",
        _ => return Err("CookieSameSite accepts 'Strict', 'Lax', or 'None'".into()),
    };
    usertrack.own().same_site = Some(value.into());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cookies() {
        let plain = Tracking::default();
        assert_eq!(plain.cookie("v", 0), "Apache=v; path=/");
        let full = Tracking {
            name: Some("trk".into()),
            expires_s: Some(1_209_600),
            domain: Some(".x.test".into()),
            same_site: Some("SameSite=Lax".into()),
            is_secure: Some(true),
            is_http_only: Some(true),
            ..plain.clone()
        };
        let expected = "trk=v; path=/; expires=Sat, 05-Dec-26 20:35:27 GMT; domain=.x.test; SameSite=Lax; Secure; HttpOnly";
        assert_eq!(full.cookie("v", 1_795_293_327), expected);
        let newer = Tracking {
            style: Some(Style::Rfc2965),
            ..full
        };
        assert_eq!(
            newer.cookie("v", 0),
            "trk=v; path=/; max-age=1209600; domain=.x.test; version=1; SameSite=Lax; Secure; HttpOnly"
        );
    }
}
