//! Applications in other languages behind the gateway, by the servers that Debian has for them:
//! Python by uwsgi and by SCGI, Java by AJP.

#![allow(clippy::unwrap_used, clippy::panic)] // The whole file is tests.

use crate::operate;
use saker_testkit::{Client, Saker, ServerProcess, TempDir, free_port, poll};
use std::{fs, net::SocketAddr, path::Path, process::Command, time::Duration};

const PATIENCE: Duration = Duration::from_secs(30);

const APPLICATION: &str = r#"
def application(environ, start_response):
    body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
    if environ["PATH_INFO"].endswith("/stream"):
        start_response("200 OK", [("Content-Type", "text/plain")])
        return (b"line %d\n" % number for number in range(20000))
    if environ["PATH_INFO"].endswith("/fails"):
        raise RuntimeError("on purpose")
    names = ["REQUEST_METHOD", "PATH_INFO", "QUERY_STRING", "HTTP_X_MARK", "REMOTE_ADDR", "SERVER_PROTOCOL", "wsgi.url_scheme"]
    text = "|".join(environ.get(name, "-") for name in names) + "|%d" % len(body)
    start_response("201 Created", [("Content-Type", "text/plain"), ("X-From", "python"), ("Set-Cookie", "a=1"), ("Set-Cookie", "b=2")])
    return [text.encode()]
"#;

const PAGE: &str = r#"<%@ page contentType="text/plain; charset=utf-8" %><% response.addHeader("X-From", "java"); response.addCookie(new jakarta.servlet.http.Cookie("a", "1")); %><%= request.getMethod() %>|<%= request.getRequestURI() %>|<%= request.getQueryString() %>|<%= request.getHeader("X-Mark") %>|<%= request.getRemoteAddr() %>|<%= request.getServerName() %>|<%= request.getInputStream().readAllBytes().length %>|"#;
const LONG: &str = r#"<%@ page contentType="text/plain" buffer="8kb" %><% for (int i = 0; i < 20000; i++) out.print("line " + i + "\n"); %>"#;

fn site(dir: TempDir, server: &str, more: &str) -> Saker {
    let text = format!(
        "[server]\nworkers = 1\nstate_dir = \"{{dir}}/state\"\n[[listener]]\naddress = \"{{address}}\"\n\
         [[upstream]]\nname = \"app\"\nservers = [\"{server}\"]\n{more}\n\
         [[site]]\nnames = [\"*\"]\n[[site.route]]\npath = \"/*\"\nproxy = \"app\"\n"
    );
    operate::native(&text).start(dir)
}

fn connect(saker: &Saker) -> Client {
    let mut client = saker.connect().unwrap();
    client.set_timeout(PATIENCE).unwrap();
    client
}

/// uWSGI speaks both protocols; by which of them it is asked is all that differs.
#[test]
fn python_by_uwsgi_and_scgi() {
    let _turn = saker_testkit::heavy();
    assert!(
        Path::new("/usr/bin/uwsgi-core").exists(),
        "uwsgi-core is not there: tools/install-test-programs"
    );
    for (protocol, option) in [("uwsgi", "--uwsgi-socket"), ("scgi", "--scgi-socket")] {
        let dir = TempDir::new(&format!("python-{protocol}")).unwrap();
        let application = dir.write("app.py", APPLICATION).unwrap();
        let python = ServerProcess::start_on_free_port(|port| {
            let mut command = Command::new("/usr/bin/uwsgi-core");
            command.args([
                "--plugin",
                "python3",
                "--processes",
                "2",
                "--need-app",
                "--die-on-term",
                option,
                &format!("127.0.0.1:{port}"),
            ]);
            command.arg("--wsgi-file").arg(&application);
            command
        });
        let python = python.unwrap();
        let saker = site(
            dir,
            &format!("{protocol}://{}", python.address()),
            "request_buffer = \"1GiB\"",
        );
        let mut client = connect(&saker);
        let response = client
            .request("GET", "/a%20b/c?q=1&x=%20", &[("X-Mark", "mark")])
            .unwrap();
        assert_eq!(
            (response.status, response.text()),
            (
                201,
                "GET|/a b/c|q=1&x=%20|mark|127.0.0.1|HTTP/1.1|http|0".into()
            ),
            "{protocol}"
        );
        assert_eq!(
            (
                response.field("x-from"),
                response.field_values("set-cookie").count()
            ),
            (Some("python"), 2),
            "{protocol}"
        );
        client
            .send("POST /form HTTP/1.1\r\nHost: a\r\nContent-Length: 300000\r\n\r\n")
            .unwrap();
        client.send(vec![b'x'; 300_000]).unwrap();
        let posted = client.read_response().unwrap().text();
        assert!(
            posted.starts_with("POST|/form|") && posted.ends_with("|300000"),
            "{protocol}: {posted}"
        );
        let streamed = client.get("/stream").unwrap().text();
        assert_eq!(
            (streamed.lines().count(), streamed.lines().last()),
            (20_000, Some("line 19999")),
            "{protocol}"
        );
        let failed = client.get("/fails").unwrap().status;
        assert!((500..=502).contains(&failed), "{protocol}: {failed}");
        assert_eq!(
            connect(&saker).get("/again").unwrap().status,
            201,
            "{protocol}"
        );
    }
}

/// Tomcat in a folder of its own, asked for the secret that it wants.
#[test]
fn java_by_ajp() {
    let _turn = saker_testkit::heavy();
    let program = Path::new("/usr/share/tomcat10/bin/catalina.sh");
    assert!(
        program.exists(),
        "tomcat10 is not there: tools/install-test-programs"
    );
    let dir = TempDir::new("tomcat").unwrap();
    for folder in ["logs", "temp", "work"] {
        fs::create_dir_all(dir.join(folder)).unwrap();
    }
    dir.write("webapps/ROOT/echo.jsp", PAGE).unwrap();
    dir.write("webapps/ROOT/long.jsp", LONG).unwrap();
    dir.write("webapps/ROOT/plain.txt", "plain").unwrap();
    dir.write(
        "conf/web.xml",
        fs::read_to_string("/etc/tomcat10/web.xml").unwrap(),
    )
    .unwrap();
    let tomcat = start(program, &dir);
    let saker = site(
        TempDir::new("tomcat-site").unwrap(),
        &format!("ajp://{}", tomcat.address()),
        "",
    );
    assert_eq!(
        connect(&saker).get("/plain.txt").unwrap().status,
        403,
        "without the secret"
    );
    drop(saker);
    let dir = TempDir::new("tomcat-site").unwrap();
    let configuration = format!(
        "{MODULES}Listen {{address}}\nServerName localhost\nDocumentRoot {{dir}}\nProxyPass / ajp://{}/ secret=s3cret\n",
        tomcat.address()
    );
    let saker = operate::apache(&configuration).start(dir);
    let mut client = connect(&saker);
    let plain = client.get("/plain.txt").unwrap();
    assert_eq!((plain.status, plain.text()), (200, "plain".into()));
    let tag = plain.field("etag").unwrap().to_owned();
    assert_eq!(
        client
            .request("GET", "/plain.txt", &[("If-None-Match", &tag)])
            .unwrap()
            .status,
        304
    );
    let page = client
        .request("GET", "/echo.jsp?q=1", &[("X-Mark", "mark")])
        .unwrap();
    assert!(
        page.text().starts_with("GET|/echo.jsp|q=1|mark|127.0.0.1|"),
        "{}",
        page.text()
    );
    assert_eq!(
        (page.field("x-from"), page.field("set-cookie").is_some()),
        (Some("java"), true)
    );
    client
        .send("POST /echo.jsp HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n")
        .unwrap();
    client.send(vec![b'x'; 100_000]).unwrap();
    let posted = client.read_response().unwrap().text();
    assert!(
        posted.starts_with("POST|/echo.jsp|") && posted.contains("|100000|"),
        "{posted}"
    );
    assert_eq!(
        client
            .get("/long.jsp")
            .unwrap()
            .text()
            .trim()
            .lines()
            .count(),
        20_000
    );
    assert_eq!(
        client.head("/plain.txt").unwrap().field("content-length"),
        Some("5")
    );
    assert_eq!(client.get("/nothing").unwrap().status, 404);
}

const MODULES: &str = "LoadModule mpm_event_module modules/mod_mpm_event.so\nLoadModule authz_core_module modules/mod_authz_core.so\n\
                       LoadModule proxy_module modules/mod_proxy.so\nLoadModule proxy_ajp_module modules/mod_proxy_ajp.so\n";

fn start(program: &Path, dir: &TempDir) -> ServerProcess {
    let port = free_port().unwrap();
    dir.write(
        "conf/server.xml",
        format!(
            "<Server port=\"-1\"><Service name=\"Catalina\"><Connector protocol=\"AJP/1.3\" address=\"127.0.0.1\" port=\"{port}\" \
             secretRequired=\"true\" secret=\"s3cret\"/><Engine name=\"Catalina\" defaultHost=\"localhost\"><Host name=\"localhost\" \
             appBase=\"webapps\" autoDeploy=\"false\"/></Engine></Service></Server>"
        ),
    )
    .unwrap();
    let mut command = Command::new(program);
    command
        .arg("run")
        .env("CATALINA_BASE", dir.to_path_buf())
        .env("CATALINA_HOME", "/usr/share/tomcat10");
    command.env(
        "JAVA_OPTS",
        "-Xmx128m -XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    );
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let server = ServerProcess::spawn(&mut command, address).unwrap();
    let started = poll(PATIENCE, || Client::connect(address).ok());
    assert!(started.is_some(), "Tomcat: {}", server.stderr());
    server
}
