//! The bodies of the fuzz targets of this crate and the one below, with mutated inputs in a bounded
//! number: what they check is checked wherever tests run.
//!
//! Called by: tests.
//! Caveat: inputs are made by a generator with a fixed seed, so a failure can be repeated.
//! `NGINX_MUTATIONS=N` makes N of them in place of 1,500; N also chooses which.
//! Out of scope: coverage, which libFuzzer looks for (`tools/run-fuzz-targets`).

#[path = "../../../fuzz/bodies/nginx_config.rs"]
mod config;
#[path = "../../../fuzz/bodies/nginx_request.rs"]
mod request;

use std::{fs, path::Path};

/// Runs of each body, unless the environment says otherwise.
const RUNS: u64 = 1_500;
/// Longer inputs are cut.
const INPUT_BYTES_MAX: usize = 4_096;

/// A generator of numbers (xorshift64*).
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }
}

/// Pieces that configurations are made of.
const WORDS: &[&str] = &[
    "{",
    "}",
    ";",
    "\"",
    "'",
    "\\",
    "#",
    "$",
    "${",
    "$1",
    "$uri",
    "$arg_x",
    "$m",
    "$slice_range",
    "location / ",
    "location ~ (a+)+$ ",
    "location = /a ",
    "if ($arg_x) ",
    "if ($uri ~* (.)\\1) ",
    "rewrite ^/(.*)$ /$1$1 last;",
    "rewrite ^ /a redirect;",
    "set $v $v$uri;",
    "return 200 $v;",
    "return 301 /$args;",
    "break;",
    "error_page 404 =200 /a;",
    "error_page 404 @n;",
    "location @n { return 200 n; }",
    "try_files $uri /a @n =404;",
    "map $m $k { default 1; }",
    "include a.conf;",
    "include d/*.conf;",
    "add_header X $http_x always;",
    "expires $arg_x;",
    "proxy_pass http://$host$uri;",
    "slice 8;",
    "merge_slashes off;",
    "\u{ff}",
    "\0",
    "\n",
    " ",
];

/// Servers of the differential suite.
fn seeds() -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../server/tests/applications/nginx");
    let mut seeds: Vec<(std::path::PathBuf, Vec<u8>)> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter_map(|path| {
            let text = fs::read_to_string(&path).ok()?;
            let (_, conf) = text.split_once("== conf\n")?;
            let conf = conf.split("\n== ").next()?;
            Some((path, seed(conf).into_bytes()))
        })
        .collect();
    seeds.sort();
    seeds.into_iter().map(|(_, seed)| seed).collect()
}

/// The inside of the last server, without what the bodies write around it, behind a line for the
/// request.
fn seed(conf: &str) -> String {
    let inside = conf.rsplit_once("server {").map_or(conf, |(_, rest)| rest);
    let inside = inside.trim_end().strip_suffix('}').unwrap_or(inside);
    let around = ["listen ", "root {dir}", "server_name "];
    let lines = inside.lines().filter(|line| {
        let line = line.trim_start();
        !around.iter().any(|start| line.starts_with(start))
    });
    let inside = lines.collect::<Vec<_>>().join("\n");
    let words = [
        ("{address}", "127.0.0.1:8080"),
        ("{address2}", "127.0.0.1:8081"),
        ("{dir}", "/e"),
        ("{ip}", "127.0.0.1"),
        ("{port}", "8080"),
        ("{case}", "c"),
        ("{php}", "127.0.0.1:9000"),
        ("{memcached}", "127.0.0.1:11211"),
        ("{scgi}", "127.0.0.1:9001"),
        ("{uwsgi}", "127.0.0.1:9002"),
    ];
    let filled = words
        .iter()
        .fold(inside, |text, (word, value)| text.replace(word, value));
    format!("a\n{filled}")
}

fn mutated(seeds: &[Vec<u8>], chance: &mut Chance) -> Vec<u8> {
    let mut input = seeds[chance.below(seeds.len())].clone();
    for _ in 0..=chance.below(6) {
        let at = chance.below(input.len());
        match chance.below(5) {
            0 => {
                let word = WORDS[chance.below(WORDS.len())];
                input.splice(at..at, word.bytes());
            }
            1 => {
                let end = (at + chance.below(40)).min(input.len());
                input.drain(at..end);
            }
            2 => {
                let other = &seeds[chance.below(seeds.len())];
                let start = chance.below(other.len());
                let end = (start + chance.below(200)).min(other.len());
                let part = other[start..end].to_vec();
                input.splice(at..at, part);
            }
            3 => {
                if let Some(byte) = input.get_mut(at) {
                    *byte = chance.next() as u8;
                }
            }
            _ => {
                let end = (at + chance.below(60)).min(input.len());
                let part = input[at..end].to_vec();
                input.splice(at..at, part);
            }
        }
    }
    input.truncate(INPUT_BYTES_MAX);
    input
}

/// Mutated inputs, from a number that chance begins with.
fn inputs(seeds: &[Vec<u8>], number: u64) -> impl Iterator<Item = Vec<u8>> {
    let asked = std::env::var("NGINX_MUTATIONS").ok();
    let runs = asked.and_then(|text| text.parse().ok()).unwrap_or(RUNS);
    let mut chance = Chance(number ^ runs.wrapping_sub(RUNS).rotate_left(32));
    (0..runs).map(move |_| mutated(seeds, &mut chance))
}

#[test]
fn mutated_configurations_are_read() {
    let seeds = seeds();
    assert!(seeds.len() > 100);
    inputs(&seeds, 0x5eed_0001).for_each(|input| config::run(&input));
}

/// Most servers need zones and groups of their own; mutated are those that are asked.
#[test]
fn mutated_configurations_answer() {
    let mut seeds = seeds();
    seeds.retain(|input| request::run(input));
    assert!(seeds.len() > 10, "{} servers", seeds.len());
    let count = inputs(&seeds, 0x5eed_0002)
        .filter(|input| request::run(input))
        .count();
    assert!(count > 50, "{count} configurations were asked");
}
