//! mod_limitipconn: how many requests of one client address are answered at a time at a place.

use crate::{
    arguments::texts,
    reading::{Reading, Set, said},
};
use saker_apache_syntax::Node;
use saker_config::model::{Consequence, Throttle};

#[derive(Clone, Debug, Default)]
pub struct LimitIpConn {
    /// Narrow, because there are as many of these settings as sections.
    per_address_max: Option<u32>,
}

impl LimitIpConn {
    pub const DIRECTIVES: &'static [(&'static str, Set<LimitIpConn>)] = &[("MaxConnPerIP", set)];

    pub fn merge(&self, over: &LimitIpConn) -> LimitIpConn {
        LimitIpConn {
            per_address_max: said(&self.per_address_max, &over.per_address_max),
        }
    }

    /// The limit; a request beyond it is answered with 503, as the module does.
    pub fn throttle(&self) -> Throttle {
        match self.per_address_max {
            None | Some(0) => Throttle::default(),
            Some(max) => Throttle {
                at_a_time_address: u64::from(max),
                over: Some(Consequence::Refuse(503)),
                ..Throttle::default()
            },
        }
    }
}

fn set(node: &Node, limitipconn: &mut LimitIpConn, _: &mut Reading<'_>) -> Result<(), String> {
    let word = texts(node).into_iter().next().unwrap_or_default();
    // As atol(3) reads it: what is no number is 0, which is no limit.
    let max = word.parse::<u64>().unwrap_or(0);
    limitipconn.per_address_max = Some(u32::try_from(max).unwrap_or(u32::MAX));
    Ok(())
}
