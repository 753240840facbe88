//! Apache's command-line options: single letters, with an attached or a following value.
//!
//! Called by: `main`, for httpd, apache2 and apachectl.

use crate::source::ApacheInput;

/// The requested action.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// `-k start`, or nothing at all.
    #[default]
    Run,
    Signal(Request),
    Help,
    Version,
    Settings,
    /// `-l`
    Static,
    /// `-L`
    Directives,
    /// `-t`
    Test,
    /// `-S`
    Hosts,
    /// `-M`
    Modules,
    /// `-t -D DUMP_INCLUDES`
    Includes,
}

/// `-k`, but for `start`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    Restart,
    Graceful,
    Stop,
    GracefulStop,
}

#[derive(Clone, Debug, Default)]
pub struct Arguments {
    pub mode: Mode,
    pub input: ApacheInput,
    /// `-DFOREGROUND`, `-DNO_DETACH`, `-X`
    pub in_foreground: bool,
    /// `-X`, `-DONE_PROCESS`
    pub single: bool,
}

impl Arguments {
    pub fn parse(words: &[String]) -> Result<Arguments, String> {
        let mut all = Arguments::default();
        let mut words = words.iter();
        let mut tested = false;
        while let Some(word) = words.next() {
            let mut letters = word.chars();
            let (Some('-'), Some(letter)) = (letters.next(), letters.next()) else {
                return Err(format!("illegal argument -- {word}"));
            };
            let attached = letters.as_str();
            let mut value = || match attached {
                "" => words
                    .next()
                    .cloned()
                    .ok_or_else(|| format!("missing argument for option -- {letter}")),
                text => Ok(text.to_owned()),
            };
            match letter {
                'D' => all.define(value()?),
                'd' => all.input.server_root = Some(value()?.into()),
                'f' => all.input.file = value()?.into(),
                'C' => all.input.before.push(value()?),
                'c' => all.input.after.push(value()?),
                // Where errors of the start go, and how many of them: they go to standard error.
                'e' | 'E' => drop(value()?),
                'k' => all.mode = request(&value()?)?,
                'v' => all.mode = Mode::Version,
                'V' => all.mode = Mode::Settings,
                'h' | '?' => all.mode = Mode::Help,
                'l' => all.mode = Mode::Static,
                'L' => all.mode = Mode::Directives,
                't' => tested = true,
                'S' => all.mode = Mode::Hosts,
                'M' => all.mode = Mode::Modules,
                // Skips the check of document roots, which does not exist here.
                'T' => {}
                'X' => (all.in_foreground, all.single) = (true, true),
                _ => return Err(format!("illegal option -- {letter}")),
            }
        }
        if tested && all.mode == Mode::Run {
            all.mode = Mode::Test;
        }
        Ok(all)
    }

    fn define(&mut self, name: String) {
        match name.as_str() {
            "FOREGROUND" | "NO_DETACH" => self.in_foreground = true,
            "DEBUG" | "ONE_PROCESS" => (self.in_foreground, self.single) = (true, true),
            "DUMP_VHOSTS" | "DUMP_RUN_CFG" => self.mode = Mode::Hosts,
            "DUMP_MODULES" => self.mode = Mode::Modules,
            "DUMP_INCLUDES" => self.mode = Mode::Includes,
            _ => {}
        }
        self.input.defines.push(name);
    }
}

fn request(word: &str) -> Result<Mode, String> {
    Ok(match word {
        "start" => Mode::Run,
        "restart" => Mode::Signal(Request::Restart),
        "graceful" => Mode::Signal(Request::Graceful),
        "stop" => Mode::Signal(Request::Stop),
        "graceful-stop" => Mode::Signal(Request::GracefulStop),
        _ => return Err(format!("-k option: unknown command {word}")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Arguments, String> {
        Arguments::parse(
            &line
                .split_ascii_whitespace()
                .map(str::to_owned)
                .collect::<Vec<_>>(),
        )
    }

    #[test]
    fn letters_and_values() {
        let all = parsed("-d /etc/apache2 -fapache2.conf -DSSL -D FOREGROUND -k start").unwrap();
        assert_eq!(
            (all.mode, all.in_foreground, all.single),
            (Mode::Run, true, false)
        );
        assert_eq!(
            (all.input.server_root, all.input.file),
            (Some("/etc/apache2".into()), "apache2.conf".into())
        );
        assert_eq!(all.input.defines, ["SSL", "FOREGROUND"]);
        for (line, mode) in [
            ("-t", Mode::Test),
            ("-S", Mode::Hosts),
            ("-t -D DUMP_MODULES", Mode::Modules),
            ("-t -DDUMP_INCLUDES", Mode::Includes),
            ("-k graceful", Mode::Signal(Request::Graceful)),
            ("-kgraceful-stop", Mode::Signal(Request::GracefulStop)),
            ("-V", Mode::Settings),
        ] {
            assert_eq!(parsed(line).unwrap().mode, mode, "{line}");
        }
    }

    #[test]
    fn what_apache_refuses() {
        for line in ["-q", "start", "-k", "-k hurry", "-f"] {
            assert!(parsed(line).is_err(), "{line}");
        }
    }
}
