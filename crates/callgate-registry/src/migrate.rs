//! Migrations: one directory per dialect, numbered from 1, each applied once and never changed.

/// One step.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Migration {
    pub(crate) version: i64,
    pub(crate) name: &'static str,
    pub(crate) sql: &'static str,
}

/// The steps for SQLite.
pub(crate) const SQLITE: &[Migration] = &[
    Migration {
        version: 1,
        name: "registry",
        sql: include_str!("../migrations/sqlite/0001_registry.sql"),
    },
    Migration {
        version: 2,
        name: "sessions",
        sql: include_str!("../migrations/sqlite/0002_sessions.sql"),
    },
    Migration {
        version: 3,
        name: "subscriptions",
        sql: include_str!("../migrations/sqlite/0003_subscriptions.sql"),
    },
    Migration {
        version: 4,
        name: "imports",
        sql: include_str!("../migrations/sqlite/0004_imports.sql"),
    },
    Migration {
        version: 5,
        name: "upstreams",
        sql: include_str!("../migrations/sqlite/0005_upstreams.sql"),
    },
    Migration {
        version: 6,
        name: "replicas",
        sql: include_str!("../migrations/sqlite/0006_replicas.sql"),
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_count_up_from_one() {
        for (version, migration) in (1..).zip(SQLITE) {
            assert_eq!(migration.version, version, "{}", migration.name);
        }
    }
}
