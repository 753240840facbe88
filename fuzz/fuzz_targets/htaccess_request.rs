//! Whatever an `.htaccess` file says, and whatever is asked for below it: the rules come to an end
//! within the request's budget, an answer is an error once that is exceeded, its head and its
//! content are bounded, and so is the memory that it took.
//!
//! An input is a line for the request (a byte that chooses the path, then a field) and the file.
//! Everything runs as on a worker, without its sockets: the phases of the rules, the edits of the
//! answer's head, the filters of its content.

#![no_main]

use libfuzzer_sys::fuzz_target;
use saker_apache::{
    Apache, ApacheRules, ContentFilters, Inside, ResponseRules, load,
    status::{Counts, Figures, Report},
};
use saker_apache_syntax::{OnDisk, Setup};
use saker_config::model::{Address, PhpPools, Site};
use saker_files::Watcher;
use saker_http::{RequestHead, Status, Version};
use saker_pipeline::{Body, Client, Exchange, Filter, NoBody, Response, Rules, Step, Verdict};
use std::{
    fs,
    future::Future,
    path::{Path, PathBuf},
    pin::pin,
    rc::{Rc, Weak},
    sync::{Arc, OnceLock},
    task::{Context, Poll, Waker},
};

/// Beyond what the process had before.
const MEMORY_KIB_MAX: u64 = 512 << 10;
/// Limit of a response head: as much as edits may add, and what its parts had before.
const HEAD_BYTES_MAX: usize = 512 << 10;
const CONTENT_BYTES_MAX: usize = 64 << 20;
const PATHS: [&str; 12] = [
    "/",
    "/a.html",
    "/sub/",
    "/sub",
    "/sub/b.txt",
    "/p.shtml",
    "/m.var",
    "/none",
    "/sub/none/more",
    "/page",
    "/x.cgi/info",
    "/a.html/more",
];

struct Server {
    apache: Arc<Apache>,
    site: Arc<Site>,
    root: PathBuf,
}

struct Nothing;

impl Figures for Nothing {
    fn report(&self) -> Report {
        Report::default()
    }

    fn counts(&self) -> Counts {
        Counts::default()
    }
}

fn server() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    SERVER.get_or_init(|| {
        let folder = std::env::temp_dir().join(format!("saker-fuzz-{}", std::process::id()));
        let root = folder.join("www");
        fs::create_dir_all(root.join("sub")).expect("the server of the target");
        let page = "<!--#set var=\"a\" value=\"$a$a\" --><!--#include virtual=\"/sub/\" --><!--#include file=\"p.shtml\" -->x\n";
        let map = "URI: a.html\nContent-type: text/html\n\nURI: m.var\nContent-type: text/plain\n";
        let files =
            [("a.html", "x\n"), ("page.html", "x\n"), ("page.txt", "x\n"), ("sub/b.txt", "b\n"), ("p.shtml", page), ("m.var", map), ("x.cgi", "")];
        for (name, content) in files {
            fs::write(root.join(name), content).expect("the server of the target");
        }
        let modules = "mpm_event authz_core authz_host authn_core alias rewrite dir mime env setenvif headers filter include substitute sed actions \
                       autoindex negotiation cgi expires deflate speling access_compat";
        let modules: String = modules.split_whitespace().map(|name| format!("LoadModule {name}_module mod_{name}.so\n")).collect();
        let text = format!(
            "{modules}ServerName localhost\nListen 127.0.0.1:80\nDocumentRoot {0}\n<Directory {0}>\nAllowOverride All\nOptions All MultiViews\n\
             Require all granted\nAddOutputFilter INCLUDES .shtml\nAddHandler type-map .var\nAddHandler cgi-script .cgi\n</Directory>\n",
            root.display()
        );
        let file = folder.join("httpd.conf");
        fs::write(&file, text).expect("the server of the target");
        let loaded = load(&Setup::new(&folder, &file), &OnDisk);
        assert!(!loaded.has_errors(), "{:?}", loaded.diagnostics);
        let site = loaded.model.sites.first().cloned().expect("the server of the target");
        Server { apache: Arc::new(loaded.apache), site, root }
    })
}

fuzz_target!(|data: &[u8]| {
    let (line, text) = data.split_at(data.iter().position(|byte| *byte == b'\n').unwrap_or(0));
    let server = server();
    // What follows the line break.
    fs::write(
        server.root.join(".htaccess"),
        text.get(1..).unwrap_or_default(),
    )
    .expect("the server of the target");
    let before = peak_kib();
    // Nothing is kept of the file before.
    let watcher = Watcher::idle();
    let rules = Rc::new(ApacheRules::new(
        Arc::clone(&server.apache),
        watcher.clone(),
        Rc::new(Nothing),
        PhpPools::default(),
        Box::new(saker_native::settings_of(watcher.clone())),
    ));
    let mut exchange = request(&server.site, line);
    let mut response = answer(&rules, &mut exchange);
    let content = ContentFilters::new(
        Arc::clone(&server.apache),
        watcher.clone(),
        Inside::new(Weak::new(), Rc::clone(&rules)),
    );
    let head = ResponseRules::new(Rc::clone(&rules));
    for filter in [&content as &dyn Filter, &head] {
        run(filter.apply(&mut exchange, &mut response));
    }
    if exchange.is_over_budget() {
        assert_eq!(response.status, Status::INTERNAL_SERVER_ERROR);
    }
    let head_bytes: usize = response
        .fields()
        .iter()
        .map(|(name, value)| name.len() + value.len())
        .sum();
    assert!(head_bytes <= HEAD_BYTES_MAX, "{head_bytes} bytes of fields");
    let content_bytes = read(response.body);
    assert!(
        content_bytes <= CONTENT_BYTES_MAX,
        "{content_bytes} bytes of content"
    );
    let grown = peak_kib().saturating_sub(before);
    assert!(grown <= MEMORY_KIB_MAX, "{grown} KiB");
});

fn request(site: &Arc<Site>, line: &[u8]) -> Exchange {
    let (choice, value) = line.split_first().unwrap_or((&0, b""));
    let path = PATHS[usize::from(*choice) % PATHS.len()];
    let value: String = value
        .iter()
        .map(|byte| char::from(byte.clamp(&b' ', &b'~').to_owned()))
        .collect();
    let address = "127.0.0.1:80".parse().expect("the server of the target");
    let client = Rc::new(Client::new(
        address,
        address,
        Arc::new(Address::Tcp(address)),
        false,
    ));
    let head = RequestHead::build(
        "GET",
        path,
        Version::Http11,
        &[
            ("Host", "localhost"),
            ("Accept-Language", &value),
            ("X", &value),
        ],
    );
    let mut exchange = Exchange::new(
        client,
        head,
        Box::new(NoBody),
        Arc::clone(site),
        1_700_000_000,
    );
    exchange.host = b"localhost".to_vec();
    exchange.path = path.as_bytes().to_vec();
    exchange
}

/// The phases of the rules, with their redirects; what comes through is a page of the site.
fn answer(rules: &ApacheRules, exchange: &mut Exchange) -> Response {
    type Phase = for<'a> fn(&'a ApacheRules, &'a mut Exchange) -> Step<'a>;
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
            // Names and programs that another thread looks for.
            Step::Pending(_) => return Response::new(Status::OK),
        };
        if exchange.is_over_budget() {
            return Response::new(Status::INTERNAL_SERVER_ERROR);
        }
        match verdict {
            Verdict::Pass => at += 1,
            Verdict::Answer(response) => return response,
            Verdict::Restart if exchange.routing.redirects < exchange.routing.redirects_max => {
                (exchange.routing.redirects, at) = (exchange.routing.redirects + 1, 0)
            }
            Verdict::Restart => return Response::new(Status::INTERNAL_SERVER_ERROR),
        }
    }
    let mut response = Response::new(Status::OK);
    let file = exchange
        .routing
        .mapped
        .as_ref()
        .map(saker_pipeline::Mapped::filename)
        .unwrap_or_default();
    let content =
        fs::read(Path::new(std::str::from_utf8(&file).unwrap_or_default())).unwrap_or_default();
    response.fields_mut().set("Content-Type", &b"text/html"[..]);
    response
        .fields_mut()
        .set("Last-Modified", &b"Tue, 14 Nov 2023 22:13:20 GMT"[..]);
    response.body = Body::Memory(content.into());
    response
}

/// Bytes of it; what breaks off has come to its end, too.
fn read(body: Body) -> usize {
    let Body::Stream(mut stream) = body else {
        return body.length().unwrap_or(0) as usize;
    };
    let (mut bytes, mut turns) = (0, 0);
    loop {
        match stream.poll_chunk(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Some(Ok(chunk))) => bytes += chunk.len(),
            Poll::Ready(_) => return bytes,
            Poll::Pending => {
                turns += 1;
                // A command of a page, which nothing here waits for.
                if turns > 10_000 {
                    return bytes;
                }
            }
        }
    }
}

fn run(future: impl Future<Output = ()>) {
    let mut future = pin!(future);
    for _ in 0..10_000 {
        if future
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()))
            .is_ready()
        {
            return;
        }
    }
}

/// The most memory that the process has had.
fn peak_kib() -> u64 {
    let text = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .unwrap_or_default();
    line.trim().trim_end_matches(" kB").parse().unwrap_or(0)
}
