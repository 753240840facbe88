//! `saker takeover`: Saker in the place of the real Apache or nginx, and that server again where an
//! answer differs.
//!
//! Caveat: systemd does not run where tests do, so both are started and stopped by commands.

use crate::operate::{self, SAKER, folder, saker, stderr, stdout};
use saker_testkit::{
    TempDir,
    apache2::{load_modules, unprivileged_user},
    free_port, require,
};
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Apache,
    Nginx,
}

/// Apache or nginx with a page, a redirect, and a folder that is refused.
struct Machine {
    dir: TempDir,
    port: u16,
    kind: Kind,
    program: PathBuf,
}

impl Machine {
    fn start(name: &str, kind: Kind) -> Machine {
        let program = match kind {
            Kind::Apache => "apache2",
            Kind::Nginx => "nginx",
        };
        let machine = Machine {
            dir: folder(name),
            port: free_port().unwrap(),
            kind,
            program: require(program).unwrap(),
        };
        machine.dir.write("www/private/index.html", "no").unwrap();
        let text = match kind {
            Kind::Apache => machine.apache(),
            Kind::Nginx => machine.nginx(),
        };
        machine.dir.write("server.conf", text).unwrap();
        shell(&machine.start_other());
        machine
    }

    fn apache(&self) -> String {
        let root = self.dir.display();
        format!(
            "{}\n{}ServerName localhost\nListen 127.0.0.1:{}\nPidFile {root}/other.pid\nErrorLog {root}/error.log\nDocumentRoot {root}/www\n\
             TypesConfig /dev/null\nAddType text/html .html\nDirectoryIndex index.html\n<Directory {root}/www>\nRequire all granted\n</Directory>\n\
             <Directory {root}/www/private>\nRequire all denied\n</Directory>\nRedirect permanent /old /new\n",
            load_modules(&["mpm_event", "authz_core", "dir", "alias", "mime"]),
            unprivileged_user(),
            self.port
        )
    }

    fn nginx(&self) -> String {
        let root = self.dir.display();
        let places: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|name| format!("{name}_temp_path {root}/nginx-{name};\n"))
            .concat();
        format!(
            "pid {root}/other.pid;\nerror_log {root}/error.log;\nevents {{}}\nhttp {{\n{places}access_log off;\ntypes {{ text/html html; }}\n\
             server {{ listen 127.0.0.1:{}; server_name localhost; root {root}/www;\n\
             location /private/ {{ deny all; }}\nlocation /old {{ return 301 /new; }}\n}}\n}}\n",
            self.port
        )
    }

    fn configuration(&self) -> String {
        format!("{}/server.conf", self.dir.display())
    }

    /// The word of the command, and what it says.
    fn names(&self) -> (&'static str, &'static str) {
        match self.kind {
            Kind::Apache => ("apache", "Apache"),
            Kind::Nginx => ("nginx", "nginx"),
        }
    }

    fn start_other(&self) -> String {
        let (program, configuration) = (self.program.display(), self.configuration());
        match self.kind {
            Kind::Apache => format!("{program} -f {configuration} -k start >/dev/null 2>&1"),
            Kind::Nginx => format!("{program} -c {configuration} >/dev/null 2>&1"),
        }
    }

    fn stop_other(&self) -> String {
        let (program, configuration) = (self.program.display(), self.configuration());
        let stop = match self.kind {
            Kind::Apache => format!("{program} -f {configuration} -k stop"),
            Kind::Nginx => format!("{program} -c {configuration} -s stop 2>/dev/null"),
        };
        format!(
            "{stop}; while [ -e {}/other.pid ]; do sleep 0.01; done",
            self.dir.display()
        )
    }

    fn state(&self) -> String {
        format!("{}/saker-state", self.dir.display())
    }

    fn start_saker(&self) -> String {
        let (configuration, state, dir) = (self.configuration(), self.state(), self.dir.display());
        format!(
            "{SAKER} run --{} {configuration} --state-dir {state} >{dir}/saker.log 2>&1 & \
             for attempt in $(seq 1000); do {SAKER} status --healthy --state-dir {state} 2>/dev/null && exit 0; sleep 0.02; done; exit 1",
            self.names().0
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
            self.names().0,
            "--configuration",
            &self.configuration(),
            "--start",
            &self.start_other(),
            "--stop",
            &self.stop_other(),
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
        for command in [self.stop_saker(), self.stop_other()] {
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

/// The beginning of the other server's field, which Saker's has not.
fn is_other(machine: &Machine) -> bool {
    machine.server().starts_with(match machine.kind {
        Kind::Apache => "Apache/",
        Kind::Nginx => "nginx/",
    })
}

fn in_the_place_of(kind: Kind) {
    let machine = Machine::start("takeover", kind);
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
    assert!(is_other(&machine), "{}", machine.server());
    let taken = machine.takeover("", &["--list", &list]);
    assert!(
        taken.status.success(),
        "{}{}",
        stdout(&taken),
        stderr(&taken)
    );
    let said = stdout(&taken);
    assert!(said.contains("4 answers are the same"), "{said}");
    print!("{said}");
    let status = operate::ask(Path::new(&machine.state()), "status").unwrap();
    let listeners = status["listeners"].to_string();
    assert!(listeners.contains(&machine.port.to_string()), "{listeners}");
}

#[test]
fn in_the_place_of_apache_with_the_same_answers() {
    in_the_place_of(Kind::Apache);
}

#[test]
fn in_the_place_of_nginx_with_the_same_answers() {
    in_the_place_of(Kind::Nginx);
}

fn that_server_again(kind: Kind) {
    let machine = Machine::start("takeover-back", kind);
    let page = format!("{}/www/index.html", machine.dir.display());
    let refused = machine.takeover(&format!("echo other >{page}; "), &[]);
    assert_eq!(refused.status.code(), Some(1), "{}", stderr(&refused));
    let said = stderr(&refused);
    let again = format!("{} serves again", machine.names().1);
    assert!(
        said.contains("other content") && said.contains(&again),
        "{said}"
    );
    assert!(is_other(&machine));
    let status = saker(["status", "--healthy", "--state-dir", &machine.state()]);
    assert_eq!(status.status.code(), Some(3), "Saker is stopped");
    // A Saker that does not start at all.
    let refused = machine.takeover("exit 7; ", &[]);
    assert_eq!(refused.status.code(), Some(1), "{}", stderr(&refused));
    assert!(is_other(&machine));
}

#[test]
fn apache_again_where_an_answer_differs() {
    that_server_again(Kind::Apache);
}

#[test]
fn nginx_again_where_an_answer_differs() {
    that_server_again(Kind::Nginx);
}

#[test]
fn nothing_is_touched_with_a_wrong_configuration_or_without_a_server() {
    let machine = Machine::start("takeover-wrong", Kind::Apache);
    let configuration = machine.configuration();
    let text = fs::read_to_string(&configuration).unwrap();
    fs::write(&configuration, format!("{text}\nNonsense on\n")).unwrap();
    let refused = machine.takeover("", &[]);
    assert_eq!(refused.status.code(), Some(1), "{}", stderr(&refused));
    assert!(stderr(&refused).contains("Nonsense"));
    fs::write(&configuration, text).unwrap();
    assert!(machine.server().contains("Apache"));
    shell(&machine.stop_other());
    let refused = machine.takeover("", &[]);
    assert_eq!(refused.status.code(), Some(2), "{}", stderr(&refused));
    assert!(
        stderr(&refused).contains("nothing was changed"),
        "{}",
        stderr(&refused)
    );
}
