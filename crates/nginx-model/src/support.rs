//! The report of what is not honored.
//!
//! Called by: `load`.
//! Caveat: a directive that would close something, and is not honored, is an error.

use saker_nginx_syntax::{Directive, Report, Support};

/// Reports directives without effect.
pub fn report(directives: &[Directive], report: &mut Report) {
    for directive in directives {
        let name = directive.name();
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
            Some(Support::Accepted(sentence)) => {
                report.note(directive, format!("`{name}` has no effect: {sentence}"));
            }
            _ => {}
        }
        self::report(directive.inside(), report);
    }
}

/// Switched off, it has no effect in nginx either.
fn is_off(directive: &Directive) -> bool {
    directive.arguments.len() == 1 && matches!(directive.argument(0), "off" | "0")
}
