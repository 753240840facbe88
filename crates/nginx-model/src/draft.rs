//! Servers and locations while they are read, before settings of outer levels are merged in.
//!
//! Called by: `load`, which fills drafts, and `finish`, which makes servers of them.

use crate::{
    conf::LocationConf,
    location::{LocationKind, Methods},
    modules::{
        listen::{Listen, ServerNames},
        rewrite::{Condition, Statement},
        tls::TlsConf,
    },
};
use saker_config::model::Origin;
use saker_nginx_syntax::Directive;

/// A level: a location, the block of an `if` or `limit_except`, or a server outside of locations.
#[derive(Debug)]
pub struct Draft {
    pub name: Box<str>,
    pub kind: LocationKind,
    pub conf: LocationConf,
    pub script: Vec<DraftOp>,
    pub children: Vec<Draft>,
    /// Methods that it does not apply to, and its block.
    pub limit_except: Option<(Methods, Box<Draft>)>,
    /// The directive that chose an upstream, for messages.
    pub pass: Option<Directive>,
    pub origin: Origin,
}

/// A step of a script.
#[derive(Debug)]
pub enum DraftOp {
    Plain(Statement),
    If {
        condition: Condition,
        block: Box<Draft>,
        /// The block has settings of its own: it is in a location.
        has_location: bool,
        source: Box<str>,
    },
}

/// A server.
#[derive(Debug)]
pub struct ServerDraft {
    pub outside: Draft,
    pub names: ServerNames,
    pub listens: Vec<Listen>,
    pub tls: TlsConf,
}

impl Draft {
    pub fn new(name: &str, kind: LocationKind, origin: Origin) -> Draft {
        Draft {
            name: name.into(),
            kind,
            conf: LocationConf::default(),
            script: Vec::new(),
            children: Vec::new(),
            limit_except: None,
            pass: None,
            origin,
        }
    }
}
