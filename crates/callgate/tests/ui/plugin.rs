#![allow(unused_variables)]

use callgate::{Context, plugin};

struct Shop;

#[plugin::methods(section = "shop")]
impl Shop {
    /// Takes `&mut self`.
    #[method(destructive)]
    fn change(&mut self) {}

    /// Without `read_only` or `destructive`, and with a borrowed argument.
    #[method]
    fn find(&self, ctx: &Context, words: &str) {}

    #[method = "x"]
    fn wrong(&self) {}
}

struct Store<K>(K);

#[plugin::methods]
impl<K: Send + Sync + 'static> Store<K> {
    const LIMIT: u8 = 3;

    #[method(read_only)]
    fn get(&self, key: K, #[default(Self::LIMIT)] limit: u8) {}

    #[method(read_only)]
    #[prompt]
    fn both(&self) {}
}

struct Empty;

#[plugin::methods]
impl Empty {
    fn helper(&self) {}
}

struct Other;

#[plugin::methods]
impl Clone for Other {
    fn clone(&self) -> Self {
        Other
    }
}

#[plugin::methods]
struct NotAnImpl;

fn main() {}
