//! A DNS server whose answers a test changes while it runs.
// Each test program uses its part.
#![allow(dead_code, clippy::unwrap_used)]

use std::{
    collections::HashMap,
    net::{SocketAddr, UdpSocket},
    sync::{Arc, Mutex, MutexGuard},
    thread,
};

pub const A: u16 = 1;
pub const SRV: u16 = 33;
pub const SERVFAIL: u8 = 2;
pub const NXDOMAIN: u8 = 3;

/// Lifetime and data of records, or the code of a failure.
pub type Answer = Result<Vec<(u32, Vec<u8>)>, u8>;

/// Answers by name and kind. Names that are not there do not exist.
type Answers = HashMap<(String, u16), Answer>;

pub struct NameServer {
    pub address: SocketAddr,
    answers: Arc<Mutex<Answers>>,
    asked: Arc<Mutex<Vec<(String, u16)>>>,
}

impl NameServer {
    pub fn start() -> NameServer {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        let answers: Arc<Mutex<Answers>> = Arc::default();
        let asked_all: Arc<Mutex<Vec<(String, u16)>>> = Arc::default();
        let (known, told) = (Arc::clone(&answers), Arc::clone(&asked_all));
        thread::spawn(move || {
            let mut buffer = [0; 512];
            while let Ok((length, client)) = socket.recv_from(&mut buffer) {
                let question = &buffer[..length];
                let asked = read(question);
                told.lock().unwrap().push(asked.clone());
                let answer = known.lock().unwrap().get(&asked).cloned();
                let answer = answer.unwrap_or(Err(NXDOMAIN));
                let _ = socket.send_to(&message(question, &asked, answer), client);
            }
        });
        NameServer {
            address,
            answers,
            asked: asked_all,
        }
    }

    pub fn answers(&self) -> MutexGuard<'_, Answers> {
        self.answers.lock().unwrap()
    }

    /// Returns how often a name was asked for.
    pub fn asked(&self, name: &str, kind: u16) -> usize {
        let asked = self.asked.lock().unwrap();
        let is_it = |one: &&(String, u16)| one.0 == name && one.1 == kind;
        asked.iter().filter(is_it).count()
    }

    pub fn set(&self, name: &str, kind: u16, answer: Answer) {
        self.answers().insert((name.to_owned(), kind), answer);
    }
}

/// Data of an SRV record.
pub fn srv(priority: u16, weight: u16, port: u16, host: &str) -> Vec<u8> {
    let numbers = [priority, weight, port].map(u16::to_be_bytes).concat();
    [numbers, labels(host)].concat()
}

fn labels(name: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for label in name.split('.').filter(|label| !label.is_empty()) {
        bytes.push(label.len() as u8);
        bytes.extend(label.as_bytes());
    }
    bytes.push(0);
    bytes
}

fn read(message: &[u8]) -> (String, u16) {
    let (mut at, mut labels) = (12, Vec::new());
    while message[at] != 0 {
        let end = at + 1 + usize::from(message[at]);
        labels.push(String::from_utf8_lossy(&message[at + 1..end]).to_lowercase());
        at = end;
    }
    let kind = u16::from_be_bytes([message[at + 1], message[at + 2]]);
    (labels.join("."), kind)
}

fn message(question: &[u8], (_, kind): &(String, u16), answer: Answer) -> Vec<u8> {
    let mut message = question.to_vec();
    let (code, records) = match answer {
        Ok(records) => (0, records),
        Err(code) => (code, Vec::new()),
    };
    message[2..4].copy_from_slice(&[0x81, 0x80 | code]);
    message[7] = records.len() as u8;
    for (ttl_s, data) in records {
        message.extend([0xc0, 12]);
        message.extend([kind.to_be_bytes(), [0, 1]].concat());
        message.extend(ttl_s.to_be_bytes());
        message.extend((data.len() as u16).to_be_bytes());
        message.extend(data);
    }
    message
}
