//! Patterns that would take too long for a subject: the request is refused, whatever rule has them.

#![allow(clippy::unwrap_used)] // The whole file is tests.

use crate::operate;
use saker_testkit::{TempDir, apache2::load_modules};
use std::fs;

/// A subject that is padded until a pattern is given up gets past no rule.
#[test]
fn patterns_that_are_given_up_refuse() {
    const SLOW: &str = "^(a+)+$";
    let rules = [
        (
            "if",
            format!("<If \"%{{QUERY_STRING}} =~ m#{SLOW}#\">\nRequire all denied\n</If>\n"),
        ),
        (
            "expr",
            format!("Require expr \"%{{QUERY_STRING}} !~ m#{SLOW}#\"\n"),
        ),
        (
            "setenvif",
            format!(
                "SetEnvIf X-Pad \"{SLOW}\" bad\n<RequireAll>\nRequire all granted\nRequire not env bad\n</RequireAll>\n"
            ),
        ),
        (
            "condition",
            format!(
                "RewriteEngine On\nRewriteCond %{{QUERY_STRING}} \"{SLOW}\"\nRewriteRule ^ - [F]\n"
            ),
        ),
        (
            "negated",
            format!(
                "RewriteEngine On\nRewriteCond %{{QUERY_STRING}} \"!{SLOW}\"\nRewriteRule ^ /other.txt [L]\n"
            ),
        ),
        (
            "rule",
            "RewriteEngine On\nRewriteRule \"^(a+)+$\" - [F]\n".to_owned(),
        ),
        ("redirect", "RedirectMatch 403 \"/(a+)+$\"\n".to_owned()),
        (
            "files",
            "<FilesMatch \"^(a+)+$\">\nRequire all denied\n</FilesMatch>\n".to_owned(),
        ),
        ("location", String::new()),
    ];
    let dir = TempDir::new("apache-given-up").unwrap();
    for (name, text) in &rules {
        dir.write(&format!("www/{name}/.htaccess"), text).unwrap();
        dir.write(&format!("www/{name}/page.txt"), "page").unwrap();
        dir.write(&format!("www/{name}/index.html"), "index")
            .unwrap();
    }
    dir.write("www/other.txt", "other").unwrap();
    let modules = load_modules(&[
        "mpm_event",
        "authz_core",
        "alias",
        "dir",
        "rewrite",
        "setenvif",
    ]);
    let text = format!(
        "ServerRoot {{dir}}\n{modules}Listen {{address}}\nServerName localhost\nDocumentRoot {{dir}}/www\nErrorLog {{dir}}/error.log\n\
         <Directory {{dir}}/www>\nAllowOverride All\nRequire all granted\n</Directory>\n\
         <LocationMatch \"^/location/(a+)+$\">\nRequire all denied\n</LocationMatch>\n"
    );
    let saker = operate::apache(&text).start(dir);
    let padded = format!("{}!", "a".repeat(200));
    let ask = |target: &str, pad: &str| {
        let mut client = saker.connect().unwrap();
        client
            .request("GET", target, &[("X-Pad", pad)])
            .unwrap()
            .status
    };
    for (name, _) in &rules {
        let target = match *name {
            "rule" | "redirect" | "files" | "location" => format!("/{name}/{padded}"),
            _ => format!("/{name}/page.txt?{padded}"),
        };
        // The second one would be a decision that was kept.
        for _ in 0..2 {
            assert_eq!(ask(&target, &padded), 500, "{name}");
        }
        assert_eq!(ask(&format!("/{name}/page.txt?b"), "b"), 200, "{name}");
        assert_eq!(ask(&target, &padded), 500, "{name}");
    }
    let log = fs::read_to_string(saker.dir.join("error.log")).unwrap();
    assert!(log.contains("MATCH_LIMIT"), "{log}");
}
