//! mod_proxy's directives of the server and its hosts, while they are read: paths that are passed
//! on, workers, balancers, `<Proxy>`.
//!
//! Difficulty: a worker is told of in many places (ProxyPass, `<Proxy url>`, ProxySet) and is one
//! all the same: the first that tells of it makes it, parameters behind later mentions do not
//! count, and those of ProxySet always do.

use crate::{
    arguments::texts,
    proxy::{
        canonical::balancer_name,
        connect_ports, health,
        parameters::{BalancerParameters, HealthParameters, WorkerParameters, time_ms},
        pass::{self, Pass},
        remote::{ExpressDraft, Remote},
        section::ProxySection,
    },
    reading::ServerSet,
    worker_url::{self, WorkerUrl},
};
use saker_apache_syntax::Node;
use saker_config::model::{HealthJudge, Protocol};
use saker_pipeline::Via;
use std::{path::Path, sync::Arc};

#[derive(Clone, Debug)]
pub struct WorkerDraft {
    pub url: WorkerUrl,
    pub parameters: WorkerParameters,
}

#[derive(Clone, Debug)]
pub struct BalancerDraft {
    /// `balancer://name`, in small letters.
    pub name: Box<str>,
    pub members: Vec<WorkerDraft>,
    pub parameters: BalancerParameters,
}

/// `None`: not said.
#[derive(Clone, Debug, Default)]
pub struct ProxyDraft {
    pub passes: Vec<Pass>,
    pub inherits_passes: Option<bool>,
    pub inherits_balancers: Option<bool>,
    pub workers: Vec<WorkerDraft>,
    pub balancers: Vec<BalancerDraft>,
    pub sections: Vec<Arc<ProxySection>>,
    pub health_templates: Vec<(Box<str>, HealthParameters)>,
    pub health_expressions: Vec<(Box<str>, HealthJudge)>,
    pub timeout_ms: Option<u64>,
    pub via: Option<Via>,
    pub forwards_max: Option<Option<u64>>,
    pub blocked: Vec<Box<str>>,
    pub remotes: Vec<Remote>,
    /// NoProxy.
    pub direct: Vec<Box<str>>,
    pub express: ExpressDraft,
    pub forwards_requests: Option<bool>,
    /// AllowCONNECT, first and last of ranges.
    pub connect_ports: Vec<(u16, u16)>,
}

pub const SETTERS: &[(&str, ServerSet<ProxyDraft>)] = &[
    ("ProxyPass", |node, draft, _| add_pass(node, draft, false)),
    ("ProxyPassMatch", |node, draft, _| {
        add_pass(node, draft, true)
    }),
    ("ProxyPassInherit", |node, draft, _| {
        flag(node, &mut draft.inherits_passes)
    }),
    ("BalancerInherit", |node, draft, _| {
        flag(node, &mut draft.inherits_balancers)
    }),
    ("BalancerMember", |node, draft, _| {
        add_member(node, draft, None)
    }),
    ("ProxySet", |node, draft, _| {
        set_parameters(node, draft, None)
    }),
    ("ProxyTimeout", set_timeout),
    ("ProxyVia", set_via),
    ("ProxyMaxForwards", set_forwards_max),
    ("ProxyRequests", |node, draft, _| {
        flag(node, &mut draft.forwards_requests)
    }),
    ("ProxyBlock", |node, draft, _| {
        draft.blocked.extend(
            texts(node)
                .into_iter()
                .map(|word| word.to_ascii_lowercase().into()),
        );
        Ok(())
    }),
    ("ProxyRemote", |node, draft, _| {
        draft.remotes.push(Remote::parse(node, false)?);
        Ok(())
    }),
    ("ProxyRemoteMatch", |node, draft, _| {
        draft.remotes.push(Remote::parse(node, true)?);
        Ok(())
    }),
    ("AllowCONNECT", |node, draft, _| {
        connect_ports::add_ports(&texts(node), &mut draft.connect_ports)
    }),
    ("NoProxy", |node, draft, _| {
        draft.direct.extend(texts(node).into_iter().map(Into::into));
        Ok(())
    }),
    ("ProxyExpressEnable", |node, draft, _| {
        flag(node, &mut draft.express.is_on)
    }),
    ("ProxyExpressDBMFile", |node, draft, root| {
        draft.express.set_file(node, root);
        Ok(())
    }),
    ("ProxyExpressDBMType", |node, draft, _| {
        draft.express.kind = texts(node).into_iter().next().map(Into::into);
        Ok(())
    }),
    ("ProxyHCTemplate", add_health_template),
    ("ProxyHCExpr", |node, draft, _| {
        draft.health_expressions.push(health::expression(node)?);
        Ok(())
    }),
];

impl ProxyDraft {
    pub fn remotes_over(&self, main: &ProxyDraft) -> Vec<Remote> {
        self.remotes.iter().chain(&main.remotes).cloned().collect()
    }

    /// A host that has nothing of its own shares the server's.
    pub fn is_empty(&self) -> bool {
        let lists = [
            self.passes.is_empty(),
            self.workers.is_empty(),
            self.balancers.is_empty(),
            self.sections.is_empty(),
        ];
        let flags = [
            self.inherits_passes,
            self.inherits_balancers,
            self.forwards_requests,
        ];
        lists.iter().all(|empty| *empty)
            && flags.iter().all(Option::is_none)
            && (self.health_templates.is_empty()
                && self.health_expressions.is_empty()
                && self.blocked.is_empty())
            && (self.remotes.is_empty()
                && self.direct.is_empty()
                && self.express.is_empty()
                && self.connect_ports.is_empty())
            && (self.timeout_ms.is_none() && self.via.is_none() && self.forwards_max.is_none())
    }

    /// A worker or balancer that a path is passed on to, with the parameters behind it.
    pub fn define(&mut self, url: &str, parameters: &[(String, String)]) -> Result<(), String> {
        if let Some(name) = balancer_name(url) {
            let balancer = self.balancer(&name);
            return parameters
                .iter()
                .try_for_each(|(key, value)| balancer.parameters.set(key, value));
        }
        // Of one with groups in it, as much as is the same for all
        // (`ap_proxy_define_match_worker`).
        let fixed = url.split('$').next().unwrap_or_default();
        let is_whole = fixed.len() == url.len();
        let parsed = match worker_url::parse(fixed) {
            Ok(parsed) => parsed,
            Err(_) if !is_whole => return Ok(()),
            // As in Apache, an unknown scheme is a matter of its requests, which are refused.
            Err(_) if is_of_unknown_scheme(url) => return Ok(()),
            Err(error) => return Err(error),
        };
        let parsed = if is_whole {
            parsed
        } else {
            without_last_component(parsed)
        };
        let mut said = WorkerParameters::default();
        parameters
            .iter()
            .try_for_each(|(key, value)| said.set(key, value))?;
        if !self.workers.iter().any(|known| known.url == parsed) {
            self.workers.push(WorkerDraft {
                url: parsed,
                parameters: said,
            });
        }
        Ok(())
    }

    fn balancer(&mut self, name: &str) -> &mut BalancerDraft {
        let at = self
            .balancers
            .iter()
            .position(|balancer| *balancer.name == *name)
            .unwrap_or_else(|| {
                let fresh = BalancerDraft {
                    name: name.into(),
                    members: Vec::new(),
                    parameters: BalancerParameters::default(),
                };
                self.balancers.push(fresh);
                self.balancers.len() - 1
            });
        &mut self.balancers[at]
    }

    fn worker(&mut self, url: WorkerUrl) -> &mut WorkerDraft {
        let at = self
            .workers
            .iter()
            .position(|known| known.url == url)
            .unwrap_or_else(|| {
                self.workers.push(WorkerDraft {
                    url,
                    parameters: WorkerParameters::default(),
                });
                self.workers.len() - 1
            });
        &mut self.workers[at]
    }
}

fn is_of_unknown_scheme(url: &str) -> bool {
    url.split_once("://").is_some_and(|(scheme, rest)| {
        !rest.is_empty()
            && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric())
            && Protocol::from_scheme(scheme).is_none()
    })
}

/// A group may have been the rest of a component, or of the authority.
fn without_last_component(mut url: WorkerUrl) -> WorkerUrl {
    let at = url.path.rfind('/').unwrap_or(0);
    url.path = url.path.get(..at).unwrap_or_default().into();
    url
}

fn flag(node: &Node, slot: &mut Option<bool>) -> Result<(), String> {
    crate::arguments::set_flag(node, slot)
}

fn add_pass(node: &Node, draft: &mut ProxyDraft, by_pattern: bool) -> Result<(), String> {
    let line = pass::parse(node.canonical_name(), &texts(node), false, by_pattern)?;
    if let Some(to) = &line.pass.to {
        draft
            .define(to, &line.parameters)
            .map_err(|error| format!("ProxyPass {error}"))?;
    }
    draft.passes.push(line.pass);
    Ok(())
}

/// Words of the form `key=value`.
pub fn pairs<'w>(
    words: impl Iterator<Item = &'w String>,
    directive: &str,
) -> Result<Vec<(String, String)>, String> {
    let pair = |word: &'w String| {
        let (key, value) = word.split_once('=').ok_or_else(|| match directive {
            "BalancerMember" => {
                "BalancerMember parameter must be in the form 'key=value'".to_owned()
            }
            _ => {
                format!("{directive}: Invalid parameter. Parameter must be in the form 'key=value'")
            }
        })?;
        Ok((key.to_ascii_lowercase(), value.to_owned()))
    };
    words.map(pair).collect()
}

/// `[balancer://name] url [key=value …]`; `section`: the balancer around it.
pub fn add_member(
    node: &Node,
    draft: &mut ProxyDraft,
    section: Option<&str>,
) -> Result<(), String> {
    let words = texts(node);
    let mut words = words.iter();
    let balancer = match section {
        Some(name) => Some(name.to_owned()),
        None => words.next().cloned(),
    };
    let name = balancer
        .as_deref()
        .and_then(balancer_name)
        .ok_or("BalancerMember must define balancer name when outside <Proxy > section")?;
    let url = words
        .next()
        .ok_or("BalancerMember must define remote proxy server")?;
    let url = worker_url::parse(url).map_err(|error| format!("BalancerMember {error}"))?;
    let mut parameters = WorkerParameters::default();
    for (key, value) in pairs(words, "BalancerMember")? {
        parameters
            .set(&key, &value)
            .map_err(|error| format!("BalancerMember {error}"))?;
    }
    draft
        .balancer(&name)
        .members
        .push(WorkerDraft { url, parameters });
    Ok(())
}

/// `[url] key=value …`; `section`: the URL around it.
pub fn set_parameters(
    node: &Node,
    draft: &mut ProxyDraft,
    section: Option<&str>,
) -> Result<(), String> {
    let words = texts(node);
    let mut words = words.iter();
    let url = match section {
        Some(url) => url.to_owned(),
        None => words.next().cloned().unwrap_or_default(),
    };
    let pairs = pairs(words, "ProxySet")?;
    let complain = |error: String| format!("ProxySet: {error}");
    if let Some(name) = balancer_name(&url) {
        let balancer = draft.balancer(&name);
        return pairs
            .iter()
            .try_for_each(|(key, value)| balancer.parameters.set(key, value))
            .map_err(complain);
    }
    let worker = draft.worker(worker_url::parse(&url).map_err(complain)?);
    pairs
        .iter()
        .try_for_each(|(key, value)| worker.parameters.set(key, value))
        .map_err(complain)
}

fn set_timeout(node: &Node, draft: &mut ProxyDraft, _: &Path) -> Result<(), String> {
    let word = texts(node).into_iter().next().unwrap_or_default();
    draft.timeout_ms = Some(
        time_ms(&word, 1000)
            .filter(|ms| *ms >= 1000)
            .ok_or("Proxy Timeout must be at least 1 second.")?,
    );
    Ok(())
}

fn set_via(node: &Node, draft: &mut ProxyDraft, _: &Path) -> Result<(), String> {
    let word = texts(node).into_iter().next().unwrap_or_default();
    draft.via = Some(match word.to_ascii_lowercase().as_str() {
        "off" => Via::Off,
        "on" => Via::On,
        "block" => Via::Block,
        "full" => Via::Full,
        _ => return Err("ProxyVia must be one of: off | on | full | block".into()),
    });
    Ok(())
}

/// Negative: the field is left as it is.
fn set_forwards_max(node: &Node, draft: &mut ProxyDraft, _: &Path) -> Result<(), String> {
    let word = texts(node).into_iter().next().unwrap_or_default();
    let count: i64 = word
        .parse()
        .map_err(|_| "ProxyMaxForwards must be a number")?;
    draft.forwards_max = Some(u64::try_from(count).ok());
    Ok(())
}

fn add_health_template(node: &Node, draft: &mut ProxyDraft, _: &Path) -> Result<(), String> {
    let words = texts(node);
    let mut words = words.iter();
    let name = words.next().ok_or("ProxyHCTemplate requires a name")?;
    let mut template = HealthParameters::default();
    for (key, value) in pairs(words, "ProxyHCTemplate")? {
        template
            .set(&key, &value)
            .map_err(|error| format!("ProxyHCTemplate {error}"))?;
    }
    draft
        .health_templates
        .push((name.as_str().into(), template));
    Ok(())
}
