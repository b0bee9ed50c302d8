//! cargo run --example hello
use callgate::{Callgate, Error, method, methods};

/// Greets somebody by name.
#[method(read_only)]
fn greet(name: String) -> String {
    format!("Hello, {name}!")
}

/// Divides one whole number by another.
#[method(read_only)]
fn divide(dividend: i64, divisor: i64) -> Result<i64, Error> {
    dividend.checked_div(divisor).ok_or_else(|| Error::tool("this cannot be divided"))
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:3000".to_owned());
    let server = Callgate::builder().methods(methods![greet, divide]).build()?;
    Ok(server.serve(address).await?)
}
