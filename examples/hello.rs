//! cargo run --example hello
use callgate::{Callgate, Error, method, methods};

/// Greets somebody by name.
#[method(read_only)]
fn greet(name: String) -> String {
    format!("Hello, {name}!")
}

/// Divides one number by another.
#[method(read_only)]
fn divide(dividend: f64, divisor: f64) -> Result<f64, Error> {
    if divisor == 0.0 {
        return Err(Error::tool("nothing can be divided by zero"));
    }
    Ok(dividend / divisor)
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:3000".to_owned());
    let gateway = Callgate::builder().methods(methods![greet, divide]).build()?;
    Ok(gateway.serve(address).await?)
}
