//! Unix sockets that directives pass requests to (`SetHandler
//! "proxy:unix:/run/php/php-fpm.sock|fcgi://localhost"`), for `saker check`.
//!
//! Called by: `load`. Out of scope: sockets whose path follows from the request, and those that
//! `.htaccess` files name.

use saker_apache_syntax::Node;
use saker_config::model::NamedSocket;

const DIRECTIVES: [&str; 8] = [
    "SetHandler",
    "AddHandler",
    "ProxyPass",
    "ProxyPassMatch",
    "BalancerMember",
    "RewriteRule",
    "<Proxy",
    "<ProxyMatch",
];

/// Looks through a tree.
pub fn find(nodes: &[Node], found: &mut Vec<NamedSocket>) {
    for node in nodes {
        if node.row.is_some() && DIRECTIVES.contains(&node.canonical_name()) {
            let text = String::from_utf8_lossy(&node.text);
            found.extend(path(&text).map(|path| NamedSocket {
                path: path.into(),
                origin: node.origin.clone(),
            }));
        }
        find(&node.children, found);
    }
}

fn path(text: &str) -> Option<&str> {
    let (_, path) = text.split_once("unix:")?;
    let path = path.split(['|', '"', ' ', '>']).next()?;
    (path.starts_with('/') && !path.contains(['$', '%', '*'])).then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_sockets() {
        assert_eq!(
            path("\"proxy:unix:/run/php/php8.2-fpm.sock|fcgi://localhost\""),
            Some("/run/php/php8.2-fpm.sock")
        );
        assert_eq!(
            path("/app unix:/run/app.sock|http: retry=0"),
            Some("/run/app.sock")
        );
        for text in [
            "^/(.+) unix:/run/$1.sock|http:",
            "application/x-httpd-php .php",
            "/ http://localhost/",
        ] {
            assert_eq!(path(text), None);
        }
    }
}
