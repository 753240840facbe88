//! B3: LiteSpeed against Apache and TUX (2003): 285 bytes by ab, with and without keep-alive, from
//! 1 to 1000 at a time; PHP; TLS.
//!
//! The bare event loop stands for TUX, "as fast as the kernel itself". Losses by `.htaccess` and by
//! throttling are switches ([`rows`](crate::rows)). TLS is measured by h2load where connections are
//! kept (ab does not say which cipher it got), by httperf where they are not.

use super::plain::Plain;
use crate::{
    conditions::Site,
    row::{Kind, Row},
    subject::Subject::{self, Floor, Saker},
    tool::{Ab, CLOSE, Tool},
    workload::Measure,
};
use saker_testkit::{Peer, bench_files};

pub const ROWS: &[Row] = &[
    row(
        "b3-close-1",
        "B3: 285 bytes, a connection per request, 1 at a time",
        &Plain {
            tool: CLOSE,
            connections: 1,
            ..SWEEP
        },
    ),
    row(
        "b3-close-10",
        "B3: 285 bytes, a connection per request, 10 at a time",
        &Plain {
            tool: CLOSE,
            connections: 10,
            ..SMALL
        },
    ),
    row(
        "b3-close-100",
        "B3: 285 bytes, a connection per request, 100 at a time",
        &Plain {
            tool: CLOSE,
            connections: 100,
            ..SMALL
        },
    ),
    row(
        "b3-close-200",
        "B3: 285 bytes, a connection per request, 200 at a time",
        &Plain {
            tool: CLOSE,
            connections: 200,
            ..SWEEP
        },
    ),
    row(
        "b3-close-400",
        "B3: 285 bytes, a connection per request, 400 at a time",
        &Plain {
            tool: CLOSE,
            connections: 400,
            ..SWEEP
        },
    ),
    row(
        "b3-close-1000",
        "B3: 285 bytes, a connection per request, 1000 at a time",
        &Plain {
            tool: CLOSE,
            connections: 1000,
            ..SMALL
        },
    ),
    row(
        "b3-keep-1",
        "B3: 285 bytes, keep-alive, 1 connection",
        &Plain {
            tool: KEEP,
            connections: 1,
            ..SWEEP
        },
    ),
    row(
        "b3-keep-10",
        "B3: 285 bytes, keep-alive, 10 connections",
        &Plain {
            tool: KEEP,
            connections: 10,
            ..SMALL
        },
    ),
    row(
        "b3-keep-100",
        "B3: 285 bytes, keep-alive, 100 connections",
        &Plain {
            tool: KEEP,
            connections: 100,
            ..SMALL
        },
    ),
    row(
        "b3-keep-200",
        "B3: 285 bytes, keep-alive, 200 connections",
        &Plain {
            tool: KEEP,
            connections: 200,
            ..SWEEP
        },
    ),
    row(
        "b3-keep-400",
        "B3: 285 bytes, keep-alive, 400 connections",
        &Plain {
            tool: KEEP,
            connections: 400,
            ..SWEEP
        },
    ),
    row(
        "b3-keep-1000",
        "B3: 285 bytes, keep-alive, 1000 connections",
        &Plain {
            tool: KEEP,
            connections: 1000,
            ..SMALL
        },
    ),
    row(
        "b3-php-close",
        "B3: helloworld.php, a connection per request, 10 at a time",
        &Plain { tool: CLOSE, ..PHP },
    ),
    row(
        "b3-php-keep",
        "B3: helloworld.php, keep-alive, 10 connections",
        &PHP,
    ),
    row(
        "b3-tls-1",
        "B3: TLS, 285 bytes, keep-alive, 1 connection",
        &Plain {
            tool: Tool::H1load,
            connections: 1,
            subjects: NEAREST,
            ..TLS
        },
    ),
    row(
        "b3-tls-10",
        "B3: TLS, 285 bytes, keep-alive, 10 connections",
        &Plain {
            tool: Tool::H1load,
            connections: 10,
            ..TLS
        },
    ),
    row(
        "b3-tls-100",
        "B3: TLS, 285 bytes, keep-alive, 100 connections",
        &Plain {
            tool: Tool::H1load,
            connections: 100,
            ..TLS
        },
    ),
    row(
        "b3-tls-200",
        "B3: TLS, 285 bytes, keep-alive, 200 connections",
        &Plain {
            tool: Tool::H1load,
            connections: 200,
            subjects: NEAREST,
            ..TLS
        },
    ),
    row(
        "b3-tls-400",
        "B3: TLS, 285 bytes, keep-alive, 400 connections",
        &Plain {
            tool: Tool::H1load,
            connections: 400,
            subjects: NEAREST,
            ..TLS
        },
    ),
    row(
        "b3-tls-1000",
        "B3: TLS, 285 bytes, keep-alive, 1000 connections",
        &Plain {
            tool: Tool::H1load,
            connections: 1000,
            ..TLS
        },
    ),
    row(
        "b3-tls-new",
        "B3: TLS, 285 bytes, a connection and a full handshake per request",
        &Plain {
            tool: Tool::Httperf,
            connections: 1,
            subjects: NEAREST,
            ..TLS
        },
    ),
];

const KEEP: Tool = Tool::Ab(Ab {
    keep_alive: true,
    requests: None,
    any_length: false,
});

const APACHE: Subject = Subject::Peer(Peer::Apache);
const NGINX: Subject = Subject::Peer(Peer::Nginx);
const LIGHTTPD: Subject = Subject::Peer(Peer::Lighttpd);
const H2O: Subject = Subject::Peer(Peer::H2o);

const SMALL: Plain = Plain {
    measure: Measure::Cpu,
    tool: CLOSE,
    paths: &[bench_files::SMALL],
    connections: 10,
    subjects: &[Saker, NGINX, LIGHTTPD, H2O, APACHE, Floor],
    site: Site::Files,
    says_the_same: true,
};
/// Between the numbers of visitors where everybody takes part.
const SWEEP: Plain = Plain {
    subjects: &[Saker, NGINX, APACHE, Floor],
    ..SMALL
};
const NEAREST: &[Subject] = &[Saker, NGINX, APACHE];
const TLS: Plain = Plain {
    tool: Tool::H1load,
    subjects: &[Saker, NGINX, LIGHTTPD, H2O, APACHE],
    ..SMALL
};
const PHP: Plain = Plain {
    tool: KEEP,
    paths: &[bench_files::HELLO],
    subjects: &[Saker, NGINX, LIGHTTPD, H2O, APACHE],
    site: Site::Php,
    ..SMALL
};

const fn row(name: &'static str, title: &'static str, workload: &'static Plain) -> Row {
    Row {
        name,
        title,
        kind: Kind::Own(workload),
    }
}
