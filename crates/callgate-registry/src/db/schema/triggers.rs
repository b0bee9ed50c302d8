//! Triggers that increment counters, so that changes by plain SQL are noticed.

use super::{TABLES, Table};
use crate::db::dialect::Dialect;

/// Counters that are always locked together, in this order.
const BOTH: &[&str] = &["access", "catalog"];

/// Functions that the triggers of PostgreSQL call.
const POSTGRES: &str = "-- Notifies servers of changes before their next poll.
CREATE FUNCTION callgate_notify() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('callgate', '');
    RETURN NULL;
END $$;
CREATE TRIGGER callgate_notify AFTER UPDATE ON callgate_revisions
    FOR EACH STATEMENT EXECUTE FUNCTION callgate_notify();

-- Increments counters. `access` and `catalog` are locked together, in this order, to avoid deadlocks. The other
-- counters are locked separately, so that a token can be revoked during an import. The program locks the counters
-- before the rows. Plain SQL locks the rows first. If this causes a deadlock, PostgreSQL ends one of the two
-- transactions, and the program retries.
CREATE FUNCTION callgate_increment(counters TEXT[]) RETURNS void
    LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    IF counters && ARRAY['access', 'catalog'] THEN
        PERFORM FROM callgate_revisions WHERE name IN ('access', 'catalog') ORDER BY name FOR UPDATE;
    END IF;
    UPDATE callgate_revisions SET value = value + 1 WHERE name = ANY (counters);
END $$;

-- For triggers with a transition table: a statement that changes no rows increments nothing.
CREATE FUNCTION callgate_changed() RETURNS trigger
    LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    IF EXISTS (SELECT FROM changed) THEN
        PERFORM callgate_increment(TG_ARGV);
    END IF;
    RETURN NULL;
END $$;

-- For triggers without a transition table.
CREATE FUNCTION callgate_changed_always() RETURNS trigger
    LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM callgate_increment(TG_ARGV);
    RETURN NULL;
END $$;

-- Advances the sequence past explicit ids. Ids are never reused, because a grant must not apply to a later
-- user.
CREATE FUNCTION callgate_advance_sequence() RETURNS trigger
    LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    numbers REGCLASS := pg_get_serial_sequence(TG_RELID::REGCLASS::TEXT, 'id');
    highest BIGINT := (SELECT max(id) FROM changed);
BEGIN
    IF highest > COALESCE(pg_sequence_last_value(numbers), 0) THEN
        PERFORM setval(numbers, highest);
    END IF;
    RETURN NULL;
END $$;

";

const MYSQL: &str = "-- TRUNCATE fires no triggers, so servers do not notice it.\n";

const SQL_SERVER: &str =
    "-- A trigger runs once per statement, and increments nothing if no row changed. `access` and `catalog` are locked
-- together, in this order, to avoid deadlocks. The other counters are locked separately, so that a token can be
-- revoked during an import. The program locks the counters before the rows. Plain SQL locks the rows first. If
-- this causes a deadlock, SQL Server ends one of the two transactions, and the program retries. Triggers set
-- NOCOUNT, because programs would otherwise mistake the row counts of triggers for those of the statement.
";

/// Returns the statements that create the triggers of all tables.
pub(super) fn script(dialect: Dialect) -> String {
    let preamble = dialect.pick(["", POSTGRES, MYSQL, SQL_SERVER]);
    let tables = TABLES.iter().filter(|table| !table.counters.is_empty());
    let triggers = tables.flat_map(|table| match dialect {
        Dialect::Postgres => table.postgres_triggers(),
        _ => [("i", "INSERT"), ("u", "UPDATE"), ("d", "DELETE")]
            .map(|(suffix, event)| table.trigger(dialect, suffix, event))
            .into(),
    });
    preamble.to_owned() + &triggers.collect::<Vec<_>>().join(dialect.batch_separator())
}

impl Table {
    fn trigger(&self, dialect: Dialect, suffix: &str, event: &str) -> String {
        let Self { name, short, watched, counters, .. } = self;
        let trigger = format!("callgate_{short}_{suffix}");
        let watched = if event == "UPDATE" { *watched } else { &[] };
        let counter_list = quoted(counters);
        let increment = format!(
            "UPDATE callgate_revisions SET value = value + 1 WHERE name IN ({counter_list})"
        );
        match dialect {
            Dialect::SqlServer => self.sql_server_trigger(&trigger, event, watched),
            Dialect::MySql => {
                let unchanged =
                    watched.iter().map(|column| format!("NEW.{column} <=> OLD.{column}"));
                let unchanged = unchanged.collect::<Vec<_>>().join(" AND ");
                let condition = if unchanged.is_empty() {
                    String::new()
                } else {
                    format!("\n    AND NOT ({unchanged})")
                };
                format!(
                    "DROP TRIGGER IF EXISTS {trigger};\n\
                     CREATE TRIGGER {trigger} AFTER {event} ON {name} FOR EACH ROW\n    {increment}{condition};"
                )
            }
            _ => {
                let of_clause = of_clause(watched);
                format!(
                    "CREATE TRIGGER {trigger} AFTER {event}{of_clause} ON {name} BEGIN {increment}; END;"
                )
            }
        }
    }

    fn sql_server_trigger(&self, trigger: &str, event: &str, watched: &[&str]) -> String {
        let Self { name, counters, .. } = self;
        let columns = watched.join(", ");
        let changed = match event {
            "DELETE" => "SELECT 1 FROM deleted".to_owned(),
            _ if watched.is_empty() => "SELECT 1 FROM inserted".to_owned(),
            _ => format!("SELECT {columns} FROM inserted EXCEPT SELECT {columns} FROM deleted"),
        };
        let locks_both = counters.iter().any(|counter| BOTH.contains(counter));
        let (counter_list, locked) =
            (quoted(counters), quoted(if locks_both { BOTH } else { counters }));
        format!(
            "CREATE TRIGGER {trigger} ON {name} AFTER {event} AS\nBEGIN\n    SET NOCOUNT ON;\n    \
             IF EXISTS ({changed})\n        UPDATE callgate_revisions SET value = value + \
             CASE WHEN name IN ({counter_list}) THEN 1 ELSE 0 END\n        WHERE name IN ({locked});\nEND;"
        )
    }

    fn postgres_triggers(&self) -> Vec<String> {
        let Self { name, watched, .. } = self;
        let counter_list = quoted(self.counters);
        let trigger = |suffix: &str, event: &str, rows: &str, function: String| {
            format!(
                "CREATE TRIGGER callgate_{suffix} AFTER {event} ON {name}{rows}\n    \
                 FOR EACH STATEMENT EXECUTE FUNCTION {function};"
            )
        };
        let (new, old) = (" REFERENCING NEW TABLE AS changed", " REFERENCING OLD TABLE AS changed");
        let changed = format!("callgate_changed({counter_list})");
        let always = format!("callgate_changed_always({counter_list})");
        let mut triggers = vec![
            trigger("i", "INSERT", new, changed.clone()),
            trigger("d", "DELETE", old, changed.clone()),
            trigger("t", "TRUNCATE", "", always.clone()),
            // In PostgreSQL, a trigger for single columns cannot have a transition table.
            if watched.is_empty() {
                trigger("u", "UPDATE", new, changed)
            } else {
                trigger("u", &format!("UPDATE{}", of_clause(watched)), "", always)
            },
        ];
        if self.key == "id" {
            triggers.push(trigger("n", "INSERT", new, "callgate_advance_sequence()".to_owned()));
        }
        triggers
    }
}

fn of_clause(columns: &[&str]) -> String {
    if columns.is_empty() { String::new() } else { format!(" OF {}", columns.join(", ")) }
}

fn quoted(names: &[&str]) -> String {
    names.iter().map(|name| format!("'{name}'")).collect::<Vec<_>>().join(", ")
}
