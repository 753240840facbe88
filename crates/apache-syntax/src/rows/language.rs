//! Directives that are carried out while the configuration is read: modules, variables, conditions,
//! macros, included files. One row per directive (`row.rs`); overrides and shapes are those of
//! Apache 2.4.71.

use crate::row::{
    ALL,
    Importance::{A, C},
    NOWHERE, Row, SERVER,
    Shape::{Each, One, OneToThree, Raw, Section, Two},
    Treatment::{Honored, NoEffect},
    row,
};

const SO: &[&str] = &["so_module"];
const VERSION: &[&str] = &["version_module"];
const MACRO: &[&str] = &["macro_module"];

pub(super) const ROWS: &[Row] = &[
    row("LoadModule", SO, A, "sv", Two, SERVER, NOWHERE, Honored),
    row(
        "LoadFile",
        SO,
        A,
        "sv",
        Each,
        SERVER,
        NOWHERE,
        NoEffect("Saker loads no shared libraries"),
    ),
    row(
        "<IfVersion",
        VERSION,
        A,
        "svdh",
        OneToThree,
        ALL,
        NOWHERE,
        Honored,
    ),
    row("<Macro", MACRO, A, "svd", Section, ALL, NOWHERE, Honored),
    row("Use", MACRO, A, "svd", Raw, ALL, NOWHERE, Honored),
    row("UndefMacro", MACRO, A, "svd", One, ALL, NOWHERE, Honored),
    row(
        "MacroIgnoreEmptyArgs",
        MACRO,
        C,
        "svdh",
        Raw,
        ALL,
        NOWHERE,
        Honored,
    ),
    row(
        "MacroIgnoreBadNesting",
        MACRO,
        C,
        "svdh",
        Raw,
        ALL,
        NOWHERE,
        Honored,
    ),
];
