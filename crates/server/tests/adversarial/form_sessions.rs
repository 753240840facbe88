//! Log-in by forms, and the sessions that remember it: a session can't be made, changed, moved to
//! another cookie, or outlive its time, and a form's request gets no further than its user.
//!
//! Over every protocol. Out of scope: what Apache answers to log-ins (the differential suite's topics
//! `session`), sessions in databases.

use crate::{
    harness::{self, Answer, ApacheSite, PROTOCOLS, Protocol, Request},
    operate::folder,
};
use saker_testkit::wait_until;

const FORM: (&str, &str) = ("Content-Type", "application/x-www-form-urlencoded");
const LOG_IN: &str = "httpd_username=ann&httpd_password=password";

const CONF: &str = "<Location />\nAuthUserFile {dir}/users\nAuthFormProvider file\nAuthType Form\nAuthName realm\nSession On\n</Location>\n\
    <Location /old>\nSessionCookieName old path=/\nSessionCryptoPassphrase first\nRequire valid-user\n</Location>\n\
    <Location /new>\nSessionCookieName old path=/\nSessionCryptoPassphrase second first\nRequire valid-user\n</Location>\n\
    <Location /gone>\nSessionCookieName old path=/\nSessionCryptoPassphrase second\nRequire valid-user\n</Location>\n\
    <Location /other>\nSessionCookieName other path=/\nSessionCryptoPassphrase first\nRequire valid-user\n</Location>\n\
    <Location /admin>\nSessionCookieName old path=/\nSessionCryptoPassphrase first\nRequire user bob\n</Location>\n\
    <Location /short>\nSessionCookieName old path=/\nSessionCryptoPassphrase first\nSessionMaxAge 1\nRequire valid-user\n</Location>\n\
    <Location /out>\nSessionCookieName old path=/\nSessionCryptoPassphrase first\nSetHandler form-logout-handler\n</Location>\n";

fn start(name: &str) -> ApacheSite {
    let dir = folder(name);
    let users = "ann:{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=\nbob:{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=\n";
    dir.write("users", users).unwrap();
    for path in ["old", "new", "gone", "other", "admin", "short"] {
        dir.write(&format!("www/{path}/a.txt"), path).unwrap();
    }
    harness::apache(dir, CONF)
}

fn get(site: &ApacheSite, protocol: Protocol, target: &str, cookie: &str) -> Answer {
    let fields = [("Cookie", cookie)];
    site.ask(
        protocol,
        &Request::get("localhost", target).with_fields(&fields),
    )
}

fn post(site: &ApacheSite, protocol: Protocol, target: &str, body: &str) -> Answer {
    let request = Request {
        method: "POST",
        body: body.as_bytes(),
        ..Request::get("localhost", target).with_fields(&[FORM])
    };
    site.ask(protocol, &request)
}

/// The session's value after a log-in.
fn logged_in(site: &ApacheSite, protocol: Protocol, target: &str) -> String {
    let answer = post(site, protocol, target, LOG_IN);
    let line = answer.field("set-cookie").expect("a session").to_owned();
    let (_, rest) = line.split_once('=').unwrap();
    rest.split(';').next().unwrap().to_owned()
}

#[test]
fn sessions_cannot_be_made_or_changed() {
    let site = start("form-sessions");
    for protocol in PROTOCOLS {
        let sealed = logged_in(&site, protocol, "/old/a.txt");
        assert!(
            !sealed.contains("ann") && !sealed.contains("password"),
            "{sealed}"
        );
        let status = |target: &str, cookie: &str| get(&site, protocol, target, cookie).status;
        assert_eq!(
            status("/old/a.txt", &format!("old={sealed}")),
            200,
            "{protocol:?}"
        );
        let plain = "realm-user=ann&realm-pw=password";
        let mut refused = vec![
            format!("old={plain}"),
            format!("old=realm-user%3Dann%26realm-pw%3Dpassword"),
            format!("old={sealed}A"),
            format!("old={}", &sealed[1..]),
            format!("old={}", &sealed[..sealed.len() - 2]),
            format!("old={}", sealed.to_ascii_uppercase()),
            format!("old={sealed}{sealed}"),
            format!("old={sealed}; old={plain}"),
            format!("old={}", "A".repeat(6000)),
            format!("OLD={sealed}"),
            format!("other={sealed}"),
        ];
        for at in (0..sealed.len()).step_by(7) {
            let mut changed = sealed.clone().into_bytes();
            changed[at] = if changed[at] == b'x' { b'y' } else { b'x' };
            refused.push(format!("old={}", String::from_utf8(changed).unwrap()));
        }
        for cookie in &refused {
            assert_eq!(status("/old/a.txt", cookie), 401, "{protocol:?} {cookie}");
        }
        // The same key, but another cookie; and what its user may not have.
        assert_eq!(status("/other/a.txt", &format!("other={sealed}")), 401);
        let other = status("/admin/a.txt", &format!("old={sealed}"));
        assert!(matches!(other, 401 | 403), "{protocol:?}: {other}");
    }
}

#[test]
fn keys_change_and_sessions_end() {
    let site = start("form-keys");
    for protocol in PROTOCOLS {
        let old = logged_in(&site, protocol, "/old/a.txt");
        let new = logged_in(&site, protocol, "/new/a.txt");
        let status = |target: &str, value: &str| {
            get(&site, protocol, target, &format!("old={value}")).status
        };
        assert_eq!(
            status("/new/a.txt", &old),
            200,
            "{protocol:?}: the old key still opens"
        );
        assert_eq!(status("/gone/a.txt", &old), 401, "{protocol:?}: no longer");
        assert_eq!(
            status("/gone/a.txt", &new),
            200,
            "{protocol:?}: the first key seals"
        );
        assert_eq!(status("/old/a.txt", &new), 401, "{protocol:?}");
        // A log-out takes the user out of the session, and says so to the client.
        let out = get(&site, protocol, "/out", &format!("old={old}"));
        let cookie = out.field("set-cookie").unwrap();
        assert!(cookie.starts_with("old=;"), "{protocol:?}: {cookie}");
        let stores = out.field("cache-control").unwrap();
        assert!(stores.contains("no-store"), "{protocol:?}: {stores}");
        // A session that has been given an end is over then, wherever it is sent.
        let short = logged_in(&site, protocol, "/short/a.txt");
        wait_until("the session is over", || {
            status("/old/a.txt", &short) == 401
        });
    }
}

#[test]
fn requests_of_forms_stay_requests() {
    let site = start("form-requests");
    for protocol in PROTOCOLS {
        let answer = |more: &str| post(&site, protocol, "/old/a.txt", &format!("{LOG_IN}&{more}"));
        for method in ["CONNECT", "TRACE", "GET+/admin/a.txt", "get%0d%0ax:y", "a"] {
            let found = answer(&format!("httpd_method={method}&httpd_mimetype=text/plain"));
            assert!(
                found.status >= 400,
                "{protocol:?} {method}: {}",
                found.status
            );
        }
        let found = answer("httpd_location=/x%0d%0aSet-Cookie:+sid=forged");
        let fields = format!("{:?}", found.fields);
        assert!(!fields.contains("forged"), "{protocol:?}: {fields}");
        let found = answer("httpd_method=GET&httpd_mimetype=a/b%0d%0ax:+y&httpd_body=c");
        assert_eq!(found.status, 500, "{protocol:?}: {found:?}");
        // Content beyond AuthFormSize, and more fields than are read.
        let found = answer(&format!("x={}", "y".repeat(20_000)));
        assert_eq!(found.status, 413, "{protocol:?}");
        let many = format!("{}{LOG_IN}", "x&".repeat(2000));
        assert_eq!(
            post(&site, protocol, "/old/a.txt", &many).status,
            401,
            "{protocol:?}"
        );
        let form = "httpd_username=bob%00ann&httpd_password=password";
        let user = post(&site, protocol, "/admin/a.txt", form).status;
        assert!(
            matches!(user, 200 | 405),
            "{protocol:?}: a zero byte ends a name: {user}"
        );
    }
}
