//! Whatever configuration files say, reading them ends, within its bounds, and all diagnostics can be
//! shown; texts with variables, patterns, and conditions are among what is read.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../bodies/nginx_config.rs"]
mod body;

fuzz_target!(|data: &[u8]| body::run(data));
