//! Passkeys in a browser, with an authenticator of its own: added, used, and worth nothing once
//! their user has changed.

use crate::console::{browser::Browser, fixture::Fixture};
use serde_json::json;

fn log_in_by_password(browser: &mut Browser, base: &str, password: &str) {
    browser.open(&format!("{base}/login"));
    browser.evaluate(&format!(
        "document.querySelector('[name=name]').value = 'ada'; \
         document.querySelector('[name=password]').value = '{password}'; \
         document.querySelector('form[action=\"/login\"]').requestSubmit()"
    ));
    browser.wait_for("location.pathname === '/' && document.readyState === 'complete'");
}

fn log_out(browser: &mut Browser) {
    browser.evaluate("document.querySelector('form.session').requestSubmit()");
    browser.wait_for("location.pathname === '/login' && document.readyState === 'complete'");
}

fn submit(browser: &mut Browser, action: &str) {
    browser.evaluate(&format!(
        "document.querySelector('form[action=\"{action}\"]').requestSubmit(); 1"
    ));
}

#[test]
fn a_passkey_logs_in_until_its_user_changes() {
    let fixture = Fixture::start("console-passkeys", "");
    fixture.add_user("ada", "operator", "correct");
    let base = format!("http://localhost:{}", fixture.console.port());
    let mut browser = Browser::start();
    browser.call("WebAuthn.enable", json!({}));
    let options = json!({
        "protocol": "ctap2", "transport": "internal", "hasResidentKey": true,
        "hasUserVerification": true, "isUserVerified": true, "automaticPresenceSimulation": true,
    });
    let added = browser.call(
        "WebAuthn.addVirtualAuthenticator",
        json!({ "options": options }),
    );
    let authenticator = added["authenticatorId"].clone();
    // No passkey yet.
    browser.open(&format!("{base}/login"));
    submit(&mut browser, "/login/passkey");
    browser.wait_for("document.querySelector('form[action=\"/login/passkey\"] [role=status]').textContent.includes('no passkey')");
    log_in_by_password(&mut browser, &base, "correct");
    browser.open(&format!("{base}/passkeys"));
    submit(&mut browser, "/passkeys/add");
    browser.wait_for("document.querySelector('.notice.good')?.textContent.includes('added')");
    log_out(&mut browser);
    submit(&mut browser, "/login/passkey");
    browser.wait_for("location.pathname === '/' && document.querySelector('form.session').textContent.includes('ada, operator')");
    // The same answer is none a second time, and none without the user's verification.
    log_out(&mut browser);
    let unverified = json!({ "authenticatorId": authenticator, "isUserVerified": false });
    browser.call("WebAuthn.setUserVerified", unverified);
    submit(&mut browser, "/login/passkey");
    browser.wait_for("document.querySelector('form[action=\"/login/passkey\"] [role=status]').textContent !== ''");
    let verified = json!({ "authenticatorId": authenticator, "isUserVerified": true });
    browser.call("WebAuthn.setUserVerified", verified);
    // With another password, those who knew the one before have nothing left.
    fixture.add_user("ada", "operator", "another");
    browser.open(&format!("{base}/login"));
    submit(&mut browser, "/login/passkey");
    browser
        .wait_for("document.querySelector('.notice.wrong')?.textContent.includes('has changed')");
    log_in_by_password(&mut browser, &base, "another");
    browser.open(&format!("{base}/passkeys"));
    browser.wait_for("document.querySelector('form[action=\"/passkeys/remove\"]').textContent.includes('of no use')");
    submit(&mut browser, "/passkeys/remove");
    browser.wait_for("document.querySelector('.notice.good')?.textContent.includes('removed')");
    log_out(&mut browser);
    submit(&mut browser, "/login/passkey");
    browser.wait_for("document.querySelector('.notice.wrong')?.textContent.includes('not known')");
}

#[test]
fn answers_are_good_once_and_links_have_no_passkeys() {
    let fixture = Fixture::start("console-passkeys-forged", "");
    fixture.add_user("local", "viewer", "correct");
    // A session by a link is called `local`, too, and is no user.
    let by_link = fixture.administrator();
    let page = fixture.page("/passkeys", &by_link).text();
    assert!(
        page.contains("came by a link") && !page.contains("data-passkey"),
        "{page}"
    );
    let refused = fixture
        .submit("/passkeys/add", &by_link, "id=AA&challenge=x")
        .text();
    assert!(
        refused.contains("only users of the users file"),
        "{refused}"
    );
    for form in [
        "",
        "id=AA",
        "id=AA&client_data=e30&authenticator_data=AA&signature=AA&public_key=&challenge=x",
        "id=%FF",
    ] {
        let answer = fixture.submit("/login/passkey", "", form);
        assert!(
            answer.status == 403 && answer.field("set-cookie").is_none(),
            "{form}"
        );
    }
    // Failed attempts count as those with passwords do.
    let statuses: Vec<u16> = (0..5)
        .map(|_| fixture.submit("/login/passkey", "", "id=AA").status)
        .collect();
    assert_eq!(statuses.last(), Some(&429), "{statuses:?}");
    assert_eq!(
        fixture
            .submit("/login", "", "name=local&password=correct")
            .status,
        429
    );
}
