//! Copies a registry into a database of each kind, and back.

use callgate::Mask;
use callgate_registry::{
    Copy, CopyError, CopyReport, DatabaseOptions, DatabaseUrl, OpenError, Store as _, copy,
};

use crate::databases::{Kind, TestDatabase};

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

pub(crate) async fn copy_registry(
    from: &DatabaseUrl,
    to: &DatabaseUrl,
) -> Result<CopyReport, CopyError> {
    let options = DatabaseOptions::default();
    copy(Copy { from, to, options: &options, tables: None }, &mut |_| ()).await
}

/// Returns a registry in SQLite with rows in every table, to be copied to a database of this kind.
async fn source(kind: Kind) -> TestDatabase {
    let source = Kind::Sqlite.registry().await.database;
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
fn run_sql_during_copy(database: &TestDatabase, sql: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || runtime.block_on(database.sql(sql))).join().unwrap();
    });
}

/// Returns the contents of a registry in SQLite, read with SQLite's own tools.
async fn dump(database: &TestDatabase) -> Vec<String> {
    let mut lines = Vec::new();
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
        let rows = crate::databases::sqlite_texts(&database.url, &sql).await;
        lines.extend(rows.into_iter().map(|row| format!("{table}: {row}")));
    }
    lines
}

pub(crate) async fn a_registry_is_unchanged_after_a_copy_and_a_copy_back(kind: Kind) {
    let (from, target, copy_back) =
        (source(kind).await, kind.target().await, Kind::Sqlite.database().await);
    let first = copy_registry(&from.url, &target.url).await.unwrap();
    assert!(first.is_finished() && !first.was_equal, "{first:?}");
    assert!(first.tables.iter().all(|table| table.rows > 0), "{first:?}");
    let second = copy_registry(&target.url, &copy_back.url).await.unwrap();
    assert_eq!(second, first);
    assert_eq!(dump(&copy_back).await, dump(&from).await);
    // The second copy has nothing to do.
    let third = copy_registry(&from.url, &target.url).await.unwrap();
    assert!(third.is_finished() && third.was_equal);
}

/// The tokens and grants of removed users still exist.
pub(crate) async fn ids_of_deleted_rows_are_not_reused_in_a_copy_to_the_database(kind: Kind) {
    let (from, target) = (source(kind).await, kind.target().await);
    from.sql("INSERT INTO users (id, login) VALUES (50, 'gone'); DELETE FROM users WHERE id = 50")
        .await;
    from.sql("INSERT INTO sections (id, ident) VALUES (60, 'gone'); DELETE FROM sections").await;
    assert!(copy_registry(&from.url, &target.url).await.unwrap().is_finished());
    let store = target.open(None).await.unwrap();
    store.add_user("new", Some("new")).await.unwrap();
    let user = store.user("new").await.unwrap();
    assert!(user.id > 50 && user.id_type > Some(10), "{user:?}");
    store.add_section("new", "", Mask::Read).await.unwrap();
    let sections = store.sections().await.unwrap();
    assert!(sections.len() == 1 && sections[0].id > 60, "{sections:?}");
    assert!(store.change_counters().await.unwrap().sessions >= 42);
}

pub(crate) async fn ids_of_deleted_rows_are_not_reused_in_a_copy_from_the_database(kind: Kind) {
    let (from, copy_back) = (kind.registry().await.database, Kind::Sqlite.database().await);
    for login in ["one", "two", "three"] {
        from.sql(&format!("INSERT INTO users (login) VALUES ('{login}')")).await;
    }
    from.sql("DELETE FROM users WHERE login = 'three'").await;
    from.sql("INSERT INTO sections (ident) VALUES ('gone')").await;
    from.sql("DELETE FROM sections").await;
    assert!(copy_registry(&from.url, &copy_back.url).await.unwrap().is_finished());
    let store = copy_back.open(None).await.unwrap();
    store.add_user("new", None).await.unwrap();
    let user = store.user("new").await.unwrap();
    assert!(user.id > 3, "{user:?}");
    store.add_section("new", "", Mask::Read).await.unwrap();
    let sections = store.sections().await.unwrap();
    assert!(sections.len() == 1 && sections[0].id > 1, "{sections:?}");
}

pub(crate) async fn a_target_with_other_rows_is_not_changed(kind: Kind) {
    let (from, target) = (source(kind).await, kind.registry().await.database);
    target.sql("INSERT INTO users (login) VALUES ('somebody')").await;
    let error = copy_registry(&from.url, &target.url).await.unwrap_err();
    assert!(
        matches!(&error, CopyError::NotEmpty { table, rows: 1, .. } if table == "users"),
        "{error}"
    );
    assert_eq!(target.open(None).await.unwrap().users().await.unwrap().len(), 1);
}

pub(crate) async fn an_interrupted_copy_leaves_an_empty_target_and_can_be_repeated(kind: Kind) {
    let (from, target) = (source(kind).await, kind.target().await);
    let options = DatabaseOptions::default();
    let parameters = Copy { from: &from.url, to: &target.url, options: &options, tables: None };
    let stop = tokio::sync::Notify::new();
    let mut on_table = |table: &str| {
        if table == "callgate_tokens" {
            stop.notify_one();
        }
    };
    tokio::select! {
        biased;
        () = stop.notified() => {}
        report = copy(parameters, &mut on_table) => panic!("{report:?}"),
    }
    assert_eq!(target.open(None).await.unwrap().users().await.unwrap(), []);
    assert!(matches!(copy_registry(&target.url, &from.url).await, Err(CopyError::NotEmpty { .. })));
    let mut tables = Vec::new();
    let report = copy(parameters, &mut |table| tables.push(table.to_owned())).await.unwrap();
    assert!(report.is_finished() && !report.was_equal, "{report:?}");
    assert!(tables.contains(&"rpc_methods".to_owned()), "{tables:?}");
    assert_eq!(target.open(None).await.unwrap().users().await.unwrap().len(), 2);
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

pub(crate) async fn a_copy_that_differs_from_its_source_is_rolled_back(kind: Kind) {
    let (from, target) = (source(kind).await, kind.registry().await.database);
    let (create, remove) = changing_trigger(kind);
    target.sql(create).await;
    let first = copy_registry(&from.url, &target.url).await.unwrap();
    assert!(!first.source_changed && !first.is_finished(), "{first:?}");
    assert_eq!(target.open(None).await.unwrap().users().await.unwrap(), []);
    target.sql(remove).await;
    assert!(copy_registry(&from.url, &target.url).await.unwrap().is_finished());
    assert!(target.open(None).await.unwrap().user("ada").await.is_ok());
}

pub(crate) async fn a_copy_is_rolled_back_if_its_source_changes_and_can_be_repeated(kind: Kind) {
    let (from, target) = (source(kind).await, kind.target().await);
    let change = |table: &str| {
        if table == "callgate_types" {
            run_sql_during_copy(&from, "INSERT INTO users (login) VALUES ('late')");
        }
    };
    let options = DatabaseOptions::default();
    let parameters = Copy { from: &from.url, to: &target.url, options: &options, tables: None };
    let first = copy(parameters, &mut { change }).await.unwrap();
    assert!(first.source_changed && !first.is_finished(), "{first:?}");
    assert!(first.tables.iter().all(|table| table.is_equal), "of one snapshot: {first:?}");
    assert_eq!(target.open(None).await.unwrap().users().await.unwrap(), []);
    assert!(copy_registry(&from.url, &target.url).await.unwrap().is_finished());
    assert_eq!(target.open(None).await.unwrap().users().await.unwrap().len(), 3);
}

pub(crate) async fn values_that_the_target_cannot_store_are_reported_before_the_first_write(
    kind: Kind,
) {
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
        let (from, target) = (source(kind).await, kind.database().await);
        from.sql(&sql).await;
        let result = copy_registry(&from.url, &target.url).await;
        if kind == Kind::Sqlite {
            assert!(result.unwrap().is_finished(), "SQLite stores all values: {sql}");
            continue;
        }
        let error = result.unwrap_err();
        assert!(
            matches!(&error, CopyError::Incompatible { table: t, column: c, .. } if t == table && *c == column),
            "{sql}: {error}"
        );
        assert!(matches!(target.open(None).await, Err(OpenError::Missing(_))));
    }
}
