//! A gateway without the rest of the program: `cargo run -p gateway --example serve -- gateway.toml`. It builds in a
//! fraction of the time, for measurements and fault suites; `gristmill gateway` is the one with signals and reloads.

use std::time::Duration;

use gateway::{Gateway, Secret, read_config};

fn secret(secret: &Secret<'_>) -> Result<String, String> {
    match secret {
        Secret::Environment(name) => std::env::var(name).map_err(|error| format!("{name}: {error}")),
        Secret::File(path) => {
            std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
        }
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("usage: serve FILE")?;
    let config = read_config(&std::fs::read_to_string(path)?)?;
    let address = config.gateway.listen.clone();
    let gateway = Gateway::new(config, httpd::Options::default(), Box::new(secret)).await?;
    let listener = tokio::net::TcpListener::bind(address).await?;
    gateway.run(listener, std::future::pending(), Duration::from_secs(1)).await;
    Ok(())
}
