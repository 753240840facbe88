//! PHP files of native sites (handler `php`): finds the script that a path names, and prepares the
//! upstream request that the gateway carries out.
//!
//! Called by: the content phase, before the gateway and static files.
//! Caveat: scripts often contain passwords, so a file with a PHP name never reaches static files:
//! it is run, or answered 403 (`php = "off"`), 404 or 503.
//! Out of scope: sites with Apache rules, where directives name handlers; scripts behind links that
//! the site does not follow.

use saker_config::model::{Action, PhpPools, PhpUse, Upstream};
use saker_files::Watcher;
use saker_http::Status;
use saker_pipeline::{
    CallNames, Exchange, Handled, Handler, LocalFuture, ProxyOptions, Response, UpstreamRequest,
    UpstreamTarget,
};
use saker_static_files::{
    document_root, names,
    script::{self, IndexScript},
};
use saker_telemetry::{error_log, message};
use std::sync::Arc;

pub struct PhpFiles {
    watcher: Watcher,
    pools: PhpPools,
}

/// A script, and its path info.
struct Found {
    /// Below the root.
    relative: Vec<u8>,
    path_info: Vec<u8>,
}

impl PhpFiles {
    pub fn new(watcher: Watcher, pools: PhpPools) -> PhpFiles {
        PhpFiles { watcher, pools }
    }

    fn answer(&self, exchange: &mut Exchange) -> Handled {
        if !exchange.routing.scripts_by_name
            || document_root::root(exchange).is_none()
            || *exchange.action() != Action::Files
        {
            return Handled::Declined;
        }
        match self.find(exchange) {
            Ok(found) => self.run(exchange, found),
            Err(instead) => instead,
        }
    }

    /// The error: what is done instead. Declined if the path names no script.
    fn find(&self, exchange: &mut Exchange) -> Result<Found, Handled> {
        let relative = document_root::relative(exchange).to_vec();
        if !exchange.routing.settings.files.hidden && names::is_hidden(&relative) {
            return Err(Handled::Declined);
        }
        for end in script::ends(&relative) {
            let (name, rest) = relative.split_at(end);
            match script::kind_or_complaint(&self.watcher, exchange, name).map_err(refused)? {
                script::Kind::File => {
                    script::follow_script(&self.watcher, exchange, rest)?;
                    return Ok(Found {
                        relative: name.to_vec(),
                        path_info: rest.to_vec(),
                    });
                }
                script::Kind::Folder => {}
                script::Kind::Nothing => {
                    missing(exchange, name);
                    return Err(refused(Status::NOT_FOUND));
                }
            }
        }
        if !relative.is_empty() && !relative.ends_with(b"/") {
            return Err(Handled::Declined);
        }
        match script::index_script(&self.watcher, exchange, &relative) {
            IndexScript::Script(relative) => Ok(Found {
                relative,
                path_info: Vec::new(),
            }),
            IndexScript::None => Err(Handled::Declined),
            IndexScript::Restart => Err(Handled::Restart),
            IndexScript::Answered(refused) => Err(Handled::Answered(refused)),
        }
    }

    fn run(&self, exchange: &mut Exchange, found: Found) -> Handled {
        if !names::is_php_script(&found.relative) {
            exchange.trace("content", None, || "a PHP source: it is not shown".into());
            return refused(Status::FORBIDDEN);
        }
        let upstream = match &exchange.routing.settings.php {
            PhpUse::Off => {
                let why = "a PHP file, and nobody runs it (`php = \"off\"`): it is not shown";
                exchange.trace("content", None, || why.into());
                error_log::log_about(
                    &message::ACCESS_DENIED,
                    exchange,
                    format_args!("{}: {why}", path_of(exchange, &found.relative)),
                );
                return refused(Status::FORBIDDEN);
            }
            PhpUse::Upstream(upstream) => Arc::clone(upstream),
            // The site of that name has its own pool; this request named none.
            PhpUse::ByHost(_) => return refused(Status::NOT_FOUND),
            PhpUse::Managed => match self
                .pools
                .first_of(exchange.routing.settings.program_user.as_ref())
            {
                Some(pool) => Arc::clone(&pool.upstream),
                None => {
                    let name = String::from_utf8_lossy(&found.relative).into_owned();
                    error_log::log_about(&message::PHP_MISSING, exchange, format_args!("/{name}"));
                    return refused(Status::SERVICE_UNAVAILABLE);
                }
            },
        };
        Handled::Forward(Box::new(call(exchange, upstream, &found)))
    }
}

fn refused(status: Status) -> Handled {
    Handled::Answered(Response::new(status))
}

/// Requests for missing scripts come from scanners.
fn missing(exchange: &Exchange, name: &[u8]) {
    error_log::log_about(
        &message::PHP_SCRIPT_MISSING,
        exchange,
        format_args!("{}", path_of(exchange, name)),
    );
}

fn path_of(exchange: &Exchange, relative: &[u8]) -> String {
    let root = document_root::root(exchange)
        .map(|root| root.display().to_string())
        .unwrap_or_default();
    format!(
        "{}/{}",
        root.trim_end_matches('/'),
        String::from_utf8_lossy(relative)
    )
}

impl Handler for PhpFiles {
    fn name(&self) -> &'static str {
        "php"
    }

    fn handle<'a>(&'a self, exchange: &'a mut Exchange) -> LocalFuture<'a, Handled> {
        self.answer(exchange).ready()
    }
}

fn call(exchange: &Exchange, upstream: Arc<Upstream>, found: &Found) -> UpstreamRequest {
    let script = script::told(exchange, &found.relative, &found.path_info);
    let target = exchange.head.view().target().to_vec();
    let manner = Arc::new(ProxyOptions {
        trust: script::trust(exchange),
        ..ProxyOptions::default()
    });
    UpstreamRequest {
        to: UpstreamTarget::Upstream(upstream),
        target,
        script: Some(Box::new(script)),
        manner,
        names: CallNames::default(),
    }
}
