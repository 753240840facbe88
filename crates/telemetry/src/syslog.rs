//! The system's log as a target of the error log (`ErrorLog syslog:facility:tag`), and servers of
//! syslog as targets of logs (nginx's `syslog:server=…`).
//!
//! Called by: `access_log::file` and `error_log::target`, for outlets; front ends, for settings.
//! Caveat: syslog has levels, and an outlet receives lines; so the level of an error is read from
//! its fixed position in the line. Lines that syslog does not accept are lost: there is no other
//! place to report it.

use crate::{
    local_time::{Civil, TimeZone, append_strftime},
    queue_writer::{Outlet, Stalled},
};
use saker_net::{clock::realtime_s, process::host_name};
use std::{
    io,
    net::{SocketAddr, ToSocketAddrs, UdpSocket},
    os::unix::net::UnixDatagram,
    path::PathBuf,
};

/// Socket that syslog(3) sends to.
const SOCKET: &str = "/dev/log";
/// RFC 5424 section 6.2.1, by their usual names.
const FACILITIES: [&str; 24] = [
    "kern",
    "user",
    "mail",
    "daemon",
    "auth",
    "syslog",
    "lpr",
    "news",
    "uucp",
    "cron",
    "authpriv",
    "ftp",
    "ntp",
    "security",
    "console",
    "solaris-cron",
    "local0",
    "local1",
    "local2",
    "local3",
    "local4",
    "local5",
    "local6",
    "local7",
];

/// The same in nginx's words.
const NGINX_FACILITIES: [&str; 24] = [
    "kern", "user", "mail", "daemon", "auth", "intern", "lpr", "news", "uucp", "clock", "authpriv",
    "ftp", "ntp", "audit", "alert", "cron", "local0", "local1", "local2", "local3", "local4",
    "local5", "local6", "local7",
];
const SEVERITIES: [&str; 8] = [
    "emerg", "alert", "crit", "error", "warn", "notice", "info", "debug",
];
/// RFC 5426 section 3.3.
const PORT: u16 = 514;
const TAG_BYTES_MAX: usize = 32;

/// A target of messages, and their beginning.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Syslog {
    facility: u8,
    tag: String,
    /// `None`: the system's own.
    server: Option<Server>,
}

/// A server of syslog in nginx's words, whose messages have the time, and the name of the host.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Server {
    place: Place,
    /// `None`: the level of the line.
    severity: Option<u8>,
    host: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Place {
    Unix(PathBuf),
    Udp(SocketAddr),
}

impl Syslog {
    /// Parses `syslog[:facility[:tag]]`; `None` for other texts, an error for an unknown facility.
    pub fn parse(text: &str) -> Option<Result<Syslog, String>> {
        let rest = text
            .get(..6)
            .filter(|start| start.eq_ignore_ascii_case("syslog"))
            .map(|_| &text[6..])?;
        let mut parts = match rest.strip_prefix(':') {
            Some(rest) => rest.splitn(2, ':'),
            None if rest.is_empty() => "".splitn(2, ':'),
            None => return None,
        };
        let name = parts
            .next()
            .filter(|name| !name.is_empty())
            .unwrap_or("local7");
        let tag = parts
            .next()
            .filter(|tag| !tag.is_empty())
            .unwrap_or("saker")
            .to_owned();
        let found = FACILITIES
            .iter()
            .position(|known| known.eq_ignore_ascii_case(name));
        Some(
            found
                .map(|at| Syslog {
                    facility: at as u8,
                    tag,
                    server: None,
                })
                .ok_or_else(|| format!("{name} is no facility of syslog")),
        )
    }

    /// Parses nginx's `syslog:server=address[,parameter=value]`. `severity` is that of lines if they
    /// have none themselves. `None` for other texts.
    ///
    /// Source: nginx, "Logging to syslog".
    pub fn parse_nginx(text: &str, severity: Option<&str>) -> Option<Result<Syslog, String>> {
        let rest = text.strip_prefix("syslog:")?;
        Some(Syslog::parse_parameters(rest, severity))
    }

    fn parse_parameters(text: &str, severity: Option<&str>) -> Result<Syslog, String> {
        let (mut place, mut tag) = (None, "nginx");
        let (mut facility, mut host) = (23, Some(host_name()));
        let mut severity = severity.and_then(|name| position(&SEVERITIES, name));
        let mut seen = Vec::new();
        for parameter in text.split(',') {
            if let Some((name, _)) = parameter.split_once('=') {
                if seen.contains(&name) {
                    return Err(format!("duplicate syslog \"{name}\""));
                }
                seen.push(name);
            }
            match parameter.split_once('=') {
                Some(("server", server)) => place = Some(Place::parse(server)?),
                Some(("facility", name)) => {
                    facility = position(&NGINX_FACILITIES, name)
                        .ok_or_else(|| format!("unknown syslog facility \"{name}\""))?;
                }
                Some(("severity", name)) => {
                    let own = position(&SEVERITIES, name)
                        .ok_or_else(|| format!("unknown syslog severity \"{name}\""))?;
                    severity = severity.map(|_| own);
                }
                Some(("tag", own)) if own.len() > TAG_BYTES_MAX => {
                    return Err("syslog tag length exceeds 32".to_owned());
                }
                Some(("tag", own)) => {
                    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
                    if !own.bytes().all(is_plain) {
                        return Err(
                            "syslog \"tag\" only allows alphanumeric characters and underscore"
                                .to_owned(),
                        );
                    }
                    tag = own;
                }
                None if parameter == "nohostname" => host = None,
                _ => return Err(format!("unknown syslog parameter \"{parameter}\"")),
            }
        }
        Ok(Syslog {
            facility,
            tag: tag.to_owned(),
            server: Some(Server {
                place: place.ok_or("no syslog server specified")?,
                severity,
                host,
            }),
        })
    }

    /// Converts a line to syslog's format: its own time, and the rest.
    fn message(&self, line: &[u8]) -> Vec<u8> {
        if let Some(server) = &self.server {
            return server.message(self.facility, &self.tag, line);
        }
        let rest = line
            .iter()
            .position(|byte| *byte == b']')
            .and_then(|at| line.get(at + 1..))
            .unwrap_or(line)
            .trim_ascii_start();
        let priority = u32::from(self.facility) * 8 + severity(rest);
        [
            format!("<{priority}>{}[{}]: ", self.tag, std::process::id()).as_bytes(),
            rest,
        ]
        .concat()
    }
}

impl Server {
    /// RFC 3164 section 4.1, with the whole line, as nginx sends it.
    fn message(&self, facility: u8, tag: &str, line: &[u8]) -> Vec<u8> {
        let severity = self.severity.unwrap_or_else(|| nginx_severity(line));
        let mut message = format!("<{}>", facility * 8 + severity).into_bytes();
        let now = realtime_s();
        let civil = Civil::at(now, TimeZone::local().offset_s(now));
        append_strftime("%b %e %H:%M:%S ", now, &civil, "", &mut message);
        for part in [self.host.as_deref(), self.host.as_ref().map(|_| " ")] {
            message.extend_from_slice(part.unwrap_or_default().as_bytes());
        }
        message.extend_from_slice(tag.as_bytes());
        message.extend_from_slice(b": ");
        message.extend_from_slice(line);
        message
    }
}

impl Place {
    fn parse(text: &str) -> Result<Place, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            return match path.is_empty() {
                true => Err("no syslog server specified".to_owned()),
                false => Ok(Place::Unix(path.into())),
            };
        }
        let has_port = match text.rsplit_once(':') {
            Some((host, port)) if !host.contains(':') && port.parse::<u16>().is_err() => {
                return Err(format!("invalid port in syslog server \"{text}\""));
            }
            Some((host, port)) => {
                !port.is_empty()
                    && port.bytes().all(|byte| byte.is_ascii_digit())
                    && (!host.contains(':') || host.ends_with(']'))
            }
            None => false,
        };
        let full = match has_port {
            true => text.to_owned(),
            false => format!("{text}:{PORT}"),
        };
        let mut found = full
            .to_socket_addrs()
            .map_err(|_| format!("host not found in syslog server \"{text}\""))?;
        found
            .next()
            .map(Place::Udp)
            .ok_or_else(|| format!("host not found in syslog server \"{text}\""))
    }
}

fn position(names: &[&str], name: &str) -> Option<u8> {
    names
        .iter()
        .position(|known| *known == name)
        .map(|at| at as u8)
}

/// Severity of a line of nginx's error log: `2026/11/27 12:00:00 [level] …`.
fn nginx_severity(line: &[u8]) -> u8 {
    let bracket = line.split(|byte| *byte == b'[').nth(1).unwrap_or_default();
    let level = bracket.split(|byte| *byte == b']').next();
    let level = std::str::from_utf8(level.unwrap_or_default()).unwrap_or_default();
    position(&SEVERITIES, level).unwrap_or(3)
}

/// Severity of `[area:level] …` (RFC 5424 section 6.2.1).
fn severity(line: &[u8]) -> u32 {
    let bracket = line.split(|byte| *byte == b']').next().unwrap_or_default();
    match bracket
        .rsplit(|byte| *byte == b':')
        .next()
        .unwrap_or_default()
    {
        b"error" => 3,
        b"warn" => 4,
        b"notice" => 5,
        b"info" => 6,
        _ => 7,
    }
}

pub(crate) struct SyslogOutlet {
    syslog: Syslog,
    place: Place,
    socket: Option<Socket>,
}

enum Socket {
    Unix(UnixDatagram),
    Udp(UdpSocket),
}

impl Socket {
    fn to(place: &Place) -> io::Result<Socket> {
        match place {
            Place::Unix(path) => {
                let socket = UnixDatagram::unbound()?;
                socket.connect(path)?;
                Ok(Socket::Unix(socket))
            }
            Place::Udp(address) => {
                let own: SocketAddr = match address {
                    SocketAddr::V4(_) => ([0; 4], 0).into(),
                    SocketAddr::V6(_) => ([0; 16], 0).into(),
                };
                let socket = UdpSocket::bind(own)?;
                socket.connect(address)?;
                Ok(Socket::Udp(socket))
            }
        }
    }

    fn send(&self, message: &[u8]) -> io::Result<usize> {
        match self {
            Socket::Unix(socket) => socket.send(message),
            Socket::Udp(socket) => socket.send(message),
        }
    }
}

impl SyslogOutlet {
    pub(crate) fn new(syslog: Syslog) -> SyslogOutlet {
        let place = match &syslog.server {
            Some(server) => server.place.clone(),
            None => Place::Unix(SOCKET.into()),
        };
        SyslogOutlet {
            syslog,
            place,
            socket: None,
        }
    }

    fn send(&mut self, message: &[u8]) -> bool {
        if self.socket.is_none() {
            self.socket = Socket::to(&self.place).ok();
        }
        let sent = self.socket.as_ref().map(|socket| socket.send(message));
        let is_sent = sent.is_some_and(|sent| sent.is_ok());
        if !is_sent {
            self.socket = None;
        }
        is_sent
    }
}

impl Outlet for SyslogOutlet {
    fn write_lines(&mut self, lines: &[u8]) -> Result<(), Stalled> {
        for line in lines
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty())
        {
            let message = self.syslog.message(line);
            // Once more: it may have been started again in between.
            let _ = self.send(&message) || self.send(&message);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn targets() {
        let of = |text| {
            Syslog::parse(text).map(|parsed| parsed.map(|syslog| (syslog.facility, syslog.tag)))
        };
        assert_eq!(of("syslog"), Some(Ok((23, "saker".into()))));
        assert_eq!(of("SYSLOG:user"), Some(Ok((1, "saker".into()))));
        assert_eq!(of("syslog:local0:httpd"), Some(Ok((16, "httpd".into()))));
        assert_eq!(of("syslog::httpd"), Some(Ok((23, "httpd".into()))));
        assert!(of("syslog:none").is_some_and(|parsed| parsed.is_err()));
        assert_eq!(
            (of("syslog.log"), of("logs/error.log"), of("")),
            (None, None, None)
        );
    }

    fn at(syslog: Syslog, path: &Path) -> SyslogOutlet {
        SyslogOutlet {
            syslog,
            place: Place::Unix(path.to_owned()),
            socket: None,
        }
    }

    #[test]
    fn servers_in_the_words_of_nginx() {
        let of = |text: &str| Syslog::parse_nginx(text, Some("info")).expect("syslog");
        let full =
            of("syslog:server=127.0.0.1:5514,facility=local3,severity=debug,tag=shop_1,nohostname");
        let address: SocketAddr = ([127, 0, 0, 1], 5514).into();
        let server = Server {
            place: Place::Udp(address),
            severity: Some(7),
            host: None,
        };
        let tag = "shop_1".to_owned();
        assert_eq!(
            full,
            Ok(Syslog {
                facility: 19,
                tag,
                server: Some(server)
            })
        );
        let place = |text: &str| of(text).map(|syslog| syslog.server.expect("a server").place);
        let v6: SocketAddr = "[::1]:514".parse().expect("an address");
        assert_eq!(place("syslog:server=[::1]"), Ok(Place::Udp(v6)));
        assert_eq!(
            place("syslog:server=unix:/dev/log"),
            Ok(Place::Unix("/dev/log".into()))
        );
        for (text, error) in [
            ("syslog:facility=user", "no syslog server specified"),
            ("syslog:server=unix:", "no syslog server specified"),
            (
                "syslog:server=127.0.0.1,facility=x",
                "unknown syslog facility \"x\"",
            ),
            (
                "syslog:server=127.0.0.1,severity=x",
                "unknown syslog severity \"x\"",
            ),
            (
                "syslog:server=127.0.0.1,x",
                "unknown syslog parameter \"x\"",
            ),
            (
                "syslog:server=127.0.0.1,tag=a-b",
                "syslog \"tag\" only allows alphanumeric characters and underscore",
            ),
        ] {
            assert_eq!(of(text), Err(error.to_owned()), "{text}");
        }
        let long = format!("syslog:server=127.0.0.1,tag={}", "t".repeat(33));
        assert!(of(&long).is_err() && of(&long.replace("ttt", "tt")).is_ok());
        assert_eq!(Syslog::parse_nginx("logs/syslog:x", None), None);
    }

    #[test]
    fn messages_of_nginx() {
        let receiver = UdpSocket::bind("127.0.0.1:0").expect("bind");
        let address = receiver.local_addr().expect("an address");
        let heard = |words: &str, severity: Option<&str>, line: &str| {
            let text = format!("syslog:server={address}{words}");
            let syslog = Syslog::parse_nginx(&text, severity).expect("syslog");
            let mut outlet = SyslogOutlet::new(syslog.expect("settings"));
            assert!(outlet.write_lines(line.as_bytes()).is_ok());
            let mut buffer = [0; 256];
            let length = receiver.recv(&mut buffer).expect("received");
            String::from_utf8_lossy(&buffer[..length]).into_owned()
        };
        let line = heard(",nohostname,tag=t", Some("info"), "GET / 200\n");
        // `Nov 27 06:35:57`
        let (head, rest) = line.split_at("<190>Nov 27 06:35:57 ".len());
        assert!(
            head.starts_with("<190>") && rest == "t: GET / 200",
            "{line}"
        );
        let line = heard("", None, "2026/11/27 12:00:00 [crit] 7#7: no space\n");
        let end = format!(
            " {} nginx: 2026/11/27 12:00:00 [crit] 7#7: no space",
            host_name()
        );
        assert!(line.starts_with("<186>") && line.ends_with(&end), "{line}");
    }

    #[test]
    fn lines_arrive_with_their_level() {
        let path = std::env::temp_dir().join(format!("saker-syslog-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let receiver = UnixDatagram::bind(&path).expect("bind");
        let syslog = Syslog {
            facility: 23,
            tag: "t".into(),
            server: None,
        };
        let mut outlet = at(syslog, &path);
        assert!(
            outlet
                .write_lines(
                    b"[Sat Nov 21] [core:notice] [pid 1] one\n[Sat Nov 21] [x:error] two\n"
                )
                .is_ok()
        );
        let mut buffer = [0; 256];
        let mut next = || {
            let length = receiver.recv(&mut buffer).expect("received");
            String::from_utf8_lossy(&buffer[..length]).into_owned()
        };
        let pid = std::process::id();
        assert_eq!(next(), format!("<189>t[{pid}]: [core:notice] [pid 1] one"));
        assert_eq!(next(), format!("<187>t[{pid}]: [x:error] two"));
        std::fs::remove_file(&path).expect("removed");
        assert!(
            at(
                Syslog {
                    facility: 1,
                    tag: "t".into(),
                    server: None,
                },
                &path
            )
            .write_lines(b"[a] [b:warn] lost\n")
            .is_ok()
        );
    }
}
