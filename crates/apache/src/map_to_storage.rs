//! The phase `map_to_storage`: from the path to a file, and to the settings in force there.
//!
//! Called by: `rules`, for requests and for subrequests.
//! Out of scope: merging the settings of folders (`walk`).

use crate::{
    facts::RequestFacts,
    homes,
    memo::Memo,
    methods,
    modules::{self, cache, log_debug},
    proxy::translate,
    state::{Translated, peek, snapshot, state},
    verdict::Verdict,
    walk::{self, NativeWalk, Walked, Walker},
    webdav,
    worker::ApacheRules,
};
use saker_ap_expr::{Evaluation, LimitReached, StringExpression};
use saker_apache_model::{
    dir_config::DirConfig,
    host::Host,
    modules::{alias, userdir::Place},
};
use saker_config::model::{Settings, SymlinkPolicy};
use saker_files::{Kind, Watcher};
use saker_http::{Method, Status};
use saker_pipeline::{Exchange, Mapped, Response, methods::trace_answer};
use saker_static_files::names;
use std::{ffi::OsStr, os::unix::ffi::OsStrExt, path::Path, sync::Arc};

impl ApacheRules {
    pub(crate) fn try_map_to_storage(&self, exchange: &mut Exchange) -> Verdict {
        let Some(host) = self.host(exchange) else {
            return Verdict::Pass;
        };
        let verdict = self.map(exchange, &host);
        if !matches!(verdict, Verdict::Wait(_)) {
            log_debug::mapped(exchange, &host, &self.watcher);
        }
        verdict
    }

    /// Finds the file that the path leads to, and the settings in force there.
    fn map(&self, exchange: &mut Exchange, host: &Arc<Host>) -> Verdict {
        if let Some(proxied) = state(exchange).proxied.clone() {
            return translate::settings(self, exchange, host, &proxied);
        }
        if exchange.head.view().method() == Method::Trace {
            return Verdict::Answer(answer_to_trace(exchange, host));
        }
        let alias::Mapped {
            file: filename,
            is_script,
            context,
        } = filename(exchange, host, &self.watcher);
        let Walked {
            local,
            filename,
            kind,
            path_info,
            mut captures,
        } = match self.walk(exchange, host, &filename) {
            Ok(walked) => walked,
            Err(status) => return Verdict::Answer(Response::new(status)),
        };
        let local = walk::locations(
            &mut self.memo.borrow_mut(),
            host,
            local,
            exchange,
            &mut captures,
        );
        for (name, value) in &captures {
            exchange.environment.set_known(name.as_bytes(), value);
        }
        if kind.is_some() && is_hidden(exchange, &filename) {
            exchange.trace("map_to_storage", None, || {
                "hidden: names that begin with a dot, and backup copies, are as if they were not there (`hidden`)".into()
            });
            return Verdict::Answer(Response::new(Status::NOT_FOUND));
        }
        exchange.routing.path_info = path_info;
        exchange.routing.mapped = Some(mapped(exchange, &filename, kind));
        let (path, query) = (exchange.path.clone(), exchange.query.clone());
        let own = state(exchange);
        (own.filename, own.kind, own.path, own.query) = (filename, kind, path, query);
        (own.is_script_alias, own.context) = (is_script, context);
        let local = match walk::conditions(self, exchange, host, &self.watcher, local) {
            Ok(local) => local,
            Err(pause) => return Verdict::Wait(pause),
        };
        let base = state(exchange).base.clone();
        exchange.routing.settings = self.memo.borrow_mut().settings(
            &local,
            host,
            &cache::url_path(exchange),
            base.as_ref(),
        );
        trace_mapping(exchange, host);
        if webdav::is_reserved(exchange) {
            return Verdict::Answer(Response::new(Status::FORBIDDEN));
        }
        if !state(exchange).is_subrequest {
            modules::geo::of_section(exchange, host, &local);
            modules::setenvif::of_section(exchange, host, &self.watcher, &local);
        }
        state(exchange).local = Some(local);
        Verdict::Pass
    }

    fn walk(
        &self,
        exchange: &mut Exchange,
        host: &Host,
        filename: &[u8],
    ) -> Result<Walked, Status> {
        let (mut htaccess, mut memo) = (self.htaccess.borrow_mut(), self.memo.borrow_mut());
        let base = peek(exchange).and_then(|state| state.base.clone());
        let native = base.map(|base| native_walk(exchange, &mut memo, &base));
        let host_index = match &native {
            Some((number, _)) => *number,
            None => exchange.routing.site_index,
        };
        let stamps = std::mem::take(&mut exchange.cache.change_tokens);
        let mut walker = Walker {
            apache: &self.apache,
            host,
            host_index,
            native: native.map(|(_, native)| native),
            watcher: &self.watcher,
            htaccess: &mut htaccess,
            memo: &mut memo,
            stamps,
            about: exchange,
            uri: &exchange.path,
        };
        let walked = walker.folders(filename);
        exchange.cache.change_tokens = walker.stamps;
        walked
    }
}

/// RFC 9110 section 15.5.6: a 405 says what would have been allowed (Apache's does not here).
fn answer_to_trace(exchange: &Exchange, host: &Host) -> Response {
    match host.trace_enabled {
        true => trace_answer(exchange),
        false => methods::with_methods(Status::METHOD_NOT_ALLOWED, host),
    }
}

fn trace_mapping(exchange: &mut Exchange, host: &Host) {
    match host.is_native {
        true => exchange.trace("map_to_storage", None, || {
            "mapped under the rules of .htaccess files (`htaccess`)".into()
        }),
        false => exchange.trace("map_to_storage", Some(&host.origin), || {
            "mapped by Apache's rules".into()
        }),
    }
}

/// The root of a native site or its route, where walks begin, and the number that its folders go by.
fn native_walk(exchange: &Exchange, memo: &mut Memo, base: &Arc<Settings>) -> (usize, NativeWalk) {
    let root = homes::native_root(exchange).unwrap_or(Path::new("/"));
    let root = root.as_os_str().as_bytes();
    let root = [root.strip_suffix(b"/").unwrap_or(root), b"/"].concat();
    let (number, local) = memo.native_root(base, &root);
    let native = NativeWalk {
        root,
        local,
        symlinks: base.files.symlinks,
    };
    (number, native)
}

/// Returns true where a `.htaccess` file of a native site has a say.
pub fn is_ruled(rules: &ApacheRules, exchange: &Exchange, local: &Arc<DirConfig>) -> bool {
    let Some(base) = peek(exchange).and_then(|state| state.base.clone()) else {
        return true;
    };
    let (_, native) = native_walk(exchange, &mut rules.memo.borrow_mut(), &base);
    !Arc::ptr_eq(&native.local, local)
}

/// The part of a file name below the root of a native site.
fn below_root<'f>(exchange: &Exchange, filename: &'f [u8]) -> Option<&'f [u8]> {
    peek(exchange)?.base.as_ref()?;
    let root = homes::native_root(exchange)?.as_os_str().as_bytes();
    filename
        .strip_prefix(root.strip_suffix(b"/").unwrap_or(root))?
        .strip_prefix(b"/")
}

/// True if a native site does not show the file.
fn is_hidden(exchange: &Exchange, filename: &[u8]) -> bool {
    let base = peek(exchange).and_then(|state| state.base.as_ref());
    base.is_some_and(|base| !base.files.hidden)
        && below_root(exchange, filename).is_some_and(names::is_hidden)
}

/// The folder that the walk has been through, and what is in it: links above have been judged,
/// component by component. Links that have to stay inside a site are judged from its root.
fn mapped(exchange: &Exchange, filename: &[u8], kind: Option<Kind>) -> Mapped {
    let base = peek(exchange).and_then(|state| state.base.as_ref());
    let root = homes::native_root(exchange);
    if let Some(root) =
        root.filter(|_| base.is_some_and(|base| base.files.symlinks == SymlinkPolicy::Inside))
        && let Some(relative) = below_root(exchange, filename)
    {
        return Mapped {
            root: root.into(),
            relative: relative.to_vec(),
        };
    }
    let is_folder = kind == Some(Kind::Directory) && filename.ends_with(b"/");
    let at = if is_folder {
        filename.len()
    } else {
        filename
            .iter()
            .rposition(|byte| *byte == b'/')
            .map_or(0, |at| at + 1)
    };
    let (folder, name) = filename.split_at(at);
    Mapped {
        root: Path::new(OsStr::from_bytes(folder)).into(),
        relative: name.to_vec(),
    }
}

/// The file that a path stands for.
fn filename(exchange: &mut Exchange, host: &Host, watcher: &Watcher) -> alias::Mapped {
    let plain = |file| alias::Mapped {
        file,
        ..alias::Mapped::default()
    };
    state(exchange).home_of = None;
    let translated = state(exchange).translated.take();
    let path = match translated {
        Some(Translated::File(file)) => return plain(file),
        Some(Translated::BelowRoot(path)) => path,
        None if homes::route_root(exchange).is_some() => return by_route(exchange),
        None => match (
            homes::place(exchange, host, watcher),
            by_alias(exchange, host, watcher),
        ) {
            (Some(Place::File(file)), _) => {
                state(exchange).home_of = homes::owner(exchange, host);
                return plain(file);
            }
            (_, Some(found)) => return found,
            _ => exchange.path.clone(),
        },
    };
    homes::depend_on_address(exchange, host);
    if let Some(folder) = homes::scripts(exchange, host) {
        let below = path.strip_prefix(b"/cgi-bin").unwrap_or_default();
        return alias::Mapped {
            file: [folder.as_slice(), below].concat(),
            is_script: true,
            ..alias::Mapped::default()
        };
    }
    let named = homes::document_root(exchange, host);
    let root = named.as_deref().unwrap_or(homes::own_root(exchange, host));
    plain([root.strip_suffix(b"/").unwrap_or(root), &path].concat())
}

/// Maps by the `root` or `alias` of a native route.
fn by_route(exchange: &Exchange) -> alias::Mapped {
    let found =
        homes::route_root(exchange).and_then(|root| Some((root, root.relative(&exchange.path)?)));
    let Some((root, relative)) = found else {
        return alias::Mapped::default();
    };
    let folder = root.folder.as_os_str().as_bytes();
    let folder = [folder.strip_suffix(b"/").unwrap_or(folder), b"/"].concat();
    let prefix = root.prefix.as_bytes();
    alias::Mapped {
        file: [&folder, relative].concat(),
        context: prefix.ends_with(b"/").then(|| (prefix.to_vec(), folder)),
        ..alias::Mapped::default()
    }
}

/// Maps by the aliases of sections for the path first, then by those of the host.
fn by_alias(exchange: &mut Exchange, host: &Host, watcher: &Watcher) -> Option<alias::Mapped> {
    let mut of_section = None;
    for section in host.locations.iter().rev() {
        let alias = &section.local.alias;
        if alias.mappings.is_empty() || !walk::is_for_path(exchange, section, &exchange.path) {
            continue;
        }
        let name = match &section.matcher {
            saker_apache_model::matcher::Matcher::Exact(name) => Some(&**name),
            _ => None,
        };
        if alias.mappings.iter().any(|one| one.expression.is_some()) {
            exchange.depends_on_request();
            for (name, value) in section.named_captures(&exchange.path) {
                exchange.environment.set_known(name.as_bytes(), &value);
            }
        }
        let mapped = alias.map(&exchange.path, name, |expression| {
            evaluated(exchange, host, watcher, expression)
        });
        of_section = unless_given_up(exchange, mapped);
        if of_section.is_some() {
            break;
        }
    }
    of_section.or_else(|| {
        let mapped = host.defaults.alias.map(&exchange.path, None, |_| None);
        unless_given_up(exchange, mapped)
    })
}

/// The request ends with an error if a pattern was given up.
fn unless_given_up<T>(exchange: &Exchange, found: Result<Option<T>, LimitReached>) -> Option<T> {
    found.unwrap_or_else(|_| {
        exchange.budget().work().give_up();
        None
    })
}

/// The path that an expression gives; `None` unless it is absolute.
fn evaluated(
    exchange: &Exchange,
    host: &Host,
    watcher: &Watcher,
    expression: &StringExpression,
) -> Option<Vec<u8>> {
    let own = snapshot(exchange);
    let seen = RequestFacts::new(exchange, &own, host, watcher);
    let path = expression.evaluate(&mut Evaluation::new(&seen)).ok()?;
    let is_safe = path.starts_with(b"/")
        && !path.contains(&0)
        && !path.split(|byte| *byte == b'/').any(|part| part == b"..");
    is_safe.then_some(path)
}
