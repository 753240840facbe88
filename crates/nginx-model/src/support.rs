//! The report of what is not honored.
//!
//! Called by: `load`.
//! Caveat: a directive that would close something, and is not honored, is an error.

use crate::values::flag;
use saker_nginx_syntax::{Directive, Report, Support, is_flag};

/// Reports directives without effect.
pub fn report(directives: &[Directive], report: &mut Report) {
    for directive in directives {
        let name = directive.name();
        if is_without_setter(directive)
            && is_flag(name)
            && let Err(message) = flag(directive)
        {
            report.error(directive, message, None);
        }
        match directive.row.map(|row| row.support) {
            Some(Support::Unsupported(sentence)) if !is_off(directive) => {
                let message = format!("`{name}` is not supported: {sentence}");
                report.warn(directive, message, None);
                if name == "mail" {
                    continue;
                }
            }
            Some(Support::Refused(sentence)) if !is_off(directive) => {
                let message = format!("`{name}` is not supported: {sentence}");
                report.error(directive, message, None);
            }
            Some(Support::Internal(_)) if let Some(what) = obsolete(name) => {
                report.warn(
                    directive,
                    format!("the \"{name}\" directive is obsolete, {what}"),
                    None,
                );
            }
            Some(Support::Internal(sentence) | Support::Accepted(sentence)) => {
                report.note(directive, format!("`{name}` has no effect: {sentence}"));
            }
            _ => {}
        }
        self::report(directive.inside(), report);
    }
}

/// Its value is checked here, because nothing else reads it.
fn is_without_setter(directive: &Directive) -> bool {
    matches!(
        directive.row.map(|row| row.support),
        Some(Support::Internal(_) | Support::Accepted(_))
    )
}

/// The end of nginx's warning about a directive that it no longer obeys.
fn obsolete(name: &str) -> Option<String> {
    let successor = match name {
        "http2_recv_timeout" => "client_header_timeout",
        "http2_idle_timeout" => "keepalive_timeout",
        "http2_max_requests" => "keepalive_requests",
        "http2_max_field_size" | "http2_max_header_size" => "large_client_header_buffers",
        "http2_max_concurrent_pushes" | "http2_push" | "http2_push_preload" => {
            return Some("ignored".to_owned());
        }
        _ => return None,
    };
    Some(format!("use the \"{successor}\" directive instead"))
}

/// Switched off, it has no effect in nginx either.
fn is_off(directive: &Directive) -> bool {
    directive.arguments.len() == 1 && matches!(directive.argument(0), "off" | "0")
}
