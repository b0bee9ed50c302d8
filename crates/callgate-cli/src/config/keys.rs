//! Every key of the configuration, with its default and its meaning.

use crate::errors::hinted;

/// A key of the configuration.
#[derive(Debug, Clone, Copy)]
pub(super) struct Key {
    pub(super) name: &'static str,
    /// As it would stand in the environment; empty is none.
    pub(super) default: &'static str,
    pub(super) meaning: &'static str,
}

/// Keys as a table: each line has a name, a default and a meaning.
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

    /// The error for a name that is no key, with the nearest one that is.
    pub(super) fn unknown(
        &self,
        name: &str,
        source: &str,
        spell: impl Fn(&str) -> String,
    ) -> anyhow::Error {
        let likeness = |key: &Key| strsim::jaro_winkler(&spell(key.name), name);
        let nearest = self.iter().max_by(|a, b| likeness(a).total_cmp(&likeness(b)));
        let hint =
            nearest.map(|key| format!("did you mean `{}` ({})?", spell(key.name), key.meaning));
        hinted(format!("unknown key `{name}` in {source}"), hint.unwrap_or_default())
    }

    /// Checks the names of a table `place` that has keys of its own.
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

/// The keys that are in the file, in the environment and in flags.
pub(super) const KEYS: Keys = Keys(
    "listen | 127.0.0.1:8080 | where to listen
database | | the registry, `sqlite:PATH`, `postgres://…`, `mysql://…` or `mssql://…`, also as `url` of a table; by default `sqlite:callgate.db`, with `--demo` `sqlite:callgate-demo.db`
database.password_file | | a file with the password of the database's user; or give it in `CALLGATE_DATABASE_PASSWORD`
database.max_connections | 8 | how many connections to the database are open at once
database.connect_timeout_seconds | 5 | how long to wait for a connection to the database
database.statement_timeout_seconds | 10 | how long a statement may take
database.load_timeout_seconds | 120 | how long a statement may take that reads everything, or makes or changes tables
preset | | defaults for a kind of application: `festi` or `drupal`
require_auth | false | refuse callers without a token; implied by the preset `festi`
allow_anonymous | false | serve callers without a token also beyond this machine
trusted_proxies | | addresses of proxies in front of this server, such as `127.0.0.1` or `10.0.0.0/8`, with commas between; only their `Forwarded` and `X-Forwarded-For` headers are believed
allowed_hosts | | names of this server in URLs, beside `localhost` and addresses, with commas between; `*` is any
allowed_origins | | pages in browsers that may call, beside those of this machine, with commas between: `https://app.example.com`; `*` is any
raw_request | | answer `GET /?rawRequest=…` for read-only tools: `true` or `false`; `true` in the preset `festi`
exposure | | which methods are tools where a row does not say: `all`, or `marked` (the default of the preset `drupal`)
max_body_bytes | 1048576 | how large a request's body may be
max_in_flight_bytes | 268435456 | how many bytes the results of all calls may have together, from when they are read until the replies are sent; results up to 64 KiB are not counted
max_connections | 1024 | how many connections are served at once; more wait
call_timeout_seconds | 30 | how long a call may take
shutdown_timeout_seconds | 10 | how long requests under way may take to finish when the program is told to stop
token_grace_seconds | 60 | how long tokens that were good are honoured after the registry was last read; 0 is as short as can be, about a second
max_kept_tokens | 100000 | how many tokens that were seen are kept in memory; others are looked up in the registry when they come
key_rotation_days | 30 | how old the key becomes that sessions are signed with, before a new one takes its place; 0 is for ever
metrics | false | show counters on `/metrics`, in the text form of Prometheus
log | info | how much is logged: a level, or a list such as `info,callgate=debug`
log_format | human | `human` or `json`
tables.prefix | | before the names of sections, their actions and permissions, and settings; `festi_` in the preset `festi`
tables.rpc_methods | rpc_methods | the table of methods
tables.users | users | the table of users
tables.users_types | users_types | the table of roles
attach.database | | the database of a Festi application, to be served as it is and only read; [festi.md](../guide/festi.md) explains it
attach.password_file | | a file with the password of its user; or give it in `CALLGATE_ATTACH_PASSWORD`
attach.overlay | | a manifest that says more of its methods
attach.upstream | default | what runs its methods
attach.output_schemas | false | promise what `return_type` says that results are; they are checked then
attach.access_seconds | 1 | how often its permissions, users, tokens and settings are looked at
attach.methods_seconds | 5 | how often its methods are looked at",
);

/// The keys of `[upstreams.NAME]`, and of a row of the registry.
pub(super) const UPSTREAM_KEYS: Keys = Keys(
    r#"url | | where the service is: `http://…`, `https://…`, `ws://…`, `wss://…`, `unix:/path` or `unix:/path:/rpc`
params | named | how it takes parameters: `named` (an object) or `positional` (a list)
first_params | | a list of parameters put before the caller's, with `params = "positional"`
members | | a table of members of each request beside `params`
headers | | a table of HTTP headers of each request
basic_user | | the user of HTTP Basic
basic_password | | their password
ids | text | the ids of requests: `text` or `integer`
pass_caller | | a table of what is passed on of the caller, and in which header: `user_id`, `user_name`, `role`, and `token`, which is the caller's own
credential | | a table of how the credential of the user who asks is sent: `header`, `member` or `first_param = true`, with `prefix`; `missing` is `refuse` or `anonymous`; with `oauth` as `refresh_token` or `client_credentials`, an access token that was requested with it is sent
oauth | | a table of the OAuth 2.0 client that requests access tokens: `token_url`, `client_id`, `client_secret`, `scope`, `refresh_token`, and `client_auth` as `basic` or `post`
visibility | registry | what callers see: `registry` (what their grants allow) or `upstream` (of that, what the service lists for them)
described_by | openrpc | what lists the methods, with `visibility = "upstream"`: `openrpc` (the method `rpc.discover`) or `jsonrpc_mcp` (Drupal's `/mcp/tools/list`)
visibility_seconds | 60 | how long what the service lists for a caller counts
timeout_seconds | | how long a call may take; by default as `call_timeout_seconds` says
connect_timeout_seconds | 5 | how long a new connection may take, at most half of the whole time
max_result_bytes | 4194304 | how large an answer may be
max_concurrent | 100 | how many calls may be under way; more wait
http2 | false | speak HTTP/2 without TLS too; with TLS the two sides agree on it by themselves
batch | false | send calls that arrive together as one JSON-RPC batch; not over WebSocket
trust_results | false | do not check results against the output schemas of their methods
calls | single | where calls go: `single` (all to `url`) or `per_tool` (each to the URL of its tool, as Drupal's `jsonrpc_mcp` has them); not over WebSocket, and not with `batch`
tool_path | | with `calls = "per_tool"`, the path of a tool; by default that of `url` without `/jsonrpc` at its end, plus `/mcp/tools/{id}`
null_is_absent | false | take null for an optional parameter that does not allow null as absent, and do not send it; it is refused otherwise
trust_errors | false | tell callers the text of errors with the code -32603, which is only in the log otherwise
ca_file | | a file of certificates, in PEM, of authorities to trust beside those of the system"#,
);

/// The keys of `[imports.NAME]`.
pub(super) const IMPORT_KEYS: Keys = Keys(
    "arguments | | a list of what stands behind `callgate import`: the kind of source, the source, options
every_seconds | 300 | how long to wait until the source is read again
policy | apply | what becomes of a change: `apply`, `hold` until `callgate import approve NAME`, or `show` in the log only",
);
