//! The balancer-manager: its page, its changes, and who may ask for them.

#![allow(clippy::unwrap_used, clippy::panic)] // The whole file is tests.

use crate::operate;
use saker_testkit::{Client, Response, ServerProcess, TempDir, apache2::load_modules};
use std::{
    io::{Read, Write},
    net::TcpListener,
    thread,
};

struct Site {
    _dir: TempDir,
    server: ServerProcess,
    /// Ports of the two servers behind.
    ports: [u16; 2],
}

const OWN: &str = "http://www.test/manager";
const MODULES: &[&str] = &[
    "mpm_event",
    "authz_core",
    "proxy",
    "proxy_http",
    "slotmem_shm",
    "proxy_balancer",
    "lbmethod_byrequests",
    "lbmethod_bytraffic",
    "lbmethod_bybusyness",
];

/// A server that says its name to everybody.
fn behind(name: &'static str) -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let (mut seen, mut buffer) = (Vec::new(), [0; 1024]);
            while !seen.windows(4).any(|end| end == b"\r\n\r\n") {
                match stream.read(&mut buffer) {
                    Ok(count) if count > 0 => seen.extend_from_slice(&buffer[..count]),
                    _ => break,
                }
            }
            let length = name.len();
            let head =
                format!("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n");
            let _ = stream.write_all(format!("{head}{name}").as_bytes());
        }
    });
    port
}

impl Site {
    fn start(name: &str) -> Site {
        let dir = TempDir::new(name).unwrap();
        let ports = [behind("one"), behind("two")];
        let text = format!(
            "ServerRoot {0}\nListen {{address}}\nServerName www.test\nPidFile pid\nErrorLog error.log\nDefaultRuntimeDir {0}\n{3}\
             <Proxy balancer://pair>\nBalancerMember http://127.0.0.1:{1} route=a\nBalancerMember http://127.0.0.1:{2} route=b\n\
             ProxySet stickysession=SESSION growth=1\n</Proxy>\n\
             <Proxy balancer://open>\nBalancerMember http://127.0.0.1:{1}\nProxySet nonce=None\n</Proxy>\n\
             ProxyPass /pair balancer://pair\nProxyPass /open balancer://open\n\
             <Location /manager>\nSetHandler balancer-manager\n</Location>\n",
            dir.display(),
            ports[0],
            ports[1],
            load_modules(MODULES)
        );
        let server = operate::apache(&text).workers(2).start_in(&dir);
        Site {
            server,
            _dir: dir,
            ports,
        }
    }

    fn ask(&self, method: &str, target: &str, fields: &[(&str, &str)], body: &str) -> Response {
        let mut text = format!("{method} {target} HTTP/1.1\r\nHost: www.test\r\n");
        for (name, value) in fields {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        if method == "POST" {
            text.push_str(&format!("Content-Length: {}\r\n", body.len()));
        }
        let mut client = Client::connect(self.server.address()).unwrap();
        client.send(format!("{text}\r\n{body}")).unwrap();
        client.read_response().unwrap()
    }

    fn page(&self) -> String {
        self.ask("GET", "/manager", &[], "").text()
    }

    /// The nonce of a balancer, as its link on the page has it.
    fn nonce(&self, balancer: &str) -> String {
        let page = self.page();
        let start = format!("?b={balancer}&amp;nonce=");
        let (_, rest) = page
            .split_once(&start)
            .unwrap_or_else(|| panic!("no {start} in {page}"));
        rest.split('"').next().unwrap().to_owned()
    }

    fn change(&self, form: &str) -> Response {
        self.change_from(OWN, form)
    }

    fn change_from(&self, referer: &str, form: &str) -> Response {
        let kind = "application/x-www-form-urlencoded";
        let fields = [("Referer", referer), ("Content-Type", kind)];
        self.ask("POST", "/manager", &fields, form)
    }

    fn member(&self, at: usize) -> String {
        format!("http://127.0.0.1:{}", self.ports[at])
    }

    /// Names of the servers that answer ten requests.
    fn answers(&self, target: &str, cookie: &str) -> Vec<String> {
        let fields = [("Cookie", cookie)];
        let mut all: Vec<String> = (0..10)
            .map(|_| self.ask("GET", target, &fields, "").text())
            .collect();
        all.sort();
        all.dedup();
        all
    }
}

#[test]
fn the_page_shows_balancers_and_members() {
    let site = Site::start("manager-page");
    let response = site.ask("GET", "/manager", &[], "");
    assert_eq!(response.status, 200);
    assert_eq!(
        response.field("content-type"),
        Some("text/html; charset=ISO-8859-1")
    );
    let page = response.text();
    let row = format!(
        ">{}</a></td><td>a</td><td></td><td>1.00</td><td>0</td><td>Init Ok </td><td>0</td><td>0</td>",
        site.member(0)
    );
    for part in [
        "<h1>Load Balancer Manager for www.test</h1>",
        ">balancer://pair</a>",
        "<tr><td>3 [2 Used]</td>\n<td>SESSION</td><td>Off</td>\n<td>0</td><td>1</td>\n<td>byrequests</td>\n<td>/pair</td>",
        "?b=open\"",
        &row,
    ] {
        assert!(page.contains(part), "{part}\n{page}");
    }
    let other = Site::start("manager-again");
    assert_ne!(
        site.nonce("pair"),
        other.nonce("pair"),
        "nonces cannot be guessed"
    );
    assert_eq!(site.ask("PUT", "/manager", &[], "").status, 405);
    site.answers("/pair", "");
    let (page, shown) = (site.page(), format!(">{}</a>", site.member(0)));
    let row = page.lines().find(|line| line.contains(&shown)).unwrap();
    let cells: Vec<&str> = row.split("</td><td>").collect();
    assert!(cells[6].parse::<u64>().unwrap() > 0, "elected: {row}");
    let is_nothing = |cell: &str| cell.trim_start().starts_with("0 ");
    assert!(
        !is_nothing(cells[9]) && !is_nothing(cells[10]),
        "bytes: {row}"
    );
}

#[test]
fn members_are_taken_out_and_brought_back() {
    let site = Site::start("manager-change");
    assert_eq!(site.answers("/pair", ""), ["one", "two"]);
    let of_one = format!("b=pair&w={}&nonce={}", site.member(0), site.nonce("pair"));
    let page = site
        .change(&format!("{of_one}&w_status_D=1&w_lf=2.5&w_ls=1"))
        .text();
    let row = format!(
        ">{}</a></td><td>a</td><td></td><td>2.50</td><td>1</td><td>Init Dis </td>",
        site.member(0)
    );
    assert!(page.contains(&row), "{page}");
    assert!(page.contains("name='w_lf'"), "the form for it: {page}");
    assert_eq!(site.answers("/pair", ""), ["two"], "of all workers");
    assert_eq!(site.answers("/pair", "SESSION=x.a"), ["two"]);
    site.change(&format!("{of_one}&w_status_D=0&w_status_S=1"));
    assert_eq!(site.answers("/pair", ""), ["two"], "stopped");
    site.change(&format!("{of_one}&w_status_S=0&w_ls=0&w_status_N=1"));
    assert_eq!(site.answers("/pair", ""), ["two"], "drained");
    assert_eq!(
        site.answers("/pair", "SESSION=x.a"),
        ["one"],
        "but for its sessions"
    );
    site.change(&format!("{of_one}&w_status_N=0&w_lf=1"));
    assert_eq!(site.answers("/pair", ""), ["one", "two"]);
    site.change(&format!("{of_one}&w_wr=other"));
    assert_eq!(site.answers("/pair", "SESSION=x.other"), ["one"]);
}

#[test]
fn members_are_added_as_far_as_there_is_room() {
    let site = Site::start("manager-add");
    let nonce = site.nonce("pair");
    let third = behind("three");
    let add = |port: u16| {
        let url = format!("http%3A%2F%2F127.0.0.1%3A{port}");
        let form = format!("b=pair&nonce={nonce}&b_lbm=bytraffic&b_wyes=1&b_nwrkr={url}");
        site.change(&form).text()
    };
    let page = add(third);
    let is_full = "<tr><td>3 [3 Used]</td>";
    assert!(
        page.contains(is_full) && page.contains("<td>bytraffic</td>"),
        "{page}"
    );
    assert!(
        !site.answers("/pair", "").iter().any(|name| name == "three"),
        "it stays disabled until a form enables it"
    );
    let page = add(behind("four"));
    assert!(page.contains(is_full), "{page}");
    for at in 0..2 {
        let member = site.member(at);
        site.change(&format!("b=pair&w={member}&nonce={nonce}&w_status_D=1"));
    }
    site.change(&format!(
        "b=pair&w=http://127.0.0.1:{third}&nonce={nonce}&w_status_D=0"
    ));
    assert_eq!(site.answers("/pair", ""), ["three"]);
}

#[test]
fn nothing_is_changed_from_elsewhere() {
    let site = Site::start("manager-forged");
    let nonce = site.nonce("pair");
    let form = format!("b=pair&w={}&w_status_D=1", site.member(0));
    let whole = format!("{form}&nonce={nonce}");
    for (referer, form) in [
        ("", whole.clone()),
        ("http://evil.test/manager", whole.clone()),
        ("http://www.test/managers", whole.clone()),
        ("http://www.test.evil.test/manager", whole.clone()),
        (OWN, form.clone()),
        (OWN, format!("{form}&nonce=")),
        (OWN, format!("{form}&nonce={}", &nonce[1..])),
        (OWN, format!("{form}&nonce={nonce}x")),
    ] {
        let response = site.change_from(referer, &form);
        assert_eq!(response.status, 200);
        assert!(!response.text().contains("Dis "), "{referer} {form}");
    }
    let asked = site.ask("GET", &format!("/manager?{whole}"), &[("Referer", OWN)], "");
    assert!(asked.text().contains("name='w_lf'"), "the form");
    assert!(!asked.text().contains("Init Dis"), "a GET changes nothing");
    let plain = [("Referer", OWN), ("Content-Type", "text/plain")];
    let response = site.ask("POST", "/manager", &plain, &whole);
    assert!(!response.text().contains("Init Dis"), "it is no form");
    assert_eq!(site.answers("/pair", ""), ["one", "two"]);
    let hostile = format!("{whole}&w_status_D=0&w_wr=%22%3E%3Cscript%3E");
    let page = site.change(&hostile).text();
    assert!(
        !page.contains("<script") && page.contains("&lt;script"),
        "{page}"
    );
}

#[test]
fn a_balancer_without_a_nonce_still_looks_where_a_form_comes_from() {
    let site = Site::start("manager-open");
    let open = format!("b=open&w={}&w_status_D=1", site.member(0));
    let forged = site.change_from("http://evil.test/", &open);
    assert!(!forged.text().contains("Dis "));
    assert!(site.change(&open).text().contains("Init Dis "));
}

#[test]
fn forms_have_a_limit() {
    const LIMIT: usize = 8 << 10;
    let site = Site::start("manager-limit");
    let form = |bytes: usize| format!("x={}", "y".repeat(bytes - 2));
    assert_eq!(site.change(&form(LIMIT)).status, 200);
    assert_eq!(site.change(&form(LIMIT + 1)).status, 413);
}

#[test]
fn programs_read_it_as_xml() {
    let site = Site::start("manager-xml");
    let response = site.ask("GET", "/manager?xml=1", &[("Referer", OWN)], "");
    assert_eq!(response.field("content-type"), Some("text/xml"));
    let text = response.text();
    for part in [
        "<httpd:name>balancer://pair</httpd:name>",
        "<httpd:route>b</httpd:route>",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
}
