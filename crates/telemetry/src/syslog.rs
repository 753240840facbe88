//! The system's log as a target of the error log (`ErrorLog syslog:facility:tag`).
//!
//! Caveat: syslog has levels, and an outlet receives lines; so the level is read from its fixed
//! position in the line. Lines that syslog does not accept are lost: there is no other place to
//! report it.

use crate::queue_writer::{Outlet, Stalled};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

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

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Syslog {
    facility: u8,
    tag: String,
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
                })
                .ok_or_else(|| format!("{name} is no facility of syslog")),
        )
    }

    /// Converts a line to syslog's format: its own time, and the rest.
    fn message(&self, line: &[u8]) -> Vec<u8> {
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
    path: PathBuf,
    socket: Option<UnixDatagram>,
}

impl SyslogOutlet {
    pub(crate) fn new(syslog: Syslog) -> SyslogOutlet {
        SyslogOutlet::at(syslog, Path::new(SOCKET))
    }

    fn at(syslog: Syslog, path: &Path) -> SyslogOutlet {
        SyslogOutlet {
            syslog,
            path: path.to_owned(),
            socket: None,
        }
    }

    fn send(&mut self, message: &[u8]) -> bool {
        if self.socket.is_none() {
            self.socket = UnixDatagram::unbound()
                .and_then(|socket| socket.connect(&self.path).map(|()| socket))
                .ok();
        }
        let is_sent = self
            .socket
            .as_ref()
            .is_some_and(|socket| socket.send(message).is_ok());
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

    #[test]
    fn lines_arrive_with_their_level() {
        let path = std::env::temp_dir().join(format!("saker-syslog-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let receiver = UnixDatagram::bind(&path).expect("bind");
        let syslog = Syslog {
            facility: 23,
            tag: "t".into(),
        };
        let mut outlet = SyslogOutlet::at(syslog, &path);
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
            SyslogOutlet::at(
                Syslog {
                    facility: 1,
                    tag: "t".into()
                },
                &path
            )
            .write_lines(b"[a] [b:warn] lost\n")
            .is_ok()
        );
    }
}
