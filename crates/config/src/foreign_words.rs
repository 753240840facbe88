//! Words of nginx, Apache, Caddy, HAProxy, Traefik, Varnish, and lighttpd, with the native key and
//! an example.
//!
//! Called by: `unknown_key`, and `load` for lines that are no TOML.
//! Caveat: words are compared without case and separators, so `server_name` and `ServerName` are one
//! word.
//! Out of scope: names that differ from a native key by little (`aliases` of the rows, `suggest`).

use crate::{
    context::{
        AUTH, CACHE, COMPRESSION, Contexts, FILE, LIMITS, LISTENER, MATCHER, ROUTE, SERVER, SITE,
        SITE_TLS, THROTTLE, UPSTREAM, WHEN,
    },
    suggest,
};

/// Words that mean the same.
#[derive(Debug)]
struct ForeignWord {
    /// Separated by blanks.
    words: &'static str,
    home: Contexts,
    key: &'static str,
    /// Keys of the table, one a line.
    example: &'static str,
}

const fn word(
    words: &'static str,
    home: Contexts,
    key: &'static str,
    example: &'static str,
) -> ForeignWord {
    ForeignWord {
        words,
        home,
        key,
        example,
    }
}

/// Sorted by what they are about.
#[rustfmt::skip]
const WORDS: &[ForeignWord] = &[
    // Sites and listeners.
    word("server_name ServerAlias server_names vhost VirtualHost", SITE, "names", "names = [\"example.org\", \"www.example.org\"]"),
    word("DocumentRoot server.document-root", SITE, "root", "root = \"/srv/www\""),
    word("listen server.port server.bind bind entryPoints", LISTENER, "address", "address = \":80\""),
    word("DirectoryIndex index-file.names index-file index_files", SITE, "index", "index = [\"index.html\", \"index.php\"]"),
    word("autoindex dir-listing.activate dir-listing browse", SITE, "listing", "listing = true"),
    word("file_server static-file serve_static", ROUTE, "alias", "path = \"/files/*\"\nalias = \"/srv/files\""),
    word("error_page ErrorDocument handle_errors errorfile errorfiles server.errorfile-prefix server.error-handler-404 error-handler", SITE, "error_pages", "error_pages = { 404 = \"/404.html\" }"),
    word("access_log CustomLog TransferLog log_format accesslog.filename option_httplog", SITE, "access_log", "access_log = \"/var/log/saker/example.org.log\""),
    word("error_log server.errorlog", SERVER, "error_log", "error_log = \"/var/log/saker/error.log\""),
    word("worker_processes nbthread nbproc server.max-worker StartServers MaxRequestWorkers", SERVER, "workers", "workers = 4"),
    word("set_real_ip_from real_ip_header real_ip_recursive RemoteIPHeader RemoteIPTrustedProxy forwardedHeaders.trustedIPs", SERVER, "trusted_proxies", "trusted_proxies = [\"10.0.0.0/8\"]"),
    word("ssl_certificate ssl_certificate_key SSLCertificateFile SSLCertificateKeyFile ssl.pemfile ssl.privkey certFile keyFile", SITE_TLS, "certificate", "certificate = \"site.pem\"\nkey = \"site.key\""),
    word("ssl_protocols SSLProtocol ssl-min-ver minVersion", SITE_TLS, "minimum_version", "minimum_version = \"1.2\""),
    word("certResolver certificatesResolvers MDomain MDCertificateAgreement on_demand_tls auto_https", SITE_TLS, "automatic", "automatic = true"),
    word("https ssl letsencrypt acme", SITE, "tls", "tls = { automatic = true }"),
    word("ssl_engine ssl.engine https ssl", LISTENER, "tls", "address = \":443\"\ntls = true"),
    // Routes.
    word("handle_path", ROUTE, "path", "path = \"/api/*\"\nproxy = \"http://127.0.0.1:3000\"\nstrip_prefix = \"/api\""),
    word("location LocationMatch handle route_path url-path PathPrefix Directory DirectoryMatch FilesMatch", ROUTE, "path", "path = \"/img/*\"\nlisting = true"),
    word("try_files FallbackResource try_file url.rewrite-if-not-file", ROUTE, "try_files", "path = \"/*\"\ntry_files = [\"$uri\", \"$uri/\", \"/index.php?$args\"]"),
    word("rewrite RewriteRule RewriteEngine RewriteCond RewriteBase uri url.rewrite-once url.rewrite url.rewrite-repeat replacePath replacePathRegex set-path", ROUTE, "rewrite", "path = \"/old/*\"\nrewrite = \"/new/$1\""),
    word("redir Redirect RedirectMatch RedirectPermanent url.redirect redirectRegex redirectScheme permanent http-request_redirect", ROUTE, "redirect", "path = \"/old/*\"\nredirect = \"/new/$1\"\nstatus = 301"),
    word("return respond synth http-request_return", ROUTE, "respond", "path = \"/gone\"\nrespond = \"gone\"\nstatus = 410"),
    word("internal_only internal", ROUTE, "internal", "path = \"/protected/*\"\ninternal = true"),
    word("map", FILE, "map", "map.moved = { source = \"$uri\", exact = { \"/old\" = \"/new\" } }"),
    word("if ifs acl matcher_if if_request_method http-request_deny", ROUTE, "match", "match = { method = \"POST\" }\ndeny = true"),
    word("deny_all deny allow Require Order Satisfy allow_from remote_ip ipAllowList ipWhiteList", ROUTE, "match", "match = { path = \"/admin/*\", not = { client = \"10.0.0.0/8\" } }\ndeny = true"),
    word("error_page_404 RewriteMap", FILE, "map", "map.moved = { source = \"$uri\", file = \"redirects.txt\" }"),
    word("user_agent http_user_agent BrowserMatch header_regexp", MATCHER, "header", "header = { User-Agent = \"~*bot\" }"),
    word("ip src geo", MATCHER, "client", "client = \"192.0.2.0/24\""),
    word("Options", SITE, "listing", "listing = false"),
    // Upstreams.
    word("proxy_pass ProxyPassMatch reverse_proxy proxy.server default_backend use_backend forward_to php_fastcgi_proxy", ROUTE, "proxy", "path = \"/app/*\"\nproxy = \"http://127.0.0.1:3000\""),
    word("websocket websockets proxy_http_version upgrade_websocket", ROUTE, "proxy", "path = \"/socket\"\nproxy = \"http://127.0.0.1:3000\""),
    word("fastcgi_pass php_fastcgi fastcgi.server SetHandler AddHandler fastcgi", SITE, "php", "php = \"unix:/run/php/php-fpm.sock\""),
    word("uwsgi_pass", ROUTE, "proxy", "path = \"/*\"\nproxy = \"uwsgi://127.0.0.1:3031\""),
    word("scgi_pass scgi.server", ROUTE, "proxy", "path = \"/*\"\nproxy = \"scgi://127.0.0.1:4000\""),
    word("grpc_pass", ROUTE, "proxy", "path = \"/*\"\nproxy = \"h2c://127.0.0.1:50051\""),
    word("proxy_set_header header_up RequestHeader http-request_set-header customRequestHeaders fastcgi_pass_header", ROUTE, "upstream_headers", "path = \"/app/*\"\nproxy = \"http://127.0.0.1:3000\"\nupstream_headers = { X-Real-IP = \"$remote_addr\" }"),
    word("fastcgi_param uwsgi_param scgi_param SetEnv setenv.add-environment PassEnv", SITE, "environment", "environment = { APP_ENV = \"production\" }"),
    word("proxy_redirect ProxyPassReverse", ROUTE, "rewrite_redirects", "path = \"/app/*\"\nproxy = \"http://127.0.0.1:3000\"\nrewrite_redirects = false"),
    word("ProxyPreserveHost passHostHeader", ROUTE, "preserve_host", "path = \"/app/*\"\nproxy = \"http://127.0.0.1:3000\"\npreserve_host = false"),
    word("proxy_read_timeout proxy_send_timeout fastcgi_read_timeout ProxyTimeout timeout_server", ROUTE, "proxy_timeout", "path = \"/app/*\"\nproxy = \"http://127.0.0.1:3000\"\nproxy_timeout = \"5m\""),
    word("proxy_connect_timeout fastcgi_connect_timeout timeout_connect", UPSTREAM, "connect_timeout", "name = \"app\"\nservers = [\"http://127.0.0.1:3000\"]\nconnect_timeout = \"5s\""),
    word("upstream backend loadBalancer BalancerMember balance_roundrobin", FILE, "upstream", "upstream = [{ name = \"app\", servers = [\"http://127.0.0.1:3000\", \"http://127.0.0.1:3001\"] }]"),
    word("least_conn ip_hash lb_algorithm lbmethod lb_policy", UPSTREAM, "balance", "name = \"app\"\nservers = [\"http://127.0.0.1:3000\", \"http://127.0.0.1:3001\"]\nbalance = \"least-requests\""),
    word("health_check health_uri httpchk option_httpchk", UPSTREAM, "health_path", "name = \"app\"\nservers = [\"http://127.0.0.1:3000\"]\nhealth_path = \"/health\""),
    word("stripPrefix strip_path_prefix uri_strip_prefix", ROUTE, "strip_prefix", "path = \"/api/*\"\nproxy = \"http://127.0.0.1:3000\"\nstrip_prefix = \"/api\""),
    word("auth_request forward_auth", SITE, "authorize", "authorize = \"http://127.0.0.1:9091\"\nauthorize_path = \"/auth\""),
    // Who may.
    word("auth_basic auth_basic_user_file AuthType AuthName AuthUserFile basicauth auth.require auth.backend.htpasswd.userfile http_auth", SITE, "auth", "auth = { realm = \"Staff\", user_file = \"users\" }"),
    word("limit_req limit_req_zone rate_limit stick-table mod_evasive", SITE, "throttle", "throttle = { requests_dynamic = { rate = \"10/s\", burst = 20 } }"),
    word("limit_rate limit_rate_after SetOutputFilter_RATE_LIMIT connection.kbytes-per-second", THROTTLE, "out_per_connection", "out_per_connection = \"1MB/s\""),
    word("limit_conn limit_conn_zone maxconn inFlightReq evasive.max-conns-per-ip", LIMITS, "connections_per_address", "connections_per_address = 100"),
    word("client_max_body_size LimitRequestBody request_body max_size server.max-request-size maxRequestBodyBytes", SITE, "body_size", "body_size = \"20MB\""),
    word("keepalive_timeout server.max-keep-alive-idle timeout_http-keep-alive idle_timeout", LIMITS, "keep_alive_timeout", "keep_alive_timeout = \"60s\""),
    word("client_header_timeout RequestReadTimeout timeout_http-request read_header", LIMITS, "head_timeout", "head_timeout = \"10s\""),
    word("large_client_header_buffers LimitRequestFieldSize LimitRequestLine max_header_size", LIMITS, "head_size", "head_size = \"32KiB\""),
    // Responses.
    word("add_header more_set_headers header http-response_set-header customResponseHeaders setenv.add-response-header setenv.set-response-header header_down", SITE, "headers", "headers = { X-Frame-Options = \"DENY\" }"),
    word("expires ExpiresActive ExpiresByType ExpiresDefault expire.url", ROUTE, "headers", "path = \"*.css\"\nheaders = { Cache-Control = \"max-age=604800\" }"),
    word("gzip gzip_types brotli encode deflate.mimetypes compress.filetype AddOutputFilterByType compression_algo", SITE, "compression", "compression = { types = [\"image/svg+xml\"] }"),
    word("gzip_comp_level DeflateCompressionLevel brotli_comp_level", COMPRESSION, "gzip_level", "gzip_level = 6"),
    word("gzip_static brotli_static precompress", SITE, "precompressed", "precompressed = true"),
    word("proxy_cache fastcgi_cache uwsgi_cache proxy_cache_valid fastcgi_cache_valid proxy_cache_key CacheEnable vcl_backend_response beresp.ttl cache_policy", SITE, "cache", "cache = { ttl = \"10m\" }"),
    word("proxy_cache_path fastcgi_cache_path CacheRoot", FILE, "cache", "cache = { folder = \"/var/cache/saker\", size = \"10GB\" }"),
    word("valid default_ttl beresp_ttl CacheDefaultExpire", CACHE, "ttl", "ttl = \"10m\""),
    word("key cache_key hash_data vary_by", CACHE, "key_headers", "key_headers = [\"X-App\"]"),
    word("cache_bypass no_cache proxy_cache_bypass proxy_no_cache fastcgi_cache_bypass fastcgi_no_cache CacheDisable bypass skip skip_cache exclude", WHEN, "cache", "match = { cookie = { session = true } }\ncache = false"),
    word("use_stale proxy_cache_use_stale fastcgi_cache_use_stale", CACHE, "stale_if_error", "stale_if_error = \"1h\""),
    word("expires ExpiresDefault add_header header", WHEN, "headers", "match = { path = \"*.css\" }\nheaders = { Cache-Control = \"max-age=604800\" }"),
    word("hsts stsSeconds strict_transport_security", SITE, "headers", "headers = { Strict-Transport-Security = \"max-age=63072000\" }"),
    word("cors access_control_allow_origin", SITE, "headers", "headers = { Access-Control-Allow-Origin = \"https://app.example\" }"),
    word("access_log_format log_fields", SITE, "access_log", "access_log = { path = \"access.log\", format = \"json\" }"),
    word("default_type AddType types mimetype.assign", SITE, "types", "types = { gpx = \"application/gpx+xml\" }"),
    word("AllowOverride AccessFileName", SITE, "htaccess", "htaccess = true"),
    word("sub_filter Substitute replace_response", SITE, "substitute", "substitute = [\"s/old/new/n\"]"),
    word("valid_referers", SITE, "hotlink", "hotlink = { allow = [\"own\", \"friend.example\"] }"),
    word("AuthLDAPURL auth_ldap auth_ldap_servers auth.backend.ldap", SITE, "auth", "auth = { ldap = { url = \"ldaps://ldap.example.org\", base = \"ou=people,dc=example,dc=org\" } }"),
    word("auth_jwt auth_jwt_key_file jwt jwtauth", SITE, "auth", "auth = { jwt = { algorithms = [\"RS256\"], keys_url = \"https://id.example.org/.well-known/jwks.json\" } }"),
    word("oidc openid_connect OIDCProviderMetadataURL OIDCClientID", SITE, "auth", "auth = { oidc = { issuer = \"https://id.example.org\", client_id = \"shop\" } }"),
    word("UserDir userdir.path", SITE, "user_directories", "user_directories = true"),
    word("Dav dav_methods dav_ext_methods dav_access create_full_put_path webdav.activate", SITE, "webdav", "webdav = true"),
    word("stub_status server_status status.status-url prometheus mod_status", FILE, "metrics", "metrics = { address = \"127.0.0.1:9145\" }"),
    word("opentelemetry otel otel_exporter otel_trace", FILE, "tracing", "tracing = { endpoint = \"http://127.0.0.1:4318\" }"),
    word("proxy_protocol accept-proxy RemoteIPProxyProtocol", LISTENER, "proxy_protocol_from", "address = \":80\"\nproxy_protocol_from = [\"10.0.0.0/8\"]"),
    word("import IncludeOptional", FILE, "include", "include = [\"conf.d/*.toml\"]"),
    word("user_directory auth_digest auth_digest_user_file", AUTH, "user_file", "user_file = \"users\""),
];

/// Blocks of other servers' files, in lines that are no TOML.
const BLOCKS: &[(&str, &str)] = &[
    ("root", "root = \"/srv/www\" in [[site]]"),
    (
        "index",
        "index = [\"index.html\", \"index.php\"] in [[site]]",
    ),
    ("server", "[[site]] with names = [\"example.org\"]"),
    (
        "http",
        "nothing around [[site]]; `saker run --nginx FILE` runs nginx's file as it is",
    ),
    (
        "events",
        "nothing; `saker run --nginx FILE` runs nginx's file as it is",
    ),
    ("frontend", "[[listener]] and [[site]]"),
    ("defaults", "[limits]"),
    ("global", "[server]"),
    (
        "sub",
        "[[site.route]] and [site.cache] (docs/coming-from-varnish.md)",
    ),
    ("<IfModule", "nothing: features need no modules"),
    ("<Directory", "[[site.route]] with path = \"/img/*\""),
    (
        "<VirtualHost",
        "[[site]] with names = [\"example.org\"]; `saker run --apache FILE` runs Apache's file as it is",
    ),
    ("<Location", "[[site.route]] with path = \"/img/*\""),
    ("<Files", "[[site.route]] with path = \"*.inc\""),
    ("LoadModule", "nothing: features need no modules"),
    ("vcl", "[site.cache] (docs/coming-from-varnish.md)"),
];

/// The native key for a word of another server.
pub struct Advice {
    pub key: &'static str,
    /// Table of the example.
    pub home: Contexts,
    example: &'static str,
}

impl Advice {
    /// Returns true if the word is one that people write in this table.
    pub fn is_for(&self, context: Contexts) -> bool {
        self.home == context || (self.home == WHEN && context == CACHE)
    }

    /// One line with the key, a table that has it, and an example.
    pub fn text(&self, table: Contexts) -> String {
        let example = self.example.replace('\n', ", ");
        format!("use `{}` {}: {example}", self.key, table.location())
    }
}

/// Returns the advice for a word in a table, if another server has it.
pub fn advice(word: &str, context: Contexts) -> Option<Advice> {
    let rows = || WORDS.iter().filter(|row| row.is(word));
    let row = rows()
        .find(|row| row.home == context)
        .or_else(|| rows().next())?;
    Some(Advice {
        key: row.key,
        home: row.home,
        example: row.example,
    })
}

/// Returns the advice for a line that is no TOML, if it seems to be of another server's file.
pub fn advice_for_line(line: &str) -> Option<String> {
    let line = line.trim_start();
    let end = line
        .find(|c: char| c.is_whitespace() || matches!(c, ';' | '{' | '=' | '>' | '"'))
        .unwrap_or(line.len());
    let (first, rest) = line.split_at(end);
    if rest.trim_start().starts_with('=') || first.is_empty() {
        return None;
    }
    if let Some((_, instead)) = BLOCKS.iter().find(|(name, _)| *name == first) {
        return Some(format!("this file is TOML: write {instead}"));
    }
    let found = advice(first.trim_start_matches('<'), FILE)?;
    Some(format!("this file is TOML: {}", found.text(found.home)))
}

impl ForeignWord {
    fn is(&self, word: &str) -> bool {
        self.words
            .split(' ')
            .any(|known| suggest::same_word(known, word))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{directives::catalog, parse};
    use std::path::Path;

    /// Every native key exists where the row says, and its example is read without a diagnostic
    /// about it.
    #[test]
    fn keys_exist_and_examples_are_read() {
        let mut wrong = Vec::new();
        for row in WORDS {
            assert!(
                catalog().find(row.key, row.home).is_some(),
                "{}: no key `{}` {}",
                row.words,
                row.key,
                row.home.location()
            );
            let text = configuration(row);
            let folder = std::env::temp_dir();
            if let Err(diagnostics) = parse(&text, "saker.toml", Path::new(&folder)) {
                let told = diagnostics.to_string();
                let is_incomplete =
                    told.lines()
                        .filter(|line| line.contains("error:"))
                        .all(|line| {
                            ["cannot read", "No such file", "certificate"]
                                .iter()
                                .any(|part| line.contains(part))
                        });
                if !is_incomplete {
                    wrong.push(format!("{}\n{text}\n{told}", row.words));
                }
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }

    /// The example in its table, in a configuration that is complete otherwise.
    fn configuration(row: &ForeignWord) -> String {
        let site = match row.example.starts_with("root = ") {
            true => "[[site]]\n",
            false => "[[site]]\nroot = \".\"\n",
        };
        let listener = "[[listener]]\naddress = \"127.0.0.1:8080\"\n";
        let example = row.example;
        if row.home == FILE {
            return format!("{example}\n{listener}{site}");
        }
        if row.home == LISTENER {
            return format!("[[listener]]\n{example}\n{site}");
        }
        let inside = [
            (SITE, ""),
            (ROUTE, "[[site.route]]\n"),
            (SITE_TLS, "[site.tls]\n"),
            (THROTTLE, "[site.throttle]\n"),
            (COMPRESSION, "[site.compression]\n"),
            (AUTH, "[site.auth]\nrealm = \"Staff\"\n"),
            (CACHE, "[site.cache]\n"),
            (WHEN, "[[site.when]]\n"),
            (MATCHER, "[[site.route]]\ndeny = true\n[site.route.match]\n"),
        ];
        if let Some((_, header)) = inside.iter().find(|(home, _)| *home == row.home) {
            let secure = match row.home == SITE_TLS {
                true => "[[listener]]\naddress = \"127.0.0.1:8443\"\ntls = true\n",
                false => "",
            };
            return format!("{listener}{secure}{site}{header}{example}\n");
        }
        let outside = [
            (SERVER, "[server]\n"),
            (LIMITS, "[limits]\n"),
            (UPSTREAM, "[[upstream]]\n"),
        ];
        let header = outside
            .iter()
            .find(|(home, _)| *home == row.home)
            .map_or("", |(_, header)| header);
        format!("{listener}{site}{header}{example}\n")
    }

    #[test]
    fn no_word_is_in_two_rows_of_a_table() {
        let words = |row: &'static ForeignWord| row.words.split(' ').map(move |word| (row, word));
        let all: Vec<(&ForeignWord, &str)> = WORDS.iter().flat_map(words).collect();
        for (at, (row, one)) in all.iter().enumerate() {
            for (other_row, other) in &all[at + 1..] {
                let is_same = row.home == other_row.home && suggest::same_word(one, other);
                assert!(!is_same, "{one} and {other}");
            }
        }
    }

    #[test]
    fn lines_of_other_servers() {
        for (line, part) in [
            (
                "    proxy_pass http://127.0.0.1:3000;",
                "`proxy` in [[site.route]]",
            ),
            ("server {", "[[site]]"),
            ("  ServerName example.org", "`names` in [[site]]"),
            ("<VirtualHost *:80>", "[[site]]"),
            ("reverse_proxy localhost:9000", "`proxy`"),
            ("root * /srv/www", "root = "),
            ("root = \"/srv", ""),
            ("names = [\"a\"", ""),
            ("proxy_pass = x", ""),
        ] {
            let found = advice_for_line(line);
            match part {
                "" => assert_eq!(found, None, "{line}"),
                part => assert!(
                    found.as_ref().is_some_and(|advice| advice.contains(part)),
                    "{line}: {found:?}"
                ),
            }
        }
    }
}
