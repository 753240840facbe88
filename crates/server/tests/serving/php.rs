//! Managed PHP: `saker serve` on a folder of PHP files, `[php]`, and configurations for mod_php,
//! with each PHP that there is.

#![allow(clippy::unwrap_used, clippy::panic)] // The whole file is tests.

use crate::operate;
use crate::operate::{PATIENCE, wait_until};
use saker_testkit::{Client, Response, Saker, ServerProcess, TempDir, require};
use std::{fs, path::Path, process::Command, time::Duration};

const PROGRAMS: [&str; 3] = ["lsphp", "php-fpm", "php-cgi"];

/// php-fpm has its version in its name.
fn require_php(kind: &str) {
    let is_there = ["/usr/sbin", "/usr/local/bin", "/usr/bin"]
        .iter()
        .any(|folder| {
            let names = fs::read_dir(folder).into_iter().flatten().flatten();
            names
                .into_iter()
                .any(|entry| entry.file_name().to_string_lossy().starts_with(kind))
        });
    assert!(is_there, "{kind} is not there: tools/install-test-programs");
}

fn folder(name: &str, files: &[(&str, &str)]) -> TempDir {
    let dir = TempDir::new(name).unwrap();
    for (file, text) in files {
        dir.write(&format!("www/{file}"), text).unwrap();
    }
    dir
}

/// A native site with `[php]` as given.
fn native(name: &str, php: &str, files: &[(&str, &str)]) -> Saker {
    let text = format!(
        "[server]\nworkers = 1\nstate_dir = \"{{dir}}/state\"\n\n[php]\n{php}\n\n[[listener]]\naddress = \"{{address}}\"\n\n\
         [[site]]\nnames = [\"*\"]\nroot = \"{{dir}}/www\"\nphp = \"auto\"\n"
    );
    operate::native(&text).start(folder(name, files))
}

/// The same by one kind of PHP, with these lines at the site's end.
fn native_with(name: &str, kind: &str, lines: &str, files: &[(&str, &str)]) -> Saker {
    let text = format!(
        "[server]\nworkers = 1\nstate_dir = \"{{dir}}/state\"\n\n[php]\nprogram = \"{kind}\"\nprocesses = 1\n\n[[listener]]\naddress = \"{{address}}\"\n\n\
         [[site]]\nnames = [\"*\"]\nroot = \"{{dir}}/www\"\nphp = \"auto\"\n\n{lines}"
    );
    operate::native(&text).start(folder(name, files))
}

fn apache(name: &str, configuration: &str, files: &[(&str, &str)]) -> Saker {
    let text = format!(
        "{MODULES}ServerRoot {{dir}}\nListen {{address}}\nServerName localhost\nDocumentRoot {{dir}}/www\nDirectoryIndex index.php index.html\n\
         <Directory {{dir}}/www>\nAllowOverride All\nOptions FollowSymLinks\nRequire all granted\n</Directory>\n{configuration}\n"
    );
    operate::apache(&text).start(folder(name, files))
}

/// The same by one kind of PHP.
fn apache_by(kind: &str, configuration: &str, dir: &TempDir) -> ServerProcess {
    let root = dir.display();
    let text = format!(
        "{MODULES}ServerRoot {root}\nListen {{address}}\nServerName localhost\nDocumentRoot {root}/www\n\
             <Directory {root}/www>\nAllowOverride All\nRequire all granted\n</Directory>\n{configuration}\n"
    );
    operate::apache(&text)
        .arguments(&["--php", kind])
        .start_in(dir)
}

fn get(saker: &Saker, target: &str) -> Response {
    let mut client = saker.connect().unwrap();
    client.set_timeout(PATIENCE).unwrap();
    client.get(target).unwrap()
}

fn text(saker: &Saker, target: &str) -> String {
    get(saker, target).text()
}

/// Processes whose command line or parent belongs to the pools of a folder.
fn processes_of(parent: u32) -> Vec<u32> {
    let listed = Command::new("ps")
        .args(["-o", "pid=", "--ppid", &parent.to_string()])
        .output()
        .unwrap()
        .stdout;
    let children: Vec<u32> = String::from_utf8_lossy(&listed)
        .split_whitespace()
        .filter_map(|pid| pid.parse().ok())
        .collect();
    children
        .iter()
        .flat_map(|child| [vec![*child], processes_of(*child)].concat())
        .collect()
}

fn is_running(pid: u32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z"))
}

const INFO: &str = "<?php echo $_SERVER['SCRIPT_NAME'], '|', $_SERVER['PATH_INFO'] ?? '', '|', $_SERVER['QUERY_STRING'], '|', \
                    $_SERVER['REQUEST_METHOD'], '|', file_get_contents('php://input'), '|', PHP_SAPI;";

#[test]
fn each_kind_serves_a_folder() {
    for kind in PROGRAMS {
        require_php(kind);
        let files = [
            ("index.php", INFO),
            ("a/x.php", INFO),
            ("plain.txt", "plain"),
            ("missing/readme.txt", ""),
        ];
        let saker = native(
            &format!("php-{kind}"),
            &format!("program = \"{kind}\"\nprocesses = 2"),
            &files,
        );
        let sapi = [
            ("lsphp", "litespeed"),
            ("php-fpm", "fpm-fcgi"),
            ("php-cgi", "cgi-fcgi"),
        ]
        .iter()
        .find(|row| row.0 == kind)
        .unwrap()
        .1;
        assert_eq!(
            text(&saker, "/"),
            format!("/index.php|||GET||{sapi}"),
            "{kind}"
        );
        assert_eq!(
            text(&saker, "/a/x.php/more/of%20it?q=1"),
            format!("/a/x.php|/more/of it|q=1|GET||{sapi}"),
            "{kind}"
        );
        let mut client = saker.connect().unwrap();
        client
            .send("POST /index.php HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody")
            .unwrap();
        assert_eq!(
            client.read_response().unwrap().text(),
            format!("/index.php|||POST|body|{sapi}"),
            "{kind}"
        );
        assert_eq!(
            (
                get(&saker, "/plain.txt").status,
                get(&saker, "/nothing.php").status
            ),
            (200, 404),
            "{kind}"
        );
        for _ in 0..50 {
            assert_eq!(get(&saker, "/index.php").status, 200, "{kind}");
        }
        let children = processes_of(saker.server.pid());
        assert!(!children.is_empty(), "{kind} runs as our child");
        assert!(saker.server.stop().unwrap().success(), "{kind}");
        wait_until("no process is left behind", || {
            !children.iter().any(|pid| is_running(*pid))
        });
    }
}

/// With the only process there is: it is not asked before the upload has ended.
#[test]
fn a_slow_upload_holds_no_process() {
    for kind in PROGRAMS {
        require_php(kind);
        let files = [
            (
                "size.php",
                "<?php echo strlen(file_get_contents('php://input'));",
            ),
            ("quick.php", "<?php echo 'quick';"),
        ];
        let saker = native(
            &format!("php-slow-{kind}"),
            &format!("program = \"{kind}\"\nprocesses = 1"),
            &files,
        );
        assert_eq!(text(&saker, "/quick.php"), "quick", "{kind}");
        let half = vec![b'x'; 400_000];
        let mut slow = saker.connect().unwrap();
        slow.set_timeout(PATIENCE).unwrap();
        slow.send("POST /size.php HTTP/1.1\r\nHost: a\r\nContent-Length: 800000\r\n\r\n")
            .unwrap();
        slow.send(&half).unwrap();
        slow.pause(Duration::from_millis(200)).unwrap();
        for _ in 0..3 {
            assert_eq!(text(&saker, "/quick.php"), "quick", "{kind}");
        }
        slow.send(&half).unwrap();
        assert_eq!(slow.read_response().unwrap().text(), "800000", "{kind}");
    }
}

#[test]
fn serve_on_a_folder_of_php_files() {
    let dir = folder(
        "php-serve",
        &[
            ("index.php", INFO),
            ("config.php.bak", "<?php secret"),
            ("old.PHPS", "<?php secret"),
            (".user.ini", ""),
        ],
    );
    let serve = |php: &str| {
        operate::serve(&["--http", "{address}", "--workers", "1", "--php", php])
            .arguments(&["--state-dir", "{dir}/state", "{dir}/www"])
            .start_in(&dir)
    };
    let asked = |server: &ServerProcess, target: &str| {
        let response = Client::connect(server.address())
            .unwrap()
            .get(target)
            .unwrap();
        (response.status, response.text())
    };
    let auto = serve("auto");
    assert!(
        asked(&auto, "/").1.starts_with("/index.php|"),
        "{:?}",
        asked(&auto, "/")
    );
    for hidden in ["/config.php.bak", "/.user.ini"] {
        assert_eq!(asked(&auto, hidden).0, 404, "{hidden}");
    }
    assert_eq!(asked(&auto, "/old.PHPS").0, 403);
    auto.stop().unwrap();
    let off = serve("off");
    assert_eq!(
        (asked(&off, "/index.php").0, asked(&off, "/index.php/x").0),
        (403, 403),
        "sources are shown to nobody"
    );
    off.stop().unwrap();
    // An external PHP that does not run.
    let other = serve(&format!("unix:{}", dir.join("no.sock").display()));
    let (status, page) = asked(&other, "/index.php");
    assert!(status == 503 && !page.contains("<?php"), "{status} {page}");
    other.stop().unwrap();
}

#[test]
fn without_php_nothing_is_shown() {
    let saker = native(
        "php-none",
        "program = \"/nowhere/php-fpm\"",
        &[("index.php", "<?php secret")],
    );
    let (status, page) = (get(&saker, "/").status, text(&saker, "/index.php"));
    assert!(
        matches!(status, 502 | 503) && !page.contains("secret"),
        "{status} {page}"
    );
    saker.server.wait_for_stderr("SK092", PATIENCE).unwrap();
}

#[test]
fn what_is_killed_is_started_again() {
    for kind in PROGRAMS {
        let saker = native(
            &format!("php-kill-{kind}"),
            &format!("program = \"{kind}\"\nprocesses = 2"),
            &[("pid.php", "<?php echo getmypid();")],
        );
        let first = text(&saker, "/pid.php");
        let before = processes_of(saker.server.pid());
        for pid in &before {
            let _ = Command::new("kill").args(["-9", &pid.to_string()]).status();
        }
        wait_until("PHP answers again", || {
            let response = get(&saker, "/pid.php");
            response.status == 200 && response.text() != first
        });
        let error = saker.server.stderr();
        assert!(error.contains("SK0921"), "{kind}: {error}");
        saker.server.stop().unwrap();
    }
}

#[test]
fn nothing_is_left_when_the_server_is_killed() {
    for kind in PROGRAMS {
        let mut saker = native(
            &format!("php-orphan-{kind}"),
            &format!("program = \"{kind}\"\nprocesses = 2"),
            &[("x.php", "<?php echo 1;")],
        );
        assert_eq!(text(&saker, "/x.php"), "1");
        let children = processes_of(saker.server.pid());
        saker.server.kill().unwrap();
        wait_until(&format!("no {kind} is left behind"), || {
            !children.iter().any(|pid| is_running(*pid))
        });
    }
}

#[test]
fn a_changed_ini_is_in_force_and_no_request_is_lost() {
    let dir = folder("php-ini", &[("x.php", "<?php echo ini_get('user_agent');")]);
    dir.write("php.ini", "user_agent = one\n").unwrap();
    let text = format!(
        "[server]\nworkers = 1\nstate_dir = \"{{dir}}/state\"\n\n[php]\nprogram = \"php-fpm\"\nprocesses = 2\nini = \"{}\"\n\n\
         [[listener]]\naddress = \"{{address}}\"\n\n[[site]]\nnames = [\"*\"]\nroot = \"{{dir}}/www\"\nphp = \"auto\"\n",
        dir.join("php.ini").display()
    );
    let saker = operate::native(&text).start(dir);
    assert_eq!(get(&saker, "/x.php").text(), "one");
    saker.dir.write("php.ini", "user_agent = second\n").unwrap();
    let mut client = saker.connect().unwrap();
    wait_until("the new php.ini is read", || {
        let response = client.get("/x.php").unwrap();
        assert_eq!(response.status, 200);
        response.text() == "second"
    });
    saker.server.wait_for_stderr("SK0922", PATIENCE).unwrap();
}

#[test]
fn a_reload_loses_nothing() {
    let saker = native(
        "php-reload",
        "program = \"php-fpm\"\nprocesses = 2",
        &[
            ("slow.php", "<?php usleep(700000); echo 'slow';"),
            ("x.php", "<?php echo getmypid();"),
        ],
    );
    assert_eq!(get(&saker, "/x.php").status, 200);
    let mut slow = saker.connect().unwrap();
    slow.send("GET /slow.php HTTP/1.1\r\nHost: a\r\n\r\n")
        .unwrap();
    assert!(operate::reload(&saker).status.success());
    assert_eq!(slow.read_response().unwrap().text(), "slow");
    let parent = processes_of(saker.server.pid());
    // Another number of processes is another PHP, and the old one finishes.
    let mut slow = saker.connect().unwrap();
    slow.send("GET /slow.php HTTP/1.1\r\nHost: a\r\n\r\n")
        .unwrap();
    let configuration = fs::read_to_string(saker.dir.join("saker.toml"))
        .unwrap()
        .replace("processes = 2", "processes = 3");
    fs::write(saker.dir.join("saker.toml"), configuration).unwrap();
    assert!(operate::reload(&saker).status.success());
    assert_eq!(slow.read_response().unwrap().text(), "slow");
    wait_until("the old one has gone", || {
        parent.iter().all(|pid| !is_running(*pid))
    });
    assert_eq!(get(&saker, "/x.php").status, 200);
}

#[test]
fn all_busy_means_waiting_and_then_503() {
    for kind in PROGRAMS {
        let php =
            format!("program = \"{kind}\"\nprocesses = 1\nqueue = 1\nqueue_timeout = \"10s\"");
        let saker = native(
            &format!("php-busy-{kind}"),
            &php,
            &[
                ("slow.php", "<?php usleep(1500000); echo 'slow';"),
                ("x.php", "<?php echo 1;"),
            ],
        );
        assert_eq!(text(&saker, "/x.php"), "1");
        let mut clients: Vec<Client> = (0..3).map(|_| saker.connect().unwrap()).collect();
        for client in &mut clients {
            client
                .send("GET /slow.php HTTP/1.1\r\nHost: a\r\n\r\n")
                .unwrap();
            client.pause(Duration::from_millis(100)).unwrap();
        }
        let answers: Vec<Response> = clients
            .iter_mut()
            .map(|client| client.read_response().unwrap())
            .collect();
        let statuses: Vec<u16> = answers.iter().map(|answer| answer.status).collect();
        assert_eq!(statuses, [200, 200, 503], "{kind}");
        assert!(answers[2].field("Retry-After").is_some());
        saker.server.stop().unwrap();
    }
}

/// While the only process is busy, a request waits for as long as is set.
#[test]
fn waiting_for_a_process_has_its_time() {
    for kind in PROGRAMS {
        let php =
            format!("program = \"{kind}\"\nprocesses = 1\nqueue = 9\nqueue_timeout = \"100ms\"");
        let slow =
            "<?php while (!file_exists('go')) { clearstatcache(); usleep(10000); } echo 'slow';";
        let files = [("slow.php", slow), ("x.php", "<?php echo 1;")];
        let saker = native(&format!("php-queue-time-{kind}"), &php, &files);
        assert_eq!(text(&saker, "/x.php"), "1");
        let mut busy = saker.connect().unwrap();
        busy.send("GET /slow.php HTTP/1.1\r\nHost: a\r\n\r\n")
            .unwrap();
        wait_until("the process is busy", || {
            get(&saker, "/x.php").status == 503
        });
        saker.dir.write("www/go", "").unwrap();
        assert_eq!(busy.read_response().unwrap().text(), "slow", "{kind}");
        saker.server.stop().unwrap();
    }
}

/// Scripts that run for too long end, processes are replaced after their requests, and idle ones
/// go.
#[test]
fn processes_have_their_time_and_their_requests() {
    for kind in PROGRAMS {
        let php = format!(
            "program = \"{kind}\"\nprocesses = 1\nrun_time = \"1s\"\nrequests = 2\nidle_timeout = \"1s\""
        );
        let saker = native(
            &format!("php-limits-{kind}"),
            &php,
            &[
                ("slow.php", "<?php while (true) { usleep(1000); }"),
                ("pid.php", "<?php echo getmypid();"),
            ],
        );
        let pids: Vec<String> = (0..6).map(|_| text(&saker, "/pid.php")).collect();
        for pid in &pids {
            let served = pids.iter().filter(|other| *other == pid).count();
            assert!(served <= 2, "{kind}: {pids:?}");
        }
        // php-cgi has no such limit; its client alone is answered.
        if kind == "php-cgi" {
            continue;
        }
        assert!(get(&saker, "/slow.php").status >= 500, "{kind}");
        wait_until("another process serves", || {
            text(&saker, "/pid.php").parse::<u32>().is_ok()
        });
        saker.server.stop().unwrap();
    }
}

#[test]
fn standard_error_is_in_the_log() {
    for kind in PROGRAMS {
        let saker = native(
            &format!("php-log-{kind}"),
            &format!("program = \"{kind}\"\nprocesses = 1"),
            &[("x.php", "<?php error_log('said to the log'); echo 1;")],
        );
        assert_eq!(text(&saker, "/x.php"), "1", "{kind}");
        saker
            .server
            .wait_for_stderr("said to the log", PATIENCE)
            .unwrap();
    }
}

const MODULES: &str = "LoadModule mpm_event_module modules/mod_mpm_event.so\nLoadModule authz_core_module modules/mod_authz_core.so\n\
     LoadModule dir_module modules/mod_dir.so\nLoadModule mime_module modules/mod_mime.so\nLoadModule rewrite_module modules/mod_rewrite.so\n\
     LoadModule fcgid_module modules/mod_fcgid.so\n";

const MOD_PHP: &str = "LoadModule php_module modules/libphp8.2.so\n<FilesMatch \".+\\.ph(?:ar|p|tml)$\">\nSetHandler application/x-httpd-php\n</FilesMatch>\n\
     <FilesMatch \".+\\.phps$\">\nSetHandler application/x-httpd-php-source\nRequire all denied\n</FilesMatch>\n";

#[test]
fn a_configuration_for_mod_php_runs_as_it_is() {
    let files = [
        ("index.php", INFO),
        ("source.phps", "<?php secret"),
        ("off/x.php", "<?php echo 'ran';"),
        ("off/.htaccess", "php_flag engine off\n"),
        ("folder.php/readme.txt", "text"),
        (
            "wp/.htaccess",
            "RewriteEngine On\nRewriteCond %{REQUEST_FILENAME} !-f\nRewriteRule . /wp/index.php [L]\n",
        ),
        (
            "wp/index.php",
            "<?php echo $_SERVER['REQUEST_URI'], '|', $_SERVER['SCRIPT_NAME'], '|', $_SERVER['SCRIPT_FILENAME'];",
        ),
        (
            "not-found.php",
            "<?php http_response_code(410); echo 'gone by ', $_SERVER['REDIRECT_STATUS'], ' ', $_SERVER['REDIRECT_URL'];",
        ),
        (
            "own.php",
            "<?php http_response_code(404); echo 'a page of its own';",
        ),
    ];
    let saker = apache(
        "php-mod",
        &format!("{MOD_PHP}ErrorDocument 404 /not-found.php"),
        &files,
    );
    assert!(
        text(&saker, "/").starts_with("/index.php|||GET|"),
        "{}",
        text(&saker, "/")
    );
    assert!(text(&saker, "/index.php/a/b?c").starts_with("/index.php|/a/b|c|"));
    assert_eq!(
        (
            get(&saker, "/source.phps").status,
            get(&saker, "/off/x.php").status
        ),
        (403, 403)
    );
    let pretty = text(&saker, "/wp/2026/hello?x=1");
    assert_eq!(
        pretty,
        format!(
            "/wp/2026/hello?x=1|/wp/index.php|{}",
            saker.dir.join("www/wp/index.php").display()
        )
    );
    let missing = get(&saker, "/nothing-here.php");
    assert_eq!(
        (missing.status, missing.text()),
        (410, "gone by 404 /nothing-here.php".to_owned())
    );
    let own = get(&saker, "/own.php");
    assert_eq!(
        (own.status, own.text()),
        (404, "a page of its own".to_owned()),
        "an answer with a body is no error of ours"
    );
}

/// As inside Apache, where no rule has to pass them on.
#[test]
fn credentials_reach_php_as_under_mod_php() {
    const SCRIPT: &str = "<?php echo ($_SERVER['PHP_AUTH_USER'] ?? '-'), ' ', ($_SERVER['PHP_AUTH_PW'] ?? '-'), ' ', \
                          (array_change_key_case(getallheaders())['authorization'] ?? '-');";
    for kind in PROGRAMS {
        let files = [
            ("auth.php", SCRIPT),
            ("off/auth.php", SCRIPT),
            ("off/.htaccess", "CGIPassAuth Off\n"),
        ];
        let dir = folder("php-credentials", &files);
        let server = apache_by(
            kind,
            "<FilesMatch \\.php$>\nSetHandler application/x-httpd-php\n</FilesMatch>",
            &dir,
        );
        let ask = |target: &str, value: &str| {
            let mut client = Client::connect(server.address()).unwrap();
            client.set_timeout(PATIENCE).unwrap();
            client
                .request("GET", target, &[("Authorization", value)])
                .unwrap()
                .text()
        };
        assert_eq!(ask("/auth.php", "Basic dTpw"), "u p Basic dTpw", "{kind}");
        assert_eq!(ask("/auth.php", "Bearer zz"), "- - Bearer zz", "{kind}");
        assert_eq!(
            ask("/off/auth.php", "Basic dTpw"),
            "- - -",
            "{kind}: who forbids it is heard"
        );
    }
}

#[test]
fn settings_reach_each_kind() {
    for kind in PROGRAMS {
        require_php(kind);
        let files = [
            (
                "x.php",
                "<?php ini_set('memory_limit', '256M'); echo ini_get('memory_limit'), '|', ini_get('user_agent'), '|', ini_get('display_errors'), '|', isset($_SERVER['PHP_VALUE']) ? 'leak' : '';",
            ),
            (
                "in/x.php",
                "<?php echo ini_get('memory_limit'), '|', ini_get('user_agent'), '|', ini_get('display_errors');",
            ),
            (
                "in/.htaccess",
                "php_value user_agent \"it's inside\"\nphp_flag display_errors on\nphp_value memory_limit 512M\n",
            ),
        ];
        let settings = "php_admin_value memory_limit 77M\nphp_value user_agent outside\nphp_flag display_errors off\n";
        let dir = folder(&format!("php-set-{kind}"), &files);
        let server = apache_by(kind, &format!("{MOD_PHP}{settings}"), &dir);
        let text = |target: &str| {
            Client::connect(server.address())
                .unwrap()
                .get(target)
                .unwrap()
                .text()
        };
        let outer = text("/x.php");
        assert!(outer.starts_with("77M|outside|"), "{kind}: {outer}");
        assert!(
            !outer.contains("leak") || kind == "php-fpm",
            "{kind}: {outer}"
        );
        assert_eq!(text("/in/x.php"), "77M|it's inside|1", "{kind}");
        server.stop().unwrap();
    }
}

/// As under mod_php: a request's settings are its own.
#[test]
fn settings_end_with_their_request() {
    let shown = "<?php echo ini_get('user_agent'), '|', ini_get('memory_limit'), '|', ini_get('upload_max_filesize'), '|', \
                 ini_set('memory_limit', '1G') === false ? 'fixed' : 'free';";
    for kind in PROGRAMS {
        require_php(kind);
        let files = [
            ("x.php", shown),
            ("in/x.php", shown),
            ("prepended.txt", "prepended "),
            (
                "in/.htaccess",
                "php_value user_agent inside\nphp_value upload_max_filesize 7M\nphp_value auto_prepend_file ../prepended.txt\n",
            ),
        ];
        let dir = folder(&format!("php-end-{kind}"), &files);
        let root = dir.display();
        let inside =
            format!("<Directory {root}/www/in>\nphp_admin_value memory_limit 77M\n</Directory>\n");
        let server = apache_by(kind, &format!("{MOD_PHP}{inside}"), &dir);
        let text = |target: &str| {
            Client::connect(server.address())
                .unwrap()
                .get(target)
                .unwrap()
                .text()
        };
        let before = text("/x.php");
        assert!(
            !before.contains("77M") && !before.contains("inside") && before.ends_with("free"),
            "{kind}: {before}"
        );
        for _ in 0..20 {
            let within = text("/in/x.php");
            match kind {
                // What it can't set once a script runs is left out.
                "php-cgi" => assert!(within.starts_with("inside|77M|"), "{kind}: {within}"),
                _ => assert_eq!(within, "prepended inside|77M|7M|fixed", "{kind}"),
            }
            assert_eq!(
                text("/x.php"),
                before,
                "{kind}: what the other request had set"
            );
        }
        server.stop().unwrap();
    }
}

/// Settings of the configuration do not need a process per request.
#[test]
fn hosts_with_settings_keep_their_processes() {
    require_php("php-fpm");
    let shown = "<?php echo ini_get('memory_limit'), '|', ini_get('open_basedir'), '|', ini_get('user_agent'), '|', getmypid();";
    let files = [
        ("a/x.php", shown),
        ("b/x.php", shown),
        ("x.php", shown),
        ("b/in/x.php", shown),
        ("b/in/.htaccess", "php_value user_agent x\n"),
    ];
    let dir = folder("php-sets", &files);
    let root = dir.join("www").display().to_string();
    let of = |name: &str, limit: &str| {
        format!(
            "<Directory {root}/{name}>\nphp_admin_value memory_limit {limit}\nphp_admin_value open_basedir {root}/{name}\n</Directory>\n"
        )
    };
    let server = apache_by(
        "php-fpm",
        &format!(
            "{MOD_PHP}php_value user_agent all\n{}{}",
            of("a", "71M"),
            of("b", "72M")
        ),
        &dir,
    );
    let text = |target: &str| {
        Client::connect(server.address())
            .unwrap()
            .get(target)
            .unwrap()
            .text()
    };
    let mut processes = std::collections::HashSet::new();
    for _ in 0..20 {
        for (name, limit) in [("a", "71M"), ("b", "72M")] {
            let (said, process) = text(&format!("/{name}/x.php"))
                .rsplit_once('|')
                .map(|(said, id)| (said.to_owned(), id.to_owned()))
                .unwrap();
            assert_eq!(said, format!("{limit}|{root}/{name}|all"));
            processes.insert(process);
        }
        assert!(text("/x.php").contains("||all|"));
    }
    assert!(
        processes.len() <= 8,
        "{} processes for 40 requests",
        processes.len()
    );
    assert!(text("/b/in/x.php").starts_with(&format!("72M|{root}/b|x|")));
    server.stop().unwrap();
}

#[test]
fn check_says_which_php() {
    require("php-cgi").unwrap();
    let dir = folder("php-check", &[]);
    let text = "[php]\nprogram = \"php-cgi\"\n[[listener]]\naddress = \"127.0.0.1:1\"\n[[site]]\nnames = [\"*\"]\nroot = \"www\"\nphp = \"auto\"\n";
    let path = dir.write("saker.toml", text).unwrap();
    let output = operate::saker([Path::new("check"), Path::new("-c"), &path]);
    let said = operate::stdout(&output);
    assert!(
        said.contains("PHP: php-cgi") && said.contains("processes"),
        "{said}{}",
        operate::stderr(&output)
    );
}

/// Variables that LiteSpeed's plugins look for: LiteMage stays off without its own.
#[test]
fn applications_are_told_of_the_cache() {
    const TOLD: &str = "<?php echo $_SERVER['X-LSCACHE'] ?? 'none', '|', $_SERVER['X-LITEMAGE'] ?? 'none', '|', $_SERVER['HTTP_X_LITEMAGE'] ?? 'none';";
    let asked = |saker: &Saker, target: &str| {
        let mut client = saker.connect().unwrap();
        client
            .request("GET", target, &[("Host", "a"), ("X-LITEMAGE", "lies")])
            .unwrap()
            .text()
    };
    for kind in PROGRAMS {
        require_php(kind);
        let saker = native_with(
            &format!("php-told-{kind}"),
            kind,
            "[site.cache]\nenabled = true\n",
            &[("index.php", TOLD)],
        );
        assert_eq!(
            asked(&saker, "/index.php"),
            "on,crawler,esi,combine|1|none",
            "{kind}"
        );
        let saker = native_with(
            &format!("php-untold-{kind}"),
            kind,
            "[site.cache]\nenabled = true\nannounce = []\n",
            &[("index.php", TOLD)],
        );
        let untold = asked(&saker, "/index.php");
        assert!(untold.starts_with("none|none|"), "{kind}: {untold}");
        let ht = |lines: &str| format!("<IfModule LiteSpeed>\n{lines}\n</IfModule>\n");
        let (on, off, none) = (ht("LiteMage on"), ht("LiteMage off"), ht("CacheEngine off"));
        let files = [
            ("on/.htaccess", on.as_str()),
            ("off/.htaccess", &off),
            ("none/.htaccess", &none),
            ("on/a.php", TOLD),
            ("off/a.php", TOLD),
            ("none/a.php", TOLD),
        ];
        let handler = "<FilesMatch \\.php$>\nSetHandler application/x-httpd-php\n</FilesMatch>";
        let dir = folder(&format!("php-told-apache-{kind}"), &files);
        let server = apache_by(kind, handler, &dir);
        for (folder, expected) in [
            ("on", "on,crawler,esi,combine|1|none"),
            ("off", "on,crawler,esi,combine|none|none"),
            ("none", "none|none|"),
        ] {
            let mut client = saker_testkit::Client::connect(server.address()).unwrap();
            let answer = client
                .request(
                    "GET",
                    &format!("/{folder}/a.php"),
                    &[("Host", "a"), ("X-LITEMAGE", "lies")],
                )
                .unwrap();
            // Where nothing is offered, the field is the application's own matter.
            assert!(
                answer.text().starts_with(expected),
                "{kind} {folder}: {}",
                answer.text()
            );
        }
    }
}

/// A root with `..`: PHP is told of a file without it.
#[test]
fn roots_above_the_configuration() {
    const NAME: &str = "<?php echo $_SERVER['SCRIPT_FILENAME'], '|', $_SERVER['DOCUMENT_ROOT'];";
    for kind in PROGRAMS {
        require_php(kind);
        let dir = folder(
            &format!("php-above-{kind}"),
            &[("index.php", NAME), ("plain.txt", "plain")],
        );
        std::fs::create_dir_all(dir.join("etc")).unwrap();
        let root = dir.join("www").display().to_string();
        let text = format!(
            "[server]\nworkers = 1\nstate_dir = \"{{dir}}/state\"\n\n[php]\nprogram = \"{kind}\"\nprocesses = 1\n\n[[listener]]\naddress = \"{{address}}\"\n\n\
             [[site]]\nnames = [\"*\"]\nroot = \"../www\"\nphp = \"auto\"\n"
        );
        let server = operate::native(&text).file("etc/saker.toml").start_in(&dir);
        let mut client = saker_testkit::Client::connect(server.address()).unwrap();
        assert_eq!(
            client.get("/index.php").unwrap().text(),
            format!("{root}/index.php|{root}"),
            "{kind}"
        );
        assert_eq!(client.get("/plain.txt").unwrap().text(), "plain");
    }
}
