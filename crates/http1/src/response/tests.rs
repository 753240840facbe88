use super::*;

const DATE: &[u8; 29] = b"Sun, 06 Nov 1994 08:49:37 GMT";

fn fields(lines: &[(&'static str, &'static str)]) -> Fields {
    let mut fields = Fields::new();
    for (name, value) in lines {
        fields.append(*name, value.as_bytes());
    }
    fields
}

fn head(
    status: u16,
    lines: &[(&'static str, &'static str)],
    connection: Connection,
    framing: ResponseFraming,
) -> String {
    let mut out = Vec::new();
    encode_head(
        Status(status),
        &fields(lines),
        HeadExtra {
            date: None,
            connection,
            framing,
            reason: None,
        },
        &mut out,
    );
    String::from_utf8(out).unwrap()
}

fn plain(lines: &[(&'static str, &'static str)]) -> String {
    head(
        200,
        lines,
        Connection::KeepAlive,
        ResponseFraming::Length(3),
    )
}

#[test]
fn a_head_in_full() {
    let extra = HeadExtra {
        date: Some(DATE),
        connection: Connection::Close,
        framing: ResponseFraming::Length(1_234_567_890),
        reason: None,
    };
    let mut out = b"before".to_vec();
    encode_head(
        Status::NOT_FOUND,
        &fields(&[("Server", "Saker"), ("date", "x"), ("A", "1"), ("A", "2")]),
        extra,
        &mut out,
    );
    let expected = "beforeHTTP/1.1 404 Not Found\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\nServer: Saker\r\nA: 1\r\nA: 2\r\n\
                    Connection: close\r\nContent-Length: 1234567890\r\n\r\n";
    assert_eq!(String::from_utf8(out).unwrap(), expected);
}

#[test]
fn handlers_can_not_contradict_framing_and_connection() {
    let lines = [
        ("content-length", "7"),
        ("Transfer-Encoding", "chunked"),
        ("CONNECTION", "x"),
        ("Keep-Alive", "timeout=5"),
        ("Proxy-Connection", "close"),
    ];
    assert_eq!(
        plain(&lines),
        "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n"
    );
}

#[test]
fn a_handlers_date_stays_where_there_is_no_other() {
    assert_eq!(
        plain(&[("Date", "then")]),
        "HTTP/1.1 200 OK\r\nDate: then\r\nContent-Length: 3\r\n\r\n"
    );
}

#[test]
fn no_value_and_no_name_splits_a_response() {
    assert_eq!(
        plain(&[("A", "b\r\nSet-Cookie: c\0\x7f\td")]),
        "HTTP/1.1 200 OK\r\nA: b  Set-Cookie: c  \td\r\nContent-Length: 3\r\n\r\n"
    );
    assert_eq!(
        plain(&[("A\r\nB", "c"), ("D:", "e"), ("", "f"), ("G H", "i")]),
        "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n"
    );
}

#[test]
fn each_connection_has_its_line() {
    let line = |connection| head(200, &[], connection, ResponseFraming::None);
    assert_eq!(line(Connection::KeepAlive), "HTTP/1.1 200 OK\r\n\r\n");
    assert_eq!(
        line(Connection::KeepAlive10),
        "HTTP/1.1 200 OK\r\nConnection: keep-alive\r\n\r\n"
    );
    assert_eq!(
        line(Connection::Close),
        "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"
    );
}

#[test]
fn upgrade_is_listed_wherever_it_is_sent() {
    let upgrade = [("Upgrade", "websocket")];
    let switched = head(101, &upgrade, Connection::Upgrade, ResponseFraming::None);
    assert_eq!(
        switched,
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n"
    );
    assert!(
        head(426, &upgrade, Connection::Close, ResponseFraming::Length(0))
            .contains("\r\nConnection: close, upgrade\r\n")
    );
    assert!(
        head(
            426,
            &upgrade,
            Connection::KeepAlive,
            ResponseFraming::Length(0)
        )
        .contains("\r\nConnection: upgrade\r\n")
    );
}

#[test]
fn framing_follows_status() {
    let with = |status, framing| head(status, &[], Connection::KeepAlive, framing);
    assert_eq!(
        with(200, ResponseFraming::Chunked),
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    );
    assert_eq!(
        with(204, ResponseFraming::Length(0)),
        "HTTP/1.1 204 No Content\r\n\r\n"
    );
    assert_eq!(
        with(101, ResponseFraming::Chunked),
        "HTTP/1.1 101 Switching Protocols\r\n\r\n"
    );
    assert_eq!(
        with(304, ResponseFraming::Length(5)),
        "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n"
    );
    assert_eq!(
        with(200, ResponseFraming::UntilClose),
        "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"
    );
    assert!(
        with(200, ResponseFraming::Length(u64::MAX))
            .contains("\r\nContent-Length: 18446744073709551615\r\n")
    );
}

#[test]
fn codes_that_are_none_become_500() {
    assert!(
        head(99, &[], Connection::KeepAlive, ResponseFraming::None).starts_with("HTTP/1.1 500 ")
    );
    assert!(
        head(1000, &[], Connection::KeepAlive, ResponseFraming::None).starts_with("HTTP/1.1 500 ")
    );
    assert!(
        head(999, &[], Connection::KeepAlive, ResponseFraming::None).starts_with("HTTP/1.1 999 ")
    );
}

#[test]
fn interim_responses_have_fields_and_no_framing() {
    let mut out = Vec::new();
    encode_informational(
        Status::EARLY_HINTS,
        &fields(&[("Link", "</a>"), ("Content-Length", "5")]),
        &mut out,
    );
    encode_informational(Status::CONTINUE, &Fields::new(), &mut out);
    assert_eq!(
        out,
        b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n"
    );
}
