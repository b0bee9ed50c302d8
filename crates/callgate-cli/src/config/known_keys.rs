//! Every key of the configuration, with its default and its meaning.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::errors::{hinted, nearest};

#[derive(Debug, Clone, Copy)]
pub(super) struct Key {
    pub(super) name: &'static str,
    /// Default value; empty if there is none.
    pub(super) default: &'static str,
    pub(super) meaning: &'static str,
}

/// Lines with a name, a default and a meaning.
#[derive(Debug)]
pub(super) struct Keys(&'static str);

impl Keys {
    pub(super) fn iter(&self) -> impl Iterator<Item = Key> {
        self.0.lines().filter_map(|line| {
            let mut cells = line.splitn(3, '|').map(str::trim);
            Some(Key { name: cells.next()?, default: cells.next()?, meaning: cells.next()? })
        })
    }

    pub(super) fn get(&self, name: &str) -> Option<Key> {
        self.iter().find(|key| key.name == name)
    }

    /// Returns the error for an unknown key. It suggests the most similar known key.
    pub(super) fn unknown(
        &self,
        name: &str,
        source: &str,
        spell: impl Fn(&str) -> String,
    ) -> anyhow::Error {
        let known = nearest(name, self.iter().map(|key| spell(key.name)));
        let key = self.iter().find(|key| known.as_deref() == Some(spell(key.name).as_str()));
        let hint = match key {
            Some(Key { name, meaning, .. }) => {
                let meaning = meaning.split(';').next().unwrap_or_default();
                format!("did you mean `{}` ({meaning})?", spell(name))
            }
            None => "docs/reference/configuration.md lists the keys".to_owned(),
        };
        hinted(format!("unknown key `{name}` in {source}"), hint)
    }

    /// Deserializes the keys of a table. The error names the wrong key but does not show its value, which may be a
    /// secret.
    ///
    /// `required` is a key that every table must have, with a valid value.
    pub(super) fn read<T: DeserializeOwned>(
        keys: Map<String, Value>,
        required: (&str, Value),
    ) -> anyhow::Result<T> {
        let parse = |keys| serde_json::from_value::<T>(Value::Object(keys));
        parse(keys.clone()).map_err(|error| {
            // serde does not name the wrong key, so each key is read separately.
            let (name, valid) = required;
            let wrong = keys.into_iter().find_map(|(key, value)| {
                let alone = [(name.to_owned(), valid.clone()), (key.clone(), value)];
                Some((key, parse(Map::from_iter(alone)).err()?))
            });
            match wrong {
                Some((key, error)) => anyhow::anyhow!("`{key}`: {}", without_value(&error)),
                None => anyhow::anyhow!("{}", without_value(&error)),
            }
        })
    }

    /// Checks the names of the keys in the table `place`.
    pub(super) fn check<'a>(
        &self,
        place: &str,
        names: impl IntoIterator<Item = &'a String>,
        source: &str,
    ) -> anyhow::Result<()> {
        match names.into_iter().find(|name| self.get(name).is_none()) {
            Some(name) => {
                let spell = |known: &str| format!("{place}.{known}");
                Err(self.unknown(&spell(name), source, spell))
            }
            None => Ok(()),
        }
    }
}

/// Returns the problem without the value, and describes the expected type in words.
fn without_value(error: &serde_json::Error) -> String {
    let message = error.to_string();
    let message = match (message.split_once("string \""), message.rsplit_once("\", expected")) {
        (Some((before, _)), Some((_, after))) => format!("{before}a string, expected{after}"),
        _ => message,
    };
    match message.rsplit_once("expected ") {
        Some((before, "u16" | "u32")) => format!("{before}expected a whole number"),
        Some((before, "a boolean")) => format!("{before}expected `true` or `false`"),
        _ => message,
    }
}

/// Keys of the file, the environment and the flags.
pub(super) const KEYS: Keys = Keys(
    "listen | 127.0.0.1:8080 | address to listen on
operations_listen | | separate address for `/healthz`, `/readyz` and `/metrics`; it needs no token and shows details. By default these endpoints are at `listen`
database | | URL of the registry: `sqlite:PATH`, `postgres://…`, `mysql://…` or `mssql://…`; in the table `[database]`, the key is `url`. The default is `sqlite:callgate.db`, and with `--demo` `sqlite:callgate-demo.db`
database.password_file | | file with the password of the database; instead, you can set `CALLGATE_DATABASE_PASSWORD`
database.max_connections | 8 | maximum number of connections to the database
database.connect_timeout_seconds | 5 | timeout of a new connection to the database
database.statement_timeout_seconds | 10 | timeout of a statement
database.load_timeout_seconds | 120 | timeout of a statement that reads whole tables, or that creates or changes tables
preset | | defaults for a kind of application: `festi` or `drupal`
require_auth | false | refuse callers without a token; implied by the preset `festi`
allow_anonymous | false | accept callers without a token on addresses that other machines can reach
trusted_proxies | | addresses of the proxies in front of this server, such as `127.0.0.1` or `10.1.2.0/28`, separated by commas; list only proxies, because the server believes the address of the client that they send
forwarded_header | x-forwarded-for | the header that the trusted proxies set: `x-forwarded-for` or `forwarded`
allowed_hosts | | host names of this server in addition to `localhost` and IP addresses, separated by commas; `*` allows any host name
allowed_origins | | origins of web pages that may send requests, in addition to those of this machine, separated by commas: `https://app.example.com`; `*` allows any origin
raw_request | | whether to answer `GET /?rawRequest=…`, for read-only tools: `true` or `false`; the preset `festi` sets `true`
exposure | | whether a method whose column `exposed` is null is a tool: `all` (it is) or `marked` (it is not); the preset `drupal` sets `marked`
open_methods | | methods of the registry without a section: `allow` (everyone may call them) or `refuse` (nobody may call them); the default is `refuse` with `require_auth`, and otherwise `allow` with a warning. The preset `festi` sets `allow`
max_body_bytes | 1048576 | maximum size of a request body
max_in_flight_bytes | 268435456 | maximum total size of the results of all calls in memory; a result counts from when it is read until its reply is sent. Results up to 64 KiB count only in batches
max_connections | 1024 | maximum number of connections, and of requests in progress; if there are more, the server closes idle connections, or refuses new ones with 503
call_timeout_seconds | 30 | timeout of a call
limits.requests_per_caller | 1000/s burst 10000 | maximum rate of the requests of each caller, such as `100/s`, `10/min burst 20` or `none`; see [reliability.md](../operate/reliability.md#rate-limits)
limits.requests | none | maximum rate of the requests of all callers together
limits.tools | none | maximum rates of calls of single tools, by the id of the method, separated by commas: `mail.send 10/min per caller, report.* 2/s`
shutdown_timeout_seconds | 10 | time for requests in progress to finish when the server is stopped
token_grace_seconds | 60 | time for which known tokens stay valid while the registry cannot be read; with 0 it is about a second
max_kept_tokens | 100000 | maximum number of tokens in memory; other tokens are looked up in the registry when they are used
key_rotation_days | 30 | age at which the key that signs sessions is replaced; 0 disables rotation
metrics | false | serve metrics on `/metrics`, in the text format of Prometheus
log | info | log level, or a list such as `info,callgate=debug`; with `--stdio` and for `callgate bridge`, the default is `warn`
log_format | human | `human` or `json`
tables.prefix | | prefix of the tables of sections, actions, permissions and settings; the preset `festi` sets `festi_`
tables.rpc_methods | rpc_methods | table of methods
tables.users | users | table of users
tables.users_types | users_types | table of roles
registry_upstreams.targets | | services that upstreams in the registry may connect to: hosts, addresses, networks and sockets such as `localhost`, `*.example.com:443`, `10.0.0.0/8` and `unix:/run/app.sock`, separated by commas; if empty, upstreams in the registry are refused
registry_upstreams.variables | | environment variables that upstreams in the registry may use: names, or prefixes such as `SHOP_*`, separated by commas
registry_upstreams.directory | | directory of the files that upstreams in the registry may use, as secrets and as `ca_file`
attach.database | | URL of the database of a Festi application, which is only read; see [festi.md](../guide/festi.md)
attach.password_file | | file with the password of the attached database; instead, you can set `CALLGATE_ATTACH_PASSWORD`
attach.overlay | | manifest that completes the methods of the attached database
attach.upstream | default | upstream that runs the methods of the attached database
attach.output_schemas | false | whether the output schema of a method comes from its `return_type`; results are then checked against it
attach.access_seconds | 1 | interval at which permissions, users, tokens and settings of the attached database are read
attach.methods_seconds | 5 | interval at which methods of the attached database are read",
);

/// Keys of `[upstreams.NAME]`, and of upstreams in the registry.
pub(super) const UPSTREAM_KEYS: Keys = Keys(
    r#"url | | URL of the service: `http://…`, `https://…`, `ws://…`, `wss://…`, `unix:/path` or `unix:/path:/rpc`
params | | how parameters are sent, if the method has no style or the style `either`: `name` (an object, the default), `position` (a list), `either` (a list, or an object if the list would have a gap) or `position-null` (a list, with null for each gap); see [upstreams.md](../guide/upstreams.md#parameters)
first_params | | list of values that are sent before the parameters of the caller; needs `params = "position"` or `"position-null"`
members | | table of JSON members that each request has beside `params`
headers | | table of HTTP headers of each request
basic_user | | user name for HTTP Basic authentication
basic_password | | password for HTTP Basic authentication
ids | text | type of request ids: `text` or `integer`
pass_caller | | table of headers in which facts about the caller are sent: `user_id`, `user_name`, `role`, and `token` (the token that the caller sent)
credential | | table that defines how a user's credential is sent: `header`, `member` or `first_param = true`, with `prefix`; `missing` is `refuse` or `anonymous`. If `oauth` is `refresh_token` or `client_credentials`, the credential is used to request an access token, and the access token is sent
oauth | | table of the OAuth 2.0 client that requests access tokens: `token_url`, `client_id`, `client_secret`, `scope`, `refresh_token`, and `client_auth` as `basic` or `post`
login | | table of the login whose cookie or token is sent with all calls: `method` or `path`, and `params`; for a token, `header`, `member` or `first_param = true`, with `prefix`, and `token` as a JSON Pointer to the token in the result. `refusals` lists further texts of errors that end a session. A table with only `header` names the header that the service sends with HTTP 409; see [sessions.md](../guide/services/sessions.md)
without_credential | | list of methods that are called without `Authorization`, `credential`, `oauth`, `login`, `members`, `first_params` and the token of the caller
visibility | registry | tools that a caller sees: `registry` (all tools that the grants of the caller allow) or `upstream` (only those of them that the service lists for the caller)
described_by | openrpc | source of this list, if `visibility` is `upstream`: `openrpc` (the method `rpc.discover`) or `jsonrpc_mcp` (Drupal's `/mcp/tools/list`)
visibility_seconds | 60 | time for which this list is cached
timeout_seconds | | timeout of a call; by default `call_timeout_seconds`
connect_timeout_seconds | 5 | timeout of a new connection, at most half of `timeout_seconds`
max_result_bytes | 4194304 | maximum size of a response
max_concurrent | 100 | maximum number of concurrent calls; further calls wait
http2 | false | whether to use HTTP/2 without TLS; with TLS, HTTP/2 is negotiated
batch | false | whether to send calls that arrive together as one JSON-RPC batch; not over WebSocket
trust_results | false | whether to pass on results without checking them against the output schemas of their methods
calls | single | URL of calls: `single` (all calls are sent to `url`) or `per_tool` (each tool has its own URL, as with Drupal's `jsonrpc_mcp`); `per_tool` cannot be used with WebSocket or `batch`
tool_path | | path of a tool, if `calls` is `per_tool`; the default is the path of `url` without `/jsonrpc` at its end, followed by `/mcp/tools/{id}`
null_is_absent | false | whether to leave out an optional parameter that is null but does not allow null; otherwise such a call is refused
trust_errors | false | whether callers get the text of errors with the code -32603, and of responses that are not JSON-RPC; otherwise the text is only logged
ca_file | | file with PEM certificates of authorities to trust, in addition to those of the system"#,
);

/// Keys of `[imports.NAME]`.
pub(super) const IMPORT_KEYS: Keys = Keys(
    "arguments | | arguments of `callgate import`: the kind of source, the source, and options
every_seconds | 300 | interval at which the source is read
policy | apply | what happens to a change: `apply` (written), `hold` (waits for `callgate import approve NAME DIGEST`) or `show` (only logged)",
);
