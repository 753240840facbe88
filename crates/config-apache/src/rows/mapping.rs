//! From URL to file, and what a file is: aliases, rewriting, indexes, types, languages. One row per directive (`row.rs`); overrides and shapes are those of Apache 2.4.71.

use crate::row::{
    ACCESS, DIRECTORY, FILE_INFO, FILES, INDEXES,
    Importance::{A, B, C},
    LIMITS, LOCATION, NOWHERE, OPTIONS, Row, SERVER,
    Shape::{Each, EachWithFirst, Flag, One, OneOrTwo, OneToThree, Raw, Two, TwoOrThree},
    Treatment::{self, Honoured, NoEffect, Unsupported},
    row,
};

const ACTIONS: &[&str] = &["actions_module"];
const ALIAS: &[&str] = &["alias_module"];
const CERN_META: &[&str] = &["cern_meta_module"];
const DIR: &[&str] = &["dir_module"];
const IMAGEMAP: &[&str] = &["imagemap_module"];
const MIME: &[&str] = &["mime_module"];
const MIME_MAGIC: &[&str] = &["mime_magic_module"];
const NEGOTIATION: &[&str] = &["negotiation_module"];
const REWRITE: &[&str] = &["rewrite_module"];
const SPELING: &[&str] = &["speling_module"];
const USERDIR: &[&str] = &["userdir_module"];
const VHOST_ALIAS: &[&str] = &["vhost_alias_module"];
const ISAPI: &[&str] = &["isapi_module"];

const USE_HEADER: Treatment = Unsupported("set the fields with Header in a <Files> section");
const CLIENT_SIDE_MAPS: Treatment = Unsupported("use client-side image maps");
const WINDOWS_ONLY: Treatment = Unsupported("it is for Windows");

pub(super) const ROWS: &[Row] = &[
    row("Action", ACTIONS, A, "svdh", TwoOrThree, FILE_INFO, NOWHERE, Honoured),
    row("Script", ACTIONS, A, "svd", Two, ACCESS.or(SERVER), NOWHERE, Honoured),
    row("Alias", ALIAS, A, "sv", OneOrTwo, ACCESS.or(SERVER), DIRECTORY.or(FILES).or(LIMITS), Honoured),
    row("ScriptAlias", ALIAS, A, "svd", OneOrTwo, ACCESS.or(SERVER), DIRECTORY.or(FILES).or(LIMITS), Honoured),
    row("Redirect", ALIAS, A, "svdh", OneToThree, FILE_INFO, NOWHERE, Honoured),
    row("AliasMatch", ALIAS, A, "sv", Two, SERVER, NOWHERE, Honoured),
    row("ScriptAliasMatch", ALIAS, A, "sv", Two, SERVER, NOWHERE, Honoured),
    row("RedirectMatch", ALIAS, A, "svdh", TwoOrThree, FILE_INFO, NOWHERE, Honoured),
    row("RedirectTemp", ALIAS, A, "svdh", Two, FILE_INFO, NOWHERE, Honoured),
    row("RedirectPermanent", ALIAS, A, "svdh", Two, FILE_INFO, NOWHERE, Honoured),
    row("RedirectRelative", ALIAS, A, "svd", Flag, FILE_INFO, NOWHERE, Honoured),
    row("AliasPreservePath", ALIAS, A, "svd", Flag, FILE_INFO, NOWHERE, Honoured),
    row("MetaFiles", CERN_META, C, "svdh", Flag, INDEXES, NOWHERE, USE_HEADER),
    row("MetaDir", CERN_META, C, "svdh", One, INDEXES, NOWHERE, USE_HEADER),
    row("MetaSuffix", CERN_META, C, "svdh", One, INDEXES, NOWHERE, USE_HEADER),
    row("FallbackResource", DIR, A, "svdh", One, INDEXES, NOWHERE, Honoured),
    row("DirectoryIndex", DIR, A, "svdh", Raw, INDEXES, NOWHERE, Honoured),
    row("DirectorySlash", DIR, A, "svdh", Flag, INDEXES, NOWHERE, Honoured),
    row("DirectoryCheckHandler", DIR, A, "svdh", Flag, INDEXES, NOWHERE, Honoured),
    row("DirectoryIndexRedirect", DIR, A, "svdh", One, INDEXES, NOWHERE, Honoured),
    row("ImapMenu", IMAGEMAP, C, "svdh", One, INDEXES, NOWHERE, CLIENT_SIDE_MAPS),
    row("ImapDefault", IMAGEMAP, C, "svdh", One, INDEXES, NOWHERE, CLIENT_SIDE_MAPS),
    row("ImapBase", IMAGEMAP, C, "svdh", One, INDEXES, NOWHERE, CLIENT_SIDE_MAPS),
    row("AddCharset", MIME, A, "svdh", EachWithFirst, FILE_INFO, NOWHERE, Honoured),
    row("AddEncoding", MIME, A, "svdh", EachWithFirst, FILE_INFO, NOWHERE, Honoured),
    row("AddHandler", MIME, A, "svdh", EachWithFirst, FILE_INFO, NOWHERE, Honoured),
    row("AddInputFilter", MIME, A, "svdh", EachWithFirst, FILE_INFO, NOWHERE, Honoured),
    row("AddLanguage", MIME, A, "svdh", EachWithFirst, FILE_INFO, NOWHERE, Honoured),
    row("AddOutputFilter", MIME, A, "svdh", EachWithFirst, FILE_INFO, NOWHERE, Honoured),
    row("AddType", MIME, A, "svdh", EachWithFirst, FILE_INFO, NOWHERE, Honoured),
    row("DefaultLanguage", MIME, A, "svdh", One, FILE_INFO, NOWHERE, Honoured),
    row("MultiviewsMatch", MIME, A, "svdh", Each, FILE_INFO, LOCATION.or(LIMITS), Honoured),
    row("RemoveCharset", MIME, A, "vdh", Each, FILE_INFO, NOWHERE, Honoured),
    row("RemoveEncoding", MIME, A, "vdh", Each, FILE_INFO, NOWHERE, Honoured),
    row("RemoveHandler", MIME, A, "vdh", Each, FILE_INFO, NOWHERE, Honoured),
    row("RemoveInputFilter", MIME, A, "vdh", Each, FILE_INFO, NOWHERE, Honoured),
    row("RemoveLanguage", MIME, A, "vdh", Each, FILE_INFO, NOWHERE, Honoured),
    row("RemoveOutputFilter", MIME, A, "vdh", Each, FILE_INFO, NOWHERE, Honoured),
    row("RemoveType", MIME, A, "vdh", Each, FILE_INFO, NOWHERE, Honoured),
    row("TypesConfig", MIME, A, "s", One, SERVER, NOWHERE, Honoured),
    row("ModMimeUsePathInfo", MIME, A, "d", Flag, ACCESS, NOWHERE, Honoured),
    row("MimeMagicFile", MIME_MAGIC, B, "sv", One, SERVER, NOWHERE, Honoured),
    row(
        "CacheNegotiatedDocs",
        NEGOTIATION,
        A,
        "sv",
        Flag,
        SERVER,
        NOWHERE,
        NoEffect("it is about clients of HTTP/1.0, and what is negotiated says what it varies by"),
    ),
    row("LanguagePriority", NEGOTIATION, A, "svdh", Each, FILE_INFO, NOWHERE, Honoured),
    row("ForceLanguagePriority", NEGOTIATION, A, "svdh", Each, FILE_INFO, NOWHERE, Honoured),
    row("RewriteEngine", REWRITE, A, "svdh", Flag, FILE_INFO, NOWHERE, Honoured),
    row("RewriteOptions", REWRITE, A, "svdh", Each, FILE_INFO, NOWHERE, Honoured),
    row("RewriteBase", REWRITE, A, "dh", One, FILE_INFO, NOWHERE, Honoured),
    row("RewriteCond", REWRITE, A, "svdh", Raw, FILE_INFO, NOWHERE, Honoured),
    row("RewriteRule", REWRITE, A, "svdh", Raw, FILE_INFO, NOWHERE, Honoured),
    row("RewriteMap", REWRITE, A, "sv", TwoOrThree, SERVER, NOWHERE, Honoured),
    row("CheckSpelling", SPELING, B, "svdh", Flag, OPTIONS, NOWHERE, Honoured),
    row("CheckCaseOnly", SPELING, B, "svdh", Flag, OPTIONS, NOWHERE, Honoured),
    row("CheckBasenameMatch", SPELING, B, "svdh", Flag, OPTIONS, NOWHERE, Honoured),
    row("UserDir", USERDIR, A, "sv", Raw, SERVER, NOWHERE, Honoured),
    row("VirtualScriptAlias", VHOST_ALIAS, A, "sv", One, SERVER, NOWHERE, Honoured),
    row("VirtualDocumentRoot", VHOST_ALIAS, A, "sv", One, SERVER, NOWHERE, Honoured),
    row("VirtualScriptAliasIP", VHOST_ALIAS, A, "sv", One, SERVER, NOWHERE, Honoured),
    row("VirtualDocumentRootIP", VHOST_ALIAS, A, "sv", One, SERVER, NOWHERE, Honoured),
    row("ISAPIAppendLogToErrors", ISAPI, C, "svdh", Flag, FILE_INFO, NOWHERE, WINDOWS_ONLY),
    row("ISAPIAppendLogToQuery", ISAPI, C, "svdh", Flag, FILE_INFO, NOWHERE, WINDOWS_ONLY),
    row("ISAPIFakeAsync", ISAPI, C, "svdh", Flag, FILE_INFO, NOWHERE, WINDOWS_ONLY),
    row("ISAPILogNotSupported", ISAPI, C, "svdh", Flag, FILE_INFO, NOWHERE, WINDOWS_ONLY),
    row("ISAPIReadAheadBuffer", ISAPI, C, "svdh", One, FILE_INFO, NOWHERE, WINDOWS_ONLY),
    row("ISAPICacheFile", ISAPI, C, "sv", Each, SERVER, NOWHERE, WINDOWS_ONLY),
];
