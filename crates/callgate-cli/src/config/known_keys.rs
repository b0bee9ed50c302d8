//! Every key of the configuration, with its default and its meaning.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::error_hints::{hinted, nearest};

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

    /// Returns the error for an unknown key. The error suggests the most similar known key.
    pub(super) fn unknown_key(
        &self,
        name: &str,
        source: &str,
        format_name: impl Fn(&str) -> String,
    ) -> anyhow::Error {
        let similar = nearest(name, self.iter().map(|key| format_name(key.name)));
        let key =
            self.iter().find(|key| similar.as_deref() == Some(format_name(key.name).as_str()));
        let hint = match key {
            Some(Key { name, meaning, .. }) => {
                let meaning = meaning.split(';').next().unwrap_or_default();
                format!("did you mean `{}` ({meaning})?", format_name(name))
            }
            None => {
                let keys: Vec<String> =
                    self.iter().map(|key| format!("`{}`", format_name(key.name))).collect();
                format!("the keys are {}", keys.join(", "))
            }
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
            let invalid = keys.into_iter().find_map(|(key, value)| {
                let single = [(name.to_owned(), valid.clone()), (key.clone(), value)];
                Some((key, parse(Map::from_iter(single)).err()?))
            });
            match invalid {
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
                let format_name = |key: &str| format!("{place}.{key}");
                Err(self.unknown_key(&format_name(name), source, format_name))
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
operations_listen | | separate address for `/healthz`, `/readyz` and `/metrics`; requests to this address need no token, and `/readyz` shows details. By default, these endpoints are at `listen`
database | | URL of the registry: `sqlite:PATH`, `postgres://…`, `mysql://…` or `mssql://…`; if the file has a TOML table `[database]`, the key is `url` in that table. The default is `sqlite:callgate.db`. With `--demo`, the default is `sqlite:callgate-demo.db`
database.password_file | | file with the password of the database; instead, you can set `CALLGATE_DATABASE_PASSWORD`
database.max_connections | 8 | maximum number of connections to the database
database.connect_timeout_seconds | 5 | timeout of a new connection to the database
database.statement_timeout_seconds | 10 | timeout of an SQL statement; see also `database.load_timeout_seconds`
database.load_timeout_seconds | 120 | timeout of an SQL statement that reads whole tables, or that creates or changes tables
preset | | defaults for a kind of application: `festi` or `drupal`; this page and [registry.md](registry.md#settings) state which defaults a preset changes
require_auth | false | refuse callers without a token; implied by the preset `festi`
allow_anonymous | false | accept callers without a token on addresses that other machines can reach; if `listen` is such an address, the server starts only with this key or with `require_auth`
trusted_proxies | | addresses of the proxies in front of this server, such as `127.0.0.1` or `10.1.2.0/28`, separated by commas; list only proxies, because the server takes the address of the client from the header that these hosts send
forwarded_header | x-forwarded-for | header in which the trusted proxies send the address of the client: `x-forwarded-for` or `forwarded`
allowed_hosts | | host names that requests may have in the header `Host`, separated by commas; `localhost` and IP addresses are always allowed. `*` allows any host name
allowed_origins | | origins of web pages that may send requests, such as `https://app.example.com`, separated by commas; web pages of `localhost` and of loopback addresses are always allowed. `*` allows any origin
raw_request | | accept an MCP message in the URL, `GET /mcp?rawRequest=…`, for debugging; such a message can call only read-only tools ([mcp.md](mcp.md#get-rawrequest)). The default is `false`. With the preset `festi`, the default is `true`
exposure | | methods that are tools: `all` (all methods except those whose column `exposed` is 0) or `marked` (only methods whose column `exposed` is 1); the default is `all`. With the preset `drupal`, the default is `marked`
open_methods | | what happens to methods of the registry that require no section: `allow` (everyone may call them) or `refuse` (nobody may call them); see [Rights](registry.md#rights). With the preset `festi`, the default is `allow`. Without this preset, the default is `refuse` if `require_auth` is set. If neither `open_methods` nor `require_auth` is set, everyone may call them, and the log has a warning
max_body_bytes | 1048576 | maximum size of a request body
max_in_flight_bytes | 268435456 | maximum total size of all results in memory; a result counts from when it is read until its reply is sent. A result of at most 64 KiB counts only if its call is part of a batch
max_connections | 1024 | maximum number of open connections, and maximum number of requests in progress; if a client opens one more connection, the server closes an idle connection. If the server can close no connection, requests on the new connection get 503. See [reliability.md](../operate/reliability.md#connections)
call_timeout_seconds | 30 | timeout of a call; for an upstream with `timeout_seconds`, that value applies instead
limits.requests_per_caller | | maximum rate of the requests of each caller, such as `100/s`, `10/min burst 20` or `none`; the default is `1000/s burst 10000`, or half of `limits.requests` if that is lower. See [reliability.md](../operate/reliability.md#rate-limits)
limits.requests | none | maximum rate of the requests of all callers together
limits.tools | none | limits of single tools, separated by commas; each limit starts with a method id, in which `*` matches any characters. An example is `mail.send 10/min per caller, report.* 2 concurrent, report.* 30 seconds, *.upload 65536 argument bytes, report.* 1000000 result bytes`. See [reliability.md](../operate/reliability.md#limits-of-single-tools)
shutdown_timeout_seconds | 10 | time for requests in progress to finish when the server is stopped
token_grace_seconds | 60 | time for which known tokens stay valid while the registry cannot be read; known tokens are those in the memory of the server. 0 counts as 1
max_kept_tokens | 100000 | maximum number of tokens that are kept in memory; if a token is not in memory, it is looked up in the registry
key_rotation_days | 30 | age at which the key that signs sessions is replaced; 0 disables rotation
metrics | false | serve metrics on `/metrics`, in the text format of Prometheus; if `operations_listen` is set, metrics are always served at that address
log | info | log level, or a list such as `info,callgate=debug`; with `--stdio` and for `callgate bridge`, the default is `warn`
log_format | human | `human` or `json`
tables.prefix | | prefix of the tables of sections, actions, permissions and settings; [registry.md](registry.md) lists these tables. With the preset `festi`, the default is `festi_`
tables.rpc_methods | rpc_methods | table of methods
tables.users | users | table of users
tables.users_types | users_types | table of roles
registry_upstreams.targets | | hosts, addresses, networks and sockets that may be in the URLs of upstreams in the registry, such as `localhost`, `*.example.com:443`, `10.0.0.0/8` and `unix:/run/app.sock`, separated by commas; if the list is empty, upstreams in the registry are refused. See [upstreams.md](../guide/upstreams.md#in-the-registry)
registry_upstreams.variables | | environment variables that upstreams in the registry may use: names, or prefixes such as `SHOP_*`, separated by commas
registry_upstreams.directory | | directory of the files that upstreams in the registry may use, as secrets and as `ca_file`
attach.database | | URL of the database of a Festi application; Callgate only reads this database. See [festi.md](../guide/festi.md)
attach.password_file | | file with the password of the attached database; instead, you can set `CALLGATE_ATTACH_PASSWORD`
attach.overlay | | path of a manifest that completes or changes the methods of the attached database; see [festi.md](../guide/festi.md)
attach.upstream | default | upstream that runs the methods of the attached database
attach.output_schemas | false | `true`: the output schema of a method is derived from its column `return_type`, and results are checked against this schema; `false`: this column is ignored
attach.access_seconds | 1 | interval at which permissions, users, tokens and settings of the attached database are read
attach.methods_seconds | 5 | interval at which methods of the attached database are read",
);

/// Keys of `[upstreams.NAME]`, and of upstreams in the registry.
pub(super) const UPSTREAM_KEYS: Keys = Keys(
    r#"url | | URL of the service: `http://…`, `https://…`, `ws://…`, `wss://…`, `unix:/path` or `unix:/path:/rpc`
params | | how parameters are sent: `name` (as an object), or `position`, `either` or `position-null` (as a list); a list has a gap if a parameter is absent and a later one is given. If the absent parameter has no default and does not allow null, `position` refuses the call, `either` sends an object, and `position-null` sends null. Absent parameters at the end of a list are left out. This key applies to methods whose column `params_by` is null or `either`. Without this key, a null in `params_by` means `name`. See [upstreams.md](../guide/upstreams.md#parameters)
first_params | | list of values that are sent before the parameters of the call; needs `params = "position"` or `"position-null"`
members | | table of JSON members that are added to each request, beside `params`
headers | | table of HTTP headers of each request
basic_user | | user name for HTTP Basic authentication
basic_password | | password for HTTP Basic authentication
ids | text | type of request ids: `text` or `integer`
pass_caller | | table of HTTP headers that identify the caller to the service; the keys are `user_id`, `user_name`, `role` and `token` (the token that the caller sent). The value of each key is the name of the header. See [credentials.md](../guide/credentials.md#pass-on-the-caller)
credential | | table that defines how the credential of the calling user is sent; exactly one of these keys is required: `header`, `member` (a JSON member beside `params`) or `first_param = true`. `prefix` is an optional text before the credential. If the caller has no credential, `missing` decides: `refuse` (the call is refused, the default) or `anonymous` (the call is sent without a credential). If `oauth = "refresh_token"` or `oauth = "client_credentials"` is set in this table, Callgate uses the credential to request an access token, and sends the access token instead. See [credentials.md](../guide/credentials.md#a-credential-of-each-user)
oauth | | table of the OAuth 2.0 client that requests access tokens; its keys are `token_url`, `client_id`, `client_secret`, `scope`, `refresh_token` and `client_auth`. `client_auth` defines how `client_id` and `client_secret` are sent: `basic` (with HTTP Basic, the default) or `post` (in the body). See [credentials.md](../guide/credentials.md#oauth)
login | | table of the login at the service; its keys are `method`, `path`, `params`, `header`, `member`, `first_param`, `prefix`, `token` and `refusals`. See [sessions.md](../guide/services/sessions.md)
without_credential | | list of methods whose requests contain no credential; these requests have no header `Authorization`, no token of the caller, and nothing of `credential`, `oauth`, `login`, `members` and `first_params`
visibility | registry | tools that a caller sees: `registry` (all tools that the grants of the caller allow) or `upstream` (the tools that the grants of the caller allow and that the service lists for the caller); see [credentials.md](../guide/credentials.md#tools-that-the-service-lists)
described_by | openrpc | where the service lists the tools of a caller, if `visibility` is `upstream`: `openrpc` (the result of the method `rpc.discover`) or `jsonrpc_mcp` (Drupal's `/mcp/tools/list`)
visibility_seconds | 60 | time for which the list of the service is cached, if `visibility` is `upstream`
timeout_seconds | | timeout of a call to this upstream; the default is the value of `call_timeout_seconds`
connect_timeout_seconds | 5 | timeout of a new connection, but at most half of `timeout_seconds`
max_result_bytes | 4194304 | maximum size of a response
max_concurrent | 100 | maximum number of concurrent calls; if this number of calls is running, the next calls wait for at most half of `timeout_seconds`. See [reliability.md](../operate/reliability.md#limits-are-shared-among-callers)
http2 | false | use HTTP/2 even without TLS; with TLS, HTTP/2 is negotiated in any case
batch | false | send calls that arrive at the same time as one JSON-RPC batch; cannot be used with WebSocket
trust_results | false | pass on results without checking them against the output schemas of their methods
calls | single | where calls are sent: `single` (all calls to `url`) or `per_tool` (each call to the URL of its tool, as with Drupal's `jsonrpc_mcp`); `per_tool` cannot be used with WebSocket or `batch`
tool_path | | path of the URL of a tool, if `calls` is `per_tool`; the default is the path of `url`, without `/jsonrpc` at its end, plus `/mcp/tools/{id}`
null_is_absent | false | what happens to an optional parameter whose value is null, if its schema does not allow null: `true` (the parameter is left out) or `false` (the call is refused). With `params = "either"` and `params = "position-null"`, the parameter is left out in both cases
trust_errors | false | pass on the text of errors with the code -32603, and of responses that are not JSON-RPC; if `false`, the text is only logged
ca_file | | file with PEM certificates of authorities to trust, in addition to those of the system"#,
);

/// Keys of `[imports.NAME]`.
pub(super) const IMPORT_KEYS: Keys = Keys(
    "arguments | | list of the arguments of `callgate import`: the kind of source, the source, and options
every_seconds | 300 | interval at which the source is read
policy | apply | what happens to a change of the source: `apply` (it is written to the registry), `hold` (it is written after `callgate import approve NAME DIGEST`) or `show` (it is only logged)",
);
