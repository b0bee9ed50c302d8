//! `callgate setting`, `key`, `migrate`, `registry`, `completions` and `man`.

pub(super) mod setting;
pub(super) mod key;
pub(super) mod migrate;
pub(super) mod copy;
pub(super) mod completions_and_man;
