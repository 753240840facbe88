//! `[[stream]]` of saker.toml: the rules about the sessions of a stream.
//!
//! Called by: the native front end, when a session asks where it goes.
//! Caveat: the first route whose conditions all hold decides; `default` is the way of the rest.
//! Out of scope: the keys (`directives/stream`), and the engine's settings
//! ([`StreamServer`](super::StreamServer)).

use super::{AccessRules, Origin, SessionVariable, SiteName, Upstream};
use saker_net::{Network, proxy_preface::PrefaceVersion};
use std::{net::IpAddr, sync::Arc};

/// A stream.
#[derive(Clone, Debug)]
pub struct Stream {
    pub name: Box<str>,
    pub access: AccessRules,
    /// Sessions of the whole process; 0: no limit.
    pub sessions_max: u64,
    /// The same, of one client.
    pub sessions_per_client_max: u64,
    pub routes: Vec<StreamRoute>,
    pub default: Option<StreamTarget>,
    pub logs: Vec<StreamLog>,
    pub origin: Origin,
}

/// A way of sessions that meet conditions; an empty condition is met by all.
#[derive(Clone, Debug)]
pub struct StreamRoute {
    /// Server names of the TLS handshake.
    pub names: Vec<SiteName>,
    /// Protocols of the TLS handshake (RFC 7301), one of which is offered.
    pub protocols: Vec<Vec<u8>>,
    pub clients: Vec<Network>,
    pub target: StreamTarget,
    pub origin: Origin,
}

/// The end of a way.
#[derive(Clone, Debug)]
pub struct StreamTarget {
    pub upstream: Arc<Upstream>,
    /// Connections begin with a PROXY header.
    pub preface: Option<PrefaceVersion>,
}

impl StreamRoute {
    /// Returns true if all conditions are met. `name`: in lowercase, without a dot at its end.
    pub fn matches<'p>(
        &self,
        name: Option<&str>,
        mut offered: impl Iterator<Item = &'p [u8]>,
        client: IpAddr,
    ) -> bool {
        let has_name = |name: &str| {
            self.names.iter().any(|known| match known {
                SiteName::Exact(exact) => exact == name,
                SiteName::Wildcard(suffix) => name
                    .strip_suffix(suffix.as_str())
                    .is_some_and(|labels| labels.len() > 1 && labels.ends_with('.')),
                SiteName::Any => true,
            })
        };
        (self.names.is_empty() || name.is_some_and(has_name))
            && (self.protocols.is_empty()
                || offered.any(|one| self.protocols.iter().any(|known| known == one)))
            && (self.clients.is_empty()
                || self.clients.iter().any(|network| network.contains(client)))
    }

    /// Returns true if the TLS handshake decides.
    pub fn looks_at_hello(&self) -> bool {
        !self.names.is_empty() || !self.protocols.is_empty()
    }
}

/// A log of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamLog {
    /// Number of its target among those of the streams.
    pub target: usize,
    pub format: Arc<StreamLogFormat>,
}

/// The form of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamLogFormat {
    /// An object with these members.
    Json(Vec<(&'static str, StreamLogValue)>),
    Text(Vec<StreamLogPart>),
}

/// A part of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamLogPart {
    Literal(Box<str>),
    Value(StreamLogValue),
}

/// A fact about a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamLogValue {
    /// The name of the stream.
    Stream,
    /// The server name of the handshake, whether TLS ends here or is passed on.
    ServerName,
    Session(SessionVariable),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(names: &[SiteName], protocols: &[&str], clients: &[&str]) -> StreamRoute {
        StreamRoute {
            names: names.to_vec(),
            protocols: protocols
                .iter()
                .map(|one| one.as_bytes().to_vec())
                .collect(),
            clients: clients.iter().map(|one| one.parse().unwrap()).collect(),
            target: StreamTarget {
                upstream: Arc::new(Upstream::new("x", Vec::new())),
                preface: None,
            },
            origin: Origin::built_in(),
        }
    }

    #[test]
    fn all_conditions_have_to_hold() {
        let names = [
            SiteName::Exact("a.test".into()),
            SiteName::Wildcard("b.test".into()),
        ];
        let all = route(&names, &["h2"], &["192.0.2.0/24"]);
        let near: IpAddr = "192.0.2.7".parse().unwrap();
        let rows = [
            (Some("a.test"), &["h2"][..], near, true),
            (Some("x.b.test"), &["http/1.1", "h2"][..], near, true),
            (Some("x.y.b.test"), &["h2"][..], near, true),
            (Some("b.test"), &["h2"][..], near, false),
            (Some(".b.test"), &["h2"][..], near, false),
            (Some("xb.test"), &["h2"][..], near, false),
            (Some("c.test"), &["h2"][..], near, false),
            (None, &["h2"][..], near, false),
            (Some("a.test"), &[][..], near, false),
            (Some("a.test"), &["http/1.1"][..], near, false),
            (
                Some("a.test"),
                &["h2"][..],
                "192.0.3.1".parse().unwrap(),
                false,
            ),
            (Some("a.test"), &["h2"][..], "::1".parse().unwrap(), false),
        ];
        for (name, offered, client, expected) in rows {
            let offered_bytes = offered.iter().map(|one| one.as_bytes());
            assert_eq!(
                all.matches(name, offered_bytes, client),
                expected,
                "{name:?} {offered:?} {client}"
            );
        }
        let any = route(&[SiteName::Any], &[], &[]);
        assert!(any.matches(Some("z"), [].into_iter(), near));
        assert!(!any.matches(None, [].into_iter(), near), "a name is needed");
        assert!(route(&[], &[], &[]).matches(None, [].into_iter(), near));
    }
}
