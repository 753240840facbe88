//! B1: LiteSpeed and LiteMage against nginx and Varnish (2020), with [a shop](super::shop) of our
//! own in place of Magento.
//!
//! Called by: the lab.
//! Caveat: siege with its parser requests pages as browsers do; without it, and with ab, only the
//! pages. All servers use the same php-fpm, which is not counted, and cache its pages: Varnish with
//! nginx behind it (both count), nginx, Apache, Saker. Pages are cached before counting begins.
//! Requests of logged-in users are never answered from a cache.
//! Out of scope: lighttpd and h2o, which do not cache pages.

use super::{Asked, Measure, Plain, Workload, plain, shop};
use crate::{
    contender::{
        Contender::{self, Saker},
        Ground,
    },
    load::Ab,
    rows::{Kind, Row, Site, Tool},
    stand::Stand,
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
const VARNISH: Contender = Contender::Peer(Peer::Varnish);
const NGINX: Contender = Contender::Peer(Peer::Nginx);
const APACHE: Contender = Contender::Peer(Peer::Apache);

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
    contenders: &[
        Saker,
        NGINX,
        Contender::Peer(Peer::Lighttpd),
        Contender::Peer(Peer::H2o),
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

    fn contenders(&self) -> &'static [Contender] {
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

    fn prepare(&self, ground: Ground<'_>) -> Result<(), String> {
        shop::write(ground.root, &ground.work.join("sessions"), ground.sessions)
            .map_err(|error| format!("the shop: {error}"))
    }

    fn start(&self, contender: Contender, ground: Ground<'_>) -> Result<Stand, String> {
        let PeerSite::Php { socket } = ground.site else {
            return Err("there is no php-fpm".to_owned());
        };
        let stand = if contender == VARNISH {
            before_nginx(ground)?
        } else {
            contender.start(Ground {
                site: PeerSite::Store { socket },
                ..ground
            })?
        };
        plain::bodies(stand.address(), self.paths, None)
            .map_err(|complaint| format!("{contender}: {complaint}"))?;
        Ok(stand)
    }

    /// Responses without a session, and with one.
    fn answer(&self, stand: &Stand, _ground: Ground<'_>) -> Result<Vec<u8>, String> {
        let mut said = plain::bodies(stand.address(), self.paths, None)?;
        let cookie = format!("{SESSION_COOKIE}=customer01");
        let mut client = Client::connect(stand.address()).map_err(|error| error.to_string())?;
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
fn before_nginx(ground: Ground<'_>) -> Result<Stand, String> {
    let work = ground.work.join("origin");
    fs::create_dir_all(&work).map_err(|error| error.to_string())?;
    let (origin, mut others) = NGINX
        .start(Ground {
            work: &work,
            ..ground
        })?
        .into_servers()?;
    let (front, _) = VARNISH
        .start(Ground {
            site: PeerSite::StoreBehind {
                upstream: origin.address(),
            },
            ..ground
        })?
        .into_servers()?;
    others.push(origin);
    Ok(Stand::before(front, others))
}
