//! Databases of the tests' own: MariaDB, PostgreSQL, SQLite and slapd from Debian's packages, each in a folder and on a Unix socket there.
// Each test program uses its part; a test that fails may say so as it likes.
#![allow(dead_code, clippy::panic)]

use crate::operate::until;
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
        let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Running(quiet.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}: apt-get install {package}")))
    }

    pub fn end(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}

fn run(command: &mut Command, package: &str) -> Output {
    command.output().unwrap_or_else(|error| panic!("{command:?}: {error}: apt-get install {package}"))
}

fn feed(command: &mut Command, input: &str, package: &str) -> bool {
    let quiet = command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = quiet.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}: apt-get install {package}"));
    // A program that ends before it has read everything says so by its status.
    let _ = child.stdin.take().expect("an input").write_all(input.as_bytes());
    child.wait().expect("ended").success()
}

pub struct Mariadb {
    folder: PathBuf,
    process: Running,
}

impl Mariadb {
    pub fn start(folder: &Path) -> Mariadb {
        let made = run(
            Command::new("mariadb-install-db")
                .args(["--no-defaults", "--auth-root-authentication-method=normal", "--skip-test-db", "--user=root"])
                .arg(format!("--datadir={}", folder.join("mysql").display())),
            "mariadb-server",
        );
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let database = Mariadb { process: Mariadb::serve(folder), folder: folder.to_owned() };
        until("MariaDB answers", || database.ask("SELECT 1"));
        assert!(
            database
                .ask("CREATE DATABASE web; CREATE USER saker@localhost IDENTIFIED BY 'secret'; GRANT SELECT ON web.* TO saker@localhost")
        );
        database
    }

    fn serve(folder: &Path) -> Running {
        Running::start(
            Command::new("/usr/sbin/mariadbd")
                .args(["--no-defaults", "--skip-networking", "--user=root", "--innodb-flush-log-at-trx-commit=0"])
                .arg(format!("--datadir={}", folder.join("mysql").display()))
                .arg(format!("--socket={}", folder.join("mysql.sock").display())),
            "mariadb-server",
        )
    }

    pub fn url(&self) -> String {
        format!("mysql://saker:secret@localhost/web?socket={}", self.folder.join("mysql.sock").display())
    }

    pub fn ask(&self, statements: &str) -> bool {
        let socket = format!("--socket={}", self.folder.join("mysql.sock").display());
        feed(Command::new("mariadb").args(["--no-defaults", "-uroot", &socket]), statements, "mariadb-server")
    }

    pub fn end(&mut self) {
        self.process.end();
    }

    pub fn start_again(&mut self) {
        self.process = Mariadb::serve(&self.folder);
        until("MariaDB answers again", || self.ask("SELECT 1"));
    }
}

pub struct Postgres {
    folder: PathBuf,
    programs: PathBuf,
    _process: Running,
}

impl Postgres {
    /// It does not run as root.
    pub fn start(folder: &Path) -> Postgres {
        let versions = fs::read_dir("/usr/lib/postgresql").expect("apt-get install postgresql").flatten();
        let programs = versions.map(|version| version.path().join("bin")).find(|bin| bin.join("postgres").exists());
        let programs = programs.expect("apt-get install postgresql");
        let home = folder.join("postgres");
        fs::create_dir_all(&home).expect("folder");
        if rustix::process::geteuid().is_root() {
            fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).expect("permissions");
            assert!(run(Command::new("chown").arg("postgres").arg(&home), "postgresql").status.success());
        }
        let made = run(
            as_postgres(&programs.join("initdb")).args(["-A", "trust", "-U", "saker", "-N", "-D"]).arg(home.join("data")),
            "postgresql",
        );
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let mut command = as_postgres(&programs.join("postgres"));
        command.args(["-c", "listen_addresses=", "-F", "-k"]).arg(&home).arg("-D").arg(home.join("data"));
        let database = Postgres { _process: Running::start(&mut command, "postgresql"), folder: home, programs };
        until("PostgreSQL answers", || database.ask("SELECT 1"));
        database
    }

    pub fn url(&self) -> String {
        format!("postgres://saker@localhost/postgres?host={}", self.folder.display())
    }

    pub fn ask(&self, statements: &str) -> bool {
        let mut command = Command::new(self.programs.join("psql"));
        feed(
            command.args(["-q", "-U", "saker", "-d", "postgres", "-v", "ON_ERROR_STOP=1", "-h"]).arg(&self.folder),
            statements,
            "postgresql",
        )
    }
}

fn as_postgres(program: &Path) -> Command {
    if !rustix::process::geteuid().is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups", "--pdeathsig=KILL"]).arg(program);
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
        feed(Command::new("sqlite3").arg("-bail").arg(&self.0), statements, "sqlite3")
    }
}

/// A directory whose entries are of a class of their own, below `dc=test`.
pub struct Slapd {
    folder: PathBuf,
    _process: Running,
}

impl Slapd {
    pub fn start(folder: &Path, entries: &str) -> Slapd {
        let home = folder.join("ldap");
        fs::create_dir_all(home.join("data")).expect("folder");
        let text = format!(
            "include /etc/ldap/schema/core.schema\nmodulepath /usr/lib/ldap\nmoduleload back_mdb\n\
             attributetype ( 1.1.2.1.1 NAME 'documentRoot' EQUALITY caseExactMatch SYNTAX 1.3.6.1.4.1.1466.115.121.1.15 SINGLE-VALUE )\n\
             attributetype ( 1.1.2.1.2 NAME 'suspended' EQUALITY caseIgnoreMatch SYNTAX 1.3.6.1.4.1.1466.115.121.1.15 SINGLE-VALUE )\n\
             objectclass ( 1.1.2.2.1 NAME 'webHost' SUP top STRUCTURAL MUST cn MAY ( documentRoot $ suspended ) )\n\
             database mdb\nsuffix \"dc=test\"\nrootdn \"cn=admin,dc=test\"\nrootpw secret\ndirectory {}\nmaxsize 10485760\n\
             access to * by dn=\"cn=admin,dc=test\" write by * auth\n",
            home.join("data").display()
        );
        fs::write(home.join("slapd.conf"), text).expect("written");
        let base = "dn: dc=test\nobjectClass: dcObject\nobjectClass: organization\no: test\ndc: test\n\n";
        let load = || {
            let mut command = Command::new("/usr/sbin/slapadd");
            command.arg("-f").arg(home.join("slapd.conf"));
            command
        };
        assert!(feed(&mut load(), &format!("{base}{entries}"), "slapd"), "{entries}");
        let url = format!("ldapi://{}", home.join("ldap.sock").display().to_string().replace('/', "%2F"));
        let mut command = Command::new("/usr/sbin/slapd");
        command.arg("-f").arg(home.join("slapd.conf")).args(["-d", "0", "-h", &url]);
        let directory = Slapd { _process: Running::start(&mut command, "slapd"), folder: home };
        until("slapd listens", || std::os::unix::net::UnixStream::connect(directory.folder.join("ldap.sock")).is_ok());
        directory
    }

    pub fn url(&self) -> String {
        format!("ldapi://{}", self.folder.join("ldap.sock").display().to_string().replace('/', "%2F"))
    }
}
