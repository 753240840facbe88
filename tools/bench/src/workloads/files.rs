//! Saker by the files of nginx and Apache as they are, beside the server that they were written for.
//!
//! Every other row has Saker's own configuration or `.htaccess`; these count and compare the front
//! ends. Called by: the lab, and the build whose profile guides the optimization.

use super::plain::Plain;
use crate::{
    conditions::Site,
    row::{Kind, Row},
    subject::Subject,
    tool::Tool,
    workload::Measure,
};
use saker_testkit::{Peer, bench_files};

pub const ROWS: &[Row] = &[
    row(
        "nginx-conf-small",
        "The same nginx.conf: 285 bytes, keep-alive, 10 connections",
        &NGINX_SMALL,
    ),
    row(
        "nginx-conf-php",
        "The same nginx.conf: helloworld.php, keep-alive, 10 connections",
        &Plain {
            paths: &[bench_files::HELLO],
            site: Site::Php,
            ..NGINX_SMALL
        },
    ),
    row(
        "nginx-conf-proxy",
        "The same nginx.conf: 1 kB from an upstream, keep-alive, 10 connections",
        &Plain {
            paths: &[bench_files::KILOBYTE],
            site: Site::Proxy,
            ..NGINX_SMALL
        },
    ),
    row(
        "apache-conf-small",
        "The same httpd.conf: 285 bytes, keep-alive, 10 connections",
        &APACHE_SMALL,
    ),
    row(
        "apache-conf-php",
        "The same httpd.conf: helloworld.php, keep-alive, 10 connections",
        &Plain {
            paths: &[bench_files::HELLO],
            site: Site::Php,
            ..APACHE_SMALL
        },
    ),
    row(
        "apache-conf-proxy",
        "The same httpd.conf: 1 kB from an upstream, keep-alive, 10 connections",
        &Plain {
            paths: &[bench_files::KILOBYTE],
            site: Site::Proxy,
            ..APACHE_SMALL
        },
    ),
];

const NGINX_SMALL: Plain = Plain {
    measure: Measure::Cpu,
    tool: Tool::Wrk,
    paths: &[bench_files::SMALL],
    connections: 10,
    subjects: &[
        Subject::SakerByFileOf(Peer::Nginx),
        Subject::Peer(Peer::Nginx),
    ],
    site: Site::Files,
    says_the_same: true,
};
const APACHE_SMALL: Plain = Plain {
    subjects: &[
        Subject::SakerByFileOf(Peer::Apache),
        Subject::Peer(Peer::Apache),
    ],
    ..NGINX_SMALL
};

const fn row(name: &'static str, title: &'static str, workload: &'static Plain) -> Row {
    Row {
        name,
        title,
        kind: Kind::Own(workload),
    }
}
