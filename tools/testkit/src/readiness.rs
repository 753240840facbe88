//! Signs by which a server with several listeners shows that all of them are open.
//!
//! Servers open their sockets one after another, so the first that accepts says nothing of the
//! others. Saker answers on its control socket when all are open, UDP's too, and the workers run;
//! nginx and Apache write their PID files when all are open.
//! Called by: `process`, once the address that a test named accepts.
//! Caveat: the sign is found by the command line and in the configuration that it names. A server
//! that shows none counts as ready when its address accepts.

use std::{
    fs,
    io::{self, Read, Write},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

/// A server that doesn't answer within this time is asked again.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

#[derive(Debug, PartialEq, Eq)]
pub enum Sign {
    /// Saker, with this state directory.
    Control(PathBuf),
    /// nginx or Apache, with this file.
    PidFile(PathBuf),
}

impl Sign {
    /// The sign that the server of this command will show.
    pub fn of(command: &Command) -> Option<Sign> {
        let folder = command.get_current_dir().unwrap_or(Path::new(""));
        let words: Vec<_> = command.get_args().collect();
        let values = |option: &'static str| {
            let pairs = words.windows(2).filter(move |pair| pair[0] == option);
            pairs.map(|pair| folder.join(pair[1]))
        };
        let state_dir = values("--state-dir").next().map(Sign::Control);
        // A shell's `-c` is no file.
        state_dir.or_else(|| {
            values("-c")
                .chain(values("-f"))
                .find_map(|file| named(&file))
        })
    }

    /// True if the process with this id shows it.
    pub fn is_shown_by(&self, pid: u32) -> bool {
        match self {
            Sign::Control(state_dir) => status(&state_dir.join("control.sock"))
                .is_ok_and(|text| text.contains(&format!("\"pid\":{pid},"))),
            Sign::PidFile(path) => {
                fs::read_to_string(path).is_ok_and(|text| text.trim() == pid.to_string())
            }
        }
    }
}

/// The sign that a configuration file names.
fn named(file: &Path) -> Option<Sign> {
    let text = fs::read_to_string(file).ok()?;
    let directives = text.split(['\n', ';']).map(str::trim);
    // The last of several counts.
    directives.rev().find_map(|directive| {
        let (name, value) = directive.split_once([' ', '='])?;
        let quoted = value.split('"').nth(1);
        let path = Path::new(quoted.unwrap_or(value.trim()));
        match name {
            "state_dir" => Some(Sign::Control(file.parent()?.join(path))),
            // Relative ones depend on settings that aren't read here.
            "pid" | "PidFile" if path.is_absolute() => Some(Sign::PidFile(path.to_owned())),
            _ => None,
        }
    })
}

/// Answer of a control socket to `status`, without spaces.
fn status(socket: &Path) -> io::Result<String> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    stream.write_all(b"{\"verb\":\"status\"}\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer.replace([' ', '\n'], "").replace('}', ",}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TempDir;

    fn sign(words: &[&str]) -> Option<Sign> {
        Sign::of(Command::new("server").args(words))
    }

    #[test]
    fn signs_are_found_by_command_line_and_configuration() {
        let dir = TempDir::new("signs").expect("made");
        let file = |name: &str, text: &str| {
            let path = dir.write(name, text).expect("written");
            path.to_string_lossy().into_owned()
        };
        let native = file("saker.toml", "[server]\nstate_dir = \"state\"\n");
        let nginx = file("nginx.conf", "daemon off; pid /run/a.pid; events { }\n");
        let apache = file("httpd.conf", "Listen 80\nPidFile \"/run/b.pid\"\n");
        let relative = file("relative.conf", "PidFile run/b.pid\n");
        let pid_file = |path: &str| Some(Sign::PidFile(path.into()));
        let state = Some(Sign::Control(dir.join("state")));
        assert_eq!(sign(&["run", "-c", &native]), state);
        let given = sign(&["run", "-c", &native, "--state-dir", "/other"]);
        assert_eq!(given, Some(Sign::Control("/other".into())));
        assert_eq!(
            sign(&["-e", "stderr", "-c", &nginx]),
            pid_file("/run/a.pid")
        );
        assert_eq!(sign(&["-f", &apache]), pid_file("/run/b.pid"));
        assert_eq!(sign(&["-f", &relative]), None);
        assert_eq!(sign(&["-c", "exec saker"]), None);
        let wrapped = ["-c", "exec \"$0\" \"$@\"", "saker", "run", "-c", &native];
        assert_eq!(sign(&wrapped), state);
        let mut inside = Command::new("saker");
        inside.current_dir(&dir).args(["run", "-c", "saker.toml"]);
        assert_eq!(Sign::of(&inside), state);
    }

    #[test]
    fn the_pid_file_of_another_process_is_no_sign() {
        let dir = TempDir::new("pid-sign").expect("made");
        let path = dir.write("pid", "123\n").expect("written");
        let sign = Sign::PidFile(path);
        assert!(sign.is_shown_by(123) && !sign.is_shown_by(12));
    }
}
