//! Values of texts and variables of sessions.
//!
//! Called by: the rules, and `log`.
//! Caveat: values of tables are kept for the session, unless they are volatile; those that are read
//! before the session has ended are not those of its end.

use super::{Evaluation, lookup};
use crate::{
    builtin,
    evaluate::{geo_address, murmur2},
};
use saker_config::model::SessionVariable;
use saker_nginx_model::{
    Part, Text,
    modules::maps::{Geo, Map, Split},
    values::Regex,
    variables::{Builtin, Source, Variable},
};

/// Tables whose sources are tables.
const DEPTH_MAX: u8 = 16;
/// A text that grows beyond this fails the session.
const TEXT_BYTES_MAX: usize = 64 << 10;

impl Evaluation<'_> {
    /// Returns the value of a text.
    pub fn text(&mut self, text: &Text) -> Vec<u8> {
        self.text_with(text, |value, out| {
            out.extend_from_slice(value.unwrap_or_default());
        })
    }

    /// Returns the value of a text whose variables are written by a function; `None`: it has none.
    pub fn text_with(
        &mut self,
        text: &Text,
        write: impl Fn(Option<&[u8]>, &mut Vec<u8>),
    ) -> Vec<u8> {
        let mut out = Vec::new();
        for part in &text.parts {
            match part {
                Part::Literal(literal) => out.extend_from_slice(literal),
                Part::Capture(group) => write(self.capture(*group).as_deref(), &mut out),
                Part::Variable(variable) => write(self.variable(variable).as_deref(), &mut out),
            }
            if out.len() > TEXT_BYTES_MAX {
                self.session.variables.has_failed = true;
                out.clear();
                return out;
            }
        }
        out
    }

    /// Sets a variable of the configuration.
    pub fn set(&mut self, number: usize, value: &[u8]) {
        let values = &mut self.session.variables.values;
        if values.len() <= number {
            values.resize(self.streams.variables.len().max(number + 1), None);
        }
        if let Some(slot) = values.get_mut(number) {
            *slot = Some(value.into());
        }
    }

    fn capture(&self, group: u8) -> Option<Vec<u8>> {
        let (subject, spans) = self.session.variables.captures.as_ref()?;
        let range = spans.get(usize::from(group))?;
        subject.get(range).map(<[u8]>::to_vec)
    }

    fn variable(&mut self, variable: &Variable) -> Option<Vec<u8>> {
        match variable {
            Variable::Session(variable) => self.builtin(*variable),
            Variable::Named(number) => self.named(*number),
            // Those of TLS.
            Variable::Builtin(builtin) => {
                crate::tls::variable(self.session.tls.as_ref()?, *builtin)
            }
            // Those of requests stand in no text of `stream`.
            _ => None,
        }
    }

    fn named(&mut self, number: usize) -> Option<Vec<u8>> {
        if let Some(Some(value)) = self.session.variables.values.get(number) {
            return Some(value.to_vec());
        }
        let streams = self.streams;
        if self.session.variables.depth >= DEPTH_MAX {
            self.session.variables.has_failed = true;
            return None;
        }
        self.session.variables.depth += 1;
        let (value, is_kept) = match streams.variables.get(number)?.source {
            Source::Unknown | Source::Slot | Source::Set => (None, false),
            Source::Map(at) => match streams.tables.maps.get(at) {
                Some(map) => (self.map(map), !map.is_volatile),
                None => (None, false),
            },
            Source::Geo(at) => {
                let geo = streams.tables.geos.get(at);
                (geo.map(|geo| self.geo(geo)), true)
            }
            Source::GeoIp(part) => {
                let database = streams.tables.geoip.of(part);
                let client = self.session.client.ip();
                (database.and_then(|found| found.value(client, part)), true)
            }
            Source::Split(at) => {
                let split = streams.tables.splits.get(at);
                (split.and_then(|split| self.split(split)), true)
            }
        };
        self.session.variables.depth -= 1;
        if is_kept && let Some(value) = &value {
            self.set(number, value);
        }
        value
    }

    pub(super) fn regex(&mut self, regex: &Regex, subject: &[u8]) -> bool {
        let spans = match regex.pattern.captures(subject) {
            Ok(Some(spans)) => spans,
            Ok(None) => return false,
            Err(_) => {
                // A pattern that takes too long decides nothing.
                self.session.variables.has_failed = true;
                return false;
            }
        };
        for (group, number) in &regex.names {
            let Ok(text) = regex.pattern.group_text(*group, subject, &spans) else {
                self.session.variables.has_failed = true;
                return false;
            };
            self.set(*number, text.unwrap_or_default());
        }
        self.session.variables.captures = Some((subject.into(), spans));
        true
    }

    fn map(&mut self, map: &Map) -> Option<Vec<u8>> {
        let value = self.text(&map.source);
        let found = lookup(&map.names, &value, &mut |regex| self.regex(regex, &value));
        found.or(map.default.as_ref()).map(|text| self.text(text))
    }

    fn geo(&mut self, geo: &Geo) -> Vec<u8> {
        let address = match &geo.source {
            None => self.session.client.ip().to_canonical(),
            Some(text) => geo_address(&self.text(text)),
        };
        let place = geo.index.find(address);
        let found = place.and_then(|place| geo.networks.get(place));
        found.map_or_else(|| geo.default.to_vec(), |(_, value)| value.to_vec())
    }

    fn split(&mut self, split: &Split) -> Option<Vec<u8>> {
        let value = self.text(&split.source);
        let hash = murmur2(&value);
        let part = split.parts.iter().find(|(bound, _)| hash < *bound);
        let text = part.map(|(_, text)| text).or(split.rest.as_ref())?;
        Some(self.text(text))
    }

    fn builtin(&self, variable: SessionVariable) -> Option<Vec<u8>> {
        let session = &*self.session;
        let text = |text: &dyn std::fmt::Display| Some(text.to_string().into_bytes());
        match variable {
            // Empty where a hello has been read, or has begun.
            SessionVariable::SslPrereadServerName => {
                let name = session.hello.as_ref()?.server_name_as_sent.as_deref();
                Some(name.unwrap_or_default().to_vec())
            }
            SessionVariable::SslPrereadProtocol => {
                text(&session.hello.as_ref()?.version.unwrap_or_default())
            }
            SessionVariable::SslPrereadAlpnProtocols => {
                Some(session.hello.as_ref()?.protocols.join(&b','))
            }
            // A port that a header does not have.
            SessionVariable::ProxyProtocolPort | SessionVariable::ProxyProtocolServerPort => {
                let port = session.value(variable)?;
                Some(port).filter(|port| *port != b"0").or(Some(Vec::new()))
            }
            SessionVariable::LimitConnStatus => session
                .variables
                .limit_status
                .and_then(|status| text(&status)),
            SessionVariable::Hostname => Some(builtin::hostname()),
            SessionVariable::NginxVersion => text(&crate::VERSION),
            SessionVariable::SslClientVerify => {
                text(&crate::tls::client_verify(session.tls.as_ref()?))
            }
            SessionVariable::TimeIso8601 => Some(builtin::time(Builtin::TimeIso8601, now_s())),
            SessionVariable::TimeLocal => Some(builtin::time(Builtin::TimeLocal, now_s())),
            _ => session.value(variable),
        }
    }
}

fn now_s() -> i64 {
    saker_net::clock::realtime_s()
}
