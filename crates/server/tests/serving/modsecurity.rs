//! ModSecurity's rules by libmodsecurity on a running server: OWASP's core rule set as Debian has
//! it, over files and a server behind, over all protocols; rules of the test's own for the rest.
//! Packages: libmodsecurity3 and modsecurity-crs.

#![allow(clippy::unwrap_used)] // The whole file is tests.

use crate::http3_client;
use crate::http3_client::site::{backend, start_with};
use crate::operate;
use crate::operate::{folder, pattern, reload, rewrite, start_in, stderr, stdout, wait_until};
use crate::origin;
use saker_testkit::{Response, Saker, TempDir, require};
use std::{fs, path::Path, process::Command};

const CRS: &str = "/usr/share/modsecurity-crs/owasp-crs.load";

/// OWASP's rules and what goes before them; `{dir}` is put in by the harness.
fn crs() -> String {
    assert!(Path::new(CRS).exists(), "package modsecurity-crs");
    // As in Debian's modsecurity.conf-recommended, which goes by another module.
    let base = "SecRequestBodyAccess On\nSecRequestBodyLimit 13107200\nSecRequestBodyInMemoryLimit 131072\nSecRequestBodyLimitAction Reject\n\
                SecResponseBodyAccess On\nSecResponseBodyMimeType text/plain text/html text/xml\nSecResponseBodyLimit 524288\n\
                SecResponseBodyLimitAction ProcessPartial\nSecAuditEngine RelevantOnly\nSecAuditLogRelevantStatus \"^(?:5|4(?!04))\"\n\
                SecAuditLogParts ABIJDEFHZ\nSecAuditLogType Serial\nSecAuditLog {dir}/audit.log\nSecUnicodeMapFile /etc/modsecurity/unicode.mapping 20127\n";
    let base = if Path::new("/etc/modsecurity/unicode.mapping").exists() {
        base
    } else {
        base.split("SecUnicodeMapFile").next().unwrap()
    };
    format!("modsecurity_rules_file = [\"{{dir}}/base.conf\", \"{CRS}\"]\n|{base}")
}

fn configuration(site: &str) -> String {
    format!(
        "[server]\nstate_dir = \"{{dir}}/state\"\nworkers = 2\nerror_log = \"{{dir}}/error.log\"\n\n[[listener]]\naddress = \"{{address}}\"\n\n\
         [[site]]\nnames = [\"*\"]\nroot = \"{{dir}}/www\"\naccess_log = \"{{dir}}/access.log\"\n{site}\n"
    )
}

/// With OWASP's rules: the keys of the site, in a folder with their files.
fn crs_site(dir: &TempDir) -> String {
    let all = crs();
    let (keys, base) = all.split_once('|').unwrap();
    dir.write("base.conf", base.replace("{dir}", &dir.to_string_lossy()))
        .unwrap();
    keys.replace("{dir}", &dir.to_string_lossy())
}

fn start(site: &str) -> Saker {
    start_in(folder("modsecurity"), &configuration(site))
}

fn get(saker: &Saker, target: &str) -> Response {
    saker
        .connect()
        .unwrap()
        .request(
            "GET",
            target,
            &[("User-Agent", "Mozilla/5.0"), ("Accept", "*/*")],
        )
        .unwrap()
}

fn post(saker: &Saker, target: &str, content_type: &str, content: &[u8]) -> Response {
    let mut client = saker.connect().unwrap();
    let head = format!(
        "POST {target} HTTP/1.1\r\nHost: localhost\r\nUser-Agent: Mozilla/5.0\r\nAccept: */*\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\n\r\n",
        content.len()
    );
    client.send([head.as_bytes(), content].concat()).unwrap();
    client.read_response().unwrap()
}

fn error_log(saker: &Saker) -> String {
    fs::read_to_string(saker.dir.join("error.log")).unwrap_or_default()
}

const FORM: &str = "application/x-www-form-urlencoded";

#[test]
fn the_core_rule_set_over_files_and_a_server_behind() {
    let dir = folder("modsecurity");
    dir.write("www/large.html", "<p>".to_owned() + &"a".repeat(2 << 20))
        .unwrap();
    let keys = crs_site(&dir);
    let site = format!(
        "modsecurity = \"on\"\n{keys}[[site.route]]\npath = \"/open/*\"\nmodsecurity = false\nproxy = \"http://{0}\"\n\
         [[site.route]]\npath = \"/echo\"\nproxy = \"http://{0}\"\n\
         [[site.route]]\npath = \"/detect/*\"\nmodsecurity = \"detect\"\nrespond = \"detected\"\n",
        backend()
    );
    let saker = start_in(dir, &configuration(&site));
    // The same path before and behind what is refused: nothing that is kept passes the rules by.
    for _ in 0..2 {
        assert_eq!(get(&saker, "/").text(), "<p>hello</p>\n");
        assert_eq!(get(&saker, "/index.html?name=value").status, 200);
        assert_eq!(
            get(&saker, "/index.html?id=1%27%20or%20%271%27=%271").status,
            403
        );
        assert_eq!(
            get(&saker, "/index.html?file=../../../../etc/passwd").status,
            403
        );
        let scanner = saker
            .connect()
            .unwrap()
            .request(
                "GET",
                "/index.html",
                &[("User-Agent", "sqlmap/1.0"), ("Accept", "*/*")],
            )
            .unwrap();
        assert_eq!(scanner.status, 403);
    }
    assert_eq!(get(&saker, "/large.html").body.len(), (2 << 20) + 3);
    // Forms and uploads.
    assert_eq!(
        post(
            &saker,
            "/echo",
            FORM,
            b"text=%3Cscript%3Ealert(1)%3C/script%3E"
        )
        .status,
        403
    );
    let plain = post(&saker, "/echo", FORM, b"text=hello");
    assert_eq!((plain.status, plain.text().as_str()), (200, "text=hello"));
    let file = pattern(3 << 20);
    let head =
        b"--XyZ\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.bin\"\r\nContent-Type: application/octet-stream\r\n\r\n";
    let upload = [&head[..], &file, b"\r\n--XyZ--\r\n"].concat();
    let answer = post(
        &saker,
        "/echo",
        "multipart/form-data; boundary=XyZ",
        &upload,
    );
    assert!(
        answer.status == 200 && answer.body == upload,
        "{} {}",
        answer.status,
        answer.body.len()
    );
    let too_large = post(
        &saker,
        "/echo",
        "multipart/form-data; boundary=XyZ",
        &[&head[..], &pattern(14 << 20)].concat(),
    );
    assert!(
        matches!(too_large.status, 403 | 413),
        "{}",
        too_large.status
    );
    // Elsewhere.
    assert_eq!(
        get(&saker, "/detect/?id=1%27%20or%20%271%27=%271").text(),
        "detected"
    );
    assert_eq!(
        get(&saker, "/open/?id=1%27%20or%20%271%27=%271").status,
        200
    );
    let log = error_log(&saker);
    assert!(
        log.contains("SK0418")
            && log.contains("SK0419")
            && log.contains("[id \"942100\"]")
            && log.contains("[hostname \"localhost"),
        "{log}"
    );
    assert!(
        log.contains("REQUEST-942-APPLICATION-ATTACK-SQLI.conf"),
        "{log}"
    );
    let audit = fs::read_to_string(saker.dir.join("audit.log")).unwrap();
    assert!(audit.contains("sqlmap/1.0"), "{audit}");
}

#[test]
fn the_core_rule_set_over_every_protocol() {
    let dir = folder("modsecurity");
    let site = format!(
        "modsecurity = true\n{}[[site.route]]\npath = \"/echo\"\nproxy = \"http://{}\"\n",
        crs_site(&dir),
        backend()
    );
    let saker = start_with(dir, "", &site);
    let curl = |version: &str, target: &str, more: &[&str]| {
        let url = format!(
            "https://localhost:{}{target}",
            saker.server.address().port()
        );
        let mut command = Command::new(require("curl").unwrap());
        command.args([
            "-sk",
            version,
            "-o",
            "/dev/null",
            "-w",
            "%{http_code}",
            "-A",
            "Mozilla/5.0",
            "--resolve",
        ]);
        command
            .arg(format!(
                "localhost:{}:127.0.0.1",
                saker.server.address().port()
            ))
            .args(more)
            .arg(url);
        stdout(&command.output().unwrap())
    };
    let mut http3 = http3_client::Client::default().connect(&saker.server.address().to_string());
    let fields = [
        ("user-agent", "Mozilla/5.0"),
        ("accept", "*/*"),
        ("content-type", FORM),
    ];
    for (target, content, status) in [
        ("/index.html?a=b", "", 200),
        ("/index.html?id=1%27%20or%20%271%27=%271", "", 403),
        ("/echo", "text=hello", 200),
        ("/echo", "text=%3Cscript%3Ealert(1)%3C/script%3E", 403),
    ] {
        for version in ["--http1.1", "--http2"] {
            let more: &[&str] = if content.is_empty() {
                &[]
            } else {
                &["-d", content]
            };
            assert_eq!(
                curl(version, target, more),
                status.to_string(),
                "{target} {version}"
            );
        }
        let (method, fields) = if content.is_empty() {
            ("GET", &fields[..2])
        } else {
            ("POST", &fields[..])
        };
        let answer = http3.ask(method, target, fields, content.as_bytes());
        assert_eq!(answer.status, status, "{target}");
        assert!(status != 200 || content.is_empty() || answer.text() == content);
    }
}

#[test]
fn what_rules_can_do() {
    let dir = folder("modsecurity");
    dir.write("www/secret.html", "<p>the secret is out</p>\n")
        .unwrap();
    dir.write("www/denied.html", "<p>a page of ours</p>\n")
        .unwrap();
    dir.write("www/private.txt", "private\n").unwrap();
    let rules = r#"
SecResponseBodyAccess On
SecRequestBodyLimit 100
SecRequestBodyLimitAction ProcessPartial
SecRule ARGS:go "@streq away" "id:1,phase:1,redirect:https://example.org/no"
SecRule ARGS:go "@streq down" "id:2,phase:1,deny,status:444"
SecRule ARGS:go "@streq late" "id:3,phase:2,deny,status:406"
SecRule RESPONSE_BODY "@contains secret is out" "id:4,phase:4,deny,status:403"
SecRule RESPONSE_HEADERS:Content-Type "@beginsWith text/plain" "id:5,phase:3,deny,status:403"
SecRule ARGS_POST:word "@streq bad" "id:6,phase:2,deny,status:400"
SecRule REMOTE_ADDR "@ipMatch 127.0.0.1" "id:7,phase:5,pass,log,msg:'seen at the end'"
"#;
    let site = format!(
        "error_pages = {{ 403 = \"/denied.html\" }}\nmodsecurity = \"on\"\nmodsecurity_rules = '''{rules}'''\n\
         [[site.route]]\npath = \"/x/*\"\nmodsecurity_rules = \"SecRuleRemoveById 3\"\nrespond = \"x\"\ntype = \"text/html\"\n\
         [[site.route]]\npath = \"/off/*\"\nmodsecurity = \"off\"\nrespond = \"off\"\n[[site.route]]\npath = \"/echo\"\nproxy = \"http://{}\"\n",
        backend()
    );
    let saker = start_in(dir, &configuration(&site));
    let away = get(&saker, "/?go=away");
    assert_eq!(
        (away.status, away.field("location")),
        (302, Some("https://example.org/no"))
    );
    let mut client = saker.connect().unwrap();
    client
        .send("GET /?go=down HTTP/1.1\r\nHost: localhost\r\n\r\n")
        .unwrap();
    assert_eq!(client.read_to_close(operate::PATIENCE).unwrap(), b"");
    for (target, status) in [
        ("/?go=late", 406),
        ("/x/?go=late", 200),
        ("/off/?go=away", 200),
        ("/?go=on", 200),
    ] {
        assert_eq!(get(&saker, target).status, status, "{target}");
    }
    for target in ["/secret.html", "/private.txt", "/secret.html"] {
        let refused = get(&saker, target);
        assert_eq!(
            (refused.status, refused.text().as_str()),
            (403, "<p>a page of ours</p>\n"),
            "{target}"
        );
    }
    assert_eq!(post(&saker, "/echo", FORM, b"word=bad").status, 400);
    // Chunks; and more than rules look at, which goes on as it came.
    let mut client = saker.connect().unwrap();
    let head = format!(
        "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Type: {FORM}\r\nTransfer-Encoding: chunked\r\n\r\n"
    );
    client
        .send(format!("{head}4\r\nword\r\n4\r\n=bad\r\n0\r\n\r\n"))
        .unwrap();
    assert_eq!(client.read_response().unwrap().status, 400);
    let long = format!("a={}", "b".repeat(300_000));
    assert_eq!(post(&saker, "/echo", FORM, long.as_bytes()).text(), long);
    wait_until("lines", || error_log(&saker).contains("seen at the end"));
    let log = error_log(&saker);
    assert!(
        log.contains("saker.toml\"] [line \"") && !log.contains("reference missing"),
        "{log}"
    );
}

const OF_CONTENT: &str = "SecRuleEngine On\nSecResponseBodyAccess On\nSecRule RESPONSE_BODY \"@contains secret is out\" \"id:1,phase:4,deny,status:403\"";

/// Ways to request parts or codings of a file: none of them evades the rules.
const CHOICES: &[&[(&str, &str)]] = &[
    &[],
    &[("range", "bytes=0-9")],
    &[("range", "bytes=-5")],
    &[("range", "bytes=0-3,2000-2003,3000-")],
    &[("range", "bytes=0-9"), ("if-range", "\"other\"")],
    &[("range", "bytes=0-9"), ("accept-encoding", "gzip")],
    &[
        ("range", "bytes=0-9"),
        ("accept-encoding", "gzip, identity;q=0"),
    ],
    &[("accept-encoding", "gzip")],
    &[("accept-encoding", "br")],
    &[("accept-encoding", "zstd, gzip;q=0.5")],
    &[
        ("accept-encoding", "gzip, br"),
        ("if-none-match", "\"other\""),
    ],
];

#[test]
fn parts_and_codings_of_a_file_are_judged_by_the_whole() {
    let dir = folder("modsecurity");
    let filler = "all work and no play makes a page that is worth a coding. ".repeat(40);
    let (secret, clean) = (
        format!("<p>{filler}the secret is out {filler}</p>\n"),
        format!("<p>{filler}{filler}</p>\n"),
    );
    // Once with a sibling that says the same, once with one that says more than its file; and one
    // to be coded by the server.
    for (name, text, sibling) in [
        ("secret", &secret, Some(&secret)),
        ("clean", &clean, Some(&secret)),
        ("made", &secret, None),
        ("open", &clean, None),
    ] {
        dir.write(&format!("www/{name}.html"), text).unwrap();
        if let Some(sibling) = sibling {
            dir.write("plain", sibling).unwrap();
            let coded = Command::new(require("gzip").unwrap())
                .arg("-c")
                .arg(dir.join("plain"))
                .output()
                .unwrap()
                .stdout;
            dir.write(&format!("www/{name}.html.gz"), coded).unwrap();
        }
    }
    let site = format!("modsecurity = \"on\"\nmodsecurity_rules = '''\n{OF_CONTENT}\n'''\n");
    let saker = start_with(dir, "", &site);
    let address = saker.server.address();
    let curl = |version: &str, target: &str, fields: &[(&str, &str)], more: &[&str]| {
        let mut command = Command::new(require("curl").unwrap());
        command
            .args([
                "-sk",
                version,
                "--resolve",
                &format!("localhost:{}:127.0.0.1", address.port()),
            ])
            .args(more);
        for (name, value) in fields {
            command.args(["-H", &format!("{name}: {value}")]);
        }
        stdout(
            &command
                .arg(format!("https://localhost:{}{target}", address.port()))
                .output()
                .unwrap(),
        )
    };
    let mut http3 = http3_client::Client::default().connect(&address.to_string());
    for _ in 0..2 {
        for fields in CHOICES {
            for target in ["/secret.html", "/made.html"] {
                for version in ["--http1.1", "--http2"] {
                    let status = curl(
                        version,
                        target,
                        fields,
                        &["-o", "/dev/null", "-w", "%{http_code}"],
                    );
                    assert_eq!(status, "403", "{target} {version} {fields:?}");
                }
                assert_eq!(
                    http3.ask("GET", target, fields, b"").status,
                    403,
                    "{target} {fields:?}"
                );
            }
        }
        // What nothing is wrong with has parts and codings as ever, and a sibling is not taken for
        // its file.
        for target in ["/clean.html", "/open.html"] {
            assert_eq!(
                curl("--http1.1", target, &[], &["--compressed"]),
                clean,
                "{target}"
            );
            assert_eq!(
                curl("--http2", target, &[("range", "bytes=3-12")], &[]),
                &clean[3..13],
                "{target}"
            );
            let several = curl(
                "--http1.1",
                target,
                &[("range", "bytes=0-3,10-13")],
                &["-i"],
            );
            assert!(
                several.contains(" 206")
                    && several.contains("multipart/byteranges")
                    && several.contains(&clean[10..14]),
                "{several}"
            );
        }
        assert!(
            curl(
                "--http1.1",
                "/open.html",
                &[("accept-encoding", "gzip")],
                &["-o", "/dev/null", "-D", "-"]
            )
            .contains("gzip")
        );
        // Nothing of it is content: nothing of it is a secret.
        assert!(!curl("--http1.1", "/secret.html", &[], &["-I"]).contains("secret is out"));
    }
}

/// Pages that were kept before the rules came.
#[test]
fn parts_and_codings_of_kept_pages_are_judged_by_the_whole() {
    let filler = "all work and no play makes a page that is worth a coding. ".repeat(40);
    let (secret, clean) = (
        format!("<p>{filler}the secret is out {filler}</p>\n"),
        format!("<p>{filler}{filler}</p>\n"),
    );
    let pages = [("/secret", secret), ("/clean", clean.clone())];
    let origin = origin::Origin::start("modsecurity-kept", "", move |asked| {
        let text = pages
            .iter()
            .find(|(target, _)| *target == asked.target)
            .map_or("", |(_, text)| text.as_str());
        origin::ok(
            &[
                ("Cache-Control", "public, max-age=600"),
                ("ETag", "\"a\""),
                ("Content-Type", "text/html"),
            ],
            text,
        )
    });
    for target in ["/secret", "/clean", "/secret", "/clean"] {
        assert_eq!(origin.get(target, &[]).status, 200);
        origin.get(target, &[("Accept-Encoding", "gzip")]);
    }
    wait_until("they are kept", || {
        ["/secret", "/clean"]
            .iter()
            .all(|target| origin.get(target, &[]).field("age").is_some())
    });
    let file = origin.saker.dir.join("saker.toml");
    let rules = format!(
        "names = [\"*\"]\nmodsecurity = \"on\"\nmodsecurity_rules = '''\n{OF_CONTENT}\n'''\n"
    );
    fs::write(
        &file,
        fs::read_to_string(&file)
            .unwrap()
            .replace("names = [\"*\"]\n", &rules),
    )
    .unwrap();
    let _successor = operate::Successor(origin.saker.dir.join("state"));
    assert!(reload(&origin.saker).status.success());
    for _ in 0..2 {
        for fields in CHOICES {
            assert_eq!(origin.get("/secret", fields).status, 403, "{fields:?}");
        }
        let part = origin.get("/clean", &[("Range", "bytes=3-12")]);
        assert_eq!((part.status, part.text().as_str()), (206, &clean[3..13]));
        assert_eq!(
            origin
                .get("/clean", &[("Accept-Encoding", "gzip")])
                .field("content-encoding"),
            Some("gzip")
        );
    }
    assert_eq!(
        (origin.asked("/secret").len(), origin.asked("/clean").len()),
        (1, 1)
    );
}

#[test]
fn broken_rules_are_told_of_and_change_nothing() {
    let good = "modsecurity = \"on\"\nmodsecurity_rules_file = \"{dir}/rules.conf\"\n";
    let dir = folder("modsecurity");
    let rule = "SecRuleEngine On\nSecRule ARGS \"@streq bad\" \"id:1,phase:1,deny\"\n";
    dir.write("rules.conf", rule).unwrap();
    let saker = start_in(dir, &configuration(good));
    assert_eq!(
        (
            get(&saker, "/?a=bad").status,
            get(&saker, "/?a=good").status
        ),
        (403, 200)
    );
    saker
        .dir
        .write("rules.conf", format!("{rule}SecNothing x\n"))
        .unwrap();
    let output = reload(&saker);
    assert!(!output.status.success(), "{output:?}");
    assert_eq!(
        (
            get(&saker, "/?a=bad").status,
            get(&saker, "/?a=good").status
        ),
        (403, 200)
    );
    let file = saker.dir.join("saker.toml").to_string_lossy().into_owned();
    let check = operate::saker(["check", "-c", &file]);
    assert!(
        !check.status.success() && stderr(&check).contains("rules.conf:3:"),
        "{}",
        stderr(&check)
    );
    saker
        .dir
        .write("rules.conf", rule.replace("bad", "worse"))
        .unwrap();
    assert!(reload(&saker).status.success());
    assert_eq!(
        (
            get(&saker, "/?a=bad").status,
            get(&saker, "/?a=worse").status
        ),
        (200, 403)
    );
    // No rules at all; and none unless they are asked for.
    rewrite(&saker, &configuration("modsecurity = \"on\"\n"));
    assert!(stderr(&operate::saker(["check", "-c", &file])).contains("no rules: set"));
    rewrite(
        &saker,
        &configuration("modsecurity_rules_file = \"{dir}/rules.conf\"\n"),
    );
    assert!(reload(&saker).status.success());
    assert_eq!(get(&saker, "/?a=worse").status, 200);
}

/// A log that can't be written is an error of the configuration; who only looks at one makes no
/// file.
#[test]
fn an_audit_log_is_written_or_said_to_be_impossible() {
    let rules = |log: &str| {
        format!(
            "SecRuleEngine On\nSecAuditEngine On\nSecAuditLogType Serial\nSecAuditLog {log}\nSecRule ARGS \"@streq bad\" \"id:1,phase:1,deny\"\n"
        )
    };
    let site =
        configuration("modsecurity = \"on\"\nmodsecurity_rules_file = \"{dir}/rules.conf\"\n");
    let dir = folder("modsecurity-audit");
    let (log, file) = (dir.join("audit.log"), dir.join("saker.toml"));
    dir.write("rules.conf", rules(&log.to_string_lossy()))
        .unwrap();
    dir.write(
        "saker.toml",
        site.replace("{dir}", &dir.to_string_lossy())
            .replace("{address}", "127.0.0.1:0"),
    )
    .unwrap();
    let check = || operate::saker(["check", "-c", file.to_str().unwrap()]);
    assert!(check().status.success(), "{}", stderr(&check()));
    assert!(!log.exists(), "check has made it");
    let saker = start_in(dir, &site);
    assert_eq!(get(&saker, "/?a=bad").status, 403);
    wait_until("it is written", || {
        fs::read_to_string(&log).is_ok_and(|text| text.contains("a=bad"))
    });
    let missing = saker.dir.join("none/audit.log");
    for (named, why) in [
        (&missing, "no such directory"),
        (&saker.dir.join("www"), "it is a directory"),
    ] {
        saker
            .dir
            .write("rules.conf", rules(&named.to_string_lossy()))
            .unwrap();
        for output in [check(), reload(&saker)] {
            let said = stderr(&output);
            assert!(
                !output.status.success()
                    && said.contains("rules.conf:4:1: error: cannot write the audit log")
                    && said.contains(why),
                "{said}"
            );
        }
    }
    // Where nothing is to be written nothing has to be there.
    saker
        .dir
        .write(
            "rules.conf",
            rules(&missing.to_string_lossy()).replace("SecAuditEngine On", "SecAuditEngine Off"),
        )
        .unwrap();
    assert!(check().status.success() && reload(&saker).status.success());
}

#[test]
fn thousands_of_requests_leave_nothing_behind() {
    let saker = start(
        "modsecurity = \"on\"\nmodsecurity_rules = '''\nSecRequestBodyAccess On\nSecRule ARGS \"@streq bad\" \"id:1,phase:2,deny\"\n'''\n\
         [[site.route]]\npath = \"/take\"\nrespond = \"taken\"\n",
    );
    let resident = || {
        saker_testkit::ProcessTree::of(saker.server.pid())
            .memory()
            .rss_bytes
    };
    let mut client = saker.connect().unwrap();
    let content = format!("a={}", "x".repeat(20_000));
    let mut some = |count: usize| {
        for _ in 0..count {
            let head = format!(
                "POST /take HTTP/1.1\r\nHost: localhost\r\nContent-Type: {FORM}\r\nContent-Length: {}\r\n\r\n",
                content.len()
            );
            client.send(head + &content).unwrap();
            assert_eq!(client.read_response().unwrap().text(), "taken");
        }
    };
    some(300);
    let before = resident();
    some(2000);
    let grown = resident().saturating_sub(before);
    // Each had over 40 kB.
    assert!(grown < 20 << 20, "{grown} bytes more");
}

const APACHE: &str = "ServerRoot {dir}\nListen {address}\nLoadModule mpm_event_module modules/mod_mpm_event.so\n\
    LoadModule authz_core_module modules/mod_authz_core.so\nLoadModule unique_id_module modules/mod_unique_id.so\n\
    LoadModule security2_module modules/mod_security2.so\nLoadModule proxy_module modules/mod_proxy.so\n\
    LoadModule proxy_http_module modules/mod_proxy_http.so\nServerName localhost\nErrorLog {dir}/error.log\nDocumentRoot {dir}/www\n\
    <Directory />\nRequire all granted\n</Directory>\n";

/// A configuration as Debian's `security2.conf` includes things, with what stands in
/// `modsecurity.conf`.
#[test]
fn the_core_rule_set_of_an_apache_configuration() {
    assert!(Path::new(CRS).exists(), "package modsecurity-crs");
    let dir = folder("modsecurity");
    fs::create_dir_all(dir.join("www/free")).unwrap();
    fs::create_dir_all(dir.join("tmp")).unwrap();
    dir.write("www/free/index.html", "free\n").unwrap();
    dir.write(
        "modsecurity.conf",
        "SecRuleEngine On\nSecRequestBodyAccess On\nSecRequestBodyInMemoryLimit 131072\nSecAuditEngine RelevantOnly\nSecAuditLogType Serial\n\
         SecAuditLogRelevantStatus \"^(?:5|4(?!04))\"\nSecAuditLog audit.log\nSecArgumentSeparator &\nSecCookieFormat 0\nSecStatusEngine Off\n",
    )
    .unwrap();
    let configuration = format!(
        "{APACHE}<IfModule security2_module>\nSecDataDir {{dir}}/tmp\nIncludeOptional {{dir}}/modsecurity.conf\nIncludeOptional {CRS}\n</IfModule>\n\
         ProxyPass /echo http://{}/echo\n<Directory {{dir}}/www/free>\nSecRuleEngine Off\n</Directory>\n<Location /some>\nSecRuleRemoveById 920000-949999\n\
         </Location>\n",
        backend()
    );
    let saker = operate::apache(&configuration).start(dir);
    for _ in 0..2 {
        assert_eq!(get(&saker, "/index.html?a=b").status, 200);
        assert_eq!(
            get(&saker, "/index.html?id=1%27%20or%20%271%27=%271").status,
            403
        );
        assert_eq!(
            get(&saker, "/free/index.html?id=1%27%20or%20%271%27=%271").text(),
            "free\n"
        );
        assert_eq!(get(&saker, "/some?id=1%27%20or%20%271%27=%271").status, 404);
    }
    assert_eq!(
        post(
            &saker,
            "/echo",
            FORM,
            b"text=%3Cscript%3Ealert(1)%3C/script%3E"
        )
        .status,
        403
    );
    assert_eq!(
        post(&saker, "/echo", FORM, b"text=hello").text(),
        "text=hello"
    );
    wait_until("lines", || {
        error_log(&saker).contains("REQUEST-942-APPLICATION-ATTACK-SQLI.conf\"] [line \"")
    });
    wait_until("the audit log", || {
        fs::read_to_string(saker.dir.join("audit.log"))
            .unwrap_or_default()
            .contains("/index.html?id=1")
    });
}

/// Each line as people write it for Apache, where the library wants other quotes.
#[test]
fn rules_of_an_apache_configuration() {
    let dir = folder("modsecurity");
    dir.write("www/a.html", "a\n").unwrap();
    let rules = "SecRuleEngine On\nSecDefaultAction phase:2,log,auditlog,deny,status:403\nSecRule ARGS:a bad id:1,phase:1,deny,status:406\n\
                 SecRule ARGS:a 'worse thing' 'id:2,phase:2,deny,status:409'\n<LocationMatch ^/in/>\nSecRuleInheritance Off\n\
                 SecRule ARGS:a inner \"id:3,phase:1,deny,status:410\"\n</LocationMatch>\n";
    let saker = operate::apache(&format!("{APACHE}{rules}")).start(dir);
    for (target, status) in [
        ("/a.html", 200),
        ("/a.html?a=bad", 406),
        // Content is not looked at, and phase 2 is asked all the same.
        ("/a.html?a=a+worse+thing", 409),
        ("/index.html?a=inner", 200),
        ("/in/?a=inner", 410),
        ("/in/?a=bad", 404),
    ] {
        assert_eq!(get(&saker, target).status, status, "{target}");
    }
    // What Debian's Apache refuses is refused.
    let check = |text: &str| {
        saker
            .dir
            .write(
                "other.conf",
                format!("{APACHE}{text}")
                    .replace("{dir}", &saker.dir.to_string_lossy())
                    .replace("{address}", "127.0.0.1:9"),
            )
            .unwrap();
        let output = operate::saker([
            "check",
            "--apache",
            &saker.dir.join("other.conf").to_string_lossy(),
        ]);
        (output.status.success(), stderr(&output) + &stdout(&output))
    };
    let (is_right, said) = check("SecRuleEngine On\nSecRule ARGS \"@nothing x\" \"id:1,deny\"\n");
    assert!(!is_right && said.contains("other.conf:16"), "{said}");
    assert!(!check("SecRuleEngine On\nSecHashEngine On\n").0);
    assert!(check("SecGuardianLog /x\nSecRuleEngine Off\nSecAction id:1,pass\n").0);
}

/// The request that a form of a log-in brings in its own place is inspected like one that came by
/// itself, with the log-in and with a session.
#[test]
fn requests_of_forms_are_inspected() {
    let dir = folder("modsecurity-forms");
    // ann:secret
    dir.write("users", "ann:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=\n")
        .unwrap();
    let form = [
        "request",
        "authn_core",
        "authn_file",
        "authz_user",
        "session",
        "session_cookie",
        "auth_form",
    ]
    .map(|name| format!("LoadModule {name}_module modules/mod_{name}.so\n"));
    let rules = "SecRuleEngine On\nSecRequestBodyAccess On\nSecRule ARGS:a bad id:1,phase:2,deny,status:406\n\
                 SecRule REQUEST_BODY worse id:2,phase:2,deny,status:409\n";
    let conf = format!(
        "{APACHE}{}{rules}ProxyPass /echo http://{}/echo\n<Location /echo>\nAuthType form\nAuthName realm\nAuthFormProvider file\n\
         AuthUserFile {{dir}}/users\nSession On\nSessionCookieName session path=/\nRequire valid-user\n</Location>\n",
        form.concat(),
        backend()
    );
    let saker = operate::apache(&conf).start(dir);
    let log_in = |body: &str, password: &str| {
        let content = format!(
            "httpd_username=ann&httpd_password={password}&httpd_method=POST&httpd_mimetype={}&httpd_body={body}",
            "application/x-www-form-urlencoded"
        );
        post(&saker, "/echo", FORM, content.as_bytes())
    };
    let good = log_in("a%3Dgood", "secret");
    assert_eq!(
        (good.status, good.text().as_str()),
        (200, "a=good"),
        "{}",
        error_log(&saker)
    );
    for (body, password, status) in [
        ("a%3Dbad", "secret", 406),
        ("b%3Dworse", "secret", 409),
        // Nothing is passed on, and nothing is told of it.
        ("a%3Dbad", "wrong", 401),
    ] {
        assert_eq!(log_in(body, password).status, status, "{body}");
    }
    let cookie = good
        .field("set-cookie")
        .unwrap()
        .split(';')
        .next()
        .unwrap()
        .to_owned();
    let by_session = |content: &str| {
        let mut client = saker.connect().unwrap();
        client
            .send(format!(
                "POST /echo HTTP/1.1\r\nHost: localhost\r\nCookie: {cookie}\r\nContent-Type: {FORM}\r\nContent-Length: {}\r\n\r\n{content}",
                content.len()
            ))
            .unwrap();
        client.read_response().unwrap().status
    };
    assert_eq!([by_session("a=good"), by_session("a=bad")], [200, 406]);
}
