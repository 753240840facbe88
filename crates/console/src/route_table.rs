//! The routes of the console: everything that it answers.
//!
//! Called by: the gate, which finds a route before anything else happens; tests, which try every row
//! without credentials and with each role.
//! Caveat: a path is compared byte by byte; there are no patterns, and no decoding.

use crate::{api_routes::API, page_routes::PAGES, routes::Route};

/// All routes.
pub fn routes() -> impl Iterator<Item = &'static Route> {
    PAGES.iter().chain(API)
}

/// A route, or why there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    Route(&'static Route),
    WrongMethod,
    Nothing,
}

pub fn find(method: &[u8], path: &str) -> Found {
    let method = if method == b"HEAD" { b"GET" } else { method };
    let mut of_path = routes().filter(|route| route.path == path).peekable();
    if of_path.peek().is_none() {
        return Found::Nothing;
    }
    let route = of_path.find(|route| route.method.as_bytes() == method);
    route.map_or(Found::WrongMethod, Found::Route)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routes::Kind::{Api, Asset, Events};
    use std::collections::HashSet;

    #[test]
    fn rows_are_unique_and_described() {
        let mut seen = HashSet::new();
        for route in routes() {
            assert!(seen.insert((route.method, route.path)), "{}", route.path);
            let is_api = route.path.starts_with("/api/");
            assert_eq!(is_api, matches!(route.kind, Api | Events), "{}", route.path);
            assert_eq!(is_api, !route.summary.is_empty(), "{}", route.path);
            assert!(
                route.method == "GET" || route.kind != Asset,
                "{} changes something",
                route.path
            );
        }
    }

    #[test]
    fn paths_have_one_spelling() {
        let is_found = |method: &[u8], path| matches!(find(method, path), Found::Route(_));
        assert!(is_found(b"GET", "/") && is_found(b"HEAD", "/") && is_found(b"GET", "/login"));
        for path in [
            "",
            "//",
            "/login/",
            "/LOGIN",
            "/%6Cogin",
            "/./login",
            "/assets/../login",
        ] {
            assert_eq!(find(b"GET", path), Found::Nothing, "{path}");
        }
        assert_eq!(find(b"POST", "/"), Found::WrongMethod);
        assert_eq!(find(b"get", "/"), Found::WrongMethod);
    }
}
