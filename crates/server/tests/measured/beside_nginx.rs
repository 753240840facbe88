//! Instructions of a request beside nginx's for the same one: from an upstream, from PHP, for a blog's
//! permalink, for a form that is posted there, and of a small file, by the server's own configuration, by nginx's, and by Apache's with
//! WordPress's `.htaccess`.
//!
//! Called by: `cargo test --release -p saker --test measured beside_nginx:: -- --nocapture`, or with
//! `SAKER_MEASURED` for the program of a release build and `--ignored`.
//! Caveat: the figures are the whole process's between two dumps, for one kept connection and a
//! browser's head; the upstream and php-fpm are the same for all, and not counted.
//! Out of scope: time, and system calls (`budgets`).

#![allow(clippy::unwrap_used, clippy::panic)] // The whole file is tests.

use crate::{callgrind::Callgrind, operate};
use saker_testkit::{
    Client, Saker, ServerProcess, TempDir, apache2::load_modules, free_port, require,
};
use std::{
    fs,
    net::{Ipv4Addr, SocketAddr},
    os::unix::fs::PermissionsExt,
    process::Command,
    time::Duration,
};

/// Before counting, so that everything is kept that will be.
const BEFORE: usize = 60;
const COUNTED: usize = 300;
const TRIES: usize = 3;
/// For valgrind to have the server up.
const PATIENCE: Duration = Duration::from_secs(300);

/// A request, what it may take, and at most what part of nginx's instructions that may be.
struct Row {
    name: &'static str,
    target: &'static str,
    /// Content, which is posted.
    content: &'static str,
    instructions_max: u64,
    of_nginx_max: f64,
}

const ROWS: &str = include_str!("release_budgets.txt");
const TARGETS: [(&str, &str, &str); 5] = [
    ("static", "/small.html", ""),
    ("proxy", "/1k.html", ""),
    ("php", "/helloworld.php", ""),
    ("permalink", "/2026/11/hello-world/", ""),
    ("form", "/2026/11/hello-world/", "add-to-cart=42&quantity=1"),
];
/// As WordPress writes it.
const HTACCESS: &str = "# BEGIN WordPress\n<IfModule mod_rewrite.c>\nRewriteEngine On\n\
    RewriteRule .* - [E=HTTP_AUTHORIZATION:%{HTTP:Authorization}]\nRewriteBase /\n\
    RewriteRule ^index\\.php$ - [L]\nRewriteCond %{REQUEST_FILENAME} !-f\n\
    RewriteCond %{REQUEST_FILENAME} !-d\nRewriteRule . /index.php [L]\n</IfModule>\n# END WordPress\n";

fn rows(front_end: &str) -> Vec<Row> {
    let row = |(name, target, content): (&'static str, &'static str, &'static str)| {
        let wanted = format!("{front_end}-{name}");
        let line = ROWS
            .lines()
            .find(|line| line.split_ascii_whitespace().next() == Some(&wanted));
        let line = line.unwrap_or_else(|| panic!("release_budgets.txt has no line for {wanted}"));
        let mut words = line.split_ascii_whitespace().skip(1);
        Row {
            name,
            target,
            content,
            instructions_max: words.next().unwrap().parse().unwrap(),
            of_nginx_max: words.next().unwrap().parse().unwrap(),
        }
    };
    TARGETS.into_iter().map(row).collect()
}

/// Modules of the Apache configuration.
const MODULES: [&str; 8] = [
    "mpm_event",
    "authz_core",
    "dir",
    "mime",
    "proxy",
    "proxy_fcgi",
    "proxy_http",
    "rewrite",
];

/// Firefox's fields.
const BROWSER: &[(&str, &str)] = &[
    ("Host", "localhost"),
    (
        "User-Agent",
        "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0",
    ),
    (
        "Accept",
        "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,image/png,image/svg+xml,*/*;q=0.8",
    ),
    ("Accept-Language", "en-US,en;q=0.5"),
    ("Accept-Encoding", "gzip, deflate, br, zstd"),
    ("Connection", "keep-alive"),
    ("Cookie", "session=0123456789abcdef; theme=dark"),
    ("Upgrade-Insecure-Requests", "1"),
    ("Sec-Fetch-Dest", "document"),
    ("Sec-Fetch-Mode", "navigate"),
    ("Sec-Fetch-Site", "none"),
    ("Sec-Fetch-User", "?1"),
    ("Priority", "u=0, i"),
];

/// The upstream and the program behind the server.
struct Behind {
    dir: TempDir,
    origin: ServerProcess,
    _php: ServerProcess,
}

impl Behind {
    fn start() -> Behind {
        let dir = operate::folder("beside-nginx");
        // A server without privileges asks the programs in it, too.
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o755)).unwrap();
        dir.write("www/small.html", "x".repeat(285)).unwrap();
        dir.write("www/1k.html", "y".repeat(1000)).unwrap();
        dir.write("www/helloworld.php", "<?php echo 'Hello World!';")
            .unwrap();
        dir.write("www/index.php", "<?php echo 'Hello World!';")
            .unwrap();
        let origin = nginx(&dir, "origin", "location / { }", &[]);
        let php = php(&dir);
        Behind {
            dir,
            origin,
            _php: php,
        }
    }

    /// The locations of an nginx configuration.
    fn locations(&self) -> String {
        let params = "QUERY_STRING $query_string;REQUEST_METHOD $request_method;CONTENT_TYPE $content_type;\
            CONTENT_LENGTH $content_length;SCRIPT_NAME $fastcgi_script_name;REQUEST_URI $request_uri;\
            DOCUMENT_URI $document_uri;DOCUMENT_ROOT $document_root;SERVER_PROTOCOL $server_protocol;\
            REQUEST_SCHEME $scheme;HTTPS $https if_not_empty;GATEWAY_INTERFACE CGI/1.1;\
            SERVER_SOFTWARE nginx/$nginx_version;REMOTE_ADDR $remote_addr;REMOTE_PORT $remote_port;\
            SERVER_ADDR $server_addr;SERVER_PORT $server_port;SERVER_NAME $server_name;REDIRECT_STATUS 200;\
            SCRIPT_FILENAME $document_root$fastcgi_script_name";
        let params: String = params
            .split(';')
            .map(|param| format!("fastcgi_param {};\n", param.trim()))
            .collect();
        let fields = "Connection \"\";Host $host;X-Forwarded-For $proxy_add_x_forwarded_for;X-Forwarded-Host $host;X-Forwarded-Proto $scheme";
        let fields: String = fields
            .split(';')
            .map(|field| format!("proxy_set_header {field};\n"))
            .collect();
        format!(
            "location = /1k.html {{ proxy_pass http://origin; proxy_http_version 1.1;\n{fields}}}\n\
             location /2026/ {{ try_files $uri $uri/ /index.php?$args; }}\n\
             location ~ \\.php$ {{ fastcgi_pass unix:{}/php.sock;\n{params}}}\n",
            self.dir.display()
        )
    }

    fn upstream(&self) -> String {
        format!(
            "upstream origin {{ server {}; keepalive 8; }}\n",
            self.origin.address()
        )
    }

    fn saker_toml(&self) -> String {
        format!(
            "[server]\nworkers = 1\nstate_dir = \"{{dir}}/state\"\n\n[[listener]]\naddress = \"{{address}}\"\n\n\
             [[upstream]]\nname = \"origin\"\nservers = [\"http://{}\"]\n\n\
             [[upstream]]\nname = \"php\"\nservers = [\"fcgi+unix:{dir}/php.sock\"]\n\n\
             [[site]]\nnames = [\"*\"]\nroot = \"{dir}/www\"\n\n\
             [[site.route]]\npath = \"/1k.html\"\nproxy = \"origin\"\n\n\
             [[site.route]]\npath = \"/*.php\"\nproxy = \"php\"\n\n\
             [[site.route]]\npath = \"/2026/*\"\ntry_files = [\"$uri\", \"$uri/\", \"/index.php?$args\"]\n",
            self.origin.address(),
            dir = self.dir.display()
        )
    }

    /// A host of Apache's as Debian's users write it.
    fn apache(&self) -> String {
        let modules = load_modules(&MODULES);
        format!(
            "ServerRoot {{dir}}\n{modules}ServerName localhost\nListen {{address}}\nPidFile {{dir}}/pid\nErrorLog {{dir}}/error.log\n\
             MaxKeepAliveRequests 0\nKeepAliveTimeout 300\n<Directory />\nOptions FollowSymLinks\nAllowOverride None\nRequire all denied\n</Directory>\n\
             <VirtualHost *>\nServerName localhost\nDocumentRoot {dir}/www\nDirectoryIndex index.php index.html\n\
             <Directory {dir}/www>\nOptions Indexes FollowSymLinks\nAllowOverride All\nRequire all granted\n</Directory>\n\
             ProxyPass /1k.html http://{}/1k.html\n\
             <FilesMatch \"\\.php$\">\nSetHandler \"proxy:unix:{dir}/php.sock|fcgi://localhost\"\n</FilesMatch>\n</VirtualHost>\n",
            self.origin.address(),
            dir = self.dir.display()
        )
    }
}

/// nginx in one process, started by these words.
fn nginx(dir: &TempDir, name: &str, locations: &str, words: &[String]) -> ServerProcess {
    let program = require("nginx").unwrap_or_else(|missing| panic!("{missing}"));
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port().unwrap()));
    let (http, locations) = locations.split_once("server:").unwrap_or(("", locations));
    let user = match rustix::process::geteuid().is_root() {
        true => "user root;\n",
        false => "",
    };
    let at = dir.display();
    let text = format!(
        "daemon off;\nmaster_process off;\n{user}pid {at}/{name}.pid;\nerror_log {at}/{name}.log;\nevents {{ }}\n\
         http {{\naccess_log off;\nkeepalive_requests 1000000;\ntypes {{ text/html html; }}\n{http}\n\
         server {{\nlisten {address};\nroot {at}/www;\n{locations}\n}}\n}}\n"
    );
    let file = dir.write(&format!("{name}.conf"), text).unwrap();
    let program = program.to_string_lossy().into_owned();
    let words: Vec<&str> = words
        .iter()
        .map(String::as_str)
        .chain([program.as_str()])
        .collect();
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).arg("-c").arg(file);
    ServerProcess::start_accepting(&mut command, address).unwrap()
}

fn php(dir: &TempDir) -> ServerProcess {
    let names = ["php-fpm8.4", "php-fpm8.3", "php-fpm8.2", "php-fpm"];
    let program = names.into_iter().find_map(|name| require(name).ok());
    let program = program.unwrap_or_else(|| panic!("php-fpm: apt-get install php-fpm"));
    let user = match rustix::process::geteuid().is_root() {
        true => "user = root\n",
        false => "",
    };
    let at = dir.display();
    let text = format!(
        "[global]\nerror_log = {at}/php.log\ndaemonize = no\n[www]\n{user}listen = {at}/php.sock\nlisten.mode = 0666\npm = static\npm.max_children = 4\n"
    );
    let file = dir.write("php.conf", text).unwrap();
    let mut command = Command::new(program);
    command.args(["-R", "-F", "-y"]).arg(file);
    // It has no port; its socket is waited for.
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let server = ServerProcess::spawn(&mut command, address).unwrap();
    operate::wait_until("php-fpm listens", || {
        fs::exists(dir.join("php.sock")).unwrap_or(false)
    });
    server
}

/// Instructions of each row for one request to a server.
fn counts(callgrind: &Callgrind, server: &ServerProcess, rows: &[Row]) -> Vec<u64> {
    let mut client = Client::connect(server.address()).unwrap();
    client.set_timeout(PATIENCE).unwrap();
    let mut ask = |row: &Row, count: usize| {
        let (length, content) = (row.content.len().to_string(), row.content.as_bytes());
        let mut fields = BROWSER.to_vec();
        if !content.is_empty() {
            fields.push(("Content-Type", "application/x-www-form-urlencoded"));
            fields.push(("Content-Length", &length));
        }
        let method = if content.is_empty() { "GET" } else { "POST" };
        for _ in 0..count {
            let response = client
                .request_with(method, row.target, &fields, content)
                .unwrap();
            assert_eq!(response.status, 200, "{response:?}");
        }
    };
    // When these have been answered it is up, however slow valgrind makes that.
    rows.iter().for_each(|row| ask(row, 1));
    callgrind.begin_in(server.pid());
    let mut fewest = |row: &Row| {
        ask(row, BEFORE);
        let counts = (0..TRIES).map(|_| callgrind.of_pid(server.pid(), || ask(row, COUNTED)));
        let fewest = counts.map(|counts| counts.instructions).min().unwrap();
        fewest / COUNTED as u64
    };
    rows.iter().map(&mut fewest).collect()
}

/// Counts those of nginx, and compares.
fn compare(front_end: &str, behind: &Behind, callgrind: &Callgrind, server: &ServerProcess) {
    let rows = rows(front_end);
    let own = counts(callgrind, server, &rows);
    let peer = Callgrind::new();
    let valgrind = require("valgrind").unwrap_or_else(|missing| panic!("{missing}"));
    let mut words = vec![valgrind.to_string_lossy().into_owned()];
    words.extend(peer.arguments());
    let text = format!("{}server:{}", behind.upstream(), behind.locations());
    let nginx = nginx(&behind.dir, "peer", &text, &words);
    let peers = counts(&peer, &nginx, &rows);
    let mut wrong = Vec::new();
    for ((row, own), peer) in rows.iter().zip(own).zip(peers) {
        let part = own as f64 / peer as f64;
        let line = format!(
            "{front_end}-{:<9} {own:>7} instructions, nginx {peer:>7}: {part:.2}",
            row.name
        );
        eprintln!("{line}");
        if own > row.instructions_max || part > row.of_nginx_max {
            wrong.push(format!(
                "{line}; at most {} and {:.2}",
                row.instructions_max, row.of_nginx_max
            ));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
#[cfg_attr(
    debug_assertions,
    ignore = "says something about optimized builds only: cargo test --release"
)]
fn requests_by_our_configuration() {
    let _turn = crate::beside_others();
    let behind = Behind::start();
    let callgrind = Callgrind::new();
    let own = operate::folder("beside-nginx-own");
    let server = callgrind
        .of(operate::native(&behind.saker_toml()))
        .start_in(&own);
    compare("native", &behind, &callgrind, &server);
}

#[test]
#[cfg_attr(
    debug_assertions,
    ignore = "says something about optimized builds only: cargo test --release"
)]
fn requests_by_the_configuration_of_nginx() {
    let _turn = crate::beside_others();
    let behind = Behind::start();
    let own = operate::folder("beside-nginx-own");
    let callgrind = Callgrind::without_privileges(&own);
    let text = format!(
        "daemon off;\npid {{dir}}/pid;\nevents {{ }}\nhttp {{\naccess_log off;\nkeepalive_requests 1000000;\n\
         types {{ text/html html; }}\n{}\nserver {{\nlisten {{address}};\nroot {}/www;\n{}\n}}\n}}\n",
        behind.upstream(),
        behind.dir.display(),
        behind.locations()
    );
    let builder = Saker::nginx(&operate::program(), &text).workers(1);
    let server = callgrind.of(builder).start_in(&own);
    compare("nginx", &behind, &callgrind, &server);
}

#[test]
#[cfg_attr(
    debug_assertions,
    ignore = "says something about optimized builds only: cargo test --release"
)]
fn requests_by_the_configuration_of_apache() {
    let _turn = crate::beside_others();
    let behind = Behind::start();
    behind.dir.write("www/.htaccess", HTACCESS).unwrap();
    let callgrind = Callgrind::new();
    let own = operate::folder("beside-nginx-own");
    let builder = operate::apache(&behind.apache()).workers(1);
    let server = callgrind.of(builder).start_in(&own);
    compare("apache", &behind, &callgrind, &server);
}
