//! Starts what a subject needs: its backends, the reference server, and Saker.
//!
//! Called by: `run`.
//! Caveat: in configurations `{address}`, `{port}` and `{ip}` are the server's own; `{dir}` is the
//! folder that `prepare` fills, `{case}` that of the subject, `{php}` php-fpm, and `{NAME}` the
//! address of a backend (`{NAME_port}` its port).
//! Out of scope: the requests.

use crate::operate;
use saker_testkit::{
    ServerProcess, TempDir,
    apache2::{load_modules, start_apache2, unprivileged_user},
    free_port, require,
};
use std::{
    fs,
    io::{self, Read as _, Write as _},
    net::{Ipv4Addr, SocketAddr, TcpStream},
    path::{Path, PathBuf},
    process::Command,
};

/// Configuration files of reference servers, by which a subject says which one it is.
pub const REFERENCES: &[&str] = &[
    "nginx.conf",
    "apache.conf",
    "lighttpd.conf",
    "haproxy.cfg",
    "Caddyfile",
    "default.vcl",
];

const MODULES: &[&str] = &[
    "mpm_event",
    "authn_file",
    "authn_core",
    "authz_core",
    "authz_host",
    "authz_user",
    "auth_basic",
    "access_compat",
    "reqtimeout",
    "filter",
    "deflate",
    "mime",
    "env",
    "setenvif",
    "headers",
    "expires",
    "autoindex",
    "negotiation",
    "dir",
    "cgid",
    "alias",
    "rewrite",
    "proxy",
    "proxy_fcgi",
    "proxy_http",
    "dav",
    "dav_fs",
];

/// Names and their values in configurations.
#[derive(Clone, Debug, Default)]
pub struct Words(pub Vec<(String, String)>);

impl Words {
    pub fn add(&mut self, name: &str, value: impl ToString) {
        self.0.push((format!("{{{name}}}"), value.to_string()));
    }

    pub fn fill(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, (name, value)| {
            text.replace(name, value)
        })
    }

    fn at(&self, address: SocketAddr) -> Words {
        let mut words = self.clone();
        words.add("address", address);
        words.add("port", address.port());
        words.add("ip", address.ip());
        words
    }
}

/// Starts the programs of the `backends` file, one a line (name and command), and php-fpm where a
/// configuration mentions it.
pub fn start_backends(
    dir: &TempDir,
    case: &Path,
    words: &mut Words,
    texts: &[&str],
) -> Vec<ServerProcess> {
    let mut servers = Vec::new();
    if texts.iter().any(|text| text.contains("{php}")) {
        let server = php_fpm(dir).unwrap_or_else(|error| panic!("php-fpm: {error}"));
        words.add("php", server.address());
        words.add("php_port", server.address().port());
        servers.push(server);
    }
    let lines = fs::read_to_string(case.join("backends")).unwrap_or_default();
    for line in lines.lines().filter(|line| !line.starts_with('#')) {
        let Some((name, command)) = line.split_once(' ') else {
            continue;
        };
        let server = ServerProcess::start_on_free_port(|port| {
            let mut words = words.clone();
            words.add("port", port);
            let mut shell = Command::new("bash");
            shell
                .args(["-c", &format!("exec {}", words.fill(command))])
                .current_dir(dir)
                .env("HOME", dir.as_os_str());
            shell
        });
        let server = server.unwrap_or_else(|error| panic!("{name}: {error}"));
        words.add(name, server.address());
        words.add(&format!("{name}_port"), server.address().port());
        servers.push(server);
    }
    servers
}

/// Both servers on the same port.
pub fn start_both(
    dir: &TempDir,
    words: &Words,
    reference: (&str, &str),
    saker: &str,
) -> (ServerProcess, ServerProcess) {
    /// Another program may take the port between `free_port` and the second server's bind.
    const ATTEMPTS: usize = 3;
    let mut attempt = 1;
    loop {
        let port = free_port().unwrap();
        let addresses = (
            SocketAddr::from((Ipv4Addr::LOCALHOST, port)),
            SocketAddr::from((Ipv4Addr::new(127, 0, 0, 2), port)),
        );
        let started = start_reference(dir, words, reference, addresses.0)
            .and_then(|first| Ok((first, start_saker(dir, words, saker, addresses.1)?)));
        match started {
            Ok(servers) => return servers,
            Err(error) if attempt == ATTEMPTS => panic!("{error}"),
            Err(_) => attempt += 1,
        }
    }
}

fn start_saker(
    dir: &TempDir,
    words: &Words,
    text: &str,
    address: SocketAddr,
) -> io::Result<ServerProcess> {
    saker_at(dir, "saker", &words.at(address).fill(text), address)
}

fn saker_at(
    dir: &TempDir,
    name: &str,
    text: &str,
    address: SocketAddr,
) -> io::Result<ServerProcess> {
    // A stream listens by itself.
    let listener = match text.contains("[[stream]]") {
        true => "",
        false => "[[listener]]\naddress = \"{address}\"\n\n",
    };
    let text =
        format!("[server]\nworkers = 1\nstate_dir = \"{{dir}}/{name}-state\"\n\n{listener}{text}");
    operate::native(&text)
        .file(format!("{name}.toml"))
        .at(address)
        .try_start_in(dir)
}

/// nginx, and Saker with nginx's configuration.
pub fn start_both_as_nginx(
    dir: &TempDir,
    words: &Words,
    text: &str,
) -> (ServerProcess, ServerProcess) {
    let port = free_port().unwrap();
    let first = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let second = SocketAddr::from((Ipv4Addr::new(127, 0, 0, 2), port));
    let reference = start_reference(dir, words, ("nginx.conf", text), first).unwrap();
    let own = words.at(second).fill(text);
    let own = nginx(dir, &own).replace("/nginx.pid", "/saker.pid");
    let file = dir.join("reference/saker.conf");
    fs::write(&file, own).unwrap();
    let mut command = Command::new(operate::SAKER);
    command
        .args(["run", "--workers", "1", "--nginx"])
        .arg(&file)
        .arg("--state-dir")
        .arg(dir.join("nginx-state"));
    let saker = ServerProcess::start(&mut command, second).unwrap();
    (reference, saker)
}

fn start_reference(
    dir: &TempDir,
    words: &Words,
    (name, text): (&str, &str),
    address: SocketAddr,
) -> io::Result<ServerProcess> {
    let words = words.at(address);
    let text = words.fill(text);
    fs::create_dir_all(dir.join("reference"))?;
    let file = dir.join("reference").join(name);
    let program = |name: &str| require(name).map(Command::new).map_err(io::Error::other);
    let mut command = match name {
        "nginx.conf" => {
            fs::write(&file, nginx(dir, &text))?;
            let mut command = program("nginx")?;
            command
                .arg("-p")
                .arg(dir.join("reference"))
                .arg("-c")
                .arg(&file)
                .args(["-e", "stderr"]);
            command
        }
        "apache.conf" => {
            fs::write(&file, apache(dir, address, &text))?;
            return start_apache2(&file, address);
        }
        "lighttpd.conf" => {
            fs::write(&file, lighttpd(dir, address, &text))?;
            let mut command = program("lighttpd")?;
            command.arg("-D").arg("-f").arg(&file);
            command
        }
        "haproxy.cfg" => {
            fs::write(&file, text)?;
            let mut command = program("haproxy")?;
            command.arg("-db").arg("-f").arg(&file);
            command
        }
        "Caddyfile" => {
            fs::write(
                &file,
                format!(
                    "{{\n\tdefault_bind {}\n\tadmin off\n\tauto_https off\n}}\n{text}",
                    address.ip()
                ),
            )?;
            let mut command = program("caddy")?;
            command
                .args(["run", "--adapter", "caddyfile", "--config"])
                .arg(&file)
                .env("HOME", dir.as_os_str())
                .env("GOMAXPROCS", "1");
            command
        }
        "default.vcl" => {
            fs::write(&file, text)?;
            let mut command = program("varnishd")?;
            command
                .args([
                    "-F",
                    "-j",
                    "none",
                    "-s",
                    "malloc,32m",
                    "-a",
                    &address.to_string(),
                    "-f",
                ])
                .arg(&file)
                .arg("-n")
                .arg(dir.join("reference/varnish"));
            command
        }
        // Debian lacks the other server: statuses and texts of the requests file were written by hand.
        _ => {
            return saker_at(dir, "reference", &text, address);
        }
    };
    ServerProcess::start(&mut command, address)
}

pub fn php_fpm(dir: &TempDir) -> io::Result<ServerProcess> {
    let program = fs::read_dir("/usr/sbin")?
        .flatten()
        .map(|entry| entry.path())
        .find(|path| path.to_string_lossy().starts_with("/usr/sbin/php-fpm"))
        .ok_or_else(|| io::Error::other("apt-get install php-fpm"))?;
    ServerProcess::start_on_free_port(|port| {
        let user = match rustix::process::geteuid().is_root() {
            true => "user = www-data\ngroup = www-data\n",
            false => "",
        };
        let text = format!(
            "[global]\nerror_log = {dir}/php-fpm.log\ndaemonize = no\n[www]\n{user}listen = 127.0.0.1:{port}\n\
             pm = static\npm.max_children = 3\ncatch_workers_output = yes\nclear_env = no\n\
             php_admin_value[display_errors] = off\nphp_admin_value[session.save_path] = {dir}/sessions\n",
            dir = dir.display()
        );
        let file = dir
            .write("php-fpm.conf", text)
            .unwrap_or_else(|_| PathBuf::new());
        let mut command = Command::new(&program);
        command.arg("-F").arg("-y").arg(file).arg("-O");
        command
    })
}

/// A memcached with some values: `KEY VALUE`, one a line.
///
/// # Errors
/// It is not installed, or does not start.
pub fn memcached(values: &[(&str, &str)]) -> io::Result<ServerProcess> {
    let program = saker_testkit::require("memcached").map_err(io::Error::other)?;
    let server = ServerProcess::start_on_free_port(|port| {
        let mut command = Command::new(&program);
        command.args(["-u", "nobody", "-l", "127.0.0.1", "-p", &port.to_string()]);
        command
    })?;
    let mut stream = TcpStream::connect(server.address())?;
    for (key, value) in values {
        // The second bit says that the value is compressed.
        let flags = if key.starts_with("/zipped") { 2 } else { 0 };
        write!(stream, "set {key} {flags} 0 {}\r\n{value}\r\n", value.len())?;
        let mut stored = [0; 8];
        stream.read_exact(&mut stored)?;
    }
    Ok(server)
}

pub fn nginx(dir: &TempDir, text: &str) -> String {
    let user = match rustix::process::geteuid().is_root() {
        true => "user www-data;\n",
        false => "",
    };
    let folders: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .iter()
        .map(|name| format!("    {name}_temp_path {}/reference/{name};\n", dir.display()))
        .collect();
    format!(
        "daemon off;\n{user}worker_processes 1;\npid {}/reference/nginx.pid;\nevents {{ worker_connections 256; }}\n\
         http {{\n    access_log off;\n    include /etc/nginx/mime.types;\n    default_type application/octet-stream;\n{folders}{text}\n}}\n",
        dir.display()
    )
}

fn apache(dir: &TempDir, address: SocketAddr, text: &str) -> String {
    let root = dir.display();
    format!(
        "ServerRoot {root}\nServerName app.test\nListen {address}\n{}{}PidFile {root}/reference/pid\n\
         DefaultRuntimeDir {root}/reference\nScriptSock {root}/reference/cgid\nErrorLog {root}/reference/error.log\n\
         TypesConfig /etc/mime.types\nDavLockDB {root}/reference/DavLock\n\
         StartServers 1\nServerLimit 1\nThreadsPerChild 16\nMaxRequestWorkers 16\n{text}\n",
        load_modules(MODULES),
        unprivileged_user(),
    )
}

fn lighttpd(dir: &TempDir, address: SocketAddr, text: &str) -> String {
    let user = match rustix::process::geteuid().is_root() {
        true => "server.username = \"www-data\"\nserver.groupname = \"www-data\"\n",
        false => "",
    };
    format!(
        "server.port = {}\nserver.bind = \"{}\"\n{user}server.upload-dirs = (\"{}\")\n\
         include_shell \"/usr/share/lighttpd/create-mime.conf.pl\"\n{text}\n",
        address.port(),
        address.ip(),
        dir.display()
    )
}
