use super::*;
use std::net::TcpListener;

/// Answers the one request that comes with `response`, and closes. The request.
fn server(response: &'static [u8]) -> (String, std::thread::JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/ask", listener.local_addr().unwrap());
    let thread = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = Vec::new();
        while !request.ends_with(b"\r\n\r\n") {
            let mut piece = [0; 1024];
            let length = stream.read(&mut piece).unwrap();
            request.extend_from_slice(&piece[..length]);
        }
        stream.write_all(response).unwrap();
        String::from_utf8(request).unwrap()
    });
    (url, thread)
}

fn client() -> Client {
    Client::new(None).unwrap()
}

fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
        .block_on(future)
}

#[test]
fn asks_and_hears_the_status() {
    let (url, thread) = server(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    assert_eq!(
        run(client().status(&format!("{url}?domain=a.example"))),
        Ok(200)
    );
    let request = thread.join().unwrap();
    assert!(
        request.starts_with("GET /ask?domain=a.example HTTP/1.1\r\nHost: 127.0.0.1:"),
        "{request}"
    );
    assert!(
        request.contains("\r\nUser-Agent: saker/") && request.contains("\r\nConnection: close\r\n"),
        "{request}"
    );
}

#[test]
fn a_wait_counts_only_with_a_refusal() {
    let client = client();
    let (url, _thread) = server(b"HTTP/1.1 200 OK\r\nRetry-After: 7\r\n\r\n");
    assert_eq!(
        (run(client.status(&url)), client.retry_after_s()),
        (Ok(200), None)
    );
    let (url, _thread) =
        server(b"HTTP/1.1 429 Slow Down\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(
        (run(client.status(&url)), client.retry_after_s()),
        (Ok(429), Some(7))
    );
    assert_eq!(client.fresh().retry_after_s(), None);
}

#[test]
fn waits_are_seconds_or_dates() {
    let wait = |text: &str| {
        retry_after(&HeaderMap::from_iter([(
            http::header::RETRY_AFTER,
            text.parse().unwrap(),
        )]))
    };
    assert_eq!(wait("120"), Some(120));
    assert_eq!(wait("99999999999"), Some(7 * 86_400));
    assert_eq!(wait("Wed, 21 Oct 2015 07:28:00 GMT"), Some(0));
    assert_eq!(wait("soon"), None);
}

#[test]
fn bodies_of_every_framing() {
    let body = |text: &[u8], is_end| {
        parse(text, &Method::GET, is_end)
            .unwrap()
            .map(|response| response.into_body())
    };
    let whole = Some(Bytes::from_static(b"hello"));
    assert_eq!(
        body(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", false),
        whole
    );
    assert_eq!(
        body(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell", true),
        None
    );
    assert_eq!(body(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n", false), whole);
    assert_eq!(
        body(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n",
            true
        ),
        None
    );
    assert_eq!(body(b"HTTP/1.1 200 OK\r\n\r\nhello", false), None);
    assert_eq!(body(b"HTTP/1.1 200 OK\r\n\r\nhello", true), whole);
    assert_eq!(
        body(
            b"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
            false
        ),
        whole
    );
    assert_eq!(
        body(b"HTTP/1.1 204 None\r\n\r\n", false),
        Some(Bytes::new())
    );
    assert!(
        parse(
            b"HTTP/1.1 200 OK\nContent-Length: 5\r\n\r\nhello",
            &Method::GET,
            false
        )
        .is_err()
    );
    assert!(parse(b"nonsense", &Method::GET, false).is_err());
    let of_head = parse(
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n",
        &Method::HEAD,
        false,
    )
    .unwrap()
    .unwrap();
    assert!(of_head.into_body().is_empty());
}

#[test]
fn an_error_without_a_reason_gets_one() {
    let body = |status: u16, body: &'static str| {
        let response = Response::builder()
            .status(status)
            .body(Bytes::from(body))
            .unwrap();
        String::from_utf8(with_problem(response).into_body().to_vec()).unwrap()
    };
    assert_eq!(
        body(502, "<html>"),
        "{\"detail\":\"HTTP status 502\",\"status\":502}"
    );
    assert_eq!(
        body(404, ""),
        "{\"detail\":\"HTTP status 404\",\"status\":404}"
    );
    assert_eq!(body(403, "{\"detail\": \"no\"}"), "{\"detail\": \"no\"}");
    assert_eq!(body(200, "chain"), "chain");
}

#[test]
fn what_is_not_there_is_an_error() {
    let (listener, url) = (TcpListener::bind("127.0.0.1:0").unwrap(), "http://");
    let address = listener.local_addr().unwrap();
    drop(listener);
    for bad in [
        format!("{url}{address}/"),
        "http:///".into(),
        "nonsense\n".into(),
        "http://does-not-exist.invalid/".into(),
    ] {
        assert!(run(client().status(&bad)).is_err(), "{bad}");
    }
    assert!(Client::new(Some(Path::new("/no/such/file.pem"))).is_err());
}

#[test]
fn a_process_that_was_stopped_goes_on() {
    let mut kinds = [
        io::ErrorKind::Interrupted,
        io::ErrorKind::Interrupted,
        io::ErrorKind::WouldBlock,
    ]
    .into_iter();
    let error = uninterrupted::<()>(|| Err(kinds.next().unwrap().into())).unwrap_err();
    assert_eq!(
        (error.kind(), kinds.next()),
        (io::ErrorKind::TimedOut, None)
    );
}

/// A server that says nothing is left after the time limit.
#[test]
fn silence_ends() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let uri: Uri = format!("http://{}/", listener.local_addr().unwrap())
        .parse()
        .unwrap();
    let (head, ()) = Request::builder().uri(uri).body(()).unwrap().into_parts();
    let begun = Instant::now();
    let error = exchange(client().tls, &head, b"", begun + Duration::from_millis(200)).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    assert!(begun.elapsed() < Duration::from_secs(25));
}
