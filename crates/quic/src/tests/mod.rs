//! Pairs of endpoints over memory.

mod acks;
mod begin;
mod carry;
mod empty_frames;
mod end;
mod pair;
mod paths;
