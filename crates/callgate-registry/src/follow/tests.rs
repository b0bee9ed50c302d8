//! Methods in code and in rows, in one server.

mod concurrent;
pub(super) mod fake_store;
mod recovery;
mod unavailable;

use callgate::access::Section;
use callgate::upstream::CallError;
use callgate::{Caller, Mask, method, methods, prompt, prompts};
use serde_json::json;
use tempfile::TempDir;

use std::sync::Arc;
use std::time::Duration;

use callgate::Callgate;

use super::registry::{Following, Registry};
use crate::auth::token::Token;
use crate::db::connect::DatabaseOptions;
use crate::db::url::DatabaseUrl;
use crate::rows::GrantHolder;
use crate::rows::{ChangeCounters, MethodRow};
use crate::store::NewToken;
use crate::store::SqlStore;
use crate::store::Store;

/// Looks up a user.
#[method(id = "user.get", title = "Get user", section("users", read), read_only)]
fn get_user(id_user: i64) -> String {
    format!("user {id_user}")
}

/// Counts users.
#[method(id = "user.count", section("users", write), read_only)]
fn count() -> u32 {
    3
}

/// Reports.
#[prompt(section("reports", read))]
fn report() -> &'static str {
    "Write a report."
}

struct Fixture {
    _directory: TempDir,
    store: Arc<SqlStore>,
    registry: Registry,
}

async fn fixture() -> Fixture {
    let directory = tempfile::tempdir().unwrap();
    let url = DatabaseUrl::sqlite(directory.path().join("registry.db"));
    let (store, _) = SqlStore::migrate(&url, &DatabaseOptions::default(), None).await.unwrap();
    let store = Arc::new(store);
    Fixture { _directory: directory, registry: Registry::new(Arc::clone(&store) as _), store }
}

impl Fixture {
    async fn gateway(&self) -> Callgate {
        Callgate::builder()
            .methods(methods![get_user, count])
            .prompts(prompts![report])
            .authenticate(self.registry.authenticator())
            .sessions(self.registry.sessions().await.unwrap())
            .build()
            .unwrap()
    }

    fn row(id: &str) -> MethodRow {
        MethodRow {
            rpc_method: id.to_owned(),
            upstream: Some(callgate::model::LOCAL.to_owned()),
            ..MethodRow::default()
        }
    }

    /// Adds a user with a token and a grant. Returns the caller of the token.
    async fn caller(&self, mask: Mask) -> Caller {
        let store = &self.store;
        store.add_user("ada", None).await.unwrap();
        let user = store.user("ada").await.unwrap();
        store.grant(GrantHolder::User(user.id), "users", mask).await.unwrap();
        let token = Token::generate().unwrap();
        let new = NewToken {
            id_user: user.id,
            name: "test".to_owned(),
            digest: token.stored_digest(),
            expires_at: None,
        };
        store.add_token(&new).await.unwrap();
        let authenticator = self.registry.authenticator();
        loop {
            let caller = authenticator.caller_of(Some(token.expose())).await.unwrap();
            // The follower may have read the user before the grant.
            if caller.grants.get(&Section::from("users")).is_some() {
                return caller;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn methods_in_code_need_no_rows_and_their_sections_are_created() {
    let fixture = fixture().await;
    let gateway = fixture.gateway().await;
    let following = fixture.registry.follow(&gateway).await.unwrap();
    let sections = fixture.store.sections().await.unwrap();
    let idents: Vec<&str> = sections.iter().map(|section| section.ident.as_str()).collect();
    assert_eq!(idents, ["reports", "users"]);
    let ada = gateway.as_caller(fixture.caller(Mask::Read).await);
    assert_eq!(ada.methods(), ["user.get"]);
    assert_eq!(ada.call("user.get", json!([7])).await.unwrap(), "user 7");
    let denied = ada.call("user.count", ()).await.unwrap_err();
    assert!(matches!(denied, CallError::NotFound(_)));
    following.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_changes_texts_masks_and_exposure_of_code_but_not_its_parameters() {
    let fixture = fixture().await;
    let store = &fixture.store;
    store.ensure_sections(&["users".to_owned()]).await.unwrap();
    let row = MethodRow {
        title: Some("Find a user".to_owned()),
        params_types: Some("string".to_owned()),
        ..Fixture::row("user.get")
    };
    store.add_method(&row, &[("users".to_owned(), Mask::Execute)]).await.unwrap();
    let hidden = MethodRow { exposed: Some("0".to_owned()), ..Fixture::row("user.count") };
    store.add_method(&hidden, &[]).await.unwrap();
    let gateway = fixture.gateway().await;
    let _following = fixture.registry.follow(&gateway).await.unwrap();
    let reader = gateway.as_caller(fixture.caller(Mask::Write).await);
    assert!(reader.methods().is_empty(), "the row asks for more than the code");
    let catalog = gateway.gateway().catalog();
    assert_eq!(catalog.len(), 1);
    let entry = catalog.by_id("user.get").unwrap();
    let tool = String::from_utf8(catalog.tool(entry).to_vec()).unwrap();
    assert!(tool.contains("\"title\":\"Find a user\""), "{tool}");
    assert!(tool.contains("\"id_user\":{\"type\":\"integer\"}"), "{tool}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_start_and_each_change_build_the_catalog_once() {
    let fixture = fixture().await;
    let store = &fixture.store;
    let gateway = fixture.gateway().await;
    let catalog_reads = || {
        let authenticator = fixture.registry.authenticator();
        authenticator.store().reads().find(|(name, _)| *name == "catalog").unwrap().1
    };
    store.add_method(&recovery::method("shop.list"), &[]).await.unwrap();
    let _following = fixture.registry.follow(&gateway).await.unwrap();
    for (builds, id) in [(1, "shop.list"), (2, "shop.find")] {
        if builds == 2 {
            store.add_method(&recovery::method(id), &[]).await.unwrap();
        }
        // The tool name is stored, which increments the catalog's counter.
        while store.methods_with_id(id).await.unwrap()[0].tool_name.is_none() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        tokio::time::sleep(unavailable::POLL * 4).await;
        assert_eq!(catalog_reads(), builds);
    }
}
