//! The URL of the server, from the options of `callgate bridge`. Errors do not repeat the value of an option, because it
//! may contain a secret.

use std::net::Ipv6Addr;

use anyhow::{Context as _, bail};
use callgate::bridge::Endpoint;

use crate::cli::{BridgeArgs, Protocol};

pub(super) fn endpoint(args: &BridgeArgs) -> anyhow::Result<Endpoint> {
    let (endpoint, option): (Endpoint, _) = match &args.url {
        Some(url) => (url.parse().context("`--url` is not valid")?, "--url"),
        None => (from_parts(args)?, "--path"),
    };
    if endpoint.has_query() {
        tracing::warn!(
            "the query of `{option}` is sent with each request, and servers log the query: do not put a token there"
        );
    }
    Ok(endpoint)
}

fn from_parts(args: &BridgeArgs) -> anyhow::Result<Endpoint> {
    let scheme = match args.protocol {
        Protocol::Http => "http",
        Protocol::Https => "https",
    };
    let host = host(args.host.trim())?;
    let path = args.path.trim();
    if path.contains("://") && !path.starts_with('/') {
        bail!("`--path` must be a path such as `/mcp`; use `--url` for a whole URL");
    }
    let slash = if path.starts_with('/') { "" } else { "/" };
    // The host is first parsed alone, so that the error names the option that is wrong.
    let at_root = format!("{scheme}://{host}:{}/", args.port);
    let _: Endpoint = at_root.parse().context("`--host` is not valid")?;
    let url = format!("{scheme}://{host}:{}{slash}{path}", args.port);
    url.parse().context("`--path` is not valid")
}

/// Checks a host name or an address, and returns it in the form that a URL contains.
fn host(host: &str) -> anyhow::Result<String> {
    if host.contains("://") {
        bail!("`--host` must be a name or an address; use `--url` for a whole URL");
    }
    if host.contains('@') {
        bail!("`--host` must not contain a user or a password; use `CALLGATE_TOKEN`");
    }
    if host.contains(['/', '?', '#']) {
        bail!("`--host` must be a name or an address; use `--path` for the path");
    }
    let unbracketed =
        host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
    if unbracketed.parse::<Ipv6Addr>().is_ok() {
        return Ok(format!("[{unbracketed}]"));
    }
    if host.contains(':') {
        bail!("`--host` must be a name or an address; use `--port` for the port");
    }
    Ok(host.to_owned())
}
