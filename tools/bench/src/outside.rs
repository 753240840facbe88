//! A server that the user brings: `--peer name='command {port} {docroot}'`.
//!
//! With `{cert}` and `{key}` in its command it takes part in the rows over TLS and in no other;
//! called `name+h3` it speaks HTTP/3 there. It runs through a shell, on the same core as all
//! others. Absent on purpose: judging its tuning, which is its user's.

use saker_testkit::{PeerSetting, PeerTls};
use std::{fmt, io, process::Command};

const HTTP3: &str = "+h3";

/// Both texts live as long as the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outside {
    name: &'static str,
    command: &'static str,
    pub speaks_http3: bool,
}

impl Outside {
    pub fn parse(text: &str) -> Result<Outside, String> {
        let (name, command) = text
            .split_once('=')
            .ok_or_else(|| format!("`{text}` is not name='command {{port}} {{docroot}}'"))?;
        let known = |mark: &str| {
            if command.contains(mark) {
                Ok(())
            } else {
                Err(format!("the command of {name} does not have {mark} in it"))
            }
        };
        known("{port}").and_then(|()| known("{docroot}"))?;
        let speaks_http3 = name.ends_with(HTTP3);
        if speaks_http3 {
            known("{cert}").and_then(|()| known("{key}"))?;
        }
        let name = name.strip_suffix(HTTP3).unwrap_or(name);
        if name.is_empty() {
            return Err(format!("`{text}` has no name"));
        }
        // A few words for the whole run.
        let keep = |text: &str| -> &'static str { Box::leak(text.to_owned().into_boxed_str()) };
        Ok(Outside {
            name: keep(name),
            command: keep(command),
            speaks_http3,
        })
    }

    pub fn is_over_tls(self) -> bool {
        self.command.contains("{cert}")
    }

    pub fn command(
        self,
        PeerSetting {
            root,
            host,
            port,
            work,
            tls,
            ..
        }: PeerSetting<'_>,
    ) -> io::Result<Command> {
        let mut text = self
            .command
            .replace("{port}", &port.to_string())
            .replace("{docroot}", &root.display().to_string());
        text = text
            .replace("{host}", &host.to_string())
            .replace("{work}", &work.display().to_string());
        match tls {
            Some(PeerTls { chain, key }) => {
                text = text
                    .replace("{cert}", &chain.display().to_string())
                    .replace("{key}", &key.display().to_string());
            }
            None if self.is_over_tls() => return Err(io::Error::other("it serves HTTPS alone")),
            None => {}
        }
        let mut command = Command::new("sh");
        command.args(["-c", &format!("exec {text}")]);
        Ok(command)
    }
}

impl fmt::Display for Outside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use saker_testkit::PeerSite;
    use std::{net::Ipv4Addr, path::Path};

    #[test]
    fn marks_are_filled_in() {
        let peer = Outside::parse("mine=/opt/httpd -p {port} -d {docroot}").expect("parsed");
        let setting = PeerSetting {
            root: Path::new("/www"),
            host: Ipv4Addr::LOCALHOST,
            port: 81,
            work: Path::new("/w"),
            tls: None,
            site: PeerSite::Files,
        };
        let command = peer.command(setting).expect("made");
        assert_eq!(
            command.get_args().collect::<Vec<_>>(),
            ["-c", "exec /opt/httpd -p 81 -d /www"]
        );
        assert_eq!(
            (peer.to_string(), peer.is_over_tls(), peer.speaks_http3),
            ("mine".to_owned(), false, false)
        );
        let secure = Outside::parse("ols+h3=/ols {port} {docroot} {cert} {key}").expect("parsed");
        assert!(secure.is_over_tls() && secure.speaks_http3);
        assert!(secure.command(setting).is_err());
    }

    #[test]
    fn mistakes_are_named() {
        for (text, complaint) in [
            ("mine", "`mine` is not name='command {port} {docroot}'"),
            (
                "mine=/opt/httpd {docroot}",
                "the command of mine does not have {port} in it",
            ),
            (
                "mine+h3=/x {port} {docroot}",
                "the command of mine+h3 does not have {cert} in it",
            ),
            ("=/x {port} {docroot}", "`=/x {port} {docroot}` has no name"),
        ] {
            assert_eq!(Outside::parse(text).expect_err(text), complaint);
        }
    }
}
