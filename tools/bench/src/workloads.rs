//! Rows that need more than a tool and a path: sites that are made, servers that stand together,
//! logs that are looked at afterwards.
//!
//! A workload is a file below this folder and its rows a line each in [`ALL`]; the runner, the
//! sampling and the report are everybody's. Absent on purpose: figures. A workload says what is
//! served and asked for, the runner measures.

mod b1;
mod b3;
mod b4;
mod b5;
mod files;
mod noise;
mod plain;
mod shop;

use crate::row::Row;

/// In the order of the report.
pub const ALL: &[&[Row]] = &[
    noise::ROWS,
    b1::ROWS,
    b3::ROWS,
    b4::ROWS,
    b5::ROWS,
    files::ROWS,
];
