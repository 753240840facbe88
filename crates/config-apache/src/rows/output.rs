//! What goes out: fields, environment, filters. One row per directive (`row.rs`); overrides and shapes are those of Apache 2.4.71.

use crate::row::{
    ACCESS, ALL, FILE_INFO, INDEXES,
    Importance::{A, B, C},
    LIMIT, NOWHERE, OPTIONS, Row, SERVER,
    Shape::{Any, Each, EachWithFirst, Flag, One, OneOrTwo, Raw, Three, Two, TwoOrThree},
    Treatment::{self, Honoured, Later, NoEffect, Unsupported},
    VIRTUAL_HOST, row,
};

const BROTLI: &[&str] = &["brotli_module"];
const BUFFER: &[&str] = &["buffer_module"];
const CHARSET_LITE: &[&str] = &["charset_lite_module"];
const DEFLATE: &[&str] = &["deflate_module"];
const DIALUP: &[&str] = &["dialup_module"];
const ENV: &[&str] = &["env_module"];
const EXPIRES: &[&str] = &["expires_module"];
const EXT_FILTER: &[&str] = &["ext_filter_module"];
const FILTER: &[&str] = &["filter_module"];
const HEADERS: &[&str] = &["headers_module"];
const INCLUDE: &[&str] = &["include_module"];
const REFLECTOR: &[&str] = &["reflector_module"];
const REQUEST: &[&str] = &["request_module"];
const SED: &[&str] = &["sed_module"];
const SETENVIF: &[&str] = &["setenvif_module"];
const SUBSTITUTE: &[&str] = &["substitute_module"];
const USERTRACK: &[&str] = &["usertrack_module"];
const XML2ENC: &[&str] = &["xml2enc_module"];

const ENCODERS_OWN: Treatment = NoEffect("encoders choose their windows and buffers by the length of the content");
const NOTES: Treatment = NoEffect("notes about compression are not kept for logs");
const FILTER_FINE: Treatment = NoEffect("filters are traced by explain");
const STORE_AS_SERVED: Treatment = Unsupported("store the files in the character set they are served in");
const HTML_PROXYING: Treatment = Later("proxying of HTML");

pub(super) const ROWS: &[Row] = &[
    row("BrotliFilterNote", BROTLI, A, "sv", OneOrTwo, SERVER, NOWHERE, NOTES),
    row("BrotliCompressionQuality", BROTLI, A, "sv", One, SERVER, NOWHERE, Honoured),
    row("BrotliCompressionWindow", BROTLI, A, "sv", One, SERVER, NOWHERE, ENCODERS_OWN),
    row("BrotliCompressionMaxInputBlock", BROTLI, A, "sv", One, SERVER, NOWHERE, ENCODERS_OWN),
    row("BrotliAlterETag", BROTLI, A, "sv", One, SERVER, NOWHERE, Honoured),
    row("BufferSize", BUFFER, B, "dh", One, ACCESS, NOWHERE, Honoured),
    row("CharsetSourceEnc", CHARSET_LITE, B, "svdh", One, FILE_INFO, NOWHERE, STORE_AS_SERVED),
    row("CharsetDefault", CHARSET_LITE, B, "svdh", One, FILE_INFO, NOWHERE, STORE_AS_SERVED),
    row("CharsetOptions", CHARSET_LITE, B, "svdh", Each, FILE_INFO, NOWHERE, STORE_AS_SERVED),
    row("DeflateFilterNote", DEFLATE, A, "sv", OneOrTwo, SERVER, NOWHERE, NOTES),
    row("DeflateWindowSize", DEFLATE, A, "sv", One, SERVER, NOWHERE, ENCODERS_OWN),
    row("DeflateBufferSize", DEFLATE, A, "sv", One, SERVER, NOWHERE, ENCODERS_OWN),
    row("DeflateMemLevel", DEFLATE, A, "sv", One, SERVER, NOWHERE, ENCODERS_OWN),
    row("DeflateCompressionLevel", DEFLATE, A, "sv", One, SERVER, NOWHERE, Honoured),
    row("DeflateInflateLimitRequestBody", DEFLATE, A, "svdh", One, ALL, NOWHERE, Honoured),
    row("DeflateInflateRatioLimit", DEFLATE, A, "svdh", One, ALL, NOWHERE, Honoured),
    row("DeflateInflateRatioBurst", DEFLATE, A, "svdh", One, ALL, NOWHERE, Honoured),
    row("DeflateAlterEtag", DEFLATE, A, "sv", One, SERVER, NOWHERE, Honoured),
    row("ModemStandard", DIALUP, C, "d", One, ACCESS, NOWHERE, Unsupported("limit the bandwidth with mod_ratelimit")),
    row("PassEnv", ENV, A, "svdh", Each, FILE_INFO, NOWHERE, Honoured),
    row("SetEnv", ENV, A, "svdh", OneOrTwo, FILE_INFO, NOWHERE, Honoured),
    row("UnsetEnv", ENV, A, "svdh", Each, FILE_INFO, NOWHERE, Honoured),
    row("ExpiresActive", EXPIRES, A, "svdh", Flag, INDEXES, NOWHERE, Honoured),
    row("ExpiresByType", EXPIRES, A, "svdh", Two, INDEXES, NOWHERE, Honoured),
    row("ExpiresDefault", EXPIRES, A, "svdh", One, INDEXES, NOWHERE, Honoured),
    row("ExtFilterOptions", EXT_FILTER, C, "d", Each, ACCESS, NOWHERE, Honoured),
    row("ExtFilterDefine", EXT_FILTER, C, "s", Raw, SERVER, NOWHERE, Honoured),
    row("FilterDeclare", FILTER, A, "svdh", OneOrTwo, OPTIONS, NOWHERE, Honoured),
    row("FilterProvider", FILTER, A, "svdh", Three, OPTIONS, NOWHERE, Honoured),
    row("FilterChain", FILTER, A, "svdh", Each, OPTIONS, NOWHERE, Honoured),
    row("FilterTrace", FILTER, A, "svd", Two, ACCESS.or(SERVER), NOWHERE, FILTER_FINE),
    row("AddOutputFilterByType", FILTER, A, "svdh", Any, FILE_INFO, NOWHERE, Honoured),
    row("FilterProtocol", FILTER, A, "svdh", TwoOrThree, OPTIONS, NOWHERE, Honoured),
    row("Header", HEADERS, A, "svdh", Raw, FILE_INFO, NOWHERE, Honoured),
    row("RequestHeader", HEADERS, A, "svdh", Raw, FILE_INFO, NOWHERE, Honoured),
    row("XBitHack", INCLUDE, A, "svdh", One, OPTIONS, NOWHERE, Honoured),
    row("SSIErrorMsg", INCLUDE, A, "svdh", One, ALL, NOWHERE, Honoured),
    row("SSITimeFormat", INCLUDE, A, "svdh", One, ALL, NOWHERE, Honoured),
    row("SSIStartTag", INCLUDE, A, "sv", One, SERVER, NOWHERE, Honoured),
    row("SSIEndTag", INCLUDE, A, "sv", One, SERVER, NOWHERE, Honoured),
    row("SSIUndefinedEcho", INCLUDE, A, "svdh", One, ALL, NOWHERE, Honoured),
    row("SSILegacyExprParser", INCLUDE, A, "dh", Flag, LIMIT, NOWHERE, Honoured),
    row("SSILastModified", INCLUDE, A, "dh", Flag, LIMIT, NOWHERE, Honoured),
    row("SSIEtag", INCLUDE, A, "dh", Flag, LIMIT, NOWHERE, Honoured),
    row("ReflectorHeader", REFLECTOR, C, "svdh", OneOrTwo, OPTIONS, NOWHERE, Unsupported("answer such requests with a program")),
    row("KeptBodySize", REQUEST, B, "d", One, ACCESS, NOWHERE, NoEffect("request bodies are kept for no handler")),
    row("OutputSed", SED, C, "dh", One, ACCESS, NOWHERE, Honoured),
    row("InputSed", SED, C, "dh", One, ACCESS, NOWHERE, Honoured),
    row("SetEnvIf", SETENVIF, A, "svdh", Raw, FILE_INFO, NOWHERE, Honoured),
    row("SetEnvIfNoCase", SETENVIF, A, "svdh", Raw, FILE_INFO, NOWHERE, Honoured),
    row("SetEnvIfExpr", SETENVIF, A, "svdh", Raw, FILE_INFO, NOWHERE, Honoured),
    row("BrowserMatch", SETENVIF, A, "svdh", Raw, FILE_INFO, NOWHERE, Honoured),
    row("BrowserMatchNoCase", SETENVIF, A, "svdh", Raw, FILE_INFO, NOWHERE, Honoured),
    row("Substitute", SUBSTITUTE, B, "dh", One, FILE_INFO, NOWHERE, Honoured),
    row("SubstituteMaxLineLength", SUBSTITUTE, B, "dh", One, FILE_INFO, NOWHERE, Honoured),
    row("SubstituteInheritBefore", SUBSTITUTE, B, "dh", Flag, FILE_INFO, NOWHERE, Honoured),
    row("CookieExpires", USERTRACK, B, "svdh", One, FILE_INFO, NOWHERE, Honoured),
    row("CookieDomain", USERTRACK, B, "svdh", One, FILE_INFO, NOWHERE, Honoured),
    row("CookieStyle", USERTRACK, B, "svdh", One, FILE_INFO, NOWHERE, Honoured),
    row("CookieTracking", USERTRACK, B, "svdh", Flag, FILE_INFO, NOWHERE, Honoured),
    row("CookieName", USERTRACK, B, "svdh", One, FILE_INFO, NOWHERE, Honoured),
    row("CookieSameSite", USERTRACK, B, "svdh", One, FILE_INFO, NOWHERE, Honoured),
    row("CookieSecure", USERTRACK, B, "svdh", Flag, FILE_INFO, NOWHERE, Honoured),
    row("CookieHttpOnly", USERTRACK, B, "svdh", Flag, FILE_INFO, NOWHERE, Honoured),
    row("xml2EncDefault", XML2ENC, B, "svdh", One, ALL, NOWHERE, HTML_PROXYING),
    row("xml2EncAlias", XML2ENC, B, "s", EachWithFirst, SERVER, VIRTUAL_HOST, HTML_PROXYING),
    row("xml2StartParse", XML2ENC, B, "svdh", Each, ALL, NOWHERE, HTML_PROXYING),
];
