//! WordPress from Debian's package on managed PHP, with a MariaDB of the test's own: installed through its own pages, then used by requests as a
//! browser would, under the shape of Debian's example configuration and the `.htaccess` that WordPress writes itself.

#![allow(clippy::unwrap_used, clippy::panic)] // The whole file is tests.

mod operate;
#[path = "wordpress/site.rs"]
mod site;

use saker_testkit::TempDir;
use site::{Database, Visitor, between, install, log_in, permalinks, serve, unpack};
use std::{fs, process::Command};

/// A picture of one dot.
const PICTURE: &[u8] =
    b"\x89PNG\x0d\x0a\x1a\x0a\x00\x00\x00\x0dIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x06\x00\x00\x00\x1f\x15\xc4\x89\x00\x00\x00\x0dIDATx\xdacd\xf8\xcfP\x0f\x00\x03\x86\x01\x80Z4}k\x00\x00\x00\x00IEND\xaeB`\x82";

#[test]
fn wordpress_is_installed_and_used() {
    let dir = TempDir::new("wordpress").unwrap();
    let database = Database::start(&dir);
    unpack(&dir, &database.socket);
    let server = serve(&dir);
    let visitor = Visitor { base: format!("http://{}", server.address()), jar: dir.join("cookies") };
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
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=10000", "--window-size=1200,900"])
        .arg(format!("--user-data-dir={}", dir.join("chromium").display()))
        .arg(format!("--screenshot={}", dir.join("page.png").display()))
        .arg(format!("{}{permalink}", visitor.base))
        .output()
        .expect("chromium: tools/install-test-programs");
    let bytes = fs::metadata(dir.join("page.png")).map_or(0, |metadata| metadata.len());
    assert!(bytes > 5_000, "{bytes} bytes: {}", String::from_utf8_lossy(&screenshot.stderr));
    if let Some(kept) = std::env::var_os("SAKER_SCREENSHOT") {
        fs::copy(dir.join("page.png"), kept).unwrap();
    }
    server.stop().unwrap();
}

fn write_post(visitor: &Visitor, dir: &TempDir) -> (String, String) {
    let nonce = visitor.get("/wp-admin/admin-ajax.php?action=rest-nonce").text;
    let (nonce, file) = (format!("X-WP-Nonce: {nonce}"), dir.write("dot.png", PICTURE).unwrap());
    let upload = format!("file=@{};type=image/png", file.display());
    let media = visitor.ask("/wp-json/wp/v2/media", &["-H", &nonce, "-F", &upload]);
    assert_eq!(media.status, 201, "{}", media.text);
    let picture = between(&media.text, "\"source_url\":\"", "\"").replace("\\/", "/");
    let post = format!("{{\"title\":\"A falcon\",\"status\":\"publish\",\"content\":\"<img src='{picture}'> flies fast\"}}");
    let made = visitor.ask("/wp-json/wp/v2/posts", &["-H", &nonce, "-H", "Content-Type: application/json", "--data-binary", &post]);
    assert_eq!(made.status, 201, "{}", made.text);
    let link = between(&made.text, "\"link\":\"", "\"").replace("\\/", "/");
    let path = |url: &str| url.strip_prefix(&visitor.base).unwrap_or_else(|| panic!("{url}")).to_owned();
    (path(&link), path(&picture))
}

fn read(visitor: &Visitor, permalink: &str, picture: &str) {
    assert!(permalink.ends_with("/a-falcon/") && !permalink.contains('?'), "{permalink}");
    visitor.expect(permalink, 200, "flies fast");
    let shown = visitor.get(picture);
    assert_eq!((shown.status, shown.content_type.as_str()), (200, "image/png"), "{picture}");
    let without_slash = visitor.get(permalink.trim_end_matches('/'));
    assert!(
        without_slash.status == 301 && without_slash.location.ends_with(permalink),
        "{} {}",
        without_slash.status,
        without_slash.location
    );
    visitor.expect("/?s=falcon", 200, "A falcon");
    let feed = visitor.expect("/feed/", 200, "<title>A falcon</title>");
    assert!(feed.content_type.starts_with("application/rss+xml"), "{}", feed.content_type);
    let posts = visitor.expect("/wp-json/wp/v2/posts?per_page=1", 200, "a-falcon");
    assert!(posts.content_type.starts_with("application/json"), "{}", posts.content_type);
    visitor.expect("/2020/no-such-post/", 404, "Falconry today");
    assert_eq!(visitor.get("/wp-content/uploads/nothing.png").status, 404);
    // Sources and settings are nobody's to see.
    let configuration = visitor.get("/wp-config.php");
    assert!(configuration.status == 200 && configuration.text.is_empty(), "{}", configuration.text);
    visitor.expect("/.htaccess", 403, "");
}
