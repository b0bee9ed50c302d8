//! Snapshots of the generated code: `INSTA_UPDATE=always cargo test -p callgate-macros` updates them.

use proc_macro2::TokenStream;
use quote::quote;

use crate::attribute::Kind;
use crate::expand;

fn pretty(tokens: &TokenStream) -> String {
    prettyplease::unparse(&syn::parse2(tokens.clone()).unwrap())
}

#[test]
fn a_function_becomes_a_method() {
    let expanded = expand::function(
        Kind::Method,
        quote!(
            id = "user.get",
            title = "Get user",
            tool_name = "get_user",
            section("user_management", read),
            section("audit", write),
            read_only,
            idempotent,
            open_world = false,
            annotations(category = "system", "x-weight" = -2)
        ),
        &quote! {
            /// Looks up a user.
            ///
            /// By number.
            ///
            /// # Errors
            ///
            /// When there is none.
            pub(crate) async fn get_user(
                ctx: &Context,
                /// The user's numeric id.
                id_user: i64,
                /// Also return e-mail and roles.
                #[default(false)]
                include_details: bool,
                #[serde(rename = "maxAge")] max_age: Option<u32>,
                #[default] r#type: String,
            ) -> Result<User, Error> {
                body()
            }
        },
    );
    insta::assert_snapshot!(pretty(&expanded));
}

#[test]
fn a_function_without_async_fills_a_response() {
    let expanded = expand::function(
        Kind::Method,
        quote!(read_only),
        &quote!(
            fn report(response: &mut Response, ctx: &Context) {}
        ),
    );
    insta::assert_snapshot!(pretty(&expanded));
}

#[test]
fn an_impl_becomes_a_plugin() {
    let expanded = expand::plugin(
        &TokenStream::new(),
        &quote! {
            impl<D: Database> Shop<D> {
                fn helper(&self) {}

                /// Orders.
                #[method(id = "shop.order", destructive)]
                async fn order(&self, ctx: &Context, product: String) -> anyhow::Result<Order> {
                    body()
                }

                #[callgate::method(read_only)]
                #[cfg(feature = "time")]
                fn opening_hours() -> String {
                    body()
                }

                #[method(read_only)]
                fn stock(&self, product: String) -> Result<u32, Error> {
                    body()
                }

                /// Asks for a review.
                #[prompt]
                fn review(&self, product: String, #[default(5)] stars: u8) -> String {
                    body()
                }
            }
        },
    );
    insta::assert_snapshot!(pretty(&expanded));
}

#[test]
fn a_function_becomes_a_prompt() {
    let expanded = expand::function(
        Kind::Prompt,
        quote!(name = "code-review", title = "Review", section("code", read)),
        &quote! {
            /// Reviews code.
            async fn review(
                ctx: &Context,
                /// The code.
                code: String,
                /// What to look for.
                focus: Option<String>,
            ) -> Result<GetPromptResult, Error> {
                body()
            }
        },
    );
    insta::assert_snapshot!(pretty(&expanded));
}

#[test]
fn a_function_becomes_a_resource_template() {
    let expanded = expand::function(
        Kind::Resource,
        quote!(uri = "shop://products/{id}", name = "product", mime_type = "text/plain"),
        &quote! {
            /// A product.
            async fn product(id: i64) -> Option<String> {
                body()
            }
        },
    );
    insta::assert_snapshot!(pretty(&expanded));
}

#[test]
fn all_errors_are_reported_together() {
    let expanded = expand::function(
        Kind::Method,
        quote!(id = "rpc.x", name = "y", section("s", rule), annotations(readOnlyHint = true)),
        &quote!(
            fn broken<T>(&self, name: &str, (a, b): (i64, i64), #[default = 3] c: i64) {}
        ),
    );
    insta::assert_snapshot!(pretty(&expanded));
}
