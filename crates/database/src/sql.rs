//! SQL databases: a pool of connections, whichever of the kinds that sqlx has it is.
//!
//! Difficulty: a column may have any type, and all that is wanted is its text. Types are tried from
//! the likeliest on; what has none of them (dates, fractions) has to be made a text by the query.
//! That is said of a column to who looks at it: others may have any type.

use crate::{
    Failure, Row, Terms, connect_options, placeholders,
    pool::{Pool, PoolOptions},
    sql_error::failed,
    terms::scheme,
};
use futures_util::TryStreamExt;
use sqlx::{
    Column, Row as _, TypeInfo, ValueRef,
    mysql::{MySqlConnection, MySqlRow},
    postgres::{PgConnection, PgRow, PgValueFormat},
    sqlite::{SqliteConnectOptions, SqliteConnection, SqliteRow},
};
use std::{pin::pin, rc::Rc, str::FromStr};

pub enum Sql {
    Mysql(Rc<Pool<MySqlConnection>>),
    Postgres(Rc<Pool<PgConnection>>),
    Sqlite(Rc<Pool<SqliteConnection>>),
}

/// The query with its parameters.
macro_rules! bound {
    ($query:expr, $parameters:expr) => {
        $parameters
            .iter()
            .fold(sqlx::query($query), |query, parameter| {
                query.bind(*parameter)
            })
    };
}

/// At most so many rows, as texts.
macro_rules! fetch {
    ($pool:expr, $query:expr, $parameters:expr, $rows_max:expr, $read:expr) => {{
        let mut lent = $pool.lend().await.map_err(failed)?;
        let rows = async {
            let mut stream = pin!(bound!($query, $parameters).fetch(&mut lent.connection));
            let mut rows = Vec::new();
            while rows.len() < $rows_max
                && let Some(row) = stream.try_next().await.map_err(failed)?
            {
                rows.push($read(&row));
            }
            Ok(rows)
        };
        let rows = rows.await;
        $pool.give_back(lent);
        rows
    }};
}

/// Number of rows were changed.
macro_rules! execute {
    ($pool:expr, $statement:expr, $parameters:expr) => {{
        let mut lent = $pool.lend().await.map_err(failed)?;
        let done = bound!($statement, $parameters)
            .execute(&mut lent.connection)
            .await;
        $pool.give_back(lent);
        done.map(|done| done.rows_affected()).map_err(failed)
    }};
}

/// A column of each row as the text that it is, or that its number makes. `$rare` knows types that
/// the driver has no text or number for.
macro_rules! reader {
    ($name:ident, $row:ty, [$($number:ty),*], $rare:expr) => {
        fn $name(row: &$row) -> Row {
            let mut texts = Row::default();
            for (at, column) in row.columns().iter().enumerate() {
                let (name, kind) = (column.name(), column.type_info().name());
                let read = || {
                    if row.try_get_raw(at).map_err(|error| error.to_string())?.is_null() {
                        return Ok(None);
                    }
                    if let Ok(text) = row.try_get::<String, _>(at) {
                        return Ok(Some(text));
                    }
                    if matches!(kind, "BOOL" | "BOOLEAN") && let Ok(truth) = row.try_get::<bool, _>(at) {
                        return Ok(Some(u8::from(truth).to_string()));
                    }
                    $(if let Ok(number) = row.try_get::<$number, _>(at) {
                        return Ok(Some(number.to_string()));
                    })*
                    if let Some(text) = $rare(row, at, kind) {
                        return Ok(Some(text));
                    }
                    match row.try_get::<Vec<u8>, _>(at).map(String::from_utf8) {
                        Ok(Ok(text)) => Ok(Some(text)),
                        _ => Err(format!("is a {kind}: let the query make a text of it")),
                    }
                };
                match read() {
                    Ok(value) => texts.push(name, value),
                    Err(why) => texts.push_unread(name, why),
                }
            }
            texts
        }
    };
}

reader!(read_mysql, MySqlRow, [i64, u64, f64, f32], rare_of_mysql);
reader!(
    read_postgres,
    PgRow,
    [i64, i32, i16, f64, f32],
    rare_of_postgres
);
reader!(read_sqlite, SqliteRow, [i64, f64], |_, _, _| None);

/// A DECIMAL comes as digits and is a number if nothing but zeros is behind its point; a BIT comes
/// as bytes.
fn rare_of_mysql(row: &MySqlRow, at: usize, kind: &str) -> Option<String> {
    match kind {
        "DECIMAL" => whole(&row.try_get_unchecked::<String, _>(at).ok()?),
        "BIT" => row
            .try_get_unchecked::<u64, _>(at)
            .ok()
            .map(|number| number.to_string()),
        _ => None,
    }
}

fn rare_of_postgres(row: &PgRow, at: usize, kind: &str) -> Option<String> {
    let raw = row.try_get_raw(at).ok().filter(|_| kind == "NUMERIC")?;
    match raw.format() {
        PgValueFormat::Binary => whole_of_digits(raw.as_bytes().ok()?),
        PgValueFormat::Text => whole(raw.as_str().ok()?),
    }
}

fn whole(number: &str) -> Option<String> {
    let (before, behind) = number.split_once('.').unwrap_or((number, ""));
    behind
        .bytes()
        .all(|digit| digit == b'0')
        .then(|| before.to_owned())
}

/// PostgreSQL's NUMERIC on the wire (`numeric_send` of its `numeric.c`): how many digits of 10,000
/// there are, the power of the first, the sign, the decimals that are shown, then the digits,
/// without zeros at the end.
fn whole_of_digits(bytes: &[u8]) -> Option<String> {
    let mut words = bytes
        .chunks_exact(2)
        .filter_map(|pair| Some(i16::from_be_bytes(pair.try_into().ok()?)));
    let (count, power, sign) = (
        usize::try_from(words.next()?).ok()?,
        i32::from(words.next()?),
        words.next()?,
    );
    let digits: Vec<i16> = words.skip(1).collect();
    let places = usize::try_from(power + 1).ok()?;
    // Not a number and infinity have signs of their own.
    if count > places || digits.len() != count || !matches!(sign, 0 | 0x4000) {
        return None;
    }
    let text: String = (0..places)
        .map(|place| format!("{:04}", digits.get(place).unwrap_or(&0)))
        .collect();
    let text = text.trim_start_matches('0');
    Some(match (sign, text) {
        (_, "") => "0".to_owned(),
        (0, text) => text.to_owned(),
        (_, text) => format!("-{text}"),
    })
}

pub fn check_url(url: &str) -> Result<(), Failure> {
    match scheme(url) {
        "mysql" | "mariadb" => connect_options::mysql(url).map(drop),
        "postgres" | "postgresql" => connect_options::postgres(url).map(drop),
        "sqlite" => SqliteConnectOptions::from_str(url)
            .map(drop)
            .map_err(failed),
        other => Err(unknown(other)),
    }
}

fn unknown(scheme: &str) -> Failure {
    Failure(format!("`{scheme}` is no database that is known"))
}

impl Sql {
    pub fn new(terms: &Terms) -> Result<Sql, Failure> {
        let url = &terms.url;
        Ok(match scheme(url) {
            "mysql" | "mariadb" => Sql::Mysql(Pool::new(connect_options::mysql(url)?, terms)),
            "postgres" | "postgresql" => {
                Sql::Postgres(Pool::new(connect_options::postgres(url)?, terms))
            }
            "sqlite" => {
                let options = SqliteConnectOptions::from_str(url)
                    .map_err(failed)?
                    .read_only(!terms.may_write);
                Sql::Sqlite(Pool::new(PoolOptions::from(options), terms))
            }
            other => return Err(unknown(other)),
        })
    }

    pub async fn rows(
        &self,
        query: &str,
        parameters: &[&str],
        rows_max: usize,
    ) -> Result<Vec<Row>, Failure> {
        match self {
            Sql::Mysql(pool) => fetch!(pool, query, parameters, rows_max, read_mysql),
            Sql::Postgres(pool) => {
                let query = placeholders::numbered(query);
                fetch!(pool, &query, parameters, rows_max, read_postgres)
            }
            Sql::Sqlite(pool) => fetch!(pool, query, parameters, rows_max, read_sqlite),
        }
    }

    /// Number of rows were changed.
    pub async fn change(&self, statement: &str, parameters: &[&str]) -> Result<u64, Failure> {
        match self {
            Sql::Mysql(pool) => execute!(pool, statement, parameters),
            Sql::Postgres(pool) => {
                let statement = placeholders::numbered(statement);
                execute!(pool, &statement, parameters)
            }
            Sql::Sqlite(pool) => execute!(pool, statement, parameters),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_of_decimals() {
        for (text, number) in [
            ("5000", Some("5000")),
            ("-7.00", Some("-7")),
            ("0.50", None),
        ] {
            assert_eq!(whole(text).as_deref(), number, "{text}");
        }
        let digits = |words: &[i16]| {
            whole_of_digits(
                &words
                    .iter()
                    .flat_map(|word| word.to_be_bytes())
                    .collect::<Vec<_>>(),
            )
        };
        for (words, number) in [
            (&[0, 0, 0, 0][..], Some("0")),
            (&[2, 1, 0, 2, 500, 17], Some("5000017")),
            (&[1, 2, 0x4000, 0, 7], Some("-700000000")),
            (&[1, -1, 0, 2, 5000], None),
            (&[2, 0, 0, 2, 5, 5000], None),
            (&[0, 0, -16384, 0], None),
            (&[2, 1, 0, 0, 1], None),
        ] {
            assert_eq!(digits(words).as_deref(), number, "{words:?}");
        }
        assert_eq!(
            (whole_of_digits(&[]), whole_of_digits(&[0, 1, 0])),
            (None, None)
        );
    }
}
