//! Large registries.

use callgate_registry::Store as _;

use crate::databases::Registry;

/// Number of rows in one statement. SQL Server accepts no more.
const ROWS: usize = 1_000;

/// Inserts rows, many in each statement, as a script would.
async fn insert(registry: &Registry, into: &str, count: usize, row: impl Fn(usize) -> String) {
    let numbers: Vec<usize> = (0..count).collect();
    for part in numbers.chunks(ROWS) {
        let rows: Vec<String> = part.iter().map(|number| row(*number)).collect();
        registry.database.sql(&format!("INSERT INTO {into} VALUES {}", rows.join(","))).await;
    }
}

pub(crate) async fn a_large_catalog_is_read_completely(registry: Registry) {
    let scale = registry.database.scale();
    let count = scale.methods;
    insert(&registry, "rpc_methods (rpc_method, params, description)", count, |number| {
        format!("('m.{number}', '[\"int $id\"]', 'Looks up the thing with the number {number}.')")
    })
    .await;
    let rows = registry.store.catalog_rows().await.unwrap();
    assert_eq!(rows.methods.len(), count);
    assert!(rows.methods.is_sorted_by_key(|row| row.id));
    let last = rows.methods.last().unwrap();
    assert_eq!(last.rpc_method, format!("m.{}", count - 1));
    assert_eq!(last.params.as_deref(), Some(r#"["int $id"]"#));
    let sample = rows.methods.iter().take(scale.list_len);
    let names: Vec<(i64, String)> = sample.map(|row| (row.id, format!("t{}", row.id))).collect();
    registry.store.store_tool_names(&names).await.unwrap();
    let rows = registry.store.catalog_rows().await.unwrap();
    let has_name = |row: &&callgate_registry::MethodRow| {
        row.tool_name.as_ref().is_some_and(|name| *name == format!("t{}", row.id))
    };
    assert_eq!(rows.methods.iter().filter(has_name).count(), names.len());
}

/// Inserts tokens with one statement that generates numbers by joining digits. A digest is the number itself.
async fn insert_tokens(registry: &Registry, count: usize, id_user: i64) {
    let digits: Vec<String> = (0..10).map(|digit| format!("SELECT {digit} AS d")).collect();
    let digits = digits.join(" UNION ALL ");
    let places = (count - 1).ilog10() + 1;
    let tables: Vec<String> =
        (0..places).rev().map(|place| format!("({digits}) d{place}")).collect();
    let number: Vec<String> =
        (0..places).map(|place| format!("{} * d{place}.d", 10_i64.pow(place))).collect();
    let number = number.join(" + ");
    registry
        .database
        .sql(&format!(
            "INSERT INTO callgate_tokens (id_user, name, digest, created_at)
             SELECT {id_user}, 't', {}, {} FROM (SELECT {number} AS n FROM {}) numbers
             WHERE n < {count}",
            registry.database.padded("n"),
            registry.database.now(),
            tables.join(" CROSS JOIN "),
        ))
        .await;
}

pub(crate) async fn many_users_are_read_at_once_and_tokens_are_looked_up_by_digest(
    registry: Registry,
) {
    let scale = registry.database.scale();
    registry.database.sql("INSERT INTO users_types (caption) VALUES ('everybody')").await;
    let role = registry.store.role("everybody").await.unwrap().id;
    insert(&registry, "users (login, id_type)", scale.users, |number| {
        format!("('user{number}', {role})")
    })
    .await;
    let access = registry.store.access_rows().await.unwrap();
    assert_eq!(access.users.len(), scale.users);
    assert!(access.users.iter().all(|user| user.role.as_deref() == Some("everybody")));
    insert_tokens(&registry, scale.tokens, access.users[0].id).await;
    let step = scale.tokens / scale.list_len;
    let digests: Vec<String> =
        (0..scale.list_len).map(|number| format!("{:064}", number * step)).collect();
    let found = registry.store.tokens_by_digest(&digests).await.unwrap();
    assert_eq!(found.len(), scale.list_len);
    let unknown = [format!("{:064}", scale.tokens)];
    assert_eq!(registry.store.tokens_by_digest(&unknown).await.unwrap(), []);
    assert_eq!(registry.store.revoke_tokens_named("none").await.unwrap(), 0);
    registry.store.revoke_token(found[0].id).await.unwrap();
    assert_eq!(registry.store.tokens_by_digest(&digests).await.unwrap().len(), scale.list_len - 1);
}
