//! Compares a method made by the attribute with the same method built by hand.

use callgate::local::Local;
use callgate::model::{Method, Param, Safety};
use callgate::{Callgate, Context, Error, Mask, method, methods};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::macros::caller;
use crate::macros::serving::send_request;

#[derive(Serialize, JsonSchema)]
struct Found {
    items: Vec<Item>,
    total: u32,
}

#[derive(Serialize, JsonSchema)]
struct Item {
    id: i64,
    name: String,
    price: Option<f64>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Order {
    Name,
    Price,
}

#[derive(Deserialize, JsonSchema)]
struct Between {
    #[serde(rename = "minPrice")]
    min: f64,
    max: Option<f64>,
}

/// Looks for products.
///
/// Words are looked for in names.
#[method(
    id = "shop.find",
    title = "Find products",
    section("shop", read),
    section("stock", write),
    read_only,
    idempotent,
    open_world = false,
    annotations(category = "shop")
)]
async fn find(
    _ctx: &Context,
    /// What to look for.
    words: Vec<String>,
    /// How many.
    #[default(10)]
    #[schemars(range(min = 1, max = 100))]
    limit: u32,
    /// Which come first.
    order: Option<Order>,
    /// What it may cost.
    between: Option<Between>,
) -> Result<Found, Error> {
    let _ = (words, limit, order, between.map(|between| (between.min, between.max)));
    Ok(Found { items: Vec::new(), total: 0 })
}

/// Counts.
#[method(destructive)]
fn count() -> u32 {
    0
}

fn by_hand() -> Result<Callgate, Box<dyn std::error::Error>> {
    let annotations = json!({"idempotentHint": true, "openWorldHint": false, "category": "shop"});
    let mut local = Local::default();
    local.method(
        Method::new("shop.find".parse()?)
            .title("Find products")
            .description("Looks for products.\n\nWords are looked for in names.")
            .param(Param::new("words", "string[]".parse()?).description("What to look for."))
            .param(
                Param::new("limit", "int<1, 100>".parse()?)
                    .description("How many.")
                    .default(json!(10)),
            )
            .param(
                Param::new("order", "'name'|'price'|null".parse()?)
                    .description("Which come first.")
                    .optional(),
            )
            .param(
                Param::new("between", "?array{minPrice: float, max?: ?float}".parse()?)
                    .description("What it may cost.")
                    .optional(),
            )
            .returns(
                "array{items: array{id: int, name: string, price: ?float}[], total: int<0, max>}"
                    .parse()?,
            )
            .safety(Safety::ReadOnly)
            .annotations(annotations.as_object().cloned().unwrap_or_else(Map::new))
            .requires("shop", Mask::Read)
            .requires("stock", Mask::Write),
        async |_, _: Value| Ok::<_, Error>(json!({})),
    );
    local.method(
        Method::new("count".parse()?)
            .description("Counts.")
            .returns("int<0, max>".parse()?)
            .safety(Safety::Destructive),
        async |_, _: Value| Ok::<_, Error>(0),
    );
    Ok(Callgate::builder().local(local).build()?)
}

#[tokio::test]
async fn a_generated_method_equals_one_built_by_hand_in_every_format() {
    let generated = Callgate::builder().methods(methods![find, count]).build().unwrap();
    let built = by_hand().unwrap();
    let ada = caller("ada", &[("shop", Mask::Read), ("stock", Mask::Write)]);
    let revisions = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"];
    let mut formats = std::collections::BTreeSet::new();
    for revision in revisions {
        let of_generated = send_request(&generated, &ada, revision, "tools/list", json!({})).await;
        let of_built = send_request(&built, &ada, revision, "tools/list", json!({})).await;
        assert_eq!(of_generated, of_built, "{revision}");
        formats.insert(of_generated);
    }
    assert!(formats.len() >= 3, "the format depends on the revision");
    let both = [&generated, &built].map(|gateway| {
        let ada = gateway.as_caller(ada.clone());
        ["count", "shop.find"].map(|id| ada.describe(id).unwrap().to_string())
    });
    assert_eq!(both[0], both[1]);
    insta::assert_json_snapshot!(generated.as_caller(ada).describe("shop.find").unwrap());
}
