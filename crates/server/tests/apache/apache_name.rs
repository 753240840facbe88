//! Called as apache2, httpd and apachectl: what scripts and panels call, and what they read.

#![allow(clippy::unwrap_used)] // The whole file is tests.

use saker_testkit::{Client, TempDir, free_port, wait_until};
use std::{
    fs,
    net::SocketAddr,
    os::unix::fs::symlink,
    path::PathBuf,
    process::{Command, Output},
};

struct Site {
    dir: TempDir,
    address: SocketAddr,
}

impl Site {
    fn new(more: &str) -> Site {
        let dir = TempDir::new("apache-name").unwrap();
        let port = free_port().unwrap();
        let root = dir.display().to_string();
        let text = format!(
            "ServerRoot {root}\nLoadModule mpm_event_module modules/mod_mpm_event.so\nLoadModule dir_module modules/mod_dir.so\n\
             PidFile run/httpd.pid\nListen 127.0.0.1:{port}\nServerName main.example\nDocumentRoot {root}/www\n{more}\n"
        );
        dir.write("httpd.conf", text).unwrap();
        dir.write("www/index.html", "hello\n").unwrap();
        dir.write("run/.keep", "").unwrap();
        for name in ["apache2", "httpd", "apachectl"] {
            symlink(crate::operate::SAKER, dir.join(name)).unwrap();
        }
        Site {
            dir,
            address: SocketAddr::from(([127, 0, 0, 1], port)),
        }
    }

    /// A server that does not come back is stopped after a minute.
    fn run(&self, name: &str, arguments: &str) -> Output {
        let arguments =
            arguments.replace("{conf}", &self.dir.join("httpd.conf").display().to_string());
        let mut command = Command::new("timeout");
        command
            .arg("60")
            .arg(self.dir.join(name))
            .args(arguments.split_ascii_whitespace())
            .output()
            .unwrap()
    }

    fn pid_file(&self) -> PathBuf {
        self.dir.join("run/httpd.pid")
    }

    fn answers(&self) -> bool {
        Client::connect(self.address)
            .and_then(|mut client| client.get("/"))
            .is_ok_and(|response| response.text() == "hello\n")
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.run("httpd", "-f {conf} -k stop");
    }
}

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn what_is_printed() {
    let host = |name: &str, alias: &str| {
        format!("<VirtualHost *:80>\nServerName {name}\n{alias}\n</VirtualHost>\n")
    };
    let site = Site::new(&format!(
        "{}{}",
        host("a.example", "ServerAlias www.a.example *.a.example"),
        host("b.example", "")
    ));
    let version = out(&site.run("apache2", "-v"));
    assert!(
        version.starts_with("Server version: Apache/2.4."),
        "{version}"
    );
    assert!(
        out(&site.run("apache2", "-V -f {conf}")).contains(" -D SERVER_CONFIG_FILE=\"httpd.conf\"")
    );
    assert!(
        out(&site.run("apache2", "-l")).contains("\n  core.c\n")
            && out(&site.run("apache2", "-L")).contains("RewriteRule (rewrite_module)")
    );
    let modules = out(&site.run("httpd", "-M -f {conf}"));
    assert!(
        modules.starts_with("Loaded Modules:\n")
            && modules.contains(" dir_module (shared)\n")
            && modules.contains(" core_module (static)\n")
    );
    assert!(!modules.contains("rewrite_module"), "{modules}");
    let hosts = out(&site.run("apachectl", "-S -f {conf}"));
    let conf = site.dir.join("httpd.conf").display().to_string();
    let first = hosts.find(&format!("         port 80 namevhost a.example ({conf}:"));
    assert!(
        hosts.contains("*:80                   is a NameVirtualHost\n") && first.is_some(),
        "{hosts}"
    );
    assert!(
        hosts.contains(
            "                 alias www.a.example\n                 wild alias *.a.example\n"
        ),
        "{hosts}"
    );
    let tested = site.run("apachectl", "configtest -f {conf}");
    assert_eq!(
        (tested.status.code(), err(&tested).as_str()),
        (Some(0), "Syntax OK\n")
    );
    assert_eq!(site.run("apache2", "-q").status.code(), Some(1));
    // Relative to the ServerRoot that is given, wherever it is called.
    let relative = site.run(
        "apache2",
        &format!("-d {} -f httpd.conf -t", site.dir.display()),
    );
    assert_eq!(err(&relative), "Syntax OK\n");
}

#[test]
fn errors_are_told_as_apache_tells_them() {
    let site = Site::new("NoSuchThing on");
    let tested = site.run("apache2", "-t -f {conf}");
    let text = err(&tested);
    assert_eq!(tested.status.code(), Some(1));
    assert!(
        text.contains(&format!(
            "Syntax error on line 8 of {}:",
            site.dir.join("httpd.conf").display()
        )),
        "{text}"
    );
    assert!(text.contains("Invalid command 'NoSuchThing'"), "{text}");
    let started = site.run("apache2", "-k start -f {conf}");
    assert!(started.status.code() == Some(1) && !site.pid_file().exists());
}

#[test]
fn start_graceful_stop() {
    let site = Site::new("");
    assert!(out(&site.run("httpd", "-k stop -f {conf}")).contains("not running"));
    let started = site.run("apache2", "-k start -f {conf}");
    assert!(started.status.success(), "{}", err(&started));
    assert!(site.answers());
    let pid = fs::read_to_string(site.pid_file()).unwrap();
    assert!(
        out(&site.run("apache2", "-k start -f {conf}"))
            .contains(&format!("httpd (pid {}) already running", pid.trim()))
    );
    let conf = fs::read_to_string(site.dir.join("httpd.conf")).unwrap();
    fs::write(
        site.dir.join("httpd.conf"),
        conf + "DirectoryIndex other.html\n",
    )
    .unwrap();
    assert!(
        site.run("apachectl", "-k graceful -f {conf}")
            .status
            .success()
    );
    wait_until("the changed configuration is in force", || !site.answers());
    assert_eq!(
        fs::read_to_string(site.pid_file()).unwrap(),
        pid,
        "the same process goes on"
    );
    assert!(site.run("apache2", "-k stop -f {conf}").status.success());
    wait_until("the file goes with the process", || {
        !site.pid_file().exists()
    });
}
