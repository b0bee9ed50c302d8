-- Callgate's registry for SQLite, as `callgate migrate` creates it in an empty database.
-- Generated from crates/callgate-registry/src/db/schema.rs. To change this file, change the source and run
--     INSTA_UPDATE=always cargo test -p callgate-registry install_files
-- To print this script with Festi's table names: callgate migrate --dry-run --preset festi --database URL

-- 1: tables
CREATE TABLE callgate_migrations (
    version    INTEGER NOT NULL,
    name       TEXT NOT NULL,
    applied_at INTEGER NOT NULL,
    PRIMARY KEY (version)
);

CREATE TABLE sections (
    id      INTEGER PRIMARY KEY AUTOINCREMENT,
    caption TEXT NOT NULL DEFAULT '',
    ident   TEXT NOT NULL,
    mask    INTEGER NOT NULL DEFAULT 2,
    UNIQUE (ident)
);

-- Plugin and method are matched without regard to case.
CREATE TABLE section_actions (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    id_section INTEGER NOT NULL,
    plugin     TEXT NOT NULL,
    method     TEXT NOT NULL,
    mask       INTEGER NOT NULL,
    comment    TEXT,
    UNIQUE (plugin, method, id_section)
);
CREATE INDEX callgate_actions_key ON section_actions (lower(plugin), lower(method));

-- There are no foreign keys to users or roles, because Festi's rows may refer to missing users and roles.
CREATE TABLE sections_user_permission (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    id_section INTEGER NOT NULL,
    id_user    INTEGER NOT NULL,
    value      INTEGER NOT NULL,
    UNIQUE (id_section, id_user)
);

-- Rows are not unique, as in Festi. If several rows match, the lowest value applies.
CREATE TABLE sections_user_types_permission (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    id_section   INTEGER NOT NULL,
    id_user_type INTEGER NOT NULL,
    value        INTEGER NOT NULL DEFAULT 2
);
CREATE INDEX callgate_role_grants ON sections_user_types_permission (id_section, id_user_type);

CREATE TABLE settings (
    id      INTEGER PRIMARY KEY AUTOINCREMENT,
    caption TEXT,
    name    TEXT NOT NULL,
    value   TEXT,
    UNIQUE (name)
);

CREATE TABLE users_types (
    id      INTEGER PRIMARY KEY AUTOINCREMENT,
    caption TEXT NOT NULL,
    UNIQUE (caption)
);

-- An application may add columns, whose changes do not increment the counters.
CREATE TABLE users (
    id      INTEGER PRIMARY KEY AUTOINCREMENT,
    login   TEXT NOT NULL,
    id_type INTEGER,
    UNIQUE (login)
);

-- `rpc_method` is not unique. If two rows have the same id, the second is quarantined. `remote_name` is the name at the service; null means the id. `params_by` is the style of the parameters; null means that of the upstream.
CREATE TABLE rpc_methods (
    id            INTEGER PRIMARY KEY AUTOINCREMENT,
    plugin        TEXT,
    method        TEXT,
    rpc_method    TEXT NOT NULL,
    params        TEXT,
    params_types  TEXT,
    description   TEXT,
    sections      TEXT,
    return_type   TEXT,
    title         TEXT,
    safety        TEXT,
    annotations   TEXT,
    exposed       INTEGER,
    upstream      TEXT,
    tool_name     TEXT,
    remote_name   TEXT,
    input_schema  TEXT,
    output_schema TEXT,
    defaults      TEXT,
    params_by     TEXT
);
CREATE INDEX callgate_rpc_methods_id ON rpc_methods (rpc_method);

-- Definitions of classes: `fields`, a list of {"name", "type", "description", "optional"}, or `schema`.
CREATE TABLE callgate_types (
    name   TEXT NOT NULL,
    fields TEXT,
    "schema" TEXT,
    PRIMARY KEY (name)
);

-- Services that run methods. `config` is a JSON object with the keys of `[upstreams.NAME]` in callgate.toml.
CREATE TABLE callgate_upstreams (
    name   TEXT NOT NULL,
    config TEXT NOT NULL,
    PRIMARY KEY (name)
);

-- Users' credentials at services. The secrets are in plain text: a reader of this table can use them.
CREATE TABLE callgate_credentials (
    id_user  INTEGER NOT NULL,
    upstream TEXT NOT NULL,
    secret   TEXT NOT NULL,
    set_at   INTEGER NOT NULL,
    PRIMARY KEY (id_user, upstream)
);
CREATE INDEX callgate_credentials_upstream ON callgate_credentials (upstream);

-- SHA-256 digests of tokens, in hexadecimal. Tokens have their own counter, because they are looked up individually, not read with the other access tables.
CREATE TABLE callgate_tokens (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    id_user      INTEGER NOT NULL,
    name         TEXT NOT NULL,
    digest       TEXT NOT NULL,
    created_at   INTEGER NOT NULL,
    expires_at   INTEGER,
    last_used_at INTEGER,
    UNIQUE (digest)
);
CREATE INDEX callgate_tokens_name ON callgate_tokens (name);

-- Signing keys, in hexadecimal. A key is stored some time before it signs (`active_from`), so that every server has read it by then. Signatures of older keys stay valid.
CREATE TABLE callgate_keys (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    purpose     TEXT NOT NULL,
    secret      TEXT NOT NULL,
    created_at  INTEGER NOT NULL,
    active_from INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX callgate_keys_purpose ON callgate_keys (purpose, id);

-- MCP sessions that changed after they were opened; an unchanged session has no row. A server reads only rows with a higher `number` than those that it has read. `subscriptions` lists the resources that the client subscribed to.
CREATE TABLE callgate_sessions (
    nonce         TEXT NOT NULL,
    number        INTEGER NOT NULL,
    ended         INTEGER NOT NULL,
    log_level     TEXT,
    ends_at       INTEGER NOT NULL,
    subscriptions TEXT,
    PRIMARY KEY (nonce),
    UNIQUE (number)
);
CREATE INDEX callgate_sessions_end ON callgate_sessions (ends_at);

-- Answers and cancellations of clients for calls that run on another server, as JSON-RPC messages. A server reads only rows with a higher `number` than those that it has read. Rows are deleted after a minute.
CREATE TABLE callgate_messages (
    number    INTEGER NOT NULL,
    session   TEXT NOT NULL,
    message   TEXT NOT NULL,
    posted_at INTEGER NOT NULL,
    PRIMARY KEY (number)
);
CREATE INDEX callgate_messages_age ON callgate_messages (posted_at);

-- Running servers, which share the rate limits equally. Each server renews its row until the server ends.
CREATE TABLE callgate_servers (
    server     TEXT NOT NULL,
    expires_at INTEGER NOT NULL,
    PRIMARY KEY (server)
);
CREATE INDEX callgate_servers_expiry ON callgate_servers (expires_at);

-- Methods as the last import wrote them, as JSON. If a column of the method now has another value, it was changed by hand after the import. The next import keeps this value.
CREATE TABLE callgate_imports (
    upstream   TEXT NOT NULL,
    rpc_method TEXT NOT NULL,
    source     TEXT NOT NULL,
    written    TEXT NOT NULL,
    PRIMARY KEY (upstream, rpc_method)
);
CREATE INDEX callgate_imports_method ON callgate_imports (rpc_method);

-- Metadata of the registry.
CREATE TABLE callgate_meta (
    name  TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (name)
);

-- Counters of changes, including changes by plain SQL; servers poll the counters. Sessions and messages are numbered by their counters.
CREATE TABLE callgate_revisions (
    name  TEXT NOT NULL,
    value INTEGER NOT NULL,
    PRIMARY KEY (name)
);

INSERT INTO callgate_revisions (name, value)
VALUES ('access', 1), ('catalog', 1), ('keys', 1), ('messages', 0), ('sessions', 0), ('tokens', 1);

CREATE TRIGGER callgate_sections_i AFTER INSERT ON sections BEGIN UPDATE callgate_revisions SET value = value + 1 WHERE name IN ('access', 'catalog'); END;
CREATE TRIGGER callgate_sections_u AFTER UPDATE ON sections BEGIN UPDATE callgate_revisions SET value = value + 1 WHERE name IN ('access', 'catalog'); END;
CREATE TRIGGER callgate_sections_d AFTER DELETE ON sections BEGIN UPDATE callgate_revisions SET value = value + 1 WHERE name IN ('access', 'catalog'); END;
CREATE TRIGGER callgate_actions_i AFTER INSERT ON section_actions BEGIN UPDATE callgate_revisions SET value = value + 1 WHERE name IN ('catalog'); END;
CREATE TRIGGER callgate_actions_u AFTER UPDATE ON section_actions BEGIN UPDATE callgate_revisions SET value = value + 1 WHERE name IN ('catalog'); END;
CREATE TRIGGER callgate_actions_d AFTER DELETE ON section_actions BEGIN UPDATE callgate_revisions SET value = value + 1 WHERE name IN ('catalog'); END;
CREATE TRIGGER callgate_user_grants_i AFTER INSERT ON sections_user_permission BEGIN UPDATE callgate_revisions SET value = value + 1 WHERE name IN ('access'); END;
CREATE TRIGGER callgate_user_grants_u AFTER UPDATE ON sections_user_permission BEGIN UPDATE callgate_revisions SET value = value + 1 WHERE name IN ('access'); END;
CREATE TRIGGER callgate_user_grants_d AFTER DELETE ON sections_user_permission BEGIN UPDATE callgate_revisions SET value = value + 1 WHERE name IN ('access'); END;
CREATE TRIGGER callgate_role_grants_i AFTER INSERT ON sections_user_types_permission BEGIN UPDATE callgate_revisions SET value = value + 1 WHERE name IN ('access'); END;
CREATE TRIGGER callgate_role_grants_u AFTER UPDATE ON sections_user_types_permission BEGIN UPDATE callgate_revisions SET value = value + 1 WHERE name IN ('access'); END;
CREATE TRIGGER callgate_role_grants_d AFTER DELETE ON sections_user_types_permission BEGIN UPDATE callgate_revisions SET value = value + 1 WHERE name IN ('access'); END;
CREATE TRIGGER callgate_settings_i AFTER INSERT ON settings BEGIN UPDATE callgate_revisions SET value = value + 1 WHERE name IN ('access', 'catalog'); END;
CREATE TRIGGER callgate_settings_u AFTER UPDATE ON settings BEGIN UPDATE callgate_revisions SET value = value + 1 WHERE name IN ('access', 'catalog'); END;
CREATE TRIGGER callgate_settings_d AFTER DELETE ON settings BEGIN UPDATE callgate_revisions SET value = value + 1 WHERE name IN ('access', 'catalog'); END;
CREATE TRIGGER callgate_users_types_i AFTER INSERT ON users_types BEGIN UPDATE callgate_revisions SET value = value + 1 WHERE name IN ('access'); END;
CREATE TRIGGER callgate_users_types_u AFTER UPDATE ON users_types BEGIN UPDATE callgate_revisions SET value = value + 1 WHERE name IN ('access'); END;
CREATE TRIGGER callgate_users_types_d AFTER DELETE ON users_types BEGIN UPDATE callgate_revisions SET value = value + 1 WHERE name IN ('access'); END;
CREATE TRIGGER callgate_users_i AFTER INSERT ON users BEGIN UPDATE callgate_revisions SET value = value + 1 WHERE name IN ('access'); END;
CREATE TRIGGER callgate_users_u AFTER UPDATE OF id, login, id_type ON users BEGIN UPDATE callgate_revisions SET value = value + 1 WHERE name IN ('access'); END;
CREATE TRIGGER callgate_users_d AFTER DELETE ON users BEGIN UPDATE callgate_revisions SET value = value + 1 WHERE name IN ('access'); END;
CREATE TRIGGER callgate_rpc_methods_i AFTER INSERT ON rpc_methods BEGIN UPDATE callgate_revisions SET value = value + 1 WHERE name IN ('catalog'); END;
CREATE TRIGGER callgate_rpc_methods_u AFTER UPDATE ON rpc_methods BEGIN UPDATE callgate_revisions SET value = value + 1 WHERE name IN ('catalog'); END;
CREATE TRIGGER callgate_rpc_methods_d AFTER DELETE ON rpc_methods BEGIN UPDATE callgate_revisions SET value = value + 1 WHERE name IN ('catalog'); END;
CREATE TRIGGER callgate_types_i AFTER INSERT ON callgate_types BEGIN UPDATE callgate_revisions SET value = value + 1 WHERE name IN ('catalog'); END;
CREATE TRIGGER callgate_types_u AFTER UPDATE ON callgate_types BEGIN UPDATE callgate_revisions SET value = value + 1 WHERE name IN ('catalog'); END;
CREATE TRIGGER callgate_types_d AFTER DELETE ON callgate_types BEGIN UPDATE callgate_revisions SET value = value + 1 WHERE name IN ('catalog'); END;
CREATE TRIGGER callgate_upstreams_i AFTER INSERT ON callgate_upstreams BEGIN UPDATE callgate_revisions SET value = value + 1 WHERE name IN ('catalog'); END;
CREATE TRIGGER callgate_upstreams_u AFTER UPDATE ON callgate_upstreams BEGIN UPDATE callgate_revisions SET value = value + 1 WHERE name IN ('catalog'); END;
CREATE TRIGGER callgate_upstreams_d AFTER DELETE ON callgate_upstreams BEGIN UPDATE callgate_revisions SET value = value + 1 WHERE name IN ('catalog'); END;
CREATE TRIGGER callgate_credentials_i AFTER INSERT ON callgate_credentials BEGIN UPDATE callgate_revisions SET value = value + 1 WHERE name IN ('access'); END;
CREATE TRIGGER callgate_credentials_u AFTER UPDATE ON callgate_credentials BEGIN UPDATE callgate_revisions SET value = value + 1 WHERE name IN ('access'); END;
CREATE TRIGGER callgate_credentials_d AFTER DELETE ON callgate_credentials BEGIN UPDATE callgate_revisions SET value = value + 1 WHERE name IN ('access'); END;
CREATE TRIGGER callgate_tokens_i AFTER INSERT ON callgate_tokens BEGIN UPDATE callgate_revisions SET value = value + 1 WHERE name IN ('tokens'); END;
CREATE TRIGGER callgate_tokens_u AFTER UPDATE OF id, id_user, digest, expires_at ON callgate_tokens BEGIN UPDATE callgate_revisions SET value = value + 1 WHERE name IN ('tokens'); END;
CREATE TRIGGER callgate_tokens_d AFTER DELETE ON callgate_tokens BEGIN UPDATE callgate_revisions SET value = value + 1 WHERE name IN ('tokens'); END;
CREATE TRIGGER callgate_keys_i AFTER INSERT ON callgate_keys BEGIN UPDATE callgate_revisions SET value = value + 1 WHERE name IN ('keys'); END;
CREATE TRIGGER callgate_keys_u AFTER UPDATE ON callgate_keys BEGIN UPDATE callgate_revisions SET value = value + 1 WHERE name IN ('keys'); END;
CREATE TRIGGER callgate_keys_d AFTER DELETE ON callgate_keys BEGIN UPDATE callgate_revisions SET value = value + 1 WHERE name IN ('keys'); END;
DELETE FROM callgate_meta WHERE name = 'tables';
INSERT INTO callgate_meta (name, value) VALUES ('tables', '{"prefix":"","rpc_methods":"rpc_methods","users":"users","users_types":"users_types"}');
INSERT INTO callgate_migrations (version, name, applied_at) VALUES (1, 'tables', unixepoch());
