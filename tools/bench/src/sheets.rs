//! Command of a participant and the files that it names, as they were when it ran.
//!
//! They are read from the running processes, so that a sheet shows what was measured and not what
//! was meant. Ports and folders differ from run to run and are written as `{port}`, `{work}` and
//! `{docroot}`. Absent on purpose: keys.

use crate::test_env::TestEnv;
use saker_testkit::ServerProcess;
use std::{fs, path::Path};

const FILE_BYTES_MAX: usize = 64 * 1024;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sheet {
    pub command: String,
    /// Name and text.
    pub files: Vec<(String, String)>,
}

pub fn of(server: &ServerProcess, test_env: TestEnv<'_>) -> Sheet {
    let (pid, port) = (server.pid(), server.address().port());
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let command = String::from_utf8_lossy(&line)
        .trim_end_matches('\0')
        .replace('\0', " ");
    let plain = |text: &str| plain(text, port, test_env);
    let files = named_files(&command, test_env.work)
        .into_iter()
        .map(|(name, text)| (name, plain(&text)))
        .collect();
    Sheet {
        command: plain(&command),
        files,
    }
}

/// Programs that rename their process put brackets around names.
fn named_files(command: &str, work: &Path) -> Vec<(String, String)> {
    let words = command
        .split(|c: char| c.is_whitespace() || "()=,'\"".contains(c))
        .map(Path::new);
    let named = words.filter(|path| {
        path.starts_with(work) && path.extension().is_none_or(|extension| extension != "pem")
    });
    named
        .filter_map(|path| Some((path.file_name()?.to_str()?.to_owned(), text_of(path)?)))
        .collect()
}

fn text_of(path: &Path) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    (text.len() <= FILE_BYTES_MAX && !text.contains('\0')).then_some(text)
}

fn plain(text: &str, port: u16, test_env: TestEnv<'_>) -> String {
    let (root, work) = (
        test_env.root.display().to_string(),
        test_env.work.display().to_string(),
    );
    // The docroot lies below the work folder.
    text.replace(&root, "{docroot}")
        .replace(&work, "{work}")
        .replace(&port.to_string(), "{port}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use saker_testkit::TempDir;

    #[test]
    fn files_of_the_work_folder_are_found_in_commands() {
        let dir = TempDir::new("sheets").expect("made");
        let conf = dir.write("a.conf", "listen 1;\n").expect("written");
        dir.write("key.pem", "secret").expect("written");
        let folder = dir.display();
        let seen = |command: &str| named_files(command, &dir);
        let expected = vec![("a.conf".to_owned(), "listen 1;\n".to_owned())];
        assert_eq!(
            seen(&format!(
                "nginx: master process /usr/sbin/nginx -p {folder} -c {}",
                conf.display()
            )),
            expected
        );
        assert_eq!(
            seen(&format!("php-fpm: master process ({})", conf.display())),
            expected
        );
        assert_eq!(seen(&format!("x --key={folder}/key.pem /etc/passwd")), []);
    }
}
