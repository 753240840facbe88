//! WordPress from Debian's package on managed PHP, with a MariaDB of the test's own: installed
//! through its own pages, then used by requests as a browser would, under the shape of Debian's
//! example configuration and the `.htaccess` that WordPress writes itself.

#![allow(clippy::unwrap_used, clippy::panic)] // The whole file is tests.

use crate::wordpress_site::{
    Database, Visitor, between, install, log_in, permalinks, serve, unpack,
};
use saker_testkit::TempDir;
use std::{fs, process::Command};

/// A picture of one dot.
const PICTURE: &[u8] =
    b"\x89PNG\x0d\x0a\x1a\x0a\x00\x00\x00\x0dIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x06\x00\x00\x00\x1f\x15\xc4\x89\x00\x00\x00\x0dIDATx\xdacd\xf8\xcfP\x0f\x00\x03\x86\x01\x80Z4}k\x00\x00\x00\x00IEND\xaeB`\x82";

#[test]
fn wordpress_is_installed_and_used() {
    let _turn = saker_testkit::heavy();
    let dir = TempDir::new("wordpress").unwrap();
    let database = Database::start(&dir);
    unpack(&dir, &database.socket);
    let server = serve(&dir);
    let visitor = Visitor {
        base: format!("http://{}", server.address()),
        jar: dir.join("cookies"),
    };
    install(&visitor);
    log_in(&visitor);
    permalinks(&visitor, &dir);
    let (permalink, picture) = write_post(&visitor, &dir);
    read(&visitor, &permalink, &picture);
    for page in [
        "/wp-admin/",
        "/wp-admin/edit.php",
        "/wp-admin/upload.php",
        "/wp-admin/post-new.php",
        "/wp-admin/themes.php",
        "/wp-admin/site-health.php",
    ] {
        visitor.expect(page, 200, "wp-admin-bar");
    }
    let screenshot = Command::new("chromium")
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--virtual-time-budget=10000",
            "--window-size=1200,900",
        ])
        .arg(format!(
            "--user-data-dir={}",
            dir.join("chromium").display()
        ))
        .arg(format!("--screenshot={}", dir.join("page.png").display()))
        .arg(format!("{}{permalink}", visitor.base))
        .output()
        .expect("chromium: tools/install-test-programs");
    let bytes = fs::metadata(dir.join("page.png")).map_or(0, |metadata| metadata.len());
    assert!(
        bytes > 5_000,
        "{bytes} bytes: {}",
        String::from_utf8_lossy(&screenshot.stderr)
    );
    if let Some(kept) = std::env::var_os("SAKER_SCREENSHOT") {
        fs::copy(dir.join("page.png"), kept).unwrap();
    }
    guesses_are_stopped(&visitor, &dir);
    server.stop().unwrap();
}

/// Enabled by a line in the `.htaccess` that WordPress writes itself, as LiteSpeed's users have it.
/// Each guesser has its own address.
fn guesses_are_stopped(owner: &Visitor, dir: &TempDir) {
    const ATTEMPTS: usize = 5;
    let path = dir.join("wordpress/.htaccess");
    let rules = fs::read_to_string(&path).unwrap();
    fs::write(
        &path,
        format!("<IfModule LiteSpeed>\nWordPressProtect deny, {ATTEMPTS}\n</IfModule>\n{rules}"),
    )
    .unwrap();
    let guess = |address: &str, target: &str, body: &[&str]| {
        owner.ask(
            target,
            &[
                &["--interface", address, "-b", "/dev/null", "-c", "/dev/null"],
                body,
            ]
            .concat(),
        )
    };
    let form = |password: &str| format!("log=admin&pwd={password}&testcookie=1");
    let statuses = |address: &str, target: &str, body: &str| -> Vec<u16> {
        (0..ATTEMPTS + 2)
            .map(|_| {
                guess(
                    address,
                    target,
                    &[
                        "-H",
                        "Cookie: wordpress_test_cookie=WP%20Cookie%20check",
                        "--data",
                        body,
                    ],
                )
                .status
            })
            .collect()
    };
    let stopped = |statuses: &[u16]| {
        // One attempt comes back each minute.
        assert!(
            statuses[..ATTEMPTS] == [200; ATTEMPTS] && statuses[ATTEMPTS..].contains(&403),
            "{statuses:?}"
        );
    };
    stopped(&statuses("127.0.0.66", "/wp-login.php", &form("guess")));
    stopped(&statuses(
        "127.0.0.67",
        "/xmlrpc.php",
        &call("wp.getUsersBlogs", "guess"),
    ));
    assert_eq!(
        guess(
            "127.0.0.66",
            "/wp-login.php",
            &["--data", &form("Long-Secret-7")]
        )
        .status,
        403,
        "the right one does not help him any more"
    );
    // Two hundred guesses in one request are as many.
    let many = multicall(200);
    let all = [
        guess("127.0.0.68", "/xmlrpc.php", &["--data", &many]),
        guess("127.0.0.68", "/xmlrpc.php", &["--data", &many]),
    ];
    assert!(
        all[0].status == 200 && all[0].text.contains("faultCode"),
        "{}",
        all[0].text
    );
    assert_eq!(
        (
            all[1].status,
            guess("127.0.0.68", "/wp-login.php", &["--data", &form("guess")]).status
        ),
        (403, 403)
    );
    // The owner comes in by both doors, as often as he likes, and so do readers of whatever
    // address.
    for _ in 0..ATTEMPTS + 2 {
        let admitted = owner.form(
            "/wp-login.php",
            &[
                ("log", "admin"),
                ("pwd", "Long-Secret-7"),
                ("testcookie", "1"),
            ],
        );
        assert!(
            admitted.status == 302 && admitted.location.ends_with("/wp-admin/"),
            "{} {}",
            admitted.status,
            admitted.text
        );
        let blogs = owner.ask(
            "/xmlrpc.php",
            &["--data", &call("wp.getUsersBlogs", "Long-Secret-7")],
        );
        assert!(
            blogs.status == 200
                && blogs.text.contains("isAdmin")
                && !blogs.text.contains("faultCode"),
            "{}",
            blogs.text
        );
    }
    assert_eq!(guess("127.0.0.66", "/", &[]).status, 200);
}

fn call(method: &str, password: &str) -> String {
    format!(
        "<?xml version=\"1.0\"?><methodCall><methodName>{method}</methodName><params><param><value><string>admin</string></value></param>\
         <param><value><string>{password}</string></value></param></params></methodCall>"
    )
}

fn multicall(count: usize) -> String {
    let one = "<value><struct><member><name>methodName</name><value><string>wp.getUsersBlogs</string></value></member><member><name>params</name><value>\
               <array><data><value><string>admin</string></value><value><string>guess</string></value></data></array></value></member></struct></value>";
    format!(
        "<?xml version=\"1.0\"?><methodCall><methodName>system.multicall</methodName><params><param><value><array><data>{}</data></array></value></param>\
         </params></methodCall>",
        one.repeat(count)
    )
}

fn write_post(visitor: &Visitor, dir: &TempDir) -> (String, String) {
    let nonce = visitor
        .get("/wp-admin/admin-ajax.php?action=rest-nonce")
        .text;
    let (nonce, file) = (
        format!("X-WP-Nonce: {nonce}"),
        dir.write("dot.png", PICTURE).unwrap(),
    );
    let upload = format!("file=@{};type=image/png", file.display());
    let media = visitor.ask("/wp-json/wp/v2/media", &["-H", &nonce, "-F", &upload]);
    assert_eq!(media.status, 201, "{}", media.text);
    let picture = between(&media.text, "\"source_url\":\"", "\"").replace("\\/", "/");
    let post = format!(
        "{{\"title\":\"A falcon\",\"status\":\"publish\",\"content\":\"<img src='{picture}'> flies fast\"}}"
    );
    let made = visitor.ask(
        "/wp-json/wp/v2/posts",
        &[
            "-H",
            &nonce,
            "-H",
            "Content-Type: application/json",
            "--data-binary",
            &post,
        ],
    );
    assert_eq!(made.status, 201, "{}", made.text);
    let link = between(&made.text, "\"link\":\"", "\"").replace("\\/", "/");
    let path = |url: &str| {
        url.strip_prefix(&visitor.base)
            .unwrap_or_else(|| panic!("{url}"))
            .to_owned()
    };
    (path(&link), path(&picture))
}

fn read(visitor: &Visitor, permalink: &str, picture: &str) {
    assert!(
        permalink.ends_with("/a-falcon/") && !permalink.contains('?'),
        "{permalink}"
    );
    visitor.expect(permalink, 200, "flies fast");
    let shown = visitor.get(picture);
    assert_eq!(
        (shown.status, shown.content_type.as_str()),
        (200, "image/png"),
        "{picture}"
    );
    let without_slash = visitor.get(permalink.trim_end_matches('/'));
    assert!(
        without_slash.status == 301 && without_slash.location.ends_with(permalink),
        "{} {}",
        without_slash.status,
        without_slash.location
    );
    visitor.expect("/?s=falcon", 200, "A falcon");
    let feed = visitor.expect("/feed/", 200, "<title>A falcon</title>");
    assert!(
        feed.content_type.starts_with("application/rss+xml"),
        "{}",
        feed.content_type
    );
    let posts = visitor.expect("/wp-json/wp/v2/posts?per_page=1", 200, "a-falcon");
    assert!(
        posts.content_type.starts_with("application/json"),
        "{}",
        posts.content_type
    );
    visitor.expect("/2020/no-such-post/", 404, "Falconry today");
    assert_eq!(visitor.get("/wp-content/uploads/nothing.png").status, 404);
    // Sources and settings are not served.
    let configuration = visitor.get("/wp-config.php");
    assert!(
        configuration.status == 200 && configuration.text.is_empty(),
        "{}",
        configuration.text
    );
    visitor.expect("/.htaccess", 403, "");
}
