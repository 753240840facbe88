//! Guards: what a site or route wants to know before it lets a request go on to its content.
//!
//! Place in the walk: behind the choice of the route, or, where another front-end's rules decide,
//! once they know what is in force. What is judged is in `saker_abuse`; here it meets the exchange
//! and becomes a response, a changed path, or a note for the way back up. Whatever a guard looks at
//! besides the path, it says so by [`Exchange::depends_on_request`]; where no guard is set, nothing
//! is looked at.

pub(crate) mod challenge;
mod links;
pub mod login;
mod robots;

pub use login::{Attempt, LoginTable};
pub use robots::{Confirmed, NameServer, NameTable};

use crate::{
    Exchange, Response, Services, Verdict,
    throttle::{self, Account, Admission, Over, requests},
};
use saker_abuse::{KeyRing, Remembered, Who};
use saker_config::model::{Consequence, Refusal, Visitors};
use saker_http::{KnownField, Status};
use std::sync::Arc;

/// Clients that have asked for a page that comes before downloads.
const TRIGGERS_MAX: usize = 1 << 18;
/// Clients that have tried to log in.
const LOGINS_MAX: usize = 1 << 17;
/// Addresses that said to be robots.
const NAMES_MAX: usize = 1 << 15;
/// Passes under a request rate.
const PASSES_MAX: usize = 1 << 16;
/// When to ask again, where nothing else says so.
const RETRY_AFTER_S: u64 = 10;

/// What guards of all cores know.
#[derive(Debug)]
pub struct GuardState {
    /// Of passes that clients carry.
    pub keys: KeyRing,
    /// Until when who may have the files of which rule.
    pub triggers: Remembered<(Who, u64), i64>,
    pub logins: LoginTable,
    pub names: NameTable,
    /// What holders of passes have used of request rates.
    pub passes: Remembered<Vec<u8>, Arc<Account>>,
}

impl Default for GuardState {
    fn default() -> Self {
        GuardState {
            keys: KeyRing::default(),
            triggers: Remembered::new(TRIGGERS_MAX),
            logins: Remembered::new(LOGINS_MAX),
            names: Remembered::new(NAMES_MAX),
            passes: Remembered::new(PASSES_MAX),
        }
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
    /// A pass that was given with this response.
    pub pass: Option<Vec<u8>>,
    /// At somebody's password.
    pub attempt: Option<Attempt>,
    /// A robot that is whom it says.
    pub is_robot: bool,
    /// A name server was asked about it.
    pub has_asked: bool,
}

/// Asks the guards of the settings in force.
pub fn check(exchange: &mut Exchange, services: &Services) -> Verdict {
    let is_idle = exchange.settings.links.is_idle() && exchange.settings.visitors.is_idle();
    if is_idle || exchange.stands_in_for.is_some() {
        return Verdict::Pass;
    }
    match visitor(exchange, services) {
        Verdict::Pass => links::check(exchange, services),
        other => other,
    }
}

fn visitor(exchange: &mut Exchange, services: &Services) -> Verdict {
    let Visitors {
        challenge,
        logins,
        robots,
    } = exchange.settings.visitors.clone();
    if let Some(rule) = robots {
        match robots::check(exchange, services, &rule) {
            Verdict::Pass => {}
            other => return other,
        }
    }
    if let Some(rule) = challenge.filter(|rule| rule.always && !is_for_robots(&exchange.path))
        && !is_robot(exchange)
        && !challenge::has_passed(exchange, &services.guard, &rule)
    {
        return Verdict::Answer(challenge::page(
            exchange,
            &services.guard,
            &rule,
            RETRY_AFTER_S,
        ));
    }
    logins.map_or(Verdict::Pass, |rule| {
        login::check(exchange, services, &rule)
    })
}

/// Asks those of the guards once more that judge by what is asked in the end: the file that a path
/// has turned out to be, or another server's path. `Some`: the answer in place of it.
pub(crate) async fn check_program(
    exchange: &mut Exchange,
    services: &Services,
) -> Option<Response> {
    let rule = exchange.settings.visitors.logins.clone()?;
    if exchange.stands_in_for.is_some() {
        return None;
    }
    match login::check(exchange, services, &rule) {
        Verdict::Answer(response) => Some(response),
        Verdict::Wait(pause) => {
            pause.await;
            None
        }
        Verdict::Pass | Verdict::Restart => None,
    }
}

/// What programs look for that nobody could have do any work.
pub(crate) fn is_for_robots(path: &[u8]) -> bool {
    path == b"/robots.txt" || path.starts_with(b"/.well-known/")
}

pub(crate) fn is_robot(exchange: &Exchange) -> bool {
    exchange
        .guarded
        .as_ref()
        .is_some_and(|guarded| guarded.is_robot)
}

/// For a client that is over its request rate, what it may do about it. `None`: nothing.
pub(crate) fn over_rate(
    exchange: &mut Exchange,
    services: &Services,
    over: Over,
) -> Option<Result<Admission, Response>> {
    if over.consequence != Consequence::Challenge && exchange.settings.visitors.challenge.is_none()
    {
        return None;
    }
    let rule = challenge::rule(exchange);
    if !challenge::has_passed(exchange, &services.guard, &rule) {
        return Some(Err(meet(
            exchange,
            services,
            Over {
                consequence: Consequence::Challenge,
                ..over
            },
        )));
    }
    let rate = exchange.settings.throttle.static_requests?;
    // Each pass is worth the rate once more, so that those who share an address don't share that.
    let account =
        services
            .guard
            .passes
            .change(challenge::pass_of(exchange), Arc::default, |account| {
                Arc::clone(account)
            });
    match requests::admit(&account, &rate, (services.now_ns)()) {
        Admission::Refuse { .. } => None,
        admitted => Some(Ok(admitted)),
    }
}

/// Whether the client has done the work that is asked for here.
pub(crate) fn has_worked(exchange: &mut Exchange, services: &Services) -> bool {
    let rule = challenge::rule(exchange);
    challenge::has_passed(exchange, &services.guard, &rule)
}

pub(crate) fn meet(exchange: &mut Exchange, services: &Services, over: Over) -> Response {
    throttle::meet(
        exchange,
        &services.generation,
        &services.neighbours,
        &services.guard,
        (services.now_ns)(),
        over,
    )
}

impl Exchange {
    pub(crate) fn guarded(&mut self) -> &mut Guarded {
        self.guarded.get_or_insert_default()
    }
}

/// The first cookie of that name.
pub(crate) fn cookie<'e>(exchange: &'e Exchange, name: &str) -> Option<&'e [u8]> {
    let lines = exchange.head.view().lines(KnownField::Cookie);
    let mut pairs = lines
        .flat_map(|line| line.split(|byte| *byte == b';'))
        .map(<[u8]>::trim_ascii);
    pairs.find_map(|pair| pair.strip_prefix(name.as_bytes())?.strip_prefix(b"="))
}

/// What a client hears, as its rule wants it.
pub(crate) fn refuse(exchange: &mut Exchange, refusal: &Refusal) -> Verdict {
    match refusal {
        Refusal::Status(status) => Verdict::Answer(Response::new(*status)),
        Refusal::Redirect(to) => {
            let mut response = Response::new(Status::FOUND);
            response
                .fields_mut()
                .set("Location", to.clone().into_bytes());
            response.fields_mut().set("Cache-Control", &b"no-store"[..]);
            Verdict::Answer(response)
        }
        Refusal::Instead(path) => {
            (exchange.path, exchange.query) = (path.clone().into_bytes(), None);
            Verdict::Restart
        }
    }
}
