//! The configuration editor: what can be opened, what can be applied, and the way back.

use crate::{
    console::fixture::{Fixture, Keys, text},
    operate::{SAKER, folder, native},
};
use saker_testkit::{Client, Saker, saker::adjustable_clock, wait_until, wait_until_or};
use serde_json::{Value, json};
use std::fs;

const MARKER: &str = "# the one before\n";

struct Edited {
    fixture: Fixture,
    token: String,
    file: String,
    text: String,
    digest: String,
}

impl Edited {
    fn start(name: &str) -> Edited {
        let dir = folder(name);
        adjustable_clock(&dir).unwrap();
        Edited::of(Fixture::start_in(dir, &Keys::default()))
    }

    fn of(fixture: Fixture) -> Edited {
        let token = fixture.token("administrator");
        let (status, open) = fixture.api(&token, "GET", "/api/v1/configuration", &Value::Null);
        assert_eq!(status, 200, "{open}");
        let text = |name: &str| open[name].as_str().unwrap().to_owned();
        Edited {
            token,
            file: text("file"),
            text: text("text"),
            digest: text("digest"),
            fixture,
        }
    }

    fn post(&self, action: &str, body: Value) -> (u16, Value) {
        self.fixture.api(
            &self.token,
            "POST",
            &format!("/api/v1/configuration/{action}"),
            &body,
        )
    }

    fn apply(&self, text: &str) -> (u16, Value) {
        self.post(
            "apply",
            json!({ "file": self.file, "text": text, "base": self.digest }),
        )
    }

    fn on_disk(&self) -> String {
        fs::read_to_string(self.fixture.saker.dir.join("saker.toml")).unwrap()
    }

    /// With an answer of its own.
    fn changed(&self) -> String {
        format!(
            "{}\n[[site.route]]\npath = \"/new\"\nrespond = \"new\"\n",
            self.text
        )
    }

    fn serves_new(&self) -> bool {
        self.fixture
            .saker
            .connect()
            .unwrap()
            .get("/new")
            .unwrap()
            .text()
            == "new"
    }
}

#[test]
fn only_files_of_the_configuration_can_be_opened() {
    let edited = Edited::start("editor-files");
    let secret = edited.fixture.saker.dir.join("state/console-users");
    for file in [
        "/etc/passwd",
        "../../etc/passwd",
        "saker.toml/../state/console-users",
        "./saker.toml",
        &secret.to_string_lossy(),
        &format!("{}/../state/console-users", edited.file),
        &format!("{}\0", edited.file),
        "state/console/audit.log",
    ] {
        let encoded: String = file.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let path = format!("/api/v1/configuration?file={encoded}");
        let (status, answer) = edited
            .fixture
            .api(&edited.token, "GET", &path, &Value::Null);
        assert_eq!(status, 404, "{file}: {answer}");
        for action in ["check", "apply"] {
            let body = json!({ "file": file, "text": "x", "base": edited.digest });
            assert!(edited.post(action, body).0 >= 400, "{action} {file}");
        }
    }
    let cookie = edited.fixture.administrator();
    for query in [
        "file=/etc/passwd",
        "version=../../saker",
        "file=/etc/passwd&version=../pending",
    ] {
        let page = edited
            .fixture
            .page(&format!("/configuration?{query}"), &cookie)
            .text();
        assert!(!page.contains("root:"), "{page}");
    }
    // A key in a file of the configuration is never shown.
    let with_key = format!("{}# -----BEGIN PRIVATE KEY-----\n", edited.on_disk());
    fs::write(edited.fixture.saker.dir.join("saker.toml"), with_key).unwrap();
    let (status, answer) =
        edited
            .fixture
            .api(&edited.token, "GET", "/api/v1/configuration", &Value::Null);
    assert!(
        status == 404 && answer["error"].as_str().unwrap().contains("private key"),
        "{answer}"
    );
}

#[test]
fn a_configuration_with_a_mistake_is_not_applied() {
    let edited = Edited::start("editor-mistake");
    let wrong = edited.text.replace("[[site]]", "[[site]]\nnosuchkey = 1");
    let (status, checked) = edited.post("check", json!({ "file": edited.file, "text": wrong }));
    assert_eq!(
        (status, &checked["has_errors"]),
        (200, &Value::Bool(true)),
        "{checked}"
    );
    assert!(
        checked["diagnostics"][0]["line"].as_u64().unwrap() > 5,
        "{checked}"
    );
    let (status, answer) = edited.apply(&wrong);
    assert_eq!(status, 409, "{answer}");
    // Nor one that was opened before another change.
    let stale = json!({ "file": edited.file, "text": edited.changed(), "base": "0" });
    assert_eq!(edited.post("apply", stale).0, 409);
    assert_eq!(edited.on_disk(), edited.text);
    assert!(
        !edited
            .fixture
            .saker
            .dir
            .join("state/console/pending.json")
            .exists()
    );
}

#[test]
fn a_confirmed_change_stays_and_an_unconfirmed_one_is_undone() {
    let edited = Edited::start("editor-confirm");
    let (status, applied) = edited.apply(&edited.changed());
    assert_eq!(status, 200, "{applied}");
    wait_until("the change is in force", || edited.serves_new());
    assert_eq!(edited.on_disk(), edited.changed());
    assert_eq!(edited.apply(MARKER).0, 409, "one change at a time");
    assert_eq!(edited.post("confirm", json!({ "id": "other" })).0, 409);
    assert_eq!(
        edited.post("confirm", json!({ "id": applied["id"] })).0,
        200
    );
    edited.fixture.saker.advance_clock(120).unwrap();
    let edited = Edited::of(edited.fixture);
    assert!(edited.serves_new());
    // Another one, which is not confirmed.
    let (status, _) = edited.apply(&format!(
        "{MARKER}{}",
        edited.text.replace("\"new\"", "\"newer\"")
    ));
    assert_eq!(status, 200);
    assert!(edited.on_disk().starts_with(MARKER));
    edited.fixture.saker.advance_clock(61).unwrap();
    wait_until_or(
        || edited.on_disk() == edited.text && edited.serves_new(),
        || edited.fixture.saker.server.stderr(),
    );
    wait_until("the log tells", || {
        edited.fixture.saker.server.stderr().contains("SK1704")
    });
    // The page lists what was replaced, and who replaced it.
    let cookie = edited.fixture.administrator();
    let page = edited.fixture.page("/configuration", &cookie).text();
    assert_eq!(page.matches("&amp;version=").count(), 2, "{page}");
    assert!(page.contains("administrator"), "{page}");
}

#[test]
fn a_change_can_be_undone_at_once_and_through_the_pages() {
    let edited = Edited::start("editor-undo");
    let cookie = edited.fixture.administrator();
    let encoded = |text: &str| {
        text.bytes()
            .map(|byte| format!("%{byte:02X}"))
            .collect::<String>()
    };
    // As browsers send it.
    let in_form = encoded(&edited.changed().replace('\n', "\r\n"));
    let form = format!(
        "file={}&base={}&text={in_form}",
        encoded(&edited.file),
        edited.digest
    );
    let proposed = edited
        .fixture
        .submit("/configuration/propose", &cookie, &form)
        .text();
    assert!(
        proposed.contains("+path = &#34;/new&#34;") && proposed.contains("/configuration/apply"),
        "{proposed}"
    );
    let applied = edited
        .fixture
        .submit("/configuration/apply", &cookie, &form)
        .text();
    let id = applied
        .split("name=\"id\" value=\"")
        .nth(1)
        .unwrap()
        .split('"')
        .next()
        .unwrap();
    wait_until("the change is in force", || edited.serves_new());
    let undone = edited
        .fixture
        .submit("/configuration/roll-back", &cookie, &format!("id={id}"))
        .text();
    assert!(undone.contains("The change is undone."), "{undone}");
    assert_eq!(edited.on_disk(), edited.text);
    wait_until("the change is undone", || !edited.serves_new());
    let wrong = encoded("nosuchkey = 1\n");
    let form = format!(
        "file={}&base={}&text={wrong}",
        encoded(&edited.file),
        edited.digest
    );
    let proposed = edited
        .fixture
        .submit("/configuration/propose", &cookie, &form)
        .text();
    assert!(
        proposed.contains("nosuchkey") && !proposed.contains("/configuration/apply"),
        "{proposed}"
    );
}

/// The server is killed while it applies: at three points, each as soon as it is seen.
#[test]
fn a_kill_while_applying_leaves_the_old_file_or_the_new_one() {
    for point in ["audit.log", "history", "pending.json"] {
        let edited = Edited::start(&format!("editor-kill-{}", point.replace('.', "-")));
        let (before, changed) = (edited.text.clone(), edited.changed());
        let (address, console) = (
            edited.fixture.saker.server.address(),
            edited.fixture.console,
        );
        let order = json!({ "file": edited.file, "text": changed, "base": edited.digest });
        let token = edited.token.clone();
        let Saker { mut server, dir } = edited.fixture.saker;
        let mut client = Client::connect(console).unwrap();
        let order = order.to_string();
        client
            .send(format!(
                "POST /api/v1/configuration/apply HTTP/1.1\r\nHost: {console}\r\nAuthorization: Bearer {token}\r\nContent-Length: {}\r\n\r\n{order}",
                order.len()
            ))
            .unwrap();
        wait_until("it is applied", || {
            dir.join("state/console").join(point).exists()
        });
        server.kill().unwrap();
        let now = fs::read_to_string(dir.join("saker.toml")).unwrap();
        assert!(now == before || now == changed, "{point}: {now}");
        // Whichever it was: it starts, and without a confirmation it is the old one in the end.
        let again = native(&text(console, &Keys::default()));
        let restarted = again.existing_file("saker.toml").at(address).start_in(&dir);
        wait_until("the console is back", || Client::connect(console).is_ok());
        saker_testkit::saker::advance_clock(&dir, 61).unwrap();
        wait_until_or(
            || {
                fs::read_to_string(dir.join("saker.toml")).unwrap() == before
                    && !dir.join("state/console/pending.json").exists()
            },
            || format!("{point}: {}\n{SAKER}", restarted.stderr()),
        );
    }
}

#[test]
fn a_crash_leaves_a_whole_file_and_the_change_is_undone_after_it() {
    let edited = Edited::start("editor-crash");
    assert_eq!(edited.apply(&edited.changed()).0, 200);
    let (before, changed) = (edited.text.clone(), edited.changed());
    let address = edited.fixture.saker.server.address();
    let Saker { mut server, dir } = edited.fixture.saker;
    server.kill().unwrap();
    let now = fs::read_to_string(dir.join("saker.toml")).unwrap();
    assert_eq!(now, changed);
    // It is not confirmed after the start either.
    let console = edited.fixture.console;
    let again = native(&text(console, &Keys::default()));
    let restarted = again.existing_file("saker.toml").at(address).start_in(&dir);
    wait_until("the console is back", || Client::connect(console).is_ok());
    saker_testkit::saker::advance_clock(&dir, 61).unwrap();
    wait_until_or(
        || fs::read_to_string(dir.join("saker.toml")).unwrap() == before,
        || format!("{}\n{SAKER}", restarted.stderr()),
    );
    wait_until("the note is gone", || {
        !dir.join("state/console/pending.json").exists()
    });
}
