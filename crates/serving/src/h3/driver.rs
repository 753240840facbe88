//! HTTP/3 as a driver of the QUIC endpoint loop.
//!
//! Called by: the endpoint loop, through [`Driver`].

use super::{connection::Connection, start};
use crate::{
    quic::{Driver, Turn},
    request::Session,
};
use saker_config::model::Limits;
use std::task::Context;

impl Driver for Connection {
    fn new(session: Session) -> Connection {
        Connection::new(session)
    }

    fn promised(limits: &Limits) -> [u32; 3] {
        start::promised(limits)
    }

    fn turn(&mut self, cx: &mut Context<'_>, quic: &mut saker_quic::Connection) -> Turn {
        Connection::turn(self, cx, quic)
    }
}
