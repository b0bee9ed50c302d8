//! The shop's users. Only digests of tokens are stored.

use callgate::access::TokenDigest;
use callgate::http::{Authenticate, AuthenticateError, Parts, bearer_token};
use callgate::upstream::BoxFuture;
use callgate::{Caller, Grants, Mask, User};
use sqlx::SqlitePool;

/// Users by token.
#[derive(Debug)]
pub(crate) struct Tokens {
    database: SqlitePool,
}

/// Users and their permissions.
const USERS: [(i64, &str, Mask); 2] = [(1, "keeper", Mask::Execute), (2, "customer", Mask::Write)];

impl Tokens {
    pub(crate) fn new(database: &SqlitePool) -> Self {
        Self { database: database.clone() }
    }

    /// Creates tokens if there are none. The tokens cannot be shown again.
    pub(crate) async fn create_initial(&self) -> anyhow::Result<Vec<(&'static str, String)>> {
        let count: i64 =
            sqlx::query_scalar("SELECT COUNT(*) FROM tokens").fetch_one(&self.database).await?;
        let mut created = Vec::new();
        for (user, name, _) in USERS.iter().filter(|_| count == 0) {
            // 256 random bits, from the database's generator.
            let token: String = sqlx::query_scalar("SELECT 'shop_' || lower(hex(randomblob(32)))")
                .fetch_one(&self.database)
                .await?;
            sqlx::query("INSERT INTO tokens (digest, id_user) VALUES (?, ?)")
                .bind(TokenDigest::of(&token).as_bytes().to_vec())
                .bind(user)
                .execute(&self.database)
                .await?;
            created.push((*name, token));
        }
        Ok(created)
    }

    async fn user(&self, token: &str) -> sqlx::Result<Option<i64>> {
        sqlx::query_scalar("SELECT id_user FROM tokens WHERE digest = ?")
            .bind(TokenDigest::of(token).as_bytes().to_vec())
            .fetch_optional(&self.database)
            .await
    }
}

impl Authenticate for Tokens {
    fn authenticate<'a>(
        &'a self,
        request: &'a Parts,
    ) -> BoxFuture<'a, Result<Caller, AuthenticateError>> {
        Box::pin(async {
            let Some(token) = bearer_token(&request.headers)? else {
                return Ok(Caller::anonymous());
            };
            // A database error denies access.
            let found = self.user(token).await.unwrap_or_default();
            let user = USERS.iter().find(|(id, ..)| Some(*id) == found);
            let (id, name, mask) = user.ok_or(AuthenticateError::InvalidToken)?;
            let user = User { id: *id, name: (*name).to_owned(), role: None };
            Ok(Caller::user(user, Grants::from_iter([("shop", *mask)])))
        })
    }
}
