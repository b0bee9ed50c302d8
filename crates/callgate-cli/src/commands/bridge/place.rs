//! Where the server is, out of the options. What is wrong is told without what was given, which may be a
//! secret.

use std::net::Ipv6Addr;

use anyhow::{Context as _, bail};
use callgate::bridge::Endpoint;

use crate::cli::{Bridge, Protocol};

/// The URL, in one piece or put together.
pub(super) fn endpoint(arguments: &Bridge) -> anyhow::Result<Endpoint> {
    let (endpoint, option): (Endpoint, _) = match &arguments.url {
        Some(url) => (url.parse().context("`--url` is not right")?, "--url"),
        None => (from_parts(arguments)?, "--path"),
    };
    if endpoint.has_query() {
        tracing::warn!(
            "what follows `?` in `{option}` is sent as it is, and servers write it into their logs: a \
             token does not belong there"
        );
    }
    Ok(endpoint)
}

fn from_parts(arguments: &Bridge) -> anyhow::Result<Endpoint> {
    let scheme = match arguments.protocol {
        Protocol::Http => "http",
        Protocol::Https => "https",
    };
    let host = host(arguments.host.trim())?;
    let path = arguments.path.trim();
    if path.contains("://") && !path.starts_with('/') {
        bail!("`--path` takes a path alone, such as `/mcp`; a whole URL goes to `--url`");
    }
    let slash = if path.starts_with('/') { "" } else { "/" };
    // Each alone, so that the error names the one that is wrong.
    let at_root = format!("{scheme}://{host}:{}/", arguments.port);
    let _: Endpoint = at_root.parse().context("`--host` is not right")?;
    let url = format!("{scheme}://{host}:{}{slash}{path}", arguments.port);
    url.parse().context("`--path` is not right")
}

/// A name or an address, as it stands in a URL.
fn host(host: &str) -> anyhow::Result<String> {
    if host.contains("://") {
        bail!("`--host` takes a name or an address alone; a whole URL goes to `--url`");
    }
    if host.contains('@') {
        bail!("a user and a password do not belong into `--host`; use `CALLGATE_TOKEN`");
    }
    if host.contains(['/', '?', '#']) {
        bail!("`--host` takes a name or an address alone; what follows it goes to `--path`");
    }
    let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
    if bare.parse::<Ipv6Addr>().is_ok() {
        return Ok(format!("[{bare}]"));
    }
    if host.contains(':') {
        bail!("`--host` takes a name or an address alone; the port goes to `--port`");
    }
    Ok(host.to_owned())
}
