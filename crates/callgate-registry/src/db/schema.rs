//! Tables, indexes and triggers of the registry in all dialects.
//!
//! The first eight tables are those of Festi. Table names in braces can be configured. Names in rows are compared
//! bytewise, independent of the collation of the database. Times are UTC. Ids are never reused, because a grant must
//! not apply to a later user.
//!
//! In MySQL each statement commits, so each statement must be repeatable after an interruption.

mod triggers;

use crate::db::column::{
    CAPTION, COUNTER, ColumnType, DEEP_JSON, DIGEST, FLAG, ID, JSON, Kind, LEVEL, LONG_TEXT, MASK,
    MESSAGE, METHOD_KEY, NAME, NONCE, NUMBER, PARAMS_BY, PLUGIN_KEY, PerDialect, SCHEMA, TEXT,
    TIME,
};
use crate::db::dialect::Dialect;

const EPOCH: PerDialect = ["0", "'epoch'", "'1970-01-01 00:00:00'", "'1970-01-01'"];

#[derive(Clone, Copy)]
struct Column {
    name: &'static str,
    ty: ColumnType,
    is_required: bool,
    default: PerDialect,
}

const fn optional(name: &'static str, ty: ColumnType) -> Column {
    Column { name, ty, is_required: false, default: [""; 4] }
}

const fn required(name: &'static str, ty: ColumnType) -> Column {
    Column { is_required: true, ..optional(name, ty) }
}

impl Column {
    const fn default(self, default: PerDialect) -> Self {
        Self { default, ..self }
    }

    fn definition(&self, dialect: Dialect, width: usize) -> String {
        let name = self.quoted_name(dialect);
        let mut text = format!("{name:width$} {}", dialect.pick(self.ty.name));
        if self.is_required {
            text.push_str(" NOT NULL");
        }
        let default = dialect.pick(self.default);
        if !default.is_empty() {
            text.extend([" DEFAULT ", default]);
        }
        // In SQL Server, checks are named constraints after the columns.
        if let Some(check) = self.check(dialect).filter(|_| dialect != Dialect::SqlServer) {
            text.extend([" ", &check]);
        }
        text
    }

    fn quoted_name(&self, dialect: Dialect) -> String {
        // `schema` is a keyword.
        if self.name == "schema" { dialect.quote_name(self.name) } else { self.name.to_owned() }
    }

    fn check(&self, dialect: Dialect) -> Option<String> {
        let check = dialect.pick(self.ty.check);
        (!check.is_empty())
            .then(|| format!("CHECK ({})", check.replace("{}", &self.quoted_name(dialect))))
    }
}

/// A table in all dialects.
#[derive(Clone, Copy)]
pub(crate) struct Table {
    /// Comment in the script.
    comment: &'static str,
    /// Name, in braces if it is configured.
    pub(crate) name: &'static str,
    /// Short name of the table, which is a part of the names of its constraints and triggers.
    short: &'static str,
    columns: &'static [Column],
    /// Columns of the primary key; if it is `id`, the database assigns ids.
    pub(crate) key: &'static str,
    /// Columns of the unique constraint.
    unique: &'static str,
    /// Names and columns of further indexes.
    indexes: &'static [(&'static str, &'static [&'static str])],
    /// Counters that a change of a row increments.
    counters: &'static [&'static str],
    /// Columns whose changes increment the counters. If empty, changes of all columns do.
    watched: &'static [&'static str],
}

const TABLE: Table = Table {
    comment: "",
    name: "",
    short: "",
    columns: &[],
    key: "id",
    unique: "",
    indexes: &[],
    counters: &[],
    watched: &[],
};

/// Records the applied migrations. Created before all other tables.
pub(crate) const MIGRATIONS: Table = Table {
    name: "callgate_migrations",
    short: "migrations",
    columns: &[required("version", NUMBER), required("name", NAME), required("applied_at", TIME)],
    key: "version",
    ..TABLE
};

pub(crate) const TABLES: &[Table] = &[
    Table {
        name: "{sections}",
        short: "sections",
        columns: &[
            optional("id", ID),
            required("caption", CAPTION).default(["''"; 4]),
            required("ident", NAME),
            required("mask", MASK).default(["2"; 4]),
        ],
        unique: "ident",
        counters: &["access", "catalog"],
        ..TABLE
    },
    Table {
        comment: "Plugin and method are matched without regard to case.",
        name: "{section_actions}",
        short: "actions",
        columns: &[
            optional("id", ID),
            required("id_section", NUMBER),
            required("plugin", NAME),
            required("method", NAME),
            required("mask", MASK),
            optional("comment", TEXT),
            optional("plugin_key", PLUGIN_KEY),
            optional("method_key", METHOD_KEY),
        ],
        unique: "plugin, method, id_section",
        indexes: &[("callgate_actions_key", &["lower(plugin)", "lower(method)"])],
        counters: &["catalog"],
        ..TABLE
    },
    Table {
        comment: "There are no foreign keys to users or roles, because Festi's rows may refer to missing users and roles.",
        name: "{sections_user_permission}",
        short: "user_grants",
        columns: &[
            optional("id", ID),
            required("id_section", NUMBER),
            required("id_user", NUMBER),
            required("value", MASK),
        ],
        unique: "id_section, id_user",
        counters: &["access"],
        ..TABLE
    },
    Table {
        comment: "Rows are not unique, as in Festi. If several rows match, the lowest value applies.",
        name: "{sections_user_types_permission}",
        short: "role_grants",
        columns: &[
            optional("id", ID),
            required("id_section", NUMBER),
            required("id_user_type", NUMBER),
            required("value", MASK).default(["2"; 4]),
        ],
        indexes: &[("callgate_role_grants", &["id_section", "id_user_type"])],
        counters: &["access"],
        ..TABLE
    },
    Table {
        name: "{settings}",
        short: "settings",
        columns: &[
            optional("id", ID),
            optional("caption", CAPTION),
            required("name", NAME),
            optional("value", LONG_TEXT),
        ],
        unique: "name",
        counters: &["access", "catalog"],
        ..TABLE
    },
    Table {
        name: "{users_types}",
        short: "users_types",
        columns: &[optional("id", ID), required("caption", NAME)],
        unique: "caption",
        counters: &["access"],
        ..TABLE
    },
    Table {
        comment: "An application may add columns, whose changes do not increment the counters.",
        name: "{users}",
        short: "users",
        columns: &[optional("id", ID), required("login", NAME), optional("id_type", NUMBER)],
        unique: "login",
        counters: &["access"],
        watched: &["id", "login", "id_type"],
        ..TABLE
    },
    Table {
        comment: "`rpc_method` is not unique. If two rows have the same id, the second is \
                quarantined. `remote_name` is the name at the service; null means the id. `params_by` is the style of the \
                parameters; null means that of the upstream.",
        name: "{rpc_methods}",
        short: "rpc_methods",
        columns: &[
            optional("id", ID),
            optional("plugin", NAME),
            optional("method", NAME),
            required("rpc_method", NAME),
            optional("params", DEEP_JSON),
            optional("params_types", JSON),
            optional("description", LONG_TEXT),
            optional("sections", TEXT),
            optional("return_type", TEXT),
            optional("title", TEXT),
            optional("safety", TEXT),
            optional("annotations", JSON),
            optional("exposed", FLAG),
            optional("upstream", NAME),
            optional("tool_name", NAME),
            optional("remote_name", NAME),
            optional("input_schema", SCHEMA),
            optional("output_schema", SCHEMA),
            optional("defaults", DEEP_JSON),
            optional("params_by", PARAMS_BY),
        ],
        indexes: &[("callgate_rpc_methods_id", &["rpc_method"])],
        counters: &["catalog"],
        ..TABLE
    },
    Table {
        comment: "Definitions of classes: `fields`, a list of {\"name\", \"type\", \"description\", \"optional\"}, \
                or `schema`.",
        name: "callgate_types",
        short: "types",
        columns: &[
            required("name", NAME),
            optional("fields", DEEP_JSON),
            optional("schema", SCHEMA),
        ],
        key: "name",
        counters: &["catalog"],
        ..TABLE
    },
    Table {
        comment: "Services that run methods. `config` is a JSON object with the keys of `[upstreams.NAME]` in \
                callgate.toml.",
        name: "callgate_upstreams",
        short: "upstreams",
        columns: &[required("name", NAME), required("config", JSON)],
        key: "name",
        counters: &["catalog"],
        ..TABLE
    },
    Table {
        comment: "Users' credentials at services. The secrets are in plain text: a reader of this table can use \
                them.",
        name: "callgate_credentials",
        short: "credentials",
        columns: &[
            required("id_user", NUMBER),
            required("upstream", NAME),
            required("secret", LONG_TEXT),
            required("set_at", TIME),
        ],
        key: "id_user, upstream",
        indexes: &[("callgate_credentials_upstream", &["upstream"])],
        counters: &["access"],
        ..TABLE
    },
    Table {
        comment: "SHA-256 digests of tokens, in hexadecimal. Tokens have their own counter, because they \
                are looked up individually, not read with the other access tables.",
        name: "callgate_tokens",
        short: "tokens",
        columns: &[
            optional("id", ID),
            required("id_user", NUMBER),
            required("name", NAME),
            required("digest", DIGEST),
            required("created_at", TIME),
            optional("expires_at", TIME),
            optional("last_used_at", TIME),
        ],
        unique: "digest",
        indexes: &[("callgate_tokens_name", &["name"])],
        counters: &["tokens"],
        watched: &["id", "id_user", "digest", "expires_at"],
        ..TABLE
    },
    Table {
        comment: "Signing keys, in hexadecimal. A key is stored some time before it signs (`active_from`), so that \
                every server has read it by then. Signatures of older keys stay valid.",
        name: "callgate_keys",
        short: "keys",
        columns: &[
            optional("id", ID),
            required("purpose", NAME),
            required("secret", TEXT),
            required("created_at", TIME),
            required("active_from", TIME).default(EPOCH),
        ],
        indexes: &[("callgate_keys_purpose", &["purpose", "id"])],
        counters: &["keys"],
        ..TABLE
    },
    Table {
        comment: "MCP sessions that changed after they were opened; an unchanged session has no row. \
                A server reads only rows with a higher `number` than those that it has read. `subscriptions` lists the \
                resources that the client subscribed to.",
        name: "callgate_sessions",
        short: "sessions",
        columns: &[
            required("nonce", NONCE),
            required("number", NUMBER),
            required("ended", FLAG),
            optional("log_level", LEVEL),
            required("ends_at", TIME),
            optional("subscriptions", JSON),
        ],
        key: "nonce",
        unique: "number",
        indexes: &[("callgate_sessions_end", &["ends_at"])],
        ..TABLE
    },
    Table {
        comment: "Answers and cancellations of clients for calls that run on another server, as JSON-RPC \
                messages. A server reads only rows with a higher `number` than those that it has read. Rows are deleted after a minute.",
        name: "callgate_messages",
        short: "messages",
        columns: &[
            required("number", NUMBER),
            required("session", NONCE),
            required("message", MESSAGE),
            required("posted_at", TIME),
        ],
        key: "number",
        indexes: &[("callgate_messages_age", &["posted_at"])],
        ..TABLE
    },
    Table {
        comment: "Running servers, which share the rate limits equally. Each server renews its row until the server ends.",
        name: "callgate_servers",
        short: "servers",
        columns: &[required("server", NONCE), required("expires_at", TIME)],
        key: "server",
        indexes: &[("callgate_servers_expiry", &["expires_at"])],
        ..TABLE
    },
    Table {
        comment: "Methods as the last import wrote them, as JSON. If a column of the method now has another value, \
                it was changed by hand after the import. The next import keeps this value.",
        name: "callgate_imports",
        short: "imports",
        columns: &[
            required("upstream", NAME),
            required("rpc_method", NAME),
            required("source", TEXT),
            required("written", DEEP_JSON),
        ],
        key: "upstream, rpc_method",
        indexes: &[("callgate_imports_method", &["rpc_method"])],
        ..TABLE
    },
    Table {
        comment: "Metadata of the registry.",
        name: "callgate_meta",
        short: "meta",
        columns: &[required("name", NAME), required("value", LONG_TEXT)],
        key: "name",
        ..TABLE
    },
    Table {
        comment: "Counters of changes, including changes by plain SQL; servers poll the counters. Sessions and \
                messages are numbered by their counters.",
        name: "callgate_revisions",
        short: "revisions",
        columns: &[required("name", COUNTER), required("value", NUMBER)],
        key: "name",
        ..TABLE
    },
];

/// Returns the script that creates all tables except [`MIGRATIONS`].
pub(crate) fn script(dialect: Dialect) -> String {
    let mut tables: Vec<String> = TABLES.iter().map(|table| table.script(dialect)).collect();
    let ignore = if dialect == Dialect::MySql { " IGNORE" } else { "" };
    tables.push(format!(
        "INSERT{ignore} INTO callgate_revisions (name, value)\nVALUES ('access', 1), ('catalog', 1), \
         ('keys', 1), ('messages', 0), ('sessions', 0), ('tokens', 1);\n"
    ));
    [tables.join("\n"), triggers::script(dialect)].join(dialect.batch_separator())
}

impl Table {
    /// Returns the stored columns. The key columns come first.
    pub(crate) fn stored_columns(&self) -> Vec<(&'static str, ColumnType)> {
        let is_key = |column: &&Column| self.key.split(", ").any(|key| key == column.name);
        let stored = self.columns.iter().filter(|column| column.ty.kind != Kind::Generated);
        let (keys, others): (Vec<&Column>, Vec<&Column>) = stored.partition(is_key);
        keys.into_iter().chain(others).map(|column| (column.name, column.ty)).collect()
    }

    /// Returns the statements that create the table and its indexes.
    pub(crate) fn script(&self, dialect: Dialect) -> String {
        let mut parts: Vec<String> = self.columns(dialect);
        if self.key != "id" || dialect != Dialect::Sqlite {
            parts.push(self.primary_key(dialect));
        }
        let mut index_statements = String::new();
        if dialect == Dialect::SqlServer {
            parts.extend(self.named_constraints());
            if self.unique.contains(',') {
                let Self { name, short, unique, .. } = self;
                index_statements =
                    format!("CREATE UNIQUE INDEX callgate_{short}_key ON {name} ({unique});\n");
            }
        } else if !self.unique.is_empty() {
            parts.push(format!("UNIQUE ({})", self.unique));
        }
        for (index, columns) in self.indexes {
            let columns = columns.join(", ");
            match dialect {
                Dialect::SqlServer if columns.contains('(') => {}
                Dialect::MySql => {
                    let columns = columns.replace("lower(", "").replace(')', "_key");
                    parts.push(format!("INDEX {index} ({columns})"));
                }
                _ => {
                    let statement = format!("CREATE INDEX {index} ON {} ({columns});\n", self.name);
                    index_statements.push_str(&statement);
                }
            }
        }
        let (if_not_exists, options) = match dialect {
            Dialect::MySql => (
                // Each statement commits, so an interrupted migration is repeated and its tables may exist. The first
                // table must not exist, so that the script fails if there is already a registry.
                if self.name == MIGRATIONS.name { "" } else { "IF NOT EXISTS " },
                // Bytewise collations of MariaDB and MySQL that do not ignore trailing spaces.
                " ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4\n  \
                 COLLATE /*M! utf8mb4_nopad_bin */ /*!80017 utf8mb4_0900_bin */",
            ),
            _ => ("", ""),
        };
        let comment =
            if self.comment.is_empty() { String::new() } else { format!("-- {}\n", self.comment) };
        let body = parts.join(",\n    ");
        format!(
            "{comment}CREATE TABLE {if_not_exists}{} (\n    {body}\n){options};\n{index_statements}",
            self.name
        )
    }

    fn columns(&self, dialect: Dialect) -> Vec<String> {
        let width = self.columns.iter().map(|column| column.name.len()).max().unwrap_or_default();
        let existing =
            self.columns.iter().filter(|column| !dialect.pick(column.ty.name).is_empty());
        existing.map(|column| column.definition(dialect, width)).collect()
    }

    fn primary_key(&self, dialect: Dialect) -> String {
        let Self { short, key, .. } = self;
        if dialect != Dialect::SqlServer {
            return format!("PRIMARY KEY ({key})");
        }
        let is_name = |column: &&Column| {
            column.ty.name == NAME.name && key.split(", ").any(|key| key == column.name)
        };
        let has_two_names = self.columns.iter().filter(is_name).count() > 1;
        let nonclustered = if has_two_names { "NONCLUSTERED " } else { "" };
        format!("CONSTRAINT callgate_{short}_pk PRIMARY KEY {nonclustered}({key})")
    }

    /// Names the constraints in SQL Server, which would otherwise generate random names.
    fn named_constraints(&self) -> Vec<String> {
        let Self { short, unique, .. } = self;
        let checks = self.columns.iter().filter_map(|column| {
            let check = column.check(Dialect::SqlServer)?;
            Some(format!("CONSTRAINT callgate_{short}_{}_check {check}", column.name))
        });
        let is_single_column = !unique.is_empty() && !unique.contains(',');
        let unique = is_single_column
            .then(|| format!("CONSTRAINT callgate_{short}_{unique} UNIQUE ({unique})"));
        unique.into_iter().chain(checks).collect()
    }
}
