//! `connections` of `[site.auth.ldap]`: passwords that are checked at the same time.
//!
//! Called by: `cargo test -p saker --test serving identity::connections::`.
//! Caveat: a directory in between holds what would check a password, so that nothing depends on time.
//! Out of scope: what is asked (`identity`).

use super::{basic, directory, ldap_site, operate};
use crate::operate::wait_until;
use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener},
    os::unix::net::UnixStream,
    path::Path,
    sync::{Arc, Mutex},
    thread,
};

/// A way to the directory that counts users' binds, and passes none of them on.
fn holding(to: &Path) -> (SocketAddr, Arc<Mutex<usize>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = to.to_owned();
    let (address, held) = (listener.local_addr().unwrap(), Arc::new(Mutex::new(0)));
    let count = Arc::clone(&held);
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let server = UnixStream::connect(&to).unwrap();
            let (mut up, mut down) = (client.try_clone().unwrap(), client);
            let (mut into, mut from) = (server.try_clone().unwrap(), server);
            thread::spawn(move || std::io::copy(&mut from, &mut down));
            let count = Arc::clone(&count);
            thread::spawn(move || {
                let mut piece = [0; 4096];
                while let Ok(bytes @ 1..) = up.read(&mut piece) {
                    let is_of = |text: &[u8]| piece[..bytes].windows(text.len()).any(|w| w == text);
                    if is_of(b"uid=ann,ou=people") && is_of(b"secret") {
                        *count.lock().unwrap() += 1;
                        continue;
                    }
                    if into.write_all(&piece[..bytes]).is_err() {
                        return;
                    }
                }
            });
        }
    });
    (address, held)
}

#[test]
fn passwords_are_checked_on_few_connections() {
    let dir = operate::folder("identity-ldap-connections");
    let slapd = directory(&dir);
    let socket = slapd.url().replace("%2F", "/");
    let to = Path::new(socket.trim_start_matches("ldapi://"));
    let (few, held_by_few) = holding(to);
    let (many, held_by_many) = holding(to);
    dir.write("www/few.txt", "a\n").unwrap();
    dir.write("www/many.txt", "a\n").unwrap();
    let route = |path: &str, address: SocketAddr, connections: usize| {
        format!(
            "[[site.route]]\npath = \"{path}\"\n[site.route.auth.ldap]\nurl = \"ldap://{address}\"\nconnections = {connections}\n\
             base = \"ou=people,dc=test\"\nbind_dn = \"cn=admin,dc=test\"\npassword = \"secret\"\n\
             cache = \"0s\"\ntimeout = \"1m\"\n"
        )
    };
    let routes = route("/few.txt", few, 1) + &route("/many.txt", many, 3);
    let text = ldap_site(&slapd.url(), "", "", &routes);
    let saker = operate::start_in(dir, &text);
    let begin = |path: &str| {
        let mut client = saker.connect().unwrap();
        let authorization = basic("ann:secret");
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: a\r\nAuthorization: {authorization}\r\n\r\n");
        client.send(request).unwrap();
        client
    };
    let _few: Vec<_> = (0..3).map(|_| begin("/few.txt")).collect();
    wait_until("one is checked", || *held_by_few.lock().unwrap() > 0);
    // What comes later is checked where there is room: the others wait.
    let _many: Vec<_> = (0..3).map(|_| begin("/many.txt")).collect();
    wait_until("three are checked", || *held_by_many.lock().unwrap() == 3);
    assert_eq!(*held_by_few.lock().unwrap(), 1);
}
