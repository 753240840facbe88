//! Log-in at a real OpenID Connect provider: roles, attacks on the callback, the end of sessions,
//! and the way back in a browser.

use crate::{
    console::{
        browser::Browser,
        fixture::{Fixture, Keys, text},
    },
    openid_provider::{CurlBrowser, Provider},
    operate::{self, folder},
    tls_site,
};
use saker_testkit::{PATIENCE, free_port};

fn settings(port: u16, roles: &str) -> String {
    format!(
        "[console.oidc]\nissuer = \"http://127.0.0.1:{port}\"\nclient_id = \"shop\"\n\
         client_secret_file = \"{{dir}}/secret\"\nscopes = [\"openid\", \"groups\"]\n\
         user_claim = \"sub\"\nroles_claim = \"groups\"\nroles = {roles}\n"
    )
}

const STAFF: &str = "{ staff = \"administrator\", \"Domain Users\" = \"viewer\" }";

struct Stage {
    fixture: Fixture,
    port: u16,
    _provider: Provider,
}

/// `host`: the console's, as the provider knows it.
fn stage(name: &str, host: &str) -> Stage {
    let dir = folder(name);
    dir.write("secret", "a secret: with %\n").unwrap();
    let port = free_port().unwrap();
    let keys = Keys {
        console: &settings(port, STAFF),
        ..Keys::default()
    };
    let fixture = Fixture::start_in(dir, &keys);
    let base = format!("http://{host}:{}", fixture.console.port());
    let callback = format!("{base}/login/oidc/callback");
    let provider = Provider::start(port, &callback, &base);
    Stage {
        fixture,
        port,
        _provider: provider,
    }
}

#[test]
fn users_of_a_provider_have_the_roles_of_their_groups() {
    let stage = stage("console-oidc", "127.0.0.1");
    let fixture = &stage.fixture;
    let base = format!("http://{}", fixture.console);
    let browser = |name: &str| CurlBrowser::new(&fixture.saker.dir, name, "--http1.1");
    let (ann, bob, other) = (browser("ann"), browser("bob"), browser("other"));
    let page = ann.open(&format!("{base}/login"), &[]);
    let link = format!("href=\"/login/oidc\">Log in at 127.0.0.1:{}", stage.port);
    assert!(page.text.contains(&link), "{page:?}");
    let page = ann.log_in(&format!("{base}/login/oidc"), "ann");
    assert!(
        page.status == 200 && page.text.contains("url=/\""),
        "{page:?}\n{}",
        fixture.saker.server.stderr()
    );
    assert!(
        page.heads.contains("HttpOnly; SameSite=Strict"),
        "{}",
        page.heads
    );
    let callback = page.url;
    let page = ann.open(&format!("{base}/audit"), &[]);
    assert!(
        page.status == 200 && page.text.contains("oidc:ann"),
        "{page:?}"
    );
    // A code is good once, and for the browser that began.
    for (browser, url) in [
        (&ann, callback.clone()),
        (&other, callback.clone()),
        (&other, format!("{base}/login/oidc/callback")),
        (&other, format!("{base}/login/oidc/callback?code=x&state=")),
    ] {
        let page = browser.open(&url, &[]);
        assert_eq!(page.status, 400, "{page:?}");
        assert!(!page.heads.contains("saker-console="), "{}", page.heads);
    }
    // The attempt of another browser, with this one's cookie.
    other.open(&format!("{base}/login/oidc"), &[]);
    let page = other.open(&callback, &[]);
    assert_eq!(page.status, 400, "{page:?}");
    // Without a role there is no session.
    let page = bob.log_in(&format!("{base}/login/oidc"), "bob");
    assert_eq!(page.status, 403, "{page:?}");
    assert_eq!(bob.open(&format!("{base}/"), &[]).status, 303);
    let reason = "user \"bob\" has none of the roles";
    let server = &fixture.saker.server;
    server.wait_for_stderr(reason, PATIENCE).unwrap();
    // Other roles end sessions.
    let keys = settings(stage.port, "{ staff = \"viewer\" }");
    let keys = Keys {
        console: &keys,
        ..Keys::default()
    };
    operate::rewrite(&fixture.saker, &text(fixture.console, &keys));
    let reloaded = operate::reload(&fixture.saker);
    assert!(reloaded.status.success(), "{}", operate::stderr(&reloaded));
    assert_eq!(ann.open(&format!("{base}/"), &[]).status, 303);
    // The provider knows her still, and may ask for her consent.
    let page = ann.open(&format!("{base}/login/oidc"), &["-L"]);
    if page.url.contains("/interaction/") {
        ann.open(&page.url, &["-L", "-d", "prompt=consent"]);
    }
    assert_eq!(ann.open(&format!("{base}/cache"), &[]).status, 200);
    assert_eq!(ann.open(&format!("{base}/audit"), &[]).status, 403);
}

#[test]
fn a_browser_comes_back_from_another_site_with_its_session() {
    let stage = stage("console-oidc-browser", "localhost");
    let base = format!("http://localhost:{}", stage.fixture.console.port());
    let mut browser = Browser::start();
    browser.open(&format!("{base}/login"));
    browser.evaluate("document.querySelector('a[href=\"/login/oidc\"]').click()");
    browser.wait_for("document.querySelector('[name=login]')");
    browser.evaluate(
        "document.querySelector('[name=login]').value = 'ann'; \
         document.querySelector('[name=password]').value = 'x'; \
         document.querySelector('form').submit()",
    );
    browser.wait_for("document.querySelector('[name=prompt][value=consent]')");
    browser.evaluate("document.querySelector('form').submit()");
    browser.wait_for(
        "location.pathname === '/' && document.querySelector('.session')?.textContent.includes('oidc:ann')",
    );
}

#[test]
fn a_provider_that_is_down_or_lies_lets_no_one_in() {
    let dir = folder("console-oidc-down");
    dir.write("secret", "x\n").unwrap();
    let keys = Keys {
        console: &settings(free_port().unwrap(), STAFF),
        ..Keys::default()
    };
    let fixture = Fixture::start_in(dir, &keys);
    let ask = |path: &str| fixture.ask("GET", path, &[], "");
    let page = ask("/login/oidc");
    assert!(
        page.status == 502 && page.field("set-cookie").is_none(),
        "{}",
        page.text()
    );
    let server = &fixture.saker.server;
    server.wait_for_stderr("SK1402", PATIENCE).unwrap();
    // The other ways in are open.
    fixture.administrator();
    // Without the table there is nothing.
    let fixture = Fixture::start("console-without-oidc", "");
    assert_eq!(fixture.ask("GET", "/login/oidc", &[], "").status, 404);
    let page = fixture.ask("GET", "/login", &[], "").text();
    assert!(!page.contains("/login/oidc"), "{page}");
}

#[test]
fn a_provider_with_tls_is_known_by_its_authority() {
    let port = free_port().unwrap();
    let issuer = format!("https://localhost:{port}");
    let metadata = serde_json::json!({
        "issuer": issuer, "authorization_endpoint": format!("{issuer}/auth"),
        "token_endpoint": format!("{issuer}/token"), "jwks_uri": format!("{issuer}/keys"),
    });
    for (ca_file, status) in [("ca_file = \"{dir}/site.pem\"", 303), ("", 502)] {
        let dir = folder("console-oidc-tls");
        tls_site::leaf_certificate(&dir, "site", "localhost");
        let path = "www/.well-known/openid-configuration";
        dir.write(path, metadata.to_string()).unwrap();
        let console = format!(
            "[console.oidc]\nissuer = \"{issuer}\"\nclient_id = \"shop\"\n\
             client_secret = \"x\"\nroles = {STAFF}\n{ca_file}\n"
        );
        let site = format!(
            "[site.tls]\ncertificate = \"{{dir}}/site.pem\"\nkey = \"{{dir}}/site.key\"\n\
             [[listener]]\naddress = \"127.0.0.1:{port}\"\ntls = true\n"
        );
        let keys = Keys {
            console: &console,
            site: &site,
            ..Keys::default()
        };
        let fixture = Fixture::start_in(dir, &keys);
        let answer = fixture.ask("GET", "/login/oidc", &[], "");
        let stderr = fixture.saker.server.stderr();
        assert_eq!(answer.status, status, "{ca_file}\n{stderr}");
        if status == 303 {
            let to = answer.field("location").unwrap();
            assert!(to.starts_with(&format!("{issuer}/auth?")), "{to}");
            let set = answer.field("set-cookie").unwrap();
            assert!(set.contains("HttpOnly; SameSite=Lax; Max-Age=600"), "{set}");
        }
    }
}
