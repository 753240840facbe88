//! The floors: a crate may depend on our crates of lower floors only. Cargo refuses circles; this
//! refuses detours.

use super::finding::{File, Finding};

/// Every crate of `crates/`, with its floor (ARCHITECTURE.md).
const FLOORS: &[(&str, u8)] = &[
    ("saker-ipset", 1),
    ("saker-http", 1),
    ("saker-net", 1),
    ("saker-dns", 1),
    ("saker-files", 1),
    ("saker-telemetry", 1),
    ("saker-http-mux", 1),
    ("saker-tls-verifier", 1),
    ("saker-identity", 1),
    ("saker-broker", 2),
    ("saker-sandbox", 2),
    ("saker-broker-client", 3),
    ("saker-http1", 2),
    ("saker-http2", 2),
    ("saker-http3", 2),
    ("saker-cgi", 2),
    ("saker-config", 2),
    ("saker-live", 2),
    ("saker-ap-expr", 1),
    ("saker-matchers", 2),
    ("saker-cache-store", 2),
    ("saker-database", 2),
    ("saker-dynamic-vhosts", 3),
    ("saker-rewrite", 3),
    ("saker-esi", 3),
    ("saker-media", 2),
    ("saker-trace-context", 4),
    ("saker-ssi", 3),
    ("saker-tls", 3),
    ("saker-quic", 3),
    ("saker-apache-syntax", 3),
    ("saker-nginx-syntax", 3),
    ("saker-rate-limits", 3),
    ("saker-cluster", 3),
    ("saker-cluster-nats", 4),
    ("saker-cluster-postgres", 4),
    ("saker-cluster-redis", 4),
    ("saker-acme", 4),
    ("saker-cache-rules", 4),
    ("saker-php", 4),
    ("saker-pipeline", 4),
    ("saker-auth", 5),
    ("saker-abuse", 5),
    ("saker-modsecurity", 5),
    ("saker-native", 7),
    ("saker-vcl", 5),
    ("saker-content", 5),
    ("saker-page-cache", 6),
    ("saker-static-files", 6),
    ("saker-content-filters", 6),
    ("saker-handlers", 7),
    ("saker-dav", 7),
    ("saker-gateway", 5),
    ("saker-stream-proxy", 6),
    ("saker-discovery", 6),
    ("saker-apache-model", 7),
    ("saker-apache", 7),
    ("saker-nginx-model", 6),
    ("saker-nginx", 7),
    ("saker-control", 8),
    ("saker-serving", 8),
    ("saker-console", 8),
    ("saker-cli", 8),
    ("saker", 9),
];

/// Crates of the same floor that may be used all the same: the log's fields are HTTP's words, and
/// so are the heads of HTTP/2 and HTTP/3; logs are opened by the broker; commands talk to the
/// control socket, and check TLS and explain requests as a worker would; an Apache configuration is
/// typed settings first, and evaluated for requests above them.
const NEIGHBOURS: &[(&str, &str)] = &[
    ("saker-telemetry", "saker-http"),
    ("saker-telemetry", "saker-net"),
    ("saker-dns", "saker-net"),
    ("saker-http-mux", "saker-http"),
    ("saker-apache", "saker-apache-model"),
    ("saker-config", "saker-matchers"),
    ("saker-console", "saker-control"),
    ("saker-cli", "saker-console"),
    ("saker-cli", "saker-control"),
    ("saker-cli", "saker-serving"),
];

/// Checks one manifest of `crates/`.
pub fn check(file: &File, findings: &mut Vec<Finding>) {
    let Some(name) = package_name(&file.text) else {
        return findings.push(Finding::new(&file.path, 0, "has no package name"));
    };
    let Some(floor) = floor_of(name) else {
        return findings.push(Finding::new(
            &file.path,
            0,
            format!("`{name}` has no floor: give it one in the tidy task's table"),
        ));
    };
    for (line, dependency) in
        dependencies(&file.text).filter(|(_, dependency)| dependency.starts_with("saker"))
    {
        match floor_of(dependency) {
            Some(below) if below < floor || NEIGHBOURS.contains(&(name, dependency)) => {}
            Some(other) => {
                let what = format!(
                    "`{name}` (floor {floor}) may not depend on `{dependency}` (floor {other})"
                );
                findings.push(Finding::new(&file.path, line, what));
            }
            None => findings.push(Finding::new(
                &file.path,
                line,
                format!("`{dependency}` is no crate with a floor"),
            )),
        }
    }
}

fn floor_of(name: &str) -> Option<u8> {
    FLOORS
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, floor)| *floor)
}

fn package_name(manifest: &str) -> Option<&str> {
    let line = manifest
        .lines()
        .skip_while(|line| line.trim() != "[package]")
        .find(|line| line.starts_with("name"))?;
    line.split('"').nth(1)
}

/// Line and name of what the crate is built from. What only its tests use (`dev-dependencies`) does
/// not count.
fn dependencies(manifest: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut counts = false;
    manifest
        .lines()
        .enumerate()
        .filter_map(move |(index, line)| {
            let line = line.trim();
            if let Some(section) = line.strip_prefix('[') {
                let section = section.trim_end_matches(']');
                let (table, name) = section
                    .rsplit_once("dependencies.")
                    .map_or((section, None), |(_, name)| ("dependencies", Some(name)));
                counts = name.is_none()
                    && table.ends_with("dependencies")
                    && !table.ends_with("dev-dependencies");
                return name
                    .filter(|_| !section.contains("dev-dependencies"))
                    .map(|name| (index + 1, name));
            }
            let name = line.split(['.', '=', ' ']).next()?;
            (counts && !name.is_empty() && !name.starts_with('#')).then_some((index + 1, name))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(text: &str) -> Vec<String> {
        let mut findings = Vec::new();
        check(
            &File {
                path: "crates/x/Cargo.toml".into(),
                text: text.into(),
            },
            &mut findings,
        );
        findings.iter().map(Finding::to_string).collect()
    }

    #[test]
    fn downward_is_fine() {
        let manifest = "[package]\nname = \"saker-config\"\n\n[dependencies]\nsaker-http.workspace = true\ntoml = \"1\"\n\n\
            [dev-dependencies]\nsaker-testkit.workspace = true\nsaker-pipeline.workspace = true\n";
        assert_eq!(findings(manifest), [""; 0]);
    }

    #[test]
    fn upward_and_sideways_are_not() {
        let manifest = "[package]\nname = \"saker-http1\"\n[dependencies]\nsaker-config = { path = \"../config\" }\n\
            [target.'cfg(unix)'.dependencies]\nsaker-handlers.workspace = true\n[dependencies.saker-pipeline]\nworkspace = true\n";
        assert_eq!(
            findings(manifest),
            [
                "crates/x/Cargo.toml:4: `saker-http1` (floor 2) may not depend on `saker-config` (floor 2)",
                "crates/x/Cargo.toml:6: `saker-http1` (floor 2) may not depend on `saker-handlers` (floor 7)",
                "crates/x/Cargo.toml:7: `saker-http1` (floor 2) may not depend on `saker-pipeline` (floor 4)",
            ]
        );
    }

    #[test]
    fn a_neighbour_that_is_allowed() {
        assert_eq!(
            findings(
                "[package]\nname = \"saker-telemetry\"\n[dependencies]\nsaker-http.workspace = true\n"
            ),
            [""; 0]
        );
    }

    #[test]
    fn a_crate_without_a_floor() {
        assert_eq!(findings("[package]\nname = \"saker-new\"\n").len(), 1);
        assert_eq!(
            findings(
                "[package]\nname = \"saker\"\n[dependencies]\nsaker-testkit.workspace = true\n"
            )
            .len(),
            1
        );
    }
}
