//! `callgate user`, `token`, `credential`, `section` and `grant`.

pub(super) mod user;
pub(super) mod token;
pub(super) mod credential;
pub(super) mod section;
pub(super) mod grant;
