use super::*;
use saker_config::model::{Address, Origin, Site};
use saker_pipeline::{Client, Reverse};
use std::{net::SocketAddr, rc::Rc, sync::Arc};

fn exchange(method: &str, target: &str) -> Exchange {
    let address = SocketAddr::from(([127, 0, 0, 1], 80));
    let client = Client::new(address, address, Arc::new(Address::Tcp(address)), false);
    let fields = [
        ("Host", "shop.example"),
        ("Content-Length", "3"),
        ("Cookie", "a=1"),
    ];
    let head = RequestHead::build(method, target, Version::Http11, &fields);
    Exchange::new(
        Rc::new(client),
        head,
        Box::new(NoBody),
        Arc::new(Site::new(Origin::built_in())),
        0,
    )
}

fn manner() -> ProxyOptions {
    ProxyOptions {
        reverse: vec![
            Reverse {
                path: "/app/".into(),
                url: "http://backend:8080/".into(),
            },
            Reverse {
                path: "/other".into(),
                url: "http://backend:8081/o".into(),
            },
            Reverse {
                path: "/by-path".into(),
                url: "/path".into(),
            },
        ],
        reverse_cookie_paths: vec![("/".into(), "/app/".into())],
        reverse_cookie_domains: vec![("backend".into(), "shop.example".into())],
        ..ProxyOptions::default()
    }
}

fn call(manner: ProxyOptions) -> UpstreamRequest {
    let names = saker_pipeline::CallNames {
        origin: b"http://shop.example".to_vec(),
        via: b"shop.example".to_vec(),
        ..saker_pipeline::CallNames::default()
    };
    let to = saker_pipeline::UpstreamTarget::Process(Arc::default());
    UpstreamRequest {
        to,
        target: Vec::new(),
        script: None,
        manner: Arc::new(manner),
        names,
    }
}

fn head(fields: &[(&'static str, &str)]) -> ResponseHead {
    let mut all = Fields::new();
    fields
        .iter()
        .for_each(|(name, value)| all.append(*name, value.as_bytes().to_vec()));
    ResponseHead {
        status: Status::OK,
        reason: None,
        fields: all,
        length: None,
        is_status_said: true,
        first_status: None,
        is_status_invalid: false,
        is_local_redirect: false,
    }
}

#[test]
fn fields_of_the_connection_stay_on_it() {
    let head = head(&[
        ("Connection", "close, X-Hop"),
        ("X-Hop", "1"),
        ("Keep-Alive", "timeout=5"),
        ("X-Stays", "2"),
        ("Trailer", "X"),
    ]);
    let mut call = call(ProxyOptions::default());
    // What servers announce, comes; programs have no trailers.
    let of_server = response(head.clone(), &call);
    assert_eq!(
        of_server.fields().iter().collect::<Vec<_>>(),
        [("X-Stays", &b"2"[..]), ("Trailer", &b"X"[..])]
    );
    call.script = Some(Box::default());
    let of_program = response(head, &call);
    assert_eq!(
        of_program.fields().iter().collect::<Vec<_>>(),
        [("X-Stays", &b"2"[..])]
    );
}

#[test]
fn urls_of_the_backend_become_ours() {
    let location = |value: &str| {
        let response = response(head(&[("Location", value)]), &call(manner()));
        String::from_utf8(response.fields().first("Location").unwrap().to_vec()).unwrap()
    };
    assert_eq!(
        location("http://backend:8080/x?y"),
        "http://shop.example/app/x?y"
    );
    assert_eq!(
        location("HTTP://BACKEND:8081/o/z"),
        "http://shop.example/other/z"
    );
    assert_eq!(location("http://elsewhere/x"), "http://elsewhere/x");
    assert_eq!(location("http://backend:8081/n"), "http://backend:8081/n");
    assert_eq!(
        location("http://any:1/path/x"),
        "http://shop.example/by-path/x"
    );
    assert_eq!(location("/relative"), "/relative");
}

#[test]
fn via_is_added() {
    let via = |via: Via| {
        let manner = ProxyOptions {
            via,
            ..ProxyOptions::default()
        };
        let response = response(head(&[("Via", "1.0 inner")]), &call(manner));
        response
            .fields()
            .iter()
            .map(|(_, value)| String::from_utf8_lossy(value).into_owned())
            .collect::<Vec<_>>()
            .join(", ")
    };
    assert_eq!(
        (via(Via::Off), via(Via::On)),
        ("1.0 inner".into(), "1.0 inner, 1.1 shop.example".into())
    );
    assert_eq!(
        (via(Via::Full), via(Via::Block)),
        (
            "1.0 inner, 1.1 shop.example (Saker)".into(),
            "1.0 inner".into()
        )
    );
}

#[test]
fn cookies_are_for_our_paths_and_names() {
    let head = head(&[
        ("Set-Cookie", "path=1; Path=/in; domain=BACKEND; HttpOnly"),
        ("Set-Cookie", "b=2"),
        ("X", "y"),
    ]);
    let response = response(head, &call(manner()));
    let lines: Vec<_> = response
        .fields()
        .iter()
        .map(|(_, value)| String::from_utf8_lossy(value).into_owned())
        .collect();
    assert_eq!(
        lines,
        [
            "path=1; Path=/app/; domain=shop.example; HttpOnly",
            "b=2",
            "y"
        ]
    );
}

#[test]
fn a_path_of_ours_is_followed_as_by_get() {
    let mut exchange = exchange("POST", "/cgi-bin/x");
    assert!(follow(b"/new/../page?a=1", &mut exchange));
    assert_eq!(
        (&*exchange.path, exchange.query.as_deref()),
        (&b"/page"[..], Some(&b"a=1"[..]))
    );
    let view = exchange.head.view();
    assert_eq!(
        (
            view.method(),
            view.first("content-length"),
            view.first("cookie")
        ),
        (Method::Get, None, Some(&b"a=1"[..]))
    );
    assert!(!follow(b"/../../etc", &mut exchange));
}

#[test]
fn errors_are_overridden_where_that_is_wanted() {
    let all = ProxyOptions {
        overrides_errors: true,
        ..ProxyOptions::default()
    };
    let some = ProxyOptions {
        overridden: vec![404],
        ..all.clone()
    };
    assert!(is_overridden(Status(500), &all) && !is_overridden(Status(302), &all));
    assert!(is_overridden(Status(404), &some) && !is_overridden(Status(500), &some));
    assert!(!is_overridden(Status(500), &ProxyOptions::default()));
}

#[test]
fn a_date_that_is_none_goes_whatever_came_before() {
    let kept = |dates: &[&str]| {
        let mut fields = Fields::new();
        let lines = dates.iter();
        lines.for_each(|date| fields.append("Date", date.as_bytes().to_vec()));
        remove_invalid_date(&mut fields);
        fields.len()
    };
    let (date, no_date) = (
        "Sun, 06 Nov 1994 08:49:37 GMT",
        "Sun, 06 Nov 1994 08:49:37 XYZ",
    );
    assert_eq!((kept(&[]), kept(&[date]), kept(&[date])), (0, 1, 1));
    assert_eq!((kept(&[no_date]), kept(&[no_date]), kept(&[""])), (0, 0, 0));
    assert_eq!((kept(&[date, date]), kept(&[date])), (0, 1));
}

#[test]
fn fields_of_the_connection_stay_with_it() {
    let call = UpstreamRequest {
        to: UpstreamTarget::Upstream(Arc::new(saker_config::model::Upstream::new(
            "test",
            Vec::new(),
        ))),
        target: b"/".to_vec(),
        script: None,
        manner: Arc::new(ProxyOptions::default()),
        names: Default::default(),
    };
    let mut fields = Fields::new();
    for (name, value) in [
        ("CONNECTION", "x-Hop, y"),
        ("X-HOP", "1"),
        ("keep-Alive", "2"),
        ("Trailer", "3"),
        ("X-End", "4"),
    ] {
        fields.append(name, value.as_bytes());
    }
    let head = ResponseHead {
        status: Status::OK,
        reason: None,
        fields,
        length: None,
        is_status_said: true,
        first_status: None,
        is_status_invalid: false,
        is_local_redirect: false,
    };
    let response = response(head, &call);
    let names: Vec<&str> = response.fields().iter().map(|line| line.0).collect();
    assert_eq!(names, ["Trailer", "X-End"]);
}
