//! Every key of the configuration, with its default and its meaning.

/// A key of the configuration.
#[derive(Debug)]
pub(crate) struct Key {
    pub(crate) name: &'static str,
    /// As it would stand in the environment; empty is none.
    pub(crate) default: &'static str,
    pub(crate) meaning: &'static str,
}

/// Every key.
pub(crate) const KEYS: &[Key] = &[
    Key { name: "listen", default: "127.0.0.1:8080", meaning: "where to listen" },
    Key {
        name: "database",
        default: "",
        meaning: "the registry, `sqlite:PATH`, `postgres://…`, `mysql://…` or `mssql://…`, also as `url` of a table; by default `sqlite:callgate.db`, with `--demo` `sqlite:callgate-demo.db`",
    },
    Key {
        name: "database.password_file",
        default: "",
        meaning: "a file with the password of the database's user; or give it in `CALLGATE_DATABASE_PASSWORD`",
    },
    Key {
        name: "database.max_connections",
        default: "8",
        meaning: "how many connections to the database are open at once",
    },
    Key {
        name: "database.connect_timeout_seconds",
        default: "5",
        meaning: "how long to wait for a connection to the database",
    },
    Key {
        name: "database.statement_timeout_seconds",
        default: "10",
        meaning: "how long a statement may take",
    },
    Key {
        name: "database.load_timeout_seconds",
        default: "120",
        meaning: "how long a statement may take that reads everything, or makes or changes tables",
    },
    Key {
        name: "preset",
        default: "",
        meaning: "defaults for a kind of application: `festi` or `drupal`",
    },
    Key {
        name: "require_auth",
        default: "false",
        meaning: "refuse callers without a token; implied by the preset `festi`",
    },
    Key {
        name: "allow_anonymous",
        default: "false",
        meaning: "serve callers without a token also beyond this machine",
    },
    Key {
        name: "allowed_hosts",
        default: "",
        meaning: "names of this server in URLs, beside `localhost` and addresses, with commas between; `*` is any",
    },
    Key {
        name: "allowed_origins",
        default: "",
        meaning: "pages in browsers that may call, beside those of this machine, with commas between: `https://app.example.com`; `*` is any",
    },
    Key {
        name: "raw_request",
        default: "",
        meaning: "answer `GET /?rawRequest=…` for read-only tools: `true` or `false`; `true` in the preset `festi`",
    },
    Key {
        name: "exposure",
        default: "",
        meaning: "which methods are tools where a row does not say: `all`, or `marked` (the default of the preset `drupal`)",
    },
    Key {
        name: "max_body_bytes",
        default: "1048576",
        meaning: "how large a request's body may be",
    },
    Key {
        name: "max_in_flight_bytes",
        default: "268435456",
        meaning: "how many bytes the results of all calls may have together, from when they are read until the replies are sent; results up to 64 KiB are not counted",
    },
    Key {
        name: "max_connections",
        default: "1024",
        meaning: "how many connections are served at once; more wait",
    },
    Key { name: "call_timeout_seconds", default: "30", meaning: "how long a call may take" },
    Key {
        name: "shutdown_timeout_seconds",
        default: "10",
        meaning: "how long requests under way may take to finish when the program is told to stop",
    },
    Key {
        name: "token_grace_seconds",
        default: "60",
        meaning: "how long tokens that were good are honoured after the registry was last read; 0 is as short as can be, about a second",
    },
    Key {
        name: "max_kept_tokens",
        default: "100000",
        meaning: "how many tokens that were seen are kept in memory; others are looked up in the registry when they come",
    },
    Key {
        name: "key_rotation_days",
        default: "30",
        meaning: "how old the key becomes that sessions are signed with, before a new one takes its place; 0 is for ever",
    },
    Key {
        name: "metrics",
        default: "false",
        meaning: "show counters on `/metrics`, in the text form of Prometheus",
    },
    Key {
        name: "log",
        default: "info",
        meaning: "how much is logged: a level, or a list such as `info,callgate=debug`",
    },
    Key { name: "log_format", default: "human", meaning: "`human` or `json`" },
    Key {
        name: "tables.prefix",
        default: "",
        meaning: "before the names of sections, their actions and permissions, and settings; `festi_` in the preset `festi`",
    },
    Key { name: "tables.rpc_methods", default: "rpc_methods", meaning: "the table of methods" },
    Key { name: "tables.users", default: "users", meaning: "the table of users" },
    Key { name: "tables.users_types", default: "users_types", meaning: "the table of roles" },
    Key {
        name: "attach.database",
        default: "",
        meaning: "the database of a Festi application, to be served as it is and only read; [festi.md](../festi.md) explains it",
    },
    Key {
        name: "attach.password_file",
        default: "",
        meaning: "a file with the password of its user; or give it in `CALLGATE_ATTACH_PASSWORD`",
    },
    Key {
        name: "attach.overlay",
        default: "",
        meaning: "a manifest that says more of its methods",
    },
    Key { name: "attach.upstream", default: "default", meaning: "what runs its methods" },
    Key {
        name: "attach.output_schemas",
        default: "false",
        meaning: "promise what `return_type` says that results are; they are checked then",
    },
    Key {
        name: "attach.access_seconds",
        default: "1",
        meaning: "how often its permissions, users, tokens and settings are looked at",
    },
    Key {
        name: "attach.methods_seconds",
        default: "5",
        meaning: "how often its methods are looked at",
    },
];
