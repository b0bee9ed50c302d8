//! Copies a registry into a database of each kind, and back.

use callgate::Mask;
use callgate_registry::{
    Copy, CopyError, CopyReport, DatabaseOptions, DatabaseUrl, OpenError, Store as _, copy,
};

use crate::databases::{Kind, Place};

/// Rows of every table, in SQLite: with characters of four bytes, null and empty values, texts that look like numbers,
/// JSON with spaces and repeated members, and the earliest and latest times.
const ROWS: &str = r#"
    INSERT INTO sections (id, caption, ident, mask) VALUES (3, '', 's', 2), (7, '𝄞 caption', 'S', 6);
    INSERT INTO section_actions (id, id_section, plugin, method, mask, comment)
        VALUES (5, 3, 'Plug', 'do', 4, NULL), (6, 7, 'plug', 'do', 2, '');
    INSERT INTO sections_user_permission (id, id_section, id_user, value) VALUES (2, 3, 123, 6);
    INSERT INTO sections_user_types_permission (id, id_section, id_user_type, value)
        VALUES (4, 3, 9, 0), (8, 3, 9, 2);
    INSERT INTO settings (id, caption, name, value) VALUES (1, NULL, 'a', NULL), (2, '', 'b', '');
    INSERT INTO users_types (id, caption) VALUES (0, 'Anonymous'), (9, 'rôle 😀'), (10, 'ROLE');
    INSERT INTO users (id, login, id_type) VALUES (11, 'ada', 9), (12, 'ADA', NULL);
    INSERT INTO rpc_methods (id, plugin, method, rpc_method, params, description, title, annotations,
            exposed, upstream, input_schema, params_by, remote_name)
        VALUES (21, NULL, '', 'a.b', '[ "int $id" ,  "😀 $x = 1.50" ]', char(10) || 'two lines' || char(13),
            ' 007 ', '{"b":1, "a":2, "b":3}', 1, 'up', '{"type" : "object"}', 'position-null', 'b'),
            (22, '', NULL, 'a.b', NULL, '', NULL, NULL, 0, NULL, NULL, NULL, NULL),
            (40, '', NULL, '𝄞', NULL, 'it''s "so" \n', NULL, NULL, NULL, NULL, NULL, 'either', '');
    INSERT INTO rpc_methods (id, rpc_method, safety, input_schema, output_schema)
        VALUES (41, 'schemas', printf('%.300c', 'x'), 'true', 'false');
    INSERT INTO callgate_types (name, fields, schema) VALUES ('T', '[]', NULL), ('any', NULL, 'true'),
        ('t', NULL, '{"é": "é", "\u00e9": 1e400}');
    INSERT INTO callgate_upstreams (name, config) VALUES ('up', '{"url":  "http://127.0.0.1:1/"}');
    INSERT INTO callgate_credentials (id_user, upstream, secret, set_at)
        VALUES (11, 'up', 's3cret', 0), (11, 'vp', ' ', 1), (12, 'up', '', 253402300799);
    INSERT INTO callgate_imports (upstream, rpc_method, source, written)
        VALUES ('up', 'a', 'x', '{"a" : null}'), ('up', 'b', '', '{}'), ('uq', 'a', 'x', '[1,  2]');
    INSERT INTO callgate_keys (id, purpose, secret, created_at, active_from)
        VALUES (1, 'session', '00ff', 1700000000, 0), (3, 'session', 'aa', 1700000001, 1700000300);
    INSERT INTO callgate_sessions (nonce, number, ended, log_level, subscriptions, ends_at)
        VALUES ('n1', 41, 0, NULL, '["a",  "b"]', 1900000000), ('n2', 42, 1, 'info', NULL, 1900000000);
    INSERT INTO callgate_meta (name, value) VALUES ('demo', '');
    INSERT INTO callgate_messages (number, session, message, posted_at) VALUES (1, 'n1', '{}', 1);
"#;

/// More tokens than fit into a statement.
const TOKENS: &str = "
    WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 1100)
    INSERT INTO callgate_tokens (id, id_user, name, digest, created_at, expires_at, last_used_at)
    SELECT n * 2, 11, 'token ' || n, printf('%064x', n), 1700000000 + n,
        CASE WHEN n % 2 THEN NULL ELSE 1800000000 + n END, CASE WHEN n % 3 THEN NULL ELSE n END
    FROM numbers;
";

pub(crate) async fn copied(from: &DatabaseUrl, to: &DatabaseUrl) -> Result<CopyReport, CopyError> {
    let options = DatabaseOptions::default();
    copy(Copy { from, to, options: &options, tables: None }, &mut |_| ()).await
}

/// Returns a registry in SQLite with rows in every table, to be copied to a database of this kind.
async fn source(kind: Kind) -> Place {
    let source = Kind::Sqlite.registry().await.place;
    // The SQL Server emulator accepts neither large numbers in JSON nor long statements.
    let (rows, tokens) = match kind {
        Kind::SqlServer => (ROWS.replace("1e400", "1e40"), TOKENS.replace("1100", "20")),
        _ => (ROWS.to_owned(), TOKENS.to_owned()),
    };
    source.sql(&rows).await;
    source.sql(&tokens).await;
    source
}

/// Runs plain SQL in the middle of a copy, when the copy reports a table.
fn run_now(place: &Place, sql: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || runtime.block_on(place.sql(sql))).join().unwrap();
    });
}

/// Returns the contents of a registry in SQLite, read with SQLite's own tools.
async fn dump(place: &Place) -> Vec<String> {
    let mut all = Vec::new();
    for (table, columns) in [
        ("sections", "id, caption, ident, mask"),
        ("section_actions", "id, id_section, plugin, method, mask, comment"),
        ("sections_user_permission", "id, id_section, id_user, value"),
        ("sections_user_types_permission", "id, id_section, id_user_type, value"),
        ("settings", "id, caption, name, value"),
        ("users_types", "id, caption"),
        ("users", "id, login, id_type"),
        (
            "rpc_methods",
            "id, plugin, method, rpc_method, params, params_types, description, sections, return_type, \
             title, safety, annotations, exposed, upstream, tool_name, input_schema, output_schema, \
             defaults, params_by, remote_name",
        ),
        ("callgate_types", "name, fields, schema"),
        ("callgate_upstreams", "name, config"),
        ("callgate_credentials", "id_user, upstream, secret, set_at"),
        ("callgate_imports", "upstream, rpc_method, source, written"),
        ("callgate_keys", "id, purpose, secret, created_at, active_from"),
        ("callgate_tokens", "id, id_user, name, digest, created_at, expires_at, last_used_at"),
        ("callgate_sessions", "nonce, number, ended, log_level, subscriptions, ends_at"),
        ("callgate_meta", "name, value"),
    ] {
        let quoted = columns.split(", ").map(|name| format!("quote(\"{name}\")"));
        let quoted = quoted.collect::<Vec<_>>().join(" || ',' || ");
        let sql = format!("SELECT {quoted} FROM {table} ORDER BY 1");
        let rows = crate::databases::sqlite_texts(&place.url, &sql).await;
        all.extend(rows.into_iter().map(|row| format!("{table}: {row}")));
    }
    all
}

pub(crate) async fn a_registry_survives_the_way_there_and_back(kind: Kind) {
    let (from, there, back) = (source(kind).await, kind.target().await, Kind::Sqlite.place().await);
    let first = copied(&from.url, &there.url).await.unwrap();
    assert!(first.is_finished() && !first.was_equal, "{first:?}");
    assert!(first.tables.iter().all(|table| table.rows > 0), "{first:?}");
    let second = copied(&there.url, &back.url).await.unwrap();
    assert_eq!(second, first);
    assert_eq!(dump(&back).await, dump(&from).await);
    // The second copy has nothing to do.
    let again = copied(&from.url, &there.url).await.unwrap();
    assert!(again.is_finished() && again.was_equal);
}

/// The tokens and grants of removed users still exist.
pub(crate) async fn what_is_numbered_goes_on_behind_what_was_copied(kind: Kind) {
    let (from, there) = (source(kind).await, kind.target().await);
    from.sql("INSERT INTO users (id, login) VALUES (50, 'gone'); DELETE FROM users WHERE id = 50")
        .await;
    from.sql("INSERT INTO sections (id, ident) VALUES (60, 'gone'); DELETE FROM sections").await;
    assert!(copied(&from.url, &there.url).await.unwrap().is_finished());
    let store = there.open(None).await.unwrap();
    store.add_user("new", Some("new")).await.unwrap();
    let user = store.user("new").await.unwrap();
    assert!(user.id > 50 && user.id_type > Some(10), "{user:?}");
    store.add_section("new", "", Mask::Read).await.unwrap();
    let sections = store.sections().await.unwrap();
    assert!(sections.len() == 1 && sections[0].id > 60, "{sections:?}");
    assert!(store.change_counters().await.unwrap().sessions >= 42);
}

pub(crate) async fn numbers_that_were_freed_are_not_given_again_after_a_copy(kind: Kind) {
    let (from, back) = (kind.registry().await.place, Kind::Sqlite.place().await);
    for login in ["one", "two", "three"] {
        from.sql(&format!("INSERT INTO users (login) VALUES ('{login}')")).await;
    }
    from.sql("DELETE FROM users WHERE login = 'three'").await;
    from.sql("INSERT INTO sections (ident) VALUES ('gone')").await;
    from.sql("DELETE FROM sections").await;
    assert!(copied(&from.url, &back.url).await.unwrap().is_finished());
    let store = back.open(None).await.unwrap();
    store.add_user("new", None).await.unwrap();
    let user = store.user("new").await.unwrap();
    assert!(user.id > 3, "{user:?}");
    store.add_section("new", "", Mask::Read).await.unwrap();
    let sections = store.sections().await.unwrap();
    assert!(sections.len() == 1 && sections[0].id > 1, "{sections:?}");
}

pub(crate) async fn a_registry_with_other_content_is_not_written_to(kind: Kind) {
    let (from, there) = (source(kind).await, kind.registry().await.place);
    there.sql("INSERT INTO users (login) VALUES ('somebody')").await;
    let error = copied(&from.url, &there.url).await.unwrap_err();
    assert!(
        matches!(&error, CopyError::NotEmpty { table, rows: 1, .. } if table == "users"),
        "{error}"
    );
    assert_eq!(there.open(None).await.unwrap().users().await.unwrap().len(), 1);
}

pub(crate) async fn a_copy_that_was_interrupted_leaves_an_empty_target_and_runs_again_whole(
    kind: Kind,
) {
    let (from, there) = (source(kind).await, kind.target().await);
    let options = DatabaseOptions::default();
    let what = Copy { from: &from.url, to: &there.url, options: &options, tables: None };
    let stop = tokio::sync::Notify::new();
    let mut tell = |table: &str| {
        if table == "callgate_tokens" {
            stop.notify_one();
        }
    };
    tokio::select! {
        biased;
        () = stop.notified() => {}
        done = copy(what, &mut tell) => panic!("{done:?}"),
    }
    assert_eq!(there.open(None).await.unwrap().users().await.unwrap(), []);
    assert!(matches!(copied(&there.url, &from.url).await, Err(CopyError::NotEmpty { .. })));
    let mut told = Vec::new();
    let done = copy(what, &mut |table| told.push(table.to_owned())).await.unwrap();
    assert!(done.is_finished() && !done.was_equal, "{done:?}");
    assert!(told.contains(&"rpc_methods".to_owned()), "{told:?}");
    assert_eq!(there.open(None).await.unwrap().users().await.unwrap().len(), 2);
}

/// Returns statements that create and remove a trigger which changes the values that are stored.
fn changing_trigger(kind: Kind) -> (&'static str, &'static str) {
    match kind {
        Kind::Sqlite => (
            "CREATE TRIGGER odd AFTER INSERT ON users WHEN NEW.id = 11
             BEGIN UPDATE users SET login = 'another' WHERE id = 11; END",
            "DROP TRIGGER odd",
        ),
        Kind::Postgres => (
            "CREATE FUNCTION odd() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
             IF NEW.id = 11 THEN NEW.login := 'another'; END IF; RETURN NEW; END $$;
             CREATE TRIGGER odd BEFORE INSERT ON users FOR EACH ROW EXECUTE FUNCTION odd()",
            "DROP TRIGGER odd ON users",
        ),
        Kind::MariaDb => (
            "CREATE TRIGGER odd BEFORE INSERT ON users FOR EACH ROW
             SET NEW.login = IF(NEW.id = 11, 'another', NEW.login)",
            "DROP TRIGGER odd",
        ),
        Kind::SqlServer => (
            "CREATE TRIGGER odd ON users AFTER INSERT AS
             UPDATE users SET login = 'another' WHERE id = 11",
            "DROP TRIGGER odd",
        ),
    }
}

pub(crate) async fn a_copy_that_came_out_different_is_not_kept(kind: Kind) {
    let (from, there) = (source(kind).await, kind.registry().await.place);
    let (make, remove) = changing_trigger(kind);
    there.sql(make).await;
    let first = copied(&from.url, &there.url).await.unwrap();
    assert!(!first.source_changed && !first.is_finished(), "{first:?}");
    assert_eq!(there.open(None).await.unwrap().users().await.unwrap(), []);
    there.sql(remove).await;
    assert!(copied(&from.url, &there.url).await.unwrap().is_finished());
    assert!(there.open(None).await.unwrap().user("ada").await.is_ok());
}

pub(crate) async fn a_source_that_changes_meanwhile_is_copied_anew(kind: Kind) {
    let (from, there) = (source(kind).await, kind.target().await);
    let change = |table: &str| {
        if table == "callgate_types" {
            run_now(&from, "INSERT INTO users (login) VALUES ('late')");
        }
    };
    let options = DatabaseOptions::default();
    let what = Copy { from: &from.url, to: &there.url, options: &options, tables: None };
    let first = copy(what, &mut { change }).await.unwrap();
    assert!(first.source_changed && !first.is_finished(), "{first:?}");
    assert!(first.tables.iter().all(|table| table.is_equal), "of one snapshot: {first:?}");
    assert_eq!(there.open(None).await.unwrap().users().await.unwrap(), []);
    assert!(copied(&from.url, &there.url).await.unwrap().is_finished());
    assert_eq!(there.open(None).await.unwrap().users().await.unwrap().len(), 3);
}

pub(crate) async fn what_a_database_cannot_keep_is_told_before_anything_is_written(kind: Kind) {
    // Longer than any kind of database except SQLite can store.
    let long = "x".repeat(421);
    for (sql, table, column) in [
        (format!("UPDATE users SET login = '{long}' WHERE id = 12"), "users", "login"),
        ("UPDATE rpc_methods SET params = '[1' WHERE id = 22".to_owned(), "rpc_methods", "params"),
        ("UPDATE rpc_methods SET exposed = 7 WHERE id = 22".to_owned(), "rpc_methods", "exposed"),
        ("UPDATE sections SET mask = 'lots'".to_owned(), "sections", "mask"),
        ("UPDATE callgate_tokens SET expires_at = -1".to_owned(), "callgate_tokens", "expires_at"),
        (
            "UPDATE callgate_tokens SET digest = 'a' WHERE id = 2".to_owned(),
            "callgate_tokens",
            "digest",
        ),
    ] {
        let (from, there) = (source(kind).await, kind.place().await);
        from.sql(&sql).await;
        let copied = copied(&from.url, &there.url).await;
        if kind == Kind::Sqlite {
            assert!(copied.unwrap().is_finished(), "SQLite stores all values: {sql}");
            continue;
        }
        let error = copied.unwrap_err();
        assert!(
            matches!(&error, CopyError::Incompatible { table: t, column: c, .. } if t == table && *c == column),
            "{sql}: {error}"
        );
        assert!(matches!(there.open(None).await, Err(OpenError::Missing(_))));
    }
}
