//! Commands and options of other servers, with the command of Saker.
//!
//! Called by: `main`, for arguments that are no command.
//! Caveat: only the first word counts.
//! Out of scope: misspelled commands, which the parser of arguments suggests, and calls by the name
//! of another server (`apache`, `nginx`).

/// Words of Caddy, nginx, Apache, HAProxy, and Varnish, and what is typed instead.
const COMMANDS: &[(&[&str], &str)] = &[
    (
        &["file-server", "file_server", "static", "http-server"],
        "to serve a folder: saker serve DIR",
    ),
    (
        &["reverse-proxy", "proxy"],
        "to pass requests on: saker init writes a configuration, in which a route has \
         path = \"/*\" and proxy = \"http://127.0.0.1:3000\"; then saker run -c saker.toml",
    ),
    (
        &["start", "daemon", "-c", "-f", "--config"],
        "to run a configuration: saker run -c saker.toml",
    ),
    (
        &["validate", "configtest", "test", "lint", "-t", "-T"],
        "to check a configuration: saker check -c saker.toml",
    ),
    (
        &["adapt", "migrate", "import"],
        "to convert a configuration: saker convert --nginx FILE",
    ),
    (
        &["restart", "graceful", "-s", "-k"],
        "to apply changes: saker reload; to replace the program: saker upgrade; to end: saker stop",
    ),
    (&["untrust"], "saker trust --remove"),
    (
        &["hash-password", "htpasswd"],
        "passwords of [site.auth] are those of htpasswd: htpasswd -c -B /etc/saker/users NAME",
    ),
    (&["-S", "-v"], "saker --version; saker status"),
];

/// Returns what to type instead of a word of another server.
pub fn advice(word: &str) -> Option<&'static str> {
    let mut rows = COMMANDS.iter();
    let (_, advice) = rows.find(|(words, _)| words.contains(&word))?;
    Some(advice)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::Cli;
    use clap::Parser;

    #[test]
    fn words_of_others_are_no_commands_here() {
        let mut words = COMMANDS.iter().flat_map(|(words, _)| words.iter());
        assert!(words.all(|word| Cli::try_parse_from(["saker", *word]).is_err()));
        assert!(advice("validate").is_some_and(|advice| advice.contains("saker check")));
        assert_eq!(advice("sevre"), None);
    }
}
