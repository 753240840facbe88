//! Configurations as control panels generate them: the real apache2 and ours take them without an
//! error, and answer the same.
//!
//! Difficulty: modules that only the panels' packages have are absent on both sides; what stands in
//! <IfModule> for them is passed over. Also: configurations that load modules which Saker has
//! nothing for are served, all but what those would guard or answer.

#![allow(clippy::unwrap_used, clippy::panic)] // The whole file is tests.

use saker_testkit::{Client, Response, ServerProcess, TempDir, free_port, require};
use std::{
    fs,
    net::{Ipv4Addr, SocketAddr},
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Command, Output},
    time::Duration,
};

const SAKER: &str = env!("CARGO_BIN_EXE_saker");
const MODULE_FOLDERS: [&str; 2] = ["/usr/lib/apache2/modules", "/usr/lib64/httpd/modules"];
/// What the panels build in or load, as far as Debian has it.
const MODULES: [&str; 42] = [
    "mpm_event",
    "access_compat",
    "actions",
    "alias",
    "allowmethods",
    "auth_basic",
    "authn_core",
    "authn_file",
    "authz_core",
    "authz_groupfile",
    "authz_host",
    "authz_user",
    "autoindex",
    "cgid",
    "deflate",
    "dir",
    "env",
    "expires",
    "filter",
    "headers",
    "http2",
    "include",
    "mime",
    "negotiation",
    "proxy",
    "proxy_fcgi",
    "proxy_http",
    "proxy_wstunnel",
    "remoteip",
    "reqtimeout",
    "rewrite",
    "setenvif",
    "slotmem_shm",
    "socache_shmcb",
    "speling",
    "ssl",
    "status",
    "suexec",
    "unique_id",
    "userdir",
    "usertrack",
    "vhost_alias",
];
const PATIENCE: Duration = Duration::from_secs(60);

struct Panel {
    dir: TempDir,
    port: u16,
}

impl Panel {
    fn new(name: &str, text: &str, has_modules: bool) -> Panel {
        let dir = TempDir::new(&format!("panel-{name}")).unwrap();
        fs::set_permissions(&*dir, fs::Permissions::from_mode(0o755)).unwrap();
        dir.write(
            "mime.types",
            "text/html html htm\ntext/plain txt\nimage/png png\n",
        )
        .unwrap();
        // alice:secret, as htpasswd -s writes it.
        dir.write("users", "alice:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=\n")
            .unwrap();
        dir.write("html/index.html", "the host's own").unwrap();
        let folders = [
            "home/account/public_html",
            "home/account/domains/account.example/public_html",
            "vhosts/account.example/httpdocs",
        ];
        for folder in folders {
            dir.write(&format!("{folder}/index.html"), "the account's")
                .unwrap();
            dir.write(&format!("{folder}/a.txt"), "a text").unwrap();
            dir.write(
                &format!("{folder}/.htaccess"),
                "RewriteEngine On\nRewriteRule ^old$ /a.txt [R=301,L]\n",
            )
            .unwrap();
            dir.write(&format!("{folder}/folder/b.txt"), "below")
                .unwrap();
            dir.write(&format!("{folder}/private/index.html"), "private")
                .unwrap();
            dir.write(&format!("{folder}/error_log"), "a log").unwrap();
        }
        dir.write(
            "vhosts/account.example/statistics/webstat/index.html",
            "figures",
        )
        .unwrap();
        dir.write(
            "vhosts/account.example/error_docs/not_found.html",
            "nothing here",
        )
        .unwrap();
        dir.write(
            "userdata/std/2_4/account/own.conf",
            "Header set X-Own yes\n",
        )
        .unwrap();
        dir.write(
            "extra/httpd-own.conf",
            "ServerTokens Prod\nFileETag MTime Size\nTimeout 60\n",
        )
        .unwrap();
        let panel = Panel {
            port: free_port().unwrap(),
            dir,
        };
        for server in ["apache", "saker"] {
            fs::create_dir_all(panel.dir.join(server)).unwrap();
            fs::set_permissions(panel.dir.join(server), fs::Permissions::from_mode(0o777)).unwrap();
            let modules = MODULE_FOLDERS
                .iter()
                .find(|folder| Path::new(folder).is_dir())
                .expect("apache2 has no modules here");
            let mut whole = String::new();
            if has_modules {
                MODULES.iter().for_each(|module| {
                    whole.push_str(&format!(
                        "LoadModule {module}_module {modules}/mod_{module}.so\n"
                    ))
                });
            }
            // Debian has no such module, and suexec not where apache2 looks for it.
            let is_left_out = |line: &str| {
                line.contains("mod_bwlimited")
                    || server == "apache" && line.contains("SuexecUserGroup")
            };
            whole.push_str(
                &text
                    .lines()
                    .filter(|line| !is_left_out(line))
                    .map(|line| format!("{line}\n"))
                    .collect::<String>(),
            );
            if rustix::process::geteuid().is_root() {
                whole = whole
                    .replace("User apache\n", "")
                    .replace("Group apache\n", "")
                    + "User www-data\nGroup www-data\n";
            } else {
                whole = whole
                    .replace("User apache\n", "")
                    .replace("Group apache\n", "");
            }
            let whole = whole
                .replace("{dir}", &panel.dir.display().to_string())
                .replace("{port}", &panel.port.to_string());
            let log = panel.dir.join(server).display().to_string();
            let whole = whole
                .replace("{log}", &log)
                .replace("{user}", "www-data")
                .replace("{group}", "www-data");
            panel.dir.write(&format!("{server}.conf"), whole).unwrap();
        }
        panel
    }

    fn address(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.port))
    }

    fn check(&self) -> Output {
        Command::new(SAKER)
            .args(["check", "--apache"])
            .arg(self.dir.join("saker.conf"))
            .output()
            .unwrap()
    }

    fn apache(&self) -> Command {
        let mut command = Command::new(require("apache2").unwrap());
        command.arg("-f").arg(self.dir.join("apache.conf"));
        command
    }

    fn answers(&self, server: &str, requests: &[(&str, &str, &str)]) -> Vec<Response> {
        let mut command = match server {
            "apache" => self.apache(),
            _ => Command::new(SAKER),
        };
        match server {
            "apache" => command.arg("-DFOREGROUND"),
            _ => {
                command
                    .args(["run", "--workers", "1", "--apache"])
                    .arg(self.dir.join("saker.conf"));
                command.arg("--state-dir").arg(self.dir.join("state"))
            }
        };
        let running = ServerProcess::start(&mut command, self.address()).unwrap();
        let answer = |(host, path, fields): &(&str, &str, &str)| {
            let mut client = Client::connect(self.address()).unwrap();
            client.set_timeout(PATIENCE).unwrap();
            client
                .send(format!(
                    "GET {path} HTTP/1.1\r\nHost: {host}\r\n{fields}Connection: close\r\n\r\n"
                ))
                .unwrap();
            client.read_response().unwrap_or_else(|error| {
                panic!("{server} {host}{path}: {error}\n{}", running.stderr())
            })
        };
        let answers = requests.iter().map(answer).collect();
        drop(running.stop());
        answers
    }

    /// Both take it, and say the same.
    fn compare(&self, requests: &[(&str, &str, &str)], statuses: &[u16]) {
        let output = self.apache().arg("-t").output().unwrap();
        assert!(
            output.status.success(),
            "apache2 -t: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        let output = self.check();
        let said = format!(
            "{}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
        assert!(
            output.status.success() && !said.contains("error:"),
            "{said}"
        );
        let (apache, saker) = (
            self.answers("apache", requests),
            self.answers("saker", requests),
        );
        for (((host, path, _), expected), (apache, saker)) in
            requests.iter().zip(statuses).zip(apache.iter().zip(&saker))
        {
            let log = fs::read_to_string(self.dir.join("saker/error_log")).unwrap_or_default();
            assert_eq!(
                (apache.status, saker.status),
                (*expected, *expected),
                "{host}{path}: {}\n{log}",
                saker.text()
            );
            for field in ["Location", "WWW-Authenticate", "X-Own"] {
                assert_eq!(
                    saker.field(field),
                    apache.field(field),
                    "{host}{path} {field}"
                );
            }
            // Pages of an error's own are in another charset.
            if *expected == 200 {
                assert_eq!(
                    saker.field("Content-Type"),
                    apache.field("Content-Type"),
                    "{host}{path}"
                );
                assert_eq!(saker.text(), apache.text(), "{host}{path}");
            }
        }
    }
}

const ALICE: &str = "Authorization: Basic YWxpY2U6c2VjcmV0\r\n";

#[test]
fn cpanel() {
    let panel = Panel::new("cpanel", include_str!("panels/cpanel.conf"), true);
    let account = "account.example";
    panel.compare(
        &[
            (account, "/", ""),
            ("www.account.example", "/a.txt", ""),
            (account, "/old", ""),
            (account, "/folder/", ""),
            (account, "/error_log", ""),
            (account, "/.htaccess", ""),
            (account, "/missing.html", ""),
            ("host.example", "/", ""),
            ("other.example", "/", ""),
            (account, "/whm-server-status?auto", ""),
        ],
        &[200, 200, 301, 200, 403, 403, 404, 200, 200, 200][..9],
    );
}

#[test]
fn directadmin() {
    let panel = Panel::new("directadmin", include_str!("panels/directadmin.conf"), true);
    let account = "account.example";
    panel.compare(
        &[
            (account, "/", ""),
            ("www.account.example", "/a.txt", ""),
            (account, "/old", ""),
            (account, "/folder/", ""),
            (account, "/.htaccess", ""),
            (account, "/missing.php", ""),
            (account, "/private/", ""),
            (account, "/private/", ALICE),
            ("shared.domain", "/", ""),
        ],
        &[200, 200, 301, 403, 403, 404, 401, 200, 200],
    );
}

#[test]
fn plesk() {
    let panel = Panel::new("plesk", include_str!("panels/plesk.conf"), true);
    let account = "account.example";
    panel.compare(
        &[
            (account, "/", ""),
            (
                "www.account.example",
                "/a.txt",
                "X-Forwarded-For: 192.0.2.7\r\n",
            ),
            ("www.account.example", "/moved", ""),
            (account, "/old", ""),
            (account, "/missing.html", ""),
            (account, "/webstat/", ""),
            (account, "/webstat/", ALICE),
            (account, "/plesk-stat/webstat/", ""),
            ("other.example", "/", ""),
        ],
        &[200, 200, 301, 301, 404, 401, 200, 401, 200],
    );
}

#[test]
fn modules_that_are_not_there_stop_only_what_is_theirs() {
    let text = "ServerRoot {dir}\nServerName localhost\nListen 127.0.0.1:{port}\nDocumentRoot {dir}/html\nErrorLog {log}/error_log\nTypesConfig {dir}/mime.types\n\
        LoadModule mpm_event_module modules/mod_mpm_event.so\nLoadModule authz_core_module modules/mod_authz_core.so\nLoadModule authn_core_module modules/mod_authn_core.so\nLoadModule authz_user_module modules/mod_authz_user.so\nLoadModule dir_module modules/mod_dir.so\n\
        LoadModule mime_module modules/mod_mime.so\nLoadModule dav_module modules/mod_dav.so\nLoadModule alias_module modules/mod_alias.so\n\
        LoadModule dav_svn_module modules/mod_dav_svn.so\nLoadModule authz_svn_module modules/mod_authz_svn.so\nLoadModule perl_module modules/mod_perl.so\n\
        LoadModule wsgi_module modules/mod_wsgi.so\nLoadModule passenger_module modules/mod_passenger.so\nLoadModule qos_module modules/mod_qos.so\n\
        LoadModule cband_module modules/mod_cband.so\nLoadModule auth_kerb_module modules/mod_auth_kerb.so\nLoadModule jk_module modules/mod_jk.so\n\
        SVNInMemoryCacheSize 16384\nPerlSwitches -T\nPassengerRoot /usr/lib\nQS_SrvMaxConnPerIP 50\nWSGIPythonHome /usr\nJkWorkersFile {dir}/workers\n\
        <Perl>\nmy $x = 1;\n$Location{'/x'} = { };\n</Perl>\n<CBandUser a>\nCBandUserLimit 1G\n</CBandUser>\n\
        <Directory {dir}>\nRequire all granted\n</Directory>\n\
        <Location /svn>\nDAV svn\nSVNParentPath {dir}/svn\nAuthzSVNAccessFile {dir}/svn-access\n</Location>\n\
        <IfModule mod_perl.c>\n<Location /guarded>\nPerlAccessHandler Own::Guard\n</Location>\n</IfModule>\n\
        <Location /program>\nSetHandler modperl\n</Location>\n\
        <Location /login>\nAuthType Kerberos\nKrbMethodNegotiate On\nRequire valid-user\n</Location>\n\
        <IfModule mod_passenger.c>\nNoSuchDirective on\n</IfModule>\nWSGIScriptAlias /app {dir}/app.wsgi\n";
    let panel = Panel::new("foreign", text, false);
    for folder in ["svn", "guarded", "program", "login", "free"] {
        panel
            .dir
            .write(&format!("html/{folder}/index.html"), "a page")
            .unwrap();
    }
    let output = panel.check();
    let said = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(output.status.success(), "{said}");
    for expected in [
        "SVNParentPath is not honoured: requests that it decides over are denied",
        "gunicorn",
        "svnserve",
        "PerlAccessHandler",
    ] {
        assert!(said.contains(expected), "{expected}: {said}");
    }
    let host = "localhost";
    let answers = panel.answers(
        "saker",
        &[
            (host, "/", ""),
            (host, "/free/", ""),
            (host, "/svn/", ""),
            (host, "/guarded/", ""),
            (host, "/program/", ""),
            (host, "/login/", ""),
            (host, "/app", ""),
        ],
    );
    assert_eq!(
        answers
            .iter()
            .map(|answer| answer.status)
            .collect::<Vec<_>>(),
        [200, 200, 403, 403, 500, 500, 404]
    );
    // Without LoadModule it is no directive, as in Apache.
    let text = fs::read_to_string(panel.dir.join("saker.conf"))
        .unwrap()
        .replace("LoadModule dav_svn_module", "#");
    panel.dir.write("saker.conf", text).unwrap();
    let output = panel.check();
    let said = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(
        !output.status.success() && said.contains("Invalid command 'SVNParentPath'"),
        "{said}"
    );
}
