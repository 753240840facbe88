//! AllowCONNECT: ports that a forward proxy opens tunnels to.
//!
//! Called by: the setter of the directive; `assemble`.

use std::sync::Arc;

/// mod_proxy_connect's defaults of AllowCONNECT.
const PORTS: [(u16, u16); 2] = [(443, 443), (563, 563)];

/// AllowCONNECT: ports, and ranges of them.
pub fn add_ports(words: &[String], ranges: &mut Vec<(u16, u16)>) -> Result<(), String> {
    for word in words {
        let (first, last) = word.split_once('-').unwrap_or((word, word));
        let range = first
            .parse()
            .ok()
            .zip(last.parse().ok())
            .filter(|(first, last): &(u16, u16)| first <= last);
        ranges.push(
            range.ok_or_else(|| format!("AllowCONNECT: port numbers must be numeric: {word}"))?,
        );
    }
    Ok(())
}

/// A host's own, the server's, or the defaults.
pub fn ports(main: &[(u16, u16)], own: &[(u16, u16)]) -> Arc<[(u16, u16)]> {
    let said: Vec<_> = main.iter().chain(own).copied().collect();
    if said.is_empty() {
        PORTS.into()
    } else {
        said.into()
    }
}
