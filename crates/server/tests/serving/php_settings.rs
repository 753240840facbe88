//! Settings of the server's own PHP come from the server alone: no variable of a site's and no file
//! of a site's takes their place, and none stays for the next site.

#![allow(clippy::unwrap_used, clippy::panic)] // The whole file is tests.

use crate::operate::{self, PATIENCE};
use saker_testkit::{Client, ServerProcess, TempDir};
use std::{
    fs,
    net::SocketAddr,
    os::unix::{fs::symlink, net::UnixListener},
    path::PathBuf,
};

const MODULES: &str = "LoadModule mpm_event_module modules/mod_mpm_event.so\nLoadModule authz_core_module modules/mod_authz_core.so\n\
     LoadModule dir_module modules/mod_dir.so\nLoadModule mime_module modules/mod_mime.so\nLoadModule rewrite_module modules/mod_rewrite.so\n\
     LoadModule env_module modules/mod_env.so\nLoadModule setenvif_module modules/mod_setenvif.so\n\
     LoadModule autoindex_module modules/mod_autoindex.so\nLoadModule include_module modules/mod_include.so\n\
     LoadModule proxy_module modules/mod_proxy.so\nLoadModule proxy_fcgi_module modules/mod_proxy_fcgi.so\n\
     LoadModule php_module modules/libphp8.2.so\n<FilesMatch \"\\.php$\">\nSetHandler application/x-httpd-php\n</FilesMatch>\n";

fn start(kind: &str, dir: &TempDir, hosts: &str) -> ServerProcess {
    let root = dir.display();
    let text = format!(
        "{MODULES}ServerRoot {root}\nListen {{address}}\nServerName localhost\nDirectoryIndex index.php index.htm\n\
         <Directory {root}>\nRequire all granted\nAllowOverride FileInfo Options\nOptions Indexes Includes FollowSymLinks\n\
         AddOutputFilter INCLUDES .shtml\n</Directory>\n{}\n",
        hosts.replace("{dir}", &root.to_string())
    );
    operate::apache(&text)
        .workers(1)
        .arguments(&["--php", kind])
        .start_in(dir)
}

fn get(address: SocketAddr, host: &str, target: &str) -> (u16, String) {
    let mut client = Client::connect(address).unwrap();
    client.set_timeout(PATIENCE).unwrap();
    let response = client.request("GET", target, &[("Host", host)]).unwrap();
    (response.status, response.text())
}

/// php-fpm would keep what such variables say in its process.
#[test]
fn no_variable_of_a_site_is_a_setting() {
    const SHOWN: &str = "<?php echo 'own|', ini_get('open_basedir'), '|', ini_get('memory_limit');";
    let dir = TempDir::new("php-variables").unwrap();
    let evil = dir.join("evil/x.php").display().to_string();
    for (folder, rules) in [
        ("set", format!("SetEnv PHP_ADMIN_VALUE \"auto_prepend_file={evil}\"\nSetEnv PHP_VALUE memory_limit=77M\n")),
        ("rule", format!("RewriteEngine on\nRewriteRule . - [E=PHP_ADMIN_VALUE:auto_prepend_file={evil}]\n")),
        ("if", "SetEnvIf Host . PHP_ADMIN_VALUE=open_basedir=\nSetEnvIf Host . PHP_VALUE=memory_limit=77M\n".into()),
        ("page", String::new()),
    ] {
        dir.write(&format!("evil/{folder}/.htaccess"), rules).unwrap();
        dir.write(&format!("evil/{folder}/a.php"), "<?php echo 'a|', ini_get('memory_limit');").unwrap();
    }
    let page = format!(
        "<!--#set var=\"PHP_ADMIN_VALUE\" value=\"auto_prepend_file={evil}\" --><!--#include virtual=\"a.php\" -->"
    );
    dir.write("evil/page/p.shtml", page).unwrap();
    dir.write("evil/x.php", "<?php echo 'EVIL';").unwrap();
    dir.write("victim/index.php", SHOWN).unwrap();
    dir.write("closed/index.php", SHOWN).unwrap();
    let hosts = "<VirtualHost *>\nServerName victim.test\nDocumentRoot {dir}/victim\n</VirtualHost>\n\
         <VirtualHost *>\nServerName evil.test\nDocumentRoot {dir}/evil\n</VirtualHost>\n\
         <VirtualHost *>\nServerName closed.test\nDocumentRoot {dir}/closed\nphp_admin_value open_basedir {dir}/closed\n</VirtualHost>\n";
    for kind in ["php-fpm", "php-cgi", "lsphp"] {
        let server = start(kind, &dir, hosts);
        let ask = |host: &str, target: &str| get(server.address(), host, target).1;
        let shown = || (ask("victim.test", "/"), ask("closed.test", "/"));
        let before = shown();
        assert!(before.0.starts_with("own||"), "{kind}: {before:?}");
        assert!(
            before
                .1
                .starts_with(&format!("own|{}", dir.join("closed").display())),
            "{kind}: {before:?}"
        );
        for target in ["/set/a.php", "/rule/a.php", "/if/a.php", "/page/p.shtml"] {
            for _ in 0..4 {
                let own = ask("evil.test", target);
                assert!(
                    own.starts_with("a|") && !own.contains("77M"),
                    "{kind}: {target}: {own}"
                );
                assert_eq!(shown(), before, "{kind}: {target}");
            }
        }
        server.stop().unwrap();
    }
}

/// Named by a file of a site, it would take that site's variables.
#[test]
fn no_rule_leads_to_the_socket_of_the_servers_own_php() {
    let dir = TempDir::new("php-socket").unwrap();
    dir.write("www/a.php", "<?php echo 'own';").unwrap();
    for kind in ["php-fpm", "php-cgi"] {
        let server = start(kind, &dir, "DocumentRoot {dir}/www\n");
        assert_eq!(
            get(server.address(), "localhost", "/a.php").1,
            "own",
            "{kind}"
        );
        let sockets: Vec<PathBuf> = fs::read_dir(dir.join("state"))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.extension().is_some_and(|end| end == "sock"))
            .filter(|path| {
                path.file_name()
                    .unwrap()
                    .to_string_lossy()
                    .starts_with(kind)
            })
            .collect();
        assert!(!sockets.is_empty(), "{kind}");
        // Another process's, as a successor's is during an upgrade.
        let next = dir.join(format!("state/{kind}-next.sock"));
        let _next = UnixListener::bind(&next).unwrap();
        let sockets: Vec<PathBuf> = sockets.into_iter().chain([next]).collect();
        for (at, socket) in sockets.iter().enumerate() {
            let link = dir.join(format!("{kind}{at}.sock"));
            symlink(socket, &link).unwrap();
            for (name, path) in [("plain", socket), ("link", &link)] {
                let folder = format!("www/{kind}{at}{name}");
                let rules = format!(
                    "SetEnv PHP_ADMIN_VALUE memory_limit=77M\nSetHandler \"proxy:unix:{}|fcgi://localhost\"\n",
                    path.display()
                );
                dir.write(&format!("{folder}/.htaccess"), rules).unwrap();
                dir.write(&format!("{folder}/a.inc"), "<?php echo 'led there';")
                    .unwrap();
                let (status, text) = get(
                    server.address(),
                    "localhost",
                    &format!("/{kind}{at}{name}/a.inc"),
                );
                assert!(
                    status == 503 && !text.contains("led"),
                    "{kind}: {name}: {status} {text}"
                );
            }
        }
        assert_eq!(
            get(server.address(), "localhost", "/a.php").1,
            "own",
            "{kind}"
        );
        server.stop().unwrap();
    }
}

/// `auto_prepend_file` of such a file would take the place of the script that applies them.
#[test]
fn no_user_ini_switches_off_what_the_administrator_set() {
    const READS: &str = "<?php echo @file_get_contents('{dir}/secret.txt') ?: 'closed', '|', ini_get('memory_limit'), '|', \
        @ini_set('memory_limit', '1G') === false ? 'locked' : 'free', '|', defined('OWN') ? 'own' : '';";
    let dir = TempDir::new("php-user-ini").unwrap();
    let reads = READS.replace("{dir}", &dir.display().to_string());
    let own = dir.join("closed/own/first.php").display().to_string();
    dir.write("secret.txt", "secret").unwrap();
    for folder in [
        "closed",
        "closed/none",
        "closed/own",
        "closed/mixed",
        "free",
    ] {
        dir.write(&format!("{folder}/a.php"), &reads).unwrap();
    }
    let switched_off = "auto_prepend_file = none\nmemory_limit = 1G\nopen_basedir = /\n";
    for folder in ["closed/none", "closed/mixed"] {
        dir.write(&format!("{folder}/.user.ini"), switched_off)
            .unwrap();
    }
    dir.write("closed/mixed/.htaccess", "php_value user_agent x\n")
        .unwrap();
    for folder in ["closed/own", "free"] {
        dir.write(
            &format!("{folder}/.user.ini"),
            format!("auto_prepend_file = \"{own}\"\n"),
        )
        .unwrap();
    }
    dir.write("closed/own/first.php", "<?php define('OWN', 1);")
        .unwrap();
    let hosts = "<VirtualHost *>\nServerName free.test\nDocumentRoot {dir}/free\n</VirtualHost>\n\
         <VirtualHost *>\nServerName closed.test\nDocumentRoot {dir}/closed\nphp_admin_value open_basedir {dir}/closed\n\
         php_admin_value memory_limit 77M\n</VirtualHost>\n\
         <VirtualHost *>\nServerName files.test\nDocumentRoot {dir}/closed\n<Files a.php>\nphp_admin_value open_basedir {dir}/closed\n</Files>\n</VirtualHost>\n";
    for kind in ["php-cgi", "php-fpm", "lsphp"] {
        let server = start(kind, &dir, hosts);
        for target in ["/a.php", "/none/a.php", "/mixed/a.php", "/own/a.php"] {
            let (status, text) = get(server.address(), "closed.test", target);
            assert!(
                status == 200 && text.starts_with("closed|77M|locked|"),
                "{kind}: {target}: {status} {text}"
            );
            assert_eq!(text.ends_with("|own"), target.starts_with("/own"), "{kind}");
            let in_files = get(server.address(), "files.test", target).1;
            assert!(
                in_files.starts_with("closed|"),
                "{kind}: {target}: {in_files}"
            );
        }
        // Where there is nothing to switch off, such files are obeyed.
        assert!(
            get(server.address(), "free.test", "/a.php")
                .1
                .ends_with("|own"),
            "{kind}"
        );
        server.stop().unwrap();
    }
}

/// Settings that php-cgi can't apply for a request are in the log.
#[test]
fn settings_that_php_cgi_drops_are_told() {
    let dir = TempDir::new("php-dropped").unwrap();
    dir.write("www/a.php", "<?php echo ini_get('user_agent');")
        .unwrap();
    dir.write(
        "www/.htaccess",
        "php_value user_agent told\nphp_value upload_max_filesize 7M\nphp_value unheard.of 1\n",
    )
    .unwrap();
    let hosts = "DocumentRoot {dir}/www\n";
    let server = start("php-cgi", &dir, hosts);
    assert_eq!(
        get(server.address(), "localhost", "/a.php"),
        (200, "told".into())
    );
    server
        .wait_for_stderr("php_value upload_max_filesize is not applied", PATIENCE)
        .unwrap();
    assert!(
        !server.stderr().contains("unheard.of"),
        "{}",
        server.stderr()
    );
    server.stop().unwrap();
}

/// Lookups of index files and listings are no client's requests: fail2ban bans by these lines.
#[test]
fn only_scripts_that_were_asked_for_are_missed() {
    let dir = TempDir::new("php-lookups").unwrap();
    dir.write("www/htm/index.htm", "page").unwrap();
    dir.write("www/list/a.txt", "text").unwrap();
    dir.write("www/list/folder.php/a.txt", "text").unwrap();
    let hosts = "DocumentRoot {dir}/www\n";
    let server = start("php-fpm", &dir, hosts);
    let ask = |target: &str| get(server.address(), "localhost", target).0;
    for target in ["/htm/", "/list/", "/htm/?1", "/htm/"] {
        assert_eq!(ask(target), 200, "{target}");
    }
    assert_eq!(ask("/gone.php"), 404);
    server
        .wait_for_stderr("/www/gone.php' not found or unable to stat", PATIENCE)
        .unwrap();
    let log = server.stderr();
    assert!(
        log.matches("unable to stat").count() == 1 && !log.contains("attempt to invoke"),
        "{log}"
    );
    server.stop().unwrap();
}
