//! Runs a list of rules, from the top to its end.
//!
//! Called by: both hooks.
//! Caveat: operators rely on httpd's order within one rule (match, conditions, expansion, effects,
//! prefix, query, proxy, redirect, reduction).
//! Out of scope: the result as a whole; that is up to the hooks.

use super::{Run, Shown, default_port};
use crate::{rule::Rule, uri};
use saker_ap_expr::{Dependency, Variable};
use std::sync::Arc;

/// Outcome of a list of rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Listed {
    /// No substitution.
    Unchanged,
    Changed {
        /// `[NE]`
        no_escape: bool,
    },
    /// The request ends with this status.
    Status(u16),
}

/// Result of a list.
pub(super) struct Ran {
    pub listed: Listed,
    /// Status of a redirect requested by a rule.
    pub redirect: Option<u16>,
    /// The last rule that substituted something.
    pub last: Option<Arc<Rule>>,
    /// `[PT]`
    pub pass_through: bool,
    /// `[P]`
    pub proxy: bool,
    /// The result was a URL of this server.
    pub reduced: bool,
}

#[derive(PartialEq, Eq)]
enum Applied {
    NoMatch,
    /// Matched, and nothing was substituted.
    NoSubstitution,
    Substituted,
    Refused(u16),
}

enum Next {
    Rule(usize),
    Again,
    End,
    Fail(u16),
}

impl Run<'_> {
    pub(super) fn run_list(&mut self, rules: &[Arc<Rule>]) -> Ran {
        let mut ran = Ran {
            listed: Listed::Unchanged,
            redirect: None,
            last: None,
            pass_through: false,
            proxy: false,
            reduced: false,
        };
        let (mut at, mut round) = (0, 1);
        while let Some(rule) = rules.get(at) {
            if self.input.is_subrequest && (rule.flags.no_subrequest || rule.flags.redirect) {
                at += 1;
                continue;
            }
            match self.one(rule, rules, at, &mut round, &mut ran) {
                Next::Rule(next) => at = next,
                Next::Again => at = 0,
                Next::End => break,
                Next::Fail(status) => {
                    ran.listed = Listed::Status(status);
                    break;
                }
            }
            if self.is_exhausted() {
                self.complain(
                    "",
                    format!(
                        "rewriting of URI '{}' took too many steps",
                        Shown(self.input.uri)
                    ),
                );
                ran.listed = Listed::Status(500);
                break;
            }
        }
        ran
    }

    fn one(
        &mut self,
        rule: &Arc<Rule>,
        rules: &[Arc<Rule>],
        at: usize,
        round: &mut u32,
        ran: &mut Ran,
    ) -> Next {
        self.vary.clear();
        let applied = self.apply(rule, ran);
        self.note_cause(rule.line.as_ref());
        if applied == Applied::NoMatch {
            // The rest of the chain is skipped, its last rule too.
            let chained = rules[at..]
                .iter()
                .take_while(|rule| rule.flags.chain)
                .count();
            return Next::Rule(at + chained + 1);
        }
        if self.input.trace_level > 0 {
            self.last_line.clone_from(&rule.line);
        }
        if !rule.flags.no_substitution {
            self.trace(2, true, |_| {
                format!(
                    "setting lastsub to rule with output {}",
                    Shown(&rule.output)
                )
            });
            ran.last = Some(Arc::clone(rule));
        }
        let max = 2 * self.input.line_bytes_max;
        if self.filename.len() > max {
            let (pattern, uri) = (Shown(rule.pattern.text()), Shown(self.input.uri));
            self.complain(
                "",
                format!("RewriteRule '{pattern}' and URI '{uri}' exceeded maximum length ({max})"),
            );
            return Next::Fail(500);
        }
        self.keep_vary();
        match applied {
            Applied::Refused(status) => return Next::Fail(status),
            _ if rule.flags.status_only => return Next::Fail(rule.flags.status),
            Applied::Substituted => {
                ran.listed = Listed::Changed {
                    no_escape: rule.flags.no_escape,
                }
            }
            _ => {}
        }
        self.behind(rule, at, round, ran)
    }

    /// Returns the index of the next rule after a match.
    fn behind(&mut self, rule: &Rule, at: usize, round: &mut u32, ran: &mut Ran) -> Next {
        let flags = &rule.flags;
        if flags.pass_through {
            self.trace(2, true, |run| {
                format!(
                    "forcing '{}' to get passed through to next API URI-to-filename handler",
                    Shown(&run.filename)
                )
            });
            ran.pass_through = true;
            ran.listed = Listed::Changed { no_escape: false };
            return Next::End;
        }
        if flags.end {
            self.trace(8, true, |_| {
                "Rule has END flag, no further rewriting for this request".to_owned()
            });
            self.effects.end = true;
            return Next::End;
        }
        if flags.proxy || flags.last {
            return Next::End;
        }
        if flags.next {
            *round += 1;
            if *round >= flags.rounds_max {
                let (pattern, uri) = (Shown(rule.pattern.text()), Shown(self.input.uri));
                let text = format!(
                    "RewriteRule '{pattern}' and URI '{uri}' exceeded maximum number of rounds ({}) via the [N] flag",
                    flags.rounds_max
                );
                self.complain("AH02596", text);
                return Next::Fail(500);
            }
            return Next::Again;
        }
        Next::Rule(at.saturating_add(flags.skip).saturating_add(1))
    }

    fn apply(&mut self, rule: &Rule, ran: &mut Ran) -> Applied {
        self.subject.clone_from(&self.filename);
        if self.directory.is_some() {
            self.inside_directory();
        }
        self.trace(3, true, |run| {
            format!(
                "applying pattern '{}' to uri '{}'",
                Shown(rule.pattern.text()),
                Shown(&run.subject)
            )
        });
        if !self.matches(rule) || !self.conditions_met(rule) {
            return Applied::NoMatch;
        }
        let mut substituted = None;
        if !rule.flags.no_substitution {
            let (text, is_unsafe) = self.expand_substitution(&rule.substitution, &rule.flags);
            self.trace(2, true, |run| {
                format!("rewrite '{}' -> '{}'", Shown(&run.subject), Shown(&text))
            });
            if is_unsafe {
                self.complain(
                    "AH10508",
                    "Unsafe URL with %3f URL rewritten without UnsafeAllow3F".to_owned(),
                );
                return Applied::Refused(403);
            }
            substituted = Some(text);
        }
        self.set_environment(rule);
        self.set_cookies(rule);
        let Some(text) = substituted else {
            self.force_type_and_handler(rule);
            if rule.flags.status_only {
                let status = rule.flags.status;
                self.trace(2, true, |run| {
                    format!("forcing responsecode {status} for {}", Shown(&run.filename))
                });
            }
            return Applied::NoSubstitution;
        };
        self.substitute(rule, text, ran);
        Applied::Substituted
    }

    /// In a directory, rules see the path below it, including the path after the file.
    fn inside_directory(&mut self) {
        let path_info = if self.discard_path_info {
            b""
        } else {
            self.input.path_info
        };
        if !path_info.is_empty() {
            self.trace(3, true, |run| {
                format!(
                    "add path info postfix: {0} -> {0}{1}",
                    Shown(&run.subject),
                    Shown(path_info)
                )
            });
            self.subject.extend_from_slice(path_info);
        }
        let Some(directory) = self
            .directory
            .filter(|directory| self.subject.starts_with(directory))
        else {
            return;
        };
        self.trace(3, true, |run| {
            let (whole, rest) = (Shown(&run.subject), Shown(&run.subject[directory.len()..]));
            format!("strip per-dir prefix: {whole} -> {rest}")
        });
        self.subject.drain(..directory.len());
    }

    fn matches(&mut self, rule: &Rule) -> bool {
        self.spend(self.subject.len());
        self.dependencies.add(Dependency::Path);
        let subject = std::mem::take(&mut self.subject);
        let found = self.captures(&rule.pattern, &subject);
        self.subject = subject;
        let found = match found {
            Ok(found) => found,
            Err(_) => {
                self.gave_up(rule.pattern.text());
                None
            }
        };
        if found.is_some() == rule.negated {
            return false;
        }
        self.vary_now.clear();
        self.condition_groups.clear();
        match found {
            Some(spans) => self.rule_groups.set(&self.subject, spans),
            None => self.rule_groups.clear(),
        }
        true
    }

    fn conditions_met(&mut self, rule: &Rule) -> bool {
        let mut conditions = rule.conditions.iter();
        while let Some(condition) = conditions.next() {
            let met = self.is_met(condition);
            self.note_cause(condition.line.as_ref());
            if condition.no_vary || condition.or_next && !met {
                self.vary_now.clear();
            }
            if condition.or_next {
                if !met {
                    continue;
                }
                // The rest of the alternatives, the last included.
                let mut rest = conditions.as_slice().iter();
                while rest.next().is_some_and(|alternative| alternative.or_next) {}
                let left = rest.as_slice().len();
                let skipped = conditions.as_slice().len() - left;
                conditions = conditions.as_slice()[skipped..].iter();
            } else if !met {
                return false;
            }
            self.vary.append(&mut self.vary_now);
        }
        true
    }

    /// The new text takes its place.
    fn substitute(&mut self, rule: &Rule, text: Vec<u8>, ran: &mut Ran) {
        let flags = &rule.flags;
        self.filename = text;
        let prefixed = self.add_prefix(rule);
        if self.directory.is_some() && flags.discard_path_info {
            self.discard_path_info = true;
        }
        self.split_query(rule);
        (ran.proxy, ran.redirect) = (false, None);
        if flags.proxy {
            self.qualify();
            self.trace(2, true, |run| {
                format!("forcing proxy-throughput with {}", Shown(&run.filename))
            });
            ran.proxy = true;
            return;
        }
        if flags.redirect {
            self.qualify();
            self.trace(2, true, |run| {
                format!("explicitly forcing redirect with {}", Shown(&run.filename))
            });
            ran.redirect = Some(flags.status);
            return;
        }
        ran.reduced |= self.reduce();
        if uri::scheme(&self.filename).is_some() {
            let status = flags.status;
            self.trace(2, true, |run| {
                format!(
                    "implicitly forcing redirect (rc={status} with {}",
                    Shown(&run.filename)
                )
            });
            ran.redirect = Some(status);
            return;
        }
        // Slashes that came with groups are one; those that were written stay.
        if !prefixed && !rule.output.starts_with(b"//") {
            let extra = self
                .filename
                .iter()
                .take_while(|byte| **byte == b'/')
                .count()
                .saturating_sub(1);
            self.filename.drain(..extra);
        }
        self.force_type_and_handler(rule);
    }

    /// A relative path belongs to the directory, or to the root.
    fn add_prefix(&mut self, rule: &Rule) -> bool {
        if self.filename.first() == Some(&b'/') || uri::scheme(&self.filename).is_some() {
            return false;
        }
        let prefix: &[u8] = match self.directory {
            Some(directory) => directory,
            None if rule.flags.proxy || rule.flags.redirect => return false,
            None => b"/",
        };
        let what = if self.directory.is_some() {
            "per-dir"
        } else {
            "root"
        };
        self.trace(3, true, |run| {
            format!(
                "add {what} prefix: {0} -> {1}{0}",
                Shown(&run.filename),
                Shown(prefix)
            )
        });
        self.filename.splice(..0, prefix.iter().copied());
        true
    }

    fn split_query(&mut self, rule: &Rule) {
        let flags = &rule.flags;
        let scheme = uri::scheme(&self.filename);
        self.has_written_query |= flags.query_none || flags.query_discard;
        if flags.query_none {
            self.trace(2, false, |_| {
                "discarding query string, no parse from substitution".to_owned()
            });
            self.query = None;
            return;
        }
        if scheme.is_some_and(|scheme| !scheme.has_query) {
            self.has_written_query = true;
            self.query = None;
            return;
        }
        if flags.query_discard {
            self.query = None;
            self.trace(2, false, |_| "discarding query string".to_owned());
        }
        let skip = scheme.map_or(0, |scheme| scheme.length);
        let behind = &self.filename[skip..];
        let mark = |byte: &u8| *byte == b'?';
        let Some(at) = (if flags.query_last {
            behind.iter().rposition(mark)
        } else {
            behind.iter().position(mark)
        }) else {
            return;
        };
        let whole = if self.input.trace_level >= 3 {
            self.filename.clone()
        } else {
            Vec::new()
        };
        let mut query = self.filename.split_off(skip + at);
        query.remove(0);
        self.join_query(query, flags.query_append);
        self.trace(3, false, |run| {
            let query = run
                .query
                .as_deref()
                .map_or("<none>".to_owned(), |query| Shown(query).to_string());
            format!(
                "split uri={} -> uri={}, args={query}",
                Shown(&whole),
                Shown(&run.filename)
            )
        });
    }

    fn join_query(&mut self, mut query: Vec<u8>, append: bool) {
        self.has_written_query = true;
        if append && query.is_empty() {
            query = self.query.take().unwrap_or_default();
        } else if append {
            query.push(b'&');
            query.extend_from_slice(self.query.as_deref().unwrap_or_default());
            self.depends_on_query();
        }
        if query.last() == Some(&b'&') {
            query.pop();
            self.query = Some(query);
            return;
        }
        self.query = Some(query).filter(|query| !query.is_empty());
    }

    /// A path becomes a URL of this server.
    fn qualify(&mut self) {
        if self.input.is_connect || uri::scheme(&self.filename).is_some() {
            return;
        }
        self.dependencies.add(Dependency::Scheme);
        let mut url = self.own_origin();
        if self.filename.first() != Some(&b'/') {
            url.push(b'/');
        }
        url.extend_from_slice(&self.filename);
        self.filename = url;
    }

    /// A URL of this server becomes a path.
    fn reduce(&mut self) -> bool {
        if uri::scheme(&self.filename).is_none() {
            return false;
        }
        let scheme = self.context_variable(Variable::RequestScheme);
        let Some((host, port, path)) = own_parts(&self.filename, &scheme) else {
            return false;
        };
        self.dependencies.add(Dependency::Host);
        if !self.context.is_own_host(host, port) {
            return false;
        }
        let path = if path.is_empty() {
            b"/".to_vec()
        } else {
            path.to_vec()
        };
        self.trace(3, false, |run| {
            format!("reduce {} -> {}", Shown(&run.filename), Shown(&path))
        });
        self.filename = path;
        true
    }
}

/// Host, port and path of a URL with this scheme.
fn own_parts<'u>(url: &'u [u8], scheme: &[u8]) -> Option<(&'u [u8], u16, &'u [u8])> {
    let (start, rest) = url.split_at_checked(scheme.len())?;
    let rest = rest
        .strip_prefix(b"://")
        .filter(|rest| !rest.is_empty() && start.eq_ignore_ascii_case(scheme))?;
    let host = rest
        .iter()
        .position(|byte| matches!(byte, b'/' | b':'))
        .unwrap_or(rest.len());
    let (host, behind) = rest.split_at(host);
    let Some(port) = behind.strip_prefix(b":") else {
        return Some((host, default_port(scheme), behind));
    };
    let end = port
        .iter()
        .position(|byte| *byte == b'/')
        .unwrap_or(port.len());
    let number = saker_ap_expr::number(&port[..end]);
    // As httpd, which keeps sixteen bits.
    Some((host, (number & 0xffff) as u16, &port[end..]))
}
