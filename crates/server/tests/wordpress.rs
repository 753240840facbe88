//! WordPress from Debian's package on managed PHP, with a MariaDB of the test's own: installed through its own pages, then used by requests as a
//! browser would, under the shape of Debian's example configuration and the `.htaccess` that WordPress writes itself.

#![allow(clippy::unwrap_used, clippy::panic)] // The whole file is tests.

mod operate;

use operate::{SAKER, until};
use saker_testkit::{ServerProcess, TempDir};
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

const SOURCE: &str = "/usr/share/wordpress";

struct Database {
    process: Child,
    socket: PathBuf,
}

impl Database {
    fn start(dir: &Path) -> Database {
        let data = dir.join("mysql");
        let made = Command::new("mariadb-install-db")
            .args(["--no-defaults", "--auth-root-authentication-method=normal", "--skip-test-db", "--user=root"])
            .arg(format!("--datadir={}", data.display()))
            .output()
            .expect("mariadb-install-db: tools/install-test-programs");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let socket = dir.join("mysql.sock");
        let process = Command::new("/usr/sbin/mariadbd")
            .args(["--no-defaults", "--skip-networking", "--user=root", "--innodb-flush-log-at-trx-commit=0"])
            .arg(format!("--datadir={}", data.display()))
            .arg(format!("--socket={}", socket.display()))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let database = Database { process, socket };
        until("MariaDB answers", || database.ask("SELECT 1"));
        assert!(database.ask("CREATE DATABASE wp; CREATE USER wp@localhost IDENTIFIED BY 'secret'; GRANT ALL ON wp.* TO wp@localhost"));
        database
    }

    fn ask(&self, statement: &str) -> bool {
        let socket = format!("--socket={}", self.socket.display());
        Command::new("mariadb").args(["--no-defaults", "-uroot", &socket, "-e", statement]).output().unwrap().status.success()
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A copy of the package's files, which PHP may change, as on the machines of hosters.
fn unpack(dir: &Path, socket: &Path) {
    assert!(Path::new(SOURCE).is_dir(), "wordpress is not there: tools/install-test-programs");
    let root = dir.join("wordpress");
    assert!(Command::new("cp").arg("-rL").arg(SOURCE).arg(&root).status().unwrap().success());
    let configuration = format!(
        "<?php\ndefine('DB_NAME', 'wp');\ndefine('DB_USER', 'wp');\ndefine('DB_PASSWORD', 'secret');\ndefine('DB_HOST', 'localhost:{}');\n\
         define('DB_CHARSET', 'utf8mb4');\ndefine('WP_HTTP_BLOCK_EXTERNAL', true);\ndefine('DISABLE_WP_CRON', true);\n\
         define('FS_METHOD', 'direct');\n$table_prefix = 'wp_';\nif (!defined('ABSPATH')) define('ABSPATH', __DIR__ . '/');\n\
         require_once ABSPATH . 'wp-settings.php';\n",
        socket.display()
    );
    fs::write(root.join("wp-config.php"), configuration).unwrap();
    fs::create_dir_all(root.join("wp-content/uploads")).unwrap();
    if rustix::process::geteuid().is_root() {
        assert!(Command::new("chown").args(["-R", "www-data:www-data"]).arg(&root).status().unwrap().success());
    }
}

fn serve(dir: &TempDir) -> ServerProcess {
    let root = dir.join("wordpress").display().to_string();
    let modules: String = ["mpm_event", "authz_core", "dir", "mime", "rewrite", "alias"]
        .iter()
        .map(|name| format!("LoadModule {name}_module modules/mod_{name}.so\n"))
        .collect();
    let user = if rustix::process::geteuid().is_root() {
        "LoadModule unixd_module modules/mod_unixd.so\nUser www-data\nGroup www-data\n"
    } else {
        ""
    };
    let server = ServerProcess::start_on_free_port(|port| {
        let text = format!(
            "{modules}{user}LoadModule php_module modules/libphp8.2.so\nListen 127.0.0.1:{port}\nTypesConfig /etc/mime.types\n\
             <FilesMatch \".+\\.ph(?:ar|p|tml)$\">\nSetHandler application/x-httpd-php\n</FilesMatch>\n\
             php_value upload_max_filesize 8M\n<FilesMatch \"^\\.ht\">\nRequire all denied\n</FilesMatch>\n<VirtualHost *:{port}>\nServerName localhost\nDocumentRoot {root}\nDirectoryIndex index.php\n\
             Alias /wp-content {root}/wp-content\n<Directory {root}>\nOptions FollowSymLinks\nAllowOverride Limit Options FileInfo\n\
             Require all granted\n</Directory>\n<Directory {root}/wp-content>\nOptions FollowSymLinks\nRequire all granted\n</Directory>\n</VirtualHost>\n"
        );
        let path = dir.write("httpd.conf", text).unwrap();
        let mut command = Command::new(SAKER);
        command.args(["run", "--php", "php-fpm", "--workers", "1", "--apache"]).arg(path).arg("--state-dir").arg(dir.join("state"));
        command
    });
    server.unwrap()
}

/// curl with the cookies of one visitor.
struct Visitor {
    base: String,
    jar: PathBuf,
}

struct Page {
    status: u16,
    location: String,
    content_type: String,
    text: String,
}

impl Visitor {
    fn ask(&self, target: &str, arguments: &[&str]) -> Page {
        let output = Command::new("curl")
            .args(["-s", "--max-time", "60", "-b"])
            .arg(&self.jar)
            .arg("-c")
            .arg(&self.jar)
            .args(["-w", "\n%{http_code} %{content_type}|%{redirect_url}"])
            .args(arguments)
            .arg(format!("{}{target}", self.base))
            .output()
            .expect("curl: tools/install-test-programs");
        let whole = String::from_utf8_lossy(&output.stdout).into_owned();
        let (text, said) = whole.rsplit_once('\n').unwrap_or(("", &whole));
        let (first, location) = said.split_once('|').unwrap_or((said, ""));
        let (status, content_type) = first.split_once(' ').unwrap_or((first, ""));
        Page { status: status.parse().unwrap_or(0), location: location.into(), content_type: content_type.into(), text: text.into() }
    }

    fn get(&self, target: &str) -> Page {
        self.ask(target, &[])
    }

    fn expect(&self, target: &str, status: u16, part: &str) -> Page {
        let page = self.get(target);
        assert!(page.status == status && page.text.contains(part), "{target}: {} {}\n{}", page.status, page.location, page.text);
        page
    }

    fn form(&self, target: &str, fields: &[(&str, &str)]) -> Page {
        let pairs: Vec<String> = fields.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let arguments: Vec<&str> = pairs.iter().flat_map(|pair| ["--data-urlencode", pair.as_str()]).collect();
        self.ask(target, &arguments)
    }
}

/// What stands between two texts.
fn between<'t>(text: &'t str, before: &str, after: &str) -> &'t str {
    let rest = text.split_once(before).unwrap_or_else(|| panic!("{before} is not in {text}")).1;
    rest.split_once(after).map_or(rest, |(value, _)| value)
}

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

fn install(visitor: &Visitor) {
    let first = visitor.get("/");
    assert!(first.status == 302 && first.location.ends_with("/wp-admin/install.php"), "{} {}", first.status, first.location);
    visitor.expect("/wp-admin/install.php", 200, "language");
    let done = visitor.form(
        "/wp-admin/install.php?step=2",
        &[
            ("weblog_title", "Falconry today"),
            ("user_name", "admin"),
            ("admin_password", "Long-Secret-7"),
            ("admin_password2", "Long-Secret-7"),
            ("pw_weak", "1"),
            ("admin_email", "admin@example.org"),
            ("blog_public", "0"),
            ("language", ""),
        ],
    );
    assert!(done.status == 200 && done.text.contains("wp-login.php"), "{} {}", done.status, done.text);
    visitor.expect("/", 200, "Falconry today");
}

fn log_in(visitor: &Visitor) {
    visitor.expect("/wp-login.php", 200, "user_login");
    let refused = visitor.form("/wp-login.php", &[("log", "admin"), ("pwd", "wrong"), ("testcookie", "1")]);
    assert!(refused.status == 200 && refused.text.contains("login_error"), "{}", refused.text);
    let admitted = visitor.form("/wp-login.php", &[("log", "admin"), ("pwd", "Long-Secret-7"), ("testcookie", "1")]);
    assert!(admitted.status == 302 && admitted.location.ends_with("/wp-admin/"), "{} {}", admitted.status, admitted.text);
}

/// WordPress sees a server with `.htaccess`, and writes its rules.
fn permalinks(visitor: &Visitor, dir: &Path) {
    let page = visitor.expect("/wp-admin/options-permalink.php", 200, "permalink_structure");
    let nonce = between(&page.text, "name=\"_wpnonce\" value=\"", "\"").to_owned();
    let fields = [
        ("_wpnonce", nonce.as_str()),
        ("_wp_http_referer", "/wp-admin/options-permalink.php"),
        ("selection", "custom"),
        ("permalink_structure", "/%year%/%postname%/"),
        ("category_base", ""),
        ("tag_base", ""),
    ];
    let saved = visitor.form("/wp-admin/options-permalink.php", &fields);
    assert!(matches!(saved.status, 200 | 302), "{} {}", saved.status, saved.text);
    // Where a browser would be led; the rules are made anew there.
    visitor.expect("/wp-admin/options-permalink.php?settings-updated=true", 200, "Permalink structure updated");
    let rules = fs::read_to_string(dir.join("wordpress/.htaccess")).unwrap();
    assert!(rules.contains("RewriteRule . /index.php [L]"), "{rules}");
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
