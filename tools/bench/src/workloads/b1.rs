//! B1: LiteSpeed and LiteMage against nginx and Varnish (2020), with [a shop](super::shop) of our
//! own in place of Magento.
//!
//! Called by: the lab.
//! Caveat: siege with its parser requests pages as browsers do; without it, and with ab, only the
//! pages. All servers use the same php-fpm, which is not counted, and cache its pages: Varnish with
//! nginx behind it (both count), nginx, Apache, Saker. Pages are cached before counting begins.
//! Requests of logged-in users are never answered from a cache.
//! Out of scope: lighttpd and h2o, which do not cache pages.

use super::{
    plain::{self, Plain},
    shop,
};
use crate::{
    conditions::Site,
    row::{Kind, Row},
    running_server::RunningServer,
    subject::Subject::{self, Saker},
    test_env::TestEnv,
    tool::{Ab, Tool},
    workload::{Asked, Measure, Workload},
};
use saker_testkit::{Client, Peer, PeerSite, SESSION_COOKIE, bench_files};
use std::fs;

pub const ROWS: &[Row] = &[
    Row {
        name: "b1-static",
        title: "B1: 5 images of 20 to 200 kB, 10 clients",
        kind: Kind::Own(&STATIC),
    },
    row(
        "b1-browse-1",
        "B1: 20 pages of the shop with all their resources, 1 client",
        &Shop {
            connections: 1,
            ..BROWSING
        },
    ),
    row(
        "b1-browse-10",
        "B1: 20 pages of the shop with all their resources, 10 clients",
        &BROWSING,
    ),
    row(
        "b1-pages-10",
        "B1: 20 pages of the shop alone, 10 clients",
        &Shop {
            tool: ALONE,
            ..BROWSING
        },
    ),
    row(
        "b1-category-1",
        "B1: a category with its 40 images, 1 client",
        &Shop {
            connections: 1,
            ..CATEGORY
        },
    ),
    row(
        "b1-category-10",
        "B1: a category with its 40 images, 10 clients",
        &CATEGORY,
    ),
    row(
        "b1-cached-1",
        "B1: the page of a category alone, 1 client",
        &Shop {
            tool: ALONE,
            connections: 1,
            ..CATEGORY
        },
    ),
    row(
        "b1-cached-10",
        "B1: the page of a category alone, 10 clients",
        &Shop {
            tool: ALONE,
            ..CATEGORY
        },
    ),
    row(
        "b1-cached-100",
        "B1: the page of a category alone, ab, 100 connections",
        &Shop {
            tool: AB,
            connections: 100,
            ..CATEGORY
        },
    ),
    row(
        "b1-logged-in",
        "B1: 20 pages of the shop, 10 connections, one client in ten is logged in",
        &Shop {
            tool: Tool::WrkLoggedIn { one_in: 10 },
            ..BROWSING
        },
    ),
];

const ALONE: Tool = Tool::Siege { parser: false };
const AB: Tool = Tool::Ab(Ab {
    keep_alive: true,
    requests: None,
    any_length: false,
});
const VARNISH: Subject = Subject::Peer(Peer::Varnish);
const NGINX: Subject = Subject::Peer(Peer::Nginx);
const APACHE: Subject = Subject::Peer(Peer::Apache);

const STATIC: Plain = Plain {
    measure: Measure::Cpu,
    tool: ALONE,
    paths: &[
        bench_files::IMAGES[0].0,
        bench_files::IMAGES[1].0,
        bench_files::IMAGES[2].0,
        bench_files::IMAGES[3].0,
        bench_files::IMAGES[4].0,
    ],
    connections: 10,
    subjects: &[
        Saker,
        NGINX,
        Subject::Peer(Peer::Lighttpd),
        Subject::Peer(Peer::H2o),
        APACHE,
    ],
    site: Site::Files,
    says_the_same: true,
};
const BROWSING: Shop = Shop {
    tool: Tool::Siege { parser: true },
    paths: &shop::PAGES,
    connections: 10,
};
const CATEGORY: Shop = Shop {
    paths: &[shop::CATEGORY],
    ..BROWSING
};

const fn row(name: &'static str, title: &'static str, workload: &'static Shop) -> Row {
    Row {
        name,
        title,
        kind: Kind::Own(workload),
    }
}

#[derive(Debug)]
struct Shop {
    tool: Tool,
    paths: &'static [&'static str],
    connections: usize,
}

impl Workload for Shop {
    fn measure(&self) -> Measure {
        Measure::Cpu
    }

    fn subjects(&self) -> &'static [Subject] {
        &[Saker, VARNISH, NGINX, APACHE]
    }

    fn load(&self) -> Asked {
        Asked {
            tool: self.tool,
            paths: self.paths,
            connections: self.connections,
        }
    }

    fn site(&self) -> Site {
        Site::Php
    }

    fn prepare(&self, test_env: TestEnv<'_>) -> Result<(), String> {
        shop::write(
            test_env.root,
            &test_env.work.join("sessions"),
            test_env.sessions,
        )
        .map_err(|error| format!("the shop: {error}"))
    }

    fn start(&self, subject: Subject, test_env: TestEnv<'_>) -> Result<RunningServer, String> {
        let PeerSite::Php { socket } = test_env.site else {
            return Err("there is no php-fpm".to_owned());
        };
        let running = if subject == VARNISH {
            before_nginx(test_env)?
        } else {
            subject.start(TestEnv {
                site: PeerSite::Store { socket },
                ..test_env
            })?
        };
        plain::bodies(running.address(), self.paths, None)
            .map_err(|complaint| format!("{subject}: {complaint}"))?;
        Ok(running)
    }

    /// Responses without a session, and with one.
    fn answer(&self, running: &RunningServer, _ground: TestEnv<'_>) -> Result<Vec<u8>, String> {
        let mut said = plain::bodies(running.address(), self.paths, None)?;
        let cookie = format!("{SESSION_COOKIE}=customer01");
        let mut client = Client::connect(running.address()).map_err(|error| error.to_string())?;
        let page = client
            .request(
                "GET",
                &format!("/{}", shop::CATEGORY),
                &[("Cookie", &cookie)],
            )
            .map_err(|error| error.to_string())?;
        if !page.text().contains("Hello, customer") {
            return Err("a logged-in client got the page of an anonymous one".to_owned());
        }
        said.extend(page.body);
        Ok(said)
    }
}

/// Varnish, and nginx with PHP behind it.
fn before_nginx(test_env: TestEnv<'_>) -> Result<RunningServer, String> {
    let work = test_env.work.join("origin");
    fs::create_dir_all(&work).map_err(|error| error.to_string())?;
    let (origin, mut others) = NGINX
        .start(TestEnv {
            work: &work,
            ..test_env
        })?
        .into_servers()?;
    let (front, _) = VARNISH
        .start(TestEnv {
            site: PeerSite::StoreBehind {
                upstream: origin.address(),
            },
            ..test_env
        })?
        .into_servers()?;
    others.push(origin);
    Ok(RunningServer::before(front, others))
}
