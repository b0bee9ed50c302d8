//! The shop's own users. Of a token only the digest is kept.

use callgate::access::TokenDigest;
use callgate::http::{Authenticate, AuthenticateError, Parts, bearer_token};
use callgate::upstream::BoxFuture;
use callgate::{Caller, Grants, Mask, User};
use sqlx::SqlitePool;

/// Users by their tokens.
#[derive(Debug)]
pub(crate) struct Tokens {
    database: SqlitePool,
}

/// Who there is, and what they may do.
const USERS: [(i64, &str, Mask); 2] = [(1, "keeper", Mask::Execute), (2, "customer", Mask::Write)];

impl Tokens {
    pub(crate) fn of(database: &SqlitePool) -> Self {
        Self { database: database.clone() }
    }

    /// Makes tokens, if there are none yet; nobody can be told them again.
    pub(crate) async fn first(&self) -> anyhow::Result<Vec<(&'static str, String)>> {
        let count: i64 =
            sqlx::query_scalar("SELECT COUNT(*) FROM tokens").fetch_one(&self.database).await?;
        let mut made = Vec::new();
        for (user, name, _) in USERS.iter().filter(|_| count == 0) {
            // 256 random bits, from the database's own generator.
            let token: String = sqlx::query_scalar("SELECT 'shop_' || lower(hex(randomblob(32)))")
                .fetch_one(&self.database)
                .await?;
            sqlx::query("INSERT INTO tokens (digest, id_user) VALUES (?, ?)")
                .bind(TokenDigest::of(&token).as_bytes().to_vec())
                .bind(user)
                .execute(&self.database)
                .await?;
            made.push((*name, token));
        }
        Ok(made)
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
            // A database that cannot be read lets nobody in.
            let found = self.user(token).await.unwrap_or_default();
            let user = USERS.iter().find(|(id, ..)| Some(*id) == found);
            let (id, name, mask) = user.ok_or(AuthenticateError::InvalidToken)?;
            let user = User { id: *id, name: (*name).to_owned(), role: None };
            Ok(Caller::user(user, Grants::from_iter([("shop", *mask)])))
        })
    }
}
