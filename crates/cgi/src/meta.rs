//! CGI/1.1 meta-variables (RFC 3875 section 4.1) as Apache's mod_cgi and mod_proxy_fcgi make them:
//! names, values, what wins over what.
//!
//! Place in the walk: the engine fills [`Facts`] from an exchange; the variables made of them go to
//! every protocol.
//!
//! Difficulty: what the configuration set (SetEnv) stands first and keeps its place, but the
//! server's own variables win over it, and none of both may be there twice. Only the
//! configuration's few are looked through for that.
//!
//! Absent on purpose: `REDIRECT_STATUS` and what else a redirect leaves behind. They come with the
//! environment ([`push_redirected`]).

use crate::{
    Variables,
    field_lines::{Repeated, is_repeated, joined},
    variables::FIELD_PREFIX,
};
use saker_http::{
    HeadView, escape,
    field_name::{is_alike, is_plain},
};
use std::borrow::Cow;

/// Longest name of a field that becomes a variable.
const NAME_BYTES_MAX: usize = 250;

/// All that the variables are made of. `None`: the variable is not there.
#[derive(Clone, Copy)]
pub struct Facts<'a> {
    /// Fields of the request.
    pub head: HeadView<'a>,
    /// `CGIPassAuth On`: the program may see the client's password.
    pub passes_authorization: bool,
    /// Fields become variables; false for programs that get the fields themselves.
    pub tells_fields: bool,
    /// Fields become variables whatever characters their names have; the caller has seen to it that
    /// no two become one.
    pub passes_underscores: bool,
    /// Length of the content as it will be given; `None` where there is none, or where it is not
    /// known.
    pub content_length: Option<u64>,
    /// PATH of the programs; the server's own.
    pub search_path: Option<&'a [u8]>,
    pub server_signature: &'a [u8],
    pub server_software: &'a [u8],
    pub server_name: &'a [u8],
    pub server_addr: &'a [u8],
    pub server_port: u16,
    pub server_admin: Option<&'a [u8]>,
    /// Host name of the client, if it was looked up.
    pub remote_host: Option<&'a [u8]>,
    pub remote_addr: &'a [u8],
    pub remote_port: u16,
    pub remote_user: Option<&'a [u8]>,
    pub remote_ident: Option<&'a [u8]>,
    pub auth_type: Option<&'a [u8]>,
    pub request_scheme: &'a [u8],
    pub document_root: &'a [u8],
    /// The prefix of an Alias and its folder, else empty and the document root.
    pub context_prefix: &'a [u8],
    pub context_document_root: &'a [u8],
    pub script_filename: &'a [u8],
    /// URL of the original request, if this one is an internal redirect.
    pub redirect_url: Option<&'a [u8]>,
    pub redirect_query_string: Option<&'a [u8]>,
    pub server_protocol: &'a [u8],
    /// GET after a redirect, whatever the client said.
    pub request_method: &'a [u8],
    pub query_string: Option<&'a [u8]>,
    /// The request-target as received.
    pub request_uri: &'a [u8],
    /// The path, decoded, path-info included.
    pub path: &'a [u8],
    /// Empty where there is none.
    pub path_info: &'a [u8],
    /// The file that the path-info would be, as a path of its own.
    pub path_translated: Option<&'a [u8]>,
}

/// Adds all variables of a request to `variables`, which hold what the configuration set, and
/// nothing else.
pub fn push_meta_variables(facts: &Facts<'_>, variables: &mut Variables) {
    let names = variables.iter().fold(0, |names, (name, _)| {
        names | name_bit(name.len(), name.last().copied())
    });
    let mut to = Target {
        among: variables.len(),
        names,
        variables,
    };
    if facts.tells_fields {
        let rules = FieldRules {
            passes_authorization: facts.passes_authorization,
            passes_underscores: facts.passes_underscores,
            tells_type: true,
        };
        fields(facts.head, rules, |_| false, &mut to);
        facts
            .content_length
            .into_iter()
            .for_each(|length| to.set_number(b"CONTENT_LENGTH", length));
    }
    common(facts, &mut to);
    cgi(facts, &mut to);
}

/// Adds the fields of a request, credentials among them, to `variables`, which are empty; not those
/// about content, which have variables of other names, and none that `is_left_out` is true for.
pub fn push_fields(
    head: HeadView<'_>,
    is_left_out: impl Fn(&[u8]) -> bool,
    variables: &mut Variables,
) {
    let rules = FieldRules {
        passes_authorization: true,
        passes_underscores: true,
        tells_type: false,
    };
    let mut to = Target {
        among: 0,
        names: 0,
        variables,
    };
    fields(head, rules, is_left_out, &mut to);
}

/// Copies the previous request's variables into an internal redirect, each prefixed with REDIRECT_.
pub fn push_redirected(before: &Variables, variables: &mut Variables) {
    before
        .iter()
        .for_each(|(name, value)| variables.push_parts(&[b"REDIRECT_", name], &[value]));
}

/// A bit for names of a length that end with a byte, which some other names have too. Letters count
/// regardless of case, and all bytes that are in no word are the same: fields become variables so.
#[inline]
fn name_bit(length: usize, last: Option<u8>) -> u64 {
    let last = last.filter(u8::is_ascii_alphanumeric).unwrap_or(b'_');
    1 << ((length * 5 + usize::from(last & 0x1f)) % 64)
}

struct Target<'v> {
    /// Variables of the configuration, in front.
    among: usize,
    /// The bits of their names: no other name is looked for among them.
    names: u64,
    variables: &'v mut Variables,
}

impl Target<'_> {
    #[inline]
    fn set<const N: usize>(&mut self, name: &[u8; N], value: &[u8]) {
        // Mostly the configuration has set none.
        match self.among_of(N, name.last().copied()) {
            0 => self.variables.push_named(name, value),
            among => self.variables.set_among(among, name, value),
        }
    }

    #[inline]
    fn set_field(&mut self, name: &[u8], value: &[u8]) {
        let among = self.among_of(FIELD_PREFIX.len() + name.len(), name.last().copied());
        self.variables.set_field_among(among, name, value);
    }

    /// The number of variables among which there may be one with a name of that length and end.
    #[inline]
    fn among_of(&self, length: usize, last: Option<u8>) -> usize {
        match self.names & name_bit(length, last) {
            0 => 0,
            _ => self.among,
        }
    }

    fn set_if<const N: usize>(&mut self, name: &[u8; N], value: Option<&[u8]>) {
        value.into_iter().for_each(|value| self.set(name, value));
    }

    fn set_number<const N: usize>(&mut self, name: &[u8; N], number: u64) {
        let mut digits = [0; 20];
        self.set(name, decimal(number, &mut digits));
    }
}

const CONTENT_TYPE: &[u8] = b"Content-Type";

/// The fields that become variables.
#[derive(Clone, Copy)]
struct FieldRules {
    passes_authorization: bool,
    passes_underscores: bool,
    /// Content-Type has a variable.
    tells_type: bool,
}

/// Fields that become no variables of their names. Lengths tell for most others.
#[inline]
fn is_kept_back(name: &[u8], passes_authorization: bool) -> bool {
    let is = |known: &str| is_alike(name, known.as_bytes());
    match name.len() {
        5 => is("Proxy"),
        13 => !passes_authorization && is("Authorization"),
        14 => is("Content-Length"),
        19 => !passes_authorization && is("Proxy-Authorization"),
        _ => false,
    }
}

/// RFC 3875 section 4.1.18, as Apache does it: names that have more than letters, digits and
/// hyphens are left out, since two of them could become one (unless it is said that none do); Proxy
/// too (httpoxy); passwords, unless the configuration wants it.
fn fields(
    head: HeadView<'_>,
    rules: FieldRules,
    is_left_out: impl Fn(&[u8]) -> bool,
    to: &mut Target<'_>,
) {
    let repeated = Repeated::in_head(head);
    for (at, (name, first)) in head.fields().enumerate() {
        let is_told = rules.passes_underscores || is_plain(name);
        if !is_told || is_kept_back(name, rules.passes_authorization) || is_left_out(name) {
            continue;
        }
        let value = match repeated.may_have(name) {
            true if is_repeated(head, name, at) => continue,
            true => joined(head, name, first),
            false => first.into(),
        };
        if name.len() == CONTENT_TYPE.len() && name.eq_ignore_ascii_case(CONTENT_TYPE) {
            if rules.tells_type {
                to.set(b"CONTENT_TYPE", &value);
            }
        } else if name.len() <= NAME_BYTES_MAX {
            to.set_field(name, &value);
        }
    }
}

fn common(facts: &Facts<'_>, to: &mut Target<'_>) {
    to.set_if(b"PATH", facts.search_path);
    to.set(b"SERVER_SIGNATURE", facts.server_signature);
    to.set(b"SERVER_SOFTWARE", facts.server_software);
    // The client may have said it, and scripts print it.
    to.set(b"SERVER_NAME", &escaped(facts.server_name));
    to.set(b"SERVER_ADDR", facts.server_addr);
    to.set_number(b"SERVER_PORT", facts.server_port.into());
    to.set_if(b"REMOTE_HOST", facts.remote_host);
    to.set(b"REMOTE_ADDR", facts.remote_addr);
    to.set(b"DOCUMENT_ROOT", facts.document_root);
    to.set(b"REQUEST_SCHEME", facts.request_scheme);
    to.set(b"CONTEXT_PREFIX", facts.context_prefix);
    to.set(b"CONTEXT_DOCUMENT_ROOT", facts.context_document_root);
    to.set_if(b"SERVER_ADMIN", facts.server_admin);
    to.set(b"SCRIPT_FILENAME", facts.script_filename);
    to.set_number(b"REMOTE_PORT", facts.remote_port.into());
    to.set_if(b"REMOTE_USER", facts.remote_user);
    to.set_if(b"AUTH_TYPE", facts.auth_type);
    to.set_if(b"REMOTE_IDENT", facts.remote_ident);
    to.set_if(b"REDIRECT_QUERY_STRING", facts.redirect_query_string);
    to.set_if(b"REDIRECT_URL", facts.redirect_url);
}

fn cgi(facts: &Facts<'_>, to: &mut Target<'_>) {
    to.set(b"GATEWAY_INTERFACE", b"CGI/1.1");
    to.set(b"SERVER_PROTOCOL", facts.server_protocol);
    to.set(b"REQUEST_METHOD", facts.request_method);
    to.set(b"QUERY_STRING", facts.query_string.unwrap_or_default());
    to.set(b"REQUEST_URI", facts.request_uri);
    to.set(b"SCRIPT_NAME", script_name(facts.path, facts.path_info));
    if !facts.path_info.is_empty() {
        to.set(b"PATH_INFO", facts.path_info);
        to.set_if(b"PATH_TRANSLATED", facts.path_translated);
    }
}

/// The path without its path-info. The two need not end alike (after a rewrite): what they have in
/// common is taken off, and what then is left of a segment stays, as in Apache.
pub fn script_name<'a>(path: &'a [u8], path_info: &[u8]) -> &'a [u8] {
    if path_info.is_empty() {
        return path;
    }
    let common = path
        .iter()
        .rev()
        .zip(path_info.iter().rev())
        .take_while(|(one, other)| one == other)
        .count();
    let from = path.len().saturating_sub(common + 1);
    let rest = path[from..]
        .iter()
        .position(|byte| *byte == b'/')
        .map_or(path.len(), |at| from + at);
    &path[..rest]
}

fn escaped(name: &[u8]) -> Cow<'_, [u8]> {
    if name
        .iter()
        .all(|byte| saker_http::chars::is_host_char(*byte))
    {
        return name.into();
    }
    let mut out = Vec::with_capacity(name.len() + 8);
    escape::html(name, &mut out);
    out.into()
}

fn decimal(mut number: u64, digits: &mut [u8; 20]) -> &[u8] {
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            return &digits[at..];
        }
    }
}

#[cfg(test)]
mod tests;
