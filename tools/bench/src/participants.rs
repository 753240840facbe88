//! Participants of each row.
//!
//! Called by: the lab and the benches, row by row.
//! Caveat: a server takes part where it has the feature that the row measures; one without a page
//! cache is left out of cache rows instead of being slow in them.

use crate::{
    arguments::Arguments,
    conditions::{Congestion, Protocol, Site},
    outside::Outside,
    row::{Kind, Row, Targets},
    subject::Subject,
    tool::Tool,
};
use saker_testkit::{Peer, require};

/// Number of requests that would take Caddy minutes.
const MANY_REQUESTS: u64 = 500_000;

pub fn of(row: &Row, arguments: &Arguments) -> Vec<Subject> {
    let own = |subject| std::iter::once(subject);
    match row.kind {
        Kind::Compare {
            tool: Tool::H3load { .. },
            ..
        } => own(Subject::Saker)
            .chain(with_http3(row, arguments))
            .collect(),
        Kind::Compare {
            targets: Targets { floor, .. },
            ..
        } => own(Subject::Saker)
            .chain(peers(row, arguments))
            .chain(floor.map(|_| Subject::Floor))
            .collect(),
        Kind::Idle {
            protocol: Protocol::Http3,
            ..
        } => vec![Subject::Saker],
        Kind::Idle { .. } => own(Subject::Saker).chain(peers(row, arguments)).collect(),
        Kind::Link {
            congestion: Congestion::Reno | Congestion::Bbr,
            ..
        } => vec![Subject::Saker, Subject::SakerHttp2],
        Kind::Link {
            requests, streams, ..
        } => {
            let quick_enough = |subject: &Subject| {
                *subject != Subject::Peer(Peer::Caddy) || requests < MANY_REQUESTS
            };
            // Beside nginx over HTTP/2, where it matters by what a connection carries many
            // requests.
            let http2 = Some(Subject::SakerHttp2).filter(|_| streams > 1);
            own(Subject::Saker)
                .chain(http2)
                .chain(with_http3(row, arguments).filter(quick_enough))
                .collect()
        }
        Kind::Switch { feature, .. } => {
            vec![Subject::SakerWithout(feature), Subject::SakerWith(feature)]
        }
        Kind::Own(workload) => {
            let all = workload.subjects().iter().copied().filter(is_installed);
            let others = outside(row, arguments)
                .map(Subject::Outside)
                .filter(|_| workload.admits_others());
            all.chain(others).collect()
        }
    }
}

fn peers(row: &Row, arguments: &Arguments) -> impl Iterator<Item = Subject> {
    let site = row.site();
    // These rows are about caches: who has one takes part unasked.
    let caches: &[Peer] = if is_cached(site) {
        &[Peer::Nginx, Peer::Varnish]
    } else {
        &[]
    };
    let more = arguments.peers.iter().filter(|peer| !caches.contains(peer));
    let peers: Vec<Subject> = caches
        .iter()
        .chain(more)
        .copied()
        .filter(|peer| fits(*peer, site))
        .map(Subject::Peer)
        .collect();
    let others = outside(row, arguments)
        .filter(move |_| site == Site::Files)
        .map(Subject::Outside);
    peers.into_iter().chain(others)
}

/// nginx is measured by its nearest: Debian's has no HTTP/3.
fn with_http3(row: &Row, arguments: &Arguments) -> impl Iterator<Item = Subject> {
    let caddy = [Subject::Peer(Peer::Caddy)]
        .into_iter()
        .filter(is_installed);
    let others = outside(row, arguments)
        .filter(|peer| peer.speaks_http3)
        .map(Subject::Outside);
    std::iter::once(Subject::Peer(Peer::Nginx))
        .chain(caddy)
        .chain(others)
}

/// Those that speak as the row does.
fn outside(row: &Row, arguments: &Arguments) -> impl Iterator<Item = Outside> {
    let is_over_tls = row.is_over_tls();
    arguments
        .outside
        .iter()
        .copied()
        .filter(move |peer| peer.is_over_tls() == is_over_tls)
}

fn is_cached(site: Site) -> bool {
    matches!(site, Site::Cached | Site::CachedGzip | Site::Shop)
}

fn fits(peer: Peer, site: Site) -> bool {
    match peer {
        Peer::Nginx => true,
        Peer::Varnish => is_cached(site),
        Peer::Haproxy => site == Site::Proxy,
        Peer::Caddy => site == Site::Files,
        // What they would be measured by there is another server's cache, or none.
        Peer::Lighttpd | Peer::H2o => !is_cached(site) && site != Site::Permalinks,
        Peer::Apache | Peer::ApacheWorker | Peer::ApachePrefork => site != Site::CachedGzip,
    }
}

fn is_installed(subject: &Subject) -> bool {
    !matches!(subject, Subject::Peer(peer) if require(peer.program()).is_err())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows;

    fn names(row: &str, arguments: &Arguments) -> Vec<String> {
        let row = rows::all()
            .find(|candidate| candidate.name == row)
            .expect("a row");
        of(row, arguments).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn who_takes_part() {
        let everybody = Arguments {
            peers: [&Peer::ALL[..4], &Peer::SPECIAL].concat(),
            ..Arguments::default()
        };
        assert_eq!(
            names("small-10", &everybody),
            [
                "saker",
                "nginx",
                "lighttpd",
                "h2o",
                "apache",
                "caddy",
                "bare tokio loop"
            ]
        );
        assert_eq!(
            names("cached-10", &everybody),
            ["saker", "nginx", "varnish", "apache"]
        );
        assert_eq!(
            names("proxy-1k", &everybody),
            ["saker", "nginx", "lighttpd", "h2o", "apache", "haproxy"]
        );
        assert_eq!(
            names("permalinks", &everybody),
            ["saker", "nginx", "apache"]
        );
        assert_eq!(names("noise", &everybody), ["saker", "saker again"]);
        assert!(names("b2-x10-10ms", &everybody).contains(&"saker, HTTP/2".to_owned()));
        assert_eq!(names("b2-10mb-10ms", &everybody)[..2], ["saker", "nginx"]);
        assert_eq!(
            names("log", &everybody),
            ["saker, access log off", "saker, access log on"]
        );
    }

    #[test]
    fn others_join_where_they_speak_the_protocol() {
        let plain = Outside::parse("mine=/x {port} {docroot}").expect("parsed");
        let secure = Outside::parse("ols+h3=/x {port} {docroot} {cert} {key}").expect("parsed");
        let arguments = Arguments {
            peers: Vec::new(),
            outside: vec![plain, secure],
            ..Arguments::default()
        };
        assert_eq!(
            names("small-100", &arguments),
            ["saker", "mine", "bare tokio loop"]
        );
        assert_eq!(names("tls-10", &arguments), ["saker", "ols"]);
        assert!(names("h3-100x1", &arguments).contains(&"ols".to_owned()));
        assert_eq!(names("php-hello", &arguments), ["saker"]);
    }
}
