//! Content that a PHP script leaves unread is not the next request of the process that serves it.

#![allow(clippy::unwrap_used)] // The whole file is tests.

use crate::operate::{self, PATIENCE};
use saker_testkit::{Saker, TempDir};

/// Begins with so many bytes of content, which PHP reads at once, and does not go on.
const READS_SOME: &str = "<?php echo strlen(fread(fopen('php://input', 'r'), 10));";
const READS_ALL: &str =
    "<?php echo strlen(file_get_contents('php://input')), $_SERVER['HTTP_X_USER'] ?? '-';";

fn start(kind: &str) -> Saker {
    let dir = TempDir::new(&format!("php-content-{kind}")).unwrap();
    let ran = dir.join("ran");
    for (file, text) in [
        ("www/some.php", READS_SOME),
        ("www/all.php", READS_ALL),
        (
            "hidden.php",
            &format!("<?php touch('{}'); echo 'hidden';", ran.display()),
        ),
    ] {
        dir.write(file, text).unwrap();
    }
    let text = format!(
        "[server]\nworkers = 1\nstate_dir = \"{{dir}}/state\"\n\n[php]\nprogram = \"{kind}\"\nprocesses = 2\n\n\
         [[listener]]\naddress = \"{{address}}\"\n\n[[site]]\nnames = [\"*\"]\nroot = \"{{dir}}/www\"\nphp = \"auto\"\n\
         environment = {{ HTTP_X_USER = \"checked\" }}\n"
    );
    operate::native(&text).start(dir)
}

/// A request of LSAPI for a file that no route leads to.
fn begin_request(file: &str) -> Vec<u8> {
    let mut packet = vec![0; 44];
    packet.extend([0; 4]);
    let mut places = Vec::new();
    let variables = [
        ("SCRIPT_FILENAME", file),
        ("SCRIPT_NAME", "/hidden.php"),
        ("QUERY_STRING", ""),
        ("REQUEST_METHOD", "GET"),
    ];
    for (name, value) in variables {
        for text in [name, value] {
            packet.extend((text.len() as u16 + 1).to_be_bytes());
        }
        packet.extend(name.as_bytes());
        packet.push(0);
        places.push(packet.len() as i32);
        packet.extend(value.as_bytes());
        packet.push(0);
    }
    packet.extend([0; 4]);
    // No field but Host, which is the eleventh of the index.
    packet.resize(packet.len().next_multiple_of(8), 0);
    let (mut lengths, mut offsets) = ([0_u16; 26], [0_i32; 25]);
    (lengths[10], offsets[10]) = (1, 6);
    packet.extend(lengths.iter().flat_map(|length| length.to_ne_bytes()));
    packet.extend(offsets.iter().flat_map(|offset| offset.to_ne_bytes()));
    packet.extend(b"Host: x\r\n\r\n");
    let size = packet.len() as i32;
    let numbers = [
        size, 11, 0, places[0], places[1], places[2], places[3], 0, 4, 0,
    ];
    packet.splice(
        4..44,
        numbers.iter().flat_map(|number: &i32| number.to_ne_bytes()),
    );
    packet[..4].copy_from_slice(b"LS\x01\0");
    packet
}

/// The same in FastCGI, for a PHP that would go on in the midst of a record.
fn begin_records(file: &str) -> Vec<u8> {
    let record = |kind: u8, content: &[u8]| {
        let length = (content.len() as u16).to_be_bytes();
        [&[1, kind, 0, 1, length[0], length[1], 0, 0], content].concat()
    };
    let pairs: Vec<u8> = [
        ("SCRIPT_FILENAME", file),
        ("SCRIPT_NAME", "/hidden.php"),
        ("REQUEST_METHOD", "GET"),
    ]
    .iter()
    .flat_map(|(name, value)| {
        let lengths = [name.len() as u8, value.len() as u8];
        [&lengths[..], name.as_bytes(), value.as_bytes()].concat()
    })
    .collect();
    [
        record(1, &[0, 1, 1, 0, 0, 0, 0, 0]),
        record(4, &pairs),
        record(4, b""),
        record(5, b""),
    ]
    .concat()
}

#[test]
fn unread_content_is_not_the_next_request() {
    for kind in ["lsphp", "php-fpm", "php-cgi"] {
        let saker = start(kind);
        let root = &saker.dir;
        let hidden = root.join("hidden.php").display().to_string();
        let packet = match kind {
            "lsphp" => begin_request(&hidden),
            _ => begin_records(&hidden),
        };
        let ask = |head: &str, content: &[u8]| {
            let mut client = saker.connect().unwrap();
            client.set_timeout(PATIENCE).unwrap();
            let length = content.len();
            let head = format!("{head}Host: a\r\nContent-Length: {length}\r\n\r\n");
            client.send([head.as_bytes(), content].concat()).unwrap();
            client.read_response().unwrap().text()
        };
        let heads = [
            "PUT /some.php HTTP/1.1\r\n",
            "PUT /some.php HTTP/1.1\r\nContent-Type: application/json\r\n",
            "POST /some.php HTTP/1.1\r\n",
            "POST /some.php HTTP/1.1\r\nContent-Type:\r\n",
            "POST /some.php HTTP/1.1\r\nContent-Type: multipart/form-data\r\n",
            "POST /some.php HTTP/1.1\r\nContent-Type: application/json\r\n",
        ];
        for head in heads {
            for pad in [8192, 16384, 9_000_000] {
                let content = [&vec![b'A'; pad][..], &packet].concat();
                ask(head, &content);
                // The process has gone on, or is gone.
                for _ in 0..3 {
                    let whole = ask("PUT /all.php HTTP/1.1\r\nX-User: admin\r\n", &content);
                    assert_eq!(whole, format!("{}checked", content.len()), "{kind}");
                    assert_eq!(ask("GET /all.php HTTP/1.1\r\n", b""), "0checked", "{kind}");
                }
                assert!(!root.join("ran").exists(), "{kind}: {head} {pad}");
            }
        }
    }
}
