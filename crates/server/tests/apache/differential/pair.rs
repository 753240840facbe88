//! Both servers on one configuration: the same text, the same files, the same port, at two loopback
//! addresses.
//!
//! Caveat: the address must not show in responses: they have the requested host, and both servers
//! have one port.

use super::{
    backend,
    case::{Case, Content, Request, Topic},
    digest, over_h3, tls,
};
use crate::operate;
use saker_testkit::{
    Client, Response, ServerProcess, TempDir,
    apache2::{load_modules, module_folder, start_apache2, unprivileged_user},
    free_port, require,
};
use std::{
    cell::RefCell,
    fs, io,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    os::unix::fs::{PermissionsExt, symlink},
    path::Path,
    process::Command,
    time::{Duration, SystemTime},
};

pub struct Pair {
    dir: TempDir,
    tls: bool,
    apache: ServerProcess,
    saker: ServerProcess,
    /// Tokens that each of the two has sent last.
    tokens: [RefCell<Tokens>; 2],
}

/// The last Lock-Token, and the last cookie.
#[derive(Default)]
struct Tokens {
    lock: String,
    cookie: String,
}

const APACHE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const SAKER: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));
/// In the order in which they are loaded, which is the order in which they are asked.
const MODULES: &[&str] = &[
    "mpm_event",
    "authn_file",
    "authn_core",
    "authn_anon",
    "authn_dbm",
    "dbd",
    "authn_dbd",
    "authn_socache",
    "authz_core",
    "authz_host",
    "authz_groupfile",
    "authz_user",
    "authz_owner",
    "authz_dbm",
    "authz_dbd",
    "access_compat",
    "auth_basic",
    "auth_digest",
    "socache_shmcb",
    "allowmethods",
    "reqtimeout",
    "filter",
    "deflate",
    "brotli",
    "include",
    "substitute",
    "ratelimit",
    "sed",
    "data",
    "buffer",
    "ext_filter",
    "mime",
    "mime_magic",
    "env",
    "setenvif",
    "headers",
    "expires",
    "unique_id",
    "usertrack",
    "remoteip",
    "status",
    "info",
    "autoindex",
    "asis",
    "negotiation",
    "dir",
    "actions",
    "speling",
    "userdir",
    "cgid",
    "alias",
    "rewrite",
    "vhost_alias",
    "macro",
    "ssl",
];
/// Another program may take the port between `free_port` and the second server's bind.
const ATTEMPTS: usize = 3;
/// Files look as if they had been there for a while, so that validators are strong.
const AGE: Duration = Duration::from_secs(86_400);

impl Pair {
    pub fn start(topic: &Topic) -> Result<Pair, String> {
        let dir =
            TempDir::new(&format!("apache-{}", topic.name)).map_err(|error| error.to_string())?;
        write_files(&dir, topic).map_err(|error| error.to_string())?;
        if topic.tls {
            tls::certificates(&dir).map_err(|error| error.to_string())?;
        }
        let mut attempt = 1;
        loop {
            match start_both(&dir, topic) {
                Ok((apache, saker)) => {
                    return Ok(Pair {
                        dir,
                        tls: topic.tls,
                        apache,
                        saker,
                        tokens: Default::default(),
                    });
                }
                Err(_) if attempt < ATTEMPTS => attempt += 1,
                Err(complaint) => return Err(complaint.to_string()),
            }
        }
    }

    pub fn ask_apache(&self, case: &Case, request: &Request) -> Result<Response, String> {
        self.ask_with_token(self.apache.address(), case, request, &self.tokens[0])
    }

    pub fn ask_saker(&self, case: &Case, request: &Request) -> Result<Response, String> {
        self.ask_with_token(self.saker.address(), case, request, &self.tokens[1])
    }

    /// Asks with `{token}` and `{cookie}` replaced, and remembers new ones.
    fn ask_with_token(
        &self,
        address: SocketAddr,
        case: &Case,
        request: &Request,
        tokens: &RefCell<Tokens>,
    ) -> Result<Response, String> {
        let mut request = request.clone();
        if let Some(credentials) = request.option("digest").map(str::to_owned) {
            let unproven = Request {
                options: Vec::new(),
                ..request.clone()
            };
            let challenged = self.ask(address, case, &unproven)?;
            let proof = digest::authorization(&challenged, &request, &credentials)?;
            request.fields.push(("Authorization".into(), proof));
        }
        for (_, value) in &mut request.fields {
            let known = tokens.borrow();
            *value = value
                .replace("{token}", &known.lock)
                .replace("{cookie}", &known.cookie);
        }
        let response = self.ask(address, case, &request);
        if let Ok(response) = &response
            && let Some(given) = response.field("lock-token")
        {
            given.clone_into(&mut tokens.borrow_mut().lock);
        }
        if let Ok(response) = &response
            && let Some(given) = response.field("set-cookie")
        {
            let pair = given.split(';').next().unwrap_or_default();
            pair.clone_into(&mut tokens.borrow_mut().cookie);
        }
        response
    }

    /// Differences of Saker's answer over HTTP/3 from apache2's over TCP, in TLS topics.
    pub fn differences_over_h3(
        &self,
        apache: &Result<Response, String>,
        case: &Case,
        request: &Request,
    ) -> Vec<String> {
        match self.tls {
            true => over_h3::differences(apache, self.saker.address(), &self.dir, case, request),
            false => Vec::new(),
        }
    }

    /// On a connection of its own: some answers end it.
    fn ask(&self, address: SocketAddr, case: &Case, request: &Request) -> Result<Response, String> {
        if self.tls {
            let mut connection = tls::Connection::open(address, &self.dir, case, request)
                .map_err(|error| error.to_string())?;
            // How openssl tells of a refusal depends on what it sees first.
            return exchange(&mut connection.client, address, case, request)
                .map_err(|_| "no handshake".to_owned());
        }
        let client = Client::connect(address).map_err(|error| error.to_string());
        exchange(&mut client?, address, case, request).map_err(|error| error.to_string())
    }

    /// Error logs of both.
    pub fn logs(&self) -> String {
        let apache = fs::read_to_string(self.dir.join("apache/error.log")).unwrap_or_default();
        let saker = fs::read_to_string(self.dir.join("saker/error.log")).unwrap_or_default();
        let last = |text: &str| {
            text.lines()
                .rev()
                .take(12)
                .map(|line| format!("    {line}\n"))
                .collect::<Vec<_>>()
                .into_iter()
                .rev()
                .collect::<String>()
        };
        format!(
            "  apache2's log:\n{}  saker's log:\n{}  saker's standard error:\n{}",
            last(&apache),
            last(&saker),
            last(&self.saker.stderr())
        )
    }
}

fn start_both(dir: &TempDir, topic: &Topic) -> io::Result<(ServerProcess, ServerProcess)> {
    let port = free_port()?;
    let (apache, saker) = (
        configuration(dir, topic, "apache", SocketAddr::new(APACHE, port))?,
        configuration(dir, topic, "saker", SocketAddr::new(SAKER, port))?,
    );
    let apache = start_apache2(&apache, SocketAddr::new(APACHE, port))?;
    let saker = operate::apache("")
        .existing_file(saker)
        .state_dir("{dir}/saker/state")
        .at(SocketAddr::new(SAKER, port))
        .try_start_in(dir)?;
    Ok((apache, saker))
}

/// Writes the server's own file and one per host; what is the server's is the same but for the
/// address and the folder of logs.
fn configuration(
    dir: &TempDir,
    topic: &Topic,
    server: &str,
    address: SocketAddr,
) -> io::Result<std::path::PathBuf> {
    let (root, port) = (dir.display(), address.port());
    let mut text = format!("ServerRoot {root}\nServerName server.test\nListen {address}\n");
    // apache2 has no page cache to tell programs about.
    text.push_str("<IfModule LiteSpeed>\nCacheEngine off\n</IfModule>\n");
    text.push_str(&load_modules(MODULES));
    text.push_str(unprivileged_user());
    text.push_str(&format!(
        "PidFile {root}/{server}/pid\nDefaultRuntimeDir {root}/{server}\nErrorLog {root}/{server}/error.log\nLogLevel warn\nTypesConfig {root}/mime.types\n\
         KeepAlive On\n<Directory {root}>\n    AllowOverride All\n</Directory>\n"
    ));
    for name in ["cache", "own"] {
        let folder = dir.join(server).join(name);
        fs::create_dir_all(&folder)?;
        // Writable for whatever user the server becomes.
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o777))?;
    }
    let server_text = topic
        .server
        .replace("{modules}", module_folder())
        .replace("{server}", server);
    text.push_str(&filled(&server_text, dir, Path::new(""), port));
    // What no host claims.
    text.push_str(&format!("DocumentRoot {root}\n"));
    for case in &topic.cases {
        let documents = dir.join(&case.name);
        let file = format!("{server}/{}.conf", case.name);
        let own = dir.join(server).join("own");
        let conf = case.conf.replace("{own}", &own.to_string_lossy());
        let conf = filled(&conf, dir, &documents, port);
        let named = if has(&conf, "ServerName") {
            String::new()
        } else {
            format!("ServerName {}.test\n", case.name)
        };
        let rooted = if has(&conf, "DocumentRoot") {
            String::new()
        } else {
            format!("DocumentRoot {}\n", documents.display())
        };
        let encrypted = if topic.tls {
            format!(
                "SSLEngine on\nSSLCertificateFile {root}/tls/site.pem\nSSLCertificateKeyFile {root}/tls/site.key\n"
            )
        } else {
            String::new()
        };
        dir.write(
            &file,
            format!("<VirtualHost *:{port}>\n{named}{rooted}{encrypted}{conf}</VirtualHost>\n"),
        )?;
        text.push_str(&format!("Include {file}\n"));
    }
    dir.write(&format!("{server}/httpd.conf"), text)
}

fn has(conf: &str, directive: &str) -> bool {
    conf.lines()
        .any(|line| line.trim_start().starts_with(directive))
}

fn filled(text: &str, dir: &Path, root: &Path, port: u16) -> String {
    let text = text
        .replace("{root}", &root.to_string_lossy())
        .replace("{dir}", &dir.to_string_lossy())
        .replace("{port}", &port.to_string());
    backend::fill(text)
}

fn write_files(dir: &TempDir, topic: &Topic) -> io::Result<()> {
    dir.write("mime.types", include_str!("mime.types"))?;
    for case in &topic.cases {
        let root = dir.join(&case.name);
        fs::create_dir_all(&root)?;
        for (path, content) in &case.files {
            let path = format!("{}/{path}", case.name);
            match content {
                Content::Text(text) => drop(aged(dir.write(&path, filled(text, dir, &root, 0))?)?),
                Content::Mode(mode, text) => {
                    let path = aged(dir.write(&path, filled(text, dir, &root, 0))?)?;
                    fs::set_permissions(path, fs::Permissions::from_mode(*mode))?;
                }
                Content::Bytes(bytes) => drop(aged(dir.write(&path, bytes)?)?),
                Content::Database(kind, text) => {
                    write_database(dir, &path, kind, &filled(text, dir, &root, 0))?
                }
                Content::Sqlite(text) => write_sqlite(dir, &path, &filled(text, dir, &root, 0))?,
                Content::Directory => fs::create_dir_all(dir.join(&path))?,
                Content::Link(target) => {
                    let path = dir.join(&path);
                    path.parent().map_or(Ok(()), fs::create_dir_all)?;
                    symlink(filled(target, dir, &root, 0), path)?;
                }
            }
        }
    }
    Ok(())
}

/// With apache2's own program; those of some kinds are two files.
fn write_database(dir: &TempDir, path: &str, kind: &str, text: &str) -> io::Result<()> {
    let source = dir.write(&format!("{path}.source"), text)?;
    let mut command = Command::new(require("httxt2dbm").map_err(io::Error::other)?);
    let output = command
        .args(["-f", kind, "-i"])
        .arg(source)
        .arg("-o")
        .arg(dir.join(path))
        .output()?;
    if !output.status.success() {
        return Err(io::Error::other(format!(
            "{path}: {}",
            String::from_utf8_lossy(&output.stderr)
        )));
    }
    for file in ["", ".pag", ".dir"]
        .map(|ending| dir.join(format!("{path}{ending}")))
        .into_iter()
        .filter(|file| file.exists())
    {
        // It is private to its owner, and apache2 has changed its user by then.
        fs::set_permissions(file, fs::Permissions::from_mode(0o644))?;
    }
    Ok(())
}

/// Both servers write to it, as different users: it is in a folder of its own, since SQLite creates
/// files beside it.
fn write_sqlite(dir: &TempDir, path: &str, text: &str) -> io::Result<()> {
    let source = dir.write(&format!("{path}.source"), text)?;
    let database = dir.join(path);
    let output = Command::new(require("sqlite3").map_err(io::Error::other)?)
        .arg(&database)
        .stdin(fs::File::open(source)?)
        .output()?;
    if !output.status.success() {
        return Err(io::Error::other(format!(
            "{path}: {}",
            String::from_utf8_lossy(&output.stderr)
        )));
    }
    fs::set_permissions(&database, fs::Permissions::from_mode(0o666))?;
    database.parent().map_or(Ok(()), |folder| {
        fs::set_permissions(folder, fs::Permissions::from_mode(0o777))
    })
}

fn aged(path: std::path::PathBuf) -> io::Result<std::path::PathBuf> {
    fs::File::options()
        .append(true)
        .open(&path)?
        .set_modified(SystemTime::now() - AGE)?;
    Ok(path)
}

/// An interim response as a field of the one that follows, by which it is compared.
fn as_field(response: &Response) -> (String, String) {
    let mut fields: Vec<String> = response
        .fields
        .iter()
        .map(|(name, value)| format!("{name}: {value}"))
        .collect();
    fields.sort();
    let text = format!("{} {}", response.status, fields.join("; "));
    ("interim".into(), text)
}

fn exchange(
    client: &mut Client,
    address: SocketAddr,
    case: &Case,
    request: &Request,
) -> io::Result<Response> {
    client.set_timeout(Duration::from_secs(5))?;
    let target = backend::fill(
        request
            .target
            .replace("{port}", &address.port().to_string()),
    );
    let mut text = format!("{} {target} HTTP/1.1\r\n", request.method);
    let has_host = request
        .fields
        .iter()
        .any(|(name, _)| name.eq_ignore_ascii_case("host"));
    if !has_host && !request.hostless {
        text.push_str(&format!("Host: {}.test:{}\r\n", case.name, address.port()));
    }
    if request.chunked {
        text.push_str("Transfer-Encoding: chunked\r\n");
    }
    for (name, value) in &request.fields {
        text.push_str(&format!(
            "{name}: {}\r\n",
            value.replace("{port}", &address.port().to_string())
        ));
    }
    if let Some(body) = request.body.as_ref().filter(|_| !request.chunked) {
        text.push_str(&format!("Content-Length: {}\r\n", body.len()));
    }
    text.push_str("\r\n");
    let body = request.body.as_deref().unwrap_or_default();
    match request.chunked {
        true => text.push_str(&format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len())),
        false => text.push_str(body),
    }
    client.send(text)?;
    let mut interim = Vec::new();
    loop {
        let mut response = if request.method == "HEAD" {
            client.read_head_response()?
        } else {
            client.read_response()?
        };
        if response.status >= 200 {
            response.fields.extend(interim);
            return Ok(response);
        }
        interim.push(as_field(&response));
    }
}
