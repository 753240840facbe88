//! Logs and reports. One row per directive (`row.rs`); overrides and shapes are those of Apache
//! 2.4.71.

use crate::row::{
    ACCESS, ALL,
    Importance::{A, B, C},
    NOWHERE, Row, SERVER,
    Shape::{Flag, One, OneOrTwo, OneToThree, Two, TwoOrThree},
    Treatment::{self, Honored, NoEffect, Unsupported},
    VIRTUAL_HOST, row,
};

const LOG_CONFIG: &[&str] = &["log_config_module"];
const LOGIO: &[&str] = &["logio_module"];
const DUMPIO: &[&str] = &["dumpio_module"];
const IDENT: &[&str] = &["ident_module"];
const INFO: &[&str] = &["info_module"];
const LOG_DEBUG: &[&str] = &["log_debug_module"];
const LOG_FORENSIC: &[&str] = &["log_forensic_module"];

const PACKET_CAPTURE: Treatment = Unsupported("use a packet capture");
const NOBODY_ANSWERS: Treatment =
    Unsupported("identity lookups (RFC 1413) are obsolete: remove it");

const GATHERED: Treatment =
    NoEffect("lines are always gathered, for a second at most, and written whole");

pub(super) const ROWS: &[Row] = &[
    row(
        "CustomLog",
        LOG_CONFIG,
        A,
        "sv",
        TwoOrThree,
        SERVER,
        NOWHERE,
        Honored,
    ),
    row(
        "GlobalLog",
        LOG_CONFIG,
        A,
        "s",
        TwoOrThree,
        SERVER,
        VIRTUAL_HOST,
        Honored,
    ),
    row(
        "TransferLog",
        LOG_CONFIG,
        A,
        "sv",
        One,
        SERVER,
        NOWHERE,
        Honored,
    ),
    row(
        "LogFormat",
        LOG_CONFIG,
        A,
        "sv",
        OneOrTwo,
        SERVER,
        NOWHERE,
        Honored,
    ),
    row(
        "BufferedLogs",
        LOG_CONFIG,
        A,
        "s",
        Flag,
        SERVER,
        NOWHERE,
        GATHERED,
    ),
    row(
        "LogIOTrackTTFB",
        LOGIO,
        A,
        "svdh",
        Flag,
        ALL,
        NOWHERE,
        Honored,
    ),
    row(
        "DumpIOInput",
        DUMPIO,
        C,
        "s",
        Flag,
        SERVER,
        NOWHERE,
        PACKET_CAPTURE,
    ),
    row(
        "DumpIOOutput",
        DUMPIO,
        C,
        "s",
        Flag,
        SERVER,
        NOWHERE,
        PACKET_CAPTURE,
    ),
    row(
        "IdentityCheck",
        IDENT,
        C,
        "svd",
        Flag,
        ACCESS.or(SERVER),
        NOWHERE,
        NOBODY_ANSWERS,
    ),
    row(
        "IdentityCheckTimeout",
        IDENT,
        C,
        "svd",
        One,
        ACCESS.or(SERVER),
        NOWHERE,
        NOBODY_ANSWERS,
    ),
    row(
        "AddModuleInfo",
        INFO,
        B,
        "sv",
        Two,
        SERVER,
        NOWHERE,
        Honored,
    ),
    row(
        "LogMessage",
        LOG_DEBUG,
        B,
        "d",
        OneToThree,
        ACCESS.or(SERVER),
        NOWHERE,
        Honored,
    ),
    row(
        "ForensicLog",
        LOG_FORENSIC,
        B,
        "sv",
        One,
        SERVER,
        NOWHERE,
        Honored,
    ),
];
