//! Directory listings. One row per directive (`row.rs`); overrides and shapes are those of Apache 2.4.71.

use crate::row::{
    ALL, INDEXES,
    Importance::{A, B},
    NOWHERE, Row,
    Shape::{Any, Each, EachWithFirst, Flag, One, Raw, Two},
    Treatment::Pending,
    row,
};

const AUTOINDEX: &[&str] = &["autoindex_module"];

pub(super) const ROWS: &[Row] = &[
    row("AddIcon", AUTOINDEX, A, "svdh", EachWithFirst, INDEXES, NOWHERE, Pending),
    row("AddIconByType", AUTOINDEX, A, "svdh", EachWithFirst, INDEXES, NOWHERE, Pending),
    row("AddIconByEncoding", AUTOINDEX, A, "svdh", EachWithFirst, INDEXES, NOWHERE, Pending),
    row("AddAlt", AUTOINDEX, A, "svdh", EachWithFirst, INDEXES, NOWHERE, Pending),
    row("AddAltByType", AUTOINDEX, A, "svdh", EachWithFirst, INDEXES, NOWHERE, Pending),
    row("AddAltByEncoding", AUTOINDEX, A, "svdh", EachWithFirst, INDEXES, NOWHERE, Pending),
    row("IndexOptions", AUTOINDEX, A, "svdh", Any, INDEXES, NOWHERE, Pending),
    row("IndexOrderDefault", AUTOINDEX, A, "svdh", Two, INDEXES, NOWHERE, Pending),
    row("IndexIgnore", AUTOINDEX, A, "svdh", Each, INDEXES, NOWHERE, Pending),
    row("IndexIgnoreReset", AUTOINDEX, A, "svdh", Flag, INDEXES, NOWHERE, Pending),
    row("AddDescription", AUTOINDEX, A, "svdh", EachWithFirst, INDEXES, NOWHERE, Pending),
    row("HeaderName", AUTOINDEX, A, "svdh", One, INDEXES, NOWHERE, Pending),
    row("ReadmeName", AUTOINDEX, A, "svdh", One, INDEXES, NOWHERE, Pending),
    row("FancyIndexing", AUTOINDEX, B, "svdh", Raw, ALL, NOWHERE, Pending),
    row("DefaultIcon", AUTOINDEX, A, "svdh", One, INDEXES, NOWHERE, Pending),
    row("IndexStyleSheet", AUTOINDEX, A, "svdh", One, INDEXES, NOWHERE, Pending),
    row("IndexHeadInsert", AUTOINDEX, A, "svdh", One, INDEXES, NOWHERE, Pending),
];
