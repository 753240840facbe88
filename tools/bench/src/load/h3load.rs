//! HTTP/3: our own load (`saker-load`), as a process of its own.

use super::setting::{Amount, LoadSetting};
use std::env;

/// Connections that shake hands in a second of warm-up, with room.
const CONNECTIONS_PER_S: usize = 500;

pub fn words(setting: &LoadSetting<'_>, streams: usize) -> Result<Vec<String>, String> {
    let program = env::current_exe()
        .map_err(|error| error.to_string())?
        .display()
        .to_string();
    let chain = setting
        .tls
        .ok_or("HTTP/3 needs a certificate")?
        .chain
        .display()
        .to_string();
    let mut words = vec![program, "load".into(), "--chain".into(), chain];
    words.extend([
        "-c".into(),
        setting.connections.to_string(),
        "-m".into(),
        streams.to_string(),
    ]);
    words.extend(match setting.amount {
        Amount::Seconds(seconds) => {
            let warm_up_s = 1 + setting.connections / CONNECTIONS_PER_S;
            [
                "-D".into(),
                seconds.to_string(),
                "--warm-up".into(),
                warm_up_s.to_string(),
            ]
            .to_vec()
        }
        Amount::Requests(requests) => ["-n".into(), requests.to_string()].to_vec(),
    });
    words.extend(setting.paths.iter().map(|path| setting.url_of(path)));
    Ok(words)
}
