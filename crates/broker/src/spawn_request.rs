//! A request to start a program as a user.
//!
//! The broker, which is root, looks the user up. Caveat: a program may have to be told the number
//! of a descriptor that it inherits, and only the broker knows it: [`descriptor`] stands for it in
//! arguments and environment.

use saker_net::program::ProgramLimits;
use saker_net::wire::{Reader, Writer};
use std::{
    ffi::{OsStr, OsString},
    io,
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::PathBuf,
};

/// The kind of a program, which determines the grants that allow it and the checks it has to pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpawnKind {
    /// A script of the user's own, looked at as suEXEC does, with an environment as suEXEC leaves
    /// it.
    Script,
    /// A program named by the configuration, run as a user other than root.
    Program,
    /// A log program, as root if configured: with exactly the arguments that the configuration
    /// gives it. The rest of the request is ignored: environment and directory are the broker's
    /// own, as the server was started with them. The program ends when its input does, even if the
    /// server is gone.
    LogProgram,
    /// A program of the server's own (CGI), as the user that the server has switched to: with that
    /// user's rights, but without access to the server's protected files.
    Own,
}

impl SpawnKind {
    fn number(self) -> u64 {
        match self {
            SpawnKind::Program => 0,
            SpawnKind::Script => 1,
            SpawnKind::LogProgram => 2,
            SpawnKind::Own => 3,
        }
    }

    fn of_number(number: u64) -> io::Result<SpawnKind> {
        [
            SpawnKind::Program,
            SpawnKind::Script,
            SpawnKind::LogProgram,
            SpawnKind::Own,
        ]
        .into_iter()
        .find(|kind| kind.number() == number)
        .ok_or_else(|| io::ErrorKind::InvalidData.into())
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpawnRequest {
    pub kind: SpawnKind,
    /// A name or a number, as in the configuration.
    pub user: String,
    /// `None`: the user's own.
    pub group: Option<String>,
    pub file: PathBuf,
    /// The program's own name (`argv[0]`).
    pub name: OsString,
    pub arguments: Vec<OsString>,
    pub environment: Vec<(OsString, OsString)>,
    pub folder: PathBuf,
    pub limits: ProgramLimits,
}

/// Placeholder for the number of an inherited descriptor, by its position. No argument can contain
/// a NUL of its own (execve(2)).
pub fn descriptor(place: u8) -> OsString {
    OsString::from_vec(vec![0, b'0' + place.min(9)])
}

/// Placeholder in a grant for digits and hyphens, at least one and at most [`NUMBER_BYTES_MAX`].
pub fn any_number() -> OsString {
    OsString::from_vec(vec![0, b'n'])
}

/// Placeholder at the end of a grant's text for any text.
pub fn any_text() -> OsString {
    OsString::from_vec(vec![0, b'*'])
}

const NUMBER_BYTES_MAX: usize = 40;

/// Returns true if the text matches the grant's pattern.
pub fn matches(pattern: &OsStr, text: &OsStr) -> bool {
    let (mut pattern, mut text) = (pattern.as_bytes(), text.as_bytes());
    loop {
        match (pattern, text) {
            ([], []) | ([0, b'*'], _) => return true,
            ([0, b'n', more @ ..], _) => {
                let digits = text
                    .iter()
                    .take_while(|byte| byte.is_ascii_digit() || **byte == b'-')
                    .count();
                if digits == 0 || digits > NUMBER_BYTES_MAX {
                    return false;
                }
                (pattern, text) = (more, text.get(digits..).unwrap_or_default());
            }
            ([one, more @ ..], [other, rest @ ..]) if one == other => {
                (pattern, text) = (more, rest)
            }
            _ => return false,
        }
    }
}

/// Number of descriptors these name, by the last of them.
pub fn descriptors_named<'t>(texts: impl Iterator<Item = &'t OsString>) -> usize {
    let places = texts
        .flat_map(|text| text.as_bytes().windows(2))
        .filter(|two| two[0] == 0 && two[1].is_ascii_digit());
    places
        .map(|two| usize::from(two[1] - b'0') + 1)
        .max()
        .unwrap_or(0)
}

/// Replaces placeholders by descriptor numbers.
pub fn with_descriptors(text: &OsStr, numbers: &[i32]) -> OsString {
    let mut made = Vec::with_capacity(text.len());
    let mut bytes = text.as_bytes().iter();
    while let Some(byte) = bytes.next() {
        match byte {
            0 => {
                let place =
                    usize::from(bytes.next().copied().unwrap_or_default().wrapping_sub(b'0'));
                made.extend_from_slice(
                    numbers
                        .get(place)
                        .map(i32::to_string)
                        .unwrap_or_default()
                        .as_bytes(),
                );
            }
            byte => made.push(*byte),
        }
    }
    OsString::from_vec(made)
}

impl SpawnRequest {
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::default();
        writer.number(self.kind.number());
        writer.text(self.user.as_bytes());
        writer.optional(self.group.as_deref().map(str::as_bytes));
        writer.text(self.file.as_os_str().as_bytes());
        writer.text(self.name.as_bytes());
        writer.texts(&self.arguments);
        writer.pairs(&self.environment);
        writer.text(self.folder.as_os_str().as_bytes());
        for limit in [
            self.limits.cpu_s,
            self.limits.memory_bytes,
            self.limits.processes,
        ] {
            let (soft, hard) = limit.unwrap_or_default();
            [u64::from(limit.is_some()), soft, hard]
                .into_iter()
                .for_each(|number| writer.number(number));
        }
        writer.0
    }

    /// # Errors
    /// The message is malformed: incomplete, a relative path, an invalid variable name, or a NUL
    /// other than a program's placeholder for a descriptor.
    pub fn decode(message: &[u8]) -> io::Result<SpawnRequest> {
        let mut reader = Reader(message);
        let words = |text: &[u8]| OsString::from_vec(text.to_vec());
        let request = SpawnRequest {
            kind: SpawnKind::of_number(reader.number()?)?,
            user: reader.string()?,
            group: reader.optional_string()?,
            file: PathBuf::from(words(reader.text()?)),
            name: words(reader.text()?),
            arguments: reader.texts()?,
            environment: reader.pairs()?,
            folder: PathBuf::from(words(reader.text()?)),
            limits: ProgramLimits {
                cpu_s: limit(&mut reader)?,
                memory_bytes: limit(&mut reader)?,
                processes: limit(&mut reader)?,
            },
        };
        reader.end()?;
        if request.is_sound() {
            Ok(request)
        } else {
            Err(io::ErrorKind::InvalidData.into())
        }
    }

    fn is_sound(&self) -> bool {
        let has_nul = |text: &OsStr| text.as_bytes().contains(&0);
        let is_name =
            |name: &OsStr| !name.is_empty() && !has_nul(name) && !name.as_bytes().contains(&b'=');
        let may_name_descriptors = self.kind == SpawnKind::Program;
        let is_text = |text: &OsStr| may_name_descriptors || !has_nul(text);
        self.file.is_absolute()
            && !has_nul(self.file.as_os_str())
            && !has_nul(&self.name)
            && !has_nul(self.folder.as_os_str())
            && self.arguments.iter().all(|argument| is_text(argument))
            && self
                .environment
                .iter()
                .all(|(name, value)| is_name(name) && is_text(value))
    }
}

fn limit(reader: &mut Reader<'_>) -> io::Result<Option<(u64, u64)>> {
    let (is_there, soft, hard) = (reader.number()?, reader.number()?, reader.number()?);
    match (is_there, soft, hard) {
        (0, 0, 0) => Ok(None),
        (1, ..) => Ok(Some((soft, hard))),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_read_as_it_was_given() {
        let request = SpawnRequest {
            kind: SpawnKind::Script,
            user: "alice".into(),
            group: None,
            file: "/srv/a/x.cgi".into(),
            name: "x.cgi".into(),
            arguments: vec!["a".into(), "".into()],
            environment: vec![("A".into(), "b".into())],
            folder: "/srv/a".into(),
            limits: ProgramLimits {
                cpu_s: Some((1, u64::MAX)),
                ..ProgramLimits::default()
            },
        };
        let message = request.encode();
        assert_eq!(SpawnRequest::decode(&message).unwrap(), request);
        for length in 0..message.len() {
            assert!(
                SpawnRequest::decode(&message[..length]).is_err(),
                "{length}"
            );
        }
    }

    /// Random bytes are rejected without a panic.
    #[test]
    fn random_bytes_are_no_request() {
        let whole = SpawnRequest {
            kind: SpawnKind::Program,
            user: "alice".into(),
            group: Some("staff".into()),
            file: "/usr/bin/php".into(),
            name: "php".into(),
            arguments: vec!["-c".into(), descriptor(1)],
            environment: vec![("PATH".into(), "/bin".into()), ("A".into(), "b".into())],
            folder: "/".into(),
            limits: ProgramLimits::default(),
        };
        let message = whole.encode();
        let mut state = 0x2545_f491_4f6c_dd1d_u64;
        let mut random = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        for _ in 0..20_000 {
            let length = random() as usize % 200;
            let noise: Vec<u8> = (0..length).map(|_| random() as u8).collect();
            assert!(SpawnRequest::decode(&noise).is_err(), "{noise:?}");
            let mut bent = message.clone();
            for _ in 0..=random() % 3 {
                let at = random() as usize % bent.len();
                bent[at] = random() as u8;
            }
            if let Ok(request) = SpawnRequest::decode(&bent) {
                assert!(request.is_sound() && request.encode() == bent);
            }
            bent.push(0);
            assert!(SpawnRequest::decode(&bent).is_err());
        }
    }

    #[test]
    fn requests_that_mean_something_else_are_refused() {
        let request = |kind| SpawnRequest {
            kind,
            user: "alice".into(),
            group: None,
            file: "/srv/x.cgi".into(),
            name: "x.cgi".into(),
            arguments: Vec::new(),
            environment: Vec::new(),
            folder: "/".into(),
            limits: ProgramLimits::default(),
        };
        let script = || request(SpawnKind::Script);
        let is_read = |request: SpawnRequest| SpawnRequest::decode(&request.encode()).is_ok();
        assert!(
            is_read(script())
                && is_read(SpawnRequest {
                    arguments: vec![descriptor(0)],
                    ..request(SpawnKind::Program)
                })
        );
        for bad in [
            SpawnRequest {
                file: "x.cgi".into(),
                ..script()
            },
            SpawnRequest {
                file: "/srv/x\0".into(),
                ..script()
            },
            SpawnRequest {
                name: "x\0".into(),
                ..script()
            },
            SpawnRequest {
                arguments: vec![descriptor(0)],
                ..script()
            },
            SpawnRequest {
                arguments: vec![descriptor(0)],
                ..request(SpawnKind::LogProgram)
            },
            SpawnRequest {
                environment: vec![("A=B".into(), "c".into())],
                ..script()
            },
            SpawnRequest {
                environment: vec![("".into(), "c".into())],
                ..script()
            },
            SpawnRequest {
                environment: vec![("A".into(), descriptor(0))],
                ..request(SpawnKind::Own)
            },
        ] {
            assert!(!is_read(bad.clone()), "{bad:?}");
        }
    }

    #[test]
    fn patterns_of_grants() {
        let of = |parts: &[&OsStr]| parts.iter().copied().collect::<OsString>();
        let number = any_number();
        let pattern = of(&[OsStr::new("/tmp/p-"), &number, OsStr::new(".php")]);
        for (text, is_one) in [
            ("/tmp/p-12-7.php", true),
            ("/tmp/p-.php", false),
            ("/tmp/p-1/../x.php", false),
            ("/tmp/p-1.phpx", false),
            ("/tmp/p-1", false),
        ] {
            assert_eq!(matches(&pattern, OsStr::new(text)), is_one, "{text}");
        }
        assert!(!matches(
            &number,
            OsStr::new(&"1".repeat(NUMBER_BYTES_MAX + 1))
        ));
        assert!(matches(
            &of(&[OsStr::new("a="), &descriptor(0)]),
            &of(&[OsStr::new("a="), &descriptor(0)])
        ));
        assert!(!matches(
            &of(&[OsStr::new("a="), &descriptor(0)]),
            &of(&[OsStr::new("a="), &descriptor(1)])
        ));
        let any = of(&[OsStr::new("a="), &any_text()]);
        assert!(matches(&any, OsStr::new("a=b")) && !matches(&any, OsStr::new("b=b")));
        assert!(!matches(OsStr::new("a"), &number) && matches(OsStr::new(""), OsStr::new("")));
        assert_eq!(
            descriptors_named([of(&[OsStr::new("x"), &descriptor(1)]), number].iter()),
            2
        );
    }

    #[test]
    fn numbers_of_descriptors() {
        let text = [OsStr::new("a="), &descriptor(1), OsStr::new(",")].concat_os();
        assert_eq!(with_descriptors(&text, &[7, 12]), "a=12,");
        assert_eq!(with_descriptors(&text, &[7]), "a=,");
    }

    trait ConcatOs {
        fn concat_os(&self) -> OsString;
    }

    impl ConcatOs for [&OsStr; 3] {
        fn concat_os(&self) -> OsString {
            self.iter().copied().collect()
        }
    }
}
