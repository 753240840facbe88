//! `saker takeover`: Saker in the place of the real Apache, and Apache again where an answer
//! differs.
//!
//! Caveat: systemd does not run where tests do, so both are started and stopped by commands.

use crate::operate::{SAKER, folder, saker, stderr, stdout};
use saker_testkit::{
    TempDir,
    apache2::{load_modules, unprivileged_user},
    free_port, require,
};
use std::{
    fs,
    path::PathBuf,
    process::{Command, Output},
};

/// Apache with a page, a redirect, and a folder that is refused.
struct Machine {
    dir: TempDir,
    port: u16,
    apache: PathBuf,
}

impl Machine {
    fn start(name: &str) -> Machine {
        let machine = Machine {
            dir: folder(name),
            port: free_port().unwrap(),
            apache: require("apache2").unwrap(),
        };
        let root = machine.dir.display();
        machine.dir.write("www/private/index.html", "no").unwrap();
        let text = format!(
            "{}\n{}ServerName localhost\nListen 127.0.0.1:{}\nPidFile {root}/apache.pid\nErrorLog {root}/error.log\nDocumentRoot {root}/www\n\
             TypesConfig /dev/null\nAddType text/html .html\nDirectoryIndex index.html\n<Directory {root}/www>\nRequire all granted\n</Directory>\n\
             <Directory {root}/www/private>\nRequire all denied\n</Directory>\nRedirect permanent /old /new\n",
            load_modules(&["mpm_event", "authz_core", "dir", "alias", "mime"]),
            unprivileged_user(),
            machine.port
        );
        machine.dir.write("httpd.conf", text).unwrap();
        shell(&machine.start_apache());
        machine
    }

    fn configuration(&self) -> String {
        format!("{}/httpd.conf", self.dir.display())
    }

    fn start_apache(&self) -> String {
        let apache = self.apache.display();
        format!(
            "{apache} -f {} -k start >/dev/null 2>&1",
            self.configuration()
        )
    }

    fn stop_apache(&self) -> String {
        let (apache, dir) = (self.apache.display(), self.dir.display());
        format!(
            "{apache} -f {} -k stop; while [ -e {dir}/apache.pid ]; do sleep 0.01; done",
            self.configuration()
        )
    }

    fn state(&self) -> String {
        format!("{}/saker-state", self.dir.display())
    }

    fn start_saker(&self) -> String {
        let (configuration, state, dir) = (self.configuration(), self.state(), self.dir.display());
        format!(
            "{SAKER} run --apache {configuration} --state-dir {state} >{dir}/saker.log 2>&1 & \
             for attempt in $(seq 1000); do {SAKER} status --healthy --state-dir {state} 2>/dev/null && exit 0; sleep 0.02; done; exit 1"
        )
    }

    fn stop_saker(&self) -> String {
        format!("{SAKER} stop --state-dir {} >/dev/null", self.state())
    }

    /// `before`: commands in front of Saker's start.
    fn takeover(&self, before: &str, more: &[&str]) -> Output {
        let saker_start = format!("{before}{}", self.start_saker());
        let words = [
            "takeover",
            "apache",
            "--configuration",
            &self.configuration(),
            "--start",
            &self.start_apache(),
            "--stop",
            &self.stop_apache(),
            "--saker-start",
            &saker_start,
            "--saker-stop",
            &self.stop_saker(),
        ]
        .map(str::to_owned);
        saker(
            words
                .into_iter()
                .chain(more.iter().map(|word| (*word).to_owned())),
        )
    }

    fn url(&self, path: &str) -> String {
        format!("http://localhost:{}{path}", self.port)
    }

    /// The name of the server that answers.
    fn server(&self) -> String {
        let output = Command::new(require("curl").unwrap())
            .args([
                "-sS",
                "-m",
                "20",
                "-o",
                "/dev/null",
                "-w",
                "%header{server}",
            ])
            .arg(self.url("/"))
            .output()
            .unwrap();
        stdout(&output)
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        for command in [self.stop_saker(), self.stop_apache()] {
            let _ = Command::new("timeout")
                .args(["20", "sh", "-c", &command])
                .output();
        }
    }
}

fn shell(command: &str) {
    let output = Command::new("sh").args(["-c", command]).output().unwrap();
    assert!(output.status.success(), "{command}: {}", stderr(&output));
}

#[test]
fn in_the_place_of_apache_with_the_same_answers() {
    let machine = Machine::start("takeover");
    let urls: Vec<String> = ["/", "/old/page", "/private/", "/missing"]
        .map(|path| machine.url(path))
        .into();
    fs::write(machine.dir.join("urls"), urls.join("\n") + "\n# no more\n").unwrap();
    let list = format!("{}/urls", machine.dir.display());
    let dry = machine.takeover("", &["--list", &list, "--dry-run"]);
    assert!(dry.status.success(), "{}", stderr(&dry));
    assert!(
        stdout(&dry).contains("4 answers recorded"),
        "{}",
        stdout(&dry)
    );
    assert!(machine.server().contains("Apache"));
    let taken = machine.takeover("", &["--list", &list]);
    assert!(
        taken.status.success(),
        "{}{}",
        stdout(&taken),
        stderr(&taken)
    );
    assert!(
        stdout(&taken).contains("4 answers are the same"),
        "{}",
        stdout(&taken)
    );
    assert!(!machine.dir.join("apache.pid").exists() || !machine.server().contains("Apache/"));
    shell(&format!(
        "{SAKER} status --healthy --state-dir {}",
        machine.state()
    ));
}

#[test]
fn apache_again_where_an_answer_differs() {
    let machine = Machine::start("takeover-back");
    let page = format!("{}/www/index.html", machine.dir.display());
    let refused = machine.takeover(&format!("echo other >{page}; "), &[]);
    assert_eq!(refused.status.code(), Some(1), "{}", stderr(&refused));
    let said = stderr(&refused);
    assert!(
        said.contains("other content") && said.contains("Apache serves again"),
        "{said}"
    );
    assert!(machine.server().contains("Apache"));
    let status = saker(["status", "--healthy", "--state-dir", &machine.state()]);
    assert_eq!(status.status.code(), Some(3), "Saker is stopped");
    // A Saker that does not start at all.
    let refused = machine.takeover("exit 7; ", &[]);
    assert_eq!(refused.status.code(), Some(1), "{}", stderr(&refused));
    assert!(machine.server().contains("Apache"));
}

#[test]
fn nothing_is_touched_with_a_wrong_configuration_or_without_a_server() {
    let machine = Machine::start("takeover-wrong");
    let configuration = machine.configuration();
    let text = fs::read_to_string(&configuration).unwrap();
    fs::write(&configuration, format!("{text}\nNonsense on\n")).unwrap();
    let refused = machine.takeover("", &[]);
    assert_eq!(refused.status.code(), Some(1), "{}", stderr(&refused));
    assert!(stderr(&refused).contains("Nonsense"));
    fs::write(&configuration, text).unwrap();
    assert!(machine.server().contains("Apache"));
    shell(&machine.stop_apache());
    let refused = machine.takeover("", &[]);
    assert_eq!(refused.status.code(), Some(2), "{}", stderr(&refused));
    assert!(
        stderr(&refused).contains("nothing was changed"),
        "{}",
        stderr(&refused)
    );
}
