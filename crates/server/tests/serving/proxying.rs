//! Proxy routes with real programs: a WebDAV client and apache2, npm, PROXY protocol headers; and
//! clients behind trusted proxies, who must not meet.
//!
//! Out of scope: what requests and responses alone can show (scenarios `proxy_*`, `*_proxies`,
//! `encoded_slashes`, `upstream_headers`).

#![allow(clippy::unwrap_used)] // The whole file is tests.

use crate::{
    operate::{self, saker},
    upgrades::{Http2, backend},
};
use saker_testkit::{
    Client, Saker, ServerProcess, TempDir,
    apache2::{load_modules, start_apache2, unprivileged_user},
    free_port, require, wait_until_or,
};
use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpStream},
    process::Command,
    sync::{Arc, Mutex},
};

/// apache2 with WebDAV for `dav` below the folder.
fn webdav_server(dir: &TempDir) -> ServerProcess {
    dir.write("dav/index.txt", "index\n").unwrap();
    let modules = load_modules(&[
        "mpm_event",
        "authz_core",
        "authn_core",
        "dir",
        "dav",
        "dav_fs",
        "setenvif",
    ]);
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port().unwrap()));
    let root = dir.display();
    let text = format!(
        "{modules}\nServerRoot {root}\nListen {address}\nServerName dav.test\nPidFile {root}/pid\n\
         ErrorLog {root}/apache.log\nDavLockDB {root}/locks/db\nDocumentRoot {root}/dav\n{}\n\
         <Directory {root}/dav>\nDav On\nRequire all granted\n</Directory>\n",
        unprivileged_user()
    );
    fs::create_dir_all(dir.join("locks")).unwrap();
    let file = dir.write("httpd.conf", text).unwrap();
    for folder in ["dav", "locks", "."] {
        let all = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        fs::set_permissions(dir.join(folder), all).unwrap();
    }
    start_apache2(&file, address).unwrap()
}

/// Status and content of a request by curl.
fn curl(arguments: &[&str], url: &str) -> (String, String) {
    let output = Command::new(require("curl").unwrap())
        .args(["-sS", "-m", "30", "-w", "\n%{http_code}"])
        .args(arguments)
        .arg(url)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let (content, status) = text.rsplit_once('\n').unwrap();
    (status.to_owned(), content.to_owned())
}

#[test]
fn a_webdav_client_works_through_the_proxy() {
    let dir = TempDir::new("webdav").unwrap();
    let apache = webdav_server(&dir);
    let route = format!(
        "[[site.route]]\npath = \"*\"\nproxy = \"http://{}\"\n",
        apache.address()
    );
    let saker = operate::start(
        "webdav-front",
        &operate::configuration("workers = 1", &route),
    );
    let base = format!("http://{}", saker.server.address());
    for version in ["--http1.1", "--http2-prior-knowledge"] {
        let ask = |method: &str, more: &[&str], path: &str| {
            let arguments = [&[version, "-X", method], more].concat();
            curl(&arguments, &format!("{base}{path}"))
        };
        let status = |method: &str, more: &[&str], path: &str| ask(method, more, path).0;
        assert_eq!(status("MKCOL", &[], "/new/"), "201", "{version}");
        assert_eq!(
            status("PUT", &["--data-binary", "one"], "/new/a.txt"),
            "201"
        );
        let copy = format!("Destination: {base}/new/b%20c.txt");
        assert_eq!(status("COPY", &["-H", &copy], "/new/a.txt"), "201");
        let moved = format!("Destination: {base}/new/d.txt");
        assert_eq!(status("MOVE", &["-H", &moved], "/new/a.txt"), "201");
        let (found, listing) = ask("PROPFIND", &["-H", "Depth: 1"], "/new/");
        assert_eq!(found, "207", "{listing}");
        for href in ["/new/b%20c.txt", "/new/d.txt"] {
            assert!(
                listing.contains(&format!("<D:href>{href}</D:href>")),
                "{listing}"
            );
        }
        assert!(!listing.contains("/new/a.txt"), "{listing}");
        let lock = "<?xml version=\"1.0\"?><D:lockinfo xmlns:D=\"DAV:\"><D:lockscope><D:exclusive/>\
                    </D:lockscope><D:locktype><D:write/></D:locktype></D:lockinfo>";
        let (locked, answer) = ask("LOCK", &["--data", lock], "/new/d.txt");
        assert_eq!(locked, "200", "{answer}");
        let start = answer.find("opaquelocktoken:").unwrap();
        let token: String = answer[start..].chars().take_while(|c| *c != '<').collect();
        assert_eq!(status("PUT", &["--data", "two"], "/new/d.txt"), "423");
        let unlock = format!("Lock-Token: <{token}>");
        assert_eq!(status("UNLOCK", &["-H", &unlock], "/new/d.txt"), "204");
        assert_eq!(curl(&[version], &format!("{base}/new/d.txt")).1, "one");
        assert_eq!(status("DELETE", &[], "/new/"), "204");
    }
    drop(apache);
}

/// A backend whose answers show what it was sent: the first line of the head, and the lines whose
/// names begin with `x-`. Returns the heads of all connections.
fn showing_backend(content: &'static str) -> (SocketAddr, Arc<Mutex<Vec<Vec<String>>>>) {
    let heads = Arc::<Mutex<Vec<Vec<String>>>>::default();
    let seen = Arc::clone(&heads);
    let address = backend(move |stream| {
        let mut reader = BufReader::new(stream);
        let mut head = Vec::new();
        let mut line = String::new();
        while reader.read_line(&mut line).is_ok_and(|length| length > 0) {
            let text = std::mem::take(&mut line);
            if text != "\r\n" {
                head.push(text.trim_end().to_owned());
                continue;
            }
            seen.lock().unwrap().push(std::mem::take(&mut head));
            let answer = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{content}",
                content.len()
            );
            if reader.get_mut().write_all(answer.as_bytes()).is_err() {
                return;
            }
        }
    });
    (address, heads)
}

const PACKAGE: &str = "{\"_id\":\"@scope/name\",\"name\":\"@scope/name\",\"dist-tags\":{\"latest\":\"1.2.3\"},\
     \"versions\":{\"1.2.3\":{\"name\":\"@scope/name\",\"version\":\"1.2.3\",\"dist\":{\"tarball\":\"http://localhost/x.tgz\"}}}}";

#[test]
fn npm_finds_a_package_with_a_scope() {
    let (address, heads) = showing_backend(PACKAGE);
    let route = format!("[[site.route]]\npath = \"/registry/*\"\nproxy = \"http://{address}/\"\n");
    let saker = operate::start("npm", &operate::configuration("workers = 1", &route));
    let output = Command::new(require("npm").unwrap())
        .args(["view", "@scope/name", "version", "--registry"])
        .arg(format!("http://{}/registry/", saker.server.address()))
        .args(["--fetch-retries", "0"])
        .env("npm_config_cache", saker.dir.join("npm"))
        .env("HOME", &*saker.dir)
        .current_dir(&*saker.dir)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(
        said.trim(),
        "1.2.3",
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let heads = heads.lock().unwrap();
    let is_asked = |head: &Vec<String>| head[0].starts_with("GET /@scope%2fname ");
    assert!(heads.iter().any(is_asked), "{heads:?}");
}

#[test]
fn upstreams_get_a_proxy_protocol_header_for_each_client() {
    for (version, is_text) in [("v1", true), ("v2", false)] {
        let prefaces = Arc::<Mutex<Vec<Vec<u8>>>>::default();
        let seen = Arc::clone(&prefaces);
        let address = backend(move |mut stream: TcpStream| {
            let mut bytes = Vec::new();
            while !bytes.ends_with(b"\r\n\r\n") || bytes.len() < 20 {
                let mut byte = [0];
                if stream.read_exact(&mut byte).is_err() {
                    return;
                }
                bytes.push(byte[0]);
            }
            seen.lock().unwrap().push(bytes);
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        });
        let upstream = format!(
            "[[upstream]]\nname = \"app\"\nservers = [\"http://{address}\"]\nsend_proxy_protocol = \"{version}\"\n\n"
        );
        let route = "[[site.route]]\npath = \"*\"\nproxy = \"app\"\n";
        let text = operate::configuration("trusted_proxies = [\"127.0.0.1\"]", route)
            .replace("[[listener]]", &format!("{upstream}[[listener]]"));
        let saker = operate::start("send-proxy", &text);
        let mut client = saker.connect().unwrap();
        for named in ["192.0.2.1", "192.0.2.2"] {
            let fields = [("X-Forwarded-For", named)];
            let response = client.request("GET", "/", &fields).unwrap();
            assert_eq!((response.status, response.text().as_str()), (200, "ok"));
        }
        let prefaces = prefaces.lock().unwrap();
        assert_eq!(prefaces.len(), 2, "a connection for each request");
        for (preface, last) in prefaces.iter().zip([1, 2]) {
            let text = String::from_utf8_lossy(preface);
            if is_text {
                assert!(
                    text.starts_with(&format!("PROXY TCP4 192.0.2.{last} 127.0.0.1 0 ")),
                    "{text}"
                );
                assert!(text.contains("\r\nGET / HTTP/1.1\r\n"), "{text}");
            } else {
                assert!(
                    preface.starts_with(b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c"),
                    "{text}"
                );
                assert_eq!(preface[16..20], [192, 0, 2, last]);
                assert!(preface[28..].starts_with(b"GET / HTTP/1.1\r\n"), "{text}");
            }
        }
    }
}

/// A site that trusts this machine to name clients, with an access log of their addresses.
fn behind_proxies(name: &str, server: &str, site: &str) -> Saker {
    let site = format!(
        "access_log = {{ path = \"{{dir}}/access.log\", format = \"%h %{{c}}a %>s\" }}\n{site}"
    );
    let server = format!("workers = 1\ntrusted_proxies = [\"127.0.0.0/8\"]\n{server}");
    operate::start(name, &operate::configuration(&server, &site))
}

fn status_for(client: &mut Client, named: &str) -> u16 {
    let fields = [("X-Forwarded-For", named)];
    client
        .request("GET", "/index.html", &fields)
        .unwrap()
        .status
}

fn assert_logged(saker: &Saker, expected: &[&str]) {
    let path = saker.dir.join("access.log");
    let mut lines = Vec::new();
    wait_until_or(
        || {
            lines = operate::lines(&path);
            lines == expected
        },
        || format!("not {expected:?}"),
    );
}

#[test]
fn logs_and_bans_go_by_the_client_that_the_proxy_names() {
    let saker_server = behind_proxies("named-bans", "", "");
    let mut client = saker_server.connect().unwrap();
    // From the second on, the route cache answers.
    for _ in 0..3 {
        assert_eq!(status_for(&mut client, "192.0.2.1"), 200);
        assert_eq!(status_for(&mut client, "192.0.2.2"), 200);
    }
    let state = saker_server.dir.join("state");
    let ban = |verb: &str| {
        let output = saker([verb, "192.0.2.1", "--state-dir", state.to_str().unwrap()]);
        assert!(output.status.success(), "{output:?}");
    };
    ban("ban");
    // The connection is the proxy's and serves the other clients.
    assert_eq!(status_for(&mut client, "192.0.2.1"), 403);
    assert_eq!(status_for(&mut client, "192.0.2.2"), 200);
    assert_eq!(status_for(&mut client, "192.0.2.1, 192.0.2.2"), 200);
    assert_eq!(status_for(&mut client, "192.0.2.1, 127.9.9.9"), 403);
    ban("unban");
    assert_eq!(status_for(&mut client, "192.0.2.1"), 200);
    let mut expected = Vec::new();
    for _ in 0..3 {
        expected.extend(["192.0.2.1 127.0.0.1 200", "192.0.2.2 127.0.0.1 200"]);
    }
    expected.extend([
        "192.0.2.1 127.0.0.1 403",
        "192.0.2.2 127.0.0.1 200",
        "192.0.2.2 127.0.0.1 200",
        "192.0.2.1 127.0.0.1 403",
        "192.0.2.1 127.0.0.1 200",
    ]);
    assert_logged(&saker_server, &expected);
}

#[test]
fn streams_of_one_connection_belong_to_different_clients() {
    let saker = behind_proxies(
        "named-streams",
        "",
        "[site.access]\ndeny = [\"192.0.2.66\"]\n",
    );
    let mut client = Http2::connect(saker.server.address()).greeted();
    let mut expected = Vec::new();
    for round in 0..3 {
        let open = |client: &mut Http2, named: &str| {
            let fields = [
                (":method", "GET"),
                (":scheme", "http"),
                (":authority", "localhost"),
                (":path", "/index.html"),
                ("x-forwarded-for", named),
            ];
            client.open(&fields, true)
        };
        let (one, other) = (
            open(&mut client, "192.0.2.1"),
            open(&mut client, "192.0.2.66"),
        );
        for (stream, status) in [(one, 200), (other, 403)] {
            let heard = client.until(stream, |heard| heard.has_ended);
            assert_eq!(heard.status, status, "round {round}");
        }
        expected.extend(["192.0.2.1 127.0.0.1 200", "192.0.2.66 127.0.0.1 403"]);
    }
    let path = saker.dir.join("access.log");
    let mut lines = Vec::new();
    expected.sort_unstable();
    wait_until_or(
        || {
            lines = operate::lines(&path);
            lines.sort_unstable();
            lines == expected
        },
        || format!("not {expected:?}"),
    );
}

#[test]
fn limits_count_each_client_behind_a_proxy() {
    let throttle =
        "[site.throttle]\nrequests_static = { rate = \"1/s\", burst = 2, excess = \"refuse\" }\n";
    let saker = behind_proxies("named-limits", "", throttle);
    let mut client = saker.connect().unwrap();
    let of = |client: &mut Client, named: &str| {
        (0..6)
            .map(|_| status_for(client, named))
            .collect::<Vec<u16>>()
    };
    let one = of(&mut client, "192.0.2.1");
    assert_eq!(one[0], 200, "{one:?}");
    assert!(one.contains(&429), "{one:?}");
    // The other has used nothing of its own yet.
    assert_eq!(status_for(&mut client, "192.0.2.2"), 200);
    assert_eq!(status_for(&mut client, "192.0.2.3"), 200);
}

#[test]
fn lists_of_the_server_are_for_clients_and_not_for_their_proxies() {
    let saker = operate::start(
        "named-lists",
        &operate::configuration(
            "workers = 1\ntrusted_proxies = [\"127.0.0.1\"]\n\n[abuse]\nallow = [\"192.0.2.0/24\"]\n",
            "",
        ),
    );
    let mut client = saker.connect().unwrap();
    for _ in 0..2 {
        assert_eq!(status_for(&mut client, "192.0.2.1"), 200);
        assert_eq!(status_for(&mut client, "198.51.100.1"), 403);
        assert_eq!(status_for(&mut client, "192.0.2.1, garbage"), 403);
    }
}

#[test]
fn a_list_of_proxies_with_garbage_is_refused() {
    let dir = TempDir::new("proxy-list").unwrap();
    dir.write("proxies.txt", "10.0.0.0/8 # ours\n10.0.0.0/99\n")
        .unwrap();
    let text = operate::configuration("trusted_proxies_files = [\"{dir}/proxies.txt\"]", "")
        .replace("{dir}", &dir.display().to_string())
        .replace("{address}", "127.0.0.1:8080");
    let file = dir.write("saker.toml", text).unwrap();
    fs::create_dir_all(dir.join("www")).unwrap();
    let output = saker(["check", "-c", file.to_str().unwrap()]);
    let said = [operate::stdout(&output), operate::stderr(&output)].concat();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("proxies.txt:2"), "{said}");
}

#[test]
fn logs_are_kept_by_path() {
    let logs = "access_log = [{ path = \"{dir}/access.log\", format = \"%U\", except = [\"/health\", \"*.png\"] }, \
                { path = \"{dir}/api.log\", format = \"%U\", paths = [\"/api/*\"], except = [\"/api/health\"] }]\n\
                [[site.route]]\npath = \"*\"\nrespond = \"ok\"\n";
    let saker = operate::start("logs-by-path", &operate::configuration("workers = 1", logs));
    let mut client = saker.connect().unwrap();
    for _ in 0..2 {
        for target in [
            "/health",
            "/%68ealth?x",
            "/a.png",
            "/a",
            "/api/x",
            "/api/health",
            "/api%2Fy",
        ] {
            assert_eq!(client.get(target).unwrap().status, 200, "{target}");
        }
    }
    assert_logged(&saker, &["/a", "/api/x", "/api/health", "/api/y"].repeat(2));
    // A file of its own, which is written at another moment.
    let api = saker.dir.join("api.log");
    operate::wait_until("lines of the other log", || operate::lines(&api).len() >= 4);
    assert_eq!(operate::lines(&api), ["/api/x", "/api/y"].repeat(2));
}
