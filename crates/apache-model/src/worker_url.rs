//! URLs of mod_proxy's workers: `fcgi://127.0.0.1:9000/path`, `unix:/run/php.sock|fcgi://name/`,
//! `http://[::1]:8080/app`.
//!
//! Difficulty: with `unix:` the URL behind the bar gives protocol, name and path, and the socket
//! alone says where it is.

use saker_config::model::{Backend, BackendAddress, BackendTls, Protocol};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerUrl {
    pub backend: Backend,
    /// The path before the path of a request, without a slash at its end.
    pub path: Box<str>,
    /// Host and port as they stand in a Host field, without a scheme's own port.
    pub authority: Box<str>,
    /// `ws` and `wss`.
    pub is_websocket: bool,
}

/// The reason why it is none, for the diagnostic.
pub fn parse(text: &str) -> Result<WorkerUrl, String> {
    let (socket, url) = match text
        .strip_prefix("unix:")
        .or_else(|| text.strip_prefix("UNIX:"))
    {
        Some(rest) => {
            let (socket, url) = rest.split_once('|').unwrap_or((rest, "http://localhost"));
            (Some(socket), url)
        }
        None => (None, text),
    };
    // Behind a socket the host may be left out (httpd 2.4, `ap_proxy_define_worker`).
    let bare = || {
        url.split_once(':')
            .filter(|(_, path)| socket.is_some() && (path.is_empty() || path.starts_with('/')))
    };
    let (scheme, rest) = url
        .split_once("://")
        .or_else(bare)
        .ok_or_else(|| format!("`{text}` is no URL of a server"))?;
    let (protocol, tls) =
        Protocol::from_scheme(scheme).ok_or_else(|| format!("nothing here speaks `{scheme}`"))?;
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let authority = if authority.is_empty() && socket.is_some() {
        "localhost"
    } else {
        authority
    };
    let default_port = protocol.default_port(tls);
    let address = match socket {
        Some("") => return Err(format!("`{text}` names no socket")),
        Some(socket) => BackendAddress::Unix(socket.into()),
        None => tcp(authority, default_port)
            .ok_or_else(|| format!("`{authority}` is no host and port"))?,
    };
    let tls = tls.then(|| BackendTls {
        name: socket.map(|_| host_of(authority).into()),
        ..BackendTls::default()
    });
    Ok(WorkerUrl {
        backend: Backend {
            tls,
            ..Backend::new(protocol, address)
        },
        path: path.trim_end_matches('/').into(),
        authority: authority
            .strip_suffix(&format!(":{default_port}"))
            .unwrap_or(authority)
            .into(),
        is_websocket: scheme.to_ascii_lowercase().starts_with("ws"),
    })
}

/// The server name, where a socket says where it is.
fn host_of(authority: &str) -> &str {
    authority
        .rsplit_once(':')
        .filter(|(_, port)| !port.contains(']'))
        .map_or(authority, |(host, _)| host)
}

fn tcp(authority: &str, default_port: u16) -> Option<BackendAddress> {
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, port.parse().ok()?),
        _ => (authority, default_port),
    };
    let is_host = !host.is_empty()
        && !host.contains(['@', '/', ' '])
        && (host.starts_with('[') == host.contains(':'));
    is_host.then(|| BackendAddress::Tcp {
        host: host.into(),
        port,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        parse(text).map_or_else(
            |error| error,
            |url| format!("{}, {}", url.backend, url.path),
        )
    }

    #[test]
    fn sockets_and_addresses() {
        assert_eq!(
            shown("unix:/run/php/php-fpm.sock|fcgi://localhost"),
            "fcgi at unix:/run/php/php-fpm.sock, "
        );
        assert_eq!(
            shown("unix:/run/app.sock|http://app/base/"),
            "http at unix:/run/app.sock, /base"
        );
        for (url, expected) in [
            ("http:", ""),
            ("http://", ""),
            ("http:/base/", "/base"),
            ("http:///base", "/base"),
        ] {
            let url = parse(&format!("unix:/run/app.sock|{url}")).unwrap();
            assert_eq!(
                (
                    url.backend.to_string().as_str(),
                    &*url.path,
                    &*url.authority
                ),
                ("http at unix:/run/app.sock", expected, "localhost")
            );
        }
        assert_eq!(
            shown("fcgi://127.0.0.1:9000/srv"),
            "fcgi://127.0.0.1:9000, /srv"
        );
        assert_eq!(shown("http://[::1]/"), "http://[::1]:80, ");
        assert_eq!(shown("https://a.example"), "https://a.example:443, ");
        let authority = |text: &str| parse(text).map(|url| url.authority).unwrap();
        assert_eq!(
            (
                &*authority("http://a:80/x"),
                &*authority("https://a:80"),
                &*authority("unix:/a|fcgi://b")
            ),
            ("a", "a:80", "b")
        );
        assert!(
            parse("wss://a").unwrap().is_websocket && !parse("https://a").unwrap().is_websocket
        );
    }

    #[test]
    fn what_is_none() {
        for text in [
            "",
            "php",
            "gopher://x/",
            "http://",
            "http://a:b/",
            "http://a:99999/",
            "unix:|fcgi://localhost",
            "http://::1/",
            "http:",
            "unix:/a|http",
            "unix:/a|:",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
