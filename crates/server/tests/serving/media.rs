//! Seeking in MP4 and FLV files, and HLS from MP4 files (`media`): files are made by ffmpeg, and
//! what Saker makes of them is looked at by ffprobe and played through by ffmpeg.

#![allow(clippy::unwrap_used, clippy::panic)] // The whole file is tests.

use crate::http3_client;
use crate::operate;
use crate::operate::{configuration, folder, start_in};
use saker_testkit::{Client, Response, Saker, TempDir, require};
use std::{
    path::Path,
    process::Command,
    sync::OnceLock,
    time::{Duration, Instant},
};

/// Twelve seconds, with a key frame every two and frames that are shown in another order than
/// decoded.
const FILM: &[&str] = &[
    "-f",
    "lavfi",
    "-i",
    "testsrc=size=160x120:rate=25:duration=12",
    "-f",
    "lavfi",
    "-i",
    "sine=frequency=440:duration=12",
    "-c:v",
    "libx264",
    "-preset",
    "veryfast",
    "-pix_fmt",
    "yuv420p",
    "-g",
    "50",
    "-sc_threshold",
    "0",
    "-bf",
    "2",
    "-c:a",
    "aac",
    "-ac",
    "1",
];
const SITE: &str = "media = [\"flv\", \"mp4\", \"hls\"]\n[[site.route]]\npath = \"/seconds/*\"\nflv_start = \"seconds\"\n\
                    [[site.route]]\npath = \"/small/*\"\nmedia_index_max = \"1KiB\"\n[[site.route]]\npath = \"/off/*\"\nmedia = []\n";
const MOVIES: [&str; 4] = ["behind.mp4", "front.mp4", "film.mov", "long.mp4"];

/// Runs to its end; what it has to say about the media is empty, or the test fails.
fn run(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(require(program).unwrap())
        .args(["-v", "error"])
        .args(arguments)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && said.is_empty(),
        "{program} {arguments:?}: {said}"
    );
    String::from_utf8(output.stdout).unwrap()
}

/// The films, made once for all tests: the index behind the samples, before them, in a QuickTime
/// file, with offsets of eight bytes; sound alone; FLV with a list of key frames and without.
fn films() -> &'static TempDir {
    static FILMS: OnceLock<TempDir> = OnceLock::new();
    FILMS.get_or_init(|| {
        let dir = TempDir::new("films").unwrap();
        let path = |name: &str| dir.join(name).to_string_lossy().into_owned();
        let first = path("behind.mp4");
        run("ffmpeg", &[FILM, &[first.as_str()]].concat());
        let copies: [(&str, &[&str]); 5] = [
            ("front.mp4", &["-movflags", "+faststart"]),
            ("film.mov", &[]),
            ("sound.m4a", &["-vn"]),
            ("keys.flv", &["-flvflags", "add_keyframe_index"]),
            ("plain.flv", &[]),
        ];
        for (name, options) in copies {
            run(
                "ffmpeg",
                &[
                    &["-i", first.as_str(), "-c", "copy"],
                    options,
                    &[path(name).as_str()],
                ]
                .concat(),
            );
        }
        dir.write(
            "long.mp4",
            with_long_offsets(&std::fs::read(&first).unwrap()),
        )
        .unwrap();
        dir
    })
}

/// The same file with `co64` in place of `stco`. Its index is the last box, so that no offset
/// changes.
fn with_long_offsets(file: &[u8]) -> Vec<u8> {
    let at = file
        .windows(4)
        .position(|window| window == b"moov")
        .unwrap()
        - 4;
    let mut made = file[..at].to_vec();
    made.extend(lengthened(&file[at..]));
    made
}

fn lengthened(boxes: &[u8]) -> Vec<u8> {
    let (mut made, mut rest) = (Vec::new(), boxes);
    while rest.len() >= 8 {
        let (atom, behind) =
            rest.split_at(u32::from_be_bytes(rest[..4].try_into().unwrap()) as usize);
        rest = behind;
        let (kind, content) = (&atom[4..8], &atom[8..]);
        let (kind, content) = match kind {
            b"moov" | b"trak" | b"mdia" | b"minf" | b"stbl" => (kind, lengthened(content)),
            b"stco" => {
                let offsets = content[8..]
                    .chunks(4)
                    .flat_map(|offset| [&[0; 4], offset].concat());
                (
                    &b"co64"[..],
                    content[..8].iter().copied().chain(offsets).collect(),
                )
            }
            _ => (kind, content.to_vec()),
        };
        made.extend((content.len() as u32 + 8).to_be_bytes());
        made.extend_from_slice(kind);
        made.extend(content);
    }
    made
}

fn www(name: &str) -> TempDir {
    let dir = folder(name);
    for entry in std::fs::read_dir(films()).unwrap() {
        let entry = entry.unwrap();
        for below in ["", "seconds/", "small/", "off/"] {
            dir.write(
                &format!("www/{below}{}", entry.file_name().to_string_lossy()),
                std::fs::read(entry.path()).unwrap(),
            )
            .unwrap();
        }
    }
    dir
}

fn start(name: &str) -> Saker {
    start_in(www(name), &configuration("workers = 1", SITE))
}

fn get(saker: &Saker, target: &str) -> Response {
    saker.connect().unwrap().get(target).unwrap()
}

/// Saves a response's body to a file.
fn saved(saker: &Saker, name: &str, target: &str) -> String {
    let response = get(saker, target);
    assert_eq!(response.status, 200, "{target}");
    assert_eq!(
        response.field("content-length"),
        Some(response.body.len().to_string().as_str()),
        "{target}"
    );
    saker
        .dir
        .write(name, response.body)
        .unwrap()
        .to_string_lossy()
        .into_owned()
}

/// Plays through without a fault.
fn assert_plays(file: &str) {
    run("ffmpeg", &["-xerror", "-i", file, "-f", "null", "-"]);
}

/// Start and duration in seconds.
fn times(file: &str) -> (f64, f64) {
    let said = run(
        "ffprobe",
        &[
            "-show_entries",
            "format=start_time,duration",
            "-of",
            "csv=p=0",
            file,
        ],
    );
    let (start, duration) = said.trim().split_once(',').unwrap();
    (start.parse().unwrap(), duration.parse().unwrap())
}

/// Time of the first picture, and whether it is a key frame.
fn first_picture(file: &str) -> (f64, bool) {
    let said = run(
        "ffprobe",
        &[
            "-select_streams",
            "v:0",
            "-read_intervals",
            "%+#1",
            "-show_entries",
            "packet=pts_time,flags",
            "-of",
            "csv=p=0",
            file,
        ],
    );
    let (time, flags) = said.lines().next().unwrap().split_once(',').unwrap();
    (time.parse().unwrap(), flags.starts_with('K'))
}

/// Sums of all pictures, decoded.
fn pictures(file: &str, options: &[&str]) -> Vec<String> {
    let said = run(
        "ffmpeg",
        &[options, &["-i", file, "-map", "0:v", "-f", "framemd5", "-"]].concat(),
    );
    said.lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| line.rsplit(',').next().unwrap().trim().to_owned())
        .collect()
}

fn assert_near(got: f64, expected: f64, what: &str) {
    assert!(
        (got - expected).abs() < 0.05,
        "{what}: {got} and not {expected}"
    );
}

#[test]
fn movies_begin_at_the_key_frame_and_end_where_asked() {
    let saker = start("media-mp4");
    let all = pictures(&films().join("behind.mp4").to_string_lossy(), &[]);
    for name in MOVIES {
        // From, to, when the key frame is, when it ends.
        let rows = [
            ("start=0", 0.0, 12.0),
            ("start=5.9", 4.0, 12.0),
            ("start=6", 6.0, 12.0),
            ("start=5.9&end=8.5", 4.0, 8.5),
            ("end=3", 0.0, 3.0),
        ];
        for (query, from, to) in rows {
            let what = format!("{name}?{query}");
            let file = saved(&saker, "cut.mp4", &format!("/{name}?{query}"));
            assert_plays(&file);
            let (start, duration) = times(&file);
            assert_near(start, 0.0, &what);
            assert_near(duration, to - from, &what);
            let (shown, is_key) = first_picture(&file);
            assert_near(shown, 0.0, &what);
            assert!(is_key, "{what}");
            let shown = ((from * 25.0) as usize)..((to * 25.0) as usize);
            assert!(
                pictures(&file, &[]).starts_with(&all[shown.start..shown.end - 1]),
                "{what}: other pictures"
            );
        }
        assert_eq!(get(&saker, &format!("/{name}?start=12.5")).status, 404);
        assert_eq!(
            get(&saker, &format!("/small/{name}?start=2")).status,
            500,
            "its index is too large"
        );
    }
}

#[test]
fn sound_begins_where_asked() {
    let saker = start("media-m4a");
    for (query, duration) in [
        ("start=5.5", 6.5),
        ("start=5.5&end=7", 1.5),
        ("start=0", 12.0),
    ] {
        let file = saved(&saker, "cut.m4a", &format!("/sound.m4a?{query}"));
        assert_plays(&file);
        assert_near(times(&file).1, duration, query);
    }
}

#[test]
fn what_is_not_asked_for_is_the_file() {
    let saker = start("media-plain");
    let mut client = saker.connect().unwrap();
    for name in ["behind.mp4", "keys.flv"] {
        let whole = std::fs::read(films().join(name)).unwrap();
        // The second is answered from what the first has left, and a query must not be.
        for target in ["", "?start=", "?start=x", "?restart=3", "", "?v=1"] {
            let response = client.get(&format!("/{name}{target}")).unwrap();
            assert!(
                response.status == 200 && response.body == whole,
                "{name}{target}"
            );
        }
        assert!(
            client.get(&format!("/{name}?start=2000")).unwrap().body != whole
                || name == "behind.mp4"
        );
        assert!(
            client.get(&format!("/off/{name}?start=2")).unwrap().body == whole,
            "it is off there"
        );
        let none = client.get(&format!("/off/{name}/index.m3u8")).unwrap();
        assert_eq!(none.status, 404);
        client = saker.connect().unwrap();
    }
    assert!(
        client.get("/behind.mp4?start=4").unwrap().body.len()
            < std::fs::read(films().join("behind.mp4")).unwrap().len()
    );
}

#[test]
fn parts_of_a_cut_are_those_of_the_whole_cut() {
    let saker = start("media-ranges");
    let mut client = saker.connect().unwrap();
    let target = "/front.mp4?start=3&end=9";
    let whole = client.get(target).unwrap();
    let (tag, length) = (whole.field("etag").unwrap().to_owned(), whole.body.len());
    assert_ne!(
        client.get("/front.mp4?start=3").unwrap().field("etag"),
        Some(tag.as_str()),
        "another cut"
    );
    assert_ne!(
        client.get("/front.mp4").unwrap().field("etag"),
        Some(tag.as_str()),
        "the file"
    );
    for (first, last) in [
        (0, 0),
        (10, 5000),
        (length / 2, length - 1),
        (length - 1, length - 1),
    ] {
        let part = client
            .request(
                "GET",
                target,
                &[("Range", &format!("bytes={first}-{last}"))],
            )
            .unwrap();
        assert_eq!(
            (part.status, part.field("content-range")),
            (206, Some(format!("bytes {first}-{last}/{length}").as_str()))
        );
        assert!(part.body == whole.body[first..=last], "{first}-{last}");
    }
    let several = client
        .request("GET", target, &[("Range", "bytes=0-9,100-109")])
        .unwrap();
    assert!(
        several.status == 206
            && several
                .field("content-type")
                .unwrap()
                .starts_with("multipart/byteranges")
    );
    assert_eq!(
        client.head(target).unwrap().field("content-length"),
        Some(length.to_string().as_str())
    );
    let beyond = client
        .request("GET", target, &[("Range", &format!("bytes={length}-"))])
        .unwrap();
    assert_eq!(beyond.status, 416);
    if !tag.starts_with("W/") {
        assert_eq!(
            client
                .request("GET", target, &[("If-None-Match", &tag)])
                .unwrap()
                .status,
            304
        );
    }
}

#[test]
fn flv_by_bytes_has_a_head_and_the_rest() {
    let saker = start("media-flv");
    for name in ["keys.flv", "plain.flv"] {
        let path = films().join(name);
        let whole = std::fs::read(&path).unwrap();
        let said = run(
            "ffprobe",
            &[
                "-select_streams",
                "v:0",
                "-show_entries",
                "packet=pos,pts_time,flags",
                "-of",
                "csv=p=0",
                &path.to_string_lossy(),
            ],
        );
        let key = said
            .lines()
            .map(|line| line.split(',').collect::<Vec<_>>())
            .filter(|line| line.iter().any(|word| word.starts_with('K')))
            .nth(3)
            .unwrap();
        // ffprobe tells where the content is, which has eleven bytes of a tag before it, and five
        // of its own.
        let at = key[1].parse::<usize>().unwrap();
        let at = (at.saturating_sub(20)..=at)
            .rev()
            .find(|at| {
                whole[*at] == 9 && whole[at + 8..at + 11] == [0; 3] && whole[at + 11] == 0x17
            })
            .unwrap();
        let response = get(&saker, &format!("/{name}?start={at}"));
        assert!(
            response.body.starts_with(b"FLV\x01\x05\0\0\0\x09\0\0\0\0")
                && response.body.ends_with(&whole[at..]),
            "{name}"
        );
        let file = saker
            .dir
            .write("cut.flv", response.body)
            .unwrap()
            .to_string_lossy()
            .into_owned();
        assert_plays(&file);
        let (shown, is_key) = first_picture(&file);
        assert_near(shown, key[0].parse().unwrap(), name);
        assert!(is_key);
    }
}

#[test]
fn flv_by_seconds_begins_at_the_key_frame() {
    let saker = start("media-flv-seconds");
    for name in ["keys.flv", "plain.flv"] {
        for (query, from, to) in [
            ("start=5.5", 4.0, 12.0),
            ("start=5.5&end=8.5", 4.0, 8.5),
            ("end=3", 0.0, 3.0),
        ] {
            let what = format!("{name}?{query}");
            let file = saved(&saker, "cut.flv", &format!("/seconds/{name}?{query}"));
            assert_plays(&file);
            let (shown, is_key) = first_picture(&file);
            // Pictures are shown two after they are decoded, which is what the file's times say.
            assert_near(shown, from + 0.08, &what);
            assert!(is_key, "{what}");
            let count = pictures(&file, &[]).len() as f64 / 25.0;
            assert!((count - (to - from)).abs() <= 0.12, "{what}: {count} s");
        }
        assert_eq!(
            get(&saker, &format!("/seconds/{name}?start=13")).status,
            404
        );
    }
}

#[test]
fn hls_is_the_film() {
    let saker = start("media-hls");
    for name in MOVIES {
        let url = format!("http://{}/{name}", saker.server.address());
        for list in ["index.m3u8", "master.m3u8"] {
            let (start, duration) = times(&format!("{url}/{list}"));
            assert_near(start, 0.0, name);
            assert_near(duration, 12.0, name);
        }
        let played = pictures(&format!("{url}/index.m3u8"), &["-xerror"]);
        assert!(
            played == pictures(&films().join(name).to_string_lossy(), &[]),
            "{name}: {} other pictures",
            played.len()
        );
    }
    let url = format!("http://{}/sound.m4a/master.m3u8", saker.server.address());
    assert_near(times(&url).1, 12.0, "sound");
    assert_plays(&url);
}

/// Fragments begin at key frames, of which the film has one each two seconds or less.
#[test]
fn fragments_are_as_long_and_kept_as_long_as_is_set() {
    let site = "media = [\"hls\"]\nhls_fragment = \"3s\"\nhls_max_age = \"5m\"\n";
    let saker = start_in(www("media-hls-keys"), &configuration("workers = 1", site));
    let mut client = saker.connect().unwrap();
    let list = client.get("/front.mp4/index.m3u8").unwrap();
    assert_eq!(list.field("cache-control"), Some("max-age=300"));
    let text = list.text();
    assert!(text.matches("#EXTINF:").count() > 2, "{text}");
    let fragment = client.get("/front.mp4/seg-1.m4s").unwrap();
    assert_eq!(
        (fragment.status, fragment.field("cache-control")),
        (200, Some("max-age=300"))
    );
}

#[test]
fn playlists_and_fragments_have_their_types_and_lives() {
    let saker = start("media-hls-heads");
    let mut client = saker.connect().unwrap();
    let list = client.get("/front.mp4/index.m3u8").unwrap();
    assert_eq!(
        (list.field("content-type"), list.field("cache-control")),
        (Some("application/vnd.apple.mpegurl"), Some("max-age=3600"))
    );
    let text = list.text();
    assert!(
        text.contains("#EXT-X-VERSION:7\n#EXT-X-TARGETDURATION:6\n")
            && text.ends_with("#EXT-X-ENDLIST\n"),
        "{text}"
    );
    assert_eq!(text.matches("#EXTINF:6.000,\n").count(), 2, "{text}");
    let main = client.get("/front.mp4/master.m3u8").unwrap().text();
    assert!(
        main.contains("CODECS=\"avc1.")
            && main.contains(",mp4a.40.2\"")
            && main.contains("RESOLUTION=160x120"),
        "{main}"
    );
    for name in ["init.mp4", "seg-1.m4s", "seg-2.m4s"] {
        let path = format!("/front.mp4/{name}");
        let whole = client.get(&path).unwrap();
        assert_eq!(
            (
                whole.status,
                whole.field("content-type"),
                whole.field("cache-control")
            ),
            (200, Some("video/mp4"), Some("max-age=3600"))
        );
        let part = client
            .request("GET", &path, &[("Range", "bytes=5-20")])
            .unwrap();
        assert!(part.status == 206 && part.body == whole.body[5..=20]);
        // Kept, and the same.
        assert!(client.get(&format!("{path}?v=x")).unwrap().body == whole.body);
    }
    for missing in ["seg-0.m4s", "seg-3.m4s", "seg-x.m4s", "other.m3u8", ""] {
        assert_eq!(
            client.get(&format!("/front.mp4/{missing}")).unwrap().status,
            404,
            "{missing}"
        );
    }
    assert_eq!(client.get("/keys.flv/index.m3u8").unwrap().status, 404);
    assert_eq!(client.get("/missing.mp4/index.m3u8").unwrap().status, 404);
    assert_eq!(
        saker
            .connect()
            .unwrap()
            .get("/small/front.mp4/index.m3u8")
            .unwrap()
            .status,
        500
    );
}

#[test]
fn another_film_under_the_same_name_is_another_list() {
    let saker = start("media-hls-changes");
    let mut client = saker.connect().unwrap();
    let before = client.get("/front.mp4/index.m3u8").unwrap().text();
    let shorter = get(&saker, "/front.mp4?end=6").body;
    saker.dir.write("new.mp4", shorter).unwrap();
    std::fs::rename(saker.dir.join("new.mp4"), saker.dir.join("www/front.mp4")).unwrap();
    operate::wait_until("the new film's list", || {
        client.get("/front.mp4/index.m3u8").unwrap().text() != before
    });
    let after = client.get("/front.mp4/index.m3u8").unwrap().text();
    assert_eq!(after.matches("#EXTINF").count(), 1, "{after}");
}

#[test]
fn every_protocol_has_the_same_bytes() {
    let saker = http3_client::site::start_with(www("media-protocols"), "", SITE);
    let address = saker.server.address();
    let mut over_3 = http3_client::Client::default().connect(&address.to_string());
    for target in [
        "/front.mp4?start=5",
        "/plain.flv?start=0&end=999",
        "/front.mp4/index.m3u8",
        "/front.mp4/seg-2.m4s",
        "/front.mp4/init.mp4",
    ] {
        let third = over_3.get(target);
        assert_eq!(third.status, 200, "{target}");
        for version in ["--http1.1", "--http2"] {
            let url = format!("https://localhost:{}{target}", address.port());
            let resolve = format!("localhost:{}:127.0.0.1", address.port());
            let output = Command::new(require("curl").unwrap())
                .args(["-sSk", "-m", "20", version, "--resolve", &resolve, &url])
                .output()
                .unwrap();
            assert!(
                output.status.success() && output.stdout == third.body,
                "{target} {version}"
            );
        }
    }
}

#[test]
fn as_apache_has_it() {
    let dir = www("media-apache");
    dir.write(
        "www/off/.htaccess",
        "AddHandler h264-streaming.extensions .mp4\nAddHandler hls-streaming .mov\n",
    )
    .unwrap();
    let modules: String = ["mpm_event", "authz_core", "mime", "flvx", "h264_streaming"]
        .map(|name| format!("LoadModule {name}_module modules/mod_{name}.so\n"))
        .concat();
    let text = format!(
        "ServerRoot {{dir}}\n{modules}Listen {{address}}\nServerName localhost\nDocumentRoot {{dir}}/www\nAddType video/mp4 .mp4\n\
         <Directory />\nRequire all granted\nAllowOverride All\n</Directory>\n<Directory {{dir}}/www/seconds>\n\
         AddHandler flv-stream .flv\nAddHandler h264-streaming.extensions .mp4 .m4v .m4a\n</Directory>\n"
    );
    let saker = operate::apache(&text).start(dir);
    for path in ["/seconds/front.mp4", "/off/behind.mp4"] {
        let file = saved(&saker, "cut.mp4", &format!("{path}?start=4.5&end=8"));
        assert_plays(&file);
        assert_near(times(&file).1, 4.0, path);
    }
    let whole = std::fs::read(films().join("front.mp4")).unwrap();
    let mut client: Client = saker.connect().unwrap();
    for target in [
        "/front.mp4?start=4",
        "/front.mp4",
        "/seconds/front.mp4",
        "/off/front.mp4",
    ] {
        assert!(client.get(target).unwrap().body == whole, "{target}");
    }
    let flv = client.get("/seconds/keys.flv?start=3000").unwrap();
    assert!(
        flv.body.starts_with(b"FLV\x01\x05\0\0\0\x09\0\0\0\0")
            && flv.field("content-length") == Some(flv.body.len().to_string().as_str())
    );
    assert!(
        client.get("/keys.flv?start=3000").unwrap().body
            == std::fs::read(films().join("keys.flv")).unwrap()
    );
    assert_eq!(
        client
            .get("/off/film.mov/index.m3u8")
            .unwrap()
            .text()
            .matches("#EXTINF")
            .count(),
        2
    );
    assert_eq!(
        saker
            .connect()
            .unwrap()
            .get("/off/front.mp4/index.m3u8")
            .unwrap()
            .status,
        404,
        "not with that handler"
    );
}

#[test]
fn hostile_files_are_refused_and_said() {
    let dir = folder("media-hostile");
    dir.write("www/text.mp4", "<p>no film</p>".repeat(100))
        .unwrap();
    dir.write("www/text.flv", "<p>no film</p>".repeat(100))
        .unwrap();
    dir.write("www/empty.mp4", "").unwrap();
    let film = std::fs::read(films().join("front.mp4")).unwrap();
    dir.write("www/half.mp4", &film[..film.len() / 2]).unwrap();
    let saker = start_in(
        dir,
        &configuration("workers = 1", "media = [\"flv\", \"mp4\", \"hls\"]"),
    );
    for target in [
        "/text.mp4?start=1",
        "/text.flv?start=100",
        "/empty.mp4?start=1",
        "/half.mp4?start=1",
        "/text.mp4/index.m3u8",
        "/half.mp4/seg-2.m4s",
    ] {
        assert_eq!(get(&saker, target).status, 500, "{target}");
    }
    assert!(
        Path::new(&saker.dir.join("www/half.mp4")).exists()
            && get(&saker, "/half.mp4").status == 200
    );
    operate::wait_until("the log", || saker.server.stderr().contains("SK0509"));
}

/// Times are checked in one direction only: nothing is early, and the head start does not wait.
#[test]
fn a_film_is_sent_at_its_pace_behind_a_head_start() {
    let dir = www("media-rate");
    let saker = start_in(
        dir,
        &configuration(
            "workers = 1",
            "media = [\"mp4\"]\nmedia_rate = \"0.1\"\nmedia_head_start = \"6s\"",
        ),
    );
    let bytes = std::fs::read(films().join("front.mp4")).unwrap();
    // A film of twelve seconds, a tenth of its speed: a hundred and twenty seconds for all of it.
    let (per_s, head_start) = (bytes.len() / 120, bytes.len() / 2);
    let began = Instant::now();
    let (mut client, start) = operate::begin_download(&saker, "/front.mp4", head_start);
    assert!(
        start.windows(4).any(|window| window == b"moov"),
        "the index is in front"
    );
    // At the film's pace what has come would have taken a minute, which is more than this client
    // waits for it.
    assert!(
        began.elapsed() < Duration::from_secs(50),
        "the head start was held up"
    );
    let mut count = head_start;
    while began.elapsed() < Duration::from_secs(3) {
        if !client.silent_for(Duration::from_millis(100)).unwrap() {
            count += client.read_bytes(1).unwrap().len();
        }
        let due =
            head_start + index_bytes(&bytes) + per_s * began.elapsed().as_millis() as usize / 1000;
        // Head of the response, one piece ahead, and what a late timer may catch up with.
        assert!(
            count <= due + 1000 + 4096 + per_s / 20,
            "{count} bytes where {due} are due"
        );
    }
    assert!(count < bytes.len());
    let other = get(
        &start_in(
            www("media-no-rate"),
            &configuration("workers = 1", "media = [\"mp4\"]"),
        ),
        "/front.mp4",
    );
    assert!(other.body == bytes, "without a rate it goes as it is");
}

/// All that is in front of the samples.
fn index_bytes(film: &[u8]) -> usize {
    film.windows(4)
        .position(|window| window == b"mdat")
        .unwrap()
}
