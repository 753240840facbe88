//! The first day on a Debian machine, as root, with real ports: Apache's stock configuration and a
//! native one, reloads, rotation, the way back to Apache; and a takeover with WordPress.
//!
//! Each test runs on a machine of its own (`debian_root/machine.rs`). Ownership of files in
//! `/var/log/apache2` is taken from Apache itself first: it must be the same afterwards.

#![allow(clippy::unwrap_used, clippy::panic)] // The whole file is tests.

mod apache;
mod load;
pub mod machine;
mod native;
mod wordpress;

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[test]
fn apaches_stock_configuration() {
    let _turn = saker_testkit::heavy();
    if is_root() {
        machine::on_its_own("debian_root::apache::on_a_machine");
    }
}

#[test]
fn a_native_configuration() {
    let _turn = saker_testkit::heavy();
    if is_root() {
        machine::on_its_own("debian_root::native::on_a_machine");
    }
}

#[test]
fn apache_with_wordpress_is_taken_over() {
    let _turn = saker_testkit::heavy();
    if is_root() {
        println!(
            "{}",
            machine::on_its_own("debian_root::wordpress::on_a_machine")
        );
    }
}
