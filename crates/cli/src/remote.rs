//! `--remote URL`: commands for a server on another machine, through the API of its console.
//!
//! Called by: `daemon`, for commands that the API has.
//! Caveat: the token comes from a file or the environment, never from the command line, which other
//! users can read; it is sent over TLS, or to this machine.
//! Out of scope: commands that need the machine itself, such as `stop` and `upgrade`.

use saker_config::model::BackendTls;
use saker_control::client::{Channel, ClientError, read_some};
use saker_tls::{ClientSession, ClientTls};
use serde_json::{Value, json};
use std::{
    fs,
    io::{self, Write as _},
    net::{IpAddr, TcpStream, ToSocketAddrs as _},
    path::{Path, PathBuf},
    time::Duration,
};
use url::Url;

/// Variable of the environment with a token.
const VARIABLE: &str = "SAKER_TOKEN";
/// Time for a connection.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(10);
/// Time for a part of the answer to a call; event streams send one each second.
const CALL_TIME_MAX: Duration = Duration::from_secs(120);
/// Longest answer.
const ANSWER_BYTES_MAX: usize = 16 << 20;

/// Gets the parts of an answer as they come; returns false to end it.
type Take<'t> = &'t mut dyn FnMut(&[u8]) -> bool;

/// The console of another server.
#[derive(Debug)]
pub struct Remote {
    url: Url,
    token: String,
    authorities: Vec<PathBuf>,
}

impl Remote {
    /// # Errors
    ///
    /// A sentence: the URL cannot be used, or there is no token.
    pub fn new(
        url: &str,
        token_file: Option<&Path>,
        authority: Option<&Path>,
    ) -> Result<Remote, String> {
        let parsed = Url::parse(url).map_err(|error| format!("invalid URL `{url}`: {error}"))?;
        let host = parsed.host_str().unwrap_or_default();
        let bare = host.trim_matches(['[', ']']);
        let is_local =
            bare == "localhost" || bare.parse::<IpAddr>().is_ok_and(|one| one.is_loopback());
        match parsed.scheme() {
            "https" => {}
            "http" if is_local => {}
            "http" => return Err("a token is sent over https only, or to this machine".to_owned()),
            _ => return Err(format!("invalid URL `{url}` (https://HOST:PORT)")),
        }
        let is_plain = parsed.path() == "/" && parsed.query().is_none();
        if host.is_empty() || !is_plain || !parsed.username().is_empty() {
            return Err(format!("invalid URL `{url}` (https://HOST:PORT)"));
        }
        let token = match token_file {
            Some(path) => fs::read_to_string(path)
                .map_err(|error| format!("cannot read {}: {error}", path.display()))?,
            None => std::env::var(VARIABLE).map_err(|_| {
                format!("no token: set {VARIABLE}, or name a file with --token-file")
            })?,
        };
        let token = token.trim().to_owned();
        if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err("the token is empty, or has other than printable characters".to_owned());
        }
        Ok(Remote {
            url: parsed,
            token,
            authorities: authority.map(Path::to_owned).into_iter().collect(),
        })
    }

    fn head(&self, method: &str, target: &str, body: &str) -> String {
        let authority = match (self.url.host_str(), self.url.port()) {
            (Some(host), Some(port)) => format!("{host}:{port}"),
            (host, _) => host.unwrap_or_default().to_owned(),
        };
        format!(
            "{method} {target} HTTP/1.1\r\nHost: {authority}\r\nAuthorization: Bearer {}\r\n\
             User-Agent: saker\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
            self.token,
            body.len()
        )
    }

    /// Calls a route of the API. Content of an answer without an end goes to `take` as it comes,
    /// which returns false at its end.
    ///
    /// # Errors
    ///
    /// The connection fails, or the answer is not one of a console.
    pub fn call(
        &self,
        (method, target, body): (&str, &str, &str),
        take: Take<'_>,
    ) -> Result<(u16, Vec<u8>), ClientError> {
        let head = self.head(method, target, body);
        let failed = |error| ClientError::Io(PathBuf::from(self.url.as_str()), error);
        let received = self.exchange(&head, CALL_TIME_MAX, take).map_err(failed)?;
        let (status, content) = response(&received)
            .ok_or_else(|| ClientError::Garbled("the answer is not one of a console".to_owned()))?;
        Ok((status, content.to_vec()))
    }

    /// Sends a request, and reads to the end. `take` gets each part.
    fn exchange(&self, request: &str, patience: Duration, take: Take<'_>) -> io::Result<Vec<u8>> {
        let host = self.url.host_str().unwrap_or_default();
        let port = self.url.port_or_known_default().unwrap_or(443);
        let mut last = io::Error::from(io::ErrorKind::NotFound);
        for address in (host.trim_matches(['[', ']']), port).to_socket_addrs()? {
            // Whatever resolves the name: a token does not leave the machine in the clear.
            if self.url.scheme() == "http" && !address.ip().is_loopback() {
                continue;
            }
            match TcpStream::connect_timeout(&address, CONNECT_TIME_MAX) {
                Ok(stream) => {
                    stream.set_read_timeout(Some(patience))?;
                    stream.set_write_timeout(Some(patience))?;
                    return match self.url.scheme() {
                        "https" => self.over_tls(stream, host, (request, take)),
                        _ => plain(stream, request, take),
                    };
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn over_tls(
        &self,
        mut stream: TcpStream,
        host: &str,
        (request, take): (&str, Take<'_>),
    ) -> io::Result<Vec<u8>> {
        let settings = BackendTls {
            authorities: self.authorities.clone(),
            ..BackendTls::default()
        };
        let failed = |error: &dyn std::fmt::Display| io::Error::other(error.to_string());
        let tls =
            ClientTls::load(&settings, host, &[b"http/1.1"]).map_err(|error| failed(&error))?;
        let mut session = tls.session().map_err(|error| failed(&error))?;
        let (mut received, mut out) = (Vec::new(), Vec::new());
        session.transmit(&mut out);
        let mut unsent = request.as_bytes();
        let mut input = vec![0; 16 << 10];
        loop {
            send(&mut session, &mut unsent, &mut out);
            stream.write_all(&out)?;
            out.clear();
            let count = read_some(&mut stream, &mut input)?;
            let chunk = input.get(..count).unwrap_or_default();
            let before = received.len();
            let ended = session.receive(chunk, &mut received, &mut out);
            if !take(received.get(before..).unwrap_or_default()) {
                return Ok(received);
            }
            if let Err(error) = &ended {
                // The alert tells the server why.
                let _ = stream.write_all(&out);
                return Err(failed(error));
            }
            if count == 0 || matches!(ended, Ok(true)) {
                return Ok(received);
            }
            too_long(&received)?;
        }
    }
}

/// Encrypts what is left of the request, once the handshake is done.
fn send(session: &mut ClientSession, unsent: &mut &[u8], out: &mut Vec<u8>) {
    while !session.is_handshaking() && !unsent.is_empty() {
        let taken = session.send(unsent, out);
        *unsent = unsent.get(taken..).unwrap_or_default();
        if taken == 0 {
            return;
        }
    }
}

fn plain(mut stream: TcpStream, request: &str, take: Take<'_>) -> io::Result<Vec<u8>> {
    stream.write_all(request.as_bytes())?;
    let mut received = Vec::new();
    let mut input = vec![0; 16 << 10];
    loop {
        let count = read_some(&mut stream, &mut input)?;
        let chunk = input.get(..count).unwrap_or_default();
        received.extend_from_slice(chunk);
        if count == 0 || !take(chunk) {
            return Ok(received);
        }
        too_long(&received)?;
    }
}

fn too_long(received: &[u8]) -> io::Result<()> {
    match received.len() > ANSWER_BYTES_MAX {
        true => Err(io::Error::other("the answer is too long")),
        false => Ok(()),
    }
}

impl Channel for Remote {
    fn ask(&self, request: &Value, patience: Duration) -> Result<Value, ClientError> {
        let (method, target, body) = route(request)?;
        let head = self.head(method, &target, &body);
        let failed = |error| ClientError::Io(PathBuf::from(self.url.as_str()), error);
        let received = self.exchange(&head, patience, &mut |_| true);
        let received = received.map_err(failed)?;
        let (status, content) = response(&received)
            .ok_or_else(|| ClientError::Garbled("the answer is not one of a console".to_owned()))?;
        let answer: Value = serde_json::from_slice(content)
            .map_err(|_| ClientError::Garbled(format!("status {status} without JSON")))?;
        match (status, answer["error"].as_str()) {
            (200, None) => Ok(answer),
            (_, Some(error)) => Err(ClientError::Refused(error.to_owned())),
            _ => Err(ClientError::Garbled(format!("status {status}"))),
        }
    }
}

/// Status and content of a response that ends with its connection.
fn response(received: &[u8]) -> Option<(u16, &[u8])> {
    let end = received.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
    let (head, content) = received.split_at(end);
    let line = std::str::from_utf8(head.split(|byte| *byte == b'\r').next()?).ok()?;
    let mut words = line.split(' ');
    let is_http = words.next()?.starts_with("HTTP/1.");
    let status = words.next()?.parse().ok()?;
    is_http.then_some((status, content))
}

/// The route of the API that answers a verb of the control socket.
fn route(request: &Value) -> Result<(&'static str, String, String), ClientError> {
    let mut body = request.clone();
    let verb = request["verb"].as_str().unwrap_or_default();
    if let Some(object) = body.as_object_mut() {
        object.remove("verb");
    }
    let get = |path: &str, names: &[&str]| {
        let mut query = url::form_urlencoded::Serializer::new(String::new());
        for name in names {
            match &request[*name] {
                Value::Null => {}
                Value::String(text) => drop(query.append_pair(name, text)),
                other => drop(query.append_pair(name, &other.to_string())),
            }
        }
        let query = query.finish();
        let mark = if query.is_empty() { "" } else { "?" };
        ("GET", format!("/api/v1{path}{mark}{query}"), String::new())
    };
    let post = |path: &str, body: &Value| ("POST", format!("/api/v1{path}"), body.to_string());
    Ok(match verb {
        "status" => get("/status", &[]),
        "live" => get("/live", &["seconds"]),
        "reload" => post("/reload", &json!({})),
        "cache-stat" => get("/cache", &[]),
        "cache-list" => get("/cache/entries", &["site"]),
        "cache-show" => get("/cache/entries", &["url"]),
        "cache-body" => get("/cache/body", &["entry"]),
        "cache-warm" => {
            // A console takes a list at once, and no fields of requests.
            let has_more = body["more"] == true;
            let mut variations = body["variations"].as_array().into_iter().flatten();
            let has_fields = variations.any(|one| *one != json!([]));
            if has_more || has_fields {
                let why =
                    "--remote takes no more than 32 kB of URLs, and neither --vary nor --header";
                return Err(ClientError::Refused(why.to_owned()));
            }
            post("/cache/warm", &body)
        }
        "cache-warm-look" => get("/cache/warm", &["job", "from"]),
        "cache-warm-stop" => post("/cache/warm/stop", &body),
        "purge" => post("/cache/purge", &body),
        "purge-count" => {
            body["dry_run"] = true.into();
            post("/cache/purge", &body)
        }
        "bans" => get("/bans", &[]),
        "ban" => post("/bans/ban", &body),
        "unban" => post("/bans/unban", &body),
        _ => {
            let why = format!("`{verb}` is not available with --remote");
            return Err(ClientError::Refused(why));
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn remote(url: &str) -> Result<Remote, String> {
        let path = std::env::temp_dir().join(format!("saker-token-{}", std::process::id()));
        fs::write(&path, "saker_x\n").unwrap();
        Remote::new(url, Some(&path), None)
    }

    #[test]
    fn tokens_go_over_tls_or_stay_on_the_machine() {
        for url in [
            "https://console.example:7080",
            "http://127.0.0.1:7080",
            "http://[::1]:7080/",
            "http://localhost",
        ] {
            assert!(remote(url).is_ok(), "{url}");
        }
        for url in [
            "http://console.example:7080",
            "http://127.0.0.1.example",
            "ftp://127.0.0.1",
            "console.example",
            "https://u@console.example",
            "https://console.example/path",
            "https://console.example/?a=b",
            "",
        ] {
            assert!(remote(url).is_err(), "{url}");
        }
        let text = remote("https://console.example:7080")
            .unwrap()
            .head("GET", "/x", "");
        assert!(
            text.contains("\r\nHost: console.example:7080\r\nAuthorization: Bearer saker_x\r\n"),
            "{text}"
        );
    }

    #[test]
    fn verbs_have_routes() {
        let (method, target, body) =
            route(&json!({ "verb": "purge", "tags": ["a"], "all": false })).unwrap();
        assert_eq!((method, target.as_str()), ("POST", "/api/v1/cache/purge"));
        assert_eq!(body, r#"{"all":false,"tags":["a"]}"#);
        let (_, target, _) = route(&json!({ "verb": "cache-show", "url": "/a?b&c" })).unwrap();
        assert_eq!(target, "/api/v1/cache/entries?url=%2Fa%3Fb%26c");
        for verb in ["stop", "upgrade", "hand-over", "origin", "console", ""] {
            assert!(route(&json!({ "verb": verb })).is_err(), "{verb}");
        }
    }

    #[test]
    fn responses() {
        assert_eq!(
            response(b"HTTP/1.1 200 OK\r\nA: b\r\n\r\n{}"),
            Some((200, &b"{}"[..]))
        );
        for garbled in [
            &b""[..],
            b"HTTP/1.1 200 OK\r\n",
            b"SSH-2.0\r\n\r\n",
            b"HTTP/1.1 x\r\n\r\n",
        ] {
            assert_eq!(response(garbled), None);
        }
    }
}
