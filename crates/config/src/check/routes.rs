//! Finds routes that are unreachable because an earlier route matches all of their paths.
//!
//! Called by: `whole`.
//! Caveat: a route that several others cover only together is not found.

use crate::{
    configuration::Configuration,
    diagnostic::{Diagnostic, Severity},
    model::{PathPattern, Route},
    preset,
};
use saker_matchers::PathIndex;

/// Stands for a star: only a star matches it.
const STAR: &str = "\0";

pub(super) fn reachable(configuration: &mut Configuration) {
    let shadowed = configuration.sites.iter().flat_map(|site| {
        let index = PathIndex::new(
            site.routes
                .iter()
                .map(|route| (!route.is_named_only).then_some(&route.pattern)),
        );
        let each = site.routes.iter().enumerate();
        each.filter(|(_, route)| !route.is_named_only)
            .filter_map(move |(at, route)| {
                let mut earlier = index
                    .candidates(sample(&route.pattern).as_bytes())
                    .take_while(|earlier| *earlier < at)
                    .filter_map(|earlier| site.routes.get(earlier));
                let earlier = earlier.find(|earlier| {
                    earlier.matcher.is_none() && covers(&earlier.pattern, &route.pattern)
                })?;
                // A site may override what its preset does.
                if [route, earlier].map(|one| preset::is_preset(&one.origin.file)) != [false; 2] {
                    return None;
                }
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

/// A path that the pattern matches, with stars as such.
fn sample(pattern: &PathPattern) -> String {
    let text = match pattern {
        PathPattern::Regex(_) => pattern.literal_start().into_owned(),
        pattern => pattern.to_string().replace('*', STAR),
    };
    match text.strip_prefix('/') {
        Some(_) => text,
        None => format!("/{text}"),
    }
}

/// Returns whether `wide` matches every path that `narrow` matches.
fn covers(wide: &PathPattern, narrow: &PathPattern) -> bool {
    if matches!(narrow, PathPattern::Regex(_)) {
        return wide.is_everything();
    }
    if matches!(wide, PathPattern::Regex(_)) {
        return false;
    }
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
