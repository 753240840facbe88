//! Programs behind SCGI and uwsgi for nginx's cases: they say what they were told.
//!
//! Called by: `nginx_cases`, once for all cases.
//! Caveat: both servers ask the same programs, so answers depend on the request alone.

use std::{
    collections::BTreeMap,
    io::{self, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    thread,
};

/// A protocol of programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    Scgi,
    Uwsgi,
}

type Parameters = BTreeMap<String, String>;

/// Starts a program, which ends with the tests.
pub fn start(protocol: Protocol) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // A server that goes away early has its reasons.
            thread::spawn(move || drop(serve(stream, protocol)));
        }
    });
    address
}

fn serve(mut stream: TcpStream, protocol: Protocol) -> io::Result<()> {
    let parameters = match protocol {
        Protocol::Scgi => scgi(&mut stream)?,
        Protocol::Uwsgi => uwsgi(&mut stream)?,
    };
    let length = parameters.get("CONTENT_LENGTH");
    let length = length.and_then(|text| text.parse().ok()).unwrap_or(0);
    let mut content = vec![0; length];
    stream.read_exact(&mut content)?;
    stream.write_all(answer(&parameters, &content).as_bytes())
}

/// `LENGTH:NAME\0VALUE\0…,`
fn scgi(stream: &mut TcpStream) -> io::Result<Parameters> {
    let mut length = 0;
    loop {
        let mut byte = [0];
        stream.read_exact(&mut byte)?;
        match byte[0] {
            b':' => break,
            digit => length = length * 10 + usize::from(digit - b'0'),
        }
    }
    let mut head = vec![0; length + 1];
    stream.read_exact(&mut head)?;
    let text = String::from_utf8_lossy(&head).into_owned();
    let mut parts = text.split('\0');
    let mut parameters = Parameters::new();
    while let (Some(name), Some(value)) = (parts.next(), parts.next()) {
        parameters.insert(name.to_owned(), value.to_owned());
    }
    Ok(parameters)
}

/// A head of four bytes, then lengths and texts.
fn uwsgi(stream: &mut TcpStream) -> io::Result<Parameters> {
    let mut head = [0; 4];
    stream.read_exact(&mut head)?;
    let mut block = vec![0; usize::from(u16::from_le_bytes([head[1], head[2]]))];
    stream.read_exact(&mut block)?;
    let mut rest = block.as_slice();
    let mut text = || {
        let length = usize::from(u16::from_le_bytes([*rest.first()?, *rest.get(1)?]));
        let text = String::from_utf8_lossy(rest.get(2..2 + length)?).into_owned();
        rest = &rest[2 + length..];
        Some(text)
    };
    let mut parameters = Parameters::new();
    while let (Some(name), Some(value)) = (text(), text()) {
        parameters.insert(name, value);
    }
    Ok(parameters)
}

/// The parameter `ANSWER` chooses the answer; without one, the parameters and the content.
fn answer(parameters: &Parameters, content: &[u8]) -> String {
    let said = |name: &str| parameters.get(name).map(String::as_str);
    let mut text = String::new();
    for (name, value) in parameters {
        // Without content, its length is 0 or is not told.
        let is_empty = name == "CONTENT_LENGTH" && matches!(&**value, "" | "0");
        if is_empty {
            continue;
        }
        let is_shown = name.starts_with("T_") || name.starts_with("HTTP_X");
        if is_shown
            || matches!(
                &**name,
                "REQUEST_METHOD" | "QUERY_STRING" | "CONTENT_LENGTH"
            )
        {
            text.push_str(&format!("{name}={value}\n"));
        }
    }
    text.push_str(&format!("content={}\n", String::from_utf8_lossy(content)));
    let plain = "Content-Type: text/plain\r\nX-Shown: s\r\nX-Hidden: h\r\n";
    match said("ANSWER") {
        Some("missing") => format!("Status: 404 Not Found\r\n{plain}\r\nmissing\n"),
        Some("failed") => format!("Status: 503 Service Unavailable\r\n{plain}\r\nfailed\n"),
        Some("no-status") => format!("Status: abc\r\n{plain}\r\nno status\n"),
        Some("half-status") => format!("Status: 20 OK\r\n{plain}\r\nno status\n"),
        Some("moved") => {
            "Status: 301 Moved Permanently\r\nLocation: http://b.test/\r\n\r\n".to_owned()
        }
        Some("placed") => "Status: 200 OK\r\nLocation: http://b.test/\r\n\r\n".to_owned(),
        Some("two-statuses") => {
            format!("Status: 404 Not Found\r\nStatus: 200 OK\r\n{plain}\r\ntwo\n")
        }
        Some("part") => {
            format!("Status: 206 Partial Content\r\nContent-Range: bytes 2-4/10\r\n{plain}\r\n234")
        }
        Some("expires") => format!("Status: 200 OK\r\nX-Accel-Expires: 60\r\n{plain}\r\nexpires\n"),
        Some("cookie") => format!("Status: 200 OK\r\nSet-Cookie: a=b\r\n{plain}\r\ncookie\n"),
        Some("dated") => format!(
            "Status: 200 OK\r\nLast-Modified: Mon, 02 Jan 2023 03:04:05 GMT\r\nContent-Length: 10\r\n{plain}\r\n0123456789"
        ),
        Some("long") => format!(
            "Status: 200 OK\r\nX-Long: {}\r\n{plain}\r\nlong\n",
            "l".repeat(3000)
        ),
        Some("large") => format!("Status: 200 OK\r\n{plain}\r\n{}", "large ".repeat(20_000)),
        _ => format!("Status: 200 OK\r\n{plain}\r\n{text}"),
    }
}
