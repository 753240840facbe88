//! ngx_http_core_module: files, error pages, redirects, limits of requests; and `index`.
//!
//! Called by: `load`.
//! Caveat: `try_files` and `alias` belong to their own level, which a block inside, such as an `if`
//! that holds, is not.
//! Out of scope: `listen` and `server_name` (`listen`), `location` (`location`).

use crate::{
    inherit::inherit,
    log_to::{self, LogTo},
    reading::{Reading, Setters},
    text::{Part, Text},
    values::{flag, invalid, number_argument, size, size_argument, time_argument},
};
use saker_http::conditional::DateRule;
use saker_nginx_syntax::Directive;
use std::{collections::BTreeMap, sync::Arc};

/// A handler that needs no upstream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Handler {
    /// Files.
    #[default]
    Files,
    EmptyGif,
}

/// `root` or `alias`.
#[derive(Clone, Debug, PartialEq)]
pub struct Root {
    pub text: Text,
    /// The text replaces the name of the location, instead of preceding the path.
    pub is_alias: bool,
    /// Bytes of the location's name, which an alias replaces.
    pub replaced_bytes: usize,
    /// It stands in a location by expression: an alias is the whole name of the file there, also for
    /// the locations inside.
    pub in_expression: bool,
}

/// One `error_page`.
#[derive(Clone, Debug, PartialEq)]
pub struct ErrorPage {
    pub statuses: Box<[u16]>,
    /// Status of the response instead of the error's; `Some(0)`: that of the page.
    pub status: Option<u16>,
    pub target: Text,
}

/// Returns the path of a target that is a path with the arguments of the request behind it.
fn path_before_args(target: &Text) -> Option<Box<[u8]>> {
    use crate::variables::{
        Builtin::{Args, IsArgs, QueryString},
        Variable::Builtin as Known,
    };
    let path = match &*target.parts {
        [
            Part::Literal(path),
            Part::Variable(Known(Args | QueryString)),
        ] => path.strip_suffix(b"?")?,
        [
            Part::Literal(path),
            Part::Variable(Known(IsArgs)),
            Part::Variable(Known(Args | QueryString)),
        ] => path,
        _ => return None,
    };
    (path.starts_with(b"/") && !path.contains(&b'?')).then(|| path.into())
}

/// A candidate of `try_files`.
#[derive(Clone, Debug, PartialEq)]
pub struct TryFiles {
    pub candidates: Box<[Text]>,
    pub fallback: Fallback,
}

/// The last parameter of `try_files`.
#[derive(Clone, Debug, PartialEq)]
pub enum Fallback {
    Status(u16),
    /// A path, or `@name`.
    Target(Text),
    /// A path that keeps the arguments: `path?$args`, `path$is_args$args`.
    PathWithArgs(Box<[u8]>),
}

/// `disable_symlinks`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Symlinks {
    Follow,
    Refuse,
    OwnerMatch,
}

/// Settings of the module.
#[derive(Clone, Debug, Default)]
pub struct CoreConf {
    pub root: Option<Root>,
    pub index: Option<Arc<[Text]>>,
    pub types: Option<Arc<BTreeMap<String, String>>>,
    pub default_type: Option<Box<str>>,
    pub error_pages: Option<Arc<[Arc<ErrorPage>]>>,
    pub recursive_error_pages: Option<bool>,
    pub try_files: Option<Arc<TryFiles>>,
    pub is_internal: bool,
    pub satisfy_any: Option<bool>,
    pub etag: Option<bool>,
    pub absolute_redirect: Option<bool>,
    pub server_name_in_redirect: Option<bool>,
    pub port_in_redirect: Option<bool>,
    pub client_max_body_size: Option<u64>,
    pub client_body_timeout_ms: Option<u64>,
    pub body_buffer_bytes: Option<u64>,
    pub client_header_timeout_ms: Option<u64>,
    pub send_timeout_ms: Option<u64>,
    pub keepalive_timeout_ms: Option<u64>,
    pub keepalive_requests: Option<u64>,
    pub max_ranges: Option<u32>,
    pub modified_since: Option<DateRule>,
    pub auth_delay_ms: Option<u64>,
    pub max_headers: Option<u64>,
    pub large_header_bytes: Option<(u64, u64)>,
    pub limit_rate: Option<Text>,
    pub limit_rate_after: Option<Text>,
    /// `server_tokens`: `on`, `off`, or `build`.
    pub server_tokens: Option<Box<str>>,
    pub symlinks: Option<Symlinks>,
    pub underscores: Option<bool>,
    pub error_logs: Option<Arc<[LogTo]>>,
    pub http2: Option<bool>,
    pub http2_streams: Option<u64>,
    pub http2_window_bytes: Option<u64>,
    pub http3: Option<bool>,
    pub http3_streams: Option<u64>,
    pub http3_window_bytes: Option<u64>,
    pub quic_retry: Option<bool>,
    /// Not inherited, except by the blocks inside.
    pub handler: Handler,
}

impl CoreConf {
    /// Returns false if `if_modified_since off` stands here.
    pub fn heeds_dates(&self) -> bool {
        self.modified_since != Some(DateRule::Ignored)
    }

    /// Returns the value of `Server`: with the version if `server_tokens` asks for it, unlike nginx's,
    /// which tells its version unless it is told not to.
    pub fn product(&self) -> &'static str {
        match self.server_tokens.as_deref() {
            Some("on" | "build") => concat!("Saker/", env!("CARGO_PKG_VERSION")),
            _ => "Saker",
        }
    }

    pub fn inherit(&mut self, outer: &CoreConf, is_block: bool) {
        inherit!(self, outer:
            root index types default_type error_pages recursive_error_pages satisfy_any etag
            absolute_redirect server_name_in_redirect port_in_redirect client_max_body_size
            client_body_timeout_ms body_buffer_bytes client_header_timeout_ms send_timeout_ms keepalive_timeout_ms
            keepalive_requests max_ranges modified_since auth_delay_ms max_headers large_header_bytes limit_rate
            limit_rate_after server_tokens symlinks underscores error_logs http2 http2_streams
            http2_window_bytes http3 http3_streams http3_window_bytes quic_retry
        );
        // A block inside is entered where `internal` has been checked.
        self.is_internal |= !is_block && outer.is_internal;
    }

    /// Requests at a time on a connection of HTTP/3, of a server in this `http`.
    pub fn http3_streams(&self, server: &CoreConf) -> Option<u32> {
        let streams = server.http3_streams.or(self.http3_streams)?;
        Some(u32::try_from(streams).unwrap_or(u32::MAX))
    }

    /// Bytes that a client of HTTP/3 may send ahead on a stream, of a server in this `http`.
    pub fn http3_window(&self, server: &CoreConf) -> Option<u32> {
        let bytes = server.http3_window_bytes.or(self.http3_window_bytes)?;
        Some(u32::try_from(bytes).unwrap_or(u32::MAX))
    }
}

pub const SETTERS: Setters<CoreConf> = &[
    ("root", |d, conf, reading| root(d, conf, reading, false)),
    ("alias", |d, conf, reading| root(d, conf, reading, true)),
    ("index", |d, conf, reading| {
        let texts: Result<Vec<Text>, String> = d.texts().map(|text| reading.text(text)).collect();
        let before = conf.index.take().unwrap_or_default();
        conf.index = Some(before.iter().cloned().chain(texts?).collect());
        Ok(())
    }),
    ("types", |d, conf, reading| {
        let mut types: BTreeMap<String, String> = BTreeMap::new();
        for entry in d.inside() {
            for extension in entry.texts() {
                let (name, value) = (extension.to_ascii_lowercase(), entry.name().to_owned());
                let before = conf.types.as_ref().and_then(|types| types.get(&name));
                if let Some(before) = types.get(&name).or(before) {
                    let message = format!(
                        "duplicate extension \"{name}\", content type: \"{value}\", \
                         previous content type: \"{before}\""
                    );
                    reading.report.warn(entry, message, None);
                }
                types.insert(name, value);
            }
        }
        // Several blocks of one level are one.
        if let Some(before) = &conf.types {
            for (extension, media_type) in before.iter() {
                types
                    .entry(extension.clone())
                    .or_insert_with(|| media_type.clone());
            }
        }
        conf.types = Some(Arc::new(types));
        Ok(())
    }),
    ("default_type", |d, conf, _| {
        conf.default_type = Some(d.argument(0).into());
        Ok(())
    }),
    ("error_page", error_page),
    ("recursive_error_pages", |d, conf, _| {
        conf.recursive_error_pages = Some(flag(d)?);
        Ok(())
    }),
    ("try_files", |d, conf, reading| {
        let last = d.arguments.len().saturating_sub(1);
        let candidates: Result<Vec<Text>, String> = d
            .texts()
            .take(last)
            .map(|text| reading.text(text))
            .collect();
        let fallback = match d.argument(last).strip_prefix('=') {
            Some(status) => {
                let status = status
                    .parse()
                    .ok()
                    .filter(|status| *status < 1000)
                    .ok_or_else(|| format!("invalid code \"{status}\""))?;
                Fallback::Status(reading.final_status(status, d))
            }
            None => {
                let target = reading.text(d.argument(last))?;
                match path_before_args(&target) {
                    Some(path) => Fallback::PathWithArgs(path),
                    None => Fallback::Target(target),
                }
            }
        };
        conf.try_files = Some(Arc::new(TryFiles {
            candidates: candidates?.into(),
            fallback,
        }));
        Ok(())
    }),
    ("internal", |_, conf, _| {
        conf.is_internal = true;
        Ok(())
    }),
    ("satisfy", |d, conf, _| {
        conf.satisfy_any = Some(match d.argument(0) {
            "all" => false,
            "any" => true,
            other => return Err(invalid(other)),
        });
        Ok(())
    }),
    ("etag", |d, conf, _| {
        conf.etag = Some(flag(d)?);
        Ok(())
    }),
    ("absolute_redirect", |d, conf, _| {
        conf.absolute_redirect = Some(flag(d)?);
        Ok(())
    }),
    ("server_name_in_redirect", |d, conf, _| {
        conf.server_name_in_redirect = Some(flag(d)?);
        Ok(())
    }),
    ("port_in_redirect", |d, conf, _| {
        conf.port_in_redirect = Some(flag(d)?);
        Ok(())
    }),
    ("client_max_body_size", |d, conf, _| {
        conf.client_max_body_size = Some(size_argument(d)?);
        Ok(())
    }),
    ("client_body_timeout", |d, conf, _| {
        conf.client_body_timeout_ms = Some(time_argument(d)?);
        Ok(())
    }),
    ("client_body_buffer_size", |d, conf, _| {
        conf.body_buffer_bytes = Some(size_argument(d)?);
        Ok(())
    }),
    ("client_header_timeout", |d, conf, _| {
        conf.client_header_timeout_ms = Some(time_argument(d)?);
        Ok(())
    }),
    ("send_timeout", |d, conf, _| {
        conf.send_timeout_ms = Some(time_argument(d)?);
        Ok(())
    }),
    ("keepalive_timeout", |d, conf, _| {
        conf.keepalive_timeout_ms = Some(time_argument(d)?);
        Ok(())
    }),
    ("keepalive_requests", |d, conf, _| {
        conf.keepalive_requests = Some(number_argument(d)?);
        Ok(())
    }),
    ("if_modified_since", |d, conf, _| {
        conf.modified_since = Some(match d.argument(0) {
            "off" => DateRule::Ignored,
            "exact" => DateRule::Exact,
            "before" => DateRule::Before,
            other => return Err(invalid(other)),
        });
        Ok(())
    }),
    ("auth_delay", |d, conf, _| {
        conf.auth_delay_ms = Some(time_argument(d)?);
        Ok(())
    }),
    ("max_ranges", |d, conf, _| {
        conf.max_ranges = Some(u32::try_from(number_argument(d)?).unwrap_or(u32::MAX));
        Ok(())
    }),
    ("max_headers", |d, conf, _| {
        conf.max_headers = Some(number_argument(d)?);
        Ok(())
    }),
    ("large_client_header_buffers", |d, conf, _| {
        let number = number_argument(d)?;
        let bytes = size(d.argument(1)).ok_or_else(|| invalid(d.argument(1)))?;
        conf.large_header_bytes = Some((number, bytes));
        Ok(())
    }),
    ("limit_rate", |d, conf, reading| {
        conf.limit_rate = Some(rate(d, reading)?);
        Ok(())
    }),
    ("limit_rate_after", |d, conf, reading| {
        conf.limit_rate_after = Some(rate(d, reading)?);
        Ok(())
    }),
    ("server_tokens", |d, conf, _| {
        conf.server_tokens = Some(d.argument(0).into());
        Ok(())
    }),
    ("disable_symlinks", |d, conf, _| {
        conf.symlinks = Some(match d.argument(0) {
            "off" => Symlinks::Follow,
            "on" => Symlinks::Refuse,
            "if_not_owner" => Symlinks::OwnerMatch,
            other => return Err(invalid(other)),
        });
        Ok(())
    }),
    ("underscores_in_headers", |d, conf, _| {
        conf.underscores = Some(flag(d)?);
        Ok(())
    }),
    ("error_log", |d, conf, reading| {
        log_to::add(&mut conf.error_logs, LogTo::read(d, reading.prefix)?);
        Ok(())
    }),
    ("empty_gif", |_, conf, _| {
        conf.handler = Handler::EmptyGif;
        Ok(())
    }),
    ("http2", |d, conf, _| {
        conf.http2 = Some(flag(d)?);
        Ok(())
    }),
    ("http2_max_concurrent_streams", |d, conf, _| {
        conf.http2_streams = Some(number_argument(d)?);
        Ok(())
    }),
    ("http2_body_preread_size", |d, conf, _| {
        conf.http2_window_bytes = Some(size_argument(d)?);
        Ok(())
    }),
    ("http3_max_concurrent_streams", |d, conf, _| {
        conf.http3_streams = Some(number_argument(d)?);
        Ok(())
    }),
    ("http3_stream_buffer_size", |d, conf, _| {
        conf.http3_window_bytes = Some(size_argument(d)?);
        Ok(())
    }),
    ("quic_retry", |d, conf, _| {
        conf.quic_retry = Some(flag(d)?);
        Ok(())
    }),
    ("http3", |d, conf, _| {
        conf.http3 = Some(flag(d)?);
        Ok(())
    }),
];

fn root(
    directive: &Directive,
    conf: &mut CoreConf,
    reading: &mut Reading<'_>,
    is_alias: bool,
) -> Result<(), String> {
    if let Some(before) = &conf.root {
        return Err(match before.is_alias == is_alias {
            true => format!("\"{}\" directive is duplicate", directive.name()),
            false => format!(
                "\"{}\" directive is duplicate, \"{}\" directive was specified earlier",
                directive.name(),
                if before.is_alias { "alias" } else { "root" }
            ),
        });
    }
    let prefix = reading.prefix;
    let mut path = directive.argument(0);
    if path.contains("$document_root") || path.contains("$realpath_root") {
        return Err(format!(
            "the ${} variable cannot be used in the \"{}\" directive",
            if path.contains("$document_root") {
                "document_root"
            } else {
                "realpath_root"
            },
            directive.name()
        ));
    }
    if !is_alias && path.len() > 1 {
        path = path.strip_suffix('/').unwrap_or(path);
    }
    conf.root = Some(Root {
        text: reading.path_text(path, prefix)?,
        is_alias,
        replaced_bytes: reading.location_name.len(),
        in_expression: reading.in_expression,
    });
    Ok(())
}

fn error_page(
    directive: &Directive,
    conf: &mut CoreConf,
    reading: &mut Reading<'_>,
) -> Result<(), String> {
    let mut words: Vec<&str> = directive.texts().collect();
    let target = words.pop().unwrap_or_default();
    let status = match words.last().and_then(|word| word.strip_prefix('=')) {
        None => None,
        Some("") => Some(0),
        Some(text) => {
            let status = text
                .parse()
                .map_err(|_| format!("invalid value \"={text}\""))?;
            Some(reading.final_status(status, directive))
        }
    };
    if status.is_some() {
        words.pop();
    }
    let statuses: Result<Vec<u16>, String> = words
        .iter()
        .map(|word| {
            let status: u16 = word
                .parse()
                .map_err(|_| format!("invalid value \"{word}\""))?;
            match (300..=599).contains(&status) {
                true if status != 499 => Ok(status),
                _ => Err(format!("value \"{word}\" must be between 300 and 599")),
            }
        })
        .collect();
    let page = Arc::new(ErrorPage {
        statuses: statuses?.into(),
        status,
        target: reading.text(target)?,
    });
    let before = conf.error_pages.take().unwrap_or_default();
    conf.error_pages = Some(before.iter().cloned().chain([page]).collect());
    Ok(())
}

fn rate(directive: &Directive, reading: &mut Reading<'_>) -> Result<Text, String> {
    let source = directive.argument(0);
    match source.contains('$') || size(source).is_some() {
        true => reading.text(source),
        false => Err(format!("\"{}\" directive invalid value", directive.name())),
    }
}

/// The types of nginx without a `types` block.
pub fn default_types() -> BTreeMap<String, String> {
    [
        ("html", "text/html"),
        ("gif", "image/gif"),
        ("jpg", "image/jpeg"),
    ]
    .map(|(extension, media_type)| (extension.to_owned(), media_type.to_owned()))
    .into()
}
