//! B4: Apache, Varnish, nginx and lighttpd (2009), by ab with keep-alive: a page of 6.3 kB,
//! phpinfo(), and a film of 21 MB a hundred times.
//!
//! The film is 100 requests however long they take; its slowest and fastest are in the figures.
//! What its author needed besides (films from the middle, hot-linking, rewriting, several backends)
//! are features with tests, not rows.

use super::plain::Plain;
use crate::{
    conditions::Site,
    row::{Kind, Row},
    subject::Subject::{self, Saker},
    tool::{Ab, Tool},
    workload::Measure,
};
use saker_testkit::{Peer, bench_files};

pub const ROWS: &[Row] = &[
    row("b4-page", "B4: 6.3 kB, keep-alive, 50 connections", &PAGE),
    row(
        "b4-phpinfo",
        "B4: phpinfo(), keep-alive, 50 connections",
        &Plain {
            tool: Tool::Ab(Ab {
                keep_alive: true,
                requests: None,
                any_length: true,
            }),
            paths: &[bench_files::PHPINFO],
            subjects: &[Saker, NGINX, LIGHTTPD, WORKER, PREFORK],
            site: Site::Php,
            says_the_same: false,
            ..PAGE
        },
    ),
    row(
        "b4-film",
        "B4: a film (.flv) of 21 MB 100 times, 10 at a time",
        &Plain {
            tool: Tool::Ab(Ab {
                keep_alive: true,
                requests: Some(100),
                any_length: false,
            }),
            paths: &[bench_files::LARGE],
            connections: 10,
            ..PAGE
        },
    ),
];

const PREFORK: Subject = Subject::Peer(Peer::ApachePrefork);
const WORKER: Subject = Subject::Peer(Peer::ApacheWorker);
const NGINX: Subject = Subject::Peer(Peer::Nginx);
const LIGHTTPD: Subject = Subject::Peer(Peer::Lighttpd);

const PAGE: Plain = Plain {
    measure: Measure::Cpu,
    tool: Tool::Ab(Ab {
        keep_alive: true,
        requests: None,
        any_length: false,
    }),
    paths: &[bench_files::MEDIUM],
    connections: 50,
    subjects: &[Saker, NGINX, LIGHTTPD, WORKER, PREFORK],
    site: Site::Files,
    says_the_same: true,
};

const fn row(name: &'static str, title: &'static str, workload: &'static Plain) -> Row {
    Row {
        name,
        title,
        kind: Kind::Own(workload),
    }
}
