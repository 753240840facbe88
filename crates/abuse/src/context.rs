//! State of the abuse rules for one request, and the fields they add to its response.
//!
//! Called by: every rule of this crate; the filters write it onto the response.
//! Caveat: created when a rule first needs it; a request under no rule has none.
//! Out of scope: state that outlives the request (`state`).

use crate::attempt::Attempt;
use saker_pipeline::Exchange;

/// Kept in the exchange's extensions.
#[derive(Clone, Debug, Default)]
pub struct AbuseContext {
    /// Values of Set-Cookie.
    pub cookies: Vec<Vec<u8>>,
    /// Hotlink protection refused the referrer: the answer is for this referrer alone.
    pub by_referrer: bool,
    /// The path that a signature has opened.
    pub opened: Option<Vec<u8>>,
    /// A clearance that was granted with this response.
    pub clearance: Option<Vec<u8>>,
    /// A login attempt in progress.
    pub attempt: Option<Attempt>,
    /// A verified bot.
    pub is_bot: bool,
    /// The name server was asked about it.
    pub has_asked: bool,
}

/// The context of the request, made if there is none.
pub fn context(exchange: &mut Exchange) -> &mut AbuseContext {
    exchange.extensions.get_or_default()
}

/// The context of the request, if a rule has made one.
pub fn known(exchange: &Exchange) -> Option<&AbuseContext> {
    exchange.extensions.get()
}

/// The client is a verified bot.
pub fn is_bot(exchange: &Exchange) -> bool {
    known(exchange).is_some_and(|context| context.is_bot)
}

/// Paths that programs request, which solve no challenge.
pub fn is_for_bots(path: &[u8]) -> bool {
    path == b"/robots.txt" || path.starts_with(b"/.well-known/")
}

/// The first cookie of that name.
pub fn cookie<'e>(exchange: &'e Exchange, name: &str) -> Option<&'e [u8]> {
    exchange.head.view().cookie(name.as_bytes())
}
