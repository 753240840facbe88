//! The application in a directory, told by its files.
//!
//! Called by: `init`.
//! Caveat: files are only looked for by name and read for a few words; nothing is run.
//! Out of scope: versions.

use saker_config::{PRESETS, Preset};
use serde_json::Value;
use std::{
    fs,
    path::{Path, PathBuf},
};

/// Largest file that is read.
const READ_BYTES_MAX: u64 = 1 << 20;
/// Port of a Node.js server whose files don't say another one.
const NODE_PORT: u16 = 3000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// By the name of its preset.
    Preset(&'static str),
    /// A Node.js server on this port.
    Node(u16),
    /// PHP files of no known application.
    Php,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Application {
    pub kind: Kind,
    /// Document root.
    pub root: PathBuf,
}

impl Kind {
    pub fn preset(self) -> Option<&'static Preset> {
        Preset::find(match self {
            Kind::Preset(name) => name,
            Kind::Node(_) => "proxy",
            Kind::Php => return None,
        })
    }
}

impl Application {
    /// An application that the operator names.
    ///
    /// # Errors
    /// No preset has the name.
    pub fn of_preset(name: &str, directory: &Path) -> Result<Application, String> {
        let kind = match name {
            "php" => Kind::Php,
            "node" | "proxy" => Kind::Node(node_port(directory)),
            name => match Preset::find(name) {
                Some(preset) => Kind::Preset(preset.name),
                None => {
                    let names: Vec<&str> = PRESETS.iter().map(|preset| preset.name).collect();
                    let near = saker_config::nearest(name, names.iter().copied());
                    let help = near.map_or_else(
                        || format!("known are {}, php, and node", names.join(", ")),
                        |near| format!("did you mean {near}?"),
                    );
                    return Err(format!("unknown preset {name}; {help}"));
                }
            },
        };
        let found = detect(directory);
        let root = match found.kind == kind {
            true => found.root,
            false => directory.to_owned(),
        };
        Ok(Application { kind, root })
    }

    /// The name that [`Application::of_preset`] takes.
    pub fn name(&self) -> &'static str {
        match self.kind {
            Kind::Preset(name) => name,
            Kind::Node(_) => "node",
            Kind::Php => "php",
        }
    }

    pub fn summary(&self) -> String {
        let what = match self.kind {
            Kind::Node(port) => format!("Node.js server on port {port}"),
            Kind::Php => "PHP files".into(),
            Kind::Preset(_) => {
                let summary = self.kind.preset().map_or("", |preset| preset.summary);
                let end = summary.find([':', ',']).unwrap_or(summary.len());
                let name = summary.get(..end).unwrap_or(summary);
                name.split(" (").next().unwrap_or(name).to_owned()
            }
        };
        format!("{what} in {}", self.root.display())
    }

    pub fn needs_php(&self) -> bool {
        match self.kind {
            Kind::Php => true,
            Kind::Node(_) => false,
            Kind::Preset(_) => self
                .kind
                .preset()
                .is_some_and(|preset| preset.text("").contains("\nphp =")),
        }
    }
}

/// Returns the application of a directory. What is unknown is static files.
pub fn detect(directory: &Path) -> Application {
    let has = |name: &str| directory.join(name).exists();
    let at = |kind, below: &str| Application {
        kind,
        root: match below {
            "" => directory.to_owned(),
            below => directory.join(below),
        },
    };
    if let Some((name, below)) = by_files(&has) {
        return at(Kind::Preset(name), below);
    }
    if let Some(below) = ["public", "web", "htdocs", "public_html"]
        .into_iter()
        .find(|below| has(&format!("{below}/index.php")))
        .filter(|_| !has("index.php"))
    {
        return at(Kind::Php, below);
    }
    if has("index.php") || (!has("index.html") && saker_php::has_scripts(directory)) {
        return at(Kind::Php, "");
    }
    of_javascript(directory, &has).unwrap_or_else(|| at(Kind::Preset("static"), ""))
}

/// Applications with files of their own, with the document root below the directory.
fn by_files(has: &dyn Fn(&str) -> bool) -> Option<(&'static str, &'static str)> {
    let all = |names: &[&str]| names.iter().all(|name| has(name));
    let first = |folders: &[&'static str], file: &str| {
        let has_file = |folder: &&&str| match **folder {
            "" => has(file),
            folder => has(&format!("{folder}/{file}")),
        };
        folders.iter().find(has_file).copied()
    };
    if has("wp-load.php") || all(&["wp-includes", "wp-admin"]) {
        return Some(("wordpress", ""));
    }
    if all(&["occ", "status.php", "remote.php"]) {
        return Some(("nextcloud", ""));
    }
    if all(&["bin/magento", "pub/index.php"]) {
        return Some(("magento", "pub"));
    }
    if let Some(root) = first(&["", "web", "docroot", "html"], "core/lib/Drupal.php") {
        return Some(("drupal", root));
    }
    if all(&["artisan", "public/index.php"]) {
        return Some(("laravel", "public"));
    }
    if has("public/index.php") && (has("symfony.lock") || has("bin/console")) {
        return Some(("symfony", "public"));
    }
    if has("administrator/manifests/files/joomla.xml")
        || all(&["administrator/index.php", "libraries", "components"])
    {
        return Some(("joomla", ""));
    }
    if all(&["load.php", "api.php", "mw-config"]) || all(&["load.php", "LocalSettings.php"]) {
        return Some(("mediawiki", ""));
    }
    if all(&["doku.php", "lib/exe"]) {
        return Some(("dokuwiki", ""));
    }
    if has("libraries/vendor_config.php") || all(&["config.sample.inc.php", "index.php", "js"]) {
        return Some(("phpmyadmin", ""));
    }
    if has("program/include/iniset.php") {
        let root = first(&["public_html"], "index.php").unwrap_or("");
        return Some(("roundcube", root));
    }
    None
}

/// A server or an application for browsers, by `package.json` and `index.html`.
fn of_javascript(directory: &Path, has: &dyn Fn(&str) -> bool) -> Option<Application> {
    let package = read(&directory.join("package.json"))
        .and_then(|text| serde_json::from_str::<Value>(&text).ok());
    let depends_on = |name: &str| {
        let package = package.as_ref();
        ["dependencies", "devDependencies"]
            .iter()
            .any(|list| package.is_some_and(|package| !package[list][name].is_null()))
    };
    let built = ["dist", "build", "out", "public", ""]
        .into_iter()
        .find(|below| match *below {
            "" => has("index.html"),
            below => has(&format!("{below}/index.html")),
        });
    let is_server = SERVERS.iter().any(|name| depends_on(name));
    let has_start = package
        .as_ref()
        .is_some_and(|package| package["scripts"]["start"].is_string());
    if is_server || (has_start && built.is_none()) {
        return Some(Application {
            kind: Kind::Node(node_port(directory)),
            root: directory.to_owned(),
        });
    }
    let below = built?;
    let root = directory.join(below);
    let root = if below.is_empty() {
        directory.to_owned()
    } else {
        root
    };
    let is_routed = ROUTERS.iter().any(|name| depends_on(name));
    let kind = match is_routed || is_application_page(&root.join("index.html")) {
        true => Kind::Preset("spa"),
        false => Kind::Preset("static"),
    };
    Some(Application { kind, root })
}

/// Packages that answer requests.
const SERVERS: [&str; 9] = [
    "express",
    "fastify",
    "koa",
    "@hapi/hapi",
    "@nestjs/core",
    "next",
    "nuxt",
    "@remix-run/node",
    "@adonisjs/core",
];

/// Packages that change the address without a request.
const ROUTERS: [&str; 8] = [
    "react-router",
    "react-router-dom",
    "vue-router",
    "@angular/router",
    "@tanstack/react-router",
    "@solidjs/router",
    "svelte-spa-router",
    "preact-router",
];

/// Returns true for a page that a script fills: an empty element, and a module.
fn is_application_page(page: &Path) -> bool {
    let Some(text) = read(page) else {
        return false;
    };
    let is_empty = ["root", "app", "__next"].iter().any(|id| {
        ['"', '\'']
            .iter()
            .any(|quote| text.contains(&format!("id={quote}{id}{quote}></div>")))
    }) || text.contains("<app-root></app-root>");
    is_empty && text.contains("<script")
}

/// The port that `package.json` or `.env` name.
fn node_port(directory: &Path) -> u16 {
    let of_environment = read(&directory.join(".env")).and_then(|text| {
        let value = text.lines().find_map(|line| line.strip_prefix("PORT="))?;
        value.trim().trim_matches('"').parse().ok()
    });
    let of_script = || {
        let package: Value = serde_json::from_str(&read(&directory.join("package.json"))?).ok()?;
        let script = package["scripts"]["start"].as_str()?.to_owned();
        let words: Vec<&str> = script.split([' ', '=']).collect();
        let at = words
            .iter()
            .position(|word| matches!(*word, "PORT" | "--port" | "-p"))?;
        words.get(at + 1)?.parse().ok()
    };
    of_environment
        .or_else(of_script)
        .filter(|port| *port != 0)
        .unwrap_or(NODE_PORT)
}

fn read(file: &Path) -> Option<String> {
    let found = fs::metadata(file).ok()?;
    if !found.is_file() || found.len() > READ_BYTES_MAX {
        return None;
    }
    fs::read_to_string(file).ok()
}
