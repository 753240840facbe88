//! Values as Apache 2.4 with mod_cgi gives them to a script.

use super::*;
use saker_http::{RequestHead, Version};

fn head(version: Version, fields: &[(&str, &str)]) -> RequestHead {
    RequestHead::build("POST", "/cgi-bin/env.cgi/pa%20th/x?q=1+2", version, fields)
}

fn facts(head: &RequestHead) -> Facts<'_> {
    Facts {
        head: head.view(),
        tells_fields: true,
        passes_authorization: false,
        passes_underscores: false,
        content_length: Some(3),
        search_path: Some(b"/usr/bin:/bin"),
        server_signature: b"",
        server_software: b"Saker",
        server_name: b"a.example",
        server_addr: b"127.0.0.1",
        server_port: 8971,
        server_admin: None,
        remote_host: None,
        remote_addr: b"127.0.0.2",
        remote_port: 34776,
        remote_user: None,
        remote_ident: None,
        auth_type: None,
        request_scheme: b"http",
        document_root: b"/srv/www",
        context_prefix: b"/cgi-bin/",
        context_document_root: b"/srv/cgi-bin/",
        script_filename: b"/srv/cgi-bin/env.cgi",
        redirect_url: None,
        redirect_query_string: None,
        server_protocol: b"HTTP/1.1",
        request_method: b"POST",
        query_string: Some(b"q=1+2"),
        request_uri: b"/cgi-bin/env.cgi/pa%20th/x?q=1+2",
        path: b"/cgi-bin/env.cgi/pa th/x",
        path_info: b"/pa th/x",
        path_translated: Some(b"/srv/www/pa th/x"),
    }
}

fn lines(variables: &Variables) -> Vec<String> {
    variables
        .iter()
        .map(|(name, value)| format!("{}={}", name.escape_ascii(), value.escape_ascii()))
        .collect()
}

fn made(facts: &Facts<'_>, environment: &[(&str, &str)]) -> Vec<String> {
    let mut variables = Variables::new();
    environment
        .iter()
        .for_each(|(name, value)| variables.push(name.as_bytes(), value.as_bytes()));
    push_meta_variables(facts, &mut variables);
    lines(&variables)
}

#[test]
fn all_of_a_request() {
    let head = head(
        Version::Http11,
        &[
            ("Host", "a.example"),
            ("Content-Length", "17"),
            ("content-type", "a/b"),
        ],
    );
    let want = "HTTP_HOST=a.example
CONTENT_TYPE=a/b
CONTENT_LENGTH=3
PATH=/usr/bin:/bin
SERVER_SIGNATURE=
SERVER_SOFTWARE=Saker
SERVER_NAME=a.example
SERVER_ADDR=127.0.0.1
SERVER_PORT=8971
REMOTE_ADDR=127.0.0.2
DOCUMENT_ROOT=/srv/www
REQUEST_SCHEME=http
CONTEXT_PREFIX=/cgi-bin/
CONTEXT_DOCUMENT_ROOT=/srv/cgi-bin/
SCRIPT_FILENAME=/srv/cgi-bin/env.cgi
REMOTE_PORT=34776
GATEWAY_INTERFACE=CGI/1.1
SERVER_PROTOCOL=HTTP/1.1
REQUEST_METHOD=POST
QUERY_STRING=q=1+2
REQUEST_URI=/cgi-bin/env.cgi/pa%20th/x?q=1+2
SCRIPT_NAME=/cgi-bin/env.cgi
PATH_INFO=/pa th/x
PATH_TRANSLATED=/srv/www/pa th/x";
    assert_eq!(made(&facts(&head), &[]), want.lines().collect::<Vec<_>>());
}

#[test]
fn what_may_be_missing() {
    let head = head(Version::Http10, &[]);
    let all = Facts {
        content_length: None,
        search_path: None,
        server_admin: Some(b"root@a"),
        remote_host: Some(b"b.example"),
        remote_user: Some(b"joe"),
        remote_ident: Some(b"j"),
        auth_type: Some(b"Basic"),
        redirect_url: Some(b"/old"),
        redirect_query_string: Some(b"o=1"),
        query_string: None,
        path: b"/x",
        path_info: b"",
        ..facts(&head)
    };
    let made = made(&all, &[]);
    for line in [
        "SERVER_ADMIN=root@a",
        "REMOTE_HOST=b.example",
        "REMOTE_USER=joe",
        "REMOTE_IDENT=j",
        "AUTH_TYPE=Basic",
        "REDIRECT_URL=/old",
    ] {
        assert!(made.iter().any(|made| made == line), "{line}");
    }
    assert!(
        made.iter().any(|made| made == "REDIRECT_QUERY_STRING=o=1")
            && made.iter().any(|made| made == "QUERY_STRING=")
    );
    assert!(
        !made
            .iter()
            .any(|made| made.starts_with("CONTENT_") || made.starts_with("PATH")),
        "{made:?}"
    );
}

#[test]
fn fields_become_variables() {
    let rows: [(&[(&str, &str)], &str); 9] = [
        (&[("X-A", "1"), ("x-a", "2")], "HTTP_X_A=1, 2"),
        (&[("X_B", "under")], ""),
        (&[("X.C", "dot")], ""),
        (&[("Proxy", "evil")], ""),
        (
            &[
                ("Authorization", "Basic eA=="),
                ("Proxy-Authorization", "x"),
            ],
            "",
        ),
        (
            &[("Cookie", "a=1"), ("Cookie", "b=2")],
            "HTTP_COOKIE=a=1, b=2",
        ),
        (&[("X-Empty", "")], "HTTP_X_EMPTY="),
        (
            &[("X-A", "1"), ("B", "2"), ("X-A", "3")],
            "HTTP_X_A=1, 3;HTTP_B=2",
        ),
        (&[("If-None-Match", "\"x\"")], "HTTP_IF_NONE_MATCH=\"x\""),
    ];
    for (fields, want) in rows {
        let head = head(Version::Http11, fields);
        let made: Vec<_> = made(&facts(&head), &[])
            .into_iter()
            .filter(|line| line.starts_with("HTTP_"))
            .collect();
        assert_eq!(made.join(";").replace('\\', ""), want);
    }
    let head_with_others = head(
        Version::Http11,
        &[("X_B", "under"), ("X.C", "dot"), ("Proxy", "evil")],
    );
    let passing = Facts {
        passes_underscores: true,
        ..facts(&head_with_others)
    };
    let made_of_all: Vec<_> = made(&passing, &[])
        .into_iter()
        .filter(|line| line.starts_with("HTTP_"))
        .collect();
    assert_eq!(made_of_all, ["HTTP_X_B=under", "HTTP_X_C=dot"]);
    let long = "x".repeat(NAME_BYTES_MAX + 1);
    let head = head(Version::Http11, &[(&long, "a"), (&long[1..], "b")]);
    assert_eq!(
        made(&facts(&head), &[])
            .iter()
            .filter(|line| line.starts_with("HTTP_X"))
            .count(),
        1
    );
}

#[test]
fn a_password_is_passed_on_where_it_is_wanted_and_cookies_are_joined_as_they_were() {
    let head = head(
        Version::Http2,
        &[
            ("authorization", "Basic eA=="),
            ("cookie", "a=1"),
            ("cookie", "b=2"),
        ],
    );
    let made = made(
        &Facts {
            passes_authorization: true,
            ..facts(&head)
        },
        &[],
    );
    assert_eq!(
        made[..2],
        ["HTTP_AUTHORIZATION=Basic eA==", "HTTP_COOKIE=a=1; b=2"]
    );
}

#[test]
fn the_server_wins_over_the_configuration_in_its_place() {
    let head = head(Version::Http11, &[("X-A", "1")]);
    let made = made(
        &facts(&head),
        &[
            ("SERVER_NAME", "other"),
            ("MINE", "1"),
            ("HTTP_X_A", "2"),
            ("HTTP_X_B", "3"),
        ],
    );
    assert_eq!(
        made[..4],
        [
            "SERVER_NAME=a.example",
            "MINE=1",
            "HTTP_X_A=1",
            "HTTP_X_B=3"
        ]
    );
    assert_eq!(
        made.iter()
            .filter(|line| line.starts_with("SERVER_NAME=") || line.starts_with("HTTP_X_A="))
            .count(),
        2
    );
}

#[test]
fn a_redirect_leaves_all_behind() {
    let (mut before, mut after) = (Variables::new(), Variables::new());
    before.push(b"SERVER_NAME", b"a");
    before.push(b"REDIRECT_X", b"b");
    push_redirected(&before, &mut after);
    assert_eq!(
        lines(&after),
        ["REDIRECT_SERVER_NAME=a", "REDIRECT_REDIRECT_X=b"]
    );
}

#[test]
fn names_of_servers_mean_nothing_to_html() {
    let head = head(Version::Http11, &[]);
    let made = made(
        &Facts {
            server_name: b"a<b>&\"",
            ..facts(&head)
        },
        &[],
    );
    assert!(
        made.contains(&"SERVER_NAME=a&lt;b&gt;&amp;&quot;".to_owned()),
        "{made:?}"
    );
}

#[test]
fn script_names() {
    let rows = [
        ("/cgi/env/pa", "/pa", "/cgi/env"),
        ("/cgi/env", "", "/cgi/env"),
        ("/pa", "/pa", ""),
        ("/old/x", "/new/x", "/old"),
        ("/abc", "/xyz", "/abc"),
        ("/a/bc", "/xbc", "/a"),
        ("", "/x", ""),
        ("/x", "/longer/x", ""),
        ("/index.php/a/b", "/a/b", "/index.php"),
    ];
    for (path, path_info, want) in rows {
        assert_eq!(
            script_name(path.as_bytes(), path_info.as_bytes())
                .escape_ascii()
                .to_string(),
            want,
            "{path} {path_info}"
        );
    }
}
