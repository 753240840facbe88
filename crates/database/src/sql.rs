//! SQL databases: a pool of connections, whichever of the kinds that sqlx has it is.
//!
//! Difficulty: a column may have any type, and all that is wanted is its text. Types are tried from the likeliest on; what has none of them
//! (dates, decimals) has to be made a text by the query, and is said so.

use crate::{
    Failure, Row, Terms, placeholders,
    pool::{Pool, Ways},
    tls, ways,
};
use futures_util::TryStreamExt;
use sqlx::{
    Column, Row as _, TypeInfo, ValueRef,
    mysql::{MySqlConnection, MySqlRow},
    postgres::{PgConnection, PgRow},
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
        $parameters.iter().fold(sqlx::query($query), |query, parameter| query.bind(*parameter))
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
                rows.push($read(&row)?);
            }
            Ok(rows)
        };
        let rows = rows.await;
        $pool.give_back(lent);
        rows
    }};
}

/// How many rows were changed.
macro_rules! execute {
    ($pool:expr, $statement:expr, $parameters:expr) => {{
        let mut lent = $pool.lend().await.map_err(failed)?;
        let done = bound!($statement, $parameters).execute(&mut lent.connection).await;
        $pool.give_back(lent);
        done.map(|done| done.rows_affected()).map_err(failed)
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
        let (url, scheme) = (&terms.url, terms.url.split(':').next().unwrap_or_default());
        Ok(match scheme {
            "mysql" | "mariadb" => Sql::Mysql(Pool::new(ways::mysql(url)?, terms)),
            "postgres" | "postgresql" => Sql::Postgres(Pool::new(ways::postgres(url)?, terms)),
            "sqlite" => {
                let options = SqliteConnectOptions::from_str(url).map_err(failed)?.read_only(!terms.may_write);
                Sql::Sqlite(Pool::new(Ways::from(options), terms))
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

    /// How many rows were changed.
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

pub fn failed(error: sqlx::Error) -> Failure {
    let help = match &error {
        sqlx::Error::Io(error) => tls::help(error),
        _ => None,
    };
    Failure::Away(match help {
        Some(help) => format!("{error}: {help}"),
        None => error.to_string(),
    })
}
