//! The shop, a plugin whose functions share a database.

use std::str::FromStr as _;

use callgate::ask::Elicit;
use callgate::upstream::Capability;
use callgate::{Context, Error, plugin};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions, SqliteRow};
use sqlx::{FromRow, Row as _, SqlitePool};

/// Total in cents above which the user must confirm an order.
const ASK_ABOVE: i64 = 10_000;

/// The shop.
#[derive(Debug)]
pub(crate) struct Shop {
    database: SqlitePool,
}

/// A product.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Product {
    id: i64,
    name: String,
    /// In cents.
    price: i64,
    /// Number in stock.
    stock: i64,
}

/// An order.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Order {
    id: i64,
    product: String,
    quantity: i64,
    /// In cents.
    total: i64,
}

/// Answer of the user.
#[derive(Deserialize)]
struct Confirmed {
    confirm: bool,
}

#[plugin::methods]
impl Shop {
    /// Finds products whose name contains a text, cheapest first. Without a text, returns all products.
    #[method(id = "shop.products.find", title = "Find products", read_only)]
    async fn find(
        &self,
        /// The text to look for, such as `tea`.
        words: Option<String>,
        /// Maximum number of products to return.
        #[default(10)]
        #[schemars(range(min = 1, max = 100))]
        limit: i64,
    ) -> Result<Vec<Product>, Error> {
        let query = "SELECT id, name, price, stock FROM products \
                     WHERE instr(lower(name), lower(?)) ORDER BY price, id LIMIT ?";
        let words = words.unwrap_or_default();
        Ok(sqlx::query_as(query).bind(words).bind(limit).fetch_all(&self.database).await?)
    }

    /// Buys a product. Asks the user before an expensive purchase, if the client supports questions.
    #[method(
        id = "shop.order.place",
        title = "Place order",
        section("shop", write),
        destructive,
        open_world = false
    )]
    async fn order(
        &self,
        ctx: &Context,
        /// The product's id.
        product: i64,
        /// Number of items to buy.
        #[default(1)]
        #[schemars(range(min = 1, max = 1000))]
        quantity: i64,
    ) -> Result<Order, Error> {
        let Product { id, name, price, .. } = self.product_by_id(product).await?;
        let total = price * quantity;
        if total > ASK_ABOVE && ctx.supports(Capability::Elicitation) {
            confirm(ctx, &format!("Buy {quantity} × {name} for {}?", euros(total))).await?;
        }
        let mut transaction = self.database.begin().await?;
        let updated =
            sqlx::query("UPDATE products SET stock = stock - ?1 WHERE id = ?2 AND stock >= ?1")
                .bind(quantity)
                .bind(id)
                .execute(&mut *transaction)
                .await?;
        if updated.rows_affected() == 0 {
            return Err(Error::tool(format!("there are not {quantity} of {name} left")));
        }
        let insert = "INSERT INTO orders (id_product, quantity, total, buyer) VALUES (?, ?, ?, ?) \
                      RETURNING id";
        let order: i64 = sqlx::query_scalar(insert)
            .bind(id)
            .bind(quantity)
            .bind(total)
            .bind(ctx.caller.name())
            .fetch_one(&mut *transaction)
            .await?;
        transaction.commit().await?;
        Ok(Order { id: order, product: name, quantity, total })
    }

    /// Sets the number of items of a product in stock, and returns the product.
    #[method(
        id = "shop.stock.set",
        title = "Set stock",
        section("shop", execute),
        destructive,
        idempotent
    )]
    async fn set_stock(
        &self,
        /// The product's id.
        product: i64,
        /// New number of items in stock.
        #[schemars(range(min = 0, max = 1_000_000))]
        stock: i64,
    ) -> Result<Product, Error> {
        sqlx::query("UPDATE products SET stock = ? WHERE id = ?")
            .bind(stock)
            .bind(product)
            .execute(&self.database)
            .await?;
        self.product_by_id(product).await
    }

    /// A product, as text.
    #[resource(uri = "shop://products/{id}", name = "product", mime_type = "text/plain")]
    async fn product(&self, id: i64) -> Result<String, Error> {
        let Product { name, price, stock, .. } = self.product_by_id(id).await?;
        Ok(format!("{name}\n{}, {stock} in stock\n", euros(price)))
    }

    /// Plans what to order for the shop.
    #[prompt(title = "Restock", section("shop", execute))]
    async fn restock(
        &self,
        /// Number of items in stock below which a product is running low.
        #[default(5)]
        below: i64,
    ) -> Result<String, Error> {
        let query = "SELECT id, name, price, stock FROM products WHERE stock < ? ORDER BY stock";
        let low: Vec<Product> = sqlx::query_as(query).bind(below).fetch_all(&self.database).await?;
        let lines =
            low.iter().map(|it| format!("- {} (id {}): {} left\n", it.name, it.id, it.stock));
        Ok(format!("These are running low:\n{}Plan an order.", lines.collect::<String>()))
    }

    async fn product_by_id(&self, id: i64) -> Result<Product, Error> {
        let query = "SELECT id, name, price, stock FROM products WHERE id = ?";
        let found = sqlx::query_as(query).bind(id).fetch_optional(&self.database).await?;
        found.ok_or_else(|| Error::tool(format!("there is no product {id}")))
    }
}

/// Fails if the user does not accept. In the modern era, the method runs again from its beginning with the answer, so
/// the method must not buy anything before the question.
async fn confirm(ctx: &Context, question: &str) -> Result<(), Error> {
    let form = json!({
        "type": "object",
        "properties": {"confirm": {"type": "boolean", "title": "Yes, buy it"}},
        "required": ["confirm"],
    });
    let elicited = ctx.ask("confirm", Elicit::form(question, form)).await?;
    match elicited.accepted::<Confirmed>() {
        Some(Confirmed { confirm: true }) => Ok(()),
        _ => Err(Error::tool("the user declined the purchase")),
    }
}

fn euros(cents: i64) -> String {
    format!("{}.{:02} €", cents / 100, cents % 100)
}

impl FromRow<'_, SqliteRow> for Product {
    fn from_row(row: &SqliteRow) -> sqlx::Result<Self> {
        Ok(Self {
            id: row.try_get("id")?,
            name: row.try_get("name")?,
            price: row.try_get("price")?,
            stock: row.try_get("stock")?,
        })
    }
}

impl Shop {
    /// Opens the shop. A new shop has a few products.
    pub(crate) async fn open(path: &str) -> sqlx::Result<Self> {
        let options = SqliteConnectOptions::from_str(&format!("sqlite:{path}"))?;
        // Each connection to an in-memory database would have its own data.
        let pool = SqlitePoolOptions::new().max_connections(1);
        let database = pool.connect_with(options.create_if_missing(true)).await?;
        sqlx::raw_sql(include_str!("shop.sql")).execute(&database).await?;
        Ok(Self { database })
    }

    pub(crate) fn database(&self) -> &SqlitePool {
        &self.database
    }
}

#[cfg(test)]
mod tests {
    use callgate::{Caller, Callgate, Grants, Mask, User};
    use serde_json::{Value, json};

    use super::*;

    async fn server() -> Callgate {
        Callgate::builder().plugin(Shop::open(":memory:").await.unwrap()).build().unwrap()
    }

    fn customer(mask: Mask) -> Caller {
        let user = User { id: 1, name: "ada".to_owned(), role: None };
        Caller::user(user, Grants::from_iter([("shop", mask)]))
    }

    #[tokio::test]
    async fn only_callers_with_write_access_see_the_order_method() {
        let server = server().await;
        assert_eq!(server.as_caller(Caller::anonymous()).methods(), ["shop.products.find"]);
        let ids = ["shop.order.place", "shop.products.find"];
        assert_eq!(server.as_caller(customer(Mask::Write)).methods(), ids);
    }

    #[tokio::test]
    async fn an_order_reduces_the_stock_and_fails_if_the_stock_is_too_low() {
        let server = server().await;
        let ada = server.as_caller(customer(Mask::Execute));
        ada.call("shop.stock.set", json!({"product": 1, "stock": 3})).await.unwrap();
        let order =
            ada.call("shop.order.place", json!({"product": 1, "quantity": 2})).await.unwrap();
        assert_eq!(order["quantity"], 2);
        let stock = async || -> Value {
            let found = ada.call("shop.products.find", json!({"words": "green"})).await.unwrap();
            found[0]["stock"].clone()
        };
        assert_eq!(stock().await, 1);
        let error = ada.call("shop.order.place", json!([1, 2])).await.unwrap_err();
        assert_eq!(error.to_string(), "there are not 2 of Green tea left (code 1)");
        assert_eq!(stock().await, 1);
    }

    #[tokio::test]
    async fn invalid_arguments_are_rejected() {
        let server = server().await;
        let ada = server.as_caller(customer(Mask::Write));
        let result = ada.call("shop.order.place", json!({"product": 1, "quantity": 0})).await;
        assert!(result.unwrap_err().to_string().starts_with("argument `quantity`"));
    }
}
