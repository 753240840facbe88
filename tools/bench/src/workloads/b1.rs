//! B1: LiteSpeed and LiteMage against nginx and Varnish (2020), with a shop of our own in place of Magento.

use super::{Measure, Plain};
use crate::{
    contender::Contender::{self, Saker},
    rows::{Kind, Row, Site, Tool},
};
use saker_testkit::{Peer, bench_files};

pub const ROWS: &[Row] = &[Row { name: "b1-static", title: "B1: 5 images of 20 to 200 kB, siege, 10 visitors", kind: Kind::Own(&STATIC) }];

const STATIC: Plain = Plain {
    measure: Measure::Cpu,
    tool: Tool::Siege { parser: false },
    paths: &[
        bench_files::IMAGES[0].0,
        bench_files::IMAGES[1].0,
        bench_files::IMAGES[2].0,
        bench_files::IMAGES[3].0,
        bench_files::IMAGES[4].0,
    ],
    connections: 10,
    contenders: &[Saker, NGINX],
    site: Site::Files,
    says_the_same: true,
};

const NGINX: Contender = Contender::Peer(Peer::Nginx);
