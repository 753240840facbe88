//! Keys of `saker.toml` that no scenario can prove, with the Rust tests that do.
//!
//! Called by: the check of keys. Caveat: a row says why requests and responses are not enough: what
//! the key acts on is not in them, or needs what a scenario has none of (a second server, bytes on
//! the wire, real time, users of the machine). A key that a scenario uses may not be here.
//! Out of scope: errors and hints of these keys, which golden files have like those of any other.

use saker_config::KeyUse;

/// Keys of one table with one test.
pub struct Outside {
    /// Header of the table.
    pub table: &'static str,
    /// Separated by spaces.
    pub keys: &'static str,
    /// File below the server's tests, and function.
    pub test: &'static str,
    /// Not in the findings: for readers of the table.
    #[allow(dead_code, reason = "for readers")]
    pub reason: &'static str,
}

impl Outside {
    pub fn names(&self, key: &KeyUse) -> bool {
        key.tables.contains(&self.table) && self.keys.split(' ').any(|name| name == key.name)
    }
}

const fn row(
    table: &'static str,
    keys: &'static str,
    test: &'static str,
    reason: &'static str,
) -> Outside {
    Outside {
        table,
        keys,
        test,
        reason,
    }
}

/// Rows by table, in the order of the reference.
pub const OUTSIDE: &[Outside] = &[
    row(
        "the top of the file",
        "acme",
        "operation/acme.rs::by_http_and_kept_over_a_restart",
        "a certificate authority",
    ),
    row(
        "the top of the file",
        "cluster",
        "operation/cluster/outages.rs::a_server_that_was_away_for_longer_than_the_log_clears_its_cache",
        "several servers",
    ),
    row(
        "the top of the file",
        "metrics",
        "serving/observability.rs::metrics_are_for_those_who_may_read_them",
        "an address of its own",
    ),
    row(
        "the top of the file",
        "console",
        "operation/console/log_in.rs::passwords_roles_and_the_end_of_sessions",
        "an address of its own",
    ),
    row(
        "the top of the file",
        "server",
        "operation/start.rs::workers_keep_to_their_cores",
        "every scenario begins in it",
    ),
    row(
        "the top of the file",
        "tls",
        "serving/tls_settings.rs::tickets_of_other_machines",
        "handshakes",
    ),
    row(
        "[server]",
        "workers affinity",
        "operation/start.rs::workers_keep_to_their_cores",
        "threads of the process",
    ),
    row(
        "[server]",
        "user group",
        "operation/start.rs::root_binds_and_then_is_somebody_else_for_good",
        "rights of the process",
    ),
    row(
        "[server]",
        "sandbox",
        "operation/sandbox.rs::a_worker_of_root_is_confined",
        "rights of the process",
    ),
    row(
        "[server]",
        "state_dir control_users",
        "adversarial/privileges.rs::control_is_for_root_and_named_users",
        "the control socket",
    ),
    row(
        "[server]",
        "watch",
        "operation/configuration_watch.rs::nothing_is_reloaded_without_it",
        "reloads",
    ),
    row(
        "[server]",
        "resource_memory resource_entries resource_file_max",
        "serving/listener_settings.rs::routes_are_kept_within_their_memory",
        "memory",
    ),
    row(
        "[server]",
        "shutdown_timeout",
        "operation/signals.rs::stopping_is_bounded",
        "the end of the process",
    ),
    row(
        "[server]",
        "error_log",
        "operation/preflight.rs::what_is_missing_is_named_with_its_line",
        "the error log",
    ),
    row(
        "[server]",
        "log_level",
        "operation/signals.rs::usr1_loses_no_line",
        "the error log",
    ),
    row(
        "[limits]",
        "buffer_files buffer_files_per_address",
        "adversarial/stalled_readers.rs::upstreams_that_never_stop_talking",
        "clients that do not read",
    ),
    row(
        "[limits]",
        "tls_handshake_timeout",
        "serving/tls_settings.rs::handshakes_have_their_time",
        "handshakes",
    ),
    row(
        "[limits]",
        "http2_streams",
        "serving/http2_limits.rs::concurrent_streams",
        "frames",
    ),
    row(
        "[limits]",
        "http2_resets",
        "serving/http2_limits.rs::resets",
        "frames",
    ),
    row(
        "[limits]",
        "http2_pings",
        "serving/http2_limits.rs::pings",
        "frames",
    ),
    row(
        "[limits]",
        "http2_settings",
        "serving/http2_limits.rs::settings",
        "frames",
    ),
    row(
        "[limits]",
        "http2_continuations",
        "serving/http2_limits.rs::continuations",
        "frames",
    ),
    row(
        "[tls]",
        "ticket_keys ticket_rotation",
        "serving/tls_settings.rs::tickets_of_other_machines",
        "handshakes of several machines",
    ),
    row(
        "[acme]",
        "directory challenges directory_ca",
        "operation/acme.rs::by_http_and_kept_over_a_restart",
        "a certificate authority",
    ),
    row(
        "[acme]",
        "email",
        "operation/acme.rs::sites_come_by_reload",
        "a certificate authority",
    ),
    row(
        "[acme]",
        "dns_command dns_wait",
        "operation/acme.rs::a_wildcard_by_a_record",
        "a certificate authority",
    ),
    row(
        "[acme]",
        "ask",
        "operation/acme.rs::on_demand_if_the_rule_allows",
        "a certificate authority",
    ),
    row(
        "{ url = \"...\", ... }",
        "url key_id hmac_key",
        "operation/acme.rs::accounts_are_bound_to_existing_ones",
        "a certificate authority",
    ),
    row(
        "[php]",
        "user group",
        "operation/preflight.rs::what_is_missing_is_named_with_its_line",
        "users of the machine",
    ),
    row(
        "[php]",
        "queue queue_timeout",
        "serving/php.rs::all_busy_means_waiting_and_then_503",
        "several clients and time",
    ),
    row(
        "[php]",
        "run_time requests idle_timeout",
        "serving/php.rs::processes_have_their_time_and_their_requests",
        "processes and time",
    ),
    row(
        "[php]",
        "pool_idle_timeout",
        "operation/users.rs::a_pool_of_php_for_each_user",
        "users of the machine, and time",
    ),
    row(
        "[cache]",
        "site_size",
        "serving/cache/cache_limits.rs::a_site_has_its_disk_space",
        "the disk",
    ),
    row(
        "[cache]",
        "warm warm_every",
        "serving/cache/cache_warm.rs::the_configuration_warms_it_up",
        "requests that the server makes by itself",
    ),
    row(
        "[cluster]",
        "url stream max_staleness retention",
        "operation/cluster/outages.rs::a_server_that_was_away_for_longer_than_the_log_clears_its_cache",
        "several servers",
    ),
    row(
        "[cluster]",
        "password_file ca_file node",
        "operation/cluster/secured.rs::tls_with_a_password_from_a_file",
        "several servers",
    ),
    row(
        "[abuse]",
        "exempt connections_soft grace",
        "serving/neighbours.rs::too_many_connections_for_too_long_are_a_ban",
        "connections and time",
    ),
    row(
        "[abuse]",
        "exempt_files ipv6_prefix",
        "serving/neighbours.rs::clients_of_a_network_count_as_one",
        "addresses of connections",
    ),
    row(
        "[abuse]",
        "bad_requests",
        "serving/neighbours.rs::what_is_no_http_is_a_ban",
        "bytes that are no request",
    ),
    row(
        "[abuse]",
        "refused_requests ban",
        "serving/neighbours.rs::requests_refused_too_often_are_a_ban",
        "bans close connections",
    ),
    row(
        "[metrics]",
        "address allow latencies",
        "serving/observability.rs::metrics_are_for_those_who_may_read_them",
        "an address of its own",
    ),
    row(
        "[console]",
        "address users names",
        "operation/console/log_in.rs::names_and_the_file_of_users_are_those_of_the_configuration",
        "an address of its own",
    ),
    row(
        "[console]",
        "tls",
        "operation/console/log_in.rs::under_tls_the_cookie_is_bound_to_the_host",
        "an address of its own",
    ),
    row(
        "[[listener]]",
        "mode",
        "serving/http1_connections.rs::unix_sockets",
        "sockets",
    ),
    row(
        "[[listener]]",
        "proxy_protocol_from",
        "serving/http1_connections.rs::prefaces_of_trusted_proxies_name_the_client",
        "bytes before the first request",
    ),
    row(
        "[[listener]]",
        "backlog",
        "serving/listener_settings.rs::the_queue_of_the_kernel",
        "sockets",
    ),
    row(
        "[[listener]]",
        "tls",
        "operation/console/log_in.rs::under_tls_the_cookie_is_bound_to_the_host",
        "every scenario over HTTP/3 has it",
    ),
    row(
        "[[listener]]",
        "strict_sni",
        "serving/http3.rs::strict_names_are_strict_here_too",
        "handshakes",
    ),
    row(
        "[[listener]]",
        "http2 http2_websockets",
        "serving/tunnels.rs::over_http2_only_where_the_listener_allows_it",
        "one protocol",
    ),
    row(
        "[[listener]]",
        "http3 http3_advertise",
        "serving/quic.rs::it_can_be_there_and_not_be_told_of",
        "one protocol",
    ),
    row(
        "[[listener]]",
        "http3_congestion",
        "serving/listener_settings.rs::every_congestion_control_delivers",
        "packets",
    ),
    row(
        "[[listener]]",
        "http3_early_data",
        "serving/listener_settings.rs::early_data_only_where_it_is_accepted",
        "handshakes",
    ),
    row(
        "[[listener]]",
        "http3_qlog",
        "serving/http3.rs::connections_are_recorded_where_that_is_wanted",
        "files of traces",
    ),
    row(
        "[[site]]",
        "tls",
        "serving/tls.rs::old_versions_are_refused_and_the_minimum_holds",
        "every scenario over HTTP/3 has it",
    ),
    row(
        "[[site]]",
        "https_redirect",
        "serving/tls.rs::plain_http_is_sent_to_https_where_the_site_wants_that",
        "listeners with and without TLS",
    ),
    row(
        "[[site]]",
        "media hls_fragment hls_max_age",
        "serving/media.rs::fragments_are_as_long_and_kept_as_long_as_is_set",
        "films, which ffmpeg makes",
    ),
    row(
        "[[site]]",
        "media_rate media_head_start",
        "serving/media.rs::a_film_is_sent_at_its_pace_behind_a_head_start",
        "films, and time",
    ),
    row(
        "[[site]]",
        "webdav_lock_database",
        "serving/webdav.rs::destinations_have_rules_of_their_own",
        "a file of the server",
    ),
    row(
        "[[site]]",
        "user group",
        "operation/users.rs::a_pool_of_php_for_each_user",
        "users of the machine",
    ),
    row(
        "[[site]]",
        "bot_verification",
        "serving/visitors.rs::robots_are_verified_by_name_and_back",
        "name servers",
    ),
    row(
        "[site.bot_verification]",
        "unverified agents resolver",
        "serving/visitors.rs::robots_are_verified_by_name_and_back",
        "name servers",
    ),
    row(
        "[site.tls]",
        "ocsp",
        "serving/tls_settings.rs::responses_of_files_are_stapled",
        "handshakes",
    ),
    row(
        "[site.tls]",
        "minimum_version",
        "serving/tls.rs::old_versions_are_refused_and_the_minimum_holds",
        "handshakes",
    ),
    row(
        "[site.tls]",
        "ciphers",
        "serving/tls_settings.rs::cipher_suites_are_those_of_the_list",
        "handshakes",
    ),
    row(
        "[site.tls]",
        "groups",
        "serving/tls_settings.rs::groups_are_those_of_the_list",
        "handshakes",
    ),
    row(
        "[site.tls]",
        "client_certificates client_ca client_crl",
        "serving/tls_settings.rs::revoked_certificates_are_refused",
        "certificates of clients",
    ),
    row(
        "[[site.tls.certificate]]",
        "certificate key ocsp",
        "serving/tls_settings.rs::responses_of_files_are_stapled",
        "handshakes",
    ),
    row(
        "[[upstream]]",
        "buffer buffer_file",
        "serving/upstream_settings.rs::responses_wait_in_files",
        "clients that do not read",
    ),
    row(
        "[site.cache]",
        "early_hints",
        "serving/cache/early_hints.rs::stored_pages_say_what_to_load",
        "interim responses, which HTTP/1.1 has none of",
    ),
    row(
        "[site.cache]",
        "include_hosts",
        "serving/cache/esi.rs::parts_of_sites_that_the_clients_listener_does_not_lead_to",
        "several listeners",
    ),
    row(
        "[site.throttle]",
        "out_per_connection",
        "serving/throttle.rs::a_connection_gets_its_bandwidth",
        "time",
    ),
    row(
        "[site.throttle]",
        "out_per_address",
        "serving/throttle.rs::connections_of_an_address_share_its_bandwidth",
        "time",
    ),
    row(
        "[site.throttle]",
        "out_per_site",
        "measured/system_calls.rs::with_throttling_that_does_not_bite",
        "time",
    ),
    row(
        "[site.throttle]",
        "in_per_connection in_per_address in_per_site",
        "serving/throttle.rs::an_upload_that_is_only_drained_is_paced",
        "time",
    ),
    row(
        "{ rate = \"1MB/s\", ... }",
        "rate burst after",
        "serving/throttle.rs::the_first_bytes_of_each_response_are_free",
        "time",
    ),
    row(
        "[site.user_directories]",
        "folder users deny php",
        "operation/configuration_commands.rs::pages_of_users",
        "users of the machine",
    ),
    row(
        "[site.auth.ldap]",
        "start_tls ca_file",
        "serving/identity.rs::a_directory_with_start_tls",
        "a directory with TLS",
    ),
    row(
        "[site.auth.jwt]",
        "leeway",
        "serving/identity/keys.rs::clocks_may_differ_by_the_leeway",
        "tokens made at the time of the test",
    ),
    row(
        "[site.auth.oidc]",
        "renew userinfo",
        "serving/identity.rs::sessions_are_renewed_and_outlive_a_provider_that_is_down",
        "a provider",
    ),
    row(
        "[site.auth.oidc]",
        "client_secret_file emails unverified_emails user_claim session_lifetime key_file",
        "serving/identity/keys.rs::users_of_a_provider_by_their_address",
        "a provider",
    ),
    row(
        "[site.auth.oidc]",
        "groups_claim",
        "serving/identity/keys.rs::groups_of_a_provider_by_their_claim",
        "a provider",
    ),
    row(
        "{ path = \"...\", ... }",
        "rotate",
        "serving/observability.rs::rotated_logs_lose_no_line_of_any_worker",
        "files of logs",
    ),
    row(
        "{ size = \"100MiB\", ... }",
        "size keep compress",
        "serving/observability.rs::rotated_logs_lose_no_line_of_any_worker",
        "files of logs",
    ),
    row(
        "{ size = \"100MiB\", ... }",
        "age",
        "serving/observability.rs::old_logs_are_rotated_and_few_are_kept",
        "files of logs",
    ),
    row(
        "{ to = \"http://...\", ... }",
        "timeout",
        "serving/observability.rs::copies_go_to_a_mirror_and_change_nothing",
        "the end of a copy, which no client sees",
    ),
    row(
        "[[listener]]",
        "addresses",
        "operation/reload.rs::listeners_come_and_go",
        "sockets",
    ),
    row(
        "[limits]",
        "connections",
        "serving/http1_limits.rs::connections",
        "connections and time",
    ),
    row(
        "[limits]",
        "requests_per_connection",
        "serving/http1_limits.rs::requests_per_connection",
        "connections and time",
    ),
    row(
        "[limits]",
        "head_timeout",
        "serving/http1_limits.rs::head_timeout_byte_by_byte",
        "connections and time",
    ),
    row(
        "[limits]",
        "body_timeout",
        "serving/http1_limits.rs::body_timeout",
        "connections and time",
    ),
    row(
        "[limits]",
        "keep_alive_timeout",
        "serving/http1_limits.rs::keep_alive_timeout",
        "connections and time",
    ),
    row(
        "[limits]",
        "write_timeout",
        "serving/http1_limits.rs::write_timeout_frees_readers_that_stop",
        "connections and time",
    ),
    row(
        "[limits]",
        "connections_per_address",
        "serving/http1_limits.rs::connections_per_address",
        "connections and time",
    ),
    row(
        "[[site]]",
        "flv_start",
        "serving/media.rs::flv_by_seconds_begins_at_the_key_frame",
        "films, which ffmpeg makes",
    ),
    row(
        "[[site]]",
        "media_index_max",
        "serving/media.rs::hostile_files_are_refused_and_said",
        "films, which ffmpeg makes",
    ),
    row(
        "[site.auth.jwt]",
        "ca_file",
        "serving/identity/keys.rs::authorities_of_issuers_are_those_of_the_file",
        "an issuer with TLS",
    ),
    row(
        "[site.auth.oidc]",
        "client_secret domains logged_out",
        "serving/identity.rs::browsers_log_in_at_a_provider",
        "a log-in at a provider",
    ),
    row(
        "[dynamic_vhosts]",
        "database",
        "serving/hosts.rs::what_is_known_is_not_asked_for_again_until_it_is_purged",
        "the number of questions to a database",
    ),
    row(
        "[dynamic_vhosts]",
        "entries_missing",
        "serving/hosts.rs::rows_of_sqlite_over_every_protocol",
        "memory",
    ),
    row(
        "[dynamic_vhosts]",
        "entries",
        "serving/hosts.rs::few_hosts_are_kept",
        "memory",
    ),
    row(
        "[dynamic_vhosts]",
        "ldap_base ldap_user ldap_password",
        "serving/hosts.rs::entries_of_a_directory",
        "a directory with a class of its own",
    ),
    row(
        "[dynamic_vhosts]",
        "keep_stale",
        "serving/hosts_outage.rs::known_hosts_last_as_long_as_is_set",
        "a database that stops",
    ),
    row(
        "[site.tls]",
        "automatic",
        "operation/acme.rs::by_http_and_kept_over_a_restart",
        "a certificate authority",
    ),
    row(
        "[site.tls]",
        "certificate key",
        "serving/tls.rs::old_versions_are_refused_and_the_minimum_holds",
        "handshakes",
    ),
    row(
        "[site.auth.ldap]",
        "cache",
        "serving/identity.rs::a_directory_that_is_down_denies",
        "a directory that stops",
    ),
    row(
        "[dynamic_vhosts]",
        "timeout",
        "serving/hosts_outage.rs::where_nobody_answers_there_is_a_time_limit",
        "a database that is silent",
    ),
    row(
        "[site.auth.oidc]",
        "ca_file",
        "serving/identity/keys.rs::authorities_of_issuers_are_those_of_the_file",
        "a provider with TLS",
    ),
    row(
        "[dynamic_vhosts]",
        "connections",
        "serving/hosts_outage.rs::known_hosts_last_as_long_as_is_set",
        "the number of questions to a database",
    ),
];
