//! Rules about a head that is kept: everything in it follows from the resource, its response, and
//! the clock.
//!
//! Difficulty: it is laid over when the exchange is gone (a 304 is made when the first client asks
//! for one), so what it may be asked for is taken along: the environment always, the exchange only
//! where an expression may want it.

use crate::{
    facts::RequestFacts,
    response::{
        edits::{EditContext, Received},
        layers::{Layers, Way, content_lines},
        programs,
    },
    state::State,
};
use saker_ap_expr::Work;
use saker_apache_model::{
    dir_config::DirConfig,
    host::Host,
    modules::headers::{Value, When},
};
use saker_files::Watcher;
use saker_http::Fields;
use saker_pipeline::{Environment, Exchange, HeadEdits, HeadFacts, NoBody};
use std::{any::Any, rc::Rc, sync::Arc};

pub struct Kept {
    local: Arc<DirConfig>,
    host: Arc<Host>,
    environment: Environment,
    content: Vec<(Box<str>, Box<[u8]>)>,
    vary: Vec<String>,
    is_error_page: bool,
    is_of_program: bool,
    asked: Option<Box<Asked>>,
}

/// The request that it was made for, as far as it is the resource's.
struct Asked {
    exchange: Exchange,
    state: Rc<State>,
    watcher: Watcher,
}

impl Kept {
    pub fn new(
        exchange: &Exchange,
        own: Rc<State>,
        host: &Arc<Host>,
        watcher: &Watcher,
        local: &Arc<DirConfig>,
    ) -> Kept {
        let content = content_lines(&own);
        let vary = own.vary.clone();
        let is_error_page = own.is_error_page;
        let is_of_program = programs::asks_program(exchange, &own, host);
        let wants_more = local
            .headers
            .success
            .iter()
            .chain(&local.headers.always)
            .any(|edit| {
                matches!(edit.condition, When::Holds(_))
                    || matches!(edit.action.value(), Some(Value::Expression(_)))
            });
        let asked = wants_more.then(|| {
            Box::new(Asked {
                exchange: resource(exchange),
                state: own,
                watcher: watcher.clone(),
            })
        });
        Kept {
            local: Arc::clone(local),
            host: Arc::clone(host),
            environment: exchange.environment.clone(),
            content,
            vary,
            is_error_page,
            is_of_program,
            asked,
        }
    }
}

/// A copy without a body.
fn resource(exchange: &Exchange) -> Exchange {
    let mut copy = Exchange::new(
        exchange.client.clone(),
        exchange.head.clone(),
        Box::new(NoBody),
        Arc::clone(&exchange.routing.site),
        exchange.now,
    );
    copy.host.clone_from(&exchange.host);
    copy.path.clone_from(&exchange.path);
    copy.routing
        .path_info
        .clone_from(&exchange.routing.path_info);
    copy.environment = exchange.environment.clone();
    copy.routing.handler.clone_from(&exchange.routing.handler);
    copy.routing.site_index = exchange.routing.site_index;
    copy
}

impl HeadEdits for Kept {
    fn apply(&self, head: &HeadFacts, fields: &mut Fields) {
        let layers = Layers {
            is_of_program: self.is_of_program,
            local: &self.local,
            defaults: &self.host.defaults,
            always: &[],
            content: &self.content,
            vary: &self.vary,
        };
        let (received, work) = (Received::now(), Work::default());
        match &self.asked {
            None => layers.lay(
                Way::Content,
                head,
                &EditContext {
                    facts: &self.environment,
                    received,
                    request: &[],
                    work: &work,
                },
                fields,
            ),
            Some(asked) => {
                let seen =
                    RequestFacts::new(&asked.exchange, &asked.state, &self.host, &asked.watcher);
                layers.lay(
                    Way::Content,
                    head,
                    &EditContext {
                        facts: &seen,
                        received,
                        request: &[],
                        work: &work,
                    },
                    fields,
                );
            }
        }
    }

    fn changes_with_time(&self) -> bool {
        self.local.expires.is_active()
    }

    fn describes_unmodified(&self) -> bool {
        true
    }

    fn is_same(&self, other: &dyn HeadEdits) -> bool {
        let Some(other) = other.as_any().downcast_ref::<Kept>() else {
            return false;
        };
        let same_place = match (&self.asked, &other.asked) {
            (None, None) => true,
            (Some(one), Some(other)) => {
                (&one.exchange.path, &one.exchange.host)
                    == (&other.exchange.path, &other.exchange.host)
            }
            _ => false,
        };
        Arc::ptr_eq(&self.local, &other.local)
            && Arc::ptr_eq(&self.host, &other.host)
            && self.environment == other.environment
            && self.content == other.content
            && self.vary == other.vary
            && self.is_error_page == other.is_error_page
            && self.is_of_program == other.is_of_program
            && same_place
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// The head as the handler makes it: what the rules say comes on the way up.
pub struct Later;

impl HeadEdits for Later {
    fn apply(&self, _: &HeadFacts, _: &mut Fields) {}

    fn changes_with_time(&self) -> bool {
        false
    }

    fn describes_unmodified(&self) -> bool {
        true
    }

    fn is_same(&self, other: &dyn HeadEdits) -> bool {
        other.as_any().is::<Later>()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
