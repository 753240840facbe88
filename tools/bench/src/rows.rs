//! The rows that there are.
//!
//! Called by: the command line, the runner, and the lab.
//! Caveat: a target is a promise that the reports check; change it with a measurement.
//! Out of scope: the parts of a row (`row`).

use crate::{
    conditions::{Congestion, Feature, Protocol, Site},
    row::{Kind, LinkTargets, Row, Shape, Targets},
    tool::{CLOSE, Tool, Yardstick},
    workloads,
};
use saker_testkit::{Peer, bench_files};

const TINY: &[&str] = &[bench_files::TINY];
const SMALL: &[&str] = &[bench_files::SMALL];
const MEDIUM: &[&str] = &[bench_files::MEDIUM];
const LARGE: &[&str] = &[bench_files::LARGE];
const HUGE: &[&str] = &[bench_files::HUGE];
const PERMALINK: &[&str] = &[bench_files::PERMALINK];
const HELLO: &[&str] = &[bench_files::HELLO];
const PHPINFO: &[&str] = &[bench_files::PHPINFO];
const KILOBYTE: &[&str] = &[bench_files::KILOBYTE];
const SHOP_PAGE: &[&str] = &[bench_files::SHOP_PAGE];
const MEGABYTE: &[&str] = &[bench_files::MEGABYTE];
const NGINX_ALIKE: Targets = nginx(&[(Peer::Nginx, 1.0)]);
const NGINX_060: Targets = nginx(&[(Peer::Nginx, 0.60)]);
const NGINX_090: Targets = nginx(&[(Peer::Nginx, 0.90)]);
const IMAGES: &[&str] = &[
    bench_files::IMAGES[0].0,
    bench_files::IMAGES[1].0,
    bench_files::IMAGES[2].0,
    bench_files::IMAGES[3].0,
    bench_files::IMAGES[4].0,
];

const SMALL_TARGETS: Targets = Targets {
    best: Some(0.80),
    peers: &[(Peer::Nginx, 0.60)],
    floor: Some(1.15),
};
const H2_TARGETS: Targets = Targets {
    best: None,
    peers: &[(Peer::H2o, 1.0), (Peer::Lighttpd, 0.8)],
    floor: None,
};

const ALL: &[Row] = &[
    row(
        "small-10",
        "285 bytes, keep-alive, 10 connections",
        compare(Tool::Wrk, SMALL, 10, SMALL_TARGETS),
    ),
    row(
        "small-100",
        "285 bytes, keep-alive, 100 connections",
        compare(Tool::Wrk, SMALL, 100, SMALL_TARGETS),
    ),
    row(
        "small-1000",
        "285 bytes, keep-alive, 1000 connections",
        compare(Tool::Wrk, SMALL, 1000, SMALL_TARGETS),
    ),
    row(
        "close-10",
        "285 bytes, a connection per request, 10 at a time",
        compare(CLOSE, SMALL, 10, best(0.90)),
    ),
    row(
        "medium-50",
        "6.3 kB, keep-alive, 50 connections",
        compare(Tool::Wrk, MEDIUM, 50, best(0.85)),
    ),
    row(
        "images-10",
        "5 images of 20 to 200 kB, 10 connections",
        compare(Tool::Wrk, IMAGES, 10, best(0.90)),
    ),
    row(
        "large-10",
        "21 MB file, 10 connections",
        compare(Tool::Wrk, LARGE, 10, best(1.0)),
    ),
    row(
        "log",
        "access log on against off, 100 connections",
        switch(Feature::AccessLog, 1.03),
    ),
    row(
        "throttle",
        "throttling that does not bite against none, 100 connections",
        switch(Feature::Throttle, 1.005),
    ),
    row(
        "htaccess",
        "285 bytes three folders deep, access rule in .htaccess against AllowOverride None",
        switch(Feature::Htaccess, 1.005),
    ),
    row(
        "b3-htaccess",
        "B3: an access rule in .htaccess against AllowOverride None, 10 connections",
        B3_HTACCESS,
    ),
    row(
        "b3-throttle",
        "B3: throttling that does not bite against none, 100 connections",
        switch(Feature::Throttle, 1.005),
    ),
    row(
        "rewrite",
        "20 rewrite rules by the path against AllowOverride None",
        switch(Feature::RewriteRules, 1.01),
    ),
    row(
        "permalinks",
        "a blog's permalinks: rules that test -f and -d against try_files",
        on(Site::Permalinks, PERMALINK, NGINX_ALIKE),
    ),
    row(
        "php-hello",
        "helloworld.php through the same php-fpm, the server alone",
        on(Site::Php, HELLO, best(0.60)),
    ),
    row(
        "php-info",
        "phpinfo() through the same php-fpm, the server alone",
        on(Site::Php, PHPINFO, best(0.60)),
    ),
    row(
        "proxy-1k",
        "1 kB from an upstream, keep-alive",
        on(Site::Proxy, KILOBYTE, NGINX_060),
    ),
    row(
        "proxy-1m",
        "1 MB from an upstream, keep-alive",
        on(Site::Proxy, MEGABYTE, NGINX_090),
    ),
    row(
        "cached-1",
        "a cached page of 30 kB, 1 connection",
        cached(Tool::Wrk, 1, Site::Cached),
    ),
    row(
        "cached-10",
        "a cached page of 30 kB, 10 connections",
        cached(Tool::Wrk, 10, Site::Cached),
    ),
    row(
        "cached-100",
        "a cached page of 30 kB, 100 connections",
        cached(Tool::Wrk, 100, Site::Cached),
    ),
    row(
        "cached-gzip",
        "a cached page of 30 kB, gzip, 10 connections",
        cached(Tool::WrkGzip, 10, Site::CachedGzip),
    ),
    row(
        "cached-page40",
        "a cached page of 30 kB and its 40 small files, 10 connections",
        on(Site::Shop, &bench_files::SHOP_AND_PARTS, SHOP),
    ),
    row(
        "idle",
        "10,000 idle keep-alive connections",
        idle(Protocol::Http1, 4.0),
    ),
    row(
        "h2-100x10",
        "HTTP/2, 163 bytes, 100 connections, 10 streams each",
        compare(h2(10), TINY, 100, H2_TARGETS),
    ),
    row(
        "h2-10x100",
        "HTTP/2, 163 bytes, 10 connections, 100 streams each",
        compare(h2(100), TINY, 10, H2_TARGETS),
    ),
    row(
        "h2-page40",
        "HTTP/2, a page and its 40 files, 4 connections",
        compare(h2(40), &bench_files::PAGE_AND_PARTS, 4, best(0.90)),
    ),
    row(
        "h2-large",
        "HTTP/2, 100 MB file, 1 connection",
        compare(h2(1), HUGE, 1, best(1.0)),
    ),
    row(
        "tls-10",
        "TLS 1.3, 285 bytes, keep-alive, 10 connections",
        compare(Tool::H1load, SMALL, 10, best(0.80)),
    ),
    row(
        "tls-100",
        "TLS 1.3, 285 bytes, keep-alive, 100 connections",
        compare(Tool::H1load, SMALL, 100, best(0.80)),
    ),
    row(
        "tls-1000",
        "TLS 1.3, 285 bytes, keep-alive, 1000 connections",
        compare(Tool::H1load, SMALL, 1000, best(0.80)),
    ),
    row(
        "tls-handshake",
        "full TLS 1.3 handshake and a GET of 285 bytes",
        compare(FULL, SMALL, 10, best(0.90)),
    ),
    row(
        "tls-resumed",
        "TLS 1.3 handshake by ticket and a GET of 285 bytes",
        compare(RESUMED, SMALL, 10, best(0.90)),
    ),
    row(
        "idle-tls",
        "10,000 idle keep-alive connections, TLS",
        idle(Protocol::Http1OverTls, 24.0),
    ),
    row(
        "idle-h2",
        "10,000 idle connections, HTTP/2 over TLS",
        idle(Protocol::Http2OverTls, 32.0),
    ),
    row(
        "h3-100x10",
        "HTTP/3, 163 bytes, 100 connections, 10 streams each (nginx: HTTP/2)",
        compare(h3(10), TINY, 100, H3_MANY),
    ),
    row(
        "h3-100x1",
        "HTTP/3, 163 bytes, 100 connections, 1 stream each (nginx: HTTP/2)",
        compare(h3(1), TINY, 100, H3_ONE),
    ),
    row(
        "h3-large",
        "HTTP/3, 100 MB file, 1 connection (nginx: HTTP/1.1 without TLS)",
        compare(H3_FILE, HUGE, 1, H3_LARGE),
    ),
    row(
        "idle-h3",
        "10,000 idle connections, HTTP/3",
        idle(Protocol::Http3, 40.0),
    ),
    row(
        "b2-10k-100ms",
        "B2: 10,000 requests, 100 connections, 100 mbps, 100 ms",
        small(10_000, 1, shape(100, 100)),
    ),
    row(
        "b2-10k-20ms",
        "B2: 10,000 requests, 100 connections, 100 mbps, 20 ms",
        small(10_000, 1, shape(100, 20)),
    ),
    row(
        "b2-10k-10ms",
        "B2: 10,000 requests, 100 connections, 100 mbps, 10 ms",
        small(10_000, 1, shape(100, 10)),
    ),
    row(
        "b2-100k-100ms",
        "B2: 100,000 requests, 100 connections, 100 mbps, 100 ms",
        small(100_000, 1, shape(100, 100)),
    ),
    row(
        "b2-100k-20ms",
        "B2: 100,000 requests, 100 connections, 100 mbps, 20 ms",
        small(100_000, 1, shape(100, 20)),
    ),
    row(
        "b2-100k-10ms",
        "B2: 100,000 requests, 100 connections, 100 mbps, 10 ms",
        small(100_000, 1, shape(100, 10)),
    ),
    row(
        "b2-x10-100ms",
        "B2: 100,000 requests, 100 connections of 10 streams, 100 mbps, 100 ms",
        small(100_000, 10, shape(100, 100)),
    ),
    row(
        "b2-x10-20ms",
        "B2: 100,000 requests, 100 connections of 10 streams, 100 mbps, 20 ms",
        small(100_000, 10, shape(100, 20)),
    ),
    row(
        "b2-x10-10ms",
        "B2: 100,000 requests, 100 connections of 10 streams, 100 mbps, 10 ms",
        small(100_000, 10, shape(100, 10)),
    ),
    row(
        "b2-million",
        "B2: 1,000,000 requests, 100 connections of 10 streams, 200 mbps, 10 ms",
        small(1_000_000, 10, shape(200, 10)),
    ),
    row(
        "b2-10mb-100ms",
        "B2: one 10 MB file, 10 mbps, 100 ms",
        file(bench_files::TEN, shape(10, 100), Some(8.9)),
    ),
    row(
        "b2-10mb-20ms",
        "B2: one 10 MB file, 10 mbps, 20 ms",
        file(bench_files::TEN, shape(10, 20), Some(8.9)),
    ),
    row(
        "b2-10mb-10ms",
        "B2: one 10 MB file, 10 mbps, 10 ms",
        file(bench_files::TEN, shape(10, 10), Some(8.9)),
    ),
    row(
        "b2-100mb-100ms",
        "B2: one 100 MB file, 100 mbps, 100 ms",
        file(bench_files::HUGE, shape(100, 100), Some(9.5)),
    ),
    row(
        "b2-100mb-20ms",
        "B2: one 100 MB file, 100 mbps, 20 ms",
        file(bench_files::HUGE, shape(100, 20), Some(8.9)),
    ),
    row(
        "b2-100mb-10ms",
        "B2: one 100 MB file, 100 mbps, 10 ms",
        file(bench_files::HUGE, shape(100, 10), Some(8.9)),
    ),
    row(
        "b2-queue1000",
        "B2: one 10 MB file, 5 mbps, 20 ms, queue of 1000 packets",
        file(bench_files::TEN, shape(5, 20), None),
    ),
    row(
        "b2-queue7",
        "B2: one 10 MB file, 5 mbps, 20 ms, queue of 7 packets",
        file(bench_files::TEN, QUEUE_7, None),
    ),
    row(
        "b2-loss1-reno",
        "one 10 MB file, 100 mbps, 20 ms, loss of 1 %, Reno",
        lossy(
            Congestion::Reno,
            Shape {
                loss: 0.01,
                ..shape(100, 20)
            },
        ),
    ),
    row(
        "b2-loss3-reno",
        "one 10 MB file, 100 mbps, 20 ms, loss of 3 %, Reno",
        lossy(
            Congestion::Reno,
            Shape {
                loss: 0.03,
                ..shape(100, 20)
            },
        ),
    ),
    row(
        "b2-reorder-reno",
        "one 10 MB file, 100 mbps, 20 ms, 2 % reordered, Reno",
        lossy(
            Congestion::Reno,
            Shape {
                reordering: 0.02,
                ..shape(100, 20)
            },
        ),
    ),
    row(
        "b2-loss1-bbr",
        "one 10 MB file, 100 mbps, 20 ms, loss of 1 %, BBR",
        lossy(
            Congestion::Bbr,
            Shape {
                loss: 0.01,
                ..shape(100, 20)
            },
        ),
    ),
    row(
        "b2-loss3-bbr",
        "one 10 MB file, 100 mbps, 20 ms, loss of 3 %, BBR",
        lossy(
            Congestion::Bbr,
            Shape {
                loss: 0.03,
                ..shape(100, 20)
            },
        ),
    ),
    row(
        "b2-reorder-bbr",
        "one 10 MB file, 100 mbps, 20 ms, 2 % reordered, BBR",
        lossy(
            Congestion::Bbr,
            Shape {
                reordering: 0.02,
                ..shape(100, 20)
            },
        ),
    ),
];

const B3_HTACCESS: Kind = Kind::Switch {
    feature: Feature::Htaccess,
    connections: 10,
    at_most: 1.005,
};
const FULL: Tool = Tool::Handshakes { resumed: false };
const H3_FILE: Tool = Tool::H3load {
    streams: 1,
    yardstick: Yardstick::PlainHttp1,
};
const H3_MANY: Targets = nginx(&[(Peer::Nginx, 0.50)]);
const H3_ONE: Targets = nginx(&[(Peer::Caddy, 0.12)]);
/// 1.7 s of CPU per GB where nginx takes 0.11.
const H3_LARGE: Targets = nginx(&[(Peer::Nginx, 1.7 / 0.11)]);
const QUEUE_7: Shape = Shape {
    queue_packets: 7,
    ..shape(5, 20)
};
const RESUMED: Tool = Tool::Handshakes { resumed: true };

/// The rows that `--only` names; without it all but the lab's own and those over links, which take
/// hours and root.
pub fn chosen(only: &[String]) -> impl Iterator<Item = &'static Row> {
    let by_default = |row: &Row| !matches!(row.kind, Kind::Link { .. } | Kind::Own(_));
    all().filter(move |row| {
        (only.is_empty() && by_default(row))
            || only
                .iter()
                .any(|name| row.name == name || starts(row.name, name))
    })
}

/// A beginning counts only where it is not the whole name of a row (`small-10` does not mean
/// `small-100`).
fn starts(row: &str, name: &str) -> bool {
    row.starts_with(name) && !all().any(|other| other.name == name)
}

/// The workloads' too.
pub fn all() -> impl Iterator<Item = &'static Row> {
    ALL.iter().chain(workloads::ALL.iter().copied().flatten())
}

const fn row(name: &'static str, title: &'static str, kind: Kind) -> Row {
    Row { name, title, kind }
}

const fn compare(
    tool: Tool,
    paths: &'static [&'static str],
    connections: usize,
    targets: Targets,
) -> Kind {
    Kind::Compare {
        tool,
        paths,
        connections,
        targets,
        site: Site::Files,
    }
}

/// Keep-alive, 10 connections.
const fn on(site: Site, paths: &'static [&'static str], targets: Targets) -> Kind {
    Kind::Compare {
        tool: Tool::Wrk,
        paths,
        connections: 10,
        targets,
        site,
    }
}

const CACHED: Targets = nginx(&[(Peer::Nginx, 0.50), (Peer::Varnish, 0.30)]);

const SHOP: Targets = nginx(&[(Peer::Nginx, 0.60), (Peer::Varnish, 0.33)]);

const fn cached(tool: Tool, connections: usize, site: Site) -> Kind {
    Kind::Compare {
        tool,
        paths: SHOP_PAGE,
        connections,
        targets: CACHED,
        site,
    }
}

const fn nginx(peers: &'static [(Peer, f64)]) -> Targets {
    Targets {
        best: None,
        peers,
        floor: None,
    }
}

const fn switch(feature: Feature, at_most: f64) -> Kind {
    Kind::Switch {
        feature,
        connections: 100,
        at_most,
    }
}

const fn idle(protocol: Protocol, kibibytes_at_most: f64) -> Kind {
    Kind::Idle {
        protocol,
        connections: 10_000,
        bytes_at_most: kibibytes_at_most * 1024.0,
    }
}

const fn h2(streams: usize) -> Tool {
    Tool::H2load { streams }
}

const fn h3(streams: usize) -> Tool {
    Tool::H3load {
        streams,
        yardstick: Yardstick::Http2,
    }
}

const fn shape(mbit_per_s: u64, round_trip_ms: u64) -> Shape {
    Shape {
        mbit_per_s,
        round_trip_ms,
        queue_packets: 1000,
        loss: 0.0,
        reordering: 0.0,
    }
}

const fn small(requests: u64, streams: usize, link: Shape) -> Kind {
    let targets = LinkTargets {
        seconds: None,
        of_http2: None,
    };
    Kind::Link {
        link,
        requests,
        connections: 100,
        streams,
        path: bench_files::TINY,
        congestion: Congestion::Usual,
        targets,
    }
}

const fn file(path: &'static str, link: Shape, seconds: Option<f64>) -> Kind {
    let targets = LinkTargets {
        seconds,
        of_http2: None,
    };
    Kind::Link {
        link,
        requests: 1,
        connections: 1,
        streams: 1,
        path,
        congestion: Congestion::Usual,
        targets,
    }
}

const fn lossy(congestion: Congestion, link: Shape) -> Kind {
    let targets = LinkTargets {
        seconds: None,
        of_http2: Some(1.0),
    };
    Kind::Link {
        link,
        requests: 1,
        connections: 1,
        streams: 1,
        path: bench_files::TEN,
        congestion,
        targets,
    }
}

const fn best(ratio: f64) -> Targets {
    Targets {
        best: Some(ratio),
        peers: &[],
        floor: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(only: &[&str]) -> Vec<&'static str> {
        let only: Vec<String> = only.iter().map(|name| (*name).to_owned()).collect();
        chosen(&only).map(|row| row.name).collect()
    }

    #[test]
    fn choosing() {
        let by_default = names(&[]);
        assert!(
            by_default.contains(&"idle-h3")
                && !by_default.iter().any(|name| name.starts_with("b2-"))
        );
        assert_eq!(names(&["b2-q"]), ["b2-queue1000", "b2-queue7"]);
        assert_eq!(names(&["small-10"]), ["small-10"]);
        assert_eq!(
            names(&["small", "idle"]),
            ["small-10", "small-100", "small-1000", "idle"]
        );
        assert_eq!(
            names(&["tls-10", "idle-"]),
            ["tls-10", "idle-tls", "idle-h2", "idle-h3"]
        );
    }

    #[test]
    fn rows_over_tls_say_so() {
        assert!(ALL.iter().all(|row| {
            row.is_over_tls()
                == (["tls", "h2", "h3", "b2"]
                    .iter()
                    .any(|part| row.name.contains(part)))
        }));
    }
}
