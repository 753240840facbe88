//! Reads `tests/conformance/http1/*.txt`, whose README describes the form: requests as bytes, and
//! what must come of them.
//!
//! Shared by those who replay the cases: the protocol machine without a socket, and the running
//! server. Absent on purpose: a judgement of outcomes, which look different from inside and from
//! the wire.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// One case: bytes to send, and an outcome per request in them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// File and name, for messages.
    pub name: String,
    pub bytes: Vec<u8>,
    /// As written behind `expect:`.
    pub expected: Vec<String>,
}

/// All cases of all files, in the order of the file names.
pub fn http1_cases() -> io::Result<Vec<Case>> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/conformance/http1");
    let mut files = fs::read_dir(directory)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<io::Result<Vec<PathBuf>>>()?;
    files.retain(|path| path.extension().is_some_and(|extension| extension == "txt"));
    files.sort();
    let mut cases = Vec::new();
    for file in files {
        let stem = file
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        cases.extend(read(&stem, &fs::read_to_string(&file)?).map_err(io::Error::other)?);
    }
    Ok(cases)
}

fn read(file: &str, text: &str) -> Result<Vec<Case>, String> {
    let mut cases: Vec<Case> = Vec::new();
    for line in text
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
    {
        let (key, value) = line
            .split_once(": ")
            .ok_or_else(|| format!("{file}: no key in {line:?}"))?;
        if key == "case" {
            let name = format!("{file}/{value}");
            if cases.iter().any(|case| case.name == name) {
                return Err(format!("{name} twice"));
            }
            cases.push(Case {
                name,
                bytes: Vec::new(),
                expected: Vec::new(),
            });
            continue;
        }
        let case = cases
            .last_mut()
            .ok_or_else(|| format!("{file}: {line:?} before the first case"))?;
        add(case, key, value)?;
    }
    match cases
        .iter()
        .find(|case| case.bytes.is_empty() || case.expected.is_empty())
    {
        Some(case) => Err(format!(
            "{}: nothing to send, or nothing expected",
            case.name
        )),
        None => Ok(cases),
    }
}

fn add(case: &mut Case, key: &str, value: &str) -> Result<(), String> {
    let bad = || format!("{}: {key:?} {value:?}", case.name);
    match key.split_once('*') {
        Some(("send", times)) => {
            let (times, bytes) = (
                times.parse().map_err(|_| bad())?,
                unescaped(value).ok_or_else(bad)?,
            );
            case.bytes.extend(bytes.repeat(times));
        }
        None if key == "send" => {
            let bytes = unescaped(value).ok_or_else(bad)?;
            case.bytes.extend(bytes);
        }
        None if key == "expect" => case.expected.push(value.to_owned()),
        None if key == "why" => {}
        _ => return Err(bad()),
    }
    Ok(())
}

/// `None`: an escape that is none.
fn unescaped(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'\\' => match rest.next()? {
                b'r' => b'\r',
                b'n' => b'\n',
                b't' => b'\t',
                b'0' => 0,
                b'\\' => b'\\',
                b'x' => {
                    let digits = [rest.next()?, rest.next()?];
                    u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?
                }
                _ => return None,
            },
            plain => plain,
        });
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_are_read() {
        let text = "# words\n\ncase: a\nwhy: so\nsend: G\\r\\n\\x20\\0\\\\\nsend*3: ab\nexpect: wait\n\ncase: b\nsend: x\nexpect: wait\nexpect: wait\n";
        let cases = read("f", text).expect("read");
        assert_eq!(cases.len(), 2);
        assert_eq!(
            (cases[0].name.as_str(), &cases[0].bytes[..]),
            ("f/a", &b"G\r\n \0\\ababab"[..])
        );
        assert_eq!(cases[1].expected, ["wait", "wait"]);
    }

    #[test]
    fn what_is_no_case_is_refused() {
        for text in [
            "send: x",
            "case: a\nsend: \\q\nexpect: wait",
            "case: a\nsend: x",
            "case: a\nexpect: wait",
            "case: a\nfoo: b",
            "words",
        ] {
            assert!(read("f", text).is_err(), "{text:?}");
        }
        let twice = "case: a\nsend: x\nexpect: wait\ncase: a\nsend: x\nexpect: wait";
        assert_eq!(read("f", twice), Err("f/a twice".into()));
    }

    #[test]
    fn the_corpus_is_there() {
        assert!(http1_cases().expect("read").len() >= 150);
    }
}
