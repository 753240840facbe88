//! Lua, heartbeats, examples. One row per directive (`row.rs`); overrides and shapes are those of Apache 2.4.71.

use crate::row::{
    ALL, DIRECTORY, FILES,
    Importance::C,
    NOWHERE, Row, SERVER,
    Shape::{None, One, OneToThree, Raw, Section, Three, Two, TwoOrThree},
    Treatment::{self, Unsupported},
    VIRTUAL_HOST, row,
};

const HEARTBEAT: &[&str] = &["heartbeat_module"];
const HEARTMONITOR: &[&str] = &["heartmonitor_module"];
const HEARTMONITOR_OR_LBMETHOD_HEARTBEAT: &[&str] = &["heartmonitor_module", "lbmethod_heartbeat_module"];
const LUA: &[&str] = &["lua_module"];
const EXAMPLE_HOOKS: &[&str] = &["example_hooks_module"];

const NO_HEARTBEATS: Treatment = Unsupported("let the balancer check health itself");
const NO_LUA: Treatment = Unsupported("use mod_rewrite, expressions, or an application");

pub(super) const ROWS: &[Row] = &[
    row("HeartbeatAddress", HEARTBEAT, C, "s", One, SERVER, VIRTUAL_HOST, NO_HEARTBEATS),
    row("HeartbeatListen", HEARTMONITOR, C, "s", One, SERVER, VIRTUAL_HOST, NO_HEARTBEATS),
    row("HeartbeatStorage", HEARTMONITOR_OR_LBMETHOD_HEARTBEAT, C, "s", One, SERVER, VIRTUAL_HOST, NO_HEARTBEATS),
    row("HeartbeatMaxServers", HEARTMONITOR, C, "s", One, SERVER, VIRTUAL_HOST, NO_HEARTBEATS),
    row("LuaRoot", LUA, C, "svdh", One, ALL, NOWHERE, NO_LUA),
    row("LuaPackagePath", LUA, C, "svdh", One, ALL, NOWHERE, NO_LUA),
    row("LuaPackageCPath", LUA, C, "svdh", One, ALL, NOWHERE, NO_LUA),
    row("LuaAuthzProvider", LUA, C, "s", Three, SERVER, NOWHERE, NO_LUA),
    row("LuaHookPreTranslateName", LUA, C, "svdh", Two, ALL, NOWHERE, NO_LUA),
    row("<LuaHookPreTranslateName", LUA, C, "svdh", Section, ALL, NOWHERE, NO_LUA),
    row("LuaHookTranslateName", LUA, C, "sv", TwoOrThree, ALL, DIRECTORY.or(FILES), NO_LUA),
    row("<LuaHookTranslateName", LUA, C, "svdh", Section, ALL, NOWHERE, NO_LUA),
    row("LuaHookFixups", LUA, C, "svdh", Two, ALL, NOWHERE, NO_LUA),
    row("<LuaHookFixups", LUA, C, "svdh", Section, ALL, NOWHERE, NO_LUA),
    row("LuaHookMapToStorage", LUA, C, "svdh", Two, ALL, NOWHERE, NO_LUA),
    row("<LuaHookMapToStorage", LUA, C, "svdh", Section, ALL, NOWHERE, NO_LUA),
    row("LuaHookCheckUserID", LUA, C, "svdh", TwoOrThree, ALL, NOWHERE, NO_LUA),
    row("<LuaHookCheckUserID", LUA, C, "svdh", Section, ALL, NOWHERE, NO_LUA),
    row("LuaHookTypeChecker", LUA, C, "svdh", Two, ALL, NOWHERE, NO_LUA),
    row("<LuaHookTypeChecker", LUA, C, "svdh", Section, ALL, NOWHERE, NO_LUA),
    row("LuaHookAccessChecker", LUA, C, "svdh", TwoOrThree, ALL, NOWHERE, NO_LUA),
    row("<LuaHookAccessChecker", LUA, C, "svdh", Section, ALL, NOWHERE, NO_LUA),
    row("LuaHookAuthChecker", LUA, C, "svdh", TwoOrThree, ALL, NOWHERE, NO_LUA),
    row("<LuaHookAuthChecker", LUA, C, "svdh", Section, ALL, NOWHERE, NO_LUA),
    row("LuaHookInsertFilter", LUA, C, "svdh", Two, ALL, NOWHERE, NO_LUA),
    row("LuaHookLog", LUA, C, "svdh", Two, ALL, NOWHERE, NO_LUA),
    row("LuaScope", LUA, C, "svdh", OneToThree, ALL, NOWHERE, NO_LUA),
    row("LuaInherit", LUA, C, "svdh", One, ALL, NOWHERE, NO_LUA),
    row("LuaCodeCache", LUA, C, "svdh", One, ALL, NOWHERE, NO_LUA),
    row("LuaQuickHandler", LUA, C, "sv", Two, ALL, DIRECTORY.or(FILES), NO_LUA),
    row("<LuaQuickHandler", LUA, C, "svdh", Section, ALL, NOWHERE, NO_LUA),
    row("Lua_____ByteCodeHack", LUA, C, "svdh", Raw, ALL, NOWHERE, NO_LUA),
    row("LuaMapHandler", LUA, C, "svdh", TwoOrThree, ALL, DIRECTORY.or(FILES), NO_LUA),
    row("LuaOutputFilter", LUA, C, "s", Three, ALL, DIRECTORY.or(FILES), NO_LUA),
    row("LuaInputFilter", LUA, C, "s", Three, ALL, DIRECTORY.or(FILES), NO_LUA),
    row("Example", EXAMPLE_HOOKS, C, "svdh", None, ALL, NOWHERE, Unsupported("it is an example module: remove it")),
    row("LuaHookPreTranslate", LUA, C, "svdh", OneToThree, ALL, NOWHERE, NO_LUA),
];
