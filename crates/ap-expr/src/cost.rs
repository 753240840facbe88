//! The cost of rules and expressions by what they read: whether their outcomes can be cached.
//!
//! Called by: `saker check --cost`, through the crates of the rules.
//! Caveat: an estimate from the text; what a request really depends on is recorded while it is
//! evaluated ([`crate::Dependencies`]).
//! Out of scope: texts that are put together only when they are evaluated.

use crate::{Dependency, RequestPart, Variable};

/// Dependencies of an outcome that come from one line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    conditions: Vec<RequestPart>,
    reasons: Vec<String>,
}

impl Cost {
    /// The parts of a request by which outcomes are cached.
    pub fn conditions(&self) -> &[RequestPart] {
        &self.conditions
    }

    /// The reasons why outcomes are not cached.
    pub fn reasons(&self) -> &[String] {
        &self.reasons
    }

    pub fn condition(&mut self, part: RequestPart) {
        if !self.conditions.contains(&part) {
            self.conditions.push(part);
        }
    }

    pub fn dispatch(&mut self, reason: &str) {
        if !self.reasons.iter().any(|known| known == reason) {
            self.reasons.push(reason.to_owned());
        }
    }

    pub fn add(&mut self, other: Cost) {
        for part in other.conditions {
            self.condition(part);
        }
        for reason in other.reasons {
            self.dispatch(&reason);
        }
    }

    /// Adds the cost of reading a variable.
    pub fn variable(&mut self, variable: Variable) {
        use Dependency::*;
        let row = variable.row();
        if let Some(part) = variable.part() {
            return self.condition(part);
        }
        match row.depends {
            Configuration | Path | Host | Files | Environment => {}
            // `Host`, by which every outcome is cached.
            RequestFields => {}
            Scheme => self.condition(RequestPart::Secure),
            Time => self.dispatch("reads the time"),
            User => self.dispatch("reads the authenticated user"),
            _ => self.dispatch(&format!("reads `{}`", row.name)),
        }
    }
}

/// Returns the cost of an expression by its text.
pub fn expression_cost(text: &[u8]) -> Cost {
    let text = String::from_utf8_lossy(text);
    let mut cost = Cost::default();
    for after in text.split("%{").skip(1) {
        let name = after.split('}').next().unwrap_or_default();
        let (name, argument) = name
            .split_once(':')
            .map_or((name, None), |(name, argument)| {
                (name, Some(argument.trim_matches(['\'', '"'])))
            });
        match argument {
            Some(argument) => call(name, argument, &mut cost),
            None => {
                if let Some(row) = Variable::from_name(name.as_bytes()) {
                    cost.variable(row.variable);
                } else if name.to_ascii_uppercase().starts_with("SSL_") {
                    cost.dispatch(&format!("reads the TLS variable `{name}`"));
                }
            }
        }
    }
    for (at, _) in text.match_indices('(') {
        let (before, after) = text.split_at(at);
        let start = before
            .rfind(|c: char| !c.is_ascii_alphanumeric() && c != '_')
            .map_or(0, |at| at + 1);
        let argument = after
            .trim_start_matches(['(', ' '])
            .strip_prefix(['\'', '"'])
            .and_then(|rest| rest.split(['\'', '"']).next());
        call(
            before.get(start..).unwrap_or_default(),
            argument.unwrap_or_default(),
            &mut cost,
        );
    }
    for word in text.split_ascii_whitespace() {
        match word {
            "-R" => cost.condition(RequestPart::ClientAddress),
            "-U" | "-F" | "-A" => cost.dispatch(&format!("makes a subrequest (`{word}`)")),
            _ => {}
        }
    }
    cost
}

fn call(function: &str, argument: &str, cost: &mut Cost) {
    match &*function.to_ascii_lowercase() {
        "req" | "http" | "req_novary" => {
            if let Some(part) = RequestPart::of_field(argument.as_bytes()) {
                cost.condition(part);
            }
        }
        "resp" => cost.dispatch("reads the response"),
        "peerextlist" => cost.dispatch("reads the client's certificate"),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions() {
        let of = |text: &str| {
            let cost = expression_cost(text.as_bytes());
            let parts: Vec<String> = cost.conditions().iter().map(ToString::to_string).collect();
            (parts.join(", "), cost.reasons().join(", "))
        };
        let expected = |parts: &str, reasons: &str| (parts.to_owned(), reasons.to_owned());
        assert_eq!(
            of("%{HTTP_USER_AGENT} =~ /bot/ || tolower(req('X-Tag')) == 'two'"),
            expected("the field `user-agent`, the field `x-tag`", "")
        );
        assert_eq!(of("-R '10.0.0.0/8'"), expected("the client address", ""));
        assert_eq!(of("-f %{REQUEST_FILENAME}"), expected("", ""));
        assert_eq!(
            of("%{TIME_HOUR} -gt 8 && %{REMOTE_USER} != ''"),
            expected("", "reads the time, reads the authenticated user")
        );
        assert_eq!(of("-U '/x'"), expected("", "makes a subrequest (`-U`)"));
        assert_eq!(
            of("%{SSL_PROTOCOL} == 'TLSv1'"),
            expected("", "reads the TLS variable `SSL_PROTOCOL`")
        );
        assert_eq!(
            of("%{req:Accept} == ''"),
            expected("the field `accept`", "")
        );
    }
}
