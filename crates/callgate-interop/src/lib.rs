//! Nothing: this package has tests only.
