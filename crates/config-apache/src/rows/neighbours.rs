//! Bad neighbours and where they are: mod_evasive, mod_limitipconn, mod_maxminddb, mod_geoip; and mod_auth_token.
//! One row per directive (`row.rs`).

use crate::row::{
    ACCESS, FILE_INFO,
    Importance::B,
    LIMIT, NOWHERE, Row, SERVER,
    Shape::{Each, Flag, One, Two},
    Treatment::{self, Honoured, NoEffect, Unsupported},
    row,
};

const AUTH_TOKEN: &[&str] = &["auth_token_module"];
const EVASIVE: &[&str] = &["evasive20_module", "evasive24_module", "evasive_module"];
const GEOIP: &[&str] = &["geoip_module"];
const MAXMINDDB: &[&str] = &["maxminddb_module"];
const LIMITIPCONN: &[&str] = &["limitipconn_module"];

const BY_REMOTEIP: Treatment =
    Unsupported("say with RemoteIPHeader and RemoteIPTrustedProxy whose word counts; the address that comes of it is looked up");

pub(super) const ROWS: &[Row] = &[
    row(
        "DOSHashTableSize",
        EVASIVE,
        B,
        "sv",
        One,
        SERVER,
        NOWHERE,
        NoEffect("the table has a size of its own, and is one for all workers"),
    ),
    row("DOSPageCount", EVASIVE, B, "sv", One, SERVER, NOWHERE, Honoured),
    row("DOSSiteCount", EVASIVE, B, "sv", One, SERVER, NOWHERE, Honoured),
    row("DOSPageInterval", EVASIVE, B, "sv", One, SERVER, NOWHERE, Honoured),
    row("DOSSiteInterval", EVASIVE, B, "sv", One, SERVER, NOWHERE, Honoured),
    row("DOSBlockingPeriod", EVASIVE, B, "sv", One, SERVER, NOWHERE, Honoured),
    row("DOSWhitelist", EVASIVE, B, "sv", Each, SERVER, NOWHERE, Honoured),
    row("DOSEmailNotify", EVASIVE, B, "sv", One, SERVER, NOWHERE, NoEffect("the error log says who was blocked (SK0411)")),
    row("DOSLogDir", EVASIVE, B, "sv", One, SERVER, NOWHERE, NoEffect("the error log says who was blocked (SK0411)")),
    row(
        "DOSSystemCommand",
        EVASIVE,
        B,
        "sv",
        One,
        SERVER,
        NOWHERE,
        NoEffect("no command is run for a request: let fail2ban read the error log (docs/neighbours.md)"),
    ),
    row("AuthTokenSecret", AUTH_TOKEN, B, "svd", One, ACCESS.or(SERVER), NOWHERE, Honoured),
    row("AuthTokenPrefix", AUTH_TOKEN, B, "svd", One, ACCESS.or(SERVER), NOWHERE, Honoured),
    row("AuthTokenTimeout", AUTH_TOKEN, B, "svd", One, ACCESS.or(SERVER), NOWHERE, Honoured),
    row("AuthTokenLimitByIp", AUTH_TOKEN, B, "svd", Flag, ACCESS.or(SERVER), NOWHERE, Honoured),
    row("MaxConnPerIP", LIMITIPCONN, B, "svdh", One, LIMIT.or(SERVER), NOWHERE, Honoured),
    row("MaxMindDBEnable", MAXMINDDB, B, "svdh", Flag, FILE_INFO.or(SERVER), NOWHERE, Honoured),
    row("MaxMindDBFile", MAXMINDDB, B, "svd", Two, ACCESS.or(SERVER), NOWHERE, Honoured),
    row("MaxMindDBEnv", MAXMINDDB, B, "svdh", Two, FILE_INFO.or(SERVER), NOWHERE, Honoured),
    row("MaxMindDBNetworkEnv", MAXMINDDB, B, "svdh", Two, FILE_INFO.or(SERVER), NOWHERE, Honoured),
    row("MaxMindDBSetNotes", MAXMINDDB, B, "svdh", Flag, FILE_INFO.or(SERVER), NOWHERE, Honoured),
    row("GeoIPEnable", GEOIP, B, "svdh", Flag, FILE_INFO.or(SERVER), NOWHERE, Honoured),
    row("GeoIPDBFile", GEOIP, B, "sv", Each, SERVER, NOWHERE, Honoured),
    row("GeoIPOutput", GEOIP, B, "sv", One, SERVER, NOWHERE, NoEffect("what is known stands in variables of the environment")),
    row("GeoIPEnableUTF8", GEOIP, B, "sv", Flag, SERVER, NOWHERE, NoEffect("today's databases are in UTF-8")),
    row("GeoIPEnableHostnameLookups", GEOIP, B, "sv", Flag, SERVER, NOWHERE, NoEffect("addresses are looked up, names never")),
    row("GeoIPScanProxyHeaders", GEOIP, B, "sv", Flag, SERVER, NOWHERE, BY_REMOTEIP),
    row("GeoIPScanProxyHeaderField", GEOIP, B, "sv", One, SERVER, NOWHERE, BY_REMOTEIP),
    row("GeoIPUseFirstNonPrivateXForwardedForIP", GEOIP, B, "sv", Flag, SERVER, NOWHERE, BY_REMOTEIP),
    row("GeoIPUseLastXForwardedForIP", GEOIP, B, "sv", Flag, SERVER, NOWHERE, BY_REMOTEIP),
    row(
        "NoIPLimit",
        LIMITIPCONN,
        B,
        "svdh",
        Each,
        LIMIT.or(SERVER),
        NOWHERE,
        Unsupported("say MaxConnPerIP 0 for the places that have such files"),
    ),
    row(
        "OnlyIPLimit",
        LIMITIPCONN,
        B,
        "svdh",
        Each,
        LIMIT.or(SERVER),
        NOWHERE,
        Unsupported("say MaxConnPerIP for the places that have such files"),
    ),
];
