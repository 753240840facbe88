//! Conversions of rules from common files, each with its result.
//!
//! Called by: `cargo test -p saker-vcl`.
//! Out of scope: syntax errors, which are in the parser's own tests.

use super::*;
use crate::converter::FINDINGS_MAX;

const CREDENTIALS_BYPASS: &str =
    "\n[[site.when]]\nmatch = { expression = \"$http_authorization != ''\" }\ncache = false\n";

/// The lines of the conversion that are not there for an empty file, and its findings as `line:
/// severity: message`.
fn converted(vcl: &str) -> (Vec<String>, Vec<String>) {
    let whole = |vcl: &str| convert(vcl, "a.vcl").expect("syntax");
    // Without `return (hash)`, requests with cookies or credentials bypass the cache.
    let without_built_in = |toml: &str| toml.replacen(CREDENTIALS_BYPASS, "", 1);
    let empty = without_built_in(&whole("vcl 4.1;").toml);
    let empty: Vec<String> = empty.lines().map(str::to_owned).collect();
    let conversion = whole(vcl);
    let toml = without_built_in(&conversion.toml);
    let lines = toml.lines().filter(|line| !line.is_empty());
    let lines = lines.filter(|line| !empty.iter().any(|known| known == line));
    let findings = conversion.findings.iter().map(|finding| {
        let severity = if finding.is_error() {
            "error"
        } else {
            "warning"
        };
        format!("{}: {severity}: {}", finding.origin.line, finding.message)
    });
    (lines.map(str::to_owned).collect(), findings.collect())
}

/// A subroutine, the lines of saker.toml, and the findings.
type Row = (
    &'static str,
    &'static [&'static str],
    &'static [&'static str],
);

#[test]
fn cookies_are_kept_for_requests_that_have_left() {
    for (condition, line) in [
        (
            "req.http.Cookie ~ \"sess=\"",
            "session_cookies = [\"*sess*\"]",
        ),
        ("req.url ~ \"^/(account|admin)\"", "session_cookies = []"),
        ("req.method == \"POST\"", "session_cookies = []"),
    ] {
        let vcl = format!(
            "sub vcl_recv {{ if ({condition}) {{ return (pass); }} unset req.http.Cookie; return (hash); }}"
        );
        let (lines, findings) = converted(&vcl);
        assert!(lines.iter().any(|own| own == line), "{lines:?}");
        assert!(
            !lines.iter().any(|own| own.contains("Cookie =")),
            "{lines:?}"
        );
        assert_eq!(
            findings,
            ["1: warning: the removal of cookies is not converted"]
        );
    }
}

#[test]
fn requests() {
    let rows: [Row; 28] = [
        ("sub vcl_recv { return (hash); }", &[], &[]),
        (
            "sub vcl_recv { if (req.method != \"GET\" && req.method != \"HEAD\") { return (pass); } }",
            &[],
            &[],
        ),
        (
            "sub vcl_recv { if (req.http.Authorization || req.method == \"POST\") { return (pass); } }",
            &[],
            &[],
        ),
        (
            "sub vcl_recv { if (req.url ~ \"^/cart|/checkout\") { return (pass); } }",
            &["exclude = [\"/cart\", \"/checkout\"]"],
            &[],
        ),
        (
            "sub vcl_recv { if (req.url ~ \"\\d+$\" && !req.http.X-A) { return (pass); } }",
            &[
                "[[site.when]]",
                "match = { expression = \"('%{REQUEST_URI}?%{QUERY_STRING}' =~ /\\\\d+[?]?$/ and not ($http_x_a != ''))\" }",
                "cache = false",
            ],
            &[],
        ),
        (
            "sub vcl_recv { if (req.http.Cookie ~ \"wordpress_logged_in|sid=\") { return (pass); } }",
            &["session_cookies = [\"*wordpress_logged_in*\", \"*sid*\"]"],
            &[],
        ),
        (
            "sub vcl_recv { if (req.http.Cookie) { return (pass); } }",
            &[],
            &[],
        ),
        (
            "sub vcl_recv { set req.url = regsuball(req.url, \"(utm_[a-z]+|gclid)=[^&]*&?\", \"\"); set req.url = regsub(req.url, \"[?&]+$\", \"\"); }",
            &["ignore_parameters = [\"tracking\"]"],
            &[],
        ),
        (
            "sub vcl_recv { set req.url = regsub(req.url, \"^/a\", \"/b\"); }",
            &[],
            &["1: warning: `set req.url` can't be converted"],
        ),
        (
            "sub vcl_recv { set req.http.Cookie = regsuball(req.http.Cookie, \"(^|; )(__utm[a-z]+|_ga)=[^;]*\", \"\"); }",
            &["ignore_cookies = [\"__utm*\", \"_ga*\"]"],
            &[],
        ),
        (
            "sub vcl_recv { unset req.http.Cookie; }",
            &[
                "upstream_headers = { \"Cookie\" = { remove = true } }",
                "session_cookies = []",
            ],
            &[],
        ),
        (
            "sub vcl_recv { if (req.restarts == 0) { set req.http.X-Forwarded-For = client.ip; unset req.http.Proxy; } }",
            &["upstream_headers = { \"Proxy\" = { remove = true } }"],
            &[],
        ),
        ("sub vcl_recv { set req.http.X-A = \"a\\\"\"; }", &[], &[]),
        (
            "sub vcl_recv { set req.http.X-A = {\"a\"b\"}; }",
            &["upstream_headers = { \"X-A\" = \"a\\\"b\" }"],
            &[],
        ),
        (
            "sub vcl_recv { set req.http.X-A = \"$host\"; }",
            &[],
            &["1: warning: `set req.http.X-A` can't be converted"],
        ),
        (
            "sub vcl_recv { if (req.url ~ \"^/admin\") { return (synth(403)); } }",
            &[],
            &["1: error: this condition can't be converted"],
        ),
        (
            "sub vcl_recv { if (req.http.X-Forwarded-For) { set req.http.X-Forwarded-For = req.http.X-Forwarded-For + client.ip; } else { set req.http.X-Forwarded-For = client.ip; } }",
            &[],
            &[],
        ),
        (
            "sub vcl_recv { if (req.http.cookie ~ \"^\\s*$\") { unset req.http.cookie; } }",
            &[],
            &[],
        ),
        (
            "sub vcl_recv { if (req.http.cookie ~ \"a\") { unset req.http.cookie; } }",
            &[],
            &["1: warning: this condition can't be converted"],
        ),
        (
            "sub vcl_recv { if (req.http.X-Role) { unset req.http.X-Role; } }",
            &["upstream_headers = { \"X-Role\" = { remove = true } }"],
            &[],
        ),
        (
            "sub vcl_recv { if (req.url ~ \"^/a\") { unset req.http.X-Role; } }",
            &[],
            &["1: error: the removal of a field in this condition can't be converted"],
        ),
        (
            "sub vcl_backend_fetch { unset bereq.http.X-Role; }",
            &["upstream_headers = { \"X-Role\" = { remove = true } }"],
            &[],
        ),
        (
            "sub vcl_recv { C{ x }C }",
            &[],
            &["1: error: inline C can't be converted"],
        ),
        (
            "sub vcl_recv { return (pass); }",
            &[
                "[[site.when]]",
                "match = { expression = \"$method != ''\" }",
                "cache = false",
            ],
            &["1: warning: all requests bypass the cache"],
        ),
        (
            "sub vcl_recv { if (req.restarts > 0) { return (pass); } }",
            &[],
            &[],
        ),
        (
            "sub mine { if (req.url ~ \"/x\") { return (pass); } } sub vcl_recv { call mine; }",
            &["exclude = [\"/x\"]"],
            &[],
        ),
        (
            "sub a { call b; } sub b { call a; } sub vcl_recv { call a; }",
            &[],
            &["1: warning: `call a` can't be converted"],
        ),
        (
            "sub vcl_hash { hash_data(req.url); hash_data(req.http.X-T); if (req.http.cookie ~ \"cur=\") { hash_data(regsub(req.http.cookie, \"^.*?cur=([^;]+);*.*$\", \"\\1\")); } }",
            &["vary_cookies = [\"cur\"]", "key_headers = [\"X-T\"]"],
            &[],
        ),
    ];
    for (vcl, lines, findings) in rows {
        if vcl.contains("a\\\"") {
            // A backslash escapes nothing in VCL: the string has no end.
            assert!(convert(vcl, "a.vcl").is_err());
            continue;
        }
        let (found, said) = converted(vcl);
        assert_eq!((found, said), (owned(lines), owned(findings)), "{vcl}");
    }
}

fn owned(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

#[test]
fn protections_are_kept_or_reported() {
    let toml = |vcl: &str| convert(vcl, "a.vcl").expect("syntax").toml;
    let cookies = "with_cookies = false";
    for (vcl, want) in [
        ("sub vcl_recv { return (hash); }", false),
        ("sub vcl_recv { unset req.http.Cookie; }", false),
        (
            "sub vcl_recv { if (req.http.Cookie) { return (pass); } return (hash); }",
            true,
        ),
        ("sub vcl_recv { set req.http.X = \"a\"; }", true),
        ("vcl 4.1;", true),
    ] {
        assert_eq!(toml(vcl).contains(cookies), want, "{vcl}");
    }
    for vcl in [
        "sub vcl_hash { if (client.ip ~ list) { hash_data(\"m\"); } }",
        "sub vcl_hash { if (req.http.X) { hash_data(req.http.X); } else { hash_data(\"none\"); } }",
        "sub vcl_hash { hash_data(regsub(req.url, \"a\", \"b\")); }",
        "sub vcl_hash { hash_data(client.ip); }",
        "sub vcl_hash { set req.http.X = \"a\"; }",
        "sub vcl_recv { if (client.ip ~ list) { return (pass); } }",
        "sub vcl_recv { if (req.http.X == \"$host\") { return (pass); } }",
        "sub vcl_recv { if (req.url ~ \"a$|b\") { return (pass); } }",
        "sub vcl_recv { if (req.url ~ \"a.%20\") { return (pass); } }",
        "sub vcl_backend_response { if (beresp.http.X ~ \"x\") { set beresp.uncacheable = true; } }",
        "sub vcl_backend_response { if (bereq.url ~ \"/x\" || beresp.http.X) { set beresp.uncacheable = true; } }",
        "sub a { hash_data(client.ip); } sub vcl_hash { if (req.http.X) { call a; } }",
    ] {
        let (_, findings) = converted(vcl);
        assert!(
            findings.iter().any(|one| one.starts_with("1: error: ")),
            "{vcl}: {findings:?}"
        );
    }
}

/// Credentials and cookies that responses set keep pages out of the cache as in VCL: by rules of
/// the file and by the built-in ones.
#[test]
fn credentials_and_set_cookie() {
    let whole = |vcl: &str| convert(vcl, "a.vcl").expect("syntax");
    let (hash, deliver) = ("return (hash);", "return (deliver);");
    let rows = [
        ("", "", true, true),
        (hash, deliver, false, false),
        (
            "if (req.http.Authorization) { return (pass); } return (hash);",
            deliver,
            true,
            false,
        ),
        (
            "if (req.http.Authorization || req.method == \"POST\") { return (pipe); } return (hash);",
            deliver,
            true,
            false,
        ),
        (
            "if (req.url ~ \"^/a\" || req.http.Authorization) { return (pass); } return (hash);",
            deliver,
            true,
            false,
        ),
        ("unset req.http.Authorization;", deliver, false, false),
        (
            hash,
            "if (beresp.http.Set-Cookie) { set beresp.uncacheable = true; } return (deliver);",
            false,
            true,
        ),
        (
            hash,
            "if (beresp.ttl <= 0s || beresp.http.Vary == \"*\" || beresp.http.set-cookie) { set beresp.ttl = 0s; } return (deliver);",
            false,
            true,
        ),
        (
            hash,
            "if (beresp.ttl > 0s) { unset beresp.http.Set-Cookie; }",
            false,
            false,
        ),
        (
            hash,
            "if (bereq.url ~ \"x\") { unset beresp.http.Set-Cookie; }",
            false,
            true,
        ),
    ];
    for (receive, respond, bypasses, refuses) in rows {
        let vcl = format!("sub vcl_recv {{ {receive} }} sub vcl_backend_response {{ {respond} }}");
        let conversion = whole(&vcl);
        let toml = &conversion.toml;
        assert_eq!(toml.contains(CREDENTIALS_BYPASS), bypasses, "{vcl}: {toml}");
        let line = "with_set_cookie = false";
        assert_eq!(toml.contains(line), refuses, "{vcl}: {toml}");
        assert!(
            conversion.findings.iter().all(|one| !one.is_error()),
            "{vcl}"
        );
    }
    // Words that the cache does not obey, and requests that are no upgrades.
    for vcl in [
        "sub vcl_backend_response { if (beresp.http.Set-Cookie || beresp.http.Cache-Control ~ \"must-revalidate\") { set beresp.uncacheable = true; } }",
        "sub vcl_backend_response { if (beresp.http.Cache-Control ~ \"private|x\") { set beresp.uncacheable = true; } }",
        "sub vcl_backend_response { if (!beresp.http.Set-Cookie) { set beresp.uncacheable = true; } }",
        "sub vcl_backend_response { if (beresp.http.Vary ~ \"User-Agent\") { set beresp.ttl = 0s; } }",
        "sub vcl_recv { if (!req.http.Upgrade) { return (pipe); } }",
        "sub vcl_recv { if (req.method != \"POST\") { return (pipe); } }",
    ] {
        let (_, findings) = converted(vcl);
        assert!(
            findings.len() == 1 && findings[0].contains("error"),
            "{vcl}: {findings:?}"
        );
    }
}

#[test]
fn conditions_without_a_key_bypass_the_cache() {
    for (vcl, expression) in [
        (
            "sub vcl_hash { if (req.http.User-Agent ~ \"Mobile\") { hash_data(\"m\"); } }",
            "$http_user_agent =~ /Mobile/",
        ),
        (
            "sub vcl_recv { if (req.url ~ \"(?i)/cart\") { return (pass); } }",
            "'%{REQUEST_URI}?%{QUERY_STRING}' =~ /(?i)\\\\x2fcart/",
        ),
        (
            "sub vcl_recv { if (req.http.X == \"a\" || req.method == \"QUERY\") { return (pass); } }",
            "($http_x == 'a' or $method == 'QUERY')",
        ),
        (
            "sub vcl_backend_response { if (bereq.url == \"/#\" && beresp.http.X) { set beresp.uncacheable = true; } }",
            "'%{REQUEST_URI}?%{QUERY_STRING}' == '/#?'",
        ),
    ] {
        let (lines, findings) = converted(vcl);
        let line = format!("match = {{ expression = \"{expression}\" }}");
        assert!(lines.contains(&line), "{vcl}: {lines:?}");
        assert!(lines.contains(&"cache = false".to_owned()));
        assert!(findings.is_empty(), "{findings:?}");
    }
    let (lines, findings) = converted(
        "sub vcl_deliver { if (req.url !~ \"^/static/\" && resp.http.A !~ \"b\") { set resp.http.Cache-Control = \"no-store\"; unset resp.http.A; } }",
    );
    let all = lines.join("\n");
    assert!(
        all.contains("not ('%{REQUEST_URI}?%{QUERY_STRING}' =~ /^\\\\x2fstatic\\\\x2f/)")
            && all.contains(
                "headers = { \"Cache-Control\" = { set = \"no-store\", always = true }, \"A\" = { remove = true, always = true } }"
            ),
        "{all}"
    );
    assert!(findings.len() == 1 && findings[0].starts_with("1: warning: what this condition says"));
}

#[test]
fn any_beginning_is_read_or_refused() {
    (0..MAGENTO.len()).for_each(|end| drop(convert(&MAGENTO[..end], "a.vcl")));
    // Calls that double at each step stay bounded.
    let subs: String = (0..40)
        .map(|number| format!("sub s{number} {{ call s{0}; call s{0}; }}", number + 1))
        .collect();
    drop(convert(
        &format!("{subs} sub vcl_recv {{ call s0; }}"),
        "a.vcl",
    ));
}

#[test]
fn purging() {
    let list = "acl purge { \"localhost\"; \"10.0.0.0\"/8; }\n";
    let guarded = "sub vcl_recv { if (req.method == \"PURGE\") { if (!client.ip ~ purge) { return (synth(405, \"no\")); } return (purge); } }";
    assert_eq!(
        converted(&format!("{list}{guarded}")),
        (
            owned(&["purge_from = [\"127.0.0.1\", \"::1\", \"10.0.0.0/8\"]"]),
            vec![]
        )
    );
    let open = "sub vcl_recv { if (req.method == \"PURGE\") { return (purge); } }";
    let (lines, findings) = converted(open);
    assert!(
        lines.is_empty() && findings[0].starts_with("1: error: purging without"),
        "{findings:?}"
    );
    for entry in ["! \"10.0.0.1\"", "\"cache.example\""] {
        let (_, findings) = converted(&format!("acl purge {{ {entry}; }}\n{guarded}"));
        assert!(
            findings[0].starts_with("1: error: the entry"),
            "{findings:?}"
        );
    }
    // Conditions for clients of the list.
    let guard = "{ if (!client.ip ~ purge) { return (synth(405, \"no\")); }";
    for (more, count) in [
        ("if (req.http.X-Key != \"s\") { return (synth(403)); }", 1),
        ("if (!req.http.X-Key) { return (synth(403)); }", 1),
        ("if (req.http.X-Key != \"s\") { return (synth(400)); }", 1),
        (
            "if (!req.http.X-Tags && !req.http.X-Pool) { return (synth(400)); }",
            0,
        ),
        (
            "if (req.http.X-Tags) { ban(\"x\"); return (synth(200)); }",
            0,
        ),
    ] {
        let vcl = guarded.replace(guard, &format!("{guard}\n{more}"));
        let (_, findings) = converted(&format!("{list}{vcl}"));
        let expected = vec!["3: error: this condition of purging can't be converted"; count];
        assert_eq!(findings, expected, "{more}");
    }
    let other = guarded.replace(
        "405, \"no\")); }",
        "405)); }\nelse if (req.http.X-Key != \"s\") { return (synth(403)); }",
    );
    let (_, findings) = converted(&format!("{list}{other}"));
    assert_eq!(findings.len(), 1, "{findings:?}");
    // A list that only seems to guard.
    let other = guarded.replace("!client.ip ~ purge", "client.ip ~ purge");
    let (lines, findings) = converted(&format!("{list}{other}"));
    assert!(
        lines.is_empty() && findings[0].contains("error"),
        "{findings:?}"
    );
}

#[test]
fn backends() {
    let two = "probe p { .url = \"/ping\"; .interval = 5s; }\nbackend a { .host = \"10.0.0.1\"; .port = \"8080\"; .probe = p; }\nbackend api { .host = \"::1\"; }\n";
    let (lines, findings) = converted(&format!(
        "{two}sub vcl_recv {{ if (req.url ~ \"^/api/\") {{ set req.backend_hint = api; }} }}"
    ));
    let all = lines.join("\n");
    for line in [
        "servers = [\"http://10.0.0.1:8080\"]",
        "health_path = \"/ping\"",
        "servers = [\"http://[::1]:80\"]",
        "path = \"/api/*\"\nproxy = \"api\"",
        "path = \"/*\"\nproxy = \"a\"",
    ] {
        assert!(all.contains(line), "{line}: {all}");
    }
    assert_eq!(findings, owned(&[]));
    let (lines, findings) = converted(&format!(
        "{two}sub vcl_init {{ new both = directors.round_robin(); both.add_backend(a); both.add_backend(api); }}\nsub vcl_recv {{ set req.backend_hint = both.backend(); }}"
    ));
    let all = lines.join("\n");
    assert!(
        all.contains("servers = [\"http://10.0.0.1:8080\", \"http://[::1]:80\"]")
            && all.contains("proxy = \"both\""),
        "{all}"
    );
    assert_eq!(findings, owned(&[]));
}

#[test]
fn responses() {
    let rows: [Row; 11] = [
        (
            "sub vcl_backend_response { if (beresp.http.Cache-Control ~ \"private\" || beresp.http.Set-Cookie) { set beresp.uncacheable = true; set beresp.ttl = 120s; return (deliver); } }",
            &[],
            &[],
        ),
        (
            "sub vcl_backend_response { if (beresp.http.Cache-Control ~ \"(?i:no-cache|no-store|private)\") { return (pass); } }",
            &[],
            &[],
        ),
        (
            "sub vcl_backend_response { set beresp.grace = 6h; }",
            &["grace = \"6h\""],
            &[],
        ),
        (
            "sub vcl_backend_response { if (beresp.status == 404 || beresp.status == 301) { set beresp.ttl = 1m; } }",
            &["status_ttl = { 404 = \"1m\", 301 = \"1m\" }"],
            &[],
        ),
        (
            "sub vcl_backend_response { if (!beresp.http.Cache-Control) { set beresp.ttl = 1w; } }",
            &["ttl = \"7d\""],
            &[],
        ),
        (
            "sub vcl_backend_response { set beresp.ttl = 5m; }",
            &["ttl = \"5m\""],
            &[
                "1: warning: `set beresp.ttl` for all responses becomes `ttl`, which is for those without a lifetime",
            ],
        ),
        (
            "sub vcl_backend_response { unset beresp.http.Set-Cookie; }",
            &[],
            &["1: warning: `unset beresp.http.Set-Cookie` can't be converted"],
        ),
        (
            "sub vcl_backend_response { set beresp.do_esi = true; return (deliver); }",
            &[],
            &[],
        ),
        (
            "sub vcl_deliver { unset resp.http.X-Powered-By; unset resp.http.Via; set resp.http.X-Frame-Options = \"DENY\"; }",
            &[
                "[[site.when]]",
                "match = { expression = \"$method != ''\" }",
                "headers = { \"X-Powered-By\" = { remove = true, always = true }, \"X-Frame-Options\" = { set = \"DENY\", always = true } }",
            ],
            &[],
        ),
        (
            "sub vcl_deliver { if (obj.hits > 0) { set resp.http.X-Cache = \"HIT\"; } else { set resp.http.X-Cache = \"MISS\"; } }",
            &["result_header = \"X-Cache\""],
            &[],
        ),
        (
            "sub vcl_synth { set resp.status = 301; return (deliver); }",
            &[],
            &["1: warning: `set resp.status` can't be converted"],
        ),
    ];
    for (vcl, lines, findings) in rows {
        let (found, said) = converted(vcl);
        let found: Vec<String> = found
            .into_iter()
            .filter(|line| line != "grace = \"10s\"")
            .collect();
        assert_eq!((found, said), (owned(lines), owned(findings)), "{vcl}");
    }
}

/// Magento's rules, in the form of its own file, and that what comes of them is read.
#[test]
fn magento() {
    let (_, findings) = converted(MAGENTO);
    let all = convert(MAGENTO, "a.vcl").expect("syntax").toml;
    for line in [
        "purge_from = [\"127.0.0.1\"]",
        "servers = [\"http://127.0.0.1:3000\"]",
        "exclude = [\"/checkout\", \"/customer\"]",
        "ignore_parameters = [\"tracking\"]",
        "vary_cookies = [\"X-Magento-Vary\"]",
        "grace = \"0s\"",
        "with_set_cookie = false",
        "match = { expression = \"$http_authorization != ''\" }\ncache = false",
    ] {
        assert!(all.contains(line), "{line}: {all}");
    }
    assert_eq!(findings, owned(&[]));
    let toml = convert(MAGENTO, "a.vcl").expect("syntax").toml;
    assert!(saker_config::format(&toml, "saker.toml").is_ok());
}

const MAGENTO: &str = r#"
vcl 4.1;
import std;
backend default { .host = "127.0.0.1"; .port = "3000"; }
acl purge { "127.0.0.1"; }

sub vcl_recv {
    if (req.method == "PURGE") {
        if (client.ip !~ purge) { return (synth(405, "Method not allowed")); }
        if (!req.http.X-Magento-Tags-Pattern) { return (purge); }
        ban("obj.http.X-Magento-Tags ~ " + req.http.X-Magento-Tags-Pattern);
        return (synth(200, "Purged"));
    }
    if (req.method != "GET" && req.method != "HEAD") { return (pass); }
    if (req.url ~ "/checkout" || req.url ~ "/customer") { return (pass); }
    if (req.url ~ "(\?|&)(gclid|utm_[a-z]+)=") {
        set req.url = regsuball(req.url, "(gclid|utm_[a-z]+)=[-_A-z0-9+()%.]+&?", "");
        set req.url = regsub(req.url, "[?|&]+$", "");
    }
    if (req.http.Authorization) { return (pass); }
    return (hash);
}

sub vcl_hash {
    if (req.http.cookie ~ "X-Magento-Vary=") {
        hash_data(regsub(req.http.cookie, "^.*?X-Magento-Vary=([^;]+);*.*$", "\1"));
    }
}

sub vcl_backend_response {
    if (beresp.http.Cache-Control ~ "private" || beresp.http.Set-Cookie) {
        set beresp.uncacheable = true;
        set beresp.ttl = 0s;
        return (deliver);
    }
    set beresp.grace = 0s;
}

sub vcl_deliver {
    unset resp.http.X-Magento-Tags;
    unset resp.http.Via;
    unset resp.http.X-Varnish;
}
"#;

#[test]
fn findings_are_limited_and_errors_come_first() {
    let warned = "set req.grace = 1s;\n";
    let refused = "return (synth(404 + x));\n";
    let findings = |body: String| converted(&format!("sub vcl_recv {{\n{body}}}")).1;
    assert_eq!(
        findings(warned.repeat(FINDINGS_MAX - 1)).len(),
        FINDINGS_MAX - 1
    );
    let many = findings(warned.repeat(1000) + refused);
    assert_eq!(many.len(), FINDINGS_MAX);
    assert!(
        many[FINDINGS_MAX - 1].starts_with("1002: error: "),
        "{many:?}"
    );
    assert_eq!(findings(refused.repeat(1000)).len(), FINDINGS_MAX);
}
