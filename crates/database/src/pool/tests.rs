use super::*;
use sqlx::{
    SqliteConnection,
    mysql::{MySqlConnectOptions, MySqlConnection},
    sqlite::SqliteConnectOptions,
};
use std::{
    env,
    future::Future,
    os::unix::net::{UnixListener, UnixStream},
    str::FromStr,
};
use tokio::{runtime, task::LocalSet};

/// Far beyond what anything takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

fn on_a_desk(test: impl Future<Output = ()>) {
    let runtime = runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    LocalSet::new().block_on(&runtime, async { timeout(PATIENCE, test).await.unwrap() });
}

fn sqlite(terms: &Terms) -> Rc<Pool<SqliteConnection>> {
    Pool::new(
        PoolOptions::from(SqliteConnectOptions::from_str("sqlite::memory:").unwrap()),
        terms,
    )
}

async fn until(done: impl Fn() -> bool) {
    while !done() {
        sleep(Duration::from_millis(1)).await;
    }
}

#[test]
fn connections_are_lent_again() {
    on_a_desk(async {
        let pool = sqlite(&Terms {
            connections_max: 2,
            ..Terms::default()
        });
        let (mut one, two) = (pool.lend().await.unwrap(), pool.lend().await.unwrap());
        sqlx::query("CREATE TEMP TABLE mine (a INT)")
            .execute(&mut one.connection)
            .await
            .unwrap();
        assert_eq!((pool.count(), pool.idle.borrow().len()), (2, 0));
        // The third query waits for one of them.
        assert!(
            timeout(Duration::from_millis(20), pool.lend())
                .await
                .is_err()
        );
        // What is not given back is gone.
        drop(two);
        pool.give_back(one);
        assert_eq!((pool.count(), pool.idle.borrow().len()), (1, 1));
        let mut again = pool.lend().await.unwrap();
        sqlx::query("SELECT a FROM mine")
            .execute(&mut again.connection)
            .await
            .unwrap();
    });
}

#[test]
fn connections_beyond_the_fewest_are_closed_when_nobody_needs_them() {
    on_a_desk(async {
        let pool = sqlite(&Terms {
            connections_min: 1,
            connections_max: 3,
            idle_max: Duration::ZERO,
            ..Terms::default()
        });
        for _ in 0..2 {
            let lent = [
                pool.lend().await.unwrap(),
                pool.lend().await.unwrap(),
                pool.lend().await.unwrap(),
            ];
            lent.into_iter().for_each(|lent| pool.give_back(lent));
            until(|| pool.count() == 1).await;
        }
    });
}

#[test]
fn connections_are_there_before_they_are_needed() {
    on_a_desk(async {
        let pool = sqlite(&Terms {
            connections_min: 3,
            connections_max: 4,
            ..Terms::default()
        });
        assert_eq!(pool.count(), 0);
        let lent = pool.lend().await.unwrap();
        until(|| pool.idle.borrow().len() == 2).await;
        pool.give_back(lent);
        assert_eq!(pool.count(), 3);
        let single = sqlite(&Terms {
            connections_min: 3,
            keeps_connections: false,
            ..Terms::default()
        });
        let lent = single.lend().await.unwrap();
        single.give_back(lent);
        assert_eq!(single.count(), 0);
    });
}

#[test]
fn what_each_connection_begins_with() {
    on_a_desk(async {
        let init = vec![
            "CREATE TEMP TABLE a (b INT)".to_owned(),
            "INSERT INTO a VALUES (1)".to_owned(),
        ];
        let pool = sqlite(&Terms {
            init,
            ..Terms::default()
        });
        let mut lent = pool.lend().await.unwrap();
        sqlx::query("SELECT b FROM a")
            .fetch_one(&mut lent.connection)
            .await
            .unwrap();
        let broken = sqlite(&Terms {
            init: vec!["NONSENSE".into()],
            ..Terms::default()
        });
        assert!(matches!(broken.lend().await, Err(Error::Database(_))));
    });
}

/// A socket file without a listener, or none at all, is noticed at once, and checked again each
/// time.
#[test]
fn nobody_there() {
    let path = env::temp_dir().join(format!("saker-pool-{}.sock", std::process::id()));
    drop(UnixListener::bind(&path).unwrap());
    assert!(UnixStream::connect(&path).is_err());
    on_a_desk(async {
        let options = MySqlConnectOptions::new().socket(&path);
        let options = PoolOptions {
            first: options.clone(),
            otherwise: Some(options),
            files: Vec::new(),
        };
        let pool: Rc<Pool<MySqlConnection>> = Pool::new(options, &Terms::default());
        let kind = |error| match error {
            Error::Io(error) => error.kind(),
            other => panic!("{other}"),
        };
        assert_eq!(
            pool.lend().await.err().map(kind),
            Some(io::ErrorKind::ConnectionRefused)
        );
        std::fs::remove_file(&path).unwrap();
        assert_eq!(
            pool.lend().await.err().map(kind),
            Some(io::ErrorKind::NotFound)
        );
        // A server that hangs up is tried the other way.
        let listener = tokio::net::UnixListener::bind(&path).unwrap();
        let greeted = spawn_local(async move {
            for _ in 0..2 {
                drop(listener.accept().await.unwrap());
            }
        });
        assert_eq!(
            pool.lend().await.err().map(kind),
            Some(io::ErrorKind::UnexpectedEof)
        );
        greeted.await.unwrap();
        std::fs::remove_file(&path).unwrap();
    });
}
