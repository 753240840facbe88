//! Finds routes that are unreachable because an earlier route matches all of their paths.
//!
//! Called by: `whole`.
//! Caveat: a route that several others cover only together is not found.

use crate::{
    configuration::Configuration,
    diagnostic::{Diagnostic, Severity},
    model::{PathPattern, Route},
};

/// Stands for a star: only a star matches it.
const STAR: &str = "\0";

pub(super) fn reachable(configuration: &mut Configuration) {
    let shadowed = configuration.sites.iter().flat_map(|site| {
        site.routes.iter().enumerate().filter_map(|(index, route)| {
            let earlier = site
                .routes
                .iter()
                .take(index)
                .find(|earlier| covers(&earlier.pattern, &route.pattern))?;
            Some(warning(route, earlier))
        })
    });
    let shadowed: Vec<Diagnostic> = shadowed.collect();
    configuration.diagnostics.extend(shadowed);
}

fn warning(route: &Route, earlier: &Route) -> Diagnostic {
    let message = format!(
        "route {} is unreachable: route {} at {} comes first and matches all of its paths",
        route.pattern, earlier.pattern, earlier.origin
    );
    let mut warning = Diagnostic::without_source(route.origin.clone(), message);
    (warning.severity, warning.help) = (
        Severity::Warning,
        Some("the first route that matches wins: move the more specific one up".into()),
    );
    warning
}

/// Returns whether `wide` matches every path that `narrow` matches.
fn covers(wide: &PathPattern, narrow: &PathPattern) -> bool {
    let text = narrow.to_string().replace('*', STAR);
    let matches = |text: &str| wide.captures(text.as_bytes()).is_some();
    match text.strip_prefix(STAR) {
        None => matches(&text),
        // A path starts with a slash: the star's, or the first character after an empty star.
        Some(rest) => matches(&format!("/{text}")) && (!rest.starts_with('/') || matches(rest)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wider_patterns() {
        for (wide, narrow, expected) in [
            ("/*", "*.php", true),
            ("*", "/a", true),
            ("/a/*", "/a/b/*", true),
            ("/a/*", "/a", false),
            ("/a", "/a", true),
            ("/a", "/a*", false),
            ("*.php", "/x/index.php", true),
            ("*.php", "/x/*.php", true),
            ("*.php", "/x/*", false),
            ("/a/*/b/*", "/a/x*/b/c", true),
            ("/a/*/b", "/a/b", false),
            ("/x*", "*/y", false),
            ("/*/y", "*/y", false),
        ] {
            assert_eq!(
                covers(&PathPattern::new(wide), &PathPattern::new(narrow)),
                expected,
                "{wide} {narrow}"
            );
        }
    }
}
