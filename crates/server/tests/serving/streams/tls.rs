//! TLS in streams: passed on by server name, ended here, and begun to servers.
//!
//! Called by: `mod`.
//! Caveat: certificates are self-signed, so servers behind `tls://` are refused unless the system
//! trusts them; that is tested, too.

use super::{Streams, connect, hello, named, rest};
use crate::{
    operate,
    tls_site::{certificate, leaf_certificate, openssl_client},
};
use saker_testkit::{OPENSSL_CLIENT, ServerProcess, TempDir, free_port, require};
use std::{
    io::{Read, Write},
    net::{Ipv4Addr, SocketAddr},
    path::Path,
    process::{Command, Stdio},
};

/// `openssl s_server` that answers with a page.
fn s_server(dir: &TempDir, name: &str) -> ServerProcess {
    leaf_certificate(dir, name, &format!("{name}.test"));
    s_server_with(dir, name, &[])
}

/// As [`s_server`], with a certificate that is there, and with options.
fn s_server_with(dir: &TempDir, name: &str, options: &[&str]) -> ServerProcess {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port().unwrap()));
    let mut command = Command::new(require("openssl").unwrap());
    command
        .args([
            "s_server",
            "-quiet",
            "-www",
            "-accept",
            &address.to_string(),
        ])
        .arg("-cert")
        .arg(dir.join(format!("{name}.pem")))
        .arg("-key")
        .arg(dir.join(format!("{name}.key")))
        .args(options)
        .stdin(Stdio::null());
    ServerProcess::start(&mut command, address).unwrap()
}

/// The certificate's name that a client sees, and whether it verifies.
fn seen(address: SocketAddr, name: Option<&str>, authority: &Path) -> String {
    let mut words = vec!["-connect".to_owned(), address.to_string()];
    match name {
        Some(name) => words.extend(["-servername".to_owned(), name.to_owned()]),
        None => words.push("-noservername".to_owned()),
    }
    words.extend([
        "-CAfile".to_owned(),
        authority.to_string_lossy().into_owned(),
    ]);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let output = openssl_client(&words);
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn tls_is_passed_on_by_server_name() {
    let dir = operate::folder("stream-sni");
    let (one, two) = (s_server(&dir, "one"), s_server(&dir, "two"));
    let plain = named("p");
    let streams = Streams::start_in(
        dir,
        &format!(
            "[[stream]]\nlisten = \"127.0.0.1:{{p}}\"\nproxy = \"{plain}\"\n\
             access_log = {{ path = \"{{dir}}/stream.log\", format = \"$sni $ssl_preread_protocol $upstream_addr\" }}\n\
             [[stream.route]]\nsni = [\"one.test\"]\nproxy = \"{}\"\n\
             [[stream.route]]\nsni = \"*.two.test\"\nproxy = \"{}\"\n",
            one.address(),
            two.address()
        ),
    );
    let dir = &streams.saker.dir;
    let (at, first, second) = (streams.address(0), dir.join("one.pem"), dir.join("two.pem"));
    for name in ["one.test", "ONE.Test", "one.test."] {
        let text = seen(at, Some(name), &first);
        assert!(
            text.contains("CN = one.test") && text.contains("Verify return code: 0"),
            "{name}: {text}"
        );
    }
    for name in ["a.two.test", "a.b.TWO.test"] {
        assert!(
            seen(at, Some(name), &second).contains("CN = two.test"),
            "{name}"
        );
    }
    let lines = streams.lines("stream.log", 5);
    assert_eq!(lines[1], format!("one.test TLSv1.3 {}", one.address()));
    // What no route takes, and what is no TLS at all, goes the way of the rest.
    for bytes in [
        hello(b"two.test", b"\x02h2", 0),
        b"GET / HTTP/1.1\r\n\r\n".to_vec(),
    ] {
        let mut stream = connect(at);
        stream.write_all(&bytes).unwrap();
        let mut heard = vec![0; 2 + bytes.len()];
        stream.read_exact(&mut heard).unwrap();
        assert_eq!(heard, [b"p\n", &bytes[..]].concat(), "as it came");
    }
}

#[test]
fn without_a_way_for_the_rest_it_is_refused() {
    let (a, b) = (named("a"), named("b"));
    let streams = Streams::start(
        "stream-sni-only",
        &format!(
            "[[stream]]\nlisten = \"127.0.0.1:{{p}}\"\naccess_log = {{ path = \"{{dir}}/stream.log\", format = \"$sni $status\" }}\n\
             [[stream.route]]\nsni = \"a.test\"\nalpn = [\"h2\", \"dot\"]\nproxy = \"{a}\"\n\
             [[stream.route]]\nsni = \"*\"\nclient = [\"192.0.2.0/24\"]\nproxy = \"{a}\"\n\
             [[stream.route]]\nalpn = \"acme-tls/1\"\nproxy = \"{b}\"\n"
        ),
    );
    let heard = |name: &str, protocols: &[u8]| {
        let mut stream = streams.connect();
        stream
            .write_all(&hello(name.as_bytes(), protocols, 0))
            .unwrap();
        let mut first = [0; 1];
        match stream.read(&mut first) {
            Ok(1) => char::from(first[0]),
            _ => '-',
        }
    };
    assert_eq!(heard("a.test", b"\x08http/1.1\x02h2"), 'a');
    assert_eq!(heard("a.test", b"\x03dot"), 'a');
    assert_eq!(heard("a.test", b"\x08http/1.1"), '-');
    assert_eq!(heard("b.test", b"\x02h2"), '-');
    assert_eq!(heard("b.test", b"\x0aacme-tls/1"), 'b');
    let mut stream = streams.connect();
    stream.write_all(b"SSH-2.0-x\r\n").unwrap();
    assert_eq!(rest(&mut stream), "");
    let lines = streams.lines("stream.log", 6);
    let refused = lines.iter().filter(|line| line.ends_with(" 403")).count();
    assert_eq!(refused, 3, "{lines:?}");
    assert!(streams.saker.server.stderr().contains("SK0961"));
}

#[test]
fn tls_ends_here() {
    let a = named("a");
    let dir = operate::folder("stream-tls");
    certificate(&dir, "db", "db.test");
    // A site without `listeners` is on all of them, and yet not on a stream's.
    certificate(&dir, "site", "localhost");
    let streams = Streams::start_in(
        dir,
        &format!(
            "[site.tls]\ncertificate = \"{{dir}}/site.pem\"\nkey = \"{{dir}}/site.key\"\n\
             [[listener]]\naddress = \"127.0.0.1:{{r}}\"\ntls = true\n\
             [[stream]]\nlisten = \"127.0.0.1:{{p}}\"\n\
             access_log = {{ path = \"{{dir}}/stream.log\", format = \"$sni $ssl_protocol $ssl_alpn_protocol\" }}\n\
             [stream.tls]\ncertificate = \"{{dir}}/db.pem\"\nkey = \"{{dir}}/db.key\"\nalpn = [\"postgresql\", \"h2\"]\nminimum_version = \"1.3\"\n\
             [[stream.route]]\nsni = \"db.test\"\nalpn = \"postgresql\"\nproxy = \"{a}\"\n"
        ),
    );
    let authority = streams.saker.dir.join("db.pem");
    let at = streams.address(0).to_string();
    let talk = |more: &[&str]| {
        let mut child = Command::new(require("openssl").unwrap())
            .args(OPENSSL_CLIENT)
            .args(["-quiet", "-verify_return_error", "-connect", &at, "-CAfile"])
            .arg(&authority)
            .args(more)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut input = child.stdin.take().unwrap();
        let _ = input.write_all(b"hello");
        let mut output = child.stdout.take().unwrap();
        let mut heard = [0; 7];
        let is_whole = output.read_exact(&mut heard).is_ok();
        drop(input);
        let _ = child.kill();
        child.wait().unwrap();
        is_whole.then(|| String::from_utf8_lossy(&heard).into_owned())
    };
    let name = ["-servername", "DB.test", "-alpn", "postgresql"];
    assert_eq!(talk(&name).as_deref(), Some("a\nhello"));
    assert_eq!(
        streams.lines("stream.log", 1)[0],
        "db.test TLSv1.3 postgresql"
    );
    assert_eq!(
        talk(&["-servername", "db.test", "-alpn", "h2"]),
        None,
        "another route"
    );
    assert_eq!(
        talk(&["-servername", "db.test", "-alpn", "foo"]),
        None,
        "no protocol in common"
    );
    assert_eq!(
        talk(&["-servername", "db.test", "-tls1_2"]),
        None,
        "an old version"
    );
    // Another name gets the stream's certificate, unless a site's covers it.
    for (name, expected) in [
        ("other.test", "CN = db.test"),
        ("localhost", "CN = localhost"),
    ] {
        let text = seen(streams.address(0), Some(name), &authority);
        assert!(text.contains(expected), "{name}: {text}");
    }
    let text = seen(
        streams.address(2),
        None,
        &streams.saker.dir.join("site.pem"),
    );
    assert!(text.contains("CN = localhost"), "{text}");
}

#[test]
fn tls_to_a_server_is_verified() {
    let dir = operate::folder("stream-tls-up");
    let one = s_server(&dir, "one");
    let streams = Streams::start_in(
        dir,
        &format!(
            "[[stream]]\nlisten = \"127.0.0.1:{{p}}\"\nproxy = \"tls://{}\"\n\
             access_log = {{ path = \"{{dir}}/stream.log\", format = \"$status\" }}\n",
            one.address()
        ),
    );
    let mut stream = streams.connect();
    let _ = stream.write_all(b"GET / HTTP/1.0\r\n\r\n");
    assert_eq!(rest(&mut stream), "", "an authority that nobody knows");
    assert_eq!(streams.lines("stream.log", 1), ["502"]);
    assert!(streams.saker.server.stderr().contains("SK0960"));
}

#[test]
fn tls_to_servers_is_as_the_upstream_says() {
    let dir = operate::folder("stream-tls-known");
    let one = s_server(&dir, "one");
    leaf_certificate(&dir, "client", "client.test");
    // This one serves no client without its certificate.
    let client = dir.join("client.pem").to_string_lossy().into_owned();
    let demands = ["-Verify", "1", "-verify_return_error", "-CAfile", &client];
    let strict = s_server_with(&dir, "one", &demands);
    let of = |server: &ServerProcess, name: &str, scheme: &str, tls: &str| {
        format!(
            "[[upstream]]\nname = \"{name}\"\nservers = [\"{scheme}://{}\"]\n[upstream.tls]\n{tls}\n",
            server.address()
        )
    };
    let upstream = |name: &str, scheme: &str, tls: &str| of(&one, name, scheme, tls);
    let ca = "ca_file = \"{dir}/one.pem\"\n";
    let with_name = format!("{ca}server_name = \"one.test\"\n");
    let shown =
        format!("{with_name}certificate = \"{{dir}}/client.pem\"\nkey = \"{{dir}}/client.key\"");
    let streams = Streams::start_in(
        dir,
        &[
            "[[site.route]]\npath = \"/right\"\nproxy = \"right\"\n".to_owned(),
            "[[site.route]]\npath = \"/wrong\"\nproxy = \"wrong\"\n".to_owned(),
            "[[site.route]]\npath = \"/shown\"\nproxy = \"shown\"\n".to_owned(),
            "[[site.route]]\npath = \"/strange\"\nproxy = \"strange\"\n".to_owned(),
            upstream("right", "https", &with_name),
            of(&strict, "shown", "https", &shown),
            of(&strict, "strange", "https", &with_name),
            upstream("wrong", "https", &format!("{ca}server_name = \"two.test\"")),
            upstream("known", "tls", ca),
            upstream("other", "tls", &format!("{ca}server_name = \"two.test\"")),
            upstream("blind", "tls", "verify = false\nserver_name = \"two.test\""),
            "[[stream]]\nlisten = \"127.0.0.1:{p}\"\nproxy = \"known\"\n".to_owned(),
            "[[stream]]\nlisten = \"127.0.0.1:{q}\"\nproxy = \"other\"\n".to_owned(),
            "[[stream]]\nlisten = \"127.0.0.1:{r}\"\nproxy = \"blind\"\n".to_owned(),
        ]
        .concat(),
    );
    let heard = |number: usize| {
        let mut stream = connect(streams.address(number));
        let _ = stream.write_all(b"GET / HTTP/1.0\r\n\r\n");
        rest(&mut stream)
    };
    assert!(heard(0).starts_with("HTTP/1.0 200 "));
    assert_eq!(heard(1), "", "a certificate for another name");
    assert!(heard(2).starts_with("HTTP/1.0 200 "));
    for (path, status) in [
        ("/right", 200),
        ("/wrong", 502),
        ("/shown", 200),
        ("/strange", 502),
    ] {
        let mut client = streams.saker.connect().unwrap();
        assert_eq!(client.get(path).unwrap().status, status, "{path}");
    }
}

#[test]
fn a_site_lends_its_certificate_by_name() {
    let a = named("a");
    let dir = operate::folder("stream-tls-lent");
    certificate(&dir, "site", "localhost");
    let streams = Streams::start_in(
        dir,
        &format!(
            "[site.tls]\ncertificate = \"{{dir}}/site.pem\"\nkey = \"{{dir}}/site.key\"\n\
             [[listener]]\naddress = \"127.0.0.1:{{r}}\"\ntls = true\n\
             [[stream]]\nlisten = \"127.0.0.1:{{p}}\"\nproxy = \"{a}\"\n[stream.tls]\nminimum_version = \"1.3\"\n"
        ),
    );
    let authority = streams.saker.dir.join("site.pem");
    let text = seen(streams.address(0), Some("localhost"), &authority);
    assert!(
        text.contains("CN = localhost") && text.contains("TLSv1.3"),
        "{text}"
    );
}
