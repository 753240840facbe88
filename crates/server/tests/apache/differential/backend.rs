//! Backends of both servers: HTTP servers that report their requests, programs that report their
//! variables (FastCGI, SCGI, uwsgi), and the real php-fpm.
//!
//! Started once for all topics. The query determines the response, whatever the protocol:
//! `status=404`, `field=Name:value` (repeatable), `type=`, `chunked`, `close`, `cut`, `garbage`,
//! `silent`, `bare-lf`, `folded`, `beyond` (more content than was announced), and before it `early`, `processing`.
//! Caveat: values that can't be equal (ports, names of software) are left out.

use saker_testkit::{PATIENCE, ServerProcess, TempDir, poll, require};
use std::{
    collections::BTreeMap,
    fs,
    io::{self, BufRead, BufReader, Read, Write},
    net::{Ipv4Addr, TcpListener},
    os::unix::{fs::PermissionsExt, net::UnixListener},
    process::Command,
    sync::{Mutex, PoisonError},
    thread,
};

struct Backends {
    /// Placeholder and what it stands for.
    names: Vec<(&'static str, String)>,
    _php: ServerProcess,
    _dir: TempDir,
}

const NAMES: &[&str] = &[
    "{one}",
    "{two}",
    "{fcgi}",
    "{scgi}",
    "{uwsgi}",
    "{socket}",
    "{uwsgi-socket}",
    "{fcgi-socket}",
    "{php}",
];

/// Values that are each server's own.
const OWN: &[&str] = &[
    "REMOTE_PORT",
    "SERVER_ADDR",
    "SERVER_SOFTWARE",
    "UNIQUE_ID",
    "PATH",
];
/// A connection's business.
const OF_CONNECTION: &[&str] = &["connection", "keep-alive"];
const BODY_SHOWN_BYTES: usize = 300;

type Answer = fn(&mut dyn Stream, &str) -> io::Result<bool>;

trait Stream: Read + Write {}
impl<T: Read + Write> Stream for T {}

static ALL: Mutex<Option<Backends>> = Mutex::new(None);

/// Puts the backends' places into a text; starts them where it speaks of one.
pub fn fill(text: String) -> String {
    if !NAMES.iter().any(|name| text.contains(name)) {
        return text;
    }
    let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
    let backends =
        all.get_or_insert_with(|| start().unwrap_or_else(|error| panic!("backends: {error}")));
    backends
        .names
        .iter()
        .fold(text, |text, (name, value)| text.replace(name, value))
}

/// Statics are not dropped by themselves.
pub fn stop() {
    ALL.lock().unwrap_or_else(PoisonError::into_inner).take();
}

fn start() -> io::Result<Backends> {
    let dir = TempDir::new("backends")?;
    fs::set_permissions(dir.join(""), fs::Permissions::from_mode(0o755))?;
    let socket = dir.join("http.sock");
    on_unix(UnixListener::bind(&socket)?, http, "socket");
    fs::set_permissions(&socket, fs::Permissions::from_mode(0o777))?;
    for (name, answer) in [("uwsgi", uwsgi as Answer), ("fcgi", fastcgi)] {
        let path = dir.join(format!("{name}.sock"));
        on_unix(UnixListener::bind(&path)?, answer, name);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o777))?;
    }
    let php = start_php(&dir)?;
    let names = vec![
        ("{one}", on_tcp(http, "one")?),
        ("{two}", on_tcp(http, "two")?),
        ("{fcgi}", on_tcp(fastcgi, "fcgi")?),
        ("{scgi}", on_tcp(scgi, "scgi")?),
        ("{uwsgi}", on_tcp(uwsgi, "uwsgi")?),
        ("{socket}", socket.display().to_string()),
        (
            "{uwsgi-socket}",
            dir.join("uwsgi.sock").display().to_string(),
        ),
        ("{fcgi-socket}", dir.join("fcgi.sock").display().to_string()),
        ("{php}", dir.join("php.sock").display().to_string()),
    ];
    Ok(Backends {
        names,
        _php: php,
        _dir: dir,
    })
}

fn on_tcp(answer: Answer, name: &'static str) -> io::Result<String> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let port = listener.local_addr()?.port();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || serve(stream, answer, name));
        }
    });
    Ok(port.to_string())
}

fn on_unix(listener: UnixListener, answer: Answer, name: &'static str) {
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || serve(stream, answer, name));
        }
    });
}

fn serve(mut stream: impl Read + Write, answer: Answer, name: &str) {
    while let Ok(true) = answer(&mut stream, name) {}
}

/// A pool of its own; the user is Debian's where we are root.
fn start_php(dir: &TempDir) -> io::Result<ServerProcess> {
    let program = require("php-fpm8.2").map_err(io::Error::other)?;
    let user = if rustix::process::geteuid().is_root() {
        "user = www-data\ngroup = www-data\n"
    } else {
        ""
    };
    let text = format!(
        "[global]\nerror_log = {0}/php.log\ndaemonize = no\n[www]\n{user}listen = {0}/php.sock\nlisten.mode = 0666\npm = static\npm.max_children = 4\n",
        dir.display()
    );
    let file = dir.write("fpm.conf", text)?;
    let server = ServerProcess::spawn(
        Command::new(program)
            .arg("-n")
            .arg("-F")
            .arg("-y")
            .arg(file),
        ([127, 0, 0, 1], 1).into(),
    )?;
    if poll(PATIENCE, || dir.join("php.sock").exists().then_some(())).is_some() {
        return Ok(server);
    }
    Err(io::Error::other(format!(
        "php-fpm did not start: {}",
        server.stderr()
    )))
}

/// Response that the query asks for.
#[derive(Default)]
struct Order {
    status: Option<u16>,
    fields: Vec<(String, String)>,
    words: Vec<String>,
}

impl Order {
    fn of(query: &str) -> Order {
        let mut order = Order {
            status: None,
            fields: Vec::new(),
            words: Vec::new(),
        };
        for piece in query.split('&') {
            match piece.split_once('=') {
                Some(("status", value)) => order.status = value.parse().ok(),
                Some(("type", value)) => order.fields.push(("Content-Type".into(), decoded(value))),
                Some(("field", value)) => {
                    let value = decoded(value);
                    if let Some((name, value)) = value.split_once(':') {
                        order.fields.push((name.to_owned(), value.to_owned()));
                    }
                }
                _ => order.words.push(piece.to_owned()),
            }
        }
        if !order
            .fields
            .iter()
            .any(|(name, _)| name.eq_ignore_ascii_case("content-type"))
            && !order.has("untyped")
        {
            order
                .fields
                .push(("Content-Type".into(), "text/plain".into()));
        }
        order
    }

    fn has(&self, word: &str) -> bool {
        self.words.iter().any(|known| known == word)
    }
}

fn decoded(text: &str) -> String {
    let (mut out, mut bytes) = (Vec::new(), text.bytes());
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let digits: String = bytes.by_ref().take(2).map(char::from).collect();
        out.push(u8::from_str_radix(&digits, 16).unwrap_or(b'?'));
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// One request and its answer. `false`: no more on this connection.
fn http(stream: &mut dyn Stream, name: &str) -> io::Result<bool> {
    let mut reader = BufReader::new(&mut *stream);
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        return Ok(false);
    }
    let mut fields = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        match line.trim_end().split_once(':') {
            Some((name, value)) => {
                fields.push((name.to_ascii_lowercase(), value.trim().to_owned()))
            }
            None => break,
        }
    }
    let body = http_body(&mut reader, &fields)?;
    fields.sort();
    // Lines of one name are one line (RFC 9110 section 5.3).
    fields.dedup_by(|line, before| {
        let is_same = line.0 == before.0;
        if is_same {
            before.1 = format!("{}, {}", before.1, line.1);
        }
        is_same
    });
    let target = line.split(' ').nth(1).unwrap_or_default();
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let mut text = format!("{name}: {}\n", line.trim_end());
    for (name, value) in fields
        .iter()
        .filter(|(name, _)| !OF_CONNECTION.contains(&name.as_str()))
    {
        // Our own address is not the same from run to run, but for both.
        text.push_str(&format!("{name}: {value}\n"));
    }
    text.push_str(&shown(&body));
    let order = Order::of(if path.contains("/silent") {
        "silent"
    } else {
        query
    });
    let is_head = line.starts_with("HEAD");
    http_answer(stream, &order, &text, is_head)
}

fn http_body(reader: &mut impl BufRead, fields: &[(String, String)]) -> io::Result<Vec<u8>> {
    let field = |name: &str| {
        fields
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.as_str())
    };
    let mut body = Vec::new();
    if field("transfer-encoding").is_some() {
        loop {
            let mut line = String::new();
            reader.read_line(&mut line)?;
            let length = usize::from_str_radix(line.trim(), 16).map_err(io::Error::other)?;
            let mut piece = vec![0; length + 2];
            reader.read_exact(&mut piece)?;
            if length == 0 {
                return Ok(body);
            }
            body.extend_from_slice(&piece[..length]);
        }
    }
    let length = field("content-length")
        .and_then(|text| text.parse().ok())
        .unwrap_or(0);
    body.resize(length, 0);
    reader.read_exact(&mut body)?;
    Ok(body)
}

fn shown(body: &[u8]) -> String {
    if body.len() > BODY_SHOWN_BYTES {
        format!("({} bytes)\n", body.len())
    } else {
        format!("{}\n", String::from_utf8_lossy(body))
    }
}

fn http_answer(
    stream: &mut dyn Stream,
    order: &Order,
    text: &str,
    is_head: bool,
) -> io::Result<bool> {
    if order.has("silent") {
        // Until the server gives up.
        let _ = stream.read(&mut [0]);
        return Ok(false);
    }
    if order.has("garbage") {
        stream.write_all(b"what is this\r\n\r\n")?;
        return Ok(false);
    }
    if order.has("bare-lf") {
        stream.write_all(b"HTTP/1.1 200 OK\nX-Old: 1\nContent-Length: 2\n\nok")?;
        // Nothing says that it is the last one: the server may use the connection again.
        return Ok(true);
    }
    if order.has("beyond") {
        stream
            .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok, and more than was said")?;
        return Ok(false);
    }
    if order.has("early") {
        stream.write_all(
            b"HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\nX-Hint: 1\r\n\r\n",
        )?;
    }
    if order.has("processing") {
        stream.write_all(b"HTTP/1.1 102 Processing\r\n\r\n")?;
    }
    if order.has("folded") {
        stream.write_all(b"HTTP/1.1 200 OK\r\nX-Old: a\r\n  b\r\nContent-Length: 2\r\n\r\nok")?;
        return Ok(true);
    }
    let status = order.status.unwrap_or(200);
    let mut head = format!(
        "HTTP/1.1 {status} Made\r\nServer: backend\r\nDate: Thu, 01 Jan 2026 00:00:00 GMT\r\n"
    );
    for (name, value) in &order.fields {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    let has_body = !is_head && !matches!(status, 204 | 304);
    let (framing, body) = match () {
        () if matches!(status, 204 | 304) => (String::new(), Vec::new()),
        () if order.has("chunked") => (
            "Transfer-Encoding: chunked\r\n".into(),
            format!("{:x}\r\n{text}\r\n0\r\n\r\n", text.len()).into_bytes(),
        ),
        () if order.has("close") => ("Connection: close\r\n".into(), text.as_bytes().to_vec()),
        () if order.has("cut") => (
            format!("Content-Length: {}\r\n", text.len() + 100),
            text.as_bytes().to_vec(),
        ),
        () => (
            format!("Content-Length: {}\r\n", text.len()),
            text.as_bytes().to_vec(),
        ),
    };
    stream.write_all(format!("{head}{framing}\r\n").as_bytes())?;
    if has_body {
        stream.write_all(&body)?;
    }
    stream.flush()?;
    Ok(!order.has("close") && !order.has("cut"))
}

/// Response in CGI form.
fn cgi_answer(name: &str, variables: &BTreeMap<String, String>, body: &[u8]) -> Vec<u8> {
    let mut text = format!("{name}\n");
    // What the server was started with; and RFC 3875 section 4.1.4 wants GATEWAY_INTERFACE of SCGI,
    // too, which apache2 does not tell.
    let is_left_out = |variable: &str| {
        matches!(variable, "LD_LIBRARY_PATH" | "proxy-nokeepalive")
            || (name == "scgi" && variable == "GATEWAY_INTERFACE")
    };
    for (name, value) in variables
        .iter()
        .filter(|(variable, _)| !is_left_out(variable))
    {
        let value = if OWN.contains(&name.trim_start_matches("REDIRECT_")) {
            "*"
        } else {
            value
        };
        text.push_str(&format!("{name}={value}\n"));
    }
    text.push_str(&shown(body));
    let order = Order::of(
        variables
            .get("QUERY_STRING")
            .map(String::as_str)
            .unwrap_or_default(),
    );
    if order.has("garbage") {
        return b"no head at all".to_vec();
    }
    let mut head = order
        .status
        .map(|status| format!("Status: {status} Made\r\n"))
        .unwrap_or_default();
    for (name, value) in &order.fields {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    format!("{head}\r\n{text}").into_bytes()
}

/// One request per connection (FastCGI 1.0, section 3).
fn fastcgi(stream: &mut dyn Stream, name: &str) -> io::Result<bool> {
    const AUTHORIZER: u8 = 2;
    let (mut parameters, mut body, mut id, mut role) = (Vec::new(), Vec::new(), [0, 0], 0);
    loop {
        let mut head = [0; 8];
        stream.read_exact(&mut head)?;
        let mut content =
            vec![0; usize::from(u16::from_be_bytes([head[4], head[5]])) + usize::from(head[6])];
        stream.read_exact(&mut content)?;
        content.truncate(usize::from(u16::from_be_bytes([head[4], head[5]])));
        id = if head[1] == 1 { [head[2], head[3]] } else { id };
        match (head[1], content.is_empty()) {
            (1, false) => role = content[1],
            // FastCGI 1.0 section 6.3: nothing more comes.
            (4, true) if role == AUTHORIZER => break,
            (4, _) => parameters.extend(content),
            (5, true) => break,
            (5, false) => body.extend(content),
            _ => {}
        }
    }
    let answer = cgi_answer(name, &pairs(&parameters), &body);
    for piece in answer.chunks(8000) {
        stream.write_all(&[
            1,
            6,
            id[0],
            id[1],
            (piece.len() >> 8) as u8,
            piece.len() as u8,
            0,
            0,
        ])?;
        stream.write_all(piece)?;
    }
    stream.write_all(&[1, 6, id[0], id[1], 0, 0, 0, 0])?;
    stream.write_all(&[1, 3, id[0], id[1], 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])?;
    stream.flush()?;
    Ok(false)
}

/// FastCGI 1.0, section 3.4.
fn pairs(mut bytes: &[u8]) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    let length = |bytes: &mut &[u8]| {
        let long = bytes[0] & 0x80 != 0;
        let (now, rest) = bytes.split_at(if long { 4 } else { 1 });
        *bytes = rest;
        if long {
            u32::from_be_bytes([now[0] & 0x7f, now[1], now[2], now[3]]) as usize
        } else {
            usize::from(now[0])
        }
    };
    while !bytes.is_empty() {
        let (name, value) = (length(&mut bytes), length(&mut bytes));
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        all.insert(text(&bytes[..name]), text(&bytes[name..name + value]));
        bytes = &bytes[name + value..];
    }
    all
}

fn scgi(stream: &mut dyn Stream, name: &str) -> io::Result<bool> {
    let mut length = String::new();
    let mut byte = [0];
    while stream.read_exact(&mut byte).is_ok() && byte[0] != b':' {
        length.push(char::from(byte[0]));
    }
    let mut head = vec![0; length.parse::<usize>().map_err(io::Error::other)? + 1];
    stream.read_exact(&mut head)?;
    let text = String::from_utf8_lossy(&head);
    let mut words = text.split('\0');
    let mut variables = BTreeMap::new();
    while let (Some(name), Some(value)) = (words.next(), words.next()) {
        variables.insert(name.to_owned(), value.to_owned());
    }
    program(stream, name, &variables)
}

fn uwsgi(stream: &mut dyn Stream, name: &str) -> io::Result<bool> {
    let mut head = [0; 4];
    stream.read_exact(&mut head)?;
    let mut block = vec![0; usize::from(u16::from_le_bytes([head[1], head[2]]))];
    stream.read_exact(&mut block)?;
    let (mut variables, mut rest) = (BTreeMap::new(), block.as_slice());
    let text = |rest: &mut &[u8]| {
        let length = usize::from(u16::from_le_bytes([rest[0], rest[1]]));
        let text = String::from_utf8_lossy(&rest[2..2 + length]).into_owned();
        *rest = &rest[2 + length..];
        text
    };
    while !rest.is_empty() {
        let name = text(&mut rest);
        let value = text(&mut rest);
        variables.insert(name, value);
    }
    program(stream, name, &variables)
}

fn program(
    stream: &mut dyn Stream,
    name: &str,
    variables: &BTreeMap<String, String>,
) -> io::Result<bool> {
    let length = variables
        .get("CONTENT_LENGTH")
        .and_then(|text| text.parse().ok())
        .unwrap_or(0);
    let mut body = vec![0; length];
    stream.read_exact(&mut body)?;
    let answer = cgi_answer(name, variables, &body);
    // uwsgi's answers begin with a status line.
    if name == "uwsgi" {
        let status = variables
            .get("QUERY_STRING")
            .and_then(|query| Order::of(query).status)
            .unwrap_or(200);
        stream.write_all(format!("HTTP/1.1 {status} Made\r\n").as_bytes())?;
    }
    stream.write_all(&answer)?;
    stream.flush()?;
    Ok(false)
}
