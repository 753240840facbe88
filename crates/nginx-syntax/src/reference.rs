//! The table of directives as a page: what becomes of each, for people who bring a configuration.
//!
//! Called by: `cargo xtask docs`.

use crate::{
    row::{Row, Support, contexts},
    rows::{MODULES, of_open_source, rows},
};
use std::fmt::Write as _;

const HEAD: &str = "# nginx configurations

Saker reads nginx's configuration as it is:

```sh
saker check --nginx /etc/nginx/nginx.conf     # what is not honored, with what follows
saker run --nginx /etc/nginx/nginx.conf
saker explain --nginx /etc/nginx/nginx.conf http://example.org/path
```

A link to the program with the name `nginx` takes nginx's own options: `-t`, `-T`, `-q`, `-v`, `-V`,
`-c`, `-p`, `-g`, `-e`, and `-s` with `stop`, `quit`, `reopen`, `reload`. Messages of `-t` have
nginx's form, all errors at once. Signals mean what they mean to nginx: HUP reloads, QUIT stops
gracefully, TERM and INT stop at once, USR1 reopens log files, USR2 starts the program file anew.
With `user root`, the server keeps root's rights, as in containers, and says so.

Servers are chosen by address and name, locations by exact name, longest prefix, and expressions in
order. Scripts (`set`, `if`, `rewrite`, `return`, `break`), inheritance, `try_files`, `error_page`,
and variables follow nginx's documentation; a suite compares the answers with those of nginx.

## Differences

- Pages that the server makes for errors say `saker` where nginx's say `nginx`, and so does `Server`. Both
  have the version where `server_tokens on` or `build` stands, and not where nothing is said about it.
- Request lines are strict, because each leniency is one server's disagreement with another, by which
  requests are smuggled: there is one space between their parts, no `#` in targets, `http` or
  `https` in absolute ones, one digit behind the point of the version, and HTTP/0.9 is refused. nginx
  lets all of them pass. `OPTIONS *` gets 204, and `CONNECT` with an authority 405; nginx 1.22 refuses both with
  400.
- `$http_host` is the host that the request is for, in lower case, with the port as a number: of an absolute
  target its authority, as RFC 9112 says. A port that is no number is refused with 400. So nothing
  behind the server can take another host than rules and caches did.
- `$server_protocol` of a version above HTTP/1.1 is `HTTP/1.1`.
- `100 Continue` is sent only where content is read: `return` and its kin answer without it.
- A connection that sends nothing is taken from the system after 5 seconds, and `client_header_timeout` begins
  then, unless it is less than 30 seconds.
- `add_header` does not set fields about the connection and the length: `Connection`, `Keep-Alive`, `Upgrade`,
  `Transfer-Encoding`, `Content-Length`.
- Boundaries between the parts of several ranges can't be guessed.
- Files of `gzip_static` whose type `gzip_types` has are chosen among all codings, have ranges, and must not
  be older than the file itself.
- `$pipe` is always `.`.
  `$sent_http_connection` and `$request_completion` have their values in access logs, and the first is what
  was sent, where nginx's logs say `close` of connections that are kept.
- Entity tags have another form.
- A path that would leave an `alias` (`/img../x` below `alias /data/img/`) has no file.
- Request fields whose names are no tokens are refused with 400; `Host` must be valid. Names with other
  characters than letters, digits, and hyphens stay away from upstreams, as `ignore_invalid_headers`
  says; variables show them.
- Connections to the servers of an `upstream` block are kept, and those of programs, unless
  `proxy_http_version 1.0`, `fastcgi_keep_conn off`, or `keepalive` say otherwise; connections to the plain address
  of a `proxy_pass` or `grpc_pass` serve one request. Requests are of HTTP/1.1. A request that hits the end of a
  kept connection goes to the same server again, of which variables tell nothing. Names without variables and `resolve` are
  resolved by the system, again when they expire.
- `resolver` is asked for names in variables, and for servers with `resolve` or `service`; each address
  is a member of its own. An answer counts only for the name in question, and for what its aliases lead
  to. A group without `zone` is resolved, too, and goes on with its last addresses where its names
  can't be resolved again. Its first request waits for them.
- Without `*_buffer_size`, the head of a response may have 64 KiB (128 KiB from programs).
- `*_next_upstream` sends a request whose content a member got to another one if it has at most 1 MiB of
  content, and `*_request_buffering` is on.
- An `error_page` that leads to another upstream with the request's method (`@name`) takes the content along: of any
  length if no upstream got it, else up to 1 MiB, with `*_request_buffering`. Where the content is gone, the error
  stays.
- Addresses in `$upstream_addr` are those of the configuration. Times, lengths, and bytes are those of the
  whole exchange in access logs, and of what has passed until then elsewhere.
- `keepalive_*` and `chunked_transfer_encoding` are about HTTP/1; where a location differs from `http`,
  it is evaluated for each request.
- Keys of `ssl_session_ticket_key` open the tickets of all servers; a ticket is bound to its server's
  policy all the same.
- `error_log` of a server, or of a location, gets the lines about the requests that it answers. Streams
  have no error log of their own. Lines at `crit` are in logs of `error` and below: those of `crit`, `alert`,
  and `emerg` stay empty but for reloads that are refused. Reopened logs keep their owner.
- Lines of the error log have nginx's form, and its words where the same thing happens; there is a
  limit of lines a second for each kind, and what it leaves out is counted.
- Files of an `access_log` with variables in its path stay below the directory before the first
  variable, links included, and are opened with the rights of the server's user. At most 4,096 of them
  are made between two starts.
- `return`, `error_page`, and `try_files` with a status below 200 are answered with 500: nginx sends it as the
  response, which ends nothing, so that a client takes the next response for this one's.
- Lines of a request's head may end with a bare LF, and empty lines may stand before it. If lines of one
  head end in different ways, it has no content, and ends its connection.
- The directory of `client_body_temp_path` is made at the start, and belongs to the server's user. Files of requests whose content did not come whole are removed.
- `geoip_country` and `geoip_org` read the databases of the old format; those of cities are not read.
- After `USR2` the new program takes over at once, and the old one ends when its requests have. What
  stands in `nginx.pid.oldbin` is a process that waits for `QUIT`, or for `HUP`, by which the old program
  takes over again, in a new process, once the requests of the server before the new one have ended.
  `USR2` needs the sandbox; without it, use `saker upgrade`.
- `$request_body` has a value in locations that pass requests to an upstream, up to
  `client_body_buffer_size`. `$sent_http_content_type` of a 304 is that of the file.
- Slashes in the path of `X-Accel-Redirect` are merged.
- A path that a rule leaves without its slash (`rewrite ^/blog(.*)$ $1 last` and `/blogx`) has no file below a
  `root`; nginx looks for one beside the root.
- `*_cache_max_range_offset` counts where nothing is cached under the key.
- `merge_slashes` is that of the default server of the address.
- Failures of a member are counted for each set of settings that upstreams are asked with.
- `sticky learn` keeps its sessions until the next reload.
- Where servers or locations differ in `set_real_ip_from`, `real_ip_header`, or `real_ip_recursive`,
  the client's address is settled when the server is known, or the location: limits and bans of
  saker.toml's kind are then about the peer of the connection.
- The PROXY header is read from everyone who connects to an address with `proxy_protocol`, and names
  the client as `set_real_ip_from` says.
- `ssl_certificate` and `ssl_certificate_key` with variables know `$ssl_server_name`, and maps of it; others have no
  value before there is a request, and stop the start. A certificate that was loaded is kept while its files stay as they are. Such
  certificates are not stapled, and their keys have no passphrase. In `stream`, they are not supported.
- `$ssl_sigalg` and `$ssl_client_sigalg` are empty, as in nginx with OpenSSL before 3.5, and so are
  `$quic_connection` and `$upstream_queue_time`. `$ssl_ciphers` and `$ssl_curves` are empty for HTTP/3.
- HTTP/2 and HTTP/3: a request that RFC 9113, section 8.1.1, calls malformed gets 400, also where nginx 1.22 takes it
  (a field of the connection, blanks around a value). Content over HTTP/3 of another length than announced has its
  stream reset.
- A server that asks for client certificates must be found by a name without patterns: a connection
  whose handshake followed another server's policy gets 421.

## Streams

`stream` proxies TCP and UDP on the same workers, with the limits of connections that HTTP has, too.
A reload gives new sessions the new configuration; those that are open stay with their member, and a
graceful stop waits for them until `worker_shutdown_timeout`. An idle session holds its sockets and no
buffer. `hash`, `hash … consistent`, and `ip_hash` lead a key to the member that nginx has for it.

- An address has one server; `server_name` and `pass` do not share it.
- Each worker balances by its own count of sessions and failures. With one worker the order is
  nginx's.
- A member whose name has several addresses is one member, whose addresses are used in turn.
- When all members have failed lately, they are tried all the same.
- `$ssl_preread_server_name` is in lower case.
- `proxy_ssl_name` has no variables.
- A UDP session is counted as a connection. At most 64 datagrams of a client wait for their member.

## Caches

`proxy_cache` and its kin keep responses under the keys of the configuration, as nginx does: requests that
make the same key in the same zone get the same response, whatever their cookies and fields, except for fields that the response names in `Vary`. Not stored is what nginx does not store:
responses with `Set-Cookie`, `Vary: *`, `private`, `no-cache`, `no-store`, or a lifetime that is over,
unless `*_ignore_headers` says so. `$upstream_cache_status` has nginx's words. What differs:

- Entries of all zones are in one store below the state directory, not in the directories of
  `*_cache_path`; the sum of `max_size` limits it. `saker purge URL` reaches them.
- An entry is kept for `inactive` after its lifetime, and for a week where `*_cache_use_stale` may use
  it, so that it outlasts a failure of the upstream.
- `*_cache` without `*_cache_key` is refused, except for `proxy_cache`: all requests would get one
  response. So is a key with `$request_body_file`.
- A response to a POST whose key has `$request_body` is cached if the content fits into
  `client_body_buffer_size`. Responses that Saker makes because no upstream answered are not cached.
- A response that could not be stored is not waited for again for two seconds (`*_cache_lock`).

## Content

- `sub_filter`, `ssi`, and `add_before_body` leave content that is encoded as it is; `gunzip` decodes
  it before. Conditions of SSI may be nested; of one that can't be
  evaluated, no branch is sent. Includes are asked for one after the other.
- Copies of `mirror` have at most 1 MiB of content; requests with more are copied without it.
- `slice` asks for one part after the other. A part of another version than the first breaks the
  response off.
- `proxy_store` needs a directory, or `$document_root` or `$realpath_root`, before its first other
  variable.
- `dav_methods` and `proxy_store` write no file through a symbolic link out of the root; `dav_methods`
  asks the location of a destination for permission, and an upload without its directory gets 409.
- MP4 files with a `start` or an `end` have the samples that nginx's have, and an index of their own form.
- `limit_rate` counts the content of a response, and not its head.
- A client that ends its side of a connection has left where an upstream is silent, as in nginx; a response
  that is here goes on to it. Requests whose response a cache may take go on without their client.
- `gzip` compresses for `Accept-Encoding: *` and `x-gzip`, too; `gunzip` and `gzip_static` read the field as
  nginx does. `Vary` is sent for every file that others may get compressed. A `304` of `return` tells no length.
- Responses of upstreams whose length or framing can be read in two ways get 502, as later versions of nginx
  answer them; those with a field that is none, too. Blanks behind the size of a chunk, and lines that end with
  a bare LF, are accepted.
- A COPY or MOVE within its own folder, and onto itself, is refused; `Depth: 0` copies a folder without
  what is in it. `dav_methods` makes an empty file of a PUT without content.
- `source_charset` has no variables. Content is converted after `sub_filter` and before SSI.
- `*_force_ranges` sends several ranges of cached responses alone, as nginx does. Without
  `max_ranges`, a response has at most 2,000 ranges.

## Requests that no cached answer serves

Answers of locations whose rules look at the path, and at parts of the request that a test can
express (fields, query, method, scheme, the client's network in `allow` and `deny`), are kept and
sent again without evaluating them. Upstreams, users, limits, listings, error pages at other paths,
conditions and variables of access logs, and variables about the client or the time are evaluated
for each request.

## Directives

- **honored**: does what nginx's documentation says. *Nothing to observe*: by that documentation it
  changes nothing that a client, a log, or a tool sees, and nothing is missing, for the reason given.
- **no effect**: read and checked; nothing is missing, for the reason given.
- **not honored**: read and checked, with what follows. `saker check --nginx` lists them.
- **refused**: the server does not start with it, because it would leave open what nginx closes.

";

/// `docs/nginx.md`
pub fn reference_markdown() -> String {
    let mut page = format!("{HEAD}{}", summary());
    for (module, rows) in MODULES {
        let _ = write!(
            page,
            "\n### {module}\n\n| directive | where | |\n| --- | --- | --- |\n"
        );
        for row in *rows {
            let _ = writeln!(page, "| `{}` | {} | {} |", row.name, places(row), what(row));
        }
    }
    page
}

/// The numbers of directives by their effect.
fn summary() -> String {
    let count = |wanted: fn(&Support) -> bool| {
        let rows = of_open_source().filter(|row| wanted(&row.support));
        rows.count()
    };
    let honored = count(|support| support.is_honored());
    let internal = count(|support| matches!(support, Support::Internal(_)));
    let idle = count(|support| matches!(support, Support::Accepted(_)));
    let is_missing =
        |row: &&Row| matches!(row.support, Support::Unsupported(_) | Support::Refused(_));
    let mut missing: Vec<&str> = of_open_source()
        .filter(is_missing)
        .map(|row| row.name)
        .collect();
    missing.sort_unstable();
    missing.dedup();
    let all = of_open_source().count();
    let others = rows().count() - all;
    format!(
        "The open-source modules of nginx without `mail` have {all} directives in these tables: \
         {honored} are honored ({internal} of them change nothing that can be observed), {idle} have no \
         effect that would be missed, and {} are not honored. \
         A name in `http` and in `stream` counts twice. {others} further ones are of `mail`, of the \
         commercial subscription, of modules that are released apart from nginx, or of older \
         versions.\n\nNot honored: `{}`.\n",
        all - honored - idle,
        missing.join("`, `")
    )
}

fn places(row: &Row) -> String {
    let known = contexts::NAMES
        .iter()
        .filter(|(bit, _)| row.contexts & bit != 0);
    let names: Vec<&str> = known.map(|(_, name)| *name).collect();
    names.join(", ")
}

fn what(row: &Row) -> String {
    match row.support {
        Support::Honored => "**honored**".into(),
        Support::Internal(why) => format!("**honored**, nothing to observe: {why}"),
        Support::Accepted(why) => format!("no effect: {why}"),
        Support::Unsupported(what) => format!("not honored: {what}"),
        Support::Refused(why) => format!("refused: {why}"),
    }
}
