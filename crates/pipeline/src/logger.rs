//! Loggers: the role that looks at requests and responses, and changes nothing.
//!
//! Called by: `respond` ([`Logger::response`]) and drivers ([`Logger::finished`]), through
//! [`Loggers`].
//! Caveat: most requests are answered from the route cache. A logger therefore names the sites that
//! it logs when the configuration is loaded, and other sites' requests cost one comparison.
//! Out of scope: counters by status, which drivers increment for all sites; records of failures,
//! which are written when a program or upstream fails (the error log, `script_log`).

use crate::{Client, Exchange, LogFacts, Response};
use saker_config::model::{CanonicalPort, Site, SiteName};
use saker_telemetry::access_log::{Needs, Record};
use std::{
    cell::{Cell, OnceCell},
    rc::Rc,
    sync::Arc,
};

/// A request whose response has ended.
pub struct FinishedRequest<'a> {
    /// Index of the site in the generation.
    pub site: usize,
    pub record: &'a Record<'a>,
    /// Facts from dispatch; `None` if the request was not dispatched, or no logger of the site
    /// needs them.
    pub facts: Option<&'a LogFacts>,
    pub client: &'a Client,
}

/// Looks at requests. A logger does not wait, owns nothing that it is shown, and cannot refuse or
/// change a response.
pub trait Logger {
    /// Returns the facts that [`Logger::finished`] reads; `None`: it is not called for the site.
    /// Called once per site, by its index, when a generation is loaded.
    fn needs(&self, _site: usize) -> Option<Needs> {
        None
    }

    /// Returns true if [`Logger::response`] is to be called. Called once, when a generation is
    /// loaded.
    fn wants_responses(&self) -> bool {
        false
    }

    /// Called for each dispatched request, before the filters: the response is as the content
    /// produced it. Not called for responses from the route cache.
    fn response(&self, _exchange: &Exchange, _response: &Response) {}

    /// Called once for each request to the site, whatever happened to it: after the last byte of
    /// the response is sent, or the connection is lost, or the request is refused before it was
    /// parsed. The record has what all loggers of the site need.
    fn finished(&self, _request: &FinishedRequest<'_>) {}

    /// Writes what has been gathered. Called once a second, and before a generation ends.
    fn flush(&self) {}
}

/// The loggers of a worker, in the order of the registry.
#[derive(Default)]
pub struct Loggers {
    all: Vec<Rc<dyn Logger>>,
    of_responses: Vec<Rc<dyn Logger>>,
    /// By index of the site; `None`: no logger logs it. Boxed, because most of many sites are not.
    sites: Vec<Option<Box<LoggedSite>>>,
    /// The same with the loggers that only run while an operator watches; made when one does.
    watched_sites: OnceCell<Vec<Option<Box<LoggedSite>>>>,
    watchers: Vec<Rc<dyn Logger>>,
    is_watched: Cell<bool>,
}

/// A site that is logged, and the facts about it that records have.
pub struct LoggedSite {
    pub needs: Needs,
    /// The name of the site (`%v`); empty if it has none.
    pub name: Box<str>,
    port: CanonicalPort,
    loggers: Vec<Rc<dyn Logger>>,
}

impl Loggers {
    /// Asks each logger what it needs of each site. `watchers` are asked too, and run only while
    /// [`Loggers::watch`] says so.
    pub fn new(
        sites: &[Arc<Site>],
        all: Vec<Rc<dyn Logger>>,
        watchers: Vec<Rc<dyn Logger>>,
    ) -> Loggers {
        let of_responses = all.iter().filter(|logger| logger.wants_responses());
        Loggers {
            of_responses: of_responses.cloned().collect(),
            sites: logged_sites(sites, &all),
            watched_sites: OnceCell::new(),
            watchers,
            is_watched: Cell::new(false),
            all,
        }
    }

    /// Returns a site that is logged; `None`: no logger logs it.
    pub fn site(&self, site: usize) -> Option<&LoggedSite> {
        let sites = match self.is_watched.get() {
            false => &self.sites,
            true => self.watched_sites.get()?,
        };
        sites.get(site)?.as_deref()
    }

    /// Switches the watchers on or off, from the next request on. `sites` are those that
    /// [`Loggers::new`] had.
    pub fn watch(&self, sites: &[Arc<Site>], is_on: bool) {
        let is_on = is_on && !self.watchers.is_empty();
        if is_on {
            self.watched_sites.get_or_init(|| {
                let all: Vec<_> = self.all.iter().chain(&self.watchers).cloned().collect();
                logged_sites(sites, &all)
            });
        }
        self.is_watched.set(is_on);
    }

    /// See [`Logger::response`].
    pub fn response(&self, exchange: &Exchange, response: &Response) {
        for logger in &self.of_responses {
            logger.response(exchange, response);
        }
    }

    /// See [`Logger::flush`].
    pub fn flush(&self) {
        for logger in &self.all {
            logger.flush();
        }
    }
}

fn logged_sites(sites: &[Arc<Site>], loggers: &[Rc<dyn Logger>]) -> Vec<Option<Box<LoggedSite>>> {
    let sites = sites.iter().enumerate();
    sites
        .map(|(index, site)| LoggedSite::new(index, site, loggers).map(Box::new))
        .collect()
}

impl LoggedSite {
    fn new(index: usize, site: &Site, all: &[Rc<dyn Logger>]) -> Option<LoggedSite> {
        let mut logged = LoggedSite {
            needs: Needs::default(),
            name: name_of(site).into(),
            port: site.canonical_port,
            loggers: Vec::new(),
        };
        for logger in all {
            if let Some(needs) = logger.needs(index) {
                logged.needs = logged.needs.and(needs);
                logged.loggers.push(Rc::clone(logger));
            }
        }
        (!logged.loggers.is_empty()).then_some(logged)
    }

    /// Returns the port of the site's canonical name, if it differs from the connection's.
    pub fn port(&self, is_secure: bool) -> Option<u16> {
        match self.port {
            CanonicalPort::Local => None,
            CanonicalPort::Scheme => Some(if is_secure { 443 } else { 80 }),
            CanonicalPort::Named(port) => Some(port),
        }
    }

    /// See [`Logger::finished`].
    pub fn finished(&self, request: &FinishedRequest<'_>) {
        for logger in &self.loggers {
            logger.finished(request);
        }
    }
}

/// The name of a site; empty without names of its own.
fn name_of(site: &Site) -> &str {
    if let Some(name) = &site.canonical_name {
        return name;
    }
    let exact = site.names.iter().find_map(|name| match name {
        SiteName::Exact(text) => Some(text.as_str()),
        _ => None,
    });
    let wildcard = || {
        site.names.iter().find_map(|name| match name {
            SiteName::Wildcard(text) => Some(text.as_str()),
            _ => None,
        })
    };
    exact.or_else(wildcard).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use saker_config::model::Origin;
    use std::cell::RefCell;

    /// Logs some sites, and writes its name into a common list.
    struct Named {
        name: &'static str,
        sites: &'static [usize],
        needs: Needs,
        seen: Rc<RefCell<Vec<String>>>,
    }

    impl Logger for Named {
        fn needs(&self, site: usize) -> Option<Needs> {
            self.sites.contains(&site).then_some(self.needs)
        }

        fn finished(&self, request: &FinishedRequest<'_>) {
            let entry = format!("{} {} {}", self.name, request.site, request.record.status);
            self.seen.borrow_mut().push(entry);
        }

        fn flush(&self) {
            self.seen.borrow_mut().push(format!("{} flush", self.name));
        }
    }

    #[test]
    fn a_site_has_its_loggers_in_order_and_what_all_of_them_need() {
        let seen = Rc::default();
        let named = |name, sites, needs| -> Rc<dyn Logger> {
            Rc::new(Named {
                name,
                sites,
                needs,
                seen: Rc::clone(&seen),
            })
        };
        let (duration, notes) = (
            Needs {
                duration: true,
                ..Needs::default()
            },
            Needs {
                notes: true,
                ..Needs::default()
            },
        );
        let sites: Vec<Arc<Site>> = (0..3)
            .map(|_| Arc::new(Site::new(Origin::built_in())))
            .collect();
        let all = vec![
            named("first", &[0, 1], duration),
            named("second", &[1], notes),
        ];
        let watchers = vec![named("watcher", &[1, 2], duration)];
        let loggers = Loggers::new(&sites, all, watchers);
        assert!(loggers.site(2).is_none() && loggers.site(3).is_none());
        let record = Record {
            status: 404,
            ..Record::default()
        };
        let address: std::net::SocketAddr = "192.0.2.1:1".parse().expect("an address");
        let listener = Arc::new(saker_config::model::Address::Tcp(address));
        let client = Client::new(address, address, listener, false);
        for site in [0, 1] {
            let logged = loggers.site(site).expect("logged");
            assert_eq!(logged.needs.walk_facts(), site == 1);
            assert!(logged.needs.duration);
            logged.finished(&FinishedRequest {
                site,
                record: &record,
                facts: None,
                client: &client,
            });
        }
        loggers.watch(&sites, true);
        let watched = loggers.site(2).expect("watched");
        watched.finished(&FinishedRequest {
            site: 2,
            record: &record,
            facts: None,
            client: &client,
        });
        loggers.watch(&sites, false);
        assert!(loggers.site(2).is_none());
        loggers.flush();
        assert_eq!(
            *seen.borrow(),
            [
                "first 0 404",
                "first 1 404",
                "second 1 404",
                "watcher 2 404",
                "first flush",
                "second flush"
            ]
        );
    }
}
