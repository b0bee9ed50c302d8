//! A call of a server that is running, over HTTP: through the bridge, as its client.

use std::future::pending;
use std::time::Duration;

use anyhow::Context as _;
use callgate::Secret;
use callgate::bridge::{self, Limits, Options};
use serde_json::{Value, json};
use tokio::io::{
    AsyncBufRead, AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, Lines,
};

use super::{CALL, INITIALIZE, Request};
use crate::config::{Config, TOKEN_VARIABLE};

/// So much may be on its way to the bridge and back.
const BUFFER: usize = 64 * 1024;
/// Somebody waits for it: a server that is not up is told of soon.
const HOLD: Duration = Duration::from_secs(2);

/// The whole reply.
pub(super) async fn ask(
    config: &Config,
    url: &str,
    request: &Request<'_>,
) -> anyhow::Result<Value> {
    let limits = Limits { hold: HOLD, ..Limits::default() };
    let endpoint = url.parse().context("`--url` is not right")?;
    let mut options = Options::new(endpoint).limits(limits);
    if let Some(token) = config.token.as_ref().map(Secret::expose) {
        let context = || format!("`{TOKEN_VARIABLE}` is not right");
        options = options.token_from(TOKEN_VARIABLE, token).with_context(context)?;
    }
    let (ours, theirs) = tokio::io::duplex(BUFFER);
    let (input, output) = tokio::io::split(theirs);
    let bridged = bridge::run(&options, BufReader::new(input), output, pending());
    // The bridge ends when nobody talks to it any more, and ends the session.
    let (ended, reply) = tokio::join!(bridged, converse(ours, request));
    reply.or_else(|error| {
        ended?;
        Err(error)
    })
}

async fn converse(stream: DuplexStream, request: &Request<'_>) -> anyhow::Result<Value> {
    let (read, mut write) = tokio::io::split(stream);
    let mut lines = BufReader::new(read).lines();
    write.write_all(Request::opening().as_bytes()).await?;
    let opened = reply(&mut lines, INITIALIZE).await?;
    if opened.get("error").is_some() {
        return Ok(opened);
    }
    write.write_all(request.lines().as_bytes()).await?;
    reply(&mut lines, CALL).await
}

async fn reply(lines: &mut Lines<impl AsyncBufRead + Unpin>, id: u8) -> anyhow::Result<Value> {
    while let Some(line) = lines.next_line().await? {
        let message: Value = serde_json::from_str(&line).unwrap_or_default();
        if message.get("id") == Some(&json!(id)) {
            return Ok(message);
        }
    }
    anyhow::bail!("there was no reply")
}
