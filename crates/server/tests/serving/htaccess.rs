//! `saker serve` against the real apache2 with `AllowOverride All`: folders as WordPress, Laravel,
//! Drupal, Nextcloud, and people without a framework leave them, with one php-fpm behind both.
//!
//! Caveat: Saker's own choices differ on purpose, and are not compared: names of hidden files are
//! 404, types and charsets of files are its own, redirects have no page.
//! Out of scope: each directive; the cases against apache2 under an Apache configuration have them.

#![allow(clippy::unwrap_used, clippy::panic)] // The whole file is tests.

use crate::operate;
use saker_testkit::{
    Client, PATIENCE, Response, ServerProcess, TempDir,
    apache2::{load_modules, start_apache2, unprivileged_user},
    free_port, poll, require,
};
use std::{
    net::{Ipv4Addr, SocketAddr},
    os::unix::fs::PermissionsExt,
    process::Command,
};

/// Tells what an application decides by.
const FRONT: &str = "<?php\nheader('Content-Type: text/plain');\nforeach (['REQUEST_URI', \
                     'SCRIPT_NAME', 'PATH_INFO', 'QUERY_STRING', 'REDIRECT_STATUS', \
                     'REDIRECT_URL', 'HTTP_AUTHORIZATION', 'front_controller_active', 'REMOTE_USER'] as $name)\n    \
                     echo $name, '=', ($_SERVER[$name] ?? '') ?: '-', \"\\n\";\n\
                     echo strpos($_SERVER['SERVER_SOFTWARE'], 'Apache') === 0 ? 'apache' : 'other', \"\\n\";\n";

const MODULES: &[&str] = &[
    "mpm_event",
    "authn_file",
    "authn_core",
    "authz_core",
    "authz_host",
    "authz_user",
    "access_compat",
    "auth_basic",
    "filter",
    "mime",
    "env",
    "setenvif",
    "headers",
    "expires",
    "autoindex",
    "negotiation",
    "dir",
    "alias",
    "rewrite",
    "proxy",
    "proxy_fcgi",
];

/// One folder behind both servers, and one PHP.
struct Pair {
    _php: ServerProcess,
    apache: ServerProcess,
    saker: ServerProcess,
    _dir: TempDir,
}

impl Pair {
    fn start(name: &str, files: &[(&str, &str)]) -> Pair {
        let dir = TempDir::new(&format!("htaccess-{name}")).unwrap();
        std::fs::set_permissions(&dir, std::fs::Permissions::from_mode(0o755)).unwrap();
        for (path, text) in files {
            let text = text.replace("{dir}", &dir.display().to_string());
            dir.write(&format!("www/{path}"), text).unwrap();
        }
        let php = start_php(&dir);
        let port = free_port().unwrap();
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let configuration = format!(
            "ServerRoot {0}\nListen {address}\nServerName localhost\nPidFile {0}/apache.pid\nErrorLog {0}/apache.log\n{1}{2}\
             TypesConfig /etc/mime.types\nDocumentRoot {0}/www\n<Directory {0}/www>\n    AllowOverride All\n    Require all granted\n    CGIPassAuth On\n</Directory>\n\
             DirectoryIndex index.html index.htm index.php\n\
             <FilesMatch \"\\.php$\">\n    SetHandler \"proxy:unix:{0}/php.sock|fcgi://localhost\"\n</FilesMatch>\n",
            dir.display(),
            load_modules(MODULES),
            unprivileged_user(),
        );
        let file = dir.write("httpd.conf", configuration).unwrap();
        let apache = start_apache2(&file, address).unwrap();
        let socket = format!("unix:{}", dir.join("php.sock").display());
        let saker = operate::serve(&["{dir}/www", "--http", "{address}", "--php", &socket])
            .state_dir("{dir}/state")
            .start_in(&dir);
        Pair {
            _php: php,
            apache,
            saker,
            _dir: dir,
        }
    }

    fn ask(&self, address: SocketAddr, request: &str) -> Response {
        let mut parts = request.split(" | ");
        let mut line = parts.next().unwrap().split(' ');
        let (method, target) = (line.next().unwrap(), line.next().unwrap());
        let fields: Vec<(&str, &str)> = std::iter::once(("Host", "site.test"))
            .chain(parts.map(|field| field.split_once(": ").unwrap()))
            .collect();
        let mut client = Client::connect(address).unwrap();
        client.request(method, target, &fields).unwrap()
    }

    /// Asks both, and asserts that what they say is the same.
    fn compare(&self, requests: &[&str]) {
        self.compare_without(requests, "no such line");
    }

    /// As `compare`, but for a variable that only one of them has.
    fn compare_without(&self, requests: &[&str], variable: &str) {
        let told = |response: &Response| without(&told(response), variable);
        let mut wrong = String::new();
        for request in requests {
            let apache = told(&self.ask(self.apache.address(), request));
            // Answered from what the first request left, too.
            for _ in 0..2 {
                let saker = told(&self.ask(self.saker.address(), request));
                if apache != saker {
                    wrong += &format!("{request}\n  apache2: {apache}\n  saker:   {saker}\n");
                    break;
                }
            }
        }
        assert!(wrong.is_empty(), "{wrong}\n{}", self.saker.stderr());
    }
}

fn start_php(dir: &TempDir) -> ServerProcess {
    let user = match rustix::process::geteuid().is_root() {
        true => "user = www-data\ngroup = www-data\n",
        false => "",
    };
    let text = format!(
        "[global]\nerror_log = {0}/php.log\ndaemonize = no\n[www]\n{user}listen = {0}/php.sock\nlisten.mode = 0666\npm = static\npm.max_children = 2\n",
        dir.display()
    );
    let file = dir.write("fpm.conf", text).unwrap();
    let mut command = Command::new(require("php-fpm8.2").unwrap());
    command.args(["-n", "-F", "-y"]).arg(file);
    let server = ServerProcess::spawn(&mut command, ([127, 0, 0, 1], 1).into()).unwrap();
    poll(PATIENCE, || dir.join("php.sock").exists().then_some(()))
        .unwrap_or_else(|| panic!("php-fpm did not start: {}", server.stderr()));
    server
}

/// The text without the lines of a variable.
fn without(text: &str, variable: &str) -> String {
    text.split("\\n")
        .filter(|line| !line.starts_with(variable))
        .collect::<Vec<_>>()
        .join("\\n")
}

/// Facts that a client learns: the status, the fields that rules set, and content that is the site's.
fn told(response: &Response) -> String {
    const FIELDS: &[&str] = &[
        "location",
        "www-authenticate",
        "x-content-type-options",
        "x-frame-options",
        "x-robots-tag",
        "referrer-policy",
        "x-always",
        "cache-control",
        "content-encoding",
        "content-language",
    ];
    let fields: Vec<String> = FIELDS
        .iter()
        .filter_map(|name| Some(format!("{name}: {}", response.field(name)?)))
        .collect();
    let body = response.text();
    let is_own_page = body.starts_with("<!DOCTYPE")
        || body.starts_with("<!doctype")
        || response.status / 100 == 3;
    let body = if is_own_page {
        "(a page of the server's)"
    } else {
        &body
    };
    format!("{} {fields:?} {body:?}", response.status)
}

#[test]
fn wordpress() {
    let pair = Pair::start(
        "wordpress",
        &[
            (".htaccess", include_str!("htaccess/wordpress.htaccess")),
            ("index.php", FRONT),
            ("wp-login.php", FRONT),
            ("wp-admin/index.php", FRONT),
            ("wp-content/a.css", "body {}\n"),
            (
                "wp-content/uploads/.htaccess",
                "<Files *.php>\nRequire all denied\n</Files>\n",
            ),
            ("wp-content/uploads/evil.php", FRONT),
        ],
    );
    pair.compare(&[
        "GET /",
        "GET /index.php",
        "GET /2026/11/hello-world/",
        "GET /2026/11/hello-world/?replytocom=1",
        "GET /caf%C3%A9/",
        "GET /wp-login.php?action=lostpassword",
        "GET /wp-admin",
        "GET /wp-admin/",
        "GET /wp-content/a.css",
        "HEAD /wp-content/a.css",
        "GET /wp-content/missing.css",
        "GET /wp-content/uploads/evil.php",
        "GET /wp-json/wp/v2/posts | Authorization: Basic YTpi",
        "POST /feed/",
        "GET /index.php/with/path",
        "GET /wp-login.php/more",
    ]);
}

#[test]
fn laravel() {
    let pair = Pair::start(
        "laravel",
        &[
            (".htaccess", include_str!("htaccess/laravel.htaccess")),
            ("index.php", FRONT),
            ("css/app.css", "body {}\n"),
            ("robots.txt", "User-agent: *\n"),
        ],
    );
    pair.compare(&[
        "GET /",
        "GET /users/7",
        "GET /users/7/",
        "GET /users/7/?page=2",
        "GET /users?page=2&sort=a%20b",
        "GET /css/app.css",
        "GET /css/",
        "GET /css",
        "GET /robots.txt",
        "GET /api | Authorization: Bearer token | X-XSRF-Token: t",
        "POST /login",
        "PUT /users/7",
        "DELETE /users/7",
    ]);
}

#[test]
fn drupal() {
    let pair = Pair::start(
        "drupal",
        &[
            (".htaccess", include_str!("htaccess/drupal.htaccess")),
            ("index.php", FRONT),
            ("autoload.php", FRONT),
            ("core/install.php", FRONT),
            ("core/lib/a.php", FRONT),
            ("core/core.services.yml", "a: b\n"),
            ("composer.json", "{}\n"),
            ("core/misc/drupal.js", "var a;\n"),
            ("sites/default/settings.php", FRONT),
            (
                "sites/default/files/.htaccess",
                "SetHandler Drupal_Security_Do_Not_Remove_See_SA_2006_006\n<Files *>\n  SetHandler Drupal_Security_Do_Not_Remove_See_SA_2013_003\n</Files>\n<IfModule mod_php.c>\n  php_flag engine off\n</IfModule>\nOptions -Indexes -ExecCGI -Includes -MultiViews\n",
            ),
            ("sites/default/files/a.txt", "upload\n"),
            ("sites/default/files/evil.php", FRONT),
        ],
    );
    pair.compare(&[
        "GET /",
        "GET /node/1",
        "GET /node/1?destination=/user",
        "GET /user/login",
        "GET /install.php",
        "GET /core/install.php",
        "GET /core/lib/a.php",
        "GET /autoload.php",
        "GET /composer.json",
        "GET /core/core.services.yml",
        "GET /core/misc/drupal.js",
        "GET /sites/default/settings.php",
        "GET /sites/default/files/a.txt",
        "GET /sites/default/files/missing.jpg",
        "GET /core/",
        "GET /.git/config",
        "GET /favicon.ico",
    ]);
    // A source of an upload is never shown; apache2 would.
    let upload = pair.ask(pair.saker.address(), "GET /sites/default/files/evil.php");
    assert_eq!(upload.status, 403);
}

#[test]
fn nextcloud() {
    let pair = Pair::start(
        "nextcloud",
        &[
            (".htaccess", include_str!("htaccess/nextcloud.htaccess")),
            ("index.php", FRONT),
            ("remote.php", FRONT),
            ("status.php", FRONT),
            ("ocs/v2.php", FRONT),
            ("cron.php", FRONT),
            ("robots.txt", "User-agent: *\n"),
            ("core/img/logo.svg", "<svg/>\n"),
            ("dist/core.js", "var a;\n"),
            ("config/config.php", FRONT),
            ("lib/base.php", FRONT),
            ("3rdparty/a.txt", "a\n"),
        ],
    );
    pair.compare(&[
        "GET /",
        "GET / | User-Agent: Microsoft-WebDAV-DavClnt",
        "GET /apps/files/",
        "GET /index.php/apps/files/?dir=/",
        "GET /login",
        "GET /remote.php/dav/files/ann/a%20b",
        "GET /remote/x",
        "GET /status.php",
        "GET /ocs/v2.php/cloud/user?format=json",
        "GET /.well-known/carddav",
        "GET /.well-known/caldav",
        "GET /.well-known/webfinger?resource=a",
        "GET /robots.txt",
        "GET /core/img/logo.svg",
        "GET /core/img/logo.svg?v=abc",
        "GET /dist/core.js?v=1",
        "GET /ocm-provider/",
        "GET /s/token | Authorization: Basic YTpi",
    ]);
    // php-fpm itself answers for the error page, whose variables the rules have set.
    for target in [
        "/config/config.php",
        "/lib/base.php",
        "/3rdparty/a.txt",
        "/occ",
    ] {
        let request = format!("GET {target}");
        let apache = pair.ask(pair.apache.address(), &request);
        let saker = pair.ask(pair.saker.address(), &request);
        assert_eq!((apache.status, saker.status), (404, 404), "{target}");
        assert!(!saker.text().contains("<?php"), "{target}");
    }
}

/// CodeIgniter, Kohana, ExpressionEngine, Joomla: the application's path follows the script's name.
#[test]
fn front_controllers_by_path_info() {
    let rules = "RewriteEngine On\nRewriteCond %{REQUEST_FILENAME} !-f\nRewriteCond %{REQUEST_FILENAME} !-d\n\
                 RewriteRule ^app/(.*)$ index.php/$1 [L,QSA]\nErrorDocument 404 /index.php/error/404\n";
    let pair = Pair::start(
        "path-info",
        &[
            (".htaccess", rules),
            ("index.php", FRONT),
            ("app/a.css", "body {}\n"),
            (
                "blog/.htaccess",
                "RewriteEngine On\nRewriteRule ^posts/(\\d+)$ /index.php/blog/$1?full=1 [L]\n",
            ),
        ],
    );
    let requests = [
        "GET /app/users/list",
        "GET /app/users/list?page=2",
        "GET /app/caf%C3%A9/a%20b",
        "POST /app/users/7",
        "GET /app/a.css",
        "GET /blog/posts/7",
        "GET /index.php/users/list",
        "GET /missing",
        "GET /missing/deeper?a=1",
        "HEAD /missing",
    ];
    // With a path behind the script, PHP would draw other conclusions from it.
    pair.compare_without(&requests, "REDIRECT_URL=");
}

#[test]
fn rules_that_people_write() {
    let hash = "ann:$apr1$abcdefgh$h9FWgUz3n9YxylKLlR5SQ/\n";
    let pair = Pair::start(
        "plain",
        &[
            (".htaccess", include_str!("htaccess/plain.htaccess")),
            ("index.html", "index\n"),
            ("missing.html", "nothing here\n"),
            ("small.txt", "small\n"),
            ("a.png", "png"),
            ("folder/a.txt", "a\n"),
            ("denied/.htaccess", "Require all denied\n"),
            ("denied/a.txt", "a\n"),
            ("denied/open/.htaccess", "Require all granted\n"),
            ("denied/open/a.txt", "open\n"),
            ("local/.htaccess", "Require ip 127.0.0.0/8\n"),
            ("local/a.txt", "local\n"),
            ("staff/users.txt", hash),
            (
                "staff/.htaccess",
                "AuthType Basic\nAuthName \"Staff\"\nAuthUserFile {dir}/www/staff/users.txt\nRequire valid-user\n<Files users.txt>\nRequire all denied\n</Files>\n",
            ),
            ("staff/a.txt", "staff\n"),
            (
                "login/.htaccess",
                "AuthType Basic\nAuthName \"Login\"\nAuthUserFile {dir}/www/staff/users.txt\n<Files wp-login.txt>\nRequire valid-user\n</Files>\n",
            ),
            ("login/a.txt", "open\n"),
            ("login/wp-login.txt", "closed\n"),
            ("staff/who.php", FRONT),
            ("listed/.htaccess", "Options +Indexes\n"),
            ("listed/only.txt", "a\n"),
            ("broken/.htaccess", "Frobnicate on\n"),
            ("broken/a.txt", "a\n"),
            (
                "loop/.htaccess",
                "RewriteEngine On\nRewriteRule ^(.*)$ x$1\n",
            ),
            (
                "ini/.htaccess",
                "SetEnv PHP_ADMIN_VALUE \"memory_limit=77M\"\nSetEnv PHP-VALUE \"memory_limit=78M\"\nphp_value memory_limit 79M\n",
            ),
            (
                "ini/a.php",
                "<?php echo ini_get('memory_limit'), \"\\n\";\n",
            ),
            ("first/.htaccess", "DirectoryIndex start.txt\n"),
            ("first/start.txt", "start\n"),
        ],
    );
    pair.compare(&[
        "GET /login/a.txt",
        "GET /login/wp-login.txt",
        "GET /",
        "GET /missing",
        "GET /old.html",
        "GET /go/there?a=1",
        "GET /folder/",
        "GET /folder",
        "GET /small.txt | User-Agent: BadBot/1",
        "GET /a.png",
        "GET /a.png | Referer: http://www.example.org/page",
        "GET /a.png | Referer: http://evil.example/page",
        "GET /denied/a.txt",
        "GET /denied/open/a.txt",
        "GET /denied/missing.txt",
        "GET /local/a.txt",
        "GET /staff/a.txt",
        "GET /staff/a.txt | Authorization: Basic YW5uOnNlY3JldA==",
        "GET /staff/a.txt | Authorization: Basic YW5uOndyb25n",
        "GET /staff/who.php | Authorization: Basic YW5uOnNlY3JldA==",
        "GET /staff/users.txt | Authorization: Basic YW5uOnNlY3JldA==",
        "GET /staff/missing",
        "GET /broken/a.txt",
        "GET /broken/missing",
        "GET /loop/a",
        "GET /first/",
    ]);
    let listing = pair.ask(pair.saker.address(), "GET /listed/").text();
    assert!(
        listing.contains("only.txt") && !listing.contains(".htaccess"),
        "{listing}"
    );
    assert_eq!(pair.ask(pair.saker.address(), "GET /.htaccess").status, 404);
    // Settings would stay in a process of php-fpm, which serves others, too.
    let memory_limit = pair.ask(pair.saker.address(), "GET /ini/a.php").text();
    assert_eq!(memory_limit, "128M\n");
}

/// A listing has no names that rules of the folder close.
#[test]
fn listings_under_rules() {
    let dir = TempDir::new("htaccess-listings").unwrap();
    for (folder, rules) in [
        ("files", "<Files *.sql>\nRequire all denied\n</Files>\n"),
        ("rules", "RewriteEngine On\nRewriteRule \\.sql$ - [F]\n"),
        ("redirects", "Redirect 403 /redirects/secret.sql\n"),
        ("free", ""),
    ] {
        for name in ["open.txt", "secret.sql"] {
            dir.write(&format!("www/{folder}/{name}"), "content")
                .unwrap();
        }
        let text = format!("Options +Indexes\n{rules}");
        dir.write(&format!("www/{folder}/.htaccess"), text).unwrap();
    }
    let saker = operate::serve(&["{dir}/www", "--http", "{address}", "--php", "off"])
        .state_dir("{dir}/state")
        .start(dir);
    for folder in ["files", "rules", "redirects", "free"] {
        let mut client = saker.connect().unwrap();
        let page = client.get(&format!("/{folder}/")).unwrap();
        let text = String::from_utf8_lossy(&page.body);
        assert_eq!(page.status, 200, "{folder}: {text}");
        assert!(text.contains("open.txt"), "{folder}: {text}");
        assert_eq!(
            text.contains("secret.sql"),
            folder == "free",
            "{folder}: {text}"
        );
    }
}
