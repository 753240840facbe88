//! Requests of the server's own to an API, whose answers are read piece by piece.
//!
//! Called by: `saker_discovery`, on the main thread.
//! Caveat: one connection per request; nothing of a client's request and no settings of a site
//! apply. The caller bounds the length of answers.
//! Out of scope: redirects, which are answers like others, and HTTP/2.

use crate::{
    exchange_context::{ExchangeContext, UpstreamEvent},
    forward::{self, Address},
    health,
    pool::Pool,
    upstream_exchange::UpstreamExchange,
};
use saker_config::model::Member;
use saker_http::{RequestHead, Version};
use saker_pipeline::Chunk;
use std::{future::poll_fn, rc::Rc, sync::Arc, time::Duration};
use tokio::time::timeout;

const LATE: &str = "no answer in time";

/// An answer to a request of the server's own.
pub struct OwnAnswer {
    pub status: u16,
    /// Names in small letters.
    fields: Vec<(String, Vec<u8>)>,
    exchange: UpstreamExchange,
}

/// Sends a GET request to a member that speaks HTTP/1.1, and waits for the head of the answer.
///
/// # Errors
/// The reason why there is no answer.
pub async fn ask_member(
    member: &Member,
    target: &str,
    fields: &[(&str, &str)],
    silence_max: Duration,
) -> Result<OwnAnswer, String> {
    let asked = async {
        let pool = Rc::new(Pool::new(Arc::clone(&member.backend)));
        let context = ExchangeContext::new(Rc::default());
        let head = RequestHead::build("GET", target, Version::Http11, fields);
        let address = Address {
            target: target.as_bytes(),
            host: forward::authority(member),
            lines: forward::Lines::new(),
            blocks_via: false,
            upgrade: None,
        };
        let mut exchange =
            health::over_http1(&pool, &member.tuning, &head, address, &context).await?;
        loop {
            match poll_fn(|cx| exchange.poll_event(cx)).await? {
                UpstreamEvent::Head(head) | UpstreamEvent::Switched(head) => {
                    let fields = head.fields.iter();
                    let fields = fields
                        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_vec()))
                        .collect();
                    return Ok(OwnAnswer {
                        status: head.status.0,
                        fields,
                        exchange,
                    });
                }
                _ => {}
            }
        }
    };
    match timeout(silence_max, asked).await {
        Ok(answer) => answer.map_err(|failure: crate::Failure| failure.to_string()),
        Err(_) => Err(LATE.to_owned()),
    }
}

impl OwnAnswer {
    /// The value of a field of the head, if it is text. `name`: in small letters.
    pub fn field(&self, name: &str) -> Option<&str> {
        let (_, value) = self.fields.iter().find(|(own, _)| own == name)?;
        std::str::from_utf8(value).ok()
    }

    /// The next piece of the content; `None`: its end. May be called again after it was dropped
    /// while it waited.
    ///
    /// # Errors
    /// The answer was cut off, or there was nothing for longer than `silence_max`.
    pub async fn next(&mut self, silence_max: Duration) -> Result<Option<Chunk>, String> {
        let event = async {
            loop {
                match poll_fn(|cx| self.exchange.poll_event(cx)).await {
                    Ok(UpstreamEvent::Content(chunk)) => return Ok(Some(chunk)),
                    Ok(UpstreamEvent::End) => return Ok(None),
                    Ok(_) => {}
                    Err(failure) => return Err(failure.to_string()),
                }
            }
        };
        match timeout(silence_max, event).await {
            Ok(next) => next,
            Err(_) => Err(LATE.to_owned()),
        }
    }
}
