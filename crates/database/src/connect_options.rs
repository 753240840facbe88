//! Connect options of MariaDB and PostgreSQL that a URL stands for, with TLS and without.
//!
//! Nothing said means what the databases' own clients do: TLS where the server has it, none where
//! that fails, and none over a Unix socket. Difficulty: drivers know the authorities that Mozilla
//! knows, and those of one file; the system's are given to them as such a file.

use crate::{
    Failure,
    pool::PoolOptions,
    sql_error::failed,
    tls::{self, Known, Wishes, Word},
};
use sqlx::{
    mysql::{MySqlConnectOptions, MySqlSslMode},
    postgres::{PgConnectOptions, PgSslMode},
};
use std::str::FromStr;

const MYSQL: Known = &[
    ("ssl-mode", Word::Mode),
    ("sslmode", Word::Mode),
    ("ssl-ca", Word::Authority),
    ("sslca", Word::Authority),
    ("ssl-cert", Word::Certificate),
    ("sslcert", Word::Certificate),
    ("ssl-key", Word::Key),
    ("sslkey", Word::Key),
];

const POSTGRES: Known = &[
    ("sslmode", Word::Mode),
    ("ssl-mode", Word::Mode),
    ("sslrootcert", Word::Authority),
    ("ssl-root-cert", Word::Authority),
    ("ssl-ca", Word::Authority),
    ("sslcert", Word::Certificate),
    ("ssl-cert", Word::Certificate),
    ("sslkey", Word::Key),
    ("ssl-key", Word::Key),
];

pub fn mysql(url: &str) -> Result<PoolOptions<MySqlConnectOptions>, Failure> {
    let wishes = Wishes::of(url, MYSQL)?;
    let options = MySqlConnectOptions::from_str(url).map_err(failed)?;
    let host = bare(options.get_host()).to_owned();
    let options = options.host(&host);
    let mode = match options.get_ssl_mode() {
        // Who names an authority wants it asked for.
        MySqlSslMode::Preferred if wishes.mode.is_none() && wishes.authority.is_some() => {
            MySqlSslMode::VerifyCa
        }
        MySqlSslMode::Preferred if options.get_socket().is_some() => MySqlSslMode::Disabled,
        mode => mode,
    };
    let is_system = matches!(mode, MySqlSslMode::VerifyCa | MySqlSslMode::VerifyIdentity)
        && wishes.authority.is_none();
    let options = if is_system {
        options.ssl_ca_from_pem(tls::system_pem())
    } else {
        options
    };
    let otherwise = matches!(mode, MySqlSslMode::Preferred)
        .then(|| options.clone().ssl_mode(MySqlSslMode::Disabled));
    Ok(PoolOptions {
        first: options.ssl_mode(mode),
        otherwise,
        files: wishes.files,
    })
}

/// As libpq has it, but for an authority that is named without a mode.
pub fn postgres(url: &str) -> Result<PoolOptions<PgConnectOptions>, Failure> {
    let wishes = Wishes::of(url, POSTGRES)?;
    let options = PgConnectOptions::from_str(url)
        .map_err(failed)?
        .application_name("saker");
    if options.get_socket().is_some() || options.get_host().starts_with('/') {
        return Ok(PoolOptions::from(options.ssl_mode(PgSslMode::Disable)));
    }
    let host = bare(options.get_host()).to_owned();
    let options = options.host(&host);
    let mode = match options.get_ssl_mode() {
        PgSslMode::Prefer if wishes.mode.is_none() && wishes.authority.is_some() => {
            PgSslMode::VerifyCa
        }
        PgSslMode::Require if wishes.authority.is_some() => PgSslMode::VerifyCa,
        mode => mode,
    };
    let is_system =
        matches!(mode, PgSslMode::VerifyCa | PgSslMode::VerifyFull) && wishes.authority.is_none();
    let options = if is_system {
        options.ssl_root_cert_from_pem(tls::system_pem())
    } else {
        options
    };
    let otherwise = match mode {
        PgSslMode::Prefer => Some(options.clone().ssl_mode(PgSslMode::Disable)),
        PgSslMode::Allow => Some(options.clone().ssl_mode(PgSslMode::Require)),
        _ => None,
    };
    Ok(PoolOptions {
        first: options.ssl_mode(mode),
        otherwise,
        files: wishes.files,
    })
}

/// An address of IPv6 stands in brackets in a URL, and without them in a certificate.
fn bare(host: &str) -> &str {
    host.trim_matches(['[', ']'])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mysql_mode(url: &str) -> (MySqlSslMode, bool) {
        let chosen = mysql(url).unwrap();
        (chosen.first.get_ssl_mode(), chosen.otherwise.is_some())
    }

    fn postgres_mode(url: &str) -> (PgSslMode, bool) {
        let chosen = postgres(url).unwrap();
        (chosen.first.get_ssl_mode(), chosen.otherwise.is_some())
    }

    #[test]
    fn modes_of_mariadb() {
        use MySqlSslMode as Mode;
        assert!(matches!(mysql_mode("mysql://h/d"), (Mode::Preferred, true)));
        assert!(matches!(
            mysql_mode("mysql://h/d?ssl-mode=PREFERRED&ssl-ca=/c"),
            (Mode::Preferred, true)
        ));
        assert!(matches!(
            mysql_mode("mysql://localhost/d?socket=/s"),
            (Mode::Disabled, false)
        ));
        assert!(matches!(
            mysql_mode("mysql://localhost/d?socket=/s&ssl-mode=REQUIRED"),
            (Mode::Required, false)
        ));
        assert!(matches!(
            mysql_mode("mariadb://h/d?sslmode=required&ssl-ca=/c"),
            (Mode::Required, false)
        ));
        assert!(matches!(
            mysql_mode("mysql://h/d?ssl-ca=/c"),
            (Mode::VerifyCa, false)
        ));
        assert!(matches!(
            mysql_mode("mysql://h/d?ssl-mode=VERIFY_IDENTITY"),
            (Mode::VerifyIdentity, false)
        ));
        assert!(matches!(
            mysql_mode("mysql://h/d?ssl-mode=DISABLED"),
            (Mode::Disabled, false)
        ));
        assert_eq!(mysql("mysql://[::1]/d").unwrap().first.get_host(), "::1");
        assert!(mysql("mysql://h/d?ssl-mode=verify-full").is_err());
        assert!(mysql("mysql://h/d?ssl_mode=REQUIRED").is_err());
    }

    #[test]
    fn modes_of_postgresql() {
        use PgSslMode as Mode;
        assert!(matches!(
            postgres_mode("postgres://h/d"),
            (Mode::Prefer, true)
        ));
        assert!(matches!(
            postgres_mode("postgres://h/d?sslmode=prefer&sslrootcert=/c"),
            (Mode::Prefer, true)
        ));
        assert!(matches!(
            postgres_mode("postgres://h/d?sslmode=allow"),
            (Mode::Allow, true)
        ));
        assert!(matches!(
            postgres_mode("postgres://h/d?sslmode=verify-full&host=/run"),
            (Mode::Disable, false)
        ));
        assert!(matches!(
            postgres_mode("postgres://%2Frun/d"),
            (Mode::Disable, false)
        ));
        assert!(matches!(
            postgres_mode("postgres://h/d?sslmode=require"),
            (Mode::Require, false)
        ));
        assert!(matches!(
            postgres_mode("postgres://h/d?sslmode=require&sslrootcert=/c"),
            (Mode::VerifyCa, false)
        ));
        assert!(matches!(
            postgres_mode("postgres://h/d?sslrootcert=/c"),
            (Mode::VerifyCa, false)
        ));
        assert!(matches!(
            postgres_mode("postgres://h/d?sslmode=verify-full"),
            (Mode::VerifyFull, false)
        ));
        assert!(postgres("postgres://h/d?sslmode=REQUIRED").is_err());
        assert!(postgres("postgres://h/d?sslcrl=/c").is_err());
    }
}
