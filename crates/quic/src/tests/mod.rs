//! Pairs of endpoints over memory.

mod acks;
mod begin;
mod carry;
mod end;
mod pair;
mod paths;
