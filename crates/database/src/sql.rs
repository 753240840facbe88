//! SQL databases: one pool of connections for each kind that sqlx has.
//!
//! Difficulty: a column may have any type, and all that is wanted is its text. Types are tried from the likeliest on; what has none of them
//! (dates, decimals) has to be made a text by the query, and is said so.

use crate::{Failure, Row, Terms, placeholders};
use futures_util::TryStreamExt;
use sqlx::{
    Column, Row as _, TypeInfo, ValueRef,
    mysql::{MySqlConnectOptions, MySqlPool, MySqlPoolOptions, MySqlRow},
    postgres::{PgConnectOptions, PgPool, PgPoolOptions, PgRow},
    sqlite::{SqliteConnectOptions, SqlitePool, SqlitePoolOptions, SqliteRow},
};
use std::{pin::pin, str::FromStr, time::Duration};

/// Connections that nobody needs are closed.
const IDLE: Duration = Duration::from_secs(300);

pub enum Sql {
    Mysql(MySqlPool),
    Postgres(PgPool),
    Sqlite(SqlitePool),
}

/// The same for each kind: options from the URL, connections when they are needed.
macro_rules! pool {
    ($pools:ident, $options:expr, $terms:expr) => {
        $pools::new().max_connections($terms.connections_max).acquire_timeout($terms.timeout).idle_timeout(IDLE).connect_lazy_with($options)
    };
}

/// At most so many rows, as texts.
macro_rules! fetch {
    ($pool:expr, $query:expr, $parameters:expr, $rows_max:expr, $read:expr) => {{
        let query = $parameters.iter().fold(sqlx::query($query), |query, parameter| query.bind(*parameter));
        let mut stream = pin!(query.fetch($pool));
        let mut rows = Vec::new();
        while rows.len() < $rows_max
            && let Some(row) = stream.try_next().await.map_err(failed)?
        {
            rows.push($read(&row)?);
        }
        Ok(rows)
    }};
}

/// A column of each row as the text that it is, or that its number makes.
macro_rules! reader {
    ($name:ident, $row:ty, [$($number:ty),*]) => {
        fn $name(row: &$row) -> Result<Row, Failure> {
            let mut texts = Row::default();
            for (at, column) in row.columns().iter().enumerate() {
                let raw = row.try_get_raw(at).map_err(failed)?;
                let value = if raw.is_null() {
                    None
                } else if let Ok(text) = row.try_get::<String, _>(at) {
                    Some(text)
                } else if let Ok(truth) = row.try_get::<bool, _>(at).map(u8::from).map_err(drop).and_then(|truth| match column.type_info().name() {
                    "BOOL" | "BOOLEAN" => Ok(truth),
                    _ => Err(()),
                }) {
                    Some(truth.to_string())
                }
                $(else if let Ok(number) = row.try_get::<$number, _>(at) {
                    Some(number.to_string())
                })*
                else if let Ok(bytes) = row.try_get::<Vec<u8>, _>(at) {
                    Some(String::from_utf8(bytes).map_err(|_| Failure::Row(format!("column {} is no text", column.name())))?)
                } else {
                    let kind = column.type_info().name().to_owned();
                    return Err(Failure::Row(format!("column {} is a {kind}: let the query make a text of it", column.name())));
                };
                texts.push(column.name(), value);
            }
            Ok(texts)
        }
    };
}

reader!(read_mysql, MySqlRow, [i64, u64, f64, f32]);
reader!(read_postgres, PgRow, [i64, i32, i16, f64, f32]);
reader!(read_sqlite, SqliteRow, [i64, f64]);

impl Sql {
    pub fn new(terms: &Terms) -> Result<Sql, Failure> {
        let scheme = terms.url.split(':').next().unwrap_or_default();
        Ok(match scheme {
            "mysql" | "mariadb" => Sql::Mysql(pool!(MySqlPoolOptions, MySqlConnectOptions::from_str(&terms.url).map_err(failed)?, terms)),
            "postgres" | "postgresql" => {
                let options = PgConnectOptions::from_str(&terms.url).map_err(failed)?.application_name("saker");
                Sql::Postgres(pool!(PgPoolOptions, options, terms))
            }
            "sqlite" => {
                let options = SqliteConnectOptions::from_str(&terms.url).map_err(failed)?.read_only(true);
                Sql::Sqlite(pool!(SqlitePoolOptions, options, terms))
            }
            other => return Err(Failure::Away(format!("`{other}` is no database that is known"))),
        })
    }

    pub async fn rows(&self, query: &str, parameters: &[&str], rows_max: usize) -> Result<Vec<Row>, Failure> {
        match self {
            Sql::Mysql(pool) => fetch!(pool, query, parameters, rows_max, read_mysql),
            Sql::Postgres(pool) => {
                let query = placeholders::numbered(query);
                fetch!(pool, &query, parameters, rows_max, read_postgres)
            }
            Sql::Sqlite(pool) => fetch!(pool, query, parameters, rows_max, read_sqlite),
        }
    }
}

fn failed(error: sqlx::Error) -> Failure {
    Failure::Away(match error {
        sqlx::Error::PoolTimedOut => "no connection to it in time".into(),
        error => error.to_string(),
    })
}
