//! WebDAV under the native configuration: Debian's `litmus` and `cadaver`, locks that outlive the
//! server, hostile trees and clients, and pages that see what was written.
//!
//! Out of scope: answers compared with Apache's (`apache`, topic `dav`).

#![allow(clippy::unwrap_used)] // The whole file is tests.

use crate::{
    operate::{self, wait_until},
    tls_site,
    webdav_programs::litmus,
};
use saker_testkit::{Response, Saker, TempDir, require};
use std::{
    fs,
    io::Write,
    os::unix::fs::{PermissionsExt, symlink},
    path::Path,
    process::{Command, Output, Stdio},
};

const ROUTE: &str =
    "[[site.route]]\npath = \"/dav/*\"\nwebdav = true\nhidden = true\nbody_size = 0\n";

fn open_folder(dir: &Path, name: &str) {
    let path = dir.join(name);
    fs::create_dir_all(&path).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).unwrap();
}

fn prepared(name: &str) -> TempDir {
    let dir = operate::folder(name);
    open_folder(&dir, "www/dav");
    dir
}

fn start(name: &str, site: &str) -> Saker {
    let configuration = operate::configuration("workers = 2", site);
    operate::start_in(prepared(name), &configuration)
}

fn ask(saker: &Saker, request: &str, fields: &[(&str, &str)], body: &str) -> Response {
    let (method, target) = request.split_once(' ').unwrap();
    let mut client = saker.connect().unwrap();
    let mut text = format!("{method} {target} HTTP/1.1\r\n");
    if !fields.iter().any(|(name, _)| *name == "Host") {
        text.push_str("Host: localhost\r\n");
    }
    for (name, value) in fields {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    if !body.is_empty() {
        text.push_str(&format!("Content-Length: {}\r\n", body.len()));
    }
    client.send(format!("{text}\r\n{body}")).unwrap();
    client.read_response().unwrap()
}

fn status(saker: &Saker, request: &str, fields: &[(&str, &str)], body: &str) -> u16 {
    ask(saker, request, fields, body).status
}

const EXCLUSIVE: &str = "<?xml version=\"1.0\"?><D:lockinfo xmlns:D=\"DAV:\"><D:lockscope><D:exclusive/>\
    </D:lockscope><D:locktype><D:write/></D:locktype></D:lockinfo>";

fn lock(saker: &Saker, path: &str) -> String {
    let response = ask(saker, &format!("LOCK {path}"), &[], EXCLUSIVE);
    assert_eq!(response.status, 200, "{}", response.text());
    response.field("lock-token").unwrap().to_owned()
}

#[test]
fn litmus_passes_over_http() {
    let saker = start("webdav-litmus", ROUTE);
    litmus(&format!("http://{}/dav/", saker.server.address()));
    assert!(!saker.dir.join("www/dav/.DAV").exists());
}

#[test]
fn litmus_passes_over_https() {
    let dir = prepared("webdav-litmus-tls");
    tls_site::certificate(&dir, "site", "localhost");
    let saker = operate::start_in(dir, &tls_site::configuration("", ROUTE));
    let port = saker.server.address().port();
    litmus(&format!("https://localhost:{port}/dav/"));
}

#[test]
fn cadaver_works() {
    let saker = start("webdav-cadaver", ROUTE);
    let dir = &saker.dir;
    dir.write("up.txt", "from here\n").unwrap();
    let script = "mkcol one\ncd one\nput up.txt a.txt\ncopy a.txt b.txt\nmove b.txt c.txt\n\
        lock a.txt\npropset c.txt colour red\npropget c.txt colour\nget c.txt down.txt\n\
        unlock a.txt\ndelete a.txt\nls\nquit\n";
    let mut child = Command::new(require("cadaver").unwrap())
        .arg(format!("http://{}/dav/", saker.server.address()))
        .env("HOME", &**dir)
        .current_dir(&**dir)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(script.as_bytes())
        .unwrap();
    let Output { stdout, .. } = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&stdout).into_owned();
    assert_eq!(
        fs::read_to_string(dir.join("down.txt")).unwrap(),
        "from here\n",
        "{text}"
    );
    assert!(text.contains("red") && !text.contains("failed"), "{text}");
    let names: Vec<_> = fs::read_dir(dir.join("www/dav/one"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name != ".DAV")
        .collect();
    assert_eq!(names, ["c.txt"], "{text}");
}

#[test]
fn locks_outlive_the_server() {
    let configuration = operate::configuration("workers = 2", ROUTE);
    let dir = prepared("webdav-restart");
    dir.write("www/dav/a.txt", "old").unwrap();
    let mut saker = operate::start_in(dir, &configuration);
    let token = lock(&saker, "/dav/a.txt");
    assert_eq!(status(&saker, "PUT /dav/a.txt", &[], "new"), 423);
    saker.server.kill().unwrap();
    let Saker { dir, .. } = saker;
    let saker = operate::start_in(dir, &configuration);
    assert_eq!(status(&saker, "PUT /dav/a.txt", &[], "new"), 423);
    assert_eq!(status(&saker, "DELETE /dav/a.txt", &[], ""), 423);
    let condition = format!("({token})");
    // The file may not be written for lack of rights where the test runs as another user.
    open_folder(&saker.dir, "www/dav");
    assert_eq!(
        status(&saker, "PUT /dav/a.txt", &[("If", &condition)], "new"),
        204
    );
    let unlocked = status(&saker, "UNLOCK /dav/a.txt", &[("Lock-Token", &token)], "");
    assert_eq!(unlocked, 204);
    assert_eq!(status(&saker, "DELETE /dav/a.txt", &[], ""), 204);
}

#[test]
fn a_damaged_lock_database_refuses_changes() {
    let saker = start("webdav-damage", ROUTE);
    assert_eq!(status(&saker, "PUT /dav/a.txt", &[], "1"), 201);
    let token = lock(&saker, "/dav/a.txt");
    let file = saker.dir.join("state/webdav-locks.saker");
    let text = fs::read_to_string(&file).unwrap();
    assert!(token.contains(text.lines().last().unwrap().split('\t').next().unwrap()));
    fs::write(&file, "no locks at all").unwrap();
    for request in [
        "PUT /dav/a.txt",
        "DELETE /dav/a.txt",
        "MKCOL /dav/b",
        "PUT /dav/b",
    ] {
        assert_eq!(status(&saker, request, &[], ""), 500, "{request}");
    }
    let patience = operate::PATIENCE;
    saker.server.wait_for_stderr("SK1410", patience).unwrap();
    assert_eq!(status(&saker, "GET /dav/a.txt", &[], ""), 200);
    fs::remove_file(&file).unwrap();
    assert_eq!(status(&saker, "DELETE /dav/a.txt", &[], ""), 204);
}

#[test]
fn names_of_the_server_are_out_of_reach() {
    let saker = start("webdav-names", ROUTE);
    let patch = "<D:propertyupdate xmlns:D=\"DAV:\"><D:set><D:prop><x xmlns=\"u:\">1</x></D:prop></D:set></D:propertyupdate>";
    assert_eq!(status(&saker, "PUT /dav/a", &[], "1"), 201);
    assert_eq!(status(&saker, "PROPPATCH /dav/a", &[], patch), 207);
    assert!(saker.dir.join("www/dav/.DAV/a.saker").exists());
    let base = format!("http://{}", saker.server.address());
    let reserved = [
        "/dav/.DAV",
        "/dav/.DAV/",
        "/dav/.DAV/a.saker",
        "/dav/%2eDAV/a.saker",
        "/dav/.dav/a.saker",
        "/dav/x/../.DAV/a.saker",
        "/dav//.DAV//a.saker",
        "/dav/.davfs.tmp1-1",
    ];
    for path in reserved {
        for method in [
            "GET", "HEAD", "POST", "PUT", "PROPFIND", "DELETE", "MKCOL", "LOCK", "OPTIONS",
        ] {
            let mut client = saker.connect().unwrap();
            client
                .send(format!(
                    "{method} {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"
                ))
                .unwrap();
            let response = match method {
                "HEAD" => client.read_head_response(),
                _ => client.read_response(),
            };
            assert_eq!(response.unwrap().status, 403, "{method} {path}");
        }
        let destination = format!("{base}{path}");
        let fields = [
            ("Host", base.trim_start_matches("http://")),
            ("Destination", destination.as_str()),
        ];
        assert_eq!(status(&saker, "COPY /dav/a", &fields, ""), 403, "{path}");
    }
    for name in [".htaccess", ".htpasswd", ".HTACCESS", ".user.ini"] {
        let request = format!("PUT /dav/{name}");
        assert_eq!(status(&saker, &request, &[], "x"), 403, "{name}");
        let destination = format!("/dav/{name}");
        let moved = status(&saker, "MOVE /dav/a", &[("Destination", &destination)], "");
        assert_eq!(moved, 403, "{name}");
    }
    let listing = ask(&saker, "PROPFIND /dav/", &[("Depth", "1")], "").text();
    assert!(
        listing.contains("/dav/a<") && !listing.contains(".DAV"),
        "{listing}"
    );
    assert!(
        listing.contains("<ns0:x xmlns:ns0=\"u:\">1</ns0:x>"),
        "{listing}"
    );
}

#[test]
fn links_do_not_lead_out_and_trees_stay_apart() {
    let dir = prepared("webdav-links");
    dir.write("outside/secret", "secret").unwrap();
    open_folder(&dir, "outside");
    open_folder(&dir, "www/dav/d");
    symlink(dir.join("outside"), dir.join("www/dav/out")).unwrap();
    symlink(dir.join("outside"), dir.join("www/dav/d/out")).unwrap();
    symlink(dir.join("outside/secret"), dir.join("www/dav/file")).unwrap();
    symlink("d", dir.join("www/dav/again")).unwrap();
    dir.write("www/dav/d/kept", "kept").unwrap();
    let saker = operate::start_in(dir, &operate::configuration("workers = 1", ROUTE));
    for request in [
        "GET /dav/out/secret",
        "PROPFIND /dav/out/",
        "PUT /dav/out/new",
        "MKCOL /dav/out/new",
        "DELETE /dav/out/secret",
        "DELETE /dav/out",
        "PROPFIND /dav/file",
        "PUT /dav/file",
        "PROPPATCH /dav/file",
        "LOCK /dav/out/new",
    ] {
        assert_eq!(
            status(&saker, request, &[("Depth", "1")], ""),
            403,
            "{request}"
        );
    }
    let to = |path: &str| [("Destination".to_owned(), path.to_owned())];
    let transfer = |request: &str, path: &str| {
        let [(name, value)] = to(path);
        status(&saker, request, &[(&name, &value)], "")
    };
    assert_eq!(transfer("COPY /dav/file", "/dav/copy"), 403);
    assert_eq!(transfer("COPY /dav/d/", "/dav/out/d"), 403);
    // Into itself, by its name and by a link to it.
    assert_eq!(transfer("COPY /dav/d/", "/dav/d/e/"), 403);
    assert_eq!(transfer("MOVE /dav/d/", "/dav/again/e"), 403);
    assert_eq!(transfer("COPY /dav/d/", "/dav/again"), 403);
    assert_eq!(transfer("COPY /dav/d/", "/dav/e/"), 201);
    assert!(
        !saker.dir.join("www/dav/e/out").exists(),
        "links are not copied"
    );
    assert_eq!(status(&saker, "DELETE /dav/e/", &[], ""), 204);
    assert_eq!(status(&saker, "DELETE /dav/again", &[], ""), 204);
    assert_eq!(status(&saker, "DELETE /dav/d/", &[], ""), 204);
    let secret = fs::read_to_string(saker.dir.join("outside/secret")).unwrap();
    assert_eq!(secret, "secret");
    assert_eq!(
        status(&saker, "DELETE /dav/", &[], ""),
        204,
        "the route is a folder of the site"
    );
    assert_eq!(fs::read_dir(saker.dir.join("outside")).unwrap().count(), 1);
}

/// Collections in a tree keep their rules, wherever the tree comes from or goes to, and protected
/// names stay where they are.
#[test]
fn trees_keep_their_rules_and_protected_names() {
    let site = format!(
        "symlinks = \"follow\"\n[[site.route]]\npath = \"/dav/to/closed/*\"\ndeny = true\n\
         [[site.route]]\npath = \"/dav/link/closed/*\"\ndeny = true\n{ROUTE}"
    );
    let dir = prepared("webdav-trees");
    for name in ["data", "data/closed", "www/dav/up", "www/dav/down"] {
        open_folder(&dir, name);
    }
    dir.write("data/closed/s.txt", "secret").unwrap();
    dir.write("www/dav/up/.htaccess", "Require all denied\n")
        .unwrap();
    symlink(dir.join("data"), dir.join("www/dav/link")).unwrap();
    let saker = operate::start_in(dir, &operate::configuration("workers = 1", &site));
    let transfer =
        |request: &str, path: &str| status(&saker, request, &[("Destination", path)], "");
    // A copy of a link goes into what the link leads to.
    assert_eq!(status(&saker, "GET /dav/link/closed/s.txt", &[], ""), 403);
    assert_eq!(transfer("COPY /dav/link/", "/dav/copied/"), 403);
    assert_eq!(status(&saker, "GET /dav/copied/closed/s.txt", &[], ""), 404);
    // Collections that come to be below the destination.
    for request in ["MKCOL /dav/from/", "MKCOL /dav/from/closed/"] {
        assert_eq!(status(&saker, request, &[], ""), 201, "{request}");
    }
    for method in ["COPY", "MOVE"] {
        let request = format!("{method} /dav/from/");
        assert_eq!(transfer(&request, "/dav/to/"), 403, "{request}");
    }
    assert!(!saker.dir.join("www/dav/to").exists());
    assert_eq!(transfer("COPY /dav/from/", "/dav/open/"), 201);
    // A collection is not removed, moved, or replaced with what protects it.
    assert_eq!(status(&saker, "DELETE /dav/up/", &[], ""), 403);
    assert_eq!(transfer("MOVE /dav/up/", "/dav/away/"), 403);
    assert_eq!(transfer("COPY /dav/down/", "/dav/up/"), 403);
    assert!(saker.dir.join("www/dav/up/.htaccess").exists());
    // Its copy would be open.
    assert_eq!(transfer("COPY /dav/up/", "/dav/bare/"), 403);
    assert!(!saker.dir.join("www/dav/bare").exists());
}

#[test]
fn destinations_have_rules_of_their_own() {
    let site = format!(
        "{ROUTE}[[site.route]]\npath = \"/closed/*\"\nwebdav = true\n\
         [site.route.access]\ndeny = [\"127.0.0.0/8\"]\n\
         [[site.route]]\npath = \"/other/*\"\nwebdav = true\n\
         webdav_lock_database = \"{{dir}}/elsewhere\"\n"
    );
    let dir = prepared("webdav-destinations");
    for name in ["www/closed", "www/plain", "www/other"] {
        open_folder(&dir, name);
    }
    let saker = operate::start_in(dir, &operate::configuration("workers = 1", &site));
    assert_eq!(status(&saker, "PUT /dav/a", &[], "1"), 201);
    for (destination, expected) in [
        ("/closed/a", 403),
        ("/plain/a", 405),
        ("/other/a", 502),
        ("http://elsewhere.test/dav/b", 502),
        ("ftp://x/dav/b", 400),
        ("/dav/b?q", 400),
        ("dav/b", 400),
        ("/../b", 400),
        ("/dav/%00", 400),
        ("/dav/no/b", 409),
        ("/dav/a", 403),
        ("/dav/a/b", 409),
    ] {
        for method in ["COPY", "MOVE"] {
            let found = status(
                &saker,
                &format!("{method} /dav/a"),
                &[("Destination", destination)],
                "",
            );
            assert_eq!(found, expected, "{method} {destination}");
        }
    }
    assert_eq!(status(&saker, "COPY /dav/a", &[], ""), 400);
    assert!(!saker.dir.join("www/closed/a").exists());
    assert_eq!(
        fs::read_to_string(saker.dir.join("www/dav/a")).unwrap(),
        "1"
    );
}

#[test]
fn a_broken_upload_leaves_the_old_file() {
    let saker = start("webdav-broken", ROUTE);
    assert_eq!(status(&saker, "PUT /dav/a", &[], "old"), 201);
    let mut client = saker.connect().unwrap();
    client
        .send("PUT /dav/a HTTP/1.1\r\nHost: x\r\nContent-Length: 3000000\r\n\r\n")
        .unwrap();
    client.send(vec![b'x'; 1_500_000]).unwrap();
    let folder = saker.dir.join("www/dav");
    let names = || -> Vec<String> {
        fs::read_dir(&folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect()
    };
    wait_until("the upload is under way", || names().len() == 2);
    assert_eq!(fs::read_to_string(folder.join("a")).unwrap(), "old");
    let listing = ask(&saker, "PROPFIND /dav/", &[("Depth", "1")], "").text();
    assert!(!listing.contains(".davfs"), "{listing}");
    client.reset().unwrap();
    wait_until("the temporary file is gone", || names() == ["a"]);
    assert_eq!(ask(&saker, "GET /dav/a", &[], "").text(), "old");
    let part = [("Content-Range", "bytes 0-1/3")];
    assert_eq!(status(&saker, "PUT /dav/a", &part, "no"), 400);
    assert_eq!(
        status(&saker, "PUT /dav/a", &[("If-None-Match", "*")], "no"),
        412
    );
    assert_eq!(
        status(&saker, "PUT /dav/a", &[("If-Match", "\"x\"")], "no"),
        412
    );
    assert_eq!(ask(&saker, "GET /dav/a", &[], "").text(), "old");
}

#[test]
fn what_was_written_is_served() {
    let saker = start("webdav-fresh", ROUTE);
    let mut reader = saker.connect().unwrap();
    for round in 0..20 {
        let content = format!("content of round {round}");
        let written = status(&saker, "PUT /dav/page.html", &[], &content);
        assert_eq!(written, if round == 0 { 201 } else { 204 });
        for _ in 0..3 {
            assert_eq!(reader.get("/dav/page.html").unwrap().text(), content);
        }
    }
    assert_eq!(status(&saker, "DELETE /dav/page.html", &[], ""), 204);
    assert_eq!(reader.get("/dav/page.html").unwrap().status, 404);
}

#[test]
fn xml_is_bounded() {
    let site = format!("{ROUTE}webdav_xml_size = \"1kB\"\n");
    let saker = start("webdav-xml", &site);
    let filled = |bytes: usize| {
        let start = "<D:propfind xmlns:D=\"DAV:\"><D:allprop/></D:propfind>";
        format!("{start}{}", " ".repeat(bytes - start.len()))
    };
    let fields = [("Depth", "0")];
    assert_eq!(
        status(&saker, "PROPFIND /dav/", &fields, &filled(1000)),
        207
    );
    assert_eq!(
        status(&saker, "PROPFIND /dav/", &fields, &filled(1001)),
        413
    );
    for text in [
        "<!DOCTYPE x [<!ENTITY a \"b\">]><D:propfind xmlns:D=\"DAV:\"><D:allprop/></D:propfind>",
        "<propfind><allprop/></propfind>",
        "<D:propfind xmlns:D=\"DAV:\">",
        "no XML",
    ] {
        assert_eq!(
            status(&saker, "PROPFIND /dav/", &fields, text),
            400,
            "{text}"
        );
    }
    assert_eq!(status(&saker, "PROPFIND /dav/", &[], ""), 403, "infinity");
    assert_eq!(status(&saker, "MKCOL /dav/x", &[], "content"), 415);
    assert_eq!(
        status(&saker, "PROPFIND /", &fields, ""),
        501,
        "no WebDAV there"
    );
}

#[test]
fn users_do_not_unlock_each_other() {
    let dir = prepared("webdav-users");
    let users = "ann:{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=\nbob:{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=\n";
    dir.write("users", users).unwrap();
    let site = format!("{ROUTE}[site.route.auth]\nuser_file = \"{{dir}}/users\"\n");
    let saker = operate::start_in(dir, &operate::configuration("workers = 1", &site));
    let (ann, bob) = (
        ("Authorization", "Basic YW5uOnBhc3N3b3Jk"),
        ("Authorization", "Basic Ym9iOnBhc3N3b3Jk"),
    );
    assert_eq!(status(&saker, "PUT /dav/a", &[], "1"), 401);
    assert_eq!(status(&saker, "PUT /dav/a", &[ann], "1"), 201);
    let locked = ask(&saker, "LOCK /dav/a", &[ann], EXCLUSIVE);
    let token = locked.field("lock-token").unwrap().to_owned();
    let condition = format!("({token})");
    assert_eq!(
        status(&saker, "PUT /dav/a", &[bob, ("If", &condition)], "2"),
        403
    );
    assert_eq!(
        status(&saker, "UNLOCK /dav/a", &[bob, ("Lock-Token", &token)], ""),
        403
    );
    assert_eq!(
        status(&saker, "PUT /dav/a", &[ann, ("If", &condition)], "2"),
        204
    );
    assert_eq!(
        status(&saker, "UNLOCK /dav/a", &[ann, ("Lock-Token", &token)], ""),
        204
    );
}

#[test]
fn pages_of_what_was_written_leave_the_page_cache() {
    let site = format!("php = \"auto\"\ncache = true\n{ROUTE}");
    let saker = start("webdav-cache", &site);
    let page = |text: &str| {
        format!("<?php header('Cache-Control: public, max-age=600'); echo '{text} ', uniqid();")
    };
    assert_eq!(status(&saker, "PUT /dav/d/x", &[], ""), 409);
    assert_eq!(status(&saker, "MKCOL /dav/d", &[], ""), 201);
    assert_eq!(
        status(&saker, "PUT /dav/d/page.php", &[], &page("one")),
        201
    );
    let get = || ask(&saker, "GET /dav/d/page.php", &[], "").text();
    let first = get();
    assert!(first.starts_with("one "), "{first}");
    wait_until("the page is cached", || get() == get());
    assert_eq!(
        status(&saker, "PUT /dav/d/page.php", &[], &page("two")),
        204
    );
    let second = get();
    assert!(second.starts_with("two "), "{second}");
    wait_until("the page is cached", || get() == get());
    let second = get();
    let moved = status(&saker, "MOVE /dav/d/", &[("Destination", "/dav/e/")], "");
    assert_eq!(moved, 201);
    assert_eq!(
        status(&saker, "MOVE /dav/e/", &[("Destination", "/dav/d/")], ""),
        201
    );
    let third = get();
    assert!(third.starts_with("two ") && third != second, "{third}");
}
