//! Databases of the tests' own: MariaDB, PostgreSQL, SQLite and slapd from Debian's packages, each
//! in a folder and on a Unix socket there; over TCP, with TLS, where a test wants that.
// Each test program uses its part; a test that fails may say so as it likes.
#![allow(dead_code, clippy::panic)]

pub mod certificates;

use crate::operate::wait_until;
use rustix::process::{Pid, Signal, kill_process};
use saker_testkit::pause_process;
use std::{
    fs,
    io::Write,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
};

/// A server that ends with the test.
pub struct Running(Child);

impl Running {
    fn start(command: &mut Command, package: &str) -> Running {
        let quiet = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        Running(
            quiet
                .spawn()
                .unwrap_or_else(|error| panic!("{command:?}: {error}: apt-get install {package}")),
        )
    }

    pub fn end(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }

    fn pause(&self) {
        pause_process(self.0.id()).expect("stands still");
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).expect("signalled");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}

fn run(command: &mut Command, package: &str) -> Output {
    command
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}: apt-get install {package}"))
}

fn feed(command: &mut Command, input: &str, package: &str) -> bool {
    let quiet = command
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut child = quiet
        .spawn()
        .unwrap_or_else(|error| panic!("{command:?}: {error}: apt-get install {package}"));
    // A program that ends before it has read everything says so by its status.
    let _ = child
        .stdin
        .take()
        .expect("an input")
        .write_all(input.as_bytes());
    child.wait().expect("ended").success()
}

pub struct Mariadb {
    folder: PathBuf,
    more: Vec<String>,
    process: Running,
}

impl Mariadb {
    pub fn start(folder: &Path) -> Mariadb {
        Mariadb::start_with(folder, &["--skip-networking".to_owned()])
    }

    /// Reached over the Unix socket, and by what the options say.
    pub fn start_with(folder: &Path, more: &[String]) -> Mariadb {
        let made = run(
            Command::new("mariadb-install-db")
                .args([
                    "--no-defaults",
                    "--auth-root-authentication-method=normal",
                    "--skip-test-db",
                    "--user=root",
                ])
                // One that starts removes other servers' temporary tables.
                .env("TMPDIR", folder)
                .arg(format!("--datadir={}", folder.join("mysql").display())),
            "mariadb-server",
        );
        assert!(
            made.status.success(),
            "{}",
            String::from_utf8_lossy(&made.stderr)
        );
        let database = Mariadb {
            process: Mariadb::serve(folder, more),
            folder: folder.to_owned(),
            more: more.to_vec(),
        };
        wait_until("MariaDB answers", || database.ask("SELECT 1"));
        assert!(
            database
                .ask("CREATE DATABASE web; CREATE USER saker@localhost IDENTIFIED BY 'secret'; GRANT SELECT ON web.* TO saker@localhost")
        );
        database
    }

    fn serve(folder: &Path, more: &[String]) -> Running {
        Running::start(
            Command::new("/usr/sbin/mariadbd")
                .env("TMPDIR", folder)
                .args([
                    "--no-defaults",
                    "--user=root",
                    "--innodb-flush-log-at-trx-commit=0",
                ])
                .args(more)
                .arg(format!("--datadir={}", folder.join("mysql").display()))
                .arg(format!("--socket={}", folder.join("mysql.sock").display())),
            "mariadb-server",
        )
    }

    pub fn url(&self) -> String {
        format!(
            "mysql://saker:secret@localhost/web?socket={}",
            self.folder.join("mysql.sock").display()
        )
    }

    pub fn ask(&self, statements: &str) -> bool {
        let socket = format!("--socket={}", self.folder.join("mysql.sock").display());
        feed(
            Command::new("mariadb").args(["--no-defaults", "--skip-ssl", "-uroot", &socket]),
            statements,
            "mariadb-server",
        )
    }

    pub fn end(&mut self) {
        self.process.end();
    }

    /// It keeps its connections, takes new ones in, and says nothing.
    pub fn freeze(&self) {
        self.process.pause();
    }

    pub fn thaw(&self) {
        self.process.signal(Signal::CONT);
    }

    pub fn start_again(&mut self) {
        self.process = Mariadb::serve(&self.folder, &self.more);
        wait_until("MariaDB answers again", || self.ask("SELECT 1"));
    }
}

pub struct Postgres {
    folder: PathBuf,
    programs: PathBuf,
    port: String,
    arguments: Vec<String>,
    process: Running,
}

impl Postgres {
    pub fn start(folder: &Path) -> Postgres {
        Postgres::start_with(folder, &[("listen_addresses", "")], None)
    }

    /// With settings, and who may come by which way (pg_hba.conf) besides over the Unix socket. It
    /// does not run as root.
    pub fn start_with(folder: &Path, settings: &[(&str, &str)], ways: Option<&str>) -> Postgres {
        let versions = fs::read_dir("/usr/lib/postgresql")
            .expect("apt-get install postgresql")
            .flatten();
        let programs = versions
            .map(|version| version.path().join("bin"))
            .find(|bin| bin.join("postgres").exists());
        let programs = programs.expect("apt-get install postgresql");
        let home = folder.join("postgres");
        fs::create_dir_all(&home).expect("folder");
        if rustix::process::geteuid().is_root() {
            fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).expect("permissions");
            assert!(
                run(
                    Command::new("chown").arg("postgres").arg(&home),
                    "postgresql"
                )
                .status
                .success()
            );
        }
        let made = run(
            as_postgres(&programs.join("initdb"))
                .args(["-A", "trust", "-U", "saker", "-N", "-D"])
                .arg(home.join("data")),
            "postgresql",
        );
        assert!(
            made.status.success(),
            "{}",
            String::from_utf8_lossy(&made.stderr)
        );
        if let Some(ways) = ways {
            // Written anew in place, so that it stays its owner's.
            fs::write(
                home.join("data/pg_hba.conf"),
                format!("local all all trust\n{ways}\n"),
            )
            .expect("written");
        }
        let settings_given = settings.iter();
        let arguments: Vec<String> = settings_given
            .flat_map(|(name, value)| ["-c".to_owned(), format!("{name}={value}")])
            .chain(["-F".into(), "-k".into(), home.display().to_string()])
            // In its folder, which goes away with the test even if the program is killed.
            .chain(["-c".into(), "dynamic_shared_memory_type=mmap".into()])
            .chain(["-D".into(), home.join("data").display().to_string()])
            .collect();
        let mut command = as_postgres(&programs.join("postgres"));
        command.args(&arguments);
        // Its Unix socket is named after it, too.
        let port = settings
            .iter()
            .find(|(name, _)| *name == "port")
            .map_or("5432", |(_, port)| port)
            .to_owned();
        let database = Postgres {
            process: Running::start(&mut command, "postgresql"),
            folder: home,
            programs,
            port,
            arguments,
        };
        wait_until("PostgreSQL answers", || database.ask("SELECT 1"));
        database
    }

    pub fn url(&self) -> String {
        format!(
            "postgres://saker@localhost/postgres?host={}",
            self.folder.display()
        )
    }

    pub fn end(&mut self) {
        self.process.end();
    }

    /// Ends in order, and at once.
    pub fn stop(&mut self) {
        self.process.signal(Signal::INT);
        let _ = self.process.0.wait();
    }

    /// Starts again with the data that it had.
    pub fn start_again(&mut self) {
        let mut command = as_postgres(&self.programs.join("postgres"));
        self.process = Running::start(command.args(&self.arguments), "postgresql");
        wait_until("PostgreSQL answers", || self.ask("SELECT 1"));
    }

    /// Starts again after these statements, of which no client over TCP sees the middle.
    pub fn start_again_after(&mut self, statements: &str) {
        let mut command = as_postgres(&self.programs.join("postgres"));
        command
            .args(&self.arguments)
            .args(["-c", "listen_addresses="]);
        self.process = Running::start(&mut command, "postgresql");
        wait_until("PostgreSQL answers", || self.ask("SELECT 1"));
        assert!(self.ask(statements), "{statements}");
        self.stop();
        self.start_again();
    }

    /// All its processes stand still, and their connections stay.
    pub fn freeze(&self) {
        self.process.pause();
        for backend in self.backends() {
            // One that has just ended is not there any more.
            let _ = pause_process(backend);
        }
    }

    pub fn thaw(&self) {
        for backend in self.backends().into_iter().map(u32::cast_signed) {
            let _ = kill_process(Pid::from_raw(backend).expect("not 0"), Signal::CONT);
        }
        self.process.signal(Signal::CONT);
    }

    /// The processes that the first one has started.
    fn backends(&self) -> Vec<u32> {
        let first = self.process.0.id();
        let list = format!("/proc/{first}/task/{first}/children");
        let list = fs::read_to_string(list).expect("children");
        list.split_whitespace().flat_map(str::parse).collect()
    }

    /// As libpq has it.
    pub fn words(&self) -> String {
        format!("host={} user=saker dbname=postgres", self.folder.display())
    }

    pub fn ask(&self, statements: &str) -> bool {
        feed(&mut self.psql(), statements, "postgresql")
    }

    /// The first column of all rows.
    pub fn column(&self, statement: &str) -> Vec<String> {
        let mut psql = self.psql();
        let output = run(psql.args(["-A", "-t", "-c", statement]), "postgresql");
        assert!(output.status.success(), "{output:?}");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.lines().map(str::to_owned).collect()
    }

    fn psql(&self) -> Command {
        let mut command = Command::new(self.programs.join("psql"));
        command.args(["-q", "-U", "saker", "-d", "postgres"]);
        command.args(["-v", "ON_ERROR_STOP=1", "-p", &self.port]);
        command.arg("-h").arg(&self.folder);
        command
    }
}

fn as_postgres(program: &Path) -> Command {
    if !rustix::process::geteuid().is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command
        .args([
            "--reuid=postgres",
            "--regid=postgres",
            "--clear-groups",
            "--pdeathsig=KILL",
        ])
        .arg(program);
    command
}

pub struct Sqlite(pub PathBuf);

impl Sqlite {
    pub fn start(folder: &Path) -> Sqlite {
        Sqlite(folder.join("hosts.db"))
    }

    pub fn url(&self) -> String {
        format!("sqlite://{}", self.0.display())
    }

    pub fn ask(&self, statements: &str) -> bool {
        feed(
            Command::new("sqlite3").arg("-bail").arg(&self.0),
            statements,
            "sqlite3",
        )
    }
}

/// A directory whose entries are of a class of their own, below `dc=test`.
pub struct Slapd {
    folder: PathBuf,
    _process: Running,
}

impl Slapd {
    pub fn start(folder: &Path, entries: &str) -> Slapd {
        Slapd::start_with(folder, entries, "", "")
    }

    /// With more of its configuration, and URLs that it listens at besides its Unix socket.
    pub fn start_with(folder: &Path, entries: &str, more: &str, urls: &str) -> Slapd {
        let home = folder.join("ldap");
        fs::create_dir_all(home.join("data")).expect("folder");
        let text = format!(
            "include /etc/ldap/schema/core.schema\nmodulepath /usr/lib/ldap\nmoduleload back_mdb\n\
             attributetype ( 1.1.2.1.1 NAME 'documentRoot' EQUALITY caseExactMatch SYNTAX 1.3.6.1.4.1.1466.115.121.1.15 SINGLE-VALUE )\n\
             attributetype ( 1.1.2.1.2 NAME 'suspended' EQUALITY caseIgnoreMatch SYNTAX 1.3.6.1.4.1.1466.115.121.1.15 SINGLE-VALUE )\n\
             objectclass ( 1.1.2.2.1 NAME 'webHost' SUP top STRUCTURAL MUST cn MAY ( documentRoot $ suspended ) )\n\
             {more}\ndatabase mdb\nsuffix \"dc=test\"\nrootdn \"cn=admin,dc=test\"\nrootpw secret\ndirectory {}\nmaxsize 10485760\n\
             access to * by dn=\"cn=admin,dc=test\" write by * auth\n",
            home.join("data").display()
        );
        fs::write(home.join("slapd.conf"), text).expect("written");
        let base =
            "dn: dc=test\nobjectClass: dcObject\nobjectClass: organization\no: test\ndc: test\n\n";
        let load = || {
            let mut command = Command::new("/usr/sbin/slapadd");
            command.arg("-f").arg(home.join("slapd.conf"));
            command
        };
        assert!(
            feed(&mut load(), &format!("{base}{entries}"), "slapd"),
            "{entries}"
        );
        let url = format!(
            "ldapi://{}",
            home.join("ldap.sock")
                .display()
                .to_string()
                .replace('/', "%2F")
        );
        let mut command = Command::new("/usr/sbin/slapd");
        command.arg("-f").arg(home.join("slapd.conf")).args([
            "-d",
            "0",
            "-h",
            &format!("{url} {urls}"),
        ]);
        let directory = Slapd {
            _process: Running::start(&mut command, "slapd"),
            folder: home,
        };
        wait_until("slapd listens", || {
            std::os::unix::net::UnixStream::connect(directory.folder.join("ldap.sock")).is_ok()
        });
        directory
    }

    pub fn url(&self) -> String {
        format!(
            "ldapi://{}",
            self.folder
                .join("ldap.sock")
                .display()
                .to_string()
                .replace('/', "%2F")
        )
    }
}
