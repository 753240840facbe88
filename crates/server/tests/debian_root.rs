//! Day one on a Debian machine, as root, with real ports: Apache's stock configuration and a native
//! one, reloads, rotation, the way back to Apache.
//!
//! Each test runs on a machine of its own (`debian_root/machine.rs`). What Apache itself leaves in
//! `/var/log/apache2` is found out first, by Apache itself: nothing there may belong to anybody
//! else afterwards.

#![allow(clippy::unwrap_used, clippy::panic)] // The whole file is tests.

#[path = "debian_root/apache.rs"]
mod apache;
#[path = "debian_root/load.rs"]
mod load;
#[path = "debian_root/machine.rs"]
mod machine;
#[path = "debian_root/native.rs"]
mod native;
mod operate;

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[test]
fn apaches_stock_configuration() {
    if is_root() {
        machine::on_its_own("apache::on_a_machine");
    }
}

#[test]
fn a_native_configuration() {
    if is_root() {
        machine::on_its_own("native::on_a_machine");
    }
}
