//! Link arguments of the program.

use std::env;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let is = |name: &str, value: &str| env::var(name).is_ok_and(|found| found == value);
    // Without optimization it has some 290,000 addresses that depend on where it is loaded. The tests start it
    // thousands of times, and each start would spend half of its time on writing these. Optimized programs stay
    // independent of their position.
    if is("PROFILE", "debug")
        && is("CARGO_CFG_TARGET_OS", "linux")
        && is("CARGO_CFG_TARGET_ENV", "gnu")
    {
        println!("cargo::rustc-link-arg-bins=-no-pie");
    }
}
