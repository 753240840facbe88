//! Log-in at an OpenID Connect provider over HTTP/3: the site's part of the dialogue, with curl for
//! the provider's pages.
//!
//! Called by: `cargo test -p saker --test serving identity::http3`.
//! Caveat: curl ends at the callback without the client's cookie, so the site refuses it there, and
//! the code is not spent.

use super::{Browser, stage};
use crate::http3_client::{Client, Response};

/// The cookies that a response sets, as a client sends them.
fn cookies(response: &Response) -> Vec<String> {
    let set = response.fields.iter();
    let set = set.filter(|(name, _)| name == "set-cookie");
    let pairs = set.filter_map(|(_, value)| value.split(';').next());
    pairs
        .filter(|pair| !pair.ends_with('='))
        .map(str::to_owned)
        .collect()
}

#[test]
fn browsers_log_in_over_http3() {
    let stage = stage("identity-oidc-h3", "", "");
    let address = stage.saker.server.address().to_string();
    let mut connection = Client::default().connect(&address);
    connection.authority = address;
    let mut get = |path: &str, cookies: &[String]| {
        // One field for each, as browsers send them (RFC 9114 section 4.2.1).
        let fields: Vec<(&str, &str)> = cookies.iter().map(|one| ("cookie", &**one)).collect();
        connection.ask("GET", path, &fields, b"")
    };
    let first = get("/app/me?a=b", &[]);
    assert_eq!(first.status, 302);
    let state = cookies(&first);
    let browser = Browser::new(&stage.saker.dir, "h3", "--http1.1");
    let page = browser.log_in(first.field("location").unwrap(), "ann");
    let callback = page.url.strip_prefix(&stage.url);
    let callback = callback.unwrap_or_else(|| panic!("no callback: {page:?}"));
    assert!(callback.starts_with("/oidc/callback?"), "{callback}");
    assert!(
        page.status >= 400,
        "curl has not begun this log-in: {page:?}"
    );
    // Another client's cookies do not take the code either.
    let other = cookies(&get("/app/me", &[]));
    assert_ne!(other, state);
    assert!(get(callback, &other).status >= 400);
    let back = get(callback, &state);
    assert_eq!(
        (back.status, back.field("location")),
        (302, Some("/app/me?a=b")),
        "{}",
        stage.saker.server.stderr()
    );
    let session = cookies(&back);
    assert!(
        session
            .iter()
            .any(|one| one.starts_with("__Host-saker-session-")),
        "{session:?}"
    );
    let me = get("/app/me?a=b", &session);
    assert_eq!(
        (me.status, &*me.text()),
        (
            200,
            "/app/me?a=b Remote-Email: ann@example.org | Remote-Name: ann\n"
        )
    );
    // The code is spent, and a client without the session starts again.
    assert_ne!(get(callback, &state).status, 200);
    assert_eq!(get("/app/me?a=b", &[]).status, 302);
    let out = get("/oidc/logout", &session);
    assert!(
        out.status == 302 && out.field("location").unwrap().contains("/session/end?"),
        "{:?}",
        out.fields
    );
}
