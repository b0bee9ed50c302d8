use callgate::{method, prompt, resource};

struct Shop;

impl Shop {
    #[method(read_only)]
    fn stock(&self) -> u32 {
        3
    }

    #[prompt]
    async fn review(&self, code: String) -> String {
        code
    }

    #[resource(uri = "shop://books")]
    fn books(&self) -> String {
        String::new()
    }
}

fn main() {}
