//! WordPress from Debian's package on managed PHP, with a MariaDB of the test's own: its setup, and
//! clients based on curl.
// Each test program uses its part.
#![allow(dead_code)]

use crate::operate::{self, wait_until};
use saker_testkit::{ServerProcess, TempDir};
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

const SOURCE: &str = "/usr/share/wordpress";

pub struct Database {
    process: Child,
    pub socket: PathBuf,
}

impl Database {
    pub fn start(dir: &Path) -> Database {
        let data = dir.join("mysql");
        // One that starts removes other servers' temporary tables.
        let made = Command::new("mariadb-install-db")
            .env("TMPDIR", dir)
            .args([
                "--no-defaults",
                "--auth-root-authentication-method=normal",
                "--skip-test-db",
                "--user=root",
            ])
            .arg(format!("--datadir={}", data.display()))
            .output()
            .expect("mariadb-install-db: tools/install-test-programs");
        assert!(
            made.status.success(),
            "{}",
            String::from_utf8_lossy(&made.stderr)
        );
        let socket = dir.join("mysql.sock");
        let process = Command::new("/usr/sbin/mariadbd")
            .env("TMPDIR", dir)
            .args([
                "--no-defaults",
                "--skip-networking",
                "--user=root",
                "--innodb-flush-log-at-trx-commit=0",
            ])
            .arg(format!("--datadir={}", data.display()))
            .arg(format!("--socket={}", socket.display()))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let database = Database { process, socket };
        wait_until("MariaDB answers", || database.ask("SELECT 1"));
        assert!(database.ask("CREATE DATABASE wp; CREATE USER wp@localhost IDENTIFIED BY 'secret'; GRANT ALL ON wp.* TO wp@localhost"));
        database
    }

    fn ask(&self, statement: &str) -> bool {
        let socket = format!("--socket={}", self.socket.display());
        Command::new("mariadb")
            .args(["--no-defaults", "-uroot", &socket, "-e", statement])
            .output()
            .unwrap()
            .status
            .success()
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A copy of the package's files, which PHP may change, as on the machines of hosters.
pub fn unpack(dir: &Path, socket: &Path) {
    assert!(
        Path::new(SOURCE).is_dir(),
        "wordpress is not there: tools/install-test-programs"
    );
    let root = dir.join("wordpress");
    assert!(
        Command::new("cp")
            .arg("-rL")
            .arg(SOURCE)
            .arg(&root)
            .status()
            .unwrap()
            .success()
    );
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
        assert!(
            Command::new("chown")
                .args(["-R", "www-data:www-data"])
                .arg(&root)
                .status()
                .unwrap()
                .success()
        );
    }
}

pub fn serve(dir: &TempDir) -> ServerProcess {
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
    let text = format!(
        "{modules}{user}LoadModule php_module modules/libphp8.2.so\nListen {{address}}\nTypesConfig /etc/mime.types\n\
             <FilesMatch \".+\\.ph(?:ar|p|tml)$\">\nSetHandler application/x-httpd-php\n</FilesMatch>\n\
             php_value upload_max_filesize 8M\n<FilesMatch \"^\\.ht\">\nRequire all denied\n</FilesMatch>\n<VirtualHost *:{{port}}>\nServerName localhost\nDocumentRoot {root}\nDirectoryIndex index.php\n\
             Alias /wp-content {root}/wp-content\n<Directory {root}>\nOptions FollowSymLinks\nAllowOverride Limit Options FileInfo\n\
             Require all granted\n</Directory>\n<Directory {root}/wp-content>\nOptions FollowSymLinks\nRequire all granted\n</Directory>\n</VirtualHost>\n"
    );
    operate::apache(&text)
        .arguments(&["--php", "php-fpm"])
        .start_in(dir)
}

/// curl with the cookies of one client.
pub struct Visitor {
    pub base: String,
    pub jar: PathBuf,
}

pub struct Page {
    pub status: u16,
    pub location: String,
    pub content_type: String,
    /// Value of X-LiteSpeed-Cache; empty without it.
    pub cache: String,
    pub text: String,
}

impl Visitor {
    pub fn ask(&self, target: &str, arguments: &[&str]) -> Page {
        let output = Command::new("curl")
            .args(["-s", "--max-time", "60", "-b"])
            .arg(&self.jar)
            .arg("-c")
            .arg(&self.jar)
            .args([
                "-w",
                "\n%{http_code} %{content_type}|%header{x-litespeed-cache}|%{redirect_url}",
            ])
            .args(arguments)
            .arg(format!("{}{target}", self.base))
            .output()
            .expect("curl: tools/install-test-programs");
        let whole = String::from_utf8_lossy(&output.stdout).into_owned();
        let (text, said) = whole.rsplit_once('\n').unwrap_or(("", &whole));
        let (first, location) = said.split_once('|').unwrap_or((said, ""));
        let (cache, location) = location.split_once('|').unwrap_or((location, ""));
        let (status, content_type) = first.split_once(' ').unwrap_or((first, ""));
        Page {
            status: status.parse().unwrap_or(0),
            location: location.into(),
            content_type: content_type.into(),
            cache: cache.into(),
            text: text.into(),
        }
    }

    pub fn get(&self, target: &str) -> Page {
        self.ask(target, &[])
    }

    pub fn expect(&self, target: &str, status: u16, part: &str) -> Page {
        let page = self.get(target);
        assert!(
            page.status == status && page.text.contains(part),
            "{target}: {} {}\n{}",
            page.status,
            page.location,
            page.text
        );
        page
    }

    pub fn form(&self, target: &str, fields: &[(&str, &str)]) -> Page {
        let pairs: Vec<String> = fields
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        let arguments: Vec<&str> = pairs
            .iter()
            .flat_map(|pair| ["--data-urlencode", pair.as_str()])
            .collect();
        self.ask(target, &arguments)
    }
}

/// Text between two others.
pub fn between<'t>(text: &'t str, before: &str, after: &str) -> &'t str {
    let rest = text
        .split_once(before)
        .unwrap_or_else(|| panic!("{before} is not in {text}"))
        .1;
    rest.split_once(after).map_or(rest, |(value, _)| value)
}

pub fn install(visitor: &Visitor) {
    let first = visitor.get("/");
    assert!(
        first.status == 302 && first.location.ends_with("/wp-admin/install.php"),
        "{} {}",
        first.status,
        first.location
    );
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
    assert!(
        done.status == 200 && done.text.contains("wp-login.php"),
        "{} {}",
        done.status,
        done.text
    );
    visitor.expect("/", 200, "Falconry today");
}

pub fn log_in(visitor: &Visitor) {
    visitor.expect("/wp-login.php", 200, "user_login");
    let refused = visitor.form(
        "/wp-login.php",
        &[("log", "admin"), ("pwd", "wrong"), ("testcookie", "1")],
    );
    assert!(
        refused.status == 200 && refused.text.contains("login_error"),
        "{}",
        refused.text
    );
    let admitted = visitor.form(
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
}

/// WordPress sees a server with `.htaccess`, and writes its rules.
pub fn permalinks(visitor: &Visitor, dir: &Path) {
    let page = visitor.expect(
        "/wp-admin/options-permalink.php",
        200,
        "permalink_structure",
    );
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
    assert!(
        matches!(saved.status, 200 | 302),
        "{} {}",
        saved.status,
        saved.text
    );
    // Where a browser would be led; the rules are made anew there.
    visitor.expect(
        "/wp-admin/options-permalink.php?settings-updated=true",
        200,
        "Permalink structure updated",
    );
    let rules = fs::read_to_string(dir.join("wordpress/.htaccess")).unwrap();
    assert!(rules.contains("RewriteRule . /index.php [L]"), "{rules}");
}
