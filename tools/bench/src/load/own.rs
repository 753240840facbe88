//! Our own loader of TLS handshakes ([`handshakes`](crate::handshakes)), as a process of its own.

use super::setting::{Load, LoadSetting, VERIFIED, exact_figures};
use std::env;

pub fn words(setting: &LoadSetting<'_>, resumed: bool) -> Result<Vec<String>, String> {
    let program = env::current_exe()
        .map_err(|error| error.to_string())?
        .display()
        .to_string();
    let chain = setting
        .tls
        .ok_or("handshakes need a certificate")?
        .chain
        .display()
        .to_string();
    let kind = if resumed { "resumed" } else { "full" };
    let words = [
        &program,
        "handshakes",
        kind,
        &chain,
        &setting.address.to_string(),
        setting.paths.first().copied().unwrap_or_default(),
    ];
    let numbers = [
        setting.connections.to_string(),
        setting.amount.seconds().to_string(),
    ];
    Ok([&words.map(str::to_owned)[..], &numbers].concat())
}

pub fn parse(text: &str) -> Option<Load> {
    let verified = text
        .lines()
        .find_map(|line| line.strip_prefix(VERIFIED)?.trim().parse().ok())?;
    Some(Load {
        verified,
        ..exact_figures(text)?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures() {
        let load =
            parse("verified 12\nexact-figures 12 5000 4000000 0 120 900 4100\n").expect("parsed");
        assert_eq!(
            (load.requests, load.verified, load.seconds),
            (12.0, 12.0, 4.0)
        );
        assert_eq!(
            parse("exact-figures 12 5000 4000000 0 120 900 4100\n"),
            None
        );
    }
}
