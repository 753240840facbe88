//! Passphrases of encrypted keys: sources, and those that were right.
//!
//! Requested at start and at reload, never while files are watched, because the operator may have
//! to type. A passphrase that opened a key is remembered and tried first on the next, as apache2
//! does, so that a machine whose keys share one is asked once, and a renewed key under the same
//! passphrase is loaded without asking.

use crate::encrypted_key::{self, DecryptError};
use rustls::pki_types::PrivateKeyDer;
use saker_config::model::{Passphrase, PassphraseDialog};
use std::{
    io::{BufRead, BufReader, Read, Write},
    path::Path,
    process::{Command, Stdio},
    sync::{Mutex, PoisonError},
};

/// Longer ones were never typed.
const PASSPHRASE_BYTES_MAX: u64 = 4096;
/// As apache2.
const TRIES: usize = 3;

/// Those that were right.
static KNOWN: Mutex<Vec<Vec<u8>>> = Mutex::new(Vec::new());

/// Opens a key. `asks`: the passphrase may be requested from the operator.
pub fn open(
    pem: &[u8],
    passphrase: Option<&Passphrase>,
    asks: bool,
) -> Result<PrivateKeyDer<'static>, String> {
    if let Some(key) = by_known(pem) {
        return Ok(key);
    }
    if let Some(PassphraseDialog::File(path)) = passphrase.map(|asked| &asked.dialog) {
        return by_file(pem, path);
    }
    let asked = passphrase
        .filter(|_| asks)
        .ok_or("is encrypted, and nobody is asked for its passphrase here")?;
    for _ in 0..TRIES {
        let answer = ask(asked)?;
        match encrypted_key::decrypt(pem, &answer) {
            Ok(key) => {
                KNOWN
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push(answer);
                return Ok(key);
            }
            Err(DecryptError::Unknown) => {
                return Err("is encrypted in a way that is not known here".into());
            }
            // A program that is told nothing says the same again.
            Err(DecryptError::Wrong) if matches!(asked.dialog, PassphraseDialog::Program(_)) => {
                break;
            }
            Err(DecryptError::Wrong) => {}
        }
    }
    Err("is encrypted, and the passphrase is not the right one".into())
}

/// True if no prompt is needed.
pub fn is_known(pem: &[u8], passphrase: &Passphrase) -> bool {
    matches!(passphrase.dialog, PassphraseDialog::File(_)) || by_known(pem).is_some()
}

/// Opens a key with one of the passphrases in a file.
pub fn by_file(pem: &[u8], path: &Path) -> Result<PrivateKeyDer<'static>, String> {
    let lines = saker_net::privileged::read(path)
        .map_err(|error| format!("is encrypted, and {}: {error}", path.display()))?;
    let lines = lines.split(|byte| *byte == b'\n');
    for line in lines.map(|line| line.strip_suffix(b"\r").unwrap_or(line)) {
        match encrypted_key::decrypt(pem, line) {
            Ok(key) => return Ok(key),
            Err(DecryptError::Unknown) => {
                return Err("is encrypted in a way that is not known here".into());
            }
            Err(DecryptError::Wrong) => {}
        }
    }
    Err(format!(
        "is encrypted, and no passphrase in {} is the right one",
        path.display()
    ))
}

fn by_known(pem: &[u8]) -> Option<PrivateKeyDer<'static>> {
    let known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner).clone();
    known
        .iter()
        .find_map(|known| encrypted_key::decrypt(pem, known).ok())
}

/// Without the end of its line.
fn ask(asked: &Passphrase) -> Result<Vec<u8>, String> {
    let Passphrase {
        dialog,
        server,
        number,
    } = asked;
    match dialog {
        // The file has been read already.
        PassphraseDialog::File(_) => Err("is encrypted".into()),
        PassphraseDialog::Terminal => {
            ask_terminal(&format!("Pass phrase of key {number} of {server}: "))
        }
        PassphraseDialog::Program(words) => run(words, &[server, &kind(*number)], None),
        // As many lines as apache2 writes, for programs that count them.
        PassphraseDialog::Pipe(words) => {
            let lines = "Saker (Pass Phrase Dialog)\nA private key of this server is encrypted.\nIt is opened with its pass phrase.\n\n";
            run(
                words,
                &[],
                Some(&format!(
                    "{lines}Private key {server}:{number}\nEnter pass phrase:\n"
                )),
            )
        }
    }
}

/// By the place among the keys, not by what it is (httpd 2.4, as it behaves).
fn kind(number: usize) -> String {
    match number {
        0 => "RSA".into(),
        1 => "DSA".into(),
        2 => "ECC".into(),
        number => number.to_string(),
    }
}

/// httpd 2.4 manual, SSLPassPhraseDialog: `exec:` is given server and kind as arguments; `|` reads
/// prompts and writes passphrases.
fn run(words: &[String], more: &[&str], prompt: Option<&str>) -> Result<Vec<u8>, String> {
    let (program, arguments) = words
        .split_first()
        .ok_or("is encrypted, and no program is named for its passphrase")?;
    let failed = |error: &dyn std::fmt::Display| {
        format!("is encrypted, and {program} has said no passphrase: {error}")
    };
    let mut command = Command::new(program);
    command
        .args(arguments)
        .args(more)
        .stdout(Stdio::piped())
        .stdin(if prompt.is_some() {
            Stdio::piped()
        } else {
            Stdio::inherit()
        });
    let mut child = command.spawn().map_err(|error| failed(&error))?;
    if let (Some(prompt), Some(input)) = (prompt, child.stdin.as_mut()) {
        // One that does not read may say it all the same.
        let _ = input.write_all(prompt.as_bytes());
    }
    let mut line = Vec::new();
    if let Some(output) = child.stdout.take() {
        BufReader::new(output.take(PASSPHRASE_BYTES_MAX))
            .read_until(b'\n', &mut line)
            .map_err(|error| failed(&error))?;
    }
    drop(child.stdin.take());
    let status = child.wait().map_err(|error| failed(&error))?;
    line.truncate(line.trim_ascii_end().len());
    if line.is_empty() {
        Err(failed(&status))
    } else {
        Ok(line)
    }
}

fn ask_terminal(prompt: &str) -> Result<Vec<u8>, String> {
    let nobody = "is encrypted, and there is no terminal to ask for its passphrase: name a program with SSLPassPhraseDialog exec:, or decrypt the key (openssl pkey -in KEY -out PLAIN-KEY)";
    saker_net::terminal::ask_secretly(prompt).map_err(|_| nobody.to_owned())
}
