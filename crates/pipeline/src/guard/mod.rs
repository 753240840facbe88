//! Guards: what a site or route wants to know before it lets a request go on to its content.
//!
//! Place in the walk: behind the choice of the route, or, where another front-end's rules decide, once they know what is in force. What is
//! judged is in `saker_guard`; here it meets the exchange and becomes a response, a changed path, or a note for the way back up.
//! Whatever a guard looks at besides the path, it says so by [`Exchange::depends_on_request`]; where no guard is set, nothing is looked at.

mod links;

use crate::{Exchange, Response, Services, Verdict};
use saker_config::model::Refusal;
use saker_guard::{KeyRing, Remembered, Who};
use saker_http::{KnownField, Status};

/// Clients that have asked for a page that comes before downloads.
const TRIGGERS_MAX: usize = 1 << 18;

/// What guards of all cores know.
#[derive(Debug)]
pub struct GuardState {
    /// Of passes that clients carry.
    pub keys: KeyRing,
    /// Until when who may have the files of which rule.
    pub triggers: Remembered<(Who, u64), i64>,
}

impl Default for GuardState {
    fn default() -> Self {
        GuardState { keys: KeyRing::default(), triggers: Remembered::new(TRIGGERS_MAX) }
    }
}

/// What guards have to say on the response (see the filter of the same name in `handlers`).
#[derive(Clone, Debug, Default)]
pub struct Guarded {
    /// Values of Set-Cookie.
    pub cookies: Vec<Vec<u8>>,
    /// What is answered is for this referrer alone.
    pub by_referrer: bool,
    /// The path that a signature has opened.
    pub opened: Option<Vec<u8>>,
}

/// Asks the guards of the settings in force.
pub fn check(exchange: &mut Exchange, services: &Services) -> Verdict {
    if exchange.settings.links.is_idle() {
        return Verdict::Pass;
    }
    links::check(exchange, services)
}

impl Exchange {
    pub(crate) fn guarded(&mut self) -> &mut Guarded {
        self.guarded.get_or_insert_default()
    }
}

/// The first cookie of that name.
pub(crate) fn cookie<'e>(exchange: &'e Exchange, name: &str) -> Option<&'e [u8]> {
    let lines = exchange.head.view().lines(KnownField::Cookie);
    let mut pairs = lines.flat_map(|line| line.split(|byte| *byte == b';')).map(<[u8]>::trim_ascii);
    pairs.find_map(|pair| pair.strip_prefix(name.as_bytes())?.strip_prefix(b"="))
}

/// What a client hears, as its rule wants it.
pub(crate) fn refuse(exchange: &mut Exchange, refusal: &Refusal) -> Verdict {
    match refusal {
        Refusal::Status(status) => Verdict::Answer(Response::new(*status)),
        Refusal::Redirect(to) => {
            let mut response = Response::new(Status::FOUND);
            response.fields_mut().set("Location", to.clone().into_bytes());
            response.fields_mut().set("Cache-Control", &b"no-store"[..]);
            Verdict::Answer(response)
        }
        Refusal::Instead(path) => {
            (exchange.path, exchange.query) = (path.clone().into_bytes(), None);
            Verdict::Restart
        }
    }
}
