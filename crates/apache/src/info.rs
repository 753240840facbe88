//! mod_info: what is configured, and by which modules (handler `server-info`).
//!
//! Place in the walk: content, in the place of a file. What is shown was read at the last start or
//! reload; `.htaccess` files are not in it. Difficulty: it is all text of others, and every bit of
//! it is escaped. Absent on purpose: hooks of a module; ours are the phases of the pipeline, which
//! are listed instead.

use crate::{origin, signature};
use saker_apache_model::{dir_config::DirConfig, host::Host, info::Info};
use saker_apache_syntax::{Link, ModuleRow, Node, rows};
use saker_http::{Method, Status, escape};
use saker_pipeline::{Body, Chunk, Exchange, Response, phases::PHASES};
use std::fmt::Write as _;

/// The answer to a GET; `None` for other methods.
pub fn answer(
    exchange: &mut Exchange,
    host: &Host,
    local: &DirConfig,
    info: &Info,
) -> Option<Response> {
    if !matches!(exchange.head.view().method(), Method::Get | Method::Head) {
        return None;
    }
    exchange.depends_on_request();
    let query = exchange.query.clone().unwrap_or_default();
    let mut page = String::from(
        "<!DOCTYPE html PUBLIC \"-//W3C//DTD XHTML 1.0 Transitional//EN\"\n\"http://www.w3.org/TR/xhtml1/DTD/xhtml1-transitional.dtd\">\n\
         <html xmlns=\"http://www.w3.org/1999/xhtml\">\n<head>\n  <title>Server Information</title>\n</head>\n\
         <body><h1 style=\"text-align: center\">Apache Server Information</h1>\n",
    );
    let at = Place {
        exchange,
        host,
        info,
    };
    match query.as_slice() {
        b"config" => at.configuration(&mut page),
        b"server" => at.server(&mut page),
        b"list" => at.list(&mut page),
        b"hooks" => at.phases(&mut page),
        b"providers" => at.providers(&mut page),
        b"" => at.everything(&mut page),
        name => at.one_module(name, &mut page),
    }
    let mut page = page.into_bytes();
    page.extend_from_slice(b"<hr />");
    page.extend_from_slice(&signature::line(exchange, host, local));
    page.extend_from_slice(b"</body></html>\n");
    let mut response = Response::new(Status::OK);
    response
        .fields_mut()
        .set("Content-Type", &b"text/html; charset=ISO-8859-1"[..]);
    response.body = Body::Memory(Chunk::from(page));
    Some(response)
}

fn escaped(text: &[u8]) -> String {
    let mut out = Vec::with_capacity(text.len());
    escape::html(text, &mut out);
    String::from_utf8_lossy(&out).into_owned()
}

struct Place<'p> {
    exchange: &'p Exchange,
    host: &'p Host,
    info: &'p Info,
}

impl Place<'_> {
    fn everything(&self, page: &mut String) {
        page.push_str(
            "<dl><dt><tt>Subpages:<br /><a href=\"?config\">Configuration Files</a>, <a href=\"?server\">Server Settings</a>, \
             <a href=\"?list\">Module List</a>, <a href=\"?hooks\">Active Hooks</a>, <a href=\"?providers\">Available Providers</a></tt></dt></dl><hr />\n",
        );
        self.server(page);
        self.phases(page);
        page.push_str("<h2><a name=\"modules\">Loaded Modules</a></h2>\n");
        self.modules().for_each(|module| self.module(module, page));
    }

    /// Those of Apache: names that `<IfModule>` knows always are none.
    fn modules(&self) -> impl Iterator<Item = &ModuleRow> {
        let modules = self.info.modules.iter().copied();
        modules.filter(|module| module.link != Link::Always)
    }

    fn server(&self, page: &mut String) {
        let info = self.info;
        page.push_str("<h2><a name=\"server\">Server Settings</a></h2><dl>");
        let mut line = |name: &str, value: String| {
            let _ = writeln!(
                page,
                "<dt><strong>{name}:</strong> <tt>{}</tt></dt>",
                escaped(value.as_bytes())
            );
        };
        line("Server Version", signature::software(self.host));
        let name = String::from_utf8_lossy(&origin::name(self.exchange, self.host)).into_owned();
        line(
            "Hostname/port",
            format!("{name}:{}", origin::port(self.exchange, self.host)),
        );
        line(
            "Timeouts",
            format!(
                "connection: {}    keep-alive: {}",
                info.timeout_s,
                info.keep_alive_timeout_ms / 1000
            ),
        );
        line("MPM Name", "event".into());
        line(
            "MPM Information",
            "Max Daemons: 1 Threaded: yes Forked: no".into(),
        );
        line("Server Architecture", format!("{}-bit", usize::BITS));
        line("Server Root", info.server_root.display().to_string());
        line(
            "Config File",
            info.tree
                .nodes
                .first()
                .map(|node| node.origin.file.to_string())
                .unwrap_or_default(),
        );
        page.push_str("</dl>");
    }

    fn list(&self, page: &mut String) {
        page.push_str("<dl><dt>Server Module List</dt>");
        let mut files: Vec<&str> = self.modules().map(|module| module.source_file).collect();
        files.sort_unstable();
        for file in files {
            let _ = write!(page, "<dd>{}</dd>", escaped(file.as_bytes()));
        }
        page.push_str("</dl>");
    }

    fn phases(&self, page: &mut String) {
        page.push_str("<h2><a name=\"request_hooks\">Request Hooks</a></h2>\n<dl><dt><strong>Phases, in their order:</strong></dt>\n");
        let names = PHASES.iter().map(|phase| phase.name).chain(["content"]);
        names.for_each(|name| {
            let _ = writeln!(page, "<dd><tt>{name}</tt></dd>");
        });
        page.push_str("</dl>");
    }

    fn providers(&self, page: &mut String) {
        page.push_str("<h2><a name=\"providers\">Providers</a></h2>\n<dl><dt><strong>authn:</strong> <tt>file, anon, dbm</tt></dt></dl>");
    }

    fn one_module(&self, name: &[u8], page: &mut String) {
        match self
            .modules()
            .find(|module| module.source_file.as_bytes() == name)
        {
            Some(module) => self.module(module, page),
            None => page.push_str("<p><b>No such module</b></p>\n"),
        }
    }

    fn module(&self, module: &ModuleRow, page: &mut String) {
        let file = escaped(module.source_file.as_bytes());
        let _ = write!(
            page,
            "<dl><dt><a name=\"{file}\"><strong>Module Name:</strong></a> <font size=\"+1\"><tt><a href=\"?{file}\">{file}</a></tt></font></dt>\n\
             <dt><strong>Module Directives:</strong></dt>"
        );
        for row in rows().filter(|row| row.modules.contains(&module.identifier)) {
            let _ = writeln!(
                page,
                "<dd><tt>{}</tt></dd>",
                escaped(row.title().as_bytes())
            );
        }
        page.push_str("<dt><strong>Current Configuration:</strong></dt>\n");
        let mut file = String::new();
        let is_of = |node: &Node| {
            node.row
                .is_some_and(|row| row.modules.contains(&module.identifier))
        };
        self.info.tree.walk(&mut |node| {
            if is_of(node) && !node.is_section() {
                line(node, 0, &mut file, page);
            }
        });
        let remarks = self
            .info
            .remarks
            .iter()
            .filter(|(name, _)| **name == *module.source_file);
        // The administrator's own words, in HTML (httpd 2.4, mod_info, AddModuleInfo).
        remarks.for_each(|(_, text)| {
            let _ = writeln!(
                page,
                "<dt><strong>Additional Information:</strong></dt>\n<dd>{text}</dd>"
            );
        });
        page.push_str("</dl><hr />\n");
    }

    fn configuration(&self, page: &mut String) {
        page.push_str("<dl><dt><strong>Configuration:</strong></dt>\n");
        lines(&self.info.tree.nodes, 0, &mut String::new(), page);
        page.push_str("</dl>");
    }
}

fn lines(nodes: &[Node], depth: usize, file: &mut String, page: &mut String) {
    for node in nodes {
        line(node, depth, file, page);
        if node.is_section() {
            lines(&node.children, depth + 1, file, page);
            let name = node.canonical_name().trim_start_matches('<');
            let _ = writeln!(
                page,
                "<dd><tt>&nbsp;&nbsp;&nbsp;&nbsp;:&nbsp;{}&lt;/{}&gt;</tt></dd>",
                indent(depth),
                escaped(name.as_bytes())
            );
        }
    }
}

/// One directive with its line, and its file where that is another one than before.
fn line(node: &Node, depth: usize, file: &mut String, page: &mut String) {
    let own = node.origin.file.to_string();
    if *file != own {
        let _ = writeln!(
            page,
            "<dd><tt><strong>In file: {}</strong></tt></dd>",
            escaped(own.as_bytes())
        );
        *file = own;
    }
    let number = format!("{:>4}", node.origin.line).replace(' ', "&nbsp;");
    let (name, text) = (
        escaped(node.canonical_name().as_bytes()),
        escaped(&node.text),
    );
    let _ = match node.is_section() {
        true => writeln!(
            page,
            "<dd><tt>{number}:&nbsp;{}{name} {text}</tt></dd>",
            indent(depth)
        ),
        false => writeln!(
            page,
            "<dd><tt>{number}:&nbsp;{}{name} <i>{text}</i></tt></dd>",
            indent(depth)
        ),
    };
}

fn indent(depth: usize) -> String {
    "&nbsp;&nbsp;".repeat(depth)
}
