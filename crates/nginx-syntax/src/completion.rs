//! Completion of an nginx configuration that is being typed.
//!
//! Called by: the console's editor.
//! Caveat: a file that is included may stand in any block, so everything is offered at its top.
//! Out of scope: arguments that are not words of a fixed set (`arguments`).

use crate::{
    arguments,
    lexer::{Lexer, Token},
    row::{Row, Support, contexts as context},
    rows::{row, rows},
};
use saker_config::completion::Completion;

/// Completes a text that ends where the cursor is. `is_main`: the text is no included file's.
pub fn complete(before: &str, is_main: bool) -> Completion {
    let top = match is_main {
        true => context::MAIN,
        false => context::NAMES.iter().fold(0, |all, (one, _)| all | one),
    };
    let line = before.rsplit('\n').next().unwrap_or_default();
    let is_comment = line.trim_start().starts_with('#');
    let Some((context, mut words)) = read(before, top).filter(|_| !is_comment) else {
        return Completion::default();
    };
    let is_begun = before
        .chars()
        .next_back()
        .is_some_and(|last| !last.is_whitespace() && !matches!(last, ';' | '{' | '}'));
    let word = match is_begun {
        true => words.pop(),
        false => Some(String::new()),
    };
    let Some(word) = word else {
        return Completion::default();
    };
    if let Some((name, given)) = words.split_first() {
        let row = row(name, context);
        return row.map_or_else(Completion::default, |row| {
            let all = arguments::words(row, given).into_iter();
            Completion::of(&word, all.map(|word| (word.to_owned(), detail(row))))
        });
    }
    let mut seen: Vec<&str> = Vec::new();
    let fits = rows()
        .filter(|row| row.contexts & context != 0)
        .filter(|row| {
            let is_new = !seen.contains(&row.name);
            seen.push(row.name);
            is_new
        });
    Completion::of(&word, fits.map(|row| (row.name.to_owned(), detail(row))))
}

/// The block at the end of a text, and the words of the directive that is begun. `None`: it ends
/// inside of quotes.
fn read(before: &str, top: u32) -> Option<(u32, Vec<String>)> {
    let mut lexer = Lexer::new(before);
    let (mut blocks, mut words) = (vec![top], Vec::<String>::new());
    while let Some(token) = lexer.next_token().ok()? {
        match token {
            Token::Word(word) => words.push(word.text),
            Token::End => words.clear(),
            Token::Open => {
                let outer = blocks.last().copied().unwrap_or(top);
                let name = words.first().map_or("", String::as_str);
                let inner = match row(name, outer) {
                    Some(row) => context::inside(row.name, outer),
                    None => context::UNKNOWN,
                };
                blocks.push(inner);
                words.clear();
            }
            Token::Close => {
                if blocks.len() > 1 {
                    blocks.pop();
                }
                words.clear();
            }
        }
    }
    Some((blocks.last().copied().unwrap_or(top), words))
}

fn detail(row: &Row) -> String {
    let places: Vec<&str> = context::NAMES
        .iter()
        .filter(|(one, _)| row.contexts & one != 0)
        .map(|(_, name)| *name)
        .collect();
    let places = places.join(", ");
    match row.support {
        Support::Unsupported(why) | Support::Refused(why) => {
            format!("{places}: not supported: {why}")
        }
        _ => places,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(before: &str) -> Vec<String> {
        let found = complete(before, true).candidates.into_iter();
        found.map(|one| one.text).collect()
    }

    #[test]
    fn arguments_of_directives() {
        for (before, offered) in [
            ("http { gzip ", &["on", "off"][..]),
            (
                "http { server { listen 80 def",
                &["default_server", "deferred"],
            ),
            ("http { server { listen 443 ssl ht", &["http2"]),
            (
                "http { ssl_protocols TLSv1.2 TLSv1.",
                &["TLSv1.1", "TLSv1.3"],
            ),
            (
                "http { server { location / { fastcgi_buff",
                &[
                    "fastcgi_buffer_size",
                    "fastcgi_buffering",
                    "fastcgi_buffers",
                ],
            ),
            (
                "http { server { location / { fastcgi_buffering o",
                &["on", "off"],
            ),
            ("http { server { rewrite ^ /a p", &["permanent"]),
            ("http { server { rewrite p", &[]),
            ("http { upstream a { server 10.0.0.1:80 ba", &["backup"]),
            ("http { server { location ", &["=", "~", "~*", "^~"]),
            (
                "http { server { listen 80;\n  server_tokens\n b",
                &["build"],
            ),
            ("http { no_such_directive o", &[]),
        ] {
            assert_eq!(texts(before), offered, "{before}");
        }
    }

    #[test]
    fn directives_of_the_block() {
        assert!(texts("ht").contains(&"http".to_owned()));
        assert!(!texts("proxy_pa").contains(&"proxy_pass".to_owned()));
        assert!(texts("http { server { location / { proxy_pa").contains(&"proxy_pass".to_owned()));
        assert!(texts("http { server { listen 80; ser").contains(&"server_name".to_owned()));
        assert!(texts("events {} http {\n").contains(&"server".to_owned()));
        for nothing in [
            "http { server { listen ht",
            "http { server { listen 80 default_server default",
            "http { gzip on o",
            "http { gzip \"o",
            "http { proxy_buffering on; # o",
            "http { weight=",
            "http { server { # lis",
            "http { map $a $b { ser",
            "http { add_header \"ser",
            "http { server",
        ] {
            let found = texts(nothing);
            assert!(
                found.is_empty() || nothing.ends_with("server"),
                "{nothing}: {found:?}"
            );
        }
        let included = complete("proxy_pa", false).candidates;
        assert!(included.iter().any(|one| one.text == "proxy_pass"));
        let names: Vec<_> = texts("http { ");
        let mut once = names.clone();
        once.dedup();
        assert_eq!(names, once);
    }
}
