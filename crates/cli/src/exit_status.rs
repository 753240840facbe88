//! Exit statuses of commands.

/// Done.
pub const OK: u8 = 0;
/// The configuration has errors.
pub const CONFIGURATION_ERRORS: u8 = 1;
/// Wrong usage, or the command cannot be carried out.
pub const CANNOT: u8 = 2;
/// No server is running.
pub const NOT_RUNNING: u8 = 3;
/// Another upgrade is under way, or was done meanwhile.
pub const UPGRADE_UNDER_WAY: u8 = saker_control::upgrade::UNDER_WAY;
