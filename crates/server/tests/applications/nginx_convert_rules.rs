//! `saker convert --nginx`: nothing is open that was closed, and no field of a client passes that nginx
//! replaces.
//!
//! Called by: `cargo test -p saker --test applications nginx_convert_rules`.
//! Caveat: the answers that are expected are nginx's own (1.22), looked at by hand.
//! Out of scope: conversions that nginx's configuration is compared with (`nginx_convert`).

use crate::{
    nginx_convert::{Site, err, saker},
    servers,
};
use saker_testkit::{Client, ServerProcess, free_port};
use std::{
    fs,
    io::{BufRead, BufReader, Write},
    net::{SocketAddr, TcpListener},
    os::unix::fs::PermissionsExt,
    process::Output,
    thread,
};

/// A running conversion.
struct Converted {
    site: Site,
    address: SocketAddr,
    output: Output,
    toml: String,
    _server: ServerProcess,
}

impl Converted {
    /// Converts servers, checks the result, and runs it. `{backend}` answers with its request.
    fn new(name: &str, http: &str) -> Converted {
        Converted::with(name, http, &[])
    }

    fn with(name: &str, http: &str, words: &[(&str, String)]) -> Converted {
        let mut site = Site::new(name);
        let address = SocketAddr::from(([127, 0, 0, 1], free_port().unwrap()));
        site.words.add("address", address);
        site.words.add("backend", echo());
        for (name, word) in words {
            site.words.add(name, word);
        }
        for (name, text) in [
            ("www/lib/db.inc", "LIBSECRET\n"),
            ("www/config.yml", "SECRET\n"),
            ("www/uploads/x.html", "<b>x</b>\n"),
            ("www/uploads/x.bin", "bin\n"),
            ("www/uploads/evil.php", "<?php echo 'EVIL';\n"),
            (
                "www/index.php",
                "<?php echo 'FRONT ', $_SERVER['REQUEST_URI'];\n",
            ),
            ("www/front.html", "front\n"),
            ("www/b/new.txt", "new\n"),
            ("users", "ann:{SHA}GpHWL3ymc5liWkNopqtdSjuqYHM=\n"),
        ] {
            site.dir.write(name, text).unwrap();
        }
        let output = site.convert(&format!("events {{ }}\nhttp {{\n{http}\n}}\n"));
        let toml = String::from_utf8(output.stdout.clone()).unwrap();
        let file = site.dir.write("saker.toml", &toml).unwrap();
        let checked = saker(&["check", file.to_str().unwrap()]);
        assert!(checked.status.success(), "{}\n{toml}", err(&checked));
        let server = site.start(&["--config", file.to_str().unwrap()], address);
        Converted {
            site,
            address,
            output,
            toml,
            _server: server,
        }
    }

    fn ask(&self, host: &str, path: &str, fields: &[(&str, &str)]) -> saker_testkit::Response {
        let mut client = Client::connect(self.address).unwrap();
        let fields: Vec<(&str, &str)> = fields.iter().copied().chain([("Host", host)]).collect();
        client.request("GET", path, &fields).unwrap()
    }

    fn status(&self, host: &str, path: &str) -> u16 {
        self.ask(host, path, &[]).status
    }

    fn text(&self, path: &str, fields: &[(&str, &str)]) -> String {
        self.ask("a.test", path, fields).text().to_ascii_lowercase()
    }

    fn ends_with(&self, code: i32, expected: &[&str]) {
        let said = err(&self.output);
        assert_eq!(self.output.status.code(), Some(code), "{said}");
        for expected in expected {
            assert!(said.contains(expected), "{expected}\n{said}");
        }
    }
}

/// An upstream that answers with the head that it gets.
fn echo() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let lines = BufReader::new(&stream).lines().map_while(Result::ok);
            let lines: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
            let answer = lines.join("\n");
            let head = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: text/plain";
            let length = answer.len();
            let _ = write!(
                &stream,
                "{head}\r\nContent-Length: {length}\r\n\r\n{answer}"
            );
        }
    });
    address
}

const PROXY: (&str, &str) = ("X-Forwarded-For", "203.0.113.9");

/// The office's addresses are judged, not those of the balancer in front.
#[test]
fn nginx_convert_rules_of_real_addresses() {
    let converted = Converted::new(
        "nginx-convert-real-ip",
        "server { listen {address}; server_name a.test; root {dir}/www; set_real_ip_from 127.0.0.0/8;\n\
         \x20real_ip_header X-Forwarded-For; real_ip_recursive on; location /only/ { allow 127.0.0.0/8; deny all; } }\n\
         server { listen {address}; server_name b.test; return 301 https://a.test$request_uri; }",
    );
    converted.ends_with(0, &[]);
    let status = |fields: &[(&str, &str)]| converted.ask("a.test", "/only/x.html", fields).status;
    assert_eq!(status(&[]), 200, "{}", converted.toml);
    assert_eq!(status(&[PROXY]), 403, "{}", converted.toml);
}

/// One list is for all sites: servers that need others are closed if they judge addresses.
#[test]
fn nginx_convert_rules_of_different_proxies() {
    let list = "location /only/ { allow 127.0.0.0/8; deny all; } location ~ /\\. { deny all; }";
    let converted = Converted::new(
        "nginx-convert-proxies",
        &format!(
            "server {{ listen {{address}}; server_name a.test; root {{dir}}/www; set_real_ip_from 127.0.0.1; {list} }}\n\
             server {{ listen {{address}}; server_name b.test; root {{dir}}/www; set_real_ip_from 127.0.0.2; }}\n\
             server {{ listen {{address}}; server_name c.test; root {{dir}}/www; {list} }}"
        ),
    );
    converted.ends_with(
        1,
        &[
            "error: `set_real_ip_from` is not converted",
            "warning: `set_real_ip_from` is not converted",
        ],
    );
    assert!(
        !converted.toml.contains("trusted_proxies"),
        "{}",
        converted.toml
    );
    for (host, status) in [("a.test", 403), ("b.test", 200), ("c.test", 200)] {
        assert_eq!(converted.status(host, "/only/x.html"), status, "{host}");
    }
}

/// The front controller runs, whatever script the path names.
#[test]
fn nginx_convert_rules_of_scripts() {
    let dir = saker_testkit::TempDir::new("nginx-convert-fpm").unwrap();
    fs::create_dir_all(dir.join("sessions")).unwrap();
    let php = servers::php_fpm(&dir).unwrap();
    let converted = Converted::with(
        "nginx-convert-scripts",
        "server { listen {address} default_server; server_name a.test; root {dir}/www;\n\
         \x20location / { fastcgi_pass {php}; fastcgi_param SCRIPT_NAME $fastcgi_script_name;\n\
         \x20 fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name; fastcgi_param SCRIPT_FILENAME $document_root/index.php; }\n\
         \x20location /closed/ { fastcgi_pass {php}; fastcgi_param SCRIPT_FILENAME $document_root$script; }\n\
         \x20location /app/ { fastcgi_pass {php}; fastcgi_param PHP_ADMIN_VALUE \"open_basedir=$own\"; }\n\
         \x20location ~ \\.php$ { fastcgi_pass {php}; fastcgi_param SCRIPT_FILENAME {dir}/www/$fastcgi_script_name; fastcgi_param REQUEST_METHOD $request_method; } }\n\
         server { listen {address}; server_name b.test; root {dir}/www;\n\
         \x20location / { fastcgi_pass {php}; fastcgi_param SCRIPT_FILENAME ${document_root}/index.php; } }",
        &[("php", php.address().to_string())],
    );
    let www = converted.site.dir.join("www");
    for folder in [converted.site.dir.to_path_buf(), www] {
        fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).unwrap();
    }
    converted.ends_with(1, &["`fastcgi_param` is not converted: the result denies"]);
    for (host, path, text) in [
        ("a.test", "/none/other", "FRONT /none/other"),
        ("b.test", "/uploads/evil.php", "FRONT /uploads/evil.php"),
        ("a.test", "/uploads/evil.php", "EVIL"),
    ] {
        let answer = converted.ask(host, path, &[]);
        assert_eq!(answer.text(), text, "{host}{path}\n{}", converted.toml);
    }
    for path in ["/closed/index", "/app/x"] {
        assert_eq!(converted.status("a.test", path), 403, "{path}");
    }
}

/// Fields of clients do not take the place of those that nginx sets or removes.
#[test]
fn nginx_convert_rules_of_fields() {
    let converted = Converted::new(
        "nginx-convert-fields",
        "proxy_set_header X-Outer outer;\n\
         server { listen {address} default_server; server_name a.test; root {dir}/www;\n\
         \x20proxy_set_header X-Remote-User \"\"; proxy_set_header X-Cert $ssl_client_s_dn; proxy_set_header Host $host;\n\
         \x20proxy_set_header X-Forwarded-Proto $thescheme;\n\
         \x20location /user/ { auth_basic Users; auth_basic_user_file {dir}/users; proxy_set_header X-User $remote_user;\n\
         \x20 proxy_set_header X-Real-IP $remote_addr; proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for; proxy_pass http://{backend}; }\n\
         \x20location /outer/ { proxy_pass http://{backend}; }\n\
         \x20location /closed/ { proxy_pass_request_headers off; proxy_pass http://{backend}; } }\n\
         server { listen {address}; server_name b.test; location / { proxy_pass http://{backend}; } }",
    );
    converted.ends_with(
        1,
        &[
            "warning: `proxy_set_header` is not converted",
            "error: `proxy_pass_request_headers` is not converted",
        ],
    );
    let forged = [
        ("X-User", "root"),
        ("X_User", "root"),
        ("X-Remote-User", "root"),
        ("X-Cert", "root"),
        ("X-Outer", "root"),
        ("X-Real-IP", "192.0.2.1"),
        ("Authorization", "Basic YW5uOnB3"),
    ];
    let user = converted.text("/user/", &forged);
    assert!(user.contains("x-user: ann"), "{user}\n{}", converted.toml);
    assert!(user.contains("x-real-ip: 127.0.0.1"), "{user}");
    assert!(!user.contains("x-user: root"), "{user}");
    let outer = converted.text("/outer/", &forged);
    for absent in ["x-remote-user", "x-cert"] {
        assert!(!outer.contains(absent), "{outer}\n{}", converted.toml);
    }
    assert!(outer.contains("host: a.test"), "{outer}");
    let http = converted.ask("b.test", "/", &forged).text();
    assert!(http.contains("X-Outer: outer"), "{http}");
    assert!(!http.contains("X-Outer: root"), "{http}");
    assert_eq!(converted.status("a.test", "/closed/"), 403);
}

/// Variables of programs with names of fields are fields, too.
#[test]
fn nginx_convert_rules_of_variables() {
    let mut site = Site::new("nginx-convert-variables");
    site.words.add("address", "127.0.0.1:80");
    let converted = site.convert(
        "events { }\nhttp { server { listen {address}; root {dir}/www; fastcgi_param HTTP_X_OUTER $own;\n\
         \x20location / { fastcgi_pass 127.0.0.1:9; fastcgi_param HTTP_X_USER $remote_user if_not_empty; fastcgi_param HTTP_X_CERT $ssl_client_s_dn;\n\
         \x20 fastcgi_param HTTP_PROXY \"\"; fastcgi_param REMOTE_USER $own; fastcgi_param HTTPS on; fastcgi_param REDIRECT_STATUS 200; }\n\
         \x20location /outer/ { fastcgi_pass 127.0.0.1:9; } } }\n",
    );
    assert!(converted.status.success(), "{}", err(&converted));
    let toml = String::from_utf8(converted.stdout).unwrap();
    for line in [
        "upstream_headers = { \"X-USER\" = \"$remote_user\", \"X-CERT\" = { remove = true }, \"PROXY\" = { remove = true } }\n\
         environment = { \"HTTPS\" = \"on\" }\n",
        "upstream_headers = { \"X-OUTER\" = { remove = true } }\n",
    ] {
        assert!(toml.contains(line), "{line}\n{toml}");
    }
    let file = site.dir.write("saker.toml", &toml).unwrap();
    let checked = saker(&["check", file.to_str().unwrap()]);
    assert!(checked.status.success(), "{}\n{toml}", err(&checked));
}

/// Rules lead elsewhere, or their paths are denied: the files of these paths are not served.
#[test]
fn nginx_convert_rules_of_rewriting() {
    let converted = Converted::new(
        "nginx-convert-rewriting",
        "server { listen {address} default_server; server_name a.test; root {dir}/www;\n\
         \x20rewrite ^/lib/ /denied last; rewrite ^/shop/(.*)$ /store/$1 permanent; rewrite ^/own/ /x$own last;\n\
         \x20location = /denied { return 403; }\n\
         \x20location / { rewrite ^ /front.html last; }\n\
         \x20location = /front.html { }\n\
         \x20location /a/ { rewrite ^/a/(.*)$ /b/$1 last; return 404; }\n\
         \x20location /b/ { }\n\
         \x20location /api/ { rewrite ^/api/(.*)$ /public/$1 break; proxy_pass http://{backend}/base/; }\n\
         \x20location /never/ { rewrite ^/never/(.*)$ $own last; } }\n\
         server { listen {address}; server_name b.test; root {dir}/www; rewrite ^ /front.html last; }\n\
         server { listen {address}; server_name c.test; root {dir}/www; location /only/ { rewrite x /b/new.txt; return 404; } }",
    );
    converted.ends_with(1, &["error: `rewrite` is not converted: the result denies"]);
    for (host, path, status, text) in [
        ("a.test", "/config.yml", 200, "front\n"),
        ("a.test", "/lib/db.inc", 403, ""),
        ("a.test", "/own/x", 403, ""),
        ("a.test", "/never/x.html", 403, ""),
        ("a.test", "/a/new.txt", 200, "new\n"),
        ("b.test", "/config.yml", 200, "front\n"),
        ("b.test", "/front.html", 200, "front\n"),
        ("c.test", "/only/x.html", 403, ""),
    ] {
        let answer = converted.ask(host, path, &[]);
        assert_eq!(answer.status, status, "{host}{path}\n{}", converted.toml);
        if !text.is_empty() {
            assert_eq!(answer.text(), text, "{host}{path}");
        }
    }
    let moved = converted.ask("a.test", "/shop/a?b=c", &[]);
    assert_eq!(moved.status, 301);
    assert_eq!(moved.field("location"), Some("/store/a?b=c"));
    let api = converted.text("/api/x?y=z", &[]);
    assert!(api.starts_with("get /public/x?y=z "), "{api}");
}

/// Files of another folder are not looked for in the root.
#[test]
fn nginx_convert_rules_of_aliases() {
    let converted = Converted::new(
        "nginx-convert-aliases",
        "server { listen {address} default_server; server_name a.test; root {dir}/www;\n\
         \x20location ^~ /lib/ { alias {dir}/files/; }\n\
         \x20location /uploads { alias {dir}/files; }\n\
         \x20location = /config.yml { alias {dir}/files/f.html; }\n\
         \x20location ~ ^/only/(.*)$ { alias {dir}/files/$1; }\n\
         \x20location /never/ { alias {dir}/files; } }",
    );
    converted.ends_with(
        1,
        &[
            "error: `alias` is not converted",
            "warning: `alias` is converted for `/uploads/`",
        ],
    );
    for (path, status) in [
        ("/lib/db.inc", 404),
        ("/lib/f.html", 200),
        ("/uploads/x.bin", 404),
        ("/uploads/f.html", 200),
        ("/uploadsx", 403),
        ("/only/x.html", 403),
        ("/never/x.html", 403),
    ] {
        let got = converted.status("a.test", path);
        assert_eq!(got, status, "{path}\n{}", converted.toml);
    }
    assert_eq!(converted.text("/config.yml", &[]), "f\n");
}

/// Uploaded pages are no pages of the site.
#[test]
fn nginx_convert_rules_of_media_types() {
    let usual = "types { text/html html htm shtml; text/xml xml; image/svg+xml svg; application/xhtml+xml xhtml; }";
    let converted = Converted::new(
        "nginx-convert-types",
        &format!(
            "{usual}\n\
             server {{ listen {{address}} default_server; server_name a.test; root {{dir}}/www;\n\
             \x20location /uploads/ {{ types {{ }} default_type application/octet-stream; }}\n\
             \x20location = /json {{ default_type application/json; return 200 \"{{}}\"; }}\n\
             \x20location /lib/ {{ {usual} types {{ text/x-inc inc; }} }} }}\n\
             server {{ listen {{address}}; server_name b.test; root {{dir}}/www; default_type text/plain;\n\
             \x20location /uploads/ {{ types {{ application/x-own bin; }} }} }}\n\
             server {{ listen {{address}}; server_name c.test; root {{dir}}/www; types {{ }} }}"
        ),
    );
    converted.ends_with(0, &[]);
    for (host, path, kind) in [
        ("a.test", "/uploads/x.html", "application/octet-stream"),
        ("a.test", "/uploads/x.bin", "application/octet-stream"),
        ("a.test", "/front.html", "text/html"),
        ("a.test", "/json", "application/json"),
        ("a.test", "/lib/db.inc", "text/x-inc"),
        ("b.test", "/uploads/x.html", "text/plain"),
        ("b.test", "/uploads/x.bin", "application/x-own"),
        ("b.test", "/front.html", "text/html"),
        ("c.test", "/uploads/x.html", "text/plain"),
    ] {
        let answer = converted.ask(host, path, &[]);
        let got = answer.field("content-type");
        assert_eq!(got, Some(kind), "{host}{path}\n{}", converted.toml);
    }
}
