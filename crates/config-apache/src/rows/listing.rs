//! Directory listings. One row per directive (`row.rs`); overrides and shapes are those of Apache 2.4.71.

use crate::row::{
    ALL, INDEXES,
    Importance::{A, B},
    NOWHERE, Row,
    Shape::{Any, Each, EachWithFirst, Flag, One, Raw, Two},
    Treatment::Honoured,
    row,
};

const AUTOINDEX: &[&str] = &["autoindex_module"];

pub(super) const ROWS: &[Row] = &[
    row("AddIcon", AUTOINDEX, A, "svdh", EachWithFirst, INDEXES, NOWHERE, Honoured),
    row("AddIconByType", AUTOINDEX, A, "svdh", EachWithFirst, INDEXES, NOWHERE, Honoured),
    row("AddIconByEncoding", AUTOINDEX, A, "svdh", EachWithFirst, INDEXES, NOWHERE, Honoured),
    row("AddAlt", AUTOINDEX, A, "svdh", EachWithFirst, INDEXES, NOWHERE, Honoured),
    row("AddAltByType", AUTOINDEX, A, "svdh", EachWithFirst, INDEXES, NOWHERE, Honoured),
    row("AddAltByEncoding", AUTOINDEX, A, "svdh", EachWithFirst, INDEXES, NOWHERE, Honoured),
    row("IndexOptions", AUTOINDEX, A, "svdh", Any, INDEXES, NOWHERE, Honoured),
    row("IndexOrderDefault", AUTOINDEX, A, "svdh", Two, INDEXES, NOWHERE, Honoured),
    row("IndexIgnore", AUTOINDEX, A, "svdh", Each, INDEXES, NOWHERE, Honoured),
    row("IndexIgnoreReset", AUTOINDEX, A, "svdh", Flag, INDEXES, NOWHERE, Honoured),
    row("AddDescription", AUTOINDEX, A, "svdh", EachWithFirst, INDEXES, NOWHERE, Honoured),
    row("HeaderName", AUTOINDEX, A, "svdh", One, INDEXES, NOWHERE, Honoured),
    row("ReadmeName", AUTOINDEX, A, "svdh", One, INDEXES, NOWHERE, Honoured),
    row("FancyIndexing", AUTOINDEX, B, "svdh", Raw, ALL, NOWHERE, Honoured),
    row("DefaultIcon", AUTOINDEX, A, "svdh", One, INDEXES, NOWHERE, Honoured),
    row("IndexStyleSheet", AUTOINDEX, A, "svdh", One, INDEXES, NOWHERE, Honoured),
    row("IndexHeadInsert", AUTOINDEX, A, "svdh", One, INDEXES, NOWHERE, Honoured),
];
