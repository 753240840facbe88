//! Pairs of endpoints over memory.

mod begin;
mod carry;
mod end;
mod pair;
mod paths;
