//! Real PHP at the other end: php-fpm over FastCGI, lsphp over LSAPI. Both get the same requests
//! and have to say the same.

#![allow(clippy::panic)] // The whole file is tests.

use saker_cgi::{
    Dialogue, FastCgi, Level, Lsapi, Setting,
    fastcgi::Role,
    php,
    test_peer::{Asked, Ear, Heard},
};
use saker_testkit::{ServerProcess, TempDir, require};
use std::{
    io::{Read, Write},
    net::TcpStream,
    path::Path,
    process::Command,
    time::Duration,
};

const TIME_LIMIT: Duration = Duration::from_secs(20);

const SCRIPT: &str = r#"<?php
switch ($_GET['do'] ?? '') {
case 'env': header('Content-Type: text/plain'); foreach ($_SERVER as $name => $value) if (is_string($value)) echo "$name=$value\n"; break;
case 'input': $input = file_get_contents('php://input'); echo strlen($input), ' ', md5($input); break;
case 'head': header('X-A: 1'); header('X-A: 2', false); setcookie('c', 'd'); http_response_code(404); echo 'gone'; break;
case 'move': header('Location: http://a.example/b'); break;
case 'log': error_log("it's going down"); echo 'logged'; break;
case 'big': echo str_repeat('0123456789', 100000); break;
case 'set': @ini_set('memory_limit', '99M'); @ini_set('precision', '5'); foreach (['memory_limit', 'precision', 'user_agent'] as $name) echo "$name=", ini_get($name), "\n"; break;
case 'finish': echo 'done'; litespeed_finish_request(); sleep(1); break;
}
"#;

/// A PHP that listens, and how to speak to it.
struct Php {
    server: ServerProcess,
    folder: TempDir,
    speaks_lsapi: bool,
}

impl Php {
    fn fpm() -> Php {
        let folder = TempDir::new("php-fpm").expect("a folder");
        folder.write("a.php", SCRIPT).expect("the script");
        let program = ["php-fpm8.2", "php-fpm8.4", "php-fpm"]
            .iter()
            .find_map(|name| require(name).ok());
        let program = program
            .unwrap_or_else(|| panic!("`php-fpm` is not installed: apt-get install php-fpm"));
        let server = ServerProcess::start_on_free_port(|port| {
            let text = format!(
                "[global]\nerror_log = /dev/stderr\ndaemonize = no\n[www]\nlisten = 127.0.0.1:{port}\npm = static\npm.max_children = 2\nclear_env = yes\n\
                 user = nobody\ngroup = nogroup\n"
            );
            let config = folder.write("fpm.conf", text).expect("the configuration");
            let mut command = Command::new(&program);
            command.args(["-n", "-F", "-O", "-y"]).arg(config);
            command
        });
        Php {
            server: server.expect("php-fpm starts"),
            folder,
            speaks_lsapi: false,
        }
    }

    fn lsphp() -> Php {
        let folder = TempDir::new("lsphp").expect("a folder");
        folder.write("a.php", SCRIPT).expect("the script");
        let program = require("lsphp").unwrap_or_else(|missing| panic!("{missing}"));
        let server = ServerProcess::start_on_free_port(|port| {
            let mut command = Command::new(&program);
            command
                .args(["-n", "-b", &format!("127.0.0.1:{port}")])
                .env_clear()
                .env("PHP_LSAPI_CHILDREN", "2");
            command
        });
        Php {
            server: server.expect("lsphp starts"),
            folder,
            speaks_lsapi: true,
        }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.server.address()).expect("it listens");
        stream.set_read_timeout(Some(TIME_LIMIT)).expect("a limit");
        stream
    }

    fn dialogue(&self) -> Box<dyn Dialogue> {
        if self.speaks_lsapi {
            Box::new(Lsapi::new())
        } else {
            Box::new(FastCgi::new(Role::Responder, true))
        }
    }

    fn asked(&self, what: &str) -> Asked {
        self.with_fields(what, &[("Host", "h.example"), ("X-A", "field")])
    }

    fn with_fields(&self, what: &str, fields: &[(&str, &str)]) -> Asked {
        let script = self.folder.join("a.php");
        let method = if what == "input" { "POST" } else { "GET" };
        Asked::new()
            .fields(fields)
            .variable("SCRIPT_FILENAME", &script.to_string_lossy())
            .variable("SCRIPT_NAME", "/a.php")
            .variable("REQUEST_METHOD", method)
            .variable("QUERY_STRING", &format!("do={what}"))
            .variable("REQUEST_URI", &format!("/a.php?do={what}"))
            .variable("SERVER_PROTOCOL", "HTTP/1.1")
            .variable("GATEWAY_INTERFACE", "CGI/1.1")
            .variable("MINE", "é")
    }

    fn ask(&self, what: &str) -> Vec<Heard> {
        let asked = if self.speaks_lsapi {
            self.asked(what)
        } else {
            self.asked(what).variable("HTTP_X_A", "field")
        };
        converse(&mut self.connect(), &mut *self.dialogue(), &asked, &[], &[])
    }

    fn everything(&self) -> Vec<(&'static str, Vec<Heard>)> {
        ["env", "head", "move", "log", "big"]
            .map(|what| (what, self.ask(what)))
            .to_vec()
    }
}

/// One request over one connection, until the response is whole.
fn converse(
    stream: &mut TcpStream,
    dialogue: &mut dyn Dialogue,
    asked: &Asked,
    settings: &[Setting<'_>],
    content: &[u8],
) -> Vec<Heard> {
    let mut out = Vec::new();
    asked
        .begin_with(settings, dialogue, &mut out)
        .expect("it can be said");
    content
        .chunks(10_000)
        .for_each(|piece| dialogue.content(piece, &mut out));
    dialogue.end(&mut out);
    stream.write_all(&out).expect("it reads");
    let (mut ear, mut buffer) = (Ear::default(), vec![0; 16 * 1024]);
    loop {
        match stream.read(&mut buffer).expect("it answers in time") {
            0 => {
                ear.close(dialogue);
                return ear.heard;
            }
            count if ear.take(dialogue, &buffer[..count]) => return ear.heard,
            _ => {}
        }
    }
}

fn content(heard: &[Heard]) -> String {
    heard
        .iter()
        .filter_map(|heard| {
            if let Heard::Content(content) = heard {
                Some(&content[..])
            } else {
                None
            }
        })
        .map(String::from_utf8_lossy)
        .collect()
}

fn log(heard: &[Heard]) -> String {
    heard
        .iter()
        .filter_map(|heard| {
            if let Heard::Log(text) = heard {
                Some(&text[..])
            } else {
                None
            }
        })
        .map(String::from_utf8_lossy)
        .collect()
}

fn status(heard: &[Heard]) -> u16 {
    heard
        .iter()
        .find_map(|heard| {
            if let Heard::Head(head) = heard {
                Some(head.status.0)
            } else {
                None
            }
        })
        .unwrap_or_else(|| panic!("no head: {heard:?}"))
}

fn fields<'h>(heard: &'h [Heard], name: &str) -> Vec<&'h [u8]> {
    let heads = heard.iter().filter_map(|heard| {
        if let Heard::Head(head) = heard {
            Some(head)
        } else {
            None
        }
    });
    heads
        .flat_map(|head| head.fields.iter())
        .filter(|field| field.0.eq_ignore_ascii_case(name))
        .map(|field| field.1)
        .collect()
}

fn check_answers(php: &Php) {
    for (what, heard) in php.everything() {
        assert_eq!(heard.last(), Some(&Heard::End(true)), "{what}: {heard:?}");
        let text = content(&heard);
        match what {
            "env" => {
                for line in [
                    "MINE=é",
                    "HTTP_X_A=field",
                    "REQUEST_METHOD=GET",
                    "QUERY_STRING=do=env",
                    "SCRIPT_NAME=/a.php",
                    "PHP_SELF=/a.php",
                ] {
                    assert!(text.lines().any(|has| has == line), "{line}: {text}");
                }
            }
            "head" => assert_eq!(
                (
                    status(&heard),
                    &text[..],
                    fields(&heard, "X-A"),
                    fields(&heard, "set-cookie")
                ),
                (404, "gone", vec![&b"1"[..], b"2"], vec![&b"c=d"[..]])
            ),
            "move" => assert_eq!(
                (status(&heard), fields(&heard, "location")),
                (302, vec![&b"http://a.example/b"[..]])
            ),
            "log" => assert!(
                log(&heard).contains("it's going down") && text == "logged",
                "{heard:?}"
            ),
            _ => assert_eq!((text.len(), status(&heard)), (1_000_000, 200)),
        }
    }
}

/// One connection, one request after another, each with content.
fn check_kept_connection(php: &Php) {
    let mut stream = php.connect();
    for size in [1, 8192, 65_535, 65_536, 300_000] {
        let content: Vec<u8> = (0..size).map(|number: u32| (number * 7) as u8).collect();
        let length = size.to_string();
        let asked = php
            .with_fields("input", &[("Content-Type", "application/octet-stream")])
            .content(Some(size.into()));
        let asked = if php.speaks_lsapi {
            asked
        } else {
            asked
                .variable("CONTENT_LENGTH", &length)
                .variable("CONTENT_TYPE", "application/octet-stream")
        };
        let heard = converse(&mut stream, &mut *php.dialogue(), &asked, &[], &content);
        assert_eq!(
            self::content(&heard),
            format!("{size} {}", md5(&content)),
            "{heard:?}"
        );
        // lsphp would go on; what a script might leave unread ends the connection all the same.
        assert_eq!(heard.last(), Some(&Heard::End(!php.speaks_lsapi)));
    }
}

fn md5(bytes: &[u8]) -> String {
    use md5::Digest;
    md5::Md5::digest(bytes)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// The script sets both; only the one that is not the administrator's obeys.
const SETTINGS: [Setting<'static>; 3] = [
    Setting {
        level: Level::System,
        name: b"memory_limit",
        value: b"64M",
    },
    Setting {
        level: Level::PerDirectory,
        name: b"precision",
        value: b"9",
    },
    Setting {
        level: Level::PerDirectory,
        name: b"user_agent",
        value: b"it's \"a;b\" = ${PATH} \\ $x!",
    },
];
const SET: &str = "memory_limit=64M\nprecision=5\nuser_agent=it's \"a;b\" = ${PATH} \\ $x!\n";

#[test]
fn php_fpm_understands_and_is_understood() {
    let php = Php::fpm();
    check_answers(&php);
    check_kept_connection(&php);
    let mut variables = saker_cgi::Variables::new();
    assert_eq!(php::push_settings(&SETTINGS, &mut variables), 0);
    let asked = variables
        .iter()
        .fold(php.asked("set"), |asked, (name, value)| {
            asked.variable(&text(name), &text(value))
        });
    assert_eq!(
        content(&converse(
            &mut php.connect(),
            &mut *php.dialogue(),
            &asked,
            &[],
            &[]
        )),
        SET
    );
    // Several PARAMS records.
    let long = "x".repeat(50_000);
    let asked = ["LONG_A", "LONG_B", "LONG_C"]
        .iter()
        .fold(php.asked("env"), |asked, name| asked.variable(name, &long));
    let heard = converse(&mut php.connect(), &mut *php.dialogue(), &asked, &[], &[]);
    assert!(
        content(&heard).contains(&format!("LONG_C={long}\n")),
        "{:?}",
        heard.last()
    );
}

#[test]
fn lsphp_understands_and_is_understood() {
    let php = Php::lsphp();
    check_answers(&php);
    check_kept_connection(&php);
    let set = converse(
        &mut php.connect(),
        &mut *php.dialogue(),
        &php.asked("set"),
        &SETTINGS,
        &[],
    );
    assert_eq!(content(&set), SET);
    let off = [Setting {
        level: Level::PerDirectory,
        name: b"engine",
        value: b"0",
    }];
    let heard = converse(
        &mut php.connect(),
        &mut *php.dialogue(),
        &php.asked("env"),
        &off,
        &[],
    );
    assert_eq!(status(&heard), 403);
    // The visitor is done, the script goes on: the connection can't be used again.
    let heard = converse(
        &mut php.connect(),
        &mut *php.dialogue(),
        &php.asked("finish"),
        &[],
        &[],
    );
    assert!(
        content(&heard) == "done" && matches!(heard.last(), Some(Heard::End(_))),
        "{heard:?}"
    );
    assert!(
        matches!(heard.first(), Some(Heard::Taken(Some(process))) if Path::new(&format!("/proc/{process}")).exists()),
        "{heard:?}"
    );
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
