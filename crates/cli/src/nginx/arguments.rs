//! nginx's command-line options: single letters, which may share a dash, with an attached or a
//! following value.
//!
//! Called by: `main`, for nginx.
//! Caveat: messages are nginx's.

use std::path::PathBuf;

/// The options.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Arguments {
    /// `-t`, and with it `-T`.
    pub tests: bool,
    /// `-T`
    pub dumps: bool,
    /// `-q`
    pub is_quiet: bool,
    /// `-v`
    pub shows_version: bool,
    /// `-V`
    pub shows_build: bool,
    /// `-h`, `-?`
    pub shows_help: bool,
    /// `-c`
    pub file: Option<PathBuf>,
    /// `-p`
    pub prefix: Option<PathBuf>,
    /// `-g`
    pub global: String,
    /// `-e`
    pub error_log: Option<PathBuf>,
    /// `-s`
    pub signal: Option<Signal>,
}

/// `-s`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    Stop,
    Quit,
    Reopen,
    Reload,
}

impl Arguments {
    /// Parses the words behind the program's name.
    ///
    /// # Errors
    /// nginx's message.
    pub fn parse(words: &[String]) -> Result<Arguments, String> {
        let mut all = Arguments::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let Some(letters) = word.strip_prefix('-') else {
                return Err(format!("invalid option: \"{word}\""));
            };
            let mut rest = letters.chars();
            while let Some(letter) = rest.next() {
                match letter {
                    '?' | 'h' => all.shows_help = true,
                    'v' => all.shows_version = true,
                    'V' => (all.shows_version, all.shows_build) = (true, true),
                    't' => all.tests = true,
                    'T' => (all.tests, all.dumps) = (true, true),
                    'q' => all.is_quiet = true,
                    'p' | 'e' | 'c' | 'g' | 's' => {
                        let attached = rest.as_str();
                        let value = match attached.is_empty() {
                            true => words.next().map(String::as_str),
                            false => Some(attached),
                        };
                        all.set(letter, value)?;
                        break;
                    }
                    other => return Err(format!("invalid option: \"{other}\"")),
                }
            }
        }
        Ok(all)
    }

    fn set(&mut self, letter: char, value: Option<&str>) -> Result<(), String> {
        let missing = |what: &str| format!("option \"-{letter}\" requires {what}");
        match letter {
            'p' => self.prefix = Some(value.ok_or_else(|| missing("directory name"))?.into()),
            'e' => self.error_log = Some(value.ok_or_else(|| missing("file name"))?.into()),
            'c' => self.file = Some(value.ok_or_else(|| missing("file name"))?.into()),
            'g' => {
                let value = value.ok_or_else(|| missing("parameter"))?;
                // The last one counts, as by nginx.
                value.clone_into(&mut self.global);
            }
            _ => {
                let value = value.ok_or_else(|| missing("parameter"))?;
                self.signal = Some(match value {
                    "stop" => Signal::Stop,
                    "quit" => Signal::Quit,
                    "reopen" => Signal::Reopen,
                    "reload" => Signal::Reload,
                    other => return Err(format!("invalid option: \"-s {other}\"")),
                });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Arguments, String> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        Arguments::parse(&words)
    }

    #[test]
    fn options() {
        let all = parsed("-tq -c /a -p/b -g daemon_off; -s reload").unwrap();
        assert!(all.tests && all.is_quiet && !all.dumps);
        assert_eq!(all.file, Some("/a".into()));
        assert_eq!(all.prefix, Some("/b".into()));
        assert_eq!(all.global, "daemon_off;");
        assert_eq!(parsed("-g a; -g b;").unwrap().global, "b;");
        let words = ["-s".to_owned(), String::new()];
        let none = Arguments::parse(&words).unwrap_err();
        assert_eq!(none, "invalid option: \"-s \"");
        assert_eq!(all.signal, Some(Signal::Reload));
        assert!(parsed("-V").unwrap().shows_version);
        let cases = [
            ("x", "invalid option: \"x\""),
            ("-z", "invalid option: \"z\""),
            ("-s", "option \"-s\" requires parameter"),
            ("-s now", "invalid option: \"-s now\""),
            ("-c", "option \"-c\" requires file name"),
        ];
        for (line, expected) in cases {
            assert_eq!(parsed(line), Err(expected.to_owned()));
        }
    }
}
