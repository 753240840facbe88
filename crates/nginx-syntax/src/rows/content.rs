//! Directives of filters, handlers, variables, logs, and TLS.

use super::{
    Body, MANY, Row,
    Support::{Accepted, Honored, Refused, Unsupported},
    block,
    contexts::{HTTP, LIMIT_EXCEPT, LOCATION, LOCATION_IF, SERVER},
    plain,
};

const HS: u32 = HTTP | SERVER;
const HSL: u32 = HTTP | SERVER | LOCATION;
const HSLI: u32 = HSL | LOCATION_IF;
const BUFFERS: &str = "buffers grow as needed, within the limits of the server";
const HASHES: &str = "tables grow as needed";

const NO_BODY_FILTERS: &str = "the text is not added to responses";
const NO_SSI: &str = "pages are sent with their SSI commands unprocessed; use `ssi` of saker.toml";
const NO_SUB: &str = "texts are sent unchanged; use `substitute` of saker.toml";
const NO_XSLT: &str = "XML is sent as it is; let the application transform it";
const NO_IMAGES: &str = "images are sent as they are; let the application transform them";
const NO_PERL: &str = "there is no Perl interpreter; let an application behind FastCGI do it";
const NO_USERID: &str = "the cookie is not set";
const NO_DAV: &str = "write methods are refused with 405";
const NO_MEDIA: &str = "the file is sent whole; players then seek by ranges";
const NO_SLICE: &str = "ranges are asked for as clients ask for them";
const NO_BROWSER: &str = "the variables are empty";
const NO_GEOIP: &str = "the variables are empty; use `geo`, or `locate` of saker.toml";
const NO_ACME: &str = "no certificate is ordered; use `[site.tls] automatic` of saker.toml";
const NO_TRACING: &str = "requests are not traced; use `[tracing]` of saker.toml";
const GUNZIP: &str = "compressed responses are passed on as they are";

pub const FILTERS: &[Row] = &[
    plain("add_after_body", HSL, 1, 1, Unsupported(NO_BODY_FILTERS)),
    plain("add_before_body", HSL, 1, 1, Unsupported(NO_BODY_FILTERS)),
    plain("addition_types", HSL, 1, MANY, Unsupported(NO_BODY_FILTERS)),
    plain("add_header", HSLI, 2, 3, Honored),
    plain("add_header_inherit", HSL, 1, 1, Honored),
    plain("add_trailer", HSLI, 2, 3, Unsupported("the trailer is not sent")),
    plain("add_trailer_inherit", HSL, 1, 1, Unsupported("trailers are not sent")),
    plain("brotli", HSLI, 1, 1, Honored),
    plain("brotli_buffers", HSL, 2, 2, Accepted(BUFFERS)),
    plain("brotli_comp_level", HSL, 1, 1, Honored),
    plain("brotli_min_length", HSL, 1, 1, Honored),
    plain("brotli_static", HSL, 1, 1, Honored),
    plain("brotli_types", HSL, 1, MANY, Honored),
    plain("brotli_window", HSL, 1, 1, Accepted(BUFFERS)),
    plain("charset", HSLI, 1, 1, Honored),
    block("charset_map", HTTP, 2, 2, Body::Free, Unsupported("texts are not converted")),
    plain("charset_types", HSL, 1, MANY, Honored),
    plain("expires", HSLI, 1, 2, Honored),
    plain("gunzip", HSL, 1, 1, Unsupported(GUNZIP)),
    plain("gunzip_buffers", HSL, 2, 2, Accepted(BUFFERS)),
    plain("gzip", HSLI, 1, 1, Honored),
    plain("gzip_buffers", HSL, 2, 2, Accepted(BUFFERS)),
    plain("gzip_comp_level", HSL, 1, 1, Honored),
    plain("gzip_disable", HSL, 1, MANY, Accepted("it works around browsers of 2006")),
    plain("gzip_hash", HSL, 1, 1, Accepted(BUFFERS)),
    plain("gzip_http_version", HSL, 1, 1, Accepted("clients that accept a coding get it")),
    plain("gzip_min_length", HSL, 1, 1, Honored),
    plain("gzip_no_buffer", HSL, 1, 1, Accepted(BUFFERS)),
    plain("gzip_proxied", HSL, 1, MANY, Accepted("responses to proxies are compressed like others, with `Vary`")),
    plain("gzip_static", HSL, 1, 1, Honored),
    plain("gzip_types", HSL, 1, MANY, Honored),
    plain("gzip_vary", HSL, 1, 1, Accepted("`Vary` is always sent where it applies")),
    plain("gzip_window", HSL, 1, 1, Accepted(BUFFERS)),
    plain("image_filter", LOCATION, 1, 3, Unsupported(NO_IMAGES)),
    plain("image_filter_buffer", HSL, 1, 1, Unsupported(NO_IMAGES)),
    plain("image_filter_interlace", HSL, 1, 1, Unsupported(NO_IMAGES)),
    plain("image_filter_jpeg_quality", HSL, 1, 1, Unsupported(NO_IMAGES)),
    plain("image_filter_sharpen", HSL, 1, 1, Unsupported(NO_IMAGES)),
    plain("image_filter_transparency", HSL, 1, 1, Unsupported(NO_IMAGES)),
    plain("image_filter_webp_quality", HSL, 1, 1, Unsupported(NO_IMAGES)),
    plain("more_clear_headers", HSLI, 1, MANY, Honored),
    plain("more_clear_input_headers", HSLI, 1, MANY, Unsupported("the request fields stay")),
    plain("more_set_headers", HSLI, 1, MANY, Honored),
    plain("more_set_input_headers", HSLI, 1, MANY, Unsupported("the request fields stay")),
    plain("override_charset", HSLI, 1, 1, Accepted("texts are not converted")),
    plain("slice", HSL, 1, 1, Unsupported(NO_SLICE)),
    plain("source_charset", HSLI, 1, 1, Unsupported("texts are not converted")),
    plain("ssi", HSLI, 1, 1, Unsupported(NO_SSI)),
    plain("ssi_last_modified", HSL, 1, 1, Unsupported(NO_SSI)),
    plain("ssi_min_file_chunk", HSL, 1, 1, Unsupported(NO_SSI)),
    plain("ssi_silent_errors", HSL, 1, 1, Unsupported(NO_SSI)),
    plain("ssi_types", HSL, 1, MANY, Unsupported(NO_SSI)),
    plain("ssi_value_length", HSL, 1, 1, Unsupported(NO_SSI)),
    plain("sub_filter", HSL, 2, 2, Unsupported(NO_SUB)),
    plain("sub_filter_last_modified", HSL, 1, 1, Unsupported(NO_SUB)),
    plain("sub_filter_once", HSL, 1, 1, Unsupported(NO_SUB)),
    plain("sub_filter_types", HSL, 1, MANY, Unsupported(NO_SUB)),
    plain("userid", HSL, 1, 1, Unsupported(NO_USERID)),
    plain("userid_domain", HSL, 1, 1, Unsupported(NO_USERID)),
    plain("userid_expires", HSL, 1, 1, Unsupported(NO_USERID)),
    plain("userid_flags", HSL, 1, MANY, Unsupported(NO_USERID)),
    plain("userid_mark", HSL, 1, 1, Unsupported(NO_USERID)),
    plain("userid_name", HSL, 1, 1, Unsupported(NO_USERID)),
    plain("userid_p3p", HSL, 1, 1, Unsupported(NO_USERID)),
    plain("userid_path", HSL, 1, 1, Unsupported(NO_USERID)),
    plain("userid_service", HSL, 1, 1, Unsupported(NO_USERID)),
    plain("xml_entities", HSL, 1, 1, Unsupported(NO_XSLT)),
    plain("xslt_last_modified", HSL, 1, 1, Unsupported(NO_XSLT)),
    plain("xslt_param", HSL, 2, 2, Unsupported(NO_XSLT)),
    plain("xslt_string_param", HSL, 2, 2, Unsupported(NO_XSLT)),
    plain("xslt_stylesheet", LOCATION, 1, MANY, Unsupported(NO_XSLT)),
    plain("xslt_types", HSL, 1, MANY, Unsupported(NO_XSLT)),
    plain("zstd", HSLI, 1, 1, Honored),
    plain("zstd_buffers", HSL, 2, 2, Accepted(BUFFERS)),
    plain("zstd_comp_level", HSL, 1, 1, Honored),
    plain("zstd_min_length", HSL, 1, 1, Honored),
    plain("zstd_static", HSL, 1, 1, Honored),
    plain("zstd_types", HSL, 1, MANY, Honored),
];

pub const HANDLERS: &[Row] = &[
    plain("autoindex", HSL, 1, 1, Honored),
    plain("autoindex_exact_size", HSL, 1, 1, Honored),
    plain("autoindex_format", HSL, 1, 1, Honored),
    plain("autoindex_localtime", HSL, 1, 1, Honored),
    plain("create_full_put_path", HSL, 1, 1, Unsupported(NO_DAV)),
    plain("dav_access", HSL, 1, 3, Unsupported(NO_DAV)),
    plain("dav_methods", HSL, 1, MANY, Unsupported(NO_DAV)),
    plain("min_delete_depth", HSL, 1, 1, Unsupported(NO_DAV)),
    plain("empty_gif", LOCATION, 0, 0, Honored),
    plain("flv", LOCATION, 0, 0, Unsupported(NO_MEDIA)),
    plain("hls", LOCATION, 0, 0, Unsupported(NO_MEDIA)),
    plain("index", HSL, 1, MANY, Honored),
    plain("mirror", HSL, 1, 1, Unsupported("requests are not copied; use `mirror` of saker.toml")),
    plain("mirror_request_body", HSL, 1, 1, Unsupported("requests are not copied")),
    plain("mp4", LOCATION, 0, 0, Unsupported(NO_MEDIA)),
    plain("mp4_buffer_size", HSL, 1, 1, Unsupported(NO_MEDIA)),
    plain("mp4_max_buffer_size", HSL, 1, 1, Unsupported(NO_MEDIA)),
    plain("mp4_start_key_frame", HSL, 1, 1, Unsupported(NO_MEDIA)),
    plain("perl", LOCATION | LIMIT_EXCEPT, 1, 1, Unsupported(NO_PERL)),
    plain("perl_modules", HTTP, 1, 1, Unsupported(NO_PERL)),
    plain("perl_require", HTTP, 1, 1, Unsupported(NO_PERL)),
    plain("perl_set", HTTP, 2, 2, Unsupported(NO_PERL)),
    plain("random_index", LOCATION, 1, 1, Unsupported("the directory answers with 403, or its listing")),
    plain("stub_status", SERVER | LOCATION, 0, 1, Unsupported("the location serves files; use `saker status` or `[metrics]`")),
];

pub const VARIABLES: &[Row] = &[
    plain("ancient_browser", HSL, 1, MANY, Unsupported(NO_BROWSER)),
    plain("ancient_browser_value", HSL, 1, 1, Unsupported(NO_BROWSER)),
    plain("modern_browser", HSL, 1, 2, Unsupported(NO_BROWSER)),
    plain("modern_browser_value", HSL, 1, 1, Unsupported(NO_BROWSER)),
    block("geo", HTTP, 1, 2, Body::Free, Honored),
    plain("geoip_city", HTTP, 1, 2, Unsupported(NO_GEOIP)),
    plain("geoip_country", HTTP, 1, 2, Unsupported(NO_GEOIP)),
    plain("geoip_org", HTTP, 1, 2, Unsupported(NO_GEOIP)),
    plain("geoip_proxy", HTTP, 1, 1, Unsupported(NO_GEOIP)),
    plain("geoip_proxy_recursive", HTTP, 1, 1, Unsupported(NO_GEOIP)),
    block("map", HTTP, 2, 2, Body::Free, Honored),
    plain("map_hash_bucket_size", HTTP, 1, 1, Accepted(HASHES)),
    plain("map_hash_max_size", HTTP, 1, 1, Accepted(HASHES)),
    block("split_clients", HTTP, 2, 2, Body::Free, Honored),
];

pub const LOG: &[Row] = &[
    plain("access_log", HSLI | LIMIT_EXCEPT, 1, MANY, Honored),
    plain("log_format", HTTP, 2, MANY, Honored),
    plain("open_log_file_cache", HSL, 1, 4, Accepted("log files stay open")),
];

const SESSIONS: &str = "sessions are resumed by tickets, with keys that all workers share";
const CHUNKS: &str = "records are as long as what is sent";
const CLOSED: &str = "connections would be accepted that nginx refuses";
const EARLY: &str = "0-RTT is not accepted over TCP";
const STREAMS: &str = "the limits of streams and frames are the server's";

pub const TLS: &[Row] = &[
    plain("acme_certificate", SERVER, 1, MANY, Unsupported(NO_ACME)),
    block("acme_issuer", HTTP, 1, 1, Body::Free, Unsupported(NO_ACME)),
    plain("acme_shared_zone", HTTP, 1, 1, Unsupported(NO_ACME)),
    plain("http2", HS, 1, 1, Honored),
    plain("http2_body_preread_size", HS, 1, 1, Accepted(STREAMS)),
    plain("http2_chunk_size", HSL, 1, 1, Accepted(STREAMS)),
    plain("http2_idle_timeout", HS, 1, 1, Accepted(STREAMS)),
    plain("http2_max_concurrent_pushes", HS, 1, 1, Accepted("nothing is pushed")),
    plain("http2_max_concurrent_streams", HS, 1, 1, Honored),
    plain("http2_max_field_size", HS, 1, 1, Accepted(STREAMS)),
    plain("http2_max_header_size", HS, 1, 1, Accepted(STREAMS)),
    plain("http2_max_requests", HS, 1, 1, Accepted(STREAMS)),
    plain("http2_push", HSL, 1, 1, Accepted("nothing is pushed, and browsers no longer take it")),
    plain("http2_push_preload", HSL, 1, 1, Accepted("nothing is pushed")),
    plain("http2_recv_buffer_size", HTTP, 1, 1, Accepted(BUFFERS)),
    plain("http2_recv_timeout", HS, 1, 1, Accepted(STREAMS)),
    plain("http3", HS, 1, 1, Honored),
    plain("http3_hq", HS, 1, 1, Accepted("it is for interoperability tests")),
    plain("http3_max_concurrent_streams", HS, 1, 1, Accepted(STREAMS)),
    plain("http3_stream_buffer_size", HS, 1, 1, Accepted(BUFFERS)),
    plain("otel_exporter", HTTP, 1, 1, Unsupported(NO_TRACING)),
    plain("quic_active_connection_id_limit", HS, 1, 1, Accepted(STREAMS)),
    plain("quic_gso", HS, 1, 1, Accepted("segmentation offload is used where the kernel has it")),
    plain("quic_host_key", HS, 1, 1, Accepted("keys of tokens are kept in the state directory")),
    plain("quic_retry", HS, 1, 1, Accepted("addresses are validated under load")),
    plain("ssl", HS, 1, 1, Honored),
    plain("ssl_alpn", HS, 1, MANY, Accepted("the protocols are those of the listener")),
    plain("ssl_buffer_size", HS, 1, 1, Accepted(CHUNKS)),
    plain("ssl_certificate", HS, 1, 1, Honored),
    plain("ssl_certificate_cache", HS, 1, 3, Accepted("certificates are read when the configuration is")),
    plain("ssl_certificate_compression", HS, 1, 1, Accepted("certificates are sent as they are")),
    plain("ssl_certificate_key", HS, 1, 1, Honored),
    plain("ssl_ciphers", HS, 1, 1, Accepted("the suites are those of TLS 1.2 and 1.3 that are considered safe")),
    plain("ssl_client_certificate", HS, 1, 1, Honored),
    plain("ssl_conf_command", HS, 2, 2, Accepted("it is for OpenSSL")),
    plain("ssl_crl", HS, 1, 1, Honored),
    plain("ssl_dhparam", HS, 1, 1, Accepted("key exchange uses elliptic curves")),
    plain("ssl_early_data", HS, 1, 1, Accepted(EARLY)),
    plain("ssl_ecdh_curve", HS, 1, 1, Accepted("the groups are those that are considered safe")),
    plain("ssl_ech_file", HS, 1, 1, Unsupported("client hellos are not encrypted")),
    plain("ssl_key_log", HS, 1, 1, Unsupported("keys of sessions are not logged")),
    plain("ssl_ocsp", HS, 1, 1, Refused(CLOSED)),
    plain("ssl_ocsp_cache", HS, 1, 1, Accepted("it has no effect without `ssl_ocsp`")),
    plain("ssl_ocsp_responder", HS, 1, 1, Accepted("it has no effect without `ssl_ocsp`")),
    plain("ssl_password_file", HS, 1, 1, Unsupported("encrypted keys cannot be read; store the key without a passphrase")),
    plain("ssl_prefer_server_ciphers", HS, 1, 1, Accepted("the server's order is used")),
    plain("ssl_protocols", HS, 1, MANY, Honored),
    plain("ssl_reject_handshake", HS, 1, 1, Honored),
    plain("ssl_session_cache", HS, 1, 2, Accepted(SESSIONS)),
    plain("ssl_session_ticket_key", HS, 1, 1, Accepted(SESSIONS)),
    plain("ssl_session_tickets", HS, 1, 1, Honored),
    plain("ssl_session_timeout", HS, 1, 1, Accepted(SESSIONS)),
    plain("ssl_stapling", HS, 1, 1, Honored),
    plain("ssl_stapling_file", HS, 1, 1, Accepted("responses are fetched")),
    plain("ssl_stapling_responder", HS, 1, 1, Honored),
    plain("ssl_stapling_verify", HS, 1, 1, Accepted("responses are always verified")),
    plain("ssl_trusted_certificate", HS, 1, 1, Accepted("stapled responses are verified with the certificate's chain")),
    plain("ssl_verify_client", HS, 1, 1, Honored),
    plain("ssl_verify_depth", HS, 1, 1, Honored),
];
