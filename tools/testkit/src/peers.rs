//! The servers that Saker is compared with, tuned as their experts would for static files on one
//! core.
//!
//! Each function returns a whole configuration; nothing of the distribution's defaults is read.
//! Logs are off, sendfile and file caches on, keep-alive as long as the load lasts. With a
//! certificate they speak TLS 1.2 and 1.3, HTTP/2 and HTTP/1.1, keep no session cache beside the
//! tickets, and hand out one ticket per handshake where OpenSSL would two. Absent on purpose:
//! starting what stands behind them; kernel TLS, which none of them switches on by itself.

mod apache;
mod caddy;
mod haproxy;
mod setting;

pub use setting::{KEPT, PeerSetting, PeerSite, PeerTls, SESSION_COOKIE};

use crate::{ServerProcess, require};
use apache::Mpm;
use rustix::process::{Resource, getrlimit};
use std::{
    fmt, fs, io,
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    process::Command,
};

/// Enough for every row of the bench.
const DESCRIPTORS_MAX: u64 = 40_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Peer {
    Nginx,
    Lighttpd,
    H2o,
    /// With the event MPM.
    Apache,
    ApacheWorker,
    /// With PHP inside.
    ApachePrefork,
    /// For pages that are kept alone.
    Varnish,
    /// For servers behind it alone.
    Haproxy,
    /// For HTTP/3 before all.
    Caddy,
}

impl Peer {
    /// Those that serve files and everything else.
    pub const ALL: [Peer; 6] = [
        Peer::Nginx,
        Peer::Lighttpd,
        Peer::H2o,
        Peer::Apache,
        Peer::ApacheWorker,
        Peer::ApachePrefork,
    ];
    pub const SPECIAL: [Peer; 3] = [Peer::Varnish, Peer::Haproxy, Peer::Caddy];

    pub fn name(self) -> &'static str {
        match self {
            Peer::Nginx => "nginx",
            Peer::Lighttpd => "lighttpd",
            Peer::H2o => "h2o",
            Peer::Apache => "apache",
            Peer::ApacheWorker => "apache-worker",
            Peer::ApachePrefork => "apache-prefork",
            Peer::Varnish => "varnish",
            Peer::Haproxy => "haproxy",
            Peer::Caddy => "caddy",
        }
    }

    pub fn program(self) -> &'static str {
        match self {
            Peer::Apache | Peer::ApacheWorker | Peer::ApachePrefork => "apache2",
            Peer::Varnish => "varnishd",
            other => other.name(),
        }
    }

    /// Version that the program reports.
    pub fn version(self) -> Result<String, String> {
        let flag = match self {
            Peer::H2o => "--version",
            Peer::Varnish => "-V",
            Peer::Caddy => "version",
            _ => "-v",
        };
        let output = Command::new(require(self.program())?)
            .arg(flag)
            .output()
            .map_err(|error| error.to_string())?;
        let said = [output.stdout, output.stderr].concat();
        Ok(String::from_utf8_lossy(&said)
            .lines()
            .next()
            .unwrap_or_default()
            .to_owned())
    }

    pub fn configuration(self, setting: PeerSetting<'_>) -> String {
        match self {
            Peer::Nginx => nginx(setting),
            Peer::Lighttpd => lighttpd(setting),
            Peer::H2o => h2o(setting),
            Peer::Apache => apache::configuration(setting, Mpm::Event),
            Peer::ApacheWorker => apache::configuration(setting, Mpm::Worker),
            Peer::ApachePrefork => apache::configuration(setting, Mpm::Prefork),
            Peer::Haproxy => haproxy::configuration(setting),
            Peer::Varnish => varnish(setting),
            Peer::Caddy => caddy::configuration(setting),
        }
    }

    /// The command that runs it in the foreground. Writes the configuration.
    pub fn command(self, setting: PeerSetting<'_>) -> io::Result<Command> {
        let program = require(self.program())
            .map_err(|complaint| io::Error::new(io::ErrorKind::NotFound, complaint))?;
        let file = setting.work.join(format!("{}.conf", self.name()));
        fs::write(&file, self.configuration(setting))?;
        let mut command = Command::new(&program);
        match self {
            Peer::ApachePrefork => {
                command = in_group_of_its_own(&program);
                command.arg("-f").arg(&file).arg("-DFOREGROUND")
            }
            Peer::Nginx => command
                .arg("-p")
                .arg(setting.work)
                .arg("-c")
                .arg(&file)
                .args(["-e", "stderr"]),
            Peer::Lighttpd if matches!(setting.site, PeerSite::Logged { workers: 2.., .. }) => {
                command = in_group_of_its_own(&program);
                command.arg("-D").arg("-f").arg(&file)
            }
            Peer::Lighttpd => command.arg("-D").arg("-f").arg(&file),
            Peer::H2o => command
                .arg("-m")
                .arg("worker")
                .arg("-c")
                .arg(&file)
                .env("OPENSSL_CONF", one_ticket(setting.work)?),
            Peer::Apache | Peer::ApacheWorker => command.arg("-f").arg(&file).arg("-DFOREGROUND"),
            Peer::Varnish => varnish_arguments(&mut command, setting, &file),
            Peer::Haproxy => {
                haproxy::write_bundle(setting)?;
                command.arg("-db").arg("-f").arg(&file)
            }
            // Every server gets one core.
            Peer::Caddy => command
                .args(["run", "--adapter", "caddyfile", "--config"])
                .arg(&file)
                .env("GOMAXPROCS", "1")
                .env("HOME", setting.work),
        };
        Ok(command)
    }

    /// Starts it on a free port and waits until it accepts.
    pub fn start(self, root: &Path, work: &Path) -> io::Result<ServerProcess> {
        let port = crate::free_port()?;
        let mut command = self.command(PeerSetting {
            root,
            host: Ipv4Addr::LOCALHOST,
            port,
            work,
            tls: None,
            site: PeerSite::Files,
        })?;
        ServerProcess::start(&mut command, SocketAddr::from(([127, 0, 0, 1], port)))
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// For those that send TERM to their whole process group when they end, which would be ours.
fn in_group_of_its_own(program: &Path) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "TERM", "setsid"]).arg(program);
    command
}

/// A server started as root gives up its rights, and could then not read a folder that only root
/// may: it stays root here.
fn as_root(line: &str) -> &str {
    if rustix::process::geteuid().is_root() {
        line
    } else {
        ""
    }
}

fn descriptors() -> u64 {
    getrlimit(Resource::Nofile)
        .maximum
        .map_or(DESCRIPTORS_MAX, |hard| hard.min(DESCRIPTORS_MAX))
}

/// h2o has no word of its own for the number of tickets; OpenSSL's own configuration has.
fn one_ticket(work: &Path) -> io::Result<PathBuf> {
    let file = work.join("openssl.cnf");
    fs::write(
        &file,
        "openssl_conf = top\n[top]\nssl_conf = ssl\n[ssl]\nsystem_default = all\n[all]\nNumTickets = 1\n",
    )?;
    Ok(file)
}

fn nginx(
    PeerSetting {
        root,
        host,
        port,
        work,
        tls,
        site,
    }: PeerSetting<'_>,
) -> String {
    let (upstream, location) = nginx_site(site, work);
    let (workers, log) = match site {
        PeerSite::Logged { log, workers } => (workers, format!("{} combined", log.display())),
        _ => (1, "off".to_owned()),
    };
    let (root, work) = (root.display(), work.display());
    let (user, descriptors) = (as_root("user root;"), descriptors());
    let (listen, tls) = tls.map_or(("", String::new()), |PeerTls { chain, key }| {
        let (chain, key) = (chain.display(), key.display());
        let files = format!("    ssl_certificate {chain};\n    ssl_certificate_key {key};\n");
        (
            " ssl http2",
            files + "    ssl_protocols TLSv1.2 TLSv1.3;\n    ssl_ecdh_curve X25519:prime256v1;\n    ssl_conf_command NumTickets 1;\n",
        )
    });
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .iter()
        .map(|kind| format!("    {kind}_temp_path {work}/{kind};\n"))
        .collect();
    format!(
        "daemon off;
{user}
worker_processes {workers};
worker_rlimit_nofile {descriptors};
pid {work}/nginx.pid;
error_log stderr crit;
events {{ worker_connections 16384; use epoll; multi_accept on; }}
http {{
    types {{ text/html html; text/css css; application/javascript js; image/png png; image/jpeg jpg; image/svg+xml svg; video/x-flv flv; }}
    default_type application/octet-stream;
    access_log {log};
    server_tokens off;
    sendfile on;
    tcp_nopush on;
    tcp_nodelay on;
    keepalive_timeout 300s;
    keepalive_requests 1000000000;
    reset_timedout_connection on;
    open_file_cache max=10000 inactive=300s;
    open_file_cache_valid 300s;
    open_file_cache_min_uses 1;
    open_file_cache_errors on;
{tls}{temporary}{upstream}    server {{ listen {host}:{port}{listen} backlog=4096; root {root}; index index.html; {location} }}
}}
"
    )
}

fn nginx_site(site: PeerSite<'_>, work: &Path) -> (String, String) {
    let upstream =
        |server: String| format!("    upstream behind {{ server {server}; keepalive {KEPT}; }}\n");
    match site {
        PeerSite::Files
        | PeerSite::Htaccess
        | PeerSite::Logged { .. }
        | PeerSite::StoreBehind { .. } => Default::default(),
        PeerSite::Paced { bytes_per_s } => (String::new(), format!("limit_rate {bytes_per_s};")),
        PeerSite::Permalinks => (
            String::new(),
            "location /blog/ { try_files $uri $uri/ /blog/index.html; }".to_owned(),
        ),
        PeerSite::Store { socket } => {
            let (upstream, location) = nginx_site(PeerSite::Php { socket }, work);
            let zone = format!(
                "    fastcgi_cache_path {}/store levels=1:2 keys_zone=store:64m max_size=4g inactive=1h use_temp_path=off;\n",
                work.display()
            );
            let kept = format!(
                "fastcgi_cache store; fastcgi_cache_key $host$request_uri; fastcgi_cache_lock on; fastcgi_cache_bypass $cookie_{SESSION_COOKIE}; \
                 fastcgi_no_cache $cookie_{SESSION_COOKIE}; }}"
            );
            (
                zone + &upstream,
                location.trim_end_matches('}').to_owned() + &kept,
            )
        }
        PeerSite::Php { socket } => {
            let parameters: String = FASTCGI
                .iter()
                .map(|(name, value)| format!("fastcgi_param {name} {value}; "))
                .collect();
            let location = format!(
                "location ~ \\.php$ {{ fastcgi_pass behind; fastcgi_keep_conn on; {parameters}}}"
            );
            (upstream(format!("unix:{}", socket.display())), location)
        }
        PeerSite::Cached {
            upstream: address, ..
        }
        | PeerSite::Shop { upstream: address } => {
            let path = if matches!(site, PeerSite::Shop { .. }) {
                "= /shop.html"
            } else {
                "/"
            };
            let location = format!(
                "location {path} {{ proxy_pass http://behind; proxy_http_version 1.1; proxy_set_header Connection \"\"; proxy_cache pages; \
                 proxy_cache_valid 200 1h; proxy_cache_lock on; gzip on; gzip_vary on; }}"
            );
            let zone = format!(
                "    proxy_cache_path {}/pages levels=1:2 keys_zone=pages:64m max_size=4g inactive=1h use_temp_path=off;\n",
                work.display()
            );
            (zone + &upstream(address.to_string()), location)
        }
        PeerSite::Proxy { upstream: address } => {
            let location = "location / { proxy_pass http://behind; proxy_http_version 1.1; proxy_set_header Connection \"\"; }".to_owned();
            (upstream(address.to_string()), location)
        }
    }
}

/// As nginx's own `fastcgi.conf` has them.
const FASTCGI: [(&str, &str); 18] = [
    ("SCRIPT_FILENAME", "$document_root$fastcgi_script_name"),
    ("QUERY_STRING", "$query_string"),
    ("REQUEST_METHOD", "$request_method"),
    ("CONTENT_TYPE", "$content_type"),
    ("CONTENT_LENGTH", "$content_length"),
    ("SCRIPT_NAME", "$fastcgi_script_name"),
    ("REQUEST_URI", "$request_uri"),
    ("DOCUMENT_URI", "$document_uri"),
    ("DOCUMENT_ROOT", "$document_root"),
    ("SERVER_PROTOCOL", "$server_protocol"),
    ("REQUEST_SCHEME", "$scheme"),
    ("GATEWAY_INTERFACE", "CGI/1.1"),
    ("SERVER_SOFTWARE", "nginx/$nginx_version"),
    ("REMOTE_ADDR", "$remote_addr"),
    ("REMOTE_PORT", "$remote_port"),
    ("SERVER_ADDR", "$server_addr"),
    ("SERVER_PORT", "$server_port"),
    ("SERVER_NAME", "$server_name"),
];

fn lighttpd(
    PeerSetting {
        root,
        host,
        port,
        work,
        tls,
        site,
    }: PeerSetting<'_>,
) -> String {
    let site = lighttpd_site(site);
    let descriptors = descriptors();
    // It takes no more than half of them for connections.
    let connections = (descriptors / 2).min(16384);
    let (root, work) = (root.display(), work.display());
    let tls = tls.map_or_else(String::new, |PeerTls { chain, key }| {
        let (chain, key) = (chain.display(), key.display());
        format!(
            "server.modules = ( \"mod_openssl\" )\nssl.engine = \"enable\"\nssl.pemfile = \"{chain}\"\nssl.privkey = \"{key}\"\n\
             ssl.openssl.ssl-conf-cmd = ( \"MinProtocol\" => \"TLSv1.2\", \"Curves\" => \"X25519:P-256\", \"NumTickets\" => \"1\" )\n"
        )
    });
    format!(
        "server.bind = \"{host}\"
server.port = {port}
server.document-root = \"{root}\"
server.pid-file = \"{work}/lighttpd.pid\"
server.event-handler = \"linux-sysepoll\"
server.network-backend = \"sendfile\"
server.stat-cache-engine = \"inotify\"
server.max-fds = {descriptors}
server.max-connections = {connections}
server.listen-backlog = 4096
server.max-keep-alive-requests = 65535
server.max-keep-alive-idle = 300
server.tag = \"\"
index-file.names = ( \"index.html\" )
mimetype.assign = ( \".html\" => \"text/html\", \".css\" => \"text/css\", \".js\" => \"application/javascript\", \".png\" => \"image/png\",
    \".jpg\" => \"image/jpeg\", \".svg\" => \"image/svg+xml\", \".flv\" => \"video/x-flv\", \"\" => \"application/octet-stream\" )
{tls}{site}"
    )
}

fn lighttpd_site(site: PeerSite<'_>) -> String {
    match site {
        PeerSite::Files | PeerSite::Htaccess | PeerSite::Permalinks => String::new(),
        PeerSite::Paced { bytes_per_s } => format!(
            "connection.kbytes-per-second = {}\n",
            bytes_per_s.div_ceil(1024)
        ),
        PeerSite::Logged { log, workers } => {
            let workers = if workers > 1 {
                format!("server.max-worker = {workers}\n")
            } else {
                String::new()
            };
            let format = "%h - - %t \\\"%r\\\" %>s %b \\\"%{Referer}i\\\" \\\"%{User-Agent}i\\\"";
            let log = log.display();
            format!(
                "server.modules += ( \"mod_accesslog\" )\naccesslog.filename = \"{log}\"\naccesslog.format = \"{format}\"\n{workers}"
            )
        }
        PeerSite::Php { socket } | PeerSite::Store { socket } => format!(
            "server.modules += ( \"mod_fastcgi\" )\nfastcgi.server = ( \".php\" => (( \"socket\" => \"{}\", \"check-local\" => \"disable\" )) )\n",
            socket.display()
        ),
        PeerSite::Proxy { upstream }
        | PeerSite::Cached { upstream, .. }
        | PeerSite::Shop { upstream }
        | PeerSite::StoreBehind { upstream } => format!(
            "server.modules += ( \"mod_proxy\" )\nproxy.server = ( \"\" => (( \"host\" => \"{}\", \"port\" => {} )) )\n",
            upstream.ip(),
            upstream.port()
        ),
    }
}

fn h2o(
    PeerSetting {
        root,
        host,
        port,
        work,
        tls,
        site,
    }: PeerSetting<'_>,
) -> String {
    // "neverbleed" would keep RSA keys in a process of their own.
    let tls = tls.map_or_else(String::new, |PeerTls { chain, key }| {
        let (chain, key) = (chain.display(), key.display());
        format!(
            "  ssl:\n    certificate-file: {chain}\n    key-file: {key}\n    minimum-version: TLSv1.2\n    neverbleed: OFF\n    ocsp-update-interval: 0\n"
        )
    });
    let handler = h2o_site(site, root);
    let (threads, log) = match site {
        PeerSite::Logged { log, workers } => (workers, format!("access-log: {}\n", log.display())),
        _ => (1, String::new()),
    };
    let work = work.display();
    let user = as_root("user: root");
    format!(
        "{user}
{log}num-threads: {threads}
max-connections: 16384
num-name-resolution-threads: 1
tcp-fastopen: 0
server-name: \"\"
pid-file: {work}/h2o.pid
http1-request-timeout: 300
http2-idle-timeout: 300
http2-max-concurrent-requests-per-connection: 256
file.index: [index.html]
file.send-gzip: OFF
listen:
  host: {host}
  port: {port}
{tls}hosts:
  default:
    paths:
      /:
{handler}"
    )
}

fn h2o_site(site: PeerSite<'_>, root: &Path) -> String {
    let files = format!("        file.dir: {}\n", root.display());
    match site {
        PeerSite::Files
        | PeerSite::Htaccess
        | PeerSite::Permalinks
        | PeerSite::Paced { .. }
        | PeerSite::Logged { .. } => files,
        PeerSite::Php { socket } | PeerSite::Store { socket } => format!(
            "{files}        file.custom-handler:\n          extension: .php\n          fastcgi.connect:\n            port: {}\n            type: unix\n",
            socket.display()
        ),
        PeerSite::Proxy { upstream }
        | PeerSite::Cached { upstream, .. }
        | PeerSite::Shop { upstream }
        | PeerSite::StoreBehind { upstream } => {
            format!(
                "        proxy.reverse.url: http://{upstream}/\n        proxy.preserve-host: OFF\n"
            )
        }
    }
}

/// One pool of threads, its store in memory; what else its own defaults are.
fn varnish(PeerSetting { site, .. }: PeerSetting<'_>) -> String {
    if let PeerSite::StoreBehind { upstream } = site {
        let (host, port) = (upstream.ip(), upstream.port());
        return format!(
            "vcl 4.1;\nbackend default {{ .host = \"{host}\"; .port = \"{port}\"; }}\n\
             sub vcl_recv {{ if (req.url ~ \"\\.php\" && req.http.Cookie ~ \"{SESSION_COOKIE}=\") {{ return (pass); }} unset req.http.Cookie; }}\n\
             sub vcl_backend_response {{ if (bereq.url !~ \"\\.php\") {{ set beresp.ttl = 1h; }} }}\n"
        );
    }
    let (PeerSite::Cached { upstream, .. }
    | PeerSite::Shop { upstream }
    | PeerSite::Proxy { upstream }) = site
    else {
        return String::new();
    };
    let gzip = if matches!(site, PeerSite::Cached { gzip: true, .. }) {
        " set beresp.do_gzip = true;"
    } else {
        ""
    };
    let (host, port) = (upstream.ip(), upstream.port());
    format!(
        "vcl 4.1;\nbackend default {{ .host = \"{host}\"; .port = \"{port}\"; }}\n\
         sub vcl_recv {{ unset req.http.Cookie; }}\nsub vcl_backend_response {{ set beresp.ttl = 1h;{gzip} }}\n"
    )
}

fn varnish_arguments<'c>(
    command: &'c mut Command,
    PeerSetting {
        host, port, work, ..
    }: PeerSetting<'_>,
    file: &Path,
) -> &'c mut Command {
    let parameters = [
        "thread_pools=1",
        "thread_pool_min=200",
        "thread_pool_max=1000",
        "timeout_idle=300",
    ];
    command
        .arg("-F")
        .arg("-a")
        .arg(format!("{host}:{port}"))
        .arg("-f")
        .arg(file)
        .args(["-s", "malloc,1g", "-j", "none", "-n"]);
    command
        .arg(work.join("varnish"))
        .args(parameters.iter().flat_map(|parameter| ["-p", parameter]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Client, TempDir, bench_files};

    #[test]
    fn every_installed_peer_serves_the_files() {
        let work = TempDir::new("peers").expect("made");
        let root = work.join("root");
        bench_files::write(&root).expect("written");
        for peer in Peer::ALL {
            if require(peer.program()).is_err() {
                continue; // The bench, which needs it, says so.
            }
            let server = peer.start(&root, &work).expect("starts");
            let mut client = Client::connect(server.address()).expect("connects");
            for _ in 0..2 {
                let response = client.get("/small.html").expect("answers");
                assert_eq!(
                    (response.status, response.body.len()),
                    (200, 285),
                    "{peer}: {response:?}"
                );
                assert_eq!(response.field("content-type"), Some("text/html"), "{peer}");
            }
            // h2o waits for its clients to leave.
            drop(client);
            server.stop().expect("stops");
        }
    }
}
