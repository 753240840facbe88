//! The text editor in a browser: diagnostics while typing, with line and column, and completion.

use crate::{
    console::browser::Browser,
    console::fixture::{Fixture, cookie_of},
    console::languages::opened,
    operate::{SAKER, apache, folder},
};
use saker_testkit::Saker;
use serde_json::{Value, json};

fn complete(fixture: &Fixture, token: &str, file: &str, before: &str) -> (u16, Value) {
    let body = json!({ "file": file, "before": before });
    fixture.api(token, "POST", "/api/v1/configuration/complete", &body)
}

fn texts(answer: &Value) -> Vec<&str> {
    let candidates = answer["candidates"].as_array().unwrap().iter();
    candidates
        .map(|one| one["text"].as_str().unwrap())
        .collect()
}

fn first_file(fixture: &Fixture, token: &str) -> String {
    let (_, open) = fixture.api(token, "GET", "/api/v1/configuration", &Value::Null);
    open["file"].as_str().unwrap().to_owned()
}

#[test]
fn each_language_is_completed() {
    let fixture = Fixture::start("editor-complete", "");
    let token = fixture.token("administrator");
    let file = first_file(&fixture, &token);
    let (status, answer) = complete(&fixture, &token, &file, "[[site]]\nlisti");
    assert_eq!(
        (status, texts(&answer), &answer["typed"]),
        (200, vec!["listing"], &json!(5))
    );
    assert_eq!(complete(&fixture, &token, "/etc/passwd", "a").0, 404);
    let operator = fixture.token("operator");
    assert_eq!(complete(&fixture, &operator, &file, "a").0, 403);

    let text = "LoadModule mpm_event_module modules/mod_mpm_event.so\nListen {address}\nServerName localhost\nDocumentRoot {dir}/www\n";
    let fixture = opened(apache(text).start(folder("editor-complete-apache")));
    let token = fixture.token("administrator");
    let file = first_file(&fixture, &token);
    let (_, answer) = complete(&fixture, &token, &file, "<VirtualHost *:80>\nDocumentRo");
    assert_eq!(texts(&answer), ["DocumentRoot"]);

    let dir = folder("editor-complete-nginx");
    dir.write("more.conf", "add_header X-More yes;\n").unwrap();
    let text = "events {}\nhttp { server { listen {address}; root {dir}/www; include {dir}/more.conf; } }\n";
    let fixture = opened(Saker::nginx(SAKER, text).start(dir));
    let token = fixture.token("administrator");
    let (_, open) = fixture.api(&token, "GET", "/api/v1/configuration", &Value::Null);
    let files: Vec<&str> = open["files"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(Value::as_str)
        .collect();
    assert_eq!(files.len(), 2, "{open}");
    let (_, answer) = complete(&fixture, &token, files[0], "http { server { server_na");
    assert_eq!(texts(&answer), ["server_name", "server_name_in_redirect"]);
    assert_eq!(
        texts(&complete(&fixture, &token, files[0], "add_hea").1),
        [""; 0]
    );
    let more = files
        .iter()
        .find(|file| file.ends_with("more.conf"))
        .unwrap();
    assert_eq!(
        texts(&complete(&fixture, &token, more, "add_hea").1),
        ["add_header", "add_header_inherit"]
    );
    // Diagnostics of an included file have its place.
    let body = json!({ "file": more, "text": "add_header X-More yes;\nno_such_directive on;\n" });
    let (_, checked) = fixture.api(&token, "POST", "/api/v1/configuration/check", &body);
    let error = &checked["diagnostics"][0];
    assert_eq!(
        (&error["line"], &error["is_here"]),
        (&json!(2), &json!(true)),
        "{checked}"
    );
}

#[test]
fn mistakes_are_marked_while_they_are_typed() {
    let fixture = Fixture::start("editor-typing", "");
    fixture.add_user("ada", "administrator", "secret");
    let logged_in = fixture.submit("/login", "", "name=ada&password=secret");
    assert!(!cookie_of(&logged_in).is_empty());
    let base = format!("http://{}", fixture.console);
    let mut browser = Browser::start();
    browser.open(&format!("{base}/link?token={}", fixture.link()));
    browser.evaluate("document.querySelector('form').requestSubmit()");
    browser.wait_for("location.pathname === '/' && document.readyState === 'complete'");
    browser.open(&format!("{base}/configuration"));
    browser.wait_for("document.body.dataset.checked !== undefined");
    let lines = browser.evaluate(
        "document.querySelector('.gutter').children.length === text.value.split('\\n').length",
    );
    assert_eq!(lines, true);
    // A key that does not exist, at the end: its line, and its very characters.
    browser.evaluate(
        "text.focus(); text.setSelectionRange(text.value.length, text.value.length); \
         document.execCommand('insertText', false, 'nosuchkey = 1\\n'); 1",
    );
    browser
        .wait_for("document.querySelector('.gutter .error') && document.body.dataset.checked > 0");
    let marked = browser.evaluate(
        "(() => { const at = text.value.split('\\n').length - 1; \
         const mark = document.querySelector('.marks mark.error'); \
         return [document.querySelector('.gutter .error').textContent.trim() === `●${at}`, \
                 mark.textContent.length, mark.previousSibling.textContent === '']; })()",
    );
    assert_eq!(marked, json!([true, "nosuchkey".len(), true]));
    let listed =
        browser.evaluate("document.querySelector('#diagnostics button.error').textContent");
    assert!(listed.as_str().unwrap().contains("nosuchkey"), "{listed}");
    // Its line in the list leads there.
    browser.evaluate("document.querySelector('#diagnostics button.error').click(); 1");
    let place = browser.evaluate("text.value.slice(text.selectionStart).startsWith('nosuchkey')");
    assert_eq!(place, true);
    // Without it, nothing is marked.
    browser.evaluate(
        "text.setSelectionRange(text.selectionStart, text.value.length); document.execCommand('delete'); 1",
    );
    browser.wait_for("document.body.dataset.checked !== undefined && !document.querySelector('.marks mark.error')");
    assert_eq!(browser.problems(), [""; 0]);
}

#[test]
fn words_are_completed_by_the_keyboard() {
    let fixture = Fixture::start("editor-keyboard", "");
    let base = format!("http://{}", fixture.console);
    let mut browser = Browser::start();
    browser.open(&format!("{base}/link?token={}", fixture.link()));
    browser.evaluate("document.querySelector('form').requestSubmit()");
    browser.wait_for("location.pathname === '/' && document.readyState === 'complete'");
    browser.open(&format!("{base}/configuration"));
    browser.wait_for("document.body.dataset.checked !== undefined");
    browser.evaluate(
        "text.focus(); text.setSelectionRange(text.value.length, text.value.length); \
         document.execCommand('insertText', false, '[[site]]\\nroo'); 1",
    );
    let key = |name: &str, with_control: bool| {
        format!(
            "text.dispatchEvent(new KeyboardEvent('keydown', {{ key: '{name}', ctrlKey: {with_control}, bubbles: true, cancelable: true }})); 1"
        )
    };
    browser.evaluate(&key(" ", true));
    browser.wait_for("!candidates.hidden && candidates.querySelector('[aria-selected=true]')");
    assert_eq!(browser.serious_violations(), "");
    let first =
        browser.evaluate("candidates.querySelector('[aria-selected=true] .code').textContent");
    assert_eq!(first, "root");
    browser.evaluate(&key("Escape", false));
    assert_eq!(browser.evaluate("candidates.hidden"), true);
    browser.evaluate(&key(" ", true));
    browser.wait_for("!candidates.hidden");
    browser.evaluate(&key("Enter", false));
    assert_eq!(
        browser.evaluate("text.value.endsWith('[[site]]\\nroot')"),
        true
    );
    // Without a choice, keys do what they do in every text.
    assert_eq!(browser.evaluate("candidates.hidden"), true);
    let is_kept = browser.evaluate(
        "text.dispatchEvent(new KeyboardEvent('keydown', { key: 'Tab', bubbles: true, cancelable: true }))",
    );
    assert_eq!(is_kept, true, "Tab leaves the text");
    assert_eq!(browser.problems(), [""; 0]);
}
