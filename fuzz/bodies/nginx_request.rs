//! Whatever the locations, scripts, tables, and texts of an nginx configuration say, and whatever is
//! asked for: the rules come to an end after a bounded number of changes, an answer has a bounded head,
//! and a session of a stream has a decision and lines of its own in the log.
//!
//! An input is a line for the request (a byte that chooses the path, then a field) and the inside of a
//! server; behind a byte 0xff, that of a stream server. Configurations that are refused are not asked.

use saker_config::model::{Address, Origin, Site, StreamServer};
use saker_files::Watcher;
use saker_http::{RequestHead, Status, Version};
use saker_nginx::{FrontEnd, NginxRules, ServerCounts};
use saker_nginx_model::{Loaded, Setup, load};
use saker_nginx_syntax::Files;
use saker_pipeline::{Client, Exchange, Generation, NoBody, Response, Rules, Step, Verdict};
use saker_stream_proxy::{Session, SessionProtocol, StreamRules};
use saker_tls::HelloFacts;
use std::{
    io,
    path::{Path, PathBuf},
    rc::{Rc, Weak},
    sync::Arc,
};

/// Limit of a response head: what texts may add.
const HEAD_BYTES_MAX: usize = 4 << 20;
const PATHS: [&str; 8] = [
    "/",
    "/a",
    "/a/b.php",
    "/a/b.php/more?x=1&y=$z",
    "/sub/",
    "/%2e%2e/a",
    "/a//b?",
    "/index.html",
];

struct InMemory<'d>(&'d [u8]);

impl Files for InMemory<'_> {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        match path.to_str() {
            Some("/e/nginx.conf") => Ok(self.0.to_vec()),
            _ => Err(io::Error::from_raw_os_error(2)),
        }
    }

    fn list(&self, _: &Path) -> io::Result<Vec<PathBuf>> {
        Err(io::Error::from_raw_os_error(2))
    }
}

/// Runs one input. Returns true if its configuration was asked.
pub fn run(data: &[u8]) -> bool {
    let (line, text) = data.split_at(data.iter().position(|byte| *byte == b'\n').unwrap_or(0));
    let Some(loaded) = read(text) else {
        return false;
    };
    let front_end = Arc::new(FrontEnd::new(loaded.nginx));
    if let Some(rules) = front_end.stream_rules() {
        ask_stream(&rules, line);
    }
    let site = loaded.model.sites.first().cloned();
    let generation = Arc::new(Generation::new(1, loaded.model));
    let Some(site) = site else {
        return false;
    };
    let rules = NginxRules::new(
        front_end,
        generation,
        Watcher::idle(),
        Weak::new(),
        Rc::new(ServerCounts::default),
    );
    let mut exchange = asked(line, site);
    let response = answer(&rules, &mut exchange);
    let head_bytes: usize = response
        .fields()
        .iter()
        .map(|(name, value)| name.len() + value.len())
        .sum();
    assert!(head_bytes <= HEAD_BYTES_MAX, "{head_bytes} bytes of fields");
    let ends_line = |byte: &u8| matches!(byte, b'\r' | b'\n' | 0);
    for (_, value) in response.fields().iter() {
        assert!(!value.iter().any(ends_line), "a field ends its line");
    }
    true
}

/// The configuration with the insides of its servers; `None`: it is refused.
fn read(text: &[u8]) -> Option<Loaded> {
    let (server, stream) = match text.iter().position(|byte| *byte == 0xff) {
        Some(at) => (&text[..at], &text[at + 1..]),
        None => (text, &b"return $remote_addr;"[..]),
    };
    let main = [
        &b"events {} http { map $arg_x $m { default $uri; ~(?<g>.)(.) $1$g; } server { listen 80; root /e; "[..],
        server,
        b" } } stream { map $ssl_preread_server_name $m { default $m2; ~(?<g>.)(.) $1$g; } \
          split_clients $remote_port $m2 { 50% a; * b; } log_format f '$remote_addr $g $m $upstream_addr'; \
          access_log /e/log f; server { listen 81; ",
        stream,
        b" } }",
    ]
    .concat();
    let setup = Setup {
        file: "/e/nginx.conf".into(),
        prefix: "/e".into(),
        global: String::new(),
        error_log: None,
        is_root: false,
    };
    let loaded = load(&setup, &InMemory(&main));
    (!loaded.report.has_errors()).then_some(loaded)
}

/// The request of a line.
fn asked(line: &[u8], site: Arc<Site>) -> Exchange {
    let (choice, value) = line.split_first().unwrap_or((&0, b""));
    let value: String = value
        .iter()
        .map(|byte| char::from((*byte).clamp(b' ', b'~')))
        .collect();
    let target = PATHS[usize::from(*choice) % PATHS.len()];
    let fields = [
        ("Host", "localhost"),
        ("X", value.as_str()),
        ("Cookie", &value),
    ];
    let head = RequestHead::build("GET", target, Version::Http11, &fields);
    let address = "127.0.0.1:80".parse().expect("the address of the target");
    let listener = Arc::new(Address::Tcp(([0, 0, 0, 0], 80).into()));
    let client = Rc::new(Client::new(address, address, listener, false));
    let mut exchange = Exchange::new(client, head, Box::new(NoBody), site, 1_700_000_000);
    exchange.host = b"localhost".to_vec();
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    exchange.path = path.as_bytes().to_vec();
    exchange.query = (!query.is_empty()).then(|| query.as_bytes().to_vec());
    exchange
}

/// The phases of the rules, with their redirects.
fn answer(rules: &NginxRules, exchange: &mut Exchange) -> Response {
    type Phase = for<'a> fn(&'a NginxRules, &'a mut Exchange) -> Step<'a>;
    let phases: [Phase; 4] = [
        Rules::server_rewrite,
        Rules::map_to_storage,
        Rules::access,
        Rules::fixups,
    ];
    let mut at = 0;
    while let Some(phase) = phases.get(at) {
        let verdict = match phase(rules, exchange) {
            Step::Ready(verdict) => verdict,
            // A delay, or a look-up on another thread.
            Step::Pending(_) => return Response::new(Status::OK),
        };
        match verdict {
            Verdict::Pass => at += 1,
            Verdict::Answer(response) => return response,
            Verdict::Restart => {
                exchange.routing.redirects += 1;
                assert!(exchange.routing.redirects <= 64, "redirects without an end");
                at = 0;
            }
        }
    }
    Response::new(Status::OK)
}

/// A session, whose client says the line as the name in its hello.
fn ask_stream(rules: &impl StreamRules, line: &[u8]) {
    let address = "127.0.0.1:81".parse().expect("the address of the target");
    let server = Arc::new(StreamServer::new(0, Origin::built_in()));
    let listener = Arc::new(Address::Tcp(address));
    let mut session = Session::new(server, SessionProtocol::Tcp, 1, listener, address, address);
    session.hello = Some(HelloFacts {
        server_name: Some(String::from_utf8_lossy(line).into_owned()),
        ..HelloFacts::default()
    });
    rules.settle_client(&mut session);
    if rules.limit(&mut session).is_ok() && rules.is_allowed(&mut session) {
        rules.prepare(&mut session);
        let _ = rules.action(&mut session);
    }
    rules.log(&mut session, &mut |_, line| {
        let breaks = line.iter().filter(|byte| **byte == b'\n');
        assert_eq!(breaks.count(), 1, "a line is one line");
    });
}
