//! Changes that operators make in the running server without a reload: members of upstreams that
//! are drained, weighted, added, or removed, and redirects.
//!
//! Called by: the process, which owns them and puts them in force; `saker explain` and
//! `saker config --expanded`, which read them.
//! Caveat: they are kept in the state directory (`console/live.json`), written before they are in
//! force, and stay over reloads, upgrades, and restarts. A change that no longer fits the
//! configuration (its upstream is gone, say) waits, and does nothing.
//! Out of scope: choosing a member (`saker_gateway`), answering redirects (`saker_pipeline`).

use crate::{audit, history_files::replace};
use saker_config::{
    Model,
    model::{LiveRedirect, Member, Site, SiteName, Upstream},
    server_address, with_servers,
};
use saker_http::Status;
use serde_json::{Value, json};
use std::{
    cell::RefCell,
    collections::{BTreeMap, btree_map::Entry},
    fs, io,
    path::Path,
    sync::Arc,
};

/// Changes that are kept, of each kind.
pub const CHANGES_MAX: usize = 1_000;
const FILE: &str = "console/live.json";
const FILE_BYTES_MAX: u64 = 4 << 20;
/// Longest path and longest target of a redirect.
const REDIRECT_BYTES_MAX: usize = 2_048;
const STATUSES: [u16; 5] = [301, 302, 303, 307, 308];

/// A change of members of an upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberChange {
    /// Nothing is sent to it but requests of sessions that are bound to it.
    Drain,
    /// It is used again.
    Resume,
    /// Weight; `None`: the configuration's.
    Weight(Option<u32>),
    /// Kept connections are given up, and earlier failures are forgotten.
    Reconnect,
}

/// A redirect of a site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SiteRedirect {
    /// First name of the site.
    pub site: String,
    pub redirect: LiveRedirect,
}

/// A change of the running server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LiveChange {
    Member {
        upstream: String,
        member: String,
        change: MemberChange,
    },
    AddServer {
        upstream: String,
        url: String,
    },
    RemoveServer {
        upstream: String,
        member: String,
    },
    AddRedirect(SiteRedirect),
    RemoveRedirect {
        site: String,
        from: String,
    },
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Kept {
    is_drained: bool,
    /// In hundredths.
    weight: Option<u32>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Servers {
    /// URLs.
    added: Vec<String>,
    /// Addresses of servers of the configuration.
    removed: Vec<String>,
}

/// All changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LiveChanges {
    /// By the name of the upstream and the address of the member.
    members: BTreeMap<(String, String), Kept>,
    servers: BTreeMap<String, Servers>,
    redirects: Vec<SiteRedirect>,
}

impl LiveChanges {
    /// Reads the changes of a state directory; a missing file has none.
    ///
    /// # Errors
    /// The reason why the file cannot be used.
    pub fn load(state_dir: &Path) -> Result<LiveChanges, String> {
        let path = state_dir.join(FILE);
        let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        match fs::metadata(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(LiveChanges::default());
            }
            Err(error) => return Err(failed(&error)),
            Ok(found) if found.len() > FILE_BYTES_MAX => return Err(failed(&"it is too large")),
            Ok(_) => {}
        }
        let text = fs::read_to_string(&path).map_err(|error| failed(&error))?;
        let value = serde_json::from_str(&text).map_err(|error| failed(&error))?;
        LiveChanges::parse(&value).ok_or_else(|| failed(&"it is not a file of changes"))
    }

    fn save(&self, state_dir: &Path) -> Result<(), String> {
        let write = || -> io::Result<()> {
            audit::folder(state_dir)?;
            replace(
                &state_dir.join(FILE),
                &format!("{}\n", self.to_json()),
                None,
            )
        };
        write().map_err(|error| format!("the change cannot be kept in {FILE}: {error}"))
    }

    /// Makes a change, keeps it in the state directory, and puts it in force. Returns the number of
    /// members or redirects that it concerns.
    ///
    /// # Errors
    /// The reason why nothing has changed.
    pub fn change(
        &mut self,
        model: &Model,
        state_dir: &Path,
        change: &LiveChange,
    ) -> Result<usize, String> {
        if let LiveChange::Member {
            upstream,
            member,
            change: MemberChange::Reconnect,
        } = change
        {
            let count = each_member(model, (upstream, member), reconnect);
            return some(count);
        }
        let mut next = self.clone();
        let count = next.edit(model, change)?;
        next.save(state_dir)?;
        *self = next;
        // What does not fit was refused just now, or waits since a reload.
        let _ = self.apply(model);
        Ok(count)
    }

    fn edit(&mut self, model: &Model, change: &LiveChange) -> Result<usize, String> {
        match change {
            LiveChange::Member {
                upstream,
                member,
                change,
            } => self.edit_member(model, (upstream, member), *change),
            LiveChange::AddServer { upstream, url } => self.add_server(model, upstream, url),
            LiveChange::RemoveServer { upstream, member } => {
                self.remove_server(model, upstream, member)
            }
            LiveChange::AddRedirect(redirect) => self.add_redirect(model, redirect),
            LiveChange::RemoveRedirect { site, from } => {
                let before = self.redirects.len();
                let is_it = |one: &SiteRedirect| {
                    one.site.eq_ignore_ascii_case(site) && *one.redirect.from == **from
                };
                self.redirects.retain(|one| !is_it(one));
                match before - self.redirects.len() {
                    0 => Err("there is no such redirect".to_owned()),
                    count => Ok(count),
                }
            }
        }
    }

    fn edit_member(
        &mut self,
        model: &Model,
        (upstream, address): (&str, &str),
        change: MemberChange,
    ) -> Result<usize, String> {
        let count = some(each_member(model, (upstream, address), |_| {}))?;
        let is_full = self.members.len() >= CHANGES_MAX;
        let key = (upstream.to_owned(), address.to_owned());
        let entry = match self.members.entry(key) {
            Entry::Vacant(_) if is_full => return Err("there are too many changes".to_owned()),
            entry => entry,
        };
        let kept = entry.or_default();
        match change {
            MemberChange::Drain => kept.is_drained = true,
            MemberChange::Resume => kept.is_drained = false,
            MemberChange::Weight(weight) => kept.weight = weight.map(|one| one.saturating_mul(100)),
            MemberChange::Reconnect => {}
        }
        self.members.retain(|_, kept| *kept != Kept::default());
        Ok(count)
    }

    fn add_server(&mut self, model: &Model, name: &str, url: &str) -> Result<usize, String> {
        let upstream = upstream(model, name)?;
        let is_plain = |byte: u8| byte.is_ascii_graphic() && !b"?#@\\\"<>".contains(&byte);
        if !url.bytes().all(is_plain) && !self.is_removed(name, url) {
            return Err("invalid URL of a server".to_owned());
        }
        let all: usize = self.servers.values().map(|one| one.added.len()).sum();
        let servers = self.servers.entry(name.to_owned()).or_default();
        // The address of one that was removed is no URL where it is a socket's.
        let address = match servers.removed.iter().any(|one| one == url) {
            true => url.to_owned(),
            false => server_address(upstream, url)?,
        };
        let removed = servers.removed.len();
        servers.removed.retain(|one| *one != address);
        if removed == servers.removed.len() {
            if all >= CHANGES_MAX {
                return Err("there are too many changes".to_owned());
            }
            servers.added.push(url.to_owned());
        }
        self.fits(upstream)
    }

    fn is_removed(&self, name: &str, address: &str) -> bool {
        let servers = self.servers.get(name);
        servers.is_some_and(|one| one.removed.iter().any(|one| one == address))
    }

    fn remove_server(&mut self, model: &Model, name: &str, address: &str) -> Result<usize, String> {
        let upstream = upstream(model, name)?;
        let servers = self.servers.entry(name.to_owned()).or_default();
        let is_it = |url: &String| server_address(upstream, url).as_deref() == Ok(address);
        let base = upstream.discovered();
        let members = &base.as_deref().unwrap_or(upstream).members;
        let is_own = || members.iter().any(|one| one.address() == address);
        match servers.added.iter().position(is_it) {
            Some(at) => drop(servers.added.remove(at)),
            None if is_own() && !servers.removed.iter().any(|one| one == address) => {
                servers.removed.push(address.to_owned());
            }
            None => return Err("there is no such member of an upstream".to_owned()),
        }
        self.members.remove(&(name.to_owned(), address.to_owned()));
        self.fits(upstream)
    }

    /// Checks that the upstream has servers that fit.
    fn fits(&mut self, upstream: &Upstream) -> Result<usize, String> {
        let servers = self.servers.get(&*upstream.name).cloned();
        let servers = servers.unwrap_or_default();
        let base = upstream.discovered();
        let upstream = base.as_deref().unwrap_or(upstream);
        with_servers(upstream, upstream, (&servers.added, &servers.removed))?;
        self.servers.retain(|_, one| *one != Servers::default());
        Ok(1)
    }

    fn add_redirect(&mut self, model: &Model, added: &SiteRedirect) -> Result<usize, String> {
        check_redirect(&added.redirect)?;
        if sites(model, &added.site).next().is_none() {
            return Err("there is no such site".to_owned());
        }
        if self.redirects.len() >= CHANGES_MAX {
            return Err("there are too many changes".to_owned());
        }
        let is_same = |one: &SiteRedirect| {
            one.site.eq_ignore_ascii_case(&added.site) && one.redirect.from == added.redirect.from
        };
        match self.redirects.iter_mut().find(|one| is_same(one)) {
            Some(before) => *before = added.clone(),
            None => self.redirects.push(added.clone()),
        }
        Ok(1)
    }

    /// Puts the changes in force for a configuration. Returns what does not fit it.
    pub fn apply(&self, model: &Model) -> Vec<String> {
        let mut complaints = Vec::new();
        for upstream in &model.upstreams {
            let discovered = upstream.discovered();
            let base = discovered.as_ref().unwrap_or(upstream);
            let revised = self.servers.get(&*upstream.name).map(|servers| {
                let lists = (servers.added.as_slice(), servers.removed.as_slice());
                with_servers(base, &upstream.current(), lists)
            });
            let revised = match revised {
                Some(Ok(revised)) => Some(Arc::new(revised)),
                Some(Err(why)) => {
                    complaints.push(format!("upstream {}: {why}", upstream.name));
                    None
                }
                None => None,
            };
            upstream.revision.set(revised.or(discovered));
            for member in &upstream.current().members {
                let key = (upstream.name.to_string(), member.address());
                let kept = self.members.get(&key).copied().unwrap_or_default();
                member.state.set_drained(kept.is_drained);
                member.state.set_weight(kept.weight);
            }
        }
        for site in &model.sites {
            let name = name_of(site);
            let own = self.redirects.iter().filter(|one| {
                name.as_deref()
                    .is_some_and(|name| name.eq_ignore_ascii_case(&one.site))
            });
            let own = own.map(|one| one.redirect.clone());
            site.live_redirects.set(own.collect());
        }
        complaints
    }

    /// Redirects; `site`: of this one alone.
    pub fn redirects(&self, site: Option<&str>) -> Vec<&SiteRedirect> {
        let is_of =
            |one: &&SiteRedirect| site.is_none_or(|site| one.site.eq_ignore_ascii_case(site));
        self.redirects.iter().filter(is_of).collect()
    }

    /// Upstream and address of the servers of the configuration that were removed.
    pub fn removed(&self) -> Vec<(String, String)> {
        let all = self.servers.iter();
        all.flat_map(|(name, servers)| {
            let removed = servers.removed.iter();
            removed.map(move |address| (name.clone(), address.clone()))
        })
        .collect()
    }

    /// Sentences about the changes, for people.
    pub fn summary(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for (name, servers) in &self.servers {
            let added = servers.added.iter();
            lines.extend(added.map(|url| format!("upstream {name}: server {url} added")));
            let removed = servers.removed.iter();
            lines.extend(removed.map(|one| format!("upstream {name}: server {one} removed")));
        }
        for ((name, address), kept) in &self.members {
            if kept.is_drained {
                lines.push(format!("upstream {name}: server {address} drained"));
            }
            if let Some(weight) = kept.weight {
                let weight = f64::from(weight) / 100.0;
                lines.push(format!(
                    "upstream {name}: server {address} has weight {weight}"
                ));
            }
        }
        let redirects = self.redirects.iter().map(|one| {
            let LiveRedirect { from, to, status } = &one.redirect;
            format!(
                "site {}: {from} redirected to {to} ({})",
                one.site, status.0
            )
        });
        lines.extend(redirects);
        lines
    }

    pub fn to_json(&self) -> Value {
        let members = self.members.iter().map(|((upstream, member), kept)| {
            json!({
                "upstream": upstream, "member": member, "is_drained": kept.is_drained,
                "weight": kept.weight,
            })
        });
        let servers = self.servers.iter().map(|(upstream, servers)| {
            json!({ "upstream": upstream, "added": servers.added, "removed": servers.removed })
        });
        let redirects = self.redirects.iter().map(SiteRedirect::to_json);
        json!({
            "members": members.collect::<Value>(),
            "servers": servers.collect::<Value>(),
            "redirects": redirects.collect::<Value>(),
        })
    }

    fn parse(value: &Value) -> Option<LiveChanges> {
        let list = |name: &str| value.get(name)?.as_array();
        let text = |one: &Value, name: &str| one.get(name)?.as_str().map(str::to_owned);
        let texts = |one: &Value, name: &str| -> Option<Vec<String>> {
            let list = one.get(name)?.as_array()?.iter();
            list.map(|one| one.as_str().map(str::to_owned)).collect()
        };
        let members = list("members")?.iter().map(|one| {
            let weight = one["weight"].as_u64();
            let kept = Kept {
                is_drained: one["is_drained"].as_bool()?,
                weight: weight.and_then(|weight| u32::try_from(weight).ok()),
            };
            Some(((text(one, "upstream")?, text(one, "member")?), kept))
        });
        let servers = list("servers")?.iter().map(|one| {
            let (added, removed) = (texts(one, "added")?, texts(one, "removed")?);
            Some((text(one, "upstream")?, Servers { added, removed }))
        });
        let redirects = list("redirects")?.iter().map(|one| {
            let redirect = SiteRedirect::parse(one).ok()?;
            check_redirect(&redirect.redirect).ok()?;
            Some(redirect)
        });
        Some(LiveChanges {
            members: members.take(CHANGES_MAX).collect::<Option<_>>()?,
            servers: servers.take(CHANGES_MAX).collect::<Option<_>>()?,
            redirects: redirects.take(CHANGES_MAX).collect::<Option<_>>()?,
        })
    }
}

impl SiteRedirect {
    pub fn to_json(&self) -> Value {
        let LiveRedirect { from, to, status } = &self.redirect;
        json!({ "site": self.site, "from": from, "to": to, "status": status.0 })
    }

    /// Reads an order of the API.
    ///
    /// # Errors
    /// The part that is missing or wrong.
    pub fn parse(value: &Value) -> Result<SiteRedirect, String> {
        let text = |name: &str| {
            let given = value.get(name).and_then(Value::as_str);
            given.ok_or_else(|| format!("\"{name}\" must be a string"))
        };
        let status = match value.get("status") {
            None | Some(Value::Null) => Some(302),
            Some(status) => status.as_u64().and_then(|one| u16::try_from(one).ok()),
        };
        let status = status.filter(|status| STATUSES.contains(status));
        Ok(SiteRedirect {
            site: text("site")?.to_owned(),
            redirect: LiveRedirect {
                from: text("from")?.into(),
                to: text("to")?.into(),
                status: Status(status.ok_or("\"status\" must be 301, 302, 303, 307, or 308")?),
            },
        })
    }
}

/// Refuses redirects that lead nowhere, in circles, or out of their field.
fn check_redirect(redirect: &LiveRedirect) -> Result<(), String> {
    let (from, to) = (&*redirect.from, &*redirect.to);
    let whole = from.strip_suffix("/*").map_or(from, |start| start);
    let is_path = from.starts_with('/')
        && from.len() <= REDIRECT_BYTES_MAX
        && !whole.contains(['*', '?', '#'])
        && !from.contains(char::is_control);
    if !is_path {
        return Err("\"from\" must be a path, perhaps with `/*` at its end".to_owned());
    }
    let is_plain = to.len() <= REDIRECT_BYTES_MAX
        && to
            .bytes()
            .all(|byte| byte.is_ascii_graphic() && !b"\\\"<>".contains(&byte));
    let is_local = to.starts_with('/') && !to.starts_with("//");
    let is_absolute = || {
        let parsed = url::Url::parse(to).ok();
        parsed.is_some_and(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
    };
    if !is_plain || !(is_local || is_absolute()) {
        return Err("\"to\" must be a path, or an absolute URL with http or https".to_owned());
    }
    let path = to.split(['?', '#']).next().unwrap_or_default();
    match is_local && redirect.is_for(path.as_bytes()) {
        true => Err("the redirect leads to itself".to_owned()),
        false => Ok(()),
    }
}

fn some(count: usize) -> Result<usize, String> {
    match count {
        0 => Err("there is no such member of an upstream".to_owned()),
        count => Ok(count),
    }
}

fn upstream<'m>(model: &'m Model, name: &str) -> Result<&'m Arc<Upstream>, String> {
    let found = model.upstreams.iter().find(|one| &*one.name == name);
    found.ok_or_else(|| "there is no such upstream".to_owned())
}

/// The member of an upstream that has this address, as reports show it.
pub fn find_member(model: &Model, upstream: &str, address: &str) -> Result<Member, String> {
    let found = RefCell::new(None);
    each_member(model, (upstream, address), |member| {
        *found.borrow_mut() = Some(member.clone());
    });
    let found = found.into_inner();
    found.ok_or_else(|| "there is no such member of an upstream".to_owned())
}

/// Does something with each member that has this address. Returns their number.
fn each_member(model: &Model, (name, address): (&str, &str), work: impl Fn(&Member)) -> usize {
    let mut count = 0;
    for upstream in model.upstreams.iter().filter(|one| &*one.name == name) {
        let current = upstream.current();
        for member in current
            .members
            .iter()
            .filter(|one| one.address() == address)
        {
            work(member);
            count += 1;
        }
    }
    count
}

fn reconnect(member: &Member) {
    member.tuning.epoch.advance();
    let now_ms = saker_net::clock::monotonic_ms();
    member.state.set_down(false, now_ms);
    // Clears failures of requests.
    member.state.pass_check(now_ms);
}

fn sites<'m>(model: &'m Model, name: &'m str) -> impl Iterator<Item = &'m Arc<Site>> {
    let is_it =
        move |site: &&Arc<Site>| name_of(site).is_some_and(|own| own.eq_ignore_ascii_case(name));
    model.sites.iter().filter(is_it)
}

/// The first name of a site.
fn name_of(site: &Site) -> Option<String> {
    Some(match site.names.first()? {
        SiteName::Exact(name) => name.clone(),
        SiteName::Wildcard(name) => format!("*.{name}"),
        SiteName::Any => "*".to_owned(),
    })
}

#[cfg(test)]
mod tests;
