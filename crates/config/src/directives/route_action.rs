//! The action of a route, and the change of its path: made of the keys that were given, which must
//! fit together.
//!
//! Called by: `route`.
//! Out of scope: the keys themselves.

use super::{map::LocatedTemplate, route::RouteDraft, template::CandidateText, upstream};
use crate::{
    folder::without_parents,
    model::{
        Action, Candidate, Fallback, PathPattern, Redirect, Rewrite, RewriteTarget, RouteRoot,
        Template,
    },
    reader::Reader,
    source::Location,
};
use saker_http::Status;
use std::os::unix::ffi::OsStrExt;

const REDIRECT_STATUSES: &[u16] = &[301, 302, 303, 307, 308];

/// Reports keys that exclude each other, and keys that have no effect.
pub(super) fn check(reader: &mut Reader<'_>, draft: &RouteDraft) {
    one_action_only(reader, draft);
    check_rewrite(reader, draft);
    check_dependents(reader, draft);
}

fn given(draft: &RouteDraft) -> Vec<(&'static str, &Location)> {
    fn at(template: &Option<LocatedTemplate>) -> Option<&Location> {
        template.as_ref().map(|(_, at)| at)
    }
    let deny = draft.deny.as_ref().filter(|(deny, _)| *deny);
    let all = [
        ("redirect", at(&draft.redirect)),
        ("respond", at(&draft.respond)),
        ("deny", deny.map(|(_, at)| at)),
        ("proxy", draft.proxy.as_ref().map(|(_, at)| at)),
    ];
    let mut given: Vec<(&str, &Location)> = all
        .into_iter()
        .filter_map(|(name, at)| Some((name, at?)))
        .collect();
    given.sort_by_key(|(_, at)| at.span.start);
    given
}

fn one_action_only(reader: &mut Reader<'_>, draft: &RouteDraft) {
    if let [(first, _), (second, at), ..] = given(draft).as_slice() {
        let help = "a route has one action: keep one of `redirect`, `respond`, `proxy`, `deny`";
        reader.error(
            at,
            format!("this route has both `{first}` and `{second}`"),
            Some(help.into()),
        );
    }
}

fn check_rewrite(reader: &mut Reader<'_>, draft: &RouteDraft) {
    let action = given(draft).first().map(|(name, _)| *name);
    if let Some((_, at)) = &draft.try_files {
        let other = action.or(draft.rewrite.as_ref().map(|_| "rewrite"));
        if let Some(other) = other {
            reader.error(
                at,
                format!("this route has both `try_files` and `{other}`"),
                Some("put the other into a route with a `name`, and write \"@name\" last".into()),
            );
        }
    }
    if let Some((_, at)) = &draft.rewrite
        && let Some(other @ ("redirect" | "respond" | "deny")) = action
    {
        reader.error(
            at,
            format!("`rewrite` has no effect with `{other}`"),
            Some("remove it".into()),
        );
    }
}

/// Reports keys that have no effect without an action.
fn check_dependents(reader: &mut Reader<'_>, draft: &RouteDraft) {
    // A key that is broken or unknown is there, and reported.
    let lacks = |key: &str| {
        !draft
            .unread
            .iter()
            .any(|name| *name == key || name.is_empty())
    };
    let has_text = draft.redirect.is_some() || draft.respond.is_some();
    if let Some((_, at)) = draft
        .status
        .as_ref()
        .filter(|_| !has_text && lacks("redirect") && lacks("respond"))
    {
        reader.error(
            at,
            "`status` without `redirect` or `respond`",
            Some("remove it: files have their own status".into()),
        );
    }
    let is_proxied = draft.proxy.is_some() || !lacks("proxy");
    for (name, given) in [
        ("preserve_host", &draft.preserve_host),
        ("forwarded_proto", &draft.forwarded_proto),
    ] {
        if let Some((_, at)) = given.as_ref().filter(|_| !is_proxied) {
            reader.error(
                at,
                format!("`{name}` without `proxy`"),
                Some("remove it".into()),
            );
        }
    }
    if !is_proxied {
        draft.terms.report_unused(reader);
    }
    if let Some((_, at)) = draft
        .content_type
        .as_ref()
        .filter(|_| draft.respond.is_none() && lacks("respond"))
    {
        reader.error(
            at,
            "`type` without `respond`",
            Some("for files, see `types` and `default_type`".into()),
        );
    }
}

pub(super) fn action(reader: &mut Reader<'_>, draft: &RouteDraft) -> Action {
    if let Some((to, _)) = &draft.redirect {
        return Action::Redirect(Redirect {
            status: redirect_status(reader, draft),
            to: to.clone(),
        });
    }
    if let Some((body, _)) = &draft.respond {
        return response(reader, draft, body);
    }
    if let Some((said, at)) = &draft.proxy {
        let is_on =
            |given: &Option<(bool, Location)>| given.as_ref().is_none_or(|(is_on, _)| *is_on);
        return Action::Proxy(upstream::proxy(
            said.clone(),
            is_on(&draft.preserve_host),
            is_on(&draft.forwarded_proto),
            draft.terms.terms.clone(),
            at.origin(),
        ));
    }
    match draft.deny {
        Some((true, _)) => Action::Deny,
        _ => Action::Files,
    }
}

fn response(reader: &mut Reader<'_>, draft: &RouteDraft, body: &Template) -> Action {
    let status = draft
        .status
        .as_ref()
        .map_or(Status::OK, |(status, _)| Status(*status));
    let content_type = draft
        .content_type
        .as_ref()
        .map_or("text/plain; charset=utf-8", |(text, _)| text);
    if let Some((_, at)) = draft
        .status
        .as_ref()
        .filter(|_| status.forbids_content() && !body.text().is_empty())
    {
        reader.error(
            at,
            format!("a {} response has no body", status.0),
            Some("write respond = \"\"".into()),
        );
    }
    Action::Respond {
        status,
        content_type: content_type.into(),
        body: body.clone(),
    }
}

/// Reads `root` or `alias`.
pub(super) fn root(reader: &mut Reader<'_>, draft: &RouteDraft) -> Option<RouteRoot> {
    if let (Some(_), Some((_, at))) = (&draft.root, &draft.alias) {
        let help = "`root` looks for the whole path below it, `alias` for the rest of the path";
        reader.error(
            at,
            "this route has both `root` and `alias`",
            Some(help.into()),
        );
    }
    if let Some((folder, _)) = &draft.root {
        return Some(RouteRoot {
            folder: without_parents(folder.clone()).into(),
            prefix: "".into(),
            file: None,
        });
    }
    let (target, at) = draft.alias.as_ref()?;
    let target = without_parents(target.clone());
    match draft.patterns.as_slice() {
        [(PathPattern::Prefix(prefix), _)] if prefix.ends_with('/') => Some(RouteRoot {
            folder: target.into(),
            prefix: prefix.as_str().into(),
            file: None,
        }),
        [(PathPattern::Exact(path), _)] => Some(RouteRoot {
            folder: target.parent()?.into(),
            prefix: path.as_str().into(),
            file: Some(target.file_name()?.as_bytes().into()),
        }),
        // `/img*` and `/img../x` would lead out of the directory.
        _ => {
            let help = "write a pattern such as \"/docs/*\", or a path without stars for one file";
            reader.error(
                at,
                "`alias` needs one pattern that ends in `/*` and has no other star",
                Some(help.into()),
            );
            None
        }
    }
}

fn redirect_status(reader: &mut Reader<'_>, draft: &RouteDraft) -> Status {
    let Some((status, at)) = &draft.status else {
        return Status::FOUND;
    };
    if !REDIRECT_STATUSES.contains(status) {
        let help = "301 and 308 are permanent, 302 and 307 temporary, 303 changes any method to \
                    GET; 307 and 308 keep the method";
        reader.error(
            at,
            format!("invalid redirect status {status}"),
            Some(help.into()),
        );
    }
    Status(*status)
}

fn target(template: &Template) -> RewriteTarget {
    let (path, query) = template.split_query();
    // The query as it is stays as it is.
    let query = query.filter(|query| !query.is_variable("args"));
    RewriteTarget { path, query }
}

pub(super) fn rewrite(reader: &mut Reader<'_>, draft: &RouteDraft) -> Option<Rewrite> {
    if let Some((to, _)) = &draft.rewrite {
        return Some(Rewrite::To(target(to)));
    }
    let (list, at) = draft.try_files.as_ref()?;
    let Some(((last, last_at), files)) = list.split_last() else {
        let help = "write for example [\"$uri\", \"=404\"]";
        reader.error(at, "`try_files` is empty", Some(help.into()));
        return None;
    };
    if files.is_empty() {
        let help = "the last element is for requests without a file: add \"=404\" or \
                    \"/index.php?$args\"";
        reader.error(last_at, "`try_files` has one element", Some(help.into()));
    }
    let mut candidates = Vec::with_capacity(files.len());
    for (file, at) in files {
        match file {
            CandidateText::Path(path) if path.split_query().1.is_some() => reader.error(
                at,
                "a file has no query",
                Some("only the last element may have `?`".into()),
            ),
            CandidateText::Path(path) => candidates.push(Candidate {
                is_directory: path.text().ends_with('/'),
                path: path.clone(),
            }),
            CandidateText::Status(_) | CandidateText::Route(_) => reader.error(
                at,
                "a status or a route must be the last element",
                Some("files come first".into()),
            ),
        }
    }
    let fallback = match last {
        CandidateText::Status(status) => Fallback::Status(Status(*status)),
        CandidateText::Route(name) => Fallback::Route(name.as_str().into()),
        CandidateText::Path(path) => Fallback::Target(target(path)),
    };
    Some(Rewrite::TryFiles {
        candidates,
        fallback,
    })
}

/// Locations of `rewrite`, or of the elements of `try_files`.
pub(super) fn locations(draft: &RouteDraft) -> Vec<Location> {
    let rewrite = draft.rewrite.iter().map(|(_, at)| at.clone());
    let files = draft.try_files.iter().flat_map(|(list, _)| list);
    rewrite.chain(files.map(|(_, at)| at.clone())).collect()
}
