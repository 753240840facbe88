//! Values that a page uses: variables, times, sizes, expressions.

use crate::{
    content_filters::inside::Inside, facts::RequestFacts, includes::origin::Origin, look_ahead,
    time,
};
use saker_ap_expr::{Evaluation, Expression, ExpressionOptions, Facts};
use saker_ssi::{Lazy, Matched, SsiContext, Variables};
use saker_telemetry::{error_log, message};
use std::borrow::Cow;

/// The variables are taken from what the pages share as long as one of them goes on.
pub struct PageWorld<'p> {
    pub origin: &'p Origin,
    pub inside: &'p Inside,
    pub variables: Variables,
}

impl<'p> PageWorld<'p> {
    pub fn enter(origin: &'p Origin, inside: &'p Inside) -> PageWorld<'p> {
        PageWorld {
            origin,
            inside,
            variables: origin.shared.variables.take(),
        }
    }

    pub fn leave(self) {
        self.origin.shared.variables.replace(self.variables);
    }

    fn seen(&self) -> RequestFacts<'_> {
        let Origin {
            exchange,
            state,
            host,
            watcher,
            ..
        } = self.origin;
        RequestFacts {
            rules: Some((self.inside.rules(), host)),
            ..RequestFacts::new(exchange, state, host, watcher)
        }
    }
}

impl SsiContext for PageWorld<'_> {
    fn variables(&mut self) -> &mut Variables {
        &mut self.variables
    }

    fn lazy(&self, lazy: Lazy, format: &[u8]) -> Vec<u8> {
        let shared = &self.origin.shared;
        match lazy {
            Lazy::DateLocal => time::formatted(format, self.origin.exchange.now, false),
            Lazy::DateGmt => time::formatted(format, self.origin.exchange.now, true),
            Lazy::LastModified => time::formatted(format, shared.modified_s, false),
            Lazy::UserName => user_name(shared.owner).unwrap_or_else(|| b"<unknown>".to_vec()),
        }
    }

    fn time(&self, format: &[u8], unix_s: i64) -> Vec<u8> {
        time::formatted(format, unix_s, false)
    }

    fn short_size(&self, bytes: u64) -> Vec<u8> {
        crate::listing::page::short_size(bytes).into_bytes()
    }

    fn holds(
        &mut self,
        expression: &[u8],
        matched: &mut Matched,
        time_format: &[u8],
    ) -> Result<bool, String> {
        let options = ExpressionOptions {
            restricted: true,
            ..ExpressionOptions::default()
        };
        let compiled = Expression::compile(expression, options).map_err(|error| error.message)?;
        let seen = self.seen();
        let facts = InPage {
            seen: &seen,
            world: self,
            matched,
            time_format,
        };
        let mut evaluation = Evaluation::new(&facts);
        evaluation.backreferences = matched.0.clone();
        let holds = compiled
            .evaluate(&mut evaluation)
            .map_err(|error| error.message);
        let after = std::mem::take(&mut evaluation.backreferences);
        matched.0 = after;
        holds
    }

    fn is_accessible(&mut self, path: &[u8]) -> bool {
        let Origin {
            exchange,
            host,
            watcher,
            ..
        } = self.origin;
        look_ahead::by_path(self.inside.rules(), exchange, host, watcher, path)
            .is_ok_and(|ahead| ahead.status.0 < 400)
    }

    fn make(&mut self, bytes: usize) {
        self.look_at(bytes);
        self.origin.exchange.budget().work().make(bytes);
    }

    fn look_at(&mut self, bytes: usize) {
        self.origin.exchange.budget().work().look_at(bytes);
    }

    fn give_up(&mut self) {
        self.origin.exchange.budget().work().give_up();
    }

    fn is_exhausted(&self) -> bool {
        self.origin.exchange.budget().exceeded().is_some()
    }

    fn complain(&mut self, fault: String) {
        let file = String::from_utf8_lossy(&self.origin.state.filename);
        error_log::log_about(
            &message::INCLUDES,
            &self.origin.exchange,
            format_args!("{file}: {fault}"),
        );
    }
}

/// The owner of a file by name, as the system knows it.
fn user_name(uid: u32) -> Option<Vec<u8>> {
    let users = std::fs::read("/etc/passwd").ok()?;
    users.split(|byte| *byte == b'\n').find_map(|line| {
        let mut words = line.split(|byte| *byte == b':');
        let name = words.next()?;
        let number: u32 = std::str::from_utf8(words.nth(1)?).ok()?.parse().ok()?;
        (number == uid).then(|| name.to_vec())
    })
}

/// The facts of the request, with the page's variables for its environment.
struct InPage<'p> {
    seen: &'p RequestFacts<'p>,
    world: &'p PageWorld<'p>,
    matched: &'p Matched,
    time_format: &'p [u8],
}

impl Facts for InPage<'_> {
    fn beneath(&self) -> Option<&dyn Facts> {
        Some(self.seen)
    }

    fn environment(&self, name: &[u8]) -> Option<Cow<'_, [u8]>> {
        if let [digit @ b'0'..=b'9'] = name {
            return self.matched.group(*digit).map(Cow::Borrowed);
        }
        Some(match self.world.variables.value(name)? {
            saker_ssi::Value::Text(text) => Cow::Borrowed(text),
            saker_ssi::Value::Lazy(lazy) => Cow::Owned(self.world.lazy(*lazy, self.time_format)),
        })
    }
}
