//! What an exchange tells logs besides its answer: made once, when a log wants to know, and kept
//! with an outcome that is kept.
//!
//! Difficulty: rules lead requests elsewhere, and error pages stand in for answers. Some items of a
//! line are about the request as it was at first, the others about what answered in the end (httpd
//! 2.4, mod_log_config, "Modifiers").

use crate::{Environment, Exchange};
use saker_telemetry::error_log::LogId;
use std::rc::Rc;

/// A request before rules led it elsewhere for the first time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct First {
    pub path: Box<[u8]>,
    /// As rules had left it by then.
    pub query: Option<Box<[u8]>>,
    pub environment: Environment,
}

/// The page that stands in for an answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StandIn {
    path: Box<[u8]>,
    query: Option<Box<[u8]>>,
    file: Option<Box<[u8]>>,
    environment: Environment,
}

#[derive(Clone, Debug, Default)]
pub struct LogFacts {
    /// Before any detour.
    pub path: Box<[u8]>,
    pub final_path: Box<[u8]>,
    /// Before any detour, where it is not the one that was asked with.
    pub first_query: Option<Option<Box<[u8]>>>,
    /// In the end, where it is not the one that was asked with; without its question mark.
    pub query: Option<Option<Box<[u8]>>>,
    pub file: Option<Box<[u8]>>,
    pub handler: Box<str>,
    /// Of the request as it was at first, where that was another one: conditions are about it.
    pub first_environment: Option<Environment>,
    pub environment: Environment,
    pub notes: Environment,
    /// Rules have led it elsewhere.
    pub is_redirected: bool,
    pub rules: LogRules,
    /// Of lines about it in the error log.
    pub log_id: Rc<LogId>,
}

/// What rules want of the lines about one exchange.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogRules {
    /// By the number of the condition.
    pub decisions: Vec<bool>,
    /// The time to the first byte is not told.
    pub hides_first_byte: bool,
    /// The site goes by its own name, whatever it was called.
    pub is_canonical: bool,
}

impl StandIn {
    pub fn of(page: &Exchange) -> StandIn {
        StandIn {
            path: page.path.as_slice().into(),
            query: page.query.as_deref().map(Into::into),
            file: file(page),
            environment: page.environment.clone(),
        }
    }
}

impl StandIn {
    pub fn path(&self) -> &[u8] {
        &self.path
    }

    pub fn query(&self) -> Option<&[u8]> {
        self.query.as_deref()
    }

    pub fn environment(&self) -> &Environment {
        &self.environment
    }
}

impl LogFacts {
    pub fn of(exchange: &Exchange) -> LogFacts {
        let own = || StandIn::of(exchange);
        let last = exchange.stand_in.as_deref().cloned().unwrap_or_else(own);
        let first = exchange.first.as_deref();
        let differs = first.is_some() || exchange.stand_in.is_some();
        LogFacts {
            path: first.map_or_else(
                || exchange.path.as_slice().into(),
                |first| first.path.clone(),
            ),
            final_path: last.path,
            first_query: first.map(|first| first.query.clone()),
            query: (last.query.as_deref() != asked_query(exchange)).then_some(last.query),
            file: last.file,
            // As Apache calls what leads elsewhere.
            handler: if first.is_some() {
                "redirect-handler".into()
            } else {
                exchange.handler.clone().unwrap_or_default()
            },
            first_environment: differs.then(|| {
                first
                    .map_or(&exchange.environment, |first| &first.environment)
                    .clone()
            }),
            environment: last.environment,
            notes: exchange.notes.clone(),
            is_redirected: first.is_some(),
            rules: exchange.log_rules.clone(),
            log_id: Rc::clone(&exchange.log_id),
        }
    }

    /// The same of another request that is answered alike, of which nothing has been told.
    pub fn of_another(&self) -> LogFacts {
        LogFacts {
            log_id: Rc::default(),
            ..self.clone()
        }
    }

    /// Whether the request had a variable before any detour.
    pub fn has_variable(&self, name: &str) -> bool {
        self.first_environment
            .as_ref()
            .unwrap_or(&self.environment)
            .first_in_any_case(name.as_bytes())
            .is_some()
    }
}

fn asked_query(exchange: &Exchange) -> Option<&[u8]> {
    let target = exchange.head.view().target();
    target
        .iter()
        .position(|byte| *byte == b'?')
        .and_then(|at| target.get(at + 1..))
}

fn file(exchange: &Exchange) -> Option<Box<[u8]>> {
    exchange
        .mapped
        .as_ref()
        .map(|mapped| mapped.filename().into())
}
