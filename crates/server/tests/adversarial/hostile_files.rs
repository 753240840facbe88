//! Files of a hostile tenant: FIFOs, devices, swapped entries, media that is work without end,
//! folders of very many files.
//!
//! Each attack is answered in time, and others are answered while it goes on; a hang is what the
//! generous time limits are for.

use crate::{
    harness::{Answer, ApacheSite, PROTOCOLS, Protocol, Request, apache, ask, http1_bytes, native},
    operate::{configuration, folder, pattern, start_in},
};
use saker_testkit::{Client, Signal, TempDir, wait_for_text};
use std::{
    fs,
    net::{SocketAddr, TcpListener},
    os::unix::{fs::symlink, net::UnixListener},
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

/// Nothing here takes that long, unless it never ends.
const HANG: Duration = Duration::from_secs(60);

fn fifo(path: &Path) {
    rustix::fs::mknodat(
        rustix::fs::CWD,
        path,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RWXU,
        0,
    )
    .unwrap();
}

fn get(address: SocketAddr, protocol: Protocol, target: &str) -> Answer {
    ask(address, protocol, &Request::get("localhost", target))
}

/// A request on a connection of its own whose answer is not waited for.
fn begin(address: SocketAddr, target: &str) -> Client {
    let mut client = Client::connect(address).unwrap();
    client.set_timeout(HANG).unwrap();
    client
        .send(http1_bytes(&Request::get("localhost", target)))
        .unwrap();
    client
}

fn plain_get(address: SocketAddr, target: &str) -> Answer {
    let response = begin(address, target)
        .read_response()
        .unwrap_or_else(|error| panic!("{target}: {error}"));
    Answer {
        status: response.status,
        fields: response.fields,
        body: response.body,
    }
}

fn ways(site: &ApacheSite) -> [(SocketAddr, Protocol); 4] {
    [
        (site.plain, Protocol::Plain),
        (site.tls, Protocol::Http1),
        (site.tls, Protocol::Http2),
        (site.tls, Protocol::Http3),
    ]
}

/// Checks that 12 of 12 other clients are answered meanwhile.
fn others_are_answered(site: &ApacheSite) {
    for round in 0..12 {
        assert_eq!(
            plain_get(site.plain, "/").status,
            200,
            "request {round} of the others"
        );
    }
}

/// Puts a page, a FIFO and a link to a device at one name, in turn, as long as `meanwhile` runs.
fn swapping(www: &Path, name: &str, meanwhile: impl FnOnce()) {
    let stop = AtomicBool::new(false);
    let (beside, at) = (www.join(".next"), www.join(name));
    let turn = |round: u32| {
        let _ = fs::remove_file(&beside);
        match round % 3 {
            0 => fs::write(&beside, "<title>page</title>\n").unwrap(),
            1 => fifo(&beside),
            _ => symlink("/dev/zero", &beside).unwrap(),
        }
        fs::rename(&beside, &at).unwrap();
    };
    turn(0);
    thread::scope(|scope| {
        scope.spawn(|| {
            (0..)
                .take_while(|_| !stop.load(Ordering::Relaxed))
                .for_each(turn)
        });
        // However `meanwhile` ends.
        struct Stop<'s>(&'s AtomicBool);
        impl Drop for Stop<'_> {
            fn drop(&mut self) {
                self.0.store(true, Ordering::Relaxed);
            }
        }
        let _stop = Stop(&stop);
        meanwhile();
    });
}

#[test]
fn titles_of_entries_that_become_fifos_hold_no_worker() {
    let dir = folder("hostile-titles");
    for number in 0..20 {
        dir.write(
            &format!("www/list/{number}.html"),
            format!("<title>title {number}</title>"),
        )
        .unwrap();
    }
    dir.write(
        "www/list/.htaccess",
        "IndexOptions FancyIndexing ScanHTMLTitles\nDirectoryIndex none\nOptions +FollowSymLinks\n",
    )
    .unwrap();
    let site = apache(dir, "");
    let list = site.dir.join("www/list");
    symlink("3.html", list.join("link.html")).unwrap();
    fifo(&list.join("always.html"));
    let answer = plain_get(site.plain, "/list/");
    assert_eq!(answer.status, 200, "{answer:?}");
    assert!(
        answer.text().contains("title 19")
            && answer.text().contains("link.html")
            && !answer.text().contains("always.html"),
        "{}",
        answer.text()
    );
    swapping(&list, "swapped.html", || {
        for round in 0..150 {
            assert_eq!(plain_get(site.plain, "/list/").status, 200, "round {round}");
            if round % 50 == 0 {
                others_are_answered(&site);
                ways(&site).iter().for_each(|(address, protocol)| {
                    assert_eq!(
                        get(*address, *protocol, "/list/").status,
                        200,
                        "{protocol:?}"
                    )
                });
            }
        }
    });
    others_are_answered(&site);
}

/// Kinds of things that are no files, each at a name in a folder of its own below `www`.
fn odd_things(dir: &TempDir, name: &str) -> (Vec<&'static str>, UnixListener) {
    for kind in ["fifo", "socket", "directory", "device", "loop"] {
        dir.write(&format!("www/{kind}/page.html"), "shown")
            .unwrap();
    }
    let at = |kind: &str| dir.join(format!("www/{kind}/{name}"));
    fifo(&at("fifo"));
    let socket = UnixListener::bind(at("socket")).unwrap();
    fs::create_dir(at("directory")).unwrap();
    symlink("/dev/zero", at("device")).unwrap();
    symlink(name, at("loop")).unwrap();
    (
        vec!["fifo", "socket", "directory", "device", "loop"],
        socket,
    )
}

#[test]
fn an_htaccess_that_is_no_file_denies_its_folder() {
    let dir = folder("hostile-htaccess");
    let (kinds, _socket) = odd_things(&dir, ".htaccess");
    dir.write("www/dangling/page.html", "shown").unwrap();
    symlink("gone", dir.join("www/dangling/.htaccess")).unwrap();
    let site = apache(dir, "");
    for (address, protocol) in ways(&site) {
        for kind in &kinds {
            for below in ["page.html", "", "no/such/thing"] {
                let answer = get(address, protocol, &format!("/{kind}/{below}"));
                assert_eq!(answer.status, 403, "{kind}/{below} {protocol:?}");
            }
        }
        // As Apache: ENOENT is no file.
        assert_eq!(
            get(address, protocol, "/dangling/page.html").status,
            200,
            "{protocol:?}"
        );
        assert_eq!(get(address, protocol, "/").status, 200, "{protocol:?}");
    }
    for kind in kinds {
        let file = format!("www/{kind}/.htaccess");
        wait_for_text(site.dir.join("error.log"), |log| {
            log.lines()
                .any(|line| line.contains("SK0801") && line.contains(&file))
        });
    }
}

const HANDLERS: &str = "Options +ExecCGI +Includes\nAddHandler cgi-script .cgi\nAddHandler type-map .var\nAddHandler send-as-is .asis\n\
                        AddHandler hls-streaming .mp4\nAddOutputFilter INCLUDES .shtml\nAddHandler proxy:fcgi://{backend} .php\n";

#[test]
fn what_is_no_file_is_nobodys_target_or_script() {
    let backend = TcpListener::bind("127.0.0.1:0").unwrap();
    backend.set_nonblocking(true).unwrap();
    let dir = folder("hostile-targets");
    dir.write(
        "www/t/.htaccess",
        HANDLERS.replace("{backend}", &backend.local_addr().unwrap().to_string()),
    )
    .unwrap();
    let names = [
        "a.txt", "a.html", "a.cgi", "a.php", "a.var", "a.asis", "a.shtml", "a.mp4", "a.jpg",
    ];
    names
        .iter()
        .for_each(|name| fifo(&dir.join(format!("www/t/{name}"))));
    let _socket = UnixListener::bind(dir.join("www/t/socket")).unwrap();
    symlink("/dev/zero", dir.join("www/t/zero.php")).unwrap();
    dir.write(
        "www/index/.htaccess",
        "DirectoryIndex index.php index.html\n",
    )
    .unwrap();
    fifo(&dir.join("www/index/index.php"));
    let site = apache(dir, "");
    for (address, protocol) in ways(&site) {
        for target in names.iter().chain(&[
            "socket",
            "zero.php",
            "a.php/more",
            "a.cgi/more",
            "a.mp4/index.m3u8",
        ]) {
            let answer = get(address, protocol, &format!("/t/{target}"));
            assert_eq!(answer.status, 403, "{target} {protocol:?}");
        }
        assert_eq!(
            get(address, protocol, "/index/").status,
            403,
            "{protocol:?}"
        );
    }
    assert!(
        backend.accept().is_err(),
        "PHP was asked for a FIFO, on which it would wait for ever"
    );
    wait_for_text(site.dir.join("error.log"), |log| {
        log.lines()
            .any(|line| line.contains("SK0511") && line.contains("www/t/a.php"))
    });
    others_are_answered(&site);
}

#[test]
fn what_is_no_file_is_refused_by_the_native_configuration_too() {
    let dir = folder("hostile-native");
    for name in ["a.txt", "a.php", "a.mp4"] {
        fs::create_dir_all(dir.join("www/t")).unwrap();
        fifo(&dir.join(format!("www/t/{name}")));
    }
    fs::create_dir_all(dir.join("www/index")).unwrap();
    fifo(&dir.join("www/index/index.html"));
    symlink("/dev/zero", dir.join("www/t/zero")).unwrap();
    let saker = native(
        dir,
        "",
        "listing = true\nsymlinks = \"follow\"\nmedia = [\"flv\", \"mp4\", \"hls\"]\n",
    );
    for protocol in PROTOCOLS {
        for target in [
            "/t/a.txt",
            "/t/a.php",
            "/t/a.mp4",
            "/t/a.mp4?start=1",
            "/t/zero",
            "/index/",
        ] {
            assert_eq!(
                get(saker.server.address(), protocol, target).status,
                403,
                "{target} {protocol:?}"
            );
        }
        let answer = get(saker.server.address(), protocol, "/t/");
        assert!(
            answer.status == 200 && !answer.text().contains("a.txt"),
            "{protocol:?}: {answer:?}"
        );
        assert_eq!(
            get(saker.server.address(), protocol, "/").status,
            200,
            "{protocol:?}"
        );
    }
}

/// Everything else that names a file which the tenant may replace by a FIFO.
#[test]
fn files_that_settings_name_hold_no_worker() {
    let dir = folder("hostile-named");
    fs::create_dir_all(dir.join("www/f")).unwrap();
    let path = dir.join("www/f/pipe");
    fifo(&path);
    let pipe = path.display().to_string();
    let settings = [
        (
            "users",
            format!("AuthType Basic\nAuthName a\nAuthUserFile {pipe}\nRequire valid-user\n"),
        ),
        (
            "groups",
            format!(
                "AuthType Basic\nAuthName a\nAuthUserFile /dev/null\nAuthGroupFile {pipe}\nRequire group a\n"
            ),
        ),
        ("errors", "ErrorDocument 404 /f/pipe\n".into()),
        (
            "readme",
            "DirectoryIndex none\nHeaderName /f/pipe\nReadmeName /f/pipe\n".into(),
        ),
        ("sed", "AddOutputFilter Sed html\n".into()),
        (
            "expression",
            format!("SSLRequire file(\"{pipe}\") =~ m/x/\n"),
        ),
        (
            "ssi",
            "Options +Includes\nAddOutputFilter INCLUDES html\n".into(),
        ),
        (
            "look",
            "RewriteEngine On\nRewriteCond %{DOCUMENT_ROOT}/f/pipe -f\nRewriteRule ^ - [F]\n"
                .into(),
        ),
    ];
    for (name, text) in &settings {
        dir.write(&format!("www/{name}/.htaccess"), text).unwrap();
        dir.write(
            &format!("www/{name}/page.html"),
            "<!--#include virtual=\"/f/pipe\" -->page\n",
        )
        .unwrap();
    }
    let site = apache(
        dir,
        &format!("<Directory {{dir}}/www/sed>\nOutputSed \"r {pipe}\"\n</Directory>\n"),
    );
    let fields = [("Authorization", "Basic YTpi")];
    for (address, protocol) in ways(&site) {
        for (name, _) in &settings {
            for target in [
                format!("/{name}/page.html"),
                format!("/{name}/"),
                format!("/{name}/missing"),
            ] {
                let answer = ask(
                    address,
                    protocol,
                    &Request::get("localhost", &target).with_fields(&fields),
                );
                assert!(answer.status >= 200, "{target} {protocol:?}: no answer");
            }
        }
    }
    let answer = plain_get(site.plain, "/sed/page.html");
    assert_eq!(
        answer.status,
        200,
        "{}",
        fs::read_to_string(site.dir.join("error.log")).unwrap()
    );
    assert_eq!(
        plain_get(site.plain, "/look/page.html").status,
        200,
        "a FIFO is no regular file"
    );
    assert!(
        plain_get(site.plain, "/readme/")
            .text()
            .contains("page.html")
    );
    others_are_answered(&site);
}

/// 99 samples of 0xffffffff units each, without key frames: nearly endless, and a kilobyte in all.
fn endless_film(timescale: u32) -> Vec<u8> {
    fn atom(kind: &str, parts: &[&[u8]]) -> Vec<u8> {
        let content = parts.concat();
        [
            &(content.len() as u32 + 8).to_be_bytes(),
            kind.as_bytes(),
            &content,
        ]
        .concat()
    }
    fn words(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_be_bytes()).collect()
    }
    let padded = |before: &[u32], length: usize| {
        [words(before), vec![0; length - before.len() * 4]].concat()
    };
    let times: Vec<u32> = [0, 99]
        .into_iter()
        .chain((0..99).flat_map(|_| [1, u32::MAX]))
        .collect();
    let avcc = atom("avcC", &[&[1, 0x64, 0, 0x1f]]);
    let entry = atom("avc1", &[&[0; 78], &avcc]);
    let stbl = atom(
        "stbl",
        &[
            &atom("stsd", &[&words(&[0, 1]), &entry]),
            &atom("stts", &[&words(&times)]),
            &atom("stsz", &[&words(&[0, 1, 99])]),
            &atom("stsc", &[&words(&[0, 1, 1, 99, 1])]),
            &atom("stco", &[&words(&[0, 1, 24])]),
        ],
    );
    let mdia = atom(
        "mdia",
        &[
            &atom("mdhd", &[&padded(&[0, 0, 0, timescale], 24)]),
            &atom("hdlr", &[b"\0\0\0\0\0\0\0\0vide\0\0\0\0\0\0\0\0\0\0\0\0\0"]),
            &atom("minf", &[&stbl]),
        ],
    );
    let trak = atom(
        "trak",
        &[&atom("tkhd", &[&padded(&[0, 0, 0, 1], 84)]), &mdia],
    );
    let moov = atom(
        "moov",
        &[&atom("mvhd", &[&padded(&[0, 0, 0, timescale], 100)]), &trak],
    );
    [
        atom("ftyp", &[b"isom\0\0\0\0"]),
        atom("mdat", &[&[7; 120]]),
        moov,
    ]
    .concat()
}

fn films(dir: &TempDir) -> Vec<String> {
    let names = [1, 1000, u32::MAX].map(|timescale| {
        dir.write(
            &format!("www/films/{timescale}.mp4"),
            endless_film(timescale),
        )
        .unwrap();
        format!("/films/{timescale}.mp4")
    });
    names.to_vec()
}

/// A playlist has no more fragments than the film has samples.
fn films_are_answered(address: SocketAddr, protocol: Protocol, films: &[String]) {
    for film in films {
        for part in [
            "/master.m3u8",
            "/index.m3u8",
            "/init.mp4",
            "/seg-1.m4s",
            "/seg-99.m4s",
            "/seg-4000000000.m4s",
        ] {
            let answer = get(address, protocol, &format!("{film}{part}"));
            assert!(
                matches!(answer.status, 200 | 404 | 500),
                "{film}{part} {protocol:?}: {}",
                answer.status
            );
            let fragments = answer.text().matches("#EXTINF").count();
            assert!(fragments <= 99, "{film}{part}: {fragments} fragments");
            assert!(
                part != "/index.m3u8" || answer.status == 200 && fragments > 0,
                "{film}: {answer:?}"
            );
        }
        for query in ["?start=1", "?start=0&end=999999999", "?start=4000000000"] {
            assert!(
                get(address, protocol, &format!("{film}{query}")).status >= 200,
                "{film}{query} {protocol:?}"
            );
        }
    }
}

#[test]
fn a_film_without_end_is_work_with_an_end() {
    let dir = folder("hostile-films");
    let names = films(&dir);
    dir.write("www/films/.htaccess", "AddHandler hls-streaming .mp4\n")
        .unwrap();
    let site = apache(dir, "");
    for (address, protocol) in ways(&site) {
        films_are_answered(address, protocol, &names);
    }
    others_are_answered(&site);
    let dir = folder("hostile-films-native");
    let names = films(&dir);
    let saker = native(dir, "", "media = [\"flv\", \"mp4\", \"hls\"]\n");
    for protocol in PROTOCOLS {
        films_are_answered(saker.server.address(), protocol, &names);
    }
}

/// So many that a listing of them takes a while.
fn many_files(dir: &TempDir) {
    dir.write(
        "www/many/.htaccess",
        "IndexOptions FancyIndexing HTMLTable\nDirectoryIndex none\n",
    )
    .unwrap();
    for number in 0..2_000 {
        fs::File::create(dir.join(format!("www/many/file-{number}.txt"))).unwrap();
    }
}

/// While six listings are made, another request is answered before they are.
fn listings_leave_the_worker(address: SocketAddr, get: impl Fn(&str) -> Answer) {
    let mut listings: Vec<Client> = (0..6).map(|_| begin(address, "/many/")).collect();
    for _ in 0..12 {
        assert_eq!(get("/").status, 200);
    }
    let answered = listings
        .iter_mut()
        .filter_map(|client| client.silent_for(Duration::from_millis(1)).ok())
        .filter(|silent| !silent)
        .count();
    assert!(answered < 6, "the others had to wait for all six listings");
    // Two of those who asked have gone.
    listings.truncate(4);
    for client in &mut listings {
        let response = client.read_response().unwrap();
        assert_eq!(response.status, 200);
        assert!(response.text().contains("file-"));
    }
    assert_eq!(get("/many/").status, 200);
}

#[test]
fn listings_of_many_files_leave_the_worker_to_others() {
    let dir = folder("hostile-listings");
    many_files(&dir);
    let site = apache(dir, "");
    listings_leave_the_worker(site.plain, |target| plain_get(site.plain, target));
    for protocol in PROTOCOLS {
        assert_eq!(
            get(site.tls, protocol, "/many/").status,
            200,
            "{protocol:?}"
        );
    }
}

#[test]
fn listings_of_the_native_configuration_leave_the_worker_to_others() {
    let dir = folder("hostile-listings-native");
    many_files(&dir);
    let saker = start_in(dir, &configuration("workers = 1", "listing = true"));
    let address = saker.server.address();
    listings_leave_the_worker(address, |target| plain_get(address, target));
}

#[test]
fn the_stop_waits_for_no_job_beyond_its_limit() {
    let dir = folder("hostile-stop");
    dir.write("www/large.txt", pattern(64 << 20)).unwrap();
    let site = "[site.compression]\ncodings = [\"br\"]\nmax = \"1GiB\"\nbrotli_quality = 11\n";
    let mut saker = start_in(
        dir,
        &configuration("workers = 1\nshutdown_timeout = \"1s\"", site),
    );
    let mut client = Client::connect(saker.server.address()).unwrap();
    let fields = [("Accept-Encoding", "br")];
    client
        .send(http1_bytes(
            &Request::get("localhost", "/large.txt").with_fields(&fields),
        ))
        .unwrap();
    assert!(
        client.silent_for(Duration::from_millis(500)).unwrap(),
        "the job takes longer than that"
    );
    let begun = Instant::now();
    saker.server.signal(Signal::TERM).unwrap();
    let status = saker.server.wait_for_exit(HANG).unwrap();
    assert!(
        status.is_some_and(|status| status.success()),
        "still there after {:?}",
        begun.elapsed()
    );
}

/// The server may read more than the author of an `.htaccess` file, who sees the answer (httpd 2.4
/// refuses these lines as well).
#[test]
fn htaccess_expressions_read_no_files() {
    let dir = TempDir::new("read-no-files").unwrap();
    let secret = dir.write("secret.txt", "s3cret-of-the-server").unwrap();
    let condition = format!("file('{}') =~ /(s3cret.*)/", secret.display());
    let text = format!("%{{file:{}}}", secret.display());
    let lines = [
        format!("Header set X-Read \"expr={text}\""),
        format!("Header edit Content-Type ^ \"expr={text}\""),
        format!("Header set X-Read yes \"expr={condition}\""),
        format!("RequestHeader set X-Read \"expr={text}\""),
        format!("<If \"{condition}\">\nHeader set X-Read yes\n</If>"),
        format!("<Files *>\nHeader set X-Read \"expr={text}\"\n</Files>"),
        format!("<If \"true\">\n<If \"{condition}\">\nHeader set X-Read yes\n</If>\n</If>"),
        format!("<Files *>\nRequire expr \"{condition}\"\nHeader set X-Read yes\n</Files>"),
        format!("SetEnvIfExpr \"{condition}\" READ=$1\nHeader set X-Read %{{READ}}e"),
        format!(
            "RewriteEngine on\nRewriteCond expr \"{condition}\"\nRewriteRule ^ - [E=READ:%1]\nHeader set X-Read %{{READ}}e"
        ),
        format!("AuthType Basic\nAuthName \"{text}\"\nRequire valid-user"),
        format!("Require user \"{text}\""),
    ];
    for (number, line) in lines.iter().enumerate() {
        dir.write(&format!("www/{number}/a.html"), "a page\n")
            .unwrap();
        dir.write(&format!("www/{number}/.htaccess"), format!("{line}\n"))
            .unwrap();
    }
    dir.write("www/e/.htaccess", format!("ErrorDocument 404 \"{text}\"\n"))
        .unwrap();
    let site = apache(
        dir,
        &format!("<Location /own>\nHeader always set X-Read \"expr={text}\"\n</Location>"),
    );
    for protocol in [
        Protocol::Plain,
        Protocol::Http1,
        Protocol::Http2,
        Protocol::Http3,
    ] {
        for (number, line) in lines.iter().enumerate() {
            let answer = site.ask(
                protocol,
                &Request::get("localhost", &format!("/{number}/a.html")),
            );
            assert_eq!(answer.status, 500, "{protocol:?} {line}: {answer:?}");
            assert!(
                !format!("{:?}", answer.fields).contains("s3cret")
                    && !answer.text().contains("s3cret"),
                "{protocol:?} {line}"
            );
        }
        let answer = site.ask(protocol, &Request::get("localhost", "/e/missing"));
        assert!(
            !answer.text().contains("s3cret"),
            "{protocol:?} ErrorDocument: {answer:?}"
        );
        let own = site.ask(protocol, &Request::get("localhost", "/own"));
        assert_eq!(
            own.field("X-Read"),
            Some("s3cret-of-the-server"),
            "the operator's own may: {own:?}"
        );
    }
}
