//! Health checks of upstreams: the checks, their effect on requests, and the log.

#![allow(clippy::unwrap_used)] // The whole file is tests.

use crate::operate;
use crate::upgrades::{Front, backend};
use saker_testkit::{Saker, TempDir};
use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    process::Command,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

/// A server whose checks are answered with that status and content; everything else by its name.
#[derive(Clone)]
struct Server {
    address: SocketAddr,
    health: Arc<Mutex<(u16, &'static str)>>,
    /// Heads of the checks.
    checks: Arc<Mutex<Vec<String>>>,
    requests: Arc<AtomicUsize>,
}

fn server(name: &'static str) -> Server {
    let health = Arc::new(Mutex::new((200, "all well")));
    let (checks, requests) = (
        Arc::<Mutex<Vec<String>>>::default(),
        Arc::<AtomicUsize>::default(),
    );
    let (own_health, own_checks, own_requests) = (
        Arc::clone(&health),
        Arc::clone(&checks),
        Arc::clone(&requests),
    );
    let address = backend(move |mut stream| {
        while let Some(head) = read_head(&mut stream) {
            let (status, content) = match head.contains("/health") {
                true => {
                    own_checks.lock().unwrap().push(head);
                    *own_health.lock().unwrap()
                }
                false => {
                    own_requests.fetch_add(1, Ordering::SeqCst);
                    (200, name)
                }
            };
            let answer = format!(
                "HTTP/1.1 {status} X\r\nX-Load: 7\r\nContent-Length: {}\r\n\r\n{content}",
                content.len()
            );
            if stream.write_all(answer.as_bytes()).is_err() {
                return;
            }
        }
    });
    Server {
        address,
        health,
        checks,
        requests,
    }
}

fn read_head(stream: &mut TcpStream) -> Option<String> {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read(&mut byte) {
            Ok(1) => head.push(byte[0]),
            _ => return None,
        }
    }
    Some(String::from_utf8_lossy(&head).into_owned())
}

impl Server {
    fn becomes(&self, status: u16, content: &'static str) {
        *self.health.lock().unwrap() = (status, content);
    }

    fn last_check(&self) -> String {
        self.checks
            .lock()
            .unwrap()
            .last()
            .cloned()
            .unwrap_or_default()
    }
}

/// Servers that answer some requests in a row.
fn answers(address: SocketAddr) -> String {
    let one = |_| {
        let answer = saker_testkit::Client::connect(address)
            .unwrap()
            .get("/")
            .unwrap();
        if answer.status == 200 {
            answer.text()
        } else {
            answer.status.to_string()
        }
    };
    let mut all: Vec<String> = (0..6).map(one).collect();
    all.sort();
    all.dedup();
    all.join(" ")
}

fn status(saker: &Saker) -> String {
    let state = saker.dir.join("state");
    let output = Command::new(crate::operate::SAKER)
        .args(["status", "--json", "--state-dir"])
        .arg(state)
        .output()
        .unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_server_that_is_not_well_is_not_asked() {
    let (one, two) = (server("one"), server("two"));
    let configuration = format!(
        "[server]\nworkers = 2\nstate_dir = \"{{dir}}/state\"\n\n[[listener]]\naddress = \"{{address}}\"\n\n[[site]]\nnames = [\"*\"]\n\
         root = \"{{dir}}\"\n\n[[site.route]]\npath = \"/*\"\nproxy = \"app\"\n\n[[upstream]]\nname = \"app\"\nservers = [\"http://{}\", \
         \"http://{}\"]\nhealth_path = \"/health?deep\"\nhealth_interval = \"100ms\"\nhealth_rise = 1\nhealth_fall = 2\nhealth_content = \"well\"\n",
        one.address, two.address
    );
    let saker = operate::native(&configuration).start(TempDir::new("health").unwrap());
    let address = saker.server.address();
    operate::wait_until("a check of each", || {
        !one.last_check().is_empty() && !two.last_check().is_empty()
    });
    assert_eq!(answers(address), "one two");
    let check = one.last_check();
    assert!(
        check.starts_with("GET /health?deep HTTP/1.1\r\n")
            && check.contains(&format!("Host: {}\r\n", one.address)),
        "{check}"
    );
    // Whatever workers know of it: all of them leave it alone, without one request that fails.
    one.becomes(200, "ill");
    operate::wait_until("one is away", || answers(address) == "two");
    assert!(
        status(&saker).contains("\"state\": \"down\""),
        "{}",
        status(&saker)
    );
    let before = one.requests.load(Ordering::SeqCst);
    assert_eq!(
        (
            answers(address).as_str(),
            one.requests.load(Ordering::SeqCst)
        ),
        ("two", before)
    );
    // With no healthy server left, all are tried.
    two.becomes(500, "well");
    operate::wait_until("both are away", || answers(address) == "503");
    one.becomes(204, "");
    two.becomes(200, "well");
    operate::wait_until("two is back", || answers(address) == "two");
    one.becomes(200, "well again");
    operate::wait_until("both are back", || answers(address) == "one two");
    assert!(!status(&saker).contains("\"down\""), "{}", status(&saker));
}

fn balancer(name: &str, members: &str, more: &str) -> Front {
    let modules = [
        "proxy",
        "proxy_http",
        "proxy_balancer",
        "proxy_hcheck",
        "watchdog",
        "lbmethod_byrequests",
        "slotmem_shm",
    ];
    let modules: String = modules
        .map(|name| format!("LoadModule {name}_module modules/mod_{name}.so\n"))
        .concat();
    Front::start(
        name,
        &format!(
            "{modules}{more}\n<Proxy balancer://b>\n{members}\n</Proxy>\nProxyPass / balancer://b/\n"
        ),
    )
}

#[test]
fn spares_and_standbys_stand_in() {
    let (one, spare, standby) = (server("one"), server("spare"), server("standby"));
    let checked = "hcmethod=HEAD hcuri=/health hcinterval=100ms";
    let members = format!(
        "BalancerMember http://{} {checked}\nBalancerMember http://{} status=+R hctemplate=often\nBalancerMember http://{} status=+H {checked}",
        one.address, spare.address, standby.address
    );
    let front = balancer(
        "health-spares",
        &members,
        "ProxyHCTemplate often hcmethod=OPTIONS hcuri=/health hcinterval=100ms hcfails=2",
    );
    operate::wait_until("checks", || {
        !one.last_check().is_empty() && !spare.last_check().is_empty()
    });
    assert_eq!(answers(front.address), "one");
    assert!(
        one.last_check().starts_with("HEAD /health ")
            && spare.last_check().starts_with("OPTIONS /health ")
    );
    one.becomes(503, "");
    operate::wait_until("the spare stands in", || answers(front.address) == "spare");
    spare.becomes(404, "");
    operate::wait_until("the standby stands in", || {
        answers(front.address) == "standby"
    });
    one.becomes(302, "");
    operate::wait_until("it is back", || answers(front.address) == "one");
    saker_testkit::wait_for_text(front.dir.join("error.log"), |log| {
        log.contains("SK0906")
            && log.contains("/health is answered by 503")
            && log.contains("SK0907")
    });
}

#[test]
fn expressions_decide() {
    let (one, two) = (server("one"), server("two"));
    let checked = "hcmethod=GET hcuri=/health hcinterval=100ms";
    let members = format!(
        "BalancerMember http://{} {checked} hcexpr=fine\nBalancerMember http://{} {checked} hcexpr=light",
        one.address, two.address
    );
    let expressions = "ProxyHCExpr fine {%{REQUEST_STATUS} =~ /^[45]/ && hc('body') !~ /maintenance/}\nProxyHCExpr light {%{resp:X-Load} -lt 9}";
    let front = balancer("health-expressions", &members, expressions);
    operate::wait_until("one is away", || answers(front.address) == "two");
    one.becomes(404, "fine");
    operate::wait_until("one is back", || answers(front.address) == "one two");
    one.becomes(404, "under maintenance");
    operate::wait_until("one is away again", || answers(front.address) == "two");
}

/// A name that does not resolve fails the request.
#[test]
fn conditions_that_are_not_there_take_members_away() {
    let one = server("one");
    let members = format!(
        "BalancerMember http://{} hcmethod=GET hcuri=/health hcinterval=100ms hcexpr=nowhere",
        one.address
    );
    let front = balancer("health-nowhere", &members, "");
    operate::wait_until("it is away", || answers(front.address) == "503");
}
