//! Pages for administrators: the status page, its form for programs, the page about the
//! configuration, names and signatures.

#![allow(clippy::unwrap_used, clippy::panic)] // The whole file is tests.

use crate::operate;
use saker_testkit::{
    Client, Response, ServerProcess, TempDir,
    apache2::{load_modules, start_apache2, unprivileged_user},
    free_port, wait_until,
};
use std::net::SocketAddr;

struct Site {
    _dir: TempDir,
    server: ServerProcess,
}

const MODULES: &[&str] = &[
    "mpm_event",
    "authz_core",
    "dir",
    "status",
    "info",
    "alias",
    "autoindex",
    "mime",
];

fn conf(dir: &TempDir, more: &str) -> String {
    let mut text = format!(
        "ServerRoot {0}\nListen {{address}}\nPidFile pid\nErrorLog error.log\nServerName www.test\nDefaultRuntimeDir {0}\n{1}{2}",
        dir.display(),
        load_modules(MODULES),
        unprivileged_user()
    );
    text.push_str(&format!(
        "TypesConfig mime.types\nDocumentRoot {0}/www\n<Directory {0}>\nOptions Indexes\n</Directory>\n\
         <Location /server-status>\nSetHandler server-status\n</Location>\n<Location /server-info>\nSetHandler server-info\n</Location>\n{more}",
        dir.display()
    ));
    text
}

fn folder(name: &str) -> TempDir {
    let dir = TempDir::new(name).unwrap();
    dir.write("mime.types", "text/html html\n").unwrap();
    dir.write("www/index.html", "index").unwrap();
    dir.write("www/list/a.txt", "a").unwrap();
    dir
}

impl Site {
    fn start(name: &str, more: &str) -> Site {
        let dir = folder(name);
        let server = operate::apache(&conf(&dir, more)).workers(2).start_in(&dir);
        Site { server, _dir: dir }
    }

    fn apache(name: &str, more: &str) -> Site {
        let dir = folder(name);
        let address = SocketAddr::from(([127, 0, 0, 1], free_port().unwrap()));
        let text = conf(&dir, more).replace("{address}", &address.to_string());
        let file = dir.write("httpd.conf", text).unwrap();
        let server = start_apache2(&file, address).unwrap();
        Site { server, _dir: dir }
    }

    fn get(&self, target: &str) -> Response {
        Client::connect(self.server.address())
            .unwrap()
            .get(target)
            .unwrap()
    }

    fn text(&self, target: &str) -> String {
        String::from_utf8_lossy(&self.get(target).body).into_owned()
    }
}

/// The words before the colons.
fn keys(text: &str) -> Vec<&str> {
    text.lines()
        .filter_map(|line| line.split_once(": ").map(|(key, _)| key))
        .collect()
}

fn value(text: &str, key: &str) -> f64 {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(key)?.strip_prefix(": "));
    line.and_then(|value| value.parse().ok())
        .unwrap_or_else(|| panic!("no {key} in\n{text}"))
}

#[test]
fn the_keys_that_programs_read_are_apaches() {
    let (apache, saker) = (
        Site::apache("status-keys-apache", ""),
        Site::start("status-keys", ""),
    );
    // In its first second a server tells no rates, and before its first request none per request.
    [&apache, &saker]
        .iter()
        .for_each(|site| drop(site.get("/index.html")));
    for site in [&apache, &saker] {
        wait_until("rates are told", || {
            site.text("/server-status?auto").contains("ReqPerSec")
        });
    }
    // The load of the processor is only told where there is some.
    let shown = |site: &Site| {
        keys(&site.text("/server-status?auto"))
            .iter()
            .filter(|key| **key != "CPULoad")
            .map(|key| (*key).to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(shown(&saker), shown(&apache));
    for target in [
        "/server-status",
        "/server-status?auto",
        "/server-status?notable",
        "/server-status?refresh=7",
        "/server-status?auto&refresh",
    ] {
        let (apache, saker) = (apache.get(target), saker.get(target));
        assert_eq!(
            (
                saker.status,
                saker.field("content-type"),
                saker.field("refresh")
            ),
            (
                apache.status,
                apache.field("content-type"),
                apache.field("refresh")
            ),
            "{target}"
        );
    }
}

#[test]
fn the_numbers_are_the_servers() {
    let site = Site::start("status-numbers", "MaxRequestWorkers 60\n");
    let before = site.text("/server-status?auto");
    for _ in 0..10 {
        assert_eq!(site.get("/index.html").status, 200);
    }
    let mut idle = Client::connect(site.server.address()).unwrap();
    assert_eq!(idle.get("/index.html").unwrap().status, 200);
    let after = site.text("/server-status?auto");
    assert_eq!(
        value(&after, "Total Accesses") - value(&before, "Total Accesses"),
        12.0
    );
    assert_eq!(
        (value(&after, "BusyWorkers"), value(&after, "IdleWorkers")),
        (1.0, 59.0),
        "the one that asks"
    );
    assert!(value(&after, "ConnsAsyncKeepAlive") >= 1.0, "{after}");
    let board = after.lines().last().unwrap();
    assert_eq!(board, format!("Scoreboard: W{}", "_".repeat(59)));
    let page = site.text("/server-status");
    assert!(
        page.contains("<td nowrap>GET /server-status HTTP/1.1</td>"),
        "{page}"
    );
    assert!(!site.text("/server-status?notable").contains("<th>Srv</th>"));
}

#[test]
fn what_is_not_extended_tells_less() {
    let site = Site::start("status-brief", "ExtendedStatus Off\n");
    let (auto, page) = (
        site.text("/server-status?auto"),
        site.text("/server-status"),
    );
    assert!(
        !auto.contains("Total Accesses") && auto.contains("BusyWorkers: 1"),
        "{auto}"
    );
    assert!(!page.contains("GET /server-status"), "{page}");
    // Other methods are none of its.
    let mut client = Client::connect(site.server.address()).unwrap();
    client
        .send("POST /server-status HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n")
        .unwrap();
    assert_eq!(client.read_response().unwrap().status, 404);
}

#[test]
fn what_is_configured() {
    let site = Site::start(
        "server-info",
        "AddModuleInfo mod_dir.c \"see <b>there</b>\"\nDirectoryIndex \"<i>.html\" index.html\n",
    );
    let config = site.text("/server-info?config");
    assert!(
        config.contains("DirectoryIndex <i>&quot;&lt;i&gt;.html&quot; index.html</i>"),
        "{config}"
    );
    assert!(
        config.contains("&lt;Location /server-info&gt;") && config.contains("In file: "),
        "{config}"
    );
    assert!(
        site.text("/server-info?list")
            .contains("<dd>mod_dir.c</dd>")
    );
    assert!(site.text("/server-info?server").contains("localhost:80"));
    let module = site.text("/server-info?mod_dir.c");
    assert!(
        module.contains("FallbackResource") && module.contains("see <b>there</b>"),
        "{module}"
    );
    assert!(
        site.text("/server-info?%3Cscript%3E")
            .contains("No such module")
    );
    assert!(site.text("/server-info").contains("Server Settings"));
}

#[test]
fn names_and_signatures() {
    let version = env!("CARGO_PKG_VERSION");
    let site = Site::start(
        "signature",
        "ServerTokens Min\nServerSignature EMail\nServerAdmin \"a&b@x.test\"\n",
    );
    let response = site.get("/none");
    let (page, name) = (
        String::from_utf8_lossy(&response.body).into_owned(),
        format!("Saker/{version}"),
    );
    assert_eq!(response.field("server"), Some(name.as_str()));
    let line = format!(
        "<hr>\n<address>{name} Server at <a href=\"mailto:a&amp;b@x.test\">localhost</a> Port 80</address>\n"
    );
    assert!(page.contains(&line), "{page}");
    assert!(site.text("/list/").contains(&line["<hr>\n".len()..]));
    assert!(
        site.text("/list")
            .contains("<a href=\"http://localhost/list/\">"),
        "a redirect has a note"
    );
    let plain = Site::start("signature-off", "");
    let response = plain.get("/none");
    assert!(
        response.field("server") == Some("Saker")
            && !String::from_utf8_lossy(&response.body).contains("<address>")
    );
}
