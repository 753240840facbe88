//! Pages with server-side includes, and filters that are programs, as far as they affect more than
//! the response: other requests go on, programs end with their client, long responses are sent
//! while they are generated.

#![allow(clippy::unwrap_used, clippy::panic)] // The whole file is tests.

use crate::operate;
use saker_testkit::{Client, ServerProcess, TempDir, apache2::load_modules, wait_for, wait_until};
use std::{fs, os::unix::fs::PermissionsExt, path::Path, time::Duration};

const PATIENCE: Duration = Duration::from_secs(20);

struct Site {
    dir: TempDir,
    server: ServerProcess,
}

impl Site {
    fn start(name: &str, files: &[(&str, &str)]) -> Site {
        let dir = TempDir::new(name).unwrap();
        for (path, text) in files {
            dir.write(
                &format!("www/{path}"),
                text.replace("{dir}", &dir.display().to_string()),
            )
            .unwrap();
        }
        let modules = load_modules(&["mpm_event", "mime", "include", "ext_filter"]);
        let text = format!(
            "ServerRoot {{dir}}\n{modules}Listen {{address}}\nServerName localhost\nDocumentRoot {{dir}}/www\n\
             ExtFilterDefine upper cmd=\"/usr/bin/tr a-z A-Z\"\nExtFilterDefine stuck cmd=\"/bin/sh {{dir}}/www/stuck.sh\"\n\
             <Directory {{dir}}/www>\n    Options +Includes\n    AddType text/html .shtml .html\n    AddOutputFilter INCLUDES .shtml\n\
             AddOutputFilter upper .up\n    AddOutputFilter stuck .stuck\n    XBitHack full\n</Directory>\n"
        );
        let server = operate::apache(&text).start_in(&dir);
        Site { dir, server }
    }

    fn client(&self) -> Client {
        let mut client = Client::connect(self.server.address()).unwrap();
        client.set_timeout(PATIENCE).unwrap();
        client
    }

    /// The number of a process that a program has written down.
    fn process_in(&self, file: &str) -> String {
        let path = self.dir.join(file);
        wait_for(&format!("a process id in {file}"), || {
            let text = fs::read_to_string(&path).unwrap_or_default();
            text.strip_suffix('\n').map(|pid| pid.trim().to_owned())
        })
    }
}

fn until_gone(process: &str) {
    // Zombies have ended, too.
    wait_until(&format!("process {process} ends"), || {
        fs::read_to_string(format!("/proc/{process}/stat"))
            .map_or(true, |stat| stat.contains(") Z "))
    });
}

#[test]
fn others_go_on_while_a_command_takes_its_time() {
    let site = Site::start(
        "includes-slow",
        &[
            (
                "slow.shtml",
                "before <!--#exec cmd=\"echo $$ >{dir}/pid; while [ ! -e {dir}/go ]; do sleep 0.05; done; echo late\" -->",
            ),
            ("fast.shtml", "fast"),
        ],
    );
    let mut slow = site.client();
    slow.send("GET /slow.shtml HTTP/1.1\r\nHost: localhost\r\n\r\n")
        .unwrap();
    site.process_in("pid");
    // The program waits until this has been answered.
    assert_eq!(site.client().get("/fast.shtml").unwrap().text(), "fast");
    site.dir.write("go", "").unwrap();
    assert_eq!(slow.read_response().unwrap().text(), "before late\n");
}

#[test]
fn a_command_ends_when_nobody_listens() {
    let site = Site::start(
        "includes-gone",
        &[(
            "long.shtml",
            "<!--#exec cmd=\"echo $$ >{dir}/pid; while echo tick; do sleep 0.1; done\" -->",
        )],
    );
    let mut client = site.client();
    client
        .send("GET /long.shtml HTTP/1.1\r\nHost: localhost\r\n\r\n")
        .unwrap();
    let process = site.process_in("pid");
    client.reset().unwrap();
    until_gone(&process);
}

#[test]
fn a_filter_ends_when_nobody_listens() {
    let site = Site::start(
        "filter-gone",
        &[
            ("a.stuck", "text"),
            (
                "stuck.sh",
                "echo $$ >{dir}/pid\nhead -c 1000000 /dev/zero\nwhile echo tick; do sleep 0.1; done\n",
            ),
        ],
    );
    let mut client = site.client();
    client
        .send("GET /a.stuck HTTP/1.1\r\nHost: localhost\r\n\r\n")
        .unwrap();
    let process = site.process_in("pid");
    client.reset().unwrap();
    until_gone(&process);
}

#[test]
fn long_content_passes_through_whole() {
    let long = "abcdefghijklmno\n".repeat(400_000);
    let site = Site::start(
        "includes-long",
        &[
            ("long.txt", &long),
            ("long.up", &long),
            ("page.shtml", "[<!--#include file=\"long.txt\" -->]"),
        ],
    );
    let page = site.client().get("/page.shtml").unwrap();
    assert_eq!(
        (page.body.len(), page.text() == format!("[{long}]")),
        (long.len() + 2, true)
    );
    assert_eq!(
        site.client().get("/long.up").unwrap().text(),
        long.to_ascii_uppercase()
    );
}

/// The Apache manual, XBitHack: the page is as old as its file says.
#[test]
fn a_page_with_the_group_s_bit_has_a_time() {
    let site = Site::start(
        "includes-bits",
        &[
            ("page.html", "<!--#echo var=\"DOCUMENT_NAME\" -->"),
            ("plain.shtml", "plain"),
        ],
    );
    let path = site.dir.join("www/page.html");
    fs::set_permissions(Path::new(&path), fs::Permissions::from_mode(0o754)).unwrap();
    let page = site.client().get("/page.html").unwrap();
    assert_eq!(page.text(), "page.html");
    let modified = page.field("last-modified").unwrap().to_owned();
    let again = site
        .client()
        .request("GET", "/page.html", &[("If-Modified-Since", &modified)])
        .unwrap();
    assert_eq!((again.status, again.body.len()), (304, 0));
    // The page has no tag, so the answer that it is still the same has none.
    assert_eq!((page.field("etag"), again.field("etag")), (None, None));
    let plain = site
        .client()
        .request("GET", "/plain.shtml", &[("If-Modified-Since", &modified)])
        .unwrap();
    assert_eq!(
        (
            plain.status,
            plain.field("last-modified"),
            plain.field("etag")
        ),
        (200, None, None)
    );
}
