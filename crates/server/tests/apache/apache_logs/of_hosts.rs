//! Logs that hosts have of their own: error logs, forensic logs, messages that the operator words;
//! and trailers in access logs.

use super::*;
use crate::operate;
use saker_testkit::apache2::module_folder;
use std::{os::unix::fs::symlink, path::Path};

const HOSTS: &str = "LogLevel warn\nErrorLogFormat \">%l %v %M\"\n<Location /closed>\nRequire all denied\n</Location>\n\
    <VirtualHost *:{port}>\nServerName one.test\nErrorLog {log}/one-error.log\nErrorLogFormat \">one %k %l %{Host}i %M\"\n</VirtualHost>\n\
    <VirtualHost *:{port}>\nServerName two.test\nErrorLog \"|$cat >>{dir}/{log}/two-error.log\"\nErrorLogFormat request \">request of %v\"\n</VirtualHost>\n\
    <VirtualHost *:{port}>\nServerName three.test\nLogLevel info\n</VirtualHost>\n\
    <VirtualHost *:{port}>\nServerName four.test\nErrorLogFormat \">four %M\"\nErrorLog {log}/one-error.log\n</VirtualHost>\n";

/// Kinds of messages, without their text, which differs between servers.
fn kinds(text: &str) -> Vec<String> {
    let own = text
        .lines()
        .filter(|line| line.starts_with('>') && !line.contains("notice"));
    own.map(|line| line.split(['A', 'S']).next().unwrap().trim_end().to_owned())
        .collect()
}

#[test]
fn hosts_have_error_logs_of_their_own() {
    let site = Site::new("apache-host-errors", HOSTS, FILES);
    let ask = |host: &str, target: &str| format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n");
    let requests = [
        ask("one.test", "/closed/a"),
        ask("one.test", "/page.html"),
        ask("one.test", "/closed/b"),
        ask("two.test", "/closed/c"),
        ask("three.test", "/closed/d"),
        ask("four.test", "/closed/e"),
    ];
    site.run(&requests, &[("two-error.log", 2)]);
    for (log, count) in [("one-error.log", 3), ("two-error.log", 2)] {
        let (apache, saker) = (
            site.lines("apache", log, count),
            site.lines("saker", log, count),
        );
        assert_eq!(
            kinds(&saker.join("\n")),
            kinds(&apache.join("\n")),
            "{log}: {apache:#?}\n{saker:#?}"
        );
        assert_eq!(saker.len(), count, "{saker:#?}");
    }
    assert!(
        site.lines("saker", "one-error.log", 2)[1]
            .starts_with(">one 2 error one.test AH01630: client denied by server configuration: ")
    );
    let main = fs::read_to_string(site.dir.join("saker/error.log")).unwrap();
    assert!(
        main.matches("/closed").count() == 1
            && main.contains(">error three.test AH01630")
            && main.contains("SK0102"),
        "{main}"
    );
}

#[test]
fn a_broken_htaccess_is_the_matter_of_its_host() {
    let site = Site::new("apache-host-htaccess", HOSTS, FILES);
    site.dir
        .write("www/broken/.htaccess", "NoSuchDirective on\n")
        .unwrap();
    let rotated = site.dir.join("saker/one-error.log.1");
    site.ask(
        site.saker(),
        &["GET /broken/ HTTP/1.1\r\nHost: one.test\r\n\r\n".to_owned()],
        || {
            fs::rename(site.dir.join("saker/one-error.log"), &rotated).unwrap();
            let pid = fs::read_to_string(site.dir.join("saker/pid")).unwrap();
            assert!(
                Command::new("kill")
                    .args(["-USR1", pid.trim()])
                    .status()
                    .unwrap()
                    .success()
            );
            let opened = site.dir.join("saker/one-error.log");
            operate::wait_until("the log is opened again", || opened.exists());
        },
    );
    let lines = fs::read_to_string(&rotated).unwrap();
    assert!(
        lines.contains("NoSuchDirective") && lines.lines().count() == 1,
        "{lines}"
    );
    assert_eq!(
        fs::read_to_string(site.dir.join("saker/one-error.log")).unwrap(),
        "",
        "opened again by its name"
    );
}

/// Ids the same.
fn without_id(line: &str) -> String {
    let (sign, rest) = line.split_at(1);
    let (id, rest) = rest.split_once('|').unwrap_or((rest, ""));
    // Apache's is process:time:count, and a process may have a short number.
    assert!(id.len() >= 10, "{line}");
    format!("{sign}|{rest}")
}

#[test]
fn forensic_logs() {
    let conf = "LoadModule log_forensic_module {dir}/modules/mod_log_forensic.so\nForensicLog {log}/forensic.log\n\
        <VirtualHost *:{port}>\nServerName www.test\n</VirtualHost>\n\
        LogFormat \"%{forensic-id}n %U\" forensic\nCustomLog {log}/ids.log forensic\n\
        <VirtualHost *:{port}>\nServerName other.test\nForensicLog {log}/other.log\n</VirtualHost>\n";
    let site = with_module_folder("apache-forensic", conf);
    let requests = [
        get("/page.html?x=a|b:c", "X-Odd: 100% \u{e9}|\r\n"),
        get("/page.html", ""),
        get("/none", ""),
        get("/led", ""),
        "GET /page.html HTTP/1.1\r\nHost: other.test\r\n\r\n".to_owned(),
    ];
    site.run(&requests, &[]);
    site.compare("forensic.log", 8, without_id);
    site.compare("other.log", 2, without_id);
    let lines = site.lines("saker", "forensic.log", 8);
    for pair in lines.chunks(2) {
        let id = pair[0][1..].split('|').next().unwrap();
        assert_eq!(pair[1], format!("-{id}"), "{lines:#?}");
        assert!(
            site.lines("saker", "ids.log", 5)
                .iter()
                .any(|line| line.starts_with(id)),
            "{id}"
        );
    }
}

fn with_module_folder(name: &str, conf: &str) -> Site {
    Site::new(name, &conf.replace("{dir}/modules", module_folder()), FILES)
}

/// The operator's words, and where they were said.
fn messages(text: &str, folder: &Path) -> Vec<String> {
    let folder = folder.to_str().unwrap();
    let own = text.lines().filter_map(|line| {
        line.split_once("[log_debug:")?
            .1
            .split_once("] [client ")?
            .1
            .split_once("] ")
    });
    let mut all: Vec<String> = own
        .map(|(_, said)| said.split(folder).next().unwrap().to_owned())
        .collect();
    all.sort();
    all
}

#[test]
fn messages_that_the_operator_words() {
    let conf = "LoadModule log_debug_module {dir}/modules/mod_log_debug.so\nLogLevel info\n<Location />\nLogMessage \"at end %{REQUEST_URI} %{REQUEST_STATUS}\"\n\
        LogMessage all hook=all\nLogMessage \"a text\" hook=handler expr=%{REQUEST_URI}=~/txt/\n</Location>\n\
        <Location /none>\nLogLevel warn\n</Location>\n<Location /sub/b.txt>\nLogLevel debug\nLogMessage \"ours\" hook=fixups\n</Location>\n";
    let site = with_module_folder("apache-messages", conf);
    let requests = [
        get("/page.html", ""),
        get("/sub/a.txt", ""),
        get("/none", ""),
        get("/secret/x.txt", ""),
        get("/sub/b.txt", ""),
    ];
    site.run(&requests, &[]);
    let of = |server: &str| {
        let log = site.dir.join(format!("{server}/error.log"));
        messages(&fs::read_to_string(log).unwrap(), &site.dir)
    };
    let (apache, saker) = (of("apache"), of("saker"));
    assert!(apache.len() > 30, "{apache:#?}");
    let difference: Vec<_> = apache
        .iter()
        .zip(&saker)
        .filter(|(apache, saker)| apache != saker)
        .collect();
    assert!(
        difference.is_empty() && apache.len() == saker.len(),
        "{apache:#?}\n{saker:#?}"
    );
}

#[test]
fn trailers_are_logged() {
    let conf = "LoadModule cgid_module {dir}/modules/mod_cgid.so\nScriptSock {dir}/{log}/cgisock\nScriptAlias /cgi/ {dir}/www/cgi/\nLogFormat \"%U %{X-Sum}^ti %{x-none}^ti %{X-Sum}^to\" trailers\nCustomLog {log}/trailers.log trailers\n";
    let site = with_module_folder("apache-trailers", conf);
    site.dir
        .write(
            "www/cgi/echo",
            "#!/bin/sh\necho Content-Type: text/plain\necho\ncat\n",
        )
        .unwrap();
    fs::set_permissions(
        site.dir.join("www/cgi/echo"),
        fs::Permissions::from_mode(0o755),
    )
    .unwrap();
    let chunked =
        "Transfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n3\r\na=b\r\n0\r\nX-Sum: 7\r\n";
    let requests = [
        get("/cgi/echo", chunked).replacen("GET", "POST", 1),
        get("/page.html", ""),
    ];
    site.run(&requests, &[]);
    site.compare("trailers.log", 2, as_it_is);
    assert_eq!(site.lines("saker", "trailers.log", 2)[0], "/cgi/echo 7 - -");
}

#[test]
fn scripts_that_fail_are_logged_in_full() {
    let conf = "LoadModule cgid_module {dir}/modules/mod_cgid.so\nScriptSock {dir}/{log}/cgisock\nScriptAlias /cgi/ {dir}/www/cgi/\nAddHandler cgi-script .sh\n\
        ScriptLog {dir}/{log}/script.log\nScriptLogBuffer 5\n\
        <VirtualHost *:{port}>\nServerName www.test\n</VirtualHost>\n\
        <VirtualHost *:{port}>\nServerName full.test\nScriptLog {dir}/{log}/full.log\nScriptLogLength 100\n</VirtualHost>\n";
    let site = with_module_folder("apache-script-log", conf);
    let scripts = [
        (
            "bad",
            "#!/bin/sh\necho X-First: 1\necho 'no field here'\necho X-Later: 2\necho\necho rest of it\n",
        ),
        ("none", "#!/bin/sh\necho X-First: 1\ncat >/dev/null\n"),
        (
            "late",
            "#!/bin/sh\necho bad\necho\nsleep 0.3\nhead -c 3000 /dev/zero | tr '\\0' x\n",
        ),
        (
            "well",
            "#!/bin/sh\necho Content-Type: text/plain\necho\ncat\n",
        ),
    ];
    for (name, text) in scripts {
        site.dir.write(&format!("www/cgi/{name}"), text).unwrap();
        fs::set_permissions(
            site.dir.join(format!("www/cgi/{name}")),
            fs::Permissions::from_mode(0o755),
        )
        .unwrap();
    }
    site.dir.write("www/x.sh", "").unwrap();
    let post = |target: &str| {
        get(target, "X-Y: z\r\nContent-Length: 10\r\n").replacen("GET", "POST", 1) + "abcdefghij"
    };
    let full = |target: &str| get(target, "").replace("www.test", "full.test");
    let requests = [
        post("/cgi/bad?x=a"),
        post("/cgi/none"),
        post("/cgi/well"),
        post("/cgi/late"),
        get("/cgi/nothere", ""),
        get("/x.sh", ""),
        full("/cgi/bad"),
        full("/cgi/bad"),
    ];
    // Apache ends the connection behind some of them.
    let requests = requests.map(|request| request.replace("HTTP/1.1", "HTTP/1.0"));
    site.run(&requests, &[]);
    for (log, least) in [("script.log", 30), ("full.log", 8)] {
        // Apache ends a line wherever it has read a piece.
        let lines = |server: &str| {
            site.lines(server, log, least)
                .into_iter()
                .filter(|line| !line.is_empty())
        };
        let of = |server: &str| {
            lines(server)
                .map(|line| without_numbers(&line))
                .collect::<Vec<_>>()
        };
        let (apache, saker) = (of("apache"), of("saker"));
        assert!(apache.len() + 5 >= least, "{apache:#?}");
        assert_eq!(saker, apache, "{log}");
    }
}

/// `%s` is the status of the request, `%>s` that of the page that stands for it.
#[test]
fn error_pages_with_a_status_of_their_own() {
    let conf = "LoadModule cgid_module {dir}/modules/mod_cgid.so\nScriptSock {dir}/{log}/cgisock\nScriptAlias /cgi/ {dir}/www/cgi/\nErrorDocument 403 /cgi/page\nErrorDocument 410 /page.html\nRedirect 403 /closed\nRedirect gone /gone\nCustomLog {log}/pages.log \"%U %s %>s\"\n";
    let site = Site::new(
        "apache-logs-pages",
        conf,
        &[
            (
                "www/cgi/page",
                "#!/bin/sh\nprintf 'Status: 404\\nContent-Type: text/plain\\n\\nno'\n",
            ),
            ("www/page.html", "a page"),
        ],
    );
    symlink(module_folder(), site.dir.join("modules")).unwrap();
    fs::set_permissions(
        site.dir.join("www/cgi/page"),
        fs::Permissions::from_mode(0o755),
    )
    .unwrap();
    let requests = [get("/closed", ""), get("/gone", ""), get("/page.html", "")];
    site.run(&requests, &[]);
    site.compare("pages.log", requests.len(), as_it_is);
    assert_eq!(site.lines("saker", "pages.log", 3)[0], "/closed 403 404");
}
