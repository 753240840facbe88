//! The one list of protocols: which codec speaks for which.

use crate::{
    forward,
    http1_dialogue::{Address, Http1Dialogue},
};
use saker_cgi::{Ajp, Dialogue, FastCgi, Lsapi, Scgi, Uwsgi, fastcgi::Role};
use saker_config::model::{Member, Protocol};
use saker_pipeline::{Call, Exchange, Via};

/// Makes the codec for one request. `target`: path and query at this member.
pub fn dialogue(exchange: &Exchange, call: &Call, member: &Member, target: Vec<u8>, has_content: bool) -> Box<dyn Dialogue> {
    let tuning = &member.tuning;
    match member.backend.protocol {
        Protocol::FastCgi => Box::new(FastCgi::new(Role::Responder, tuning.kept_max > 0)),
        Protocol::Scgi => Box::new(Scgi::new()),
        Protocol::Uwsgi => Box::new(Uwsgi::new(0, 0)),
        Protocol::Lsapi => Box::new(Lsapi::new()),
        Protocol::Ajp => Box::new(Ajp::new(tuning.secret.as_ref().map(|secret| secret.as_bytes()))),
        Protocol::Http1 => Box::new(Http1Dialogue::new(Address {
            target,
            host: forward::host(exchange, member, &call.manner),
            lines: forward::lines(exchange, call),
            blocks_via: call.manner.via == Via::Block,
            upgrade: forward::upgrade(exchange, &call.manner, has_content),
        })),
    }
}
