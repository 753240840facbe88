//! Private keys and credentials: in no page, in no answer of the API, and in no diagnostic, whatever
//! the configuration includes.

use crate::{
    console::fixture::{Fixture, Keys},
    console::languages::opened,
    operate::{apache, folder},
    tls_site,
};
use saker_testkit::TempDir;
use serde_json::{Value, json};
use std::fs;

/// The lines of a private key that say nothing but the key.
fn lines_of_key(text: &str) -> Vec<String> {
    let lines = text
        .lines()
        .filter(|line| line.len() >= 40 && !line.contains('-'));
    lines.map(str::to_owned).collect()
}

fn assert_none(lines: &[String], text: &str, place: &str) {
    for line in lines {
        assert!(!text.contains(line.as_str()), "{place} shows a key");
        // Nor a part of it.
        assert!(!text.contains(&line[..32]), "{place} shows a part of a key");
    }
}

fn key_of(dir: &TempDir) -> Vec<String> {
    let key = fs::read_to_string(dir.join("site.key")).unwrap();
    let lines = lines_of_key(&key);
    assert!(!lines.is_empty(), "{key}");
    lines
}

#[test]
fn no_answer_has_a_key_or_a_credential() {
    let dir = folder("console-secrets");
    tls_site::certificate(&dir, "site", "localhost");
    let mut secrets = key_of(&dir);
    let keys = Keys {
        site: "cache = true\n[site.tls]\ncertificate = \"{dir}/site.pem\"\nkey = \"{dir}/site.key\"\n[[listener]]\naddress = \"127.0.0.1:0\"\ntls = true\n",
        ..Keys::default()
    };
    let fixture = Fixture::start_in(dir, &keys);
    fixture.add_user("ada", "administrator", "correct horse");
    let token = fixture.token("administrator");
    let users = fs::read_to_string(fixture.saker.dir.join("state/console-users")).unwrap();
    let words = users.split_whitespace().filter(|word| word.len() >= 40);
    secrets.extend(words.map(str::to_owned));
    secrets.push(token.clone());
    let cookie = fixture.administrator();
    secrets.push(cookie.split('=').nth(1).unwrap().to_owned());
    // Every page and every answer that takes no parameter.
    let (_, document) = fixture.api(&token, "GET", "/api/v1/openapi.json", &Value::Null);
    let mut count = 0;
    for (path, methods) in document["paths"].as_object().unwrap() {
        if !path.ends_with("/events") && methods["get"].is_object() {
            let (_, answer) = fixture.api(&token, "GET", path, &Value::Null);
            assert_none(&secrets, &answer.to_string(), path);
            count += 1;
        }
    }
    assert!(count > 15, "{count}");
    for path in [
        "/",
        "/requests",
        "/cache",
        "/cache/warm",
        "/configuration",
        "/configuration/settings",
        "/configuration/settings?table=site.0.tls",
        "/configuration/wizards",
        "/logs",
        "/bans",
        "/upstreams",
        "/redirects",
        "/audit",
        "/passkeys",
    ] {
        let page = fixture.page(path, &cookie);
        assert_eq!(page.status, 200, "{path}");
        assert_none(&secrets, &page.text(), path);
    }
    // By every name of a file, in every parameter that takes one.
    let dir = fixture.saker.dir.join("");
    let dir = dir.to_string_lossy();
    let dir = dir.trim_end_matches('/');
    std::os::unix::fs::symlink(
        fixture.saker.dir.join("site.key"),
        fixture.saker.dir.join("link.toml"),
    )
    .unwrap();
    for file in [
        format!("{dir}/site.key"),
        format!("{dir}/link.toml"),
        format!("{dir}/./site.key"),
        format!("{dir}/www/../site.key"),
        format!("{dir}//site.key"),
        format!("{dir}/SITE.KEY"),
        format!("{dir}/saker.toml/../site.key"),
        format!("{dir}/saker.toml\0{dir}/site.key"),
        format!("{dir}/state/console-users"),
        format!("{dir}/state/console/audit.log"),
        "site.key".to_owned(),
        "file:///etc/shadow".to_owned(),
        "/proc/self/environ".to_owned(),
        "/proc/self/fd/0".to_owned(),
    ] {
        let encoded: String = file.bytes().map(|byte| format!("%{byte:02X}")).collect();
        for path in [
            "/api/v1/configuration?file=",
            "/api/v1/configuration/settings?file=",
            "/api/v1/logs/text?file=",
            "/api/v1/cache/body?entry=",
        ] {
            let (status, answer) =
                fixture.api(&token, "GET", &format!("{path}{encoded}"), &Value::Null);
            assert_eq!(status, 404, "{path}{file}: {answer}");
            assert_none(&secrets, &answer.to_string(), path);
        }
        for (path, field) in [
            ("/api/v1/configuration/check", "text"),
            ("/api/v1/configuration/complete", "before"),
        ] {
            let body = json!({ "file": file, field: "x" });
            let (status, answer) = fixture.api(&token, "POST", path, &body);
            assert!(matches!(status, 400 | 404), "{path} {file}: {answer}");
        }
        for page in [
            "configuration",
            "configuration/settings",
            "configuration/wizards",
            "logs",
        ] {
            let page = fixture.page(&format!("/{page}?file={encoded}"), &cookie);
            assert_none(&secrets, &page.text(), &file);
        }
    }
}

/// A proposal that has a key's file read as configuration is told that it is wrong, not what is in
/// it.
#[test]
fn diagnostics_quote_no_key() {
    let dir = folder("console-included-key");
    tls_site::certificate(&dir, "site", "localhost");
    let lines = key_of(&dir);
    let fixture = Fixture::start_in(dir, &Keys::default());
    let token = fixture.token("administrator");
    let key = fixture.saker.dir.join("site.key").display().to_string();
    let (_, open) = fixture.api(&token, "GET", "/api/v1/configuration", &Value::Null);
    let text = format!("include = [\"{key}\"]\n{}", open["text"].as_str().unwrap());
    let check = |fixture: &Fixture, token: &str, file: &Value, text: &str| {
        let body = json!({ "file": file, "text": text });
        let (status, checked) = fixture.api(token, "POST", "/api/v1/configuration/check", &body);
        assert_eq!(
            (status, &checked["has_errors"]),
            (200, &json!(true)),
            "{checked}"
        );
        checked.to_string()
    };
    let checked = check(&fixture, &token, &open["file"], &text);
    assert_none(&lines, &checked, "a diagnostic");
    let cookie = fixture.administrator();
    let encoded = |text: &str| {
        text.bytes()
            .map(|byte| format!("%{byte:02X}"))
            .collect::<String>()
    };
    let form = format!(
        "file={}&base=0&text={}",
        encoded(open["file"].as_str().unwrap()),
        encoded(&text)
    );
    let page = fixture.submit("/configuration/propose", &cookie, &form);
    assert_none(&lines, &page.text(), "a proposal");
    // What a reload says about it.
    fs::write(fixture.saker.dir.join("saker.toml"), &text).unwrap();
    let (status, answer) = fixture.api(&token, "POST", "/api/v1/reload", &json!({}));
    assert_eq!(status, 409, "{answer}");
    assert_none(&lines, &answer.to_string(), "a reload");
    // Apache's messages name the directive, which is a line of the key.
    let dir = folder("console-included-key-apache");
    tls_site::certificate(&dir, "site", "localhost");
    let lines = key_of(&dir);
    let config = "LoadModule mpm_event_module modules/mod_mpm_event.so\nListen {address}\nServerName localhost\nDocumentRoot {dir}/www\n";
    let fixture = opened(apache(config).start(dir));
    let token = fixture.token("administrator");
    let (_, open) = fixture.api(&token, "GET", "/api/v1/configuration", &Value::Null);
    let key = fixture.saker.dir.join("site.key").display().to_string();
    let text = format!("{}Include {key}\n", open["text"].as_str().unwrap());
    let checked = check(&fixture, &token, &open["file"], &text);
    assert_none(&lines, &checked, "a diagnostic of Apache's configuration");
}
