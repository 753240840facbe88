//! Rules of directories and `.htaccess` files: from a file back to a path, which is mapped again
//! (httpd's `hook_fixup`).
//!
//! Called by: front ends, in fixups.
//! Caveat: a result is a file name again, and has to become a URL path: by RewriteBase, by the
//! document root, or by the alias that led here.
//! Out of scope: the internal redirect itself, and the counter that ends loops.

use super::{
    Run, Shown,
    list::{Listed, Ran},
};
use crate::{Action, Input, Outcome, RewriteContext, Settings, uri};
use saker_ap_expr::Variable;

/// Runs a directory's rules; `server` has the maps.
pub fn run_directory(
    settings: &Settings,
    server: &Settings,
    context: &dyn RewriteContext,
    input: &Input<'_>,
) -> Outcome {
    let mut run = Run::new(server, context, input, Some(settings));
    let Some(directory) = settings.directory_path().filter(|_| settings.is_enabled()) else {
        return run.finish(Action::Pass);
    };
    // A request for the directory without its slash is not inside yet; it will be led there.
    let is_bare = |name: &[u8]| directory.strip_suffix(b"/") == Some(name);
    if !settings.options().allow_no_slash && input.filename.is_some_and(is_bare) {
        return run.finish(Action::Pass);
    }
    if input.ended {
        run.trace(8, true, |_| {
            "Declining, no further rewriting due to END flag".to_owned()
        });
        return run.finish(Action::Pass);
    }
    if !input.follows_links {
        let name = Shown(&run.filename).to_string();
        let text = "Options FollowSymLinks and SymLinksIfOwnerMatch are both off, so the RewriteRule directive is also forbidden due to its \
                    similar ability to circumvent directory restrictions : ";
        run.complain("AH00670", format!("{text}{name}"));
        return run.finish(Action::Status(403));
    }
    if input.filename.is_none() {
        run.trace(2, true, |run| {
            format!(
                "init rewrite engine with requested uri {}",
                Shown(&run.filename)
            )
        });
    }
    let ran = run.run_list(&settings.rules);
    let action = run.directory_action(settings, directory, ran);
    run.finish(action)
}

impl Run<'_> {
    fn directory_action(&mut self, settings: &Settings, directory: &[u8], ran: Ran) -> Action {
        if let Some(action) = self.early_action(&ran, "AH10411") {
            if action == Action::Pass {
                self.trace(1, true, |run| {
                    format!("pass through {}", Shown(&run.filename))
                });
            }
            return action;
        }
        let no_escape = ran.listed == Listed::Changed { no_escape: true };
        if ran.proxy && !ran.pass_through {
            return self.proxy(no_escape, false);
        }
        if !ran.pass_through && uri::scheme(&self.filename).is_some() {
            self.base_in_url(directory);
            return self.redirect(no_escape, ran.redirect);
        }
        self.local_redirect(settings, directory)
    }

    /// A relative target of a redirect got the directory in front; RewriteBase takes its place.
    fn base_in_url(&mut self, directory: &[u8]) {
        let Some(base) = self.base else { return };
        let skip = uri::scheme(&self.filename).map_or(0, |scheme| scheme.length);
        let Some(slash) = self.filename[skip..].iter().position(|byte| *byte == b'/') else {
            return;
        };
        let path = skip + slash + 1;
        if path == self.filename.len() {
            return;
        }
        self.trace_prefix(directory, base);
        // Both begin with the slash that `path` is behind of.
        let (directory, base) = (
            directory.strip_prefix(b"/").unwrap_or(directory),
            base.get(1..).unwrap_or_default(),
        );
        let behind = self.filename.split_off(path);
        if let Some(replaced) = self.replace_prefix(&behind, directory, base) {
            self.filename.extend_from_slice(&replaced);
        } else {
            self.filename.extend_from_slice(&behind);
        }
    }

    fn local_redirect(&mut self, settings: &Settings, directory: &[u8]) -> Action {
        if self.filename.first() != Some(&b'/') {
            return Action::Status(400);
        }
        if self.input.filename == Some(&self.filename) {
            self.trace(1, true, |run| {
                format!(
                    "initial URL equal rewritten URL: {} [IGNORING REWRITE]",
                    Shown(&run.filename)
                )
            });
            return Action::Stay;
        }
        let path = self.as_url_path(settings, directory);
        self.trace(1, true, |_| {
            format!(
                "internal redirect with {} [INTERNAL REDIRECT]",
                Shown(&path)
            )
        });
        Action::InternalRedirect(path)
    }

    /// A file name becomes a path, if it is known how.
    fn as_url_path(&mut self, settings: &Settings, directory: &[u8]) -> Vec<u8> {
        let file = self.filename.clone();
        let replaced = match self.base {
            Some(base) => {
                self.trace_prefix(directory, base);
                self.replace_prefix(&file, directory, base)
            }
            None => self.without_document_root(&file),
        };
        if let Some(path) = replaced {
            return path;
        }
        if settings.options().ignore_context_info {
            return file;
        }
        let root = self.context_variable(Variable::ContextDocumentRoot);
        let prefix = self.context_variable(Variable::ContextPrefix);
        self.trace(2, true, |_| {
            format!(
                "trying to replace context docroot {} with context prefix {}",
                Shown(&root),
                Shown(&prefix)
            )
        });
        self.replace_prefix(&file, &root, &prefix).unwrap_or(file)
    }

    fn without_document_root(&mut self, file: &[u8]) -> Option<Vec<u8>> {
        let root = self.context_variable(Variable::DocumentRoot);
        let root = root.strip_suffix(b"/").unwrap_or(&root);
        let path = file
            .strip_prefix(root)
            .filter(|path| path.first() == Some(&b'/'))?;
        self.trace(2, true, |_| {
            format!(
                "strip document_root prefix: {} -> {}",
                Shown(file),
                Shown(path)
            )
        });
        Some(path.to_vec())
    }

    fn replace_prefix(
        &mut self,
        path: &[u8],
        prefix: &[u8],
        replacement: &[u8],
    ) -> Option<Vec<u8>> {
        let replaced = uri::replace_prefix(path, prefix, replacement)?;
        let rest = &path[prefix.strip_suffix(b"/").unwrap_or(prefix).len() + 1..];
        self.trace(5, false, |_| {
            format!("strip matching prefix: {} -> {}", Shown(path), Shown(rest))
        });
        self.trace(4, false, |_| {
            format!("add subst prefix: {} -> {}", Shown(rest), Shown(&replaced))
        });
        Some(replaced)
    }

    fn trace_prefix(&mut self, directory: &[u8], base: &[u8]) {
        self.trace(2, true, |_| {
            format!(
                "trying to replace prefix {} with {}",
                Shown(directory),
                Shown(base)
            )
        });
    }
}
