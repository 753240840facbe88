//! Apache's and nginx's configurations in the editor: the same diagnostics as `saker check`, the
//! same way of a change, and no forms.

use crate::{
    console::fixture::Fixture,
    operate::{SAKER, apache, folder, saker, stdout},
};
use saker_testkit::{Client, Saker, wait_until};
use serde_json::{Value, json};
use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, chown},
    process::Command,
};

/// The console of a server whose configuration has none.
pub fn opened(saker_server: Saker) -> Fixture {
    let state_dir = saker_server
        .dir
        .join("state")
        .to_string_lossy()
        .into_owned();
    let link = stdout(&saker(["console", "--state-dir", &state_dir]));
    let address = link
        .split("/link")
        .next()
        .unwrap()
        .trim_start_matches("http://");
    let console = address.parse().unwrap_or_else(|_| panic!("{link}"));
    wait_until("the console is open", || Client::connect(console).is_ok());
    Fixture {
        saker: saker_server,
        console,
    }
}

/// Lines and messages that `saker check` prints about a file.
fn checked(option: &str, file: &str) -> String {
    let output = Command::new(SAKER)
        .args(["check", option, file])
        .output()
        .unwrap();
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

/// A wrong text gets what `saker check` says; a right one is applied, and undone.
fn edit(
    fixture: &Fixture,
    option: &str,
    file: &str,
    (wrong, right): (&str, &str),
    serves: impl Fn() -> bool,
) {
    let token = fixture.token("administrator");
    let encoded: String = file.bytes().map(|byte| format!("%{byte:02X}")).collect();
    let (status, open) = fixture.api(
        &token,
        "GET",
        &format!("/api/v1/configuration?file={encoded}"),
        &Value::Null,
    );
    assert_eq!(status, 200, "{open}");
    let before = open["text"].as_str().unwrap().to_owned();
    let post = |action: &str, text: &str| {
        let body = json!({ "file": file, "text": text, "base": open["digest"] });
        fixture.api(
            &token,
            "POST",
            &format!("/api/v1/configuration/{action}"),
            &body,
        )
    };
    let text = format!("{before}{wrong}");
    let (status, found) = post("check", &text);
    assert_eq!(
        (status, &found["has_errors"]),
        (200, &json!(true)),
        "{found}"
    );
    let diagnostics = found["diagnostics"].as_array().unwrap();
    let errors: Vec<&Value> = diagnostics
        .iter()
        .filter(|one| one["severity"] == "error")
        .collect();
    // The command says the same about the same text.
    fs::write(file, &text).unwrap();
    let main = fixture.saker.dir.join("httpd.conf").display().to_string();
    let said = checked(option, &main);
    fs::write(file, &before).unwrap();
    for error in &errors {
        assert!(
            said.contains(error["message"].as_str().unwrap()),
            "{error}: {said}"
        );
        assert_eq!(
            error["line"].as_u64().unwrap() as usize,
            text.lines().count(),
            "{error}"
        );
    }
    assert_eq!(post("apply", &text).0, 409);
    assert!(!serves());
    let (status, applied) = post("apply", &format!("{before}{right}"));
    assert_eq!(status, 200, "{applied}");
    wait_until("the change is in force", &serves);
    let (status, answer) = fixture.api(
        &token,
        "POST",
        "/api/v1/configuration/roll-back",
        &json!({ "id": applied["id"] }),
    );
    assert_eq!(status, 200, "{answer}");
    wait_until("the change is undone", || !serves());
    assert_eq!(fs::read_to_string(file).unwrap(), before);
    // There are no forms for it, and files beside the configuration are none of it.
    let cookie = fixture.administrator();
    let page = fixture.page("/configuration", &cookie).text();
    assert!(!page.contains("/configuration/settings"), "{page}");
    assert_eq!(
        fixture
            .api(
                &token,
                "GET",
                "/api/v1/configuration/settings",
                &Value::Null
            )
            .0,
        404
    );
    for other in [
        "/etc/passwd",
        "../../../etc/passwd",
        &format!("{file}/../state/console-users"),
        &format!("{file}%00"),
        "state/console-users",
    ] {
        let encoded: String = other.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let (status, answer) = fixture.api(
            &token,
            "GET",
            &format!("/api/v1/configuration?file={encoded}"),
            &Value::Null,
        );
        assert_eq!(status, 404, "{other}: {answer}");
        let body = json!({ "file": other, "text": "x", "base": open["digest"] });
        assert!(
            fixture
                .api(&token, "POST", "/api/v1/configuration/apply", &body)
                .0
                >= 400,
            "{other}"
        );
    }
}

fn serves(fixture: &Fixture, path: &str, status: u16) -> bool {
    let mut client = fixture.saker.connect().unwrap();
    client.get(path).unwrap().status == status
}

#[test]
fn files_of_apache() {
    let text = "LoadModule mpm_event_module modules/mod_mpm_event.so\nLoadModule authz_core_module modules/mod_authz_core.so\nLoadModule alias_module modules/mod_alias.so\nListen {address}\nServerName localhost\nDocumentRoot {dir}/www\nInclude {dir}/more.conf\n<Directory {dir}/www>\nRequire all granted\n</Directory>\n";
    let dir = folder("console-apache");
    dir.write("more.conf", "# More.\n").unwrap();
    let fixture = opened(apache(text).start(dir));
    let file = fixture.saker.dir.join("more.conf").display().to_string();
    // As an included file, and as one of its own for the command.
    let token = fixture.token("administrator");
    let (_, files) = fixture.api(&token, "GET", "/api/v1/configuration", &Value::Null);
    assert_eq!(files["files"].as_array().unwrap().len(), 2, "{files}");
    let change = ("NoSuchDirective on\n", "RedirectMatch 308 ^/old$ /new\n");
    edit(&fixture, "--apache", &file, change, || {
        serves(&fixture, "/old", 308)
    });
}

#[test]
fn the_file_of_nginx() {
    let dir = folder("console-nginx");
    let text = "events {}\nhttp { server { listen {address}; root {dir}/www; include {dir}/more.conf*; } }\n";
    let fixture = opened(Saker::nginx(SAKER, text).start(dir));
    // Started as root, the server is another user by now, who may write the file.
    let everyone = |path: &str, mode| {
        fs::set_permissions(
            fixture.saker.dir.join(path),
            fs::Permissions::from_mode(mode),
        )
        .unwrap();
    };
    everyone("", 0o777);
    everyone("nginx.conf", 0o644);
    let pid = fixture.saker.server.pid();
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let user = |line: &str| {
        status.lines().find_map(|one| {
            one.strip_prefix(line)?
                .split_whitespace()
                .nth(1)?
                .parse()
                .ok()
        })
    };
    chown(
        fixture.saker.dir.join("nginx.conf"),
        user("Uid:"),
        user("Gid:"),
    )
    .unwrap();
    let (token, cookie) = (fixture.token("administrator"), fixture.administrator());
    let (status, open) = fixture.api(&token, "GET", "/api/v1/configuration", &Value::Null);
    assert_eq!(status, 200, "{open}");
    let file = open["file"].as_str().unwrap().to_owned();
    let before = open["text"].as_str().unwrap().to_owned();
    let post = |action: &str, text: &str| {
        let body = json!({ "file": file, "text": text, "base": open["digest"] });
        fixture.api(
            &token,
            "POST",
            &format!("/api/v1/configuration/{action}"),
            &body,
        )
    };
    let wrong = before.replace("root ", "no_such_directive on; root ");
    let (_, found) = post("check", &wrong);
    assert_eq!(found["has_errors"], true, "{found}");
    let error = &found["diagnostics"][0];
    fs::write(&file, &wrong).unwrap();
    let said = checked("--nginx", &file);
    fs::write(&file, &before).unwrap();
    assert!(
        said.contains(error["message"].as_str().unwrap()) && error["line"] == 2,
        "{error}: {said}"
    );
    assert_eq!(post("apply", &wrong).0, 409);
    let right = before.replace("root ", "location = /old { return 308 /new; } root ");
    let (status, found) = post("check", &right);
    assert_eq!(
        (status, &found["has_errors"]),
        (200, &json!(false)),
        "{found}"
    );
    let page = fixture.page("/configuration", &cookie).text();
    assert!(page.contains("listen"), "{page}");
    assert!(!page.contains("/configuration/settings"), "{page}");
    // The main thread may write what the configuration had at the start, without [console], too.
    let (status, applied) = post("apply", &right);
    assert_eq!(status, 200, "{applied}");
    wait_until("the change is in force", || serves(&fixture, "/old", 308));
    let form = format!("id={}", applied["id"].as_str().unwrap());
    fixture.submit("/configuration/roll-back", &cookie, &form);
    wait_until("the change is undone", || !serves(&fixture, "/old", 308));
    assert_eq!(fs::read_to_string(&file).unwrap(), before);
    for other in ["/etc/passwd", "../../etc/passwd", "state/console-users"] {
        let path = format!("/api/v1/configuration?file={other}");
        assert_eq!(fixture.api(&token, "GET", &path, &Value::Null).0, 404);
    }
}
