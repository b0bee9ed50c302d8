-- Callgate's registry for SQLite, as `callgate migrate` makes it in an empty database.
-- Made from crates/callgate-registry/migrations; do not edit, but run
--     INSTA_UPDATE=always cargo test -p callgate-registry install_files
-- With other names of tables: callgate migrate --dry-run --preset festi --database URL

-- 1: registry
CREATE TABLE callgate_migrations (
    version INTEGER PRIMARY KEY, name TEXT NOT NULL, applied_at INTEGER NOT NULL
);
-- The registry. Names and columns of the first eight tables are Festi's; those in braces are
-- configured. Ids are never given twice: a grant must not pass to whoever gets a freed number.

CREATE TABLE sections (
    id      INTEGER PRIMARY KEY AUTOINCREMENT,
    caption TEXT    NOT NULL DEFAULT '',
    ident   TEXT    NOT NULL UNIQUE,
    mask    INTEGER NOT NULL DEFAULT 2
);

CREATE TABLE section_actions (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    id_section INTEGER NOT NULL,
    plugin     TEXT    NOT NULL,
    method     TEXT    NOT NULL,
    mask       INTEGER NOT NULL,
    comment    TEXT,
    UNIQUE (plugin, method, id_section)
);

-- No foreign keys to users or roles: Festi's own rows may name ones that are not here.
CREATE TABLE sections_user_permission (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    id_section INTEGER NOT NULL,
    id_user    INTEGER NOT NULL,
    value      INTEGER NOT NULL,
    UNIQUE (id_section, id_user)
);

-- Not unique, as in Festi; of several rows the lowest counts.
CREATE TABLE sections_user_types_permission (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    id_section   INTEGER NOT NULL,
    id_user_type INTEGER NOT NULL,
    value        INTEGER NOT NULL DEFAULT 2
);

CREATE TABLE settings (
    id      INTEGER PRIMARY KEY AUTOINCREMENT,
    caption TEXT,
    name    TEXT NOT NULL UNIQUE,
    value   TEXT
);

CREATE TABLE users_types (
    id      INTEGER PRIMARY KEY AUTOINCREMENT,
    caption TEXT NOT NULL UNIQUE
);

CREATE TABLE users (
    id      INTEGER PRIMARY KEY AUTOINCREMENT,
    login   TEXT NOT NULL UNIQUE,
    id_type INTEGER
);

-- Not unique by rpc_method: a duplicate is quarantined with a reason, not lost in an import.
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
    input_schema  TEXT,
    output_schema TEXT,
    defaults      TEXT
);
CREATE INDEX callgate_rpc_methods_id ON rpc_methods (rpc_method);

-- What a class holds: `fields`, a list of {"name", "type", "description", "optional"}, or `schema`.
CREATE TABLE callgate_types (
    name   TEXT PRIMARY KEY,
    fields TEXT,
    schema TEXT
);

-- Of a token only the SHA-256 is kept, in hexadecimal; times are seconds since 1970.
CREATE TABLE callgate_tokens (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    id_user      INTEGER NOT NULL,
    name         TEXT    NOT NULL,
    digest       TEXT    NOT NULL UNIQUE,
    created_at   INTEGER NOT NULL,
    expires_at   INTEGER,
    last_used_at INTEGER
);

-- Facts about the registry itself.
CREATE TABLE callgate_meta (
    name  TEXT PRIMARY KEY,
    value TEXT NOT NULL
);

-- Two counters that every change raises, also one made by plain SQL: servers watch them.
CREATE TABLE callgate_revisions (
    name  TEXT PRIMARY KEY,
    value INTEGER NOT NULL
);
INSERT INTO callgate_revisions (name, value) VALUES ('catalog', 1), ('access', 1);

CREATE TRIGGER callgate_rpc_methods_i AFTER INSERT ON rpc_methods BEGIN UPDATE callgate_revisions SET value = value + 1 WHERE name = 'catalog'; END;
CREATE TRIGGER callgate_rpc_methods_u AFTER UPDATE ON rpc_methods BEGIN UPDATE callgate_revisions SET value = value + 1 WHERE name = 'catalog'; END;
CREATE TRIGGER callgate_rpc_methods_d AFTER DELETE ON rpc_methods BEGIN UPDATE callgate_revisions SET value = value + 1 WHERE name = 'catalog'; END;
CREATE TRIGGER callgate_actions_i AFTER INSERT ON section_actions BEGIN UPDATE callgate_revisions SET value = value + 1 WHERE name = 'catalog'; END;
CREATE TRIGGER callgate_actions_u AFTER UPDATE ON section_actions BEGIN UPDATE callgate_revisions SET value = value + 1 WHERE name = 'catalog'; END;
CREATE TRIGGER callgate_actions_d AFTER DELETE ON section_actions BEGIN UPDATE callgate_revisions SET value = value + 1 WHERE name = 'catalog'; END;
CREATE TRIGGER callgate_types_i AFTER INSERT ON callgate_types BEGIN UPDATE callgate_revisions SET value = value + 1 WHERE name = 'catalog'; END;
CREATE TRIGGER callgate_types_u AFTER UPDATE ON callgate_types BEGIN UPDATE callgate_revisions SET value = value + 1 WHERE name = 'catalog'; END;
CREATE TRIGGER callgate_types_d AFTER DELETE ON callgate_types BEGIN UPDATE callgate_revisions SET value = value + 1 WHERE name = 'catalog'; END;

-- Sections and settings are read into both snapshots.
CREATE TRIGGER callgate_sections_i AFTER INSERT ON sections BEGIN UPDATE callgate_revisions SET value = value + 1; END;
CREATE TRIGGER callgate_sections_u AFTER UPDATE ON sections BEGIN UPDATE callgate_revisions SET value = value + 1; END;
CREATE TRIGGER callgate_sections_d AFTER DELETE ON sections BEGIN UPDATE callgate_revisions SET value = value + 1; END;
CREATE TRIGGER callgate_settings_i AFTER INSERT ON settings BEGIN UPDATE callgate_revisions SET value = value + 1; END;
CREATE TRIGGER callgate_settings_u AFTER UPDATE ON settings BEGIN UPDATE callgate_revisions SET value = value + 1; END;
CREATE TRIGGER callgate_settings_d AFTER DELETE ON settings BEGIN UPDATE callgate_revisions SET value = value + 1; END;

CREATE TRIGGER callgate_user_grants_i AFTER INSERT ON sections_user_permission BEGIN UPDATE callgate_revisions SET value = value + 1 WHERE name = 'access'; END;
CREATE TRIGGER callgate_user_grants_u AFTER UPDATE ON sections_user_permission BEGIN UPDATE callgate_revisions SET value = value + 1 WHERE name = 'access'; END;
CREATE TRIGGER callgate_user_grants_d AFTER DELETE ON sections_user_permission BEGIN UPDATE callgate_revisions SET value = value + 1 WHERE name = 'access'; END;
CREATE TRIGGER callgate_role_grants_i AFTER INSERT ON sections_user_types_permission BEGIN UPDATE callgate_revisions SET value = value + 1 WHERE name = 'access'; END;
CREATE TRIGGER callgate_role_grants_u AFTER UPDATE ON sections_user_types_permission BEGIN UPDATE callgate_revisions SET value = value + 1 WHERE name = 'access'; END;
CREATE TRIGGER callgate_role_grants_d AFTER DELETE ON sections_user_types_permission BEGIN UPDATE callgate_revisions SET value = value + 1 WHERE name = 'access'; END;
CREATE TRIGGER callgate_users_i AFTER INSERT ON users BEGIN UPDATE callgate_revisions SET value = value + 1 WHERE name = 'access'; END;
CREATE TRIGGER callgate_users_u AFTER UPDATE OF id, login, id_type ON users BEGIN UPDATE callgate_revisions SET value = value + 1 WHERE name = 'access'; END;
CREATE TRIGGER callgate_users_d AFTER DELETE ON users BEGIN UPDATE callgate_revisions SET value = value + 1 WHERE name = 'access'; END;
CREATE TRIGGER callgate_users_types_i AFTER INSERT ON users_types BEGIN UPDATE callgate_revisions SET value = value + 1 WHERE name = 'access'; END;
CREATE TRIGGER callgate_users_types_u AFTER UPDATE ON users_types BEGIN UPDATE callgate_revisions SET value = value + 1 WHERE name = 'access'; END;
CREATE TRIGGER callgate_users_types_d AFTER DELETE ON users_types BEGIN UPDATE callgate_revisions SET value = value + 1 WHERE name = 'access'; END;
CREATE TRIGGER callgate_tokens_i AFTER INSERT ON callgate_tokens BEGIN UPDATE callgate_revisions SET value = value + 1 WHERE name = 'access'; END;
-- Not when only last_used_at changes.
CREATE TRIGGER callgate_tokens_u AFTER UPDATE OF id, id_user, digest, expires_at ON callgate_tokens BEGIN UPDATE callgate_revisions SET value = value + 1 WHERE name = 'access'; END;
CREATE TRIGGER callgate_tokens_d AFTER DELETE ON callgate_tokens BEGIN UPDATE callgate_revisions SET value = value + 1 WHERE name = 'access'; END;
INSERT INTO callgate_meta (name, value) VALUES ('tables', '{"prefix":"","rpc_methods":"rpc_methods","users":"users","users_types":"users_types"}');
INSERT INTO callgate_migrations (version, name, applied_at) VALUES (1, 'registry', unixepoch());

-- 2: sessions
-- Secrets that servers sign with, in hexadecimal. The newest signs, older ones are still recognised.
CREATE TABLE callgate_keys (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    purpose    TEXT    NOT NULL,
    secret     TEXT    NOT NULL,
    created_at INTEGER NOT NULL
);

-- What MCP sessions became after they were opened; one that nothing happened to has no row. Servers
-- read what has a higher number than what they know.
CREATE TABLE callgate_sessions (
    nonce     TEXT    PRIMARY KEY,
    number    INTEGER NOT NULL UNIQUE,
    ended     INTEGER NOT NULL,
    log_level TEXT,
    ends_at   INTEGER NOT NULL
);
CREATE INDEX callgate_sessions_end ON callgate_sessions (ends_at);
INSERT INTO callgate_revisions (name, value) VALUES ('sessions', 0);
INSERT INTO callgate_migrations (version, name, applied_at) VALUES (2, 'sessions', unixepoch());

-- 3: subscriptions
-- The resources that the client of a session wants to hear of, as a JSON list.
ALTER TABLE callgate_sessions ADD COLUMN subscriptions TEXT;
INSERT INTO callgate_migrations (version, name, applied_at) VALUES (3, 'subscriptions', unixepoch());

-- 4: imports
-- How a method takes its parameters, `name` or `position`; null is as its upstream does.
ALTER TABLE rpc_methods ADD COLUMN params_by TEXT;

-- What an import wrote last, as JSON: what differs from it was changed by hand since, and is kept.
CREATE TABLE callgate_imports (
    upstream   TEXT NOT NULL,
    rpc_method TEXT NOT NULL,
    source     TEXT NOT NULL,
    written    TEXT NOT NULL,
    PRIMARY KEY (upstream, rpc_method)
);
INSERT INTO callgate_migrations (version, name, applied_at) VALUES (4, 'imports', unixepoch());

-- 5: upstreams
-- Services that run methods. `config` is a JSON object with the keys of `[upstreams.NAME]` in callgate.toml.
CREATE TABLE callgate_upstreams (
    name   TEXT NOT NULL PRIMARY KEY,
    config TEXT NOT NULL
);
CREATE TRIGGER callgate_upstreams_i AFTER INSERT ON callgate_upstreams BEGIN UPDATE callgate_revisions SET value = value + 1 WHERE name = 'catalog'; END;
CREATE TRIGGER callgate_upstreams_u AFTER UPDATE ON callgate_upstreams BEGIN UPDATE callgate_revisions SET value = value + 1 WHERE name = 'catalog'; END;
CREATE TRIGGER callgate_upstreams_d AFTER DELETE ON callgate_upstreams BEGIN UPDATE callgate_revisions SET value = value + 1 WHERE name = 'catalog'; END;

-- What users are known by at services. The secrets are kept as they are: whoever reads them can use them.
CREATE TABLE callgate_credentials (
    id_user  INTEGER NOT NULL,
    upstream TEXT    NOT NULL,
    secret   TEXT    NOT NULL,
    set_at   INTEGER NOT NULL,
    PRIMARY KEY (id_user, upstream)
);
CREATE TRIGGER callgate_credentials_i AFTER INSERT ON callgate_credentials BEGIN UPDATE callgate_revisions SET value = value + 1 WHERE name = 'access'; END;
CREATE TRIGGER callgate_credentials_u AFTER UPDATE ON callgate_credentials BEGIN UPDATE callgate_revisions SET value = value + 1 WHERE name = 'access'; END;
CREATE TRIGGER callgate_credentials_d AFTER DELETE ON callgate_credentials BEGIN UPDATE callgate_revisions SET value = value + 1 WHERE name = 'access'; END;
INSERT INTO callgate_migrations (version, name, applied_at) VALUES (5, 'upstreams', unixepoch());

-- 6: replicas
-- What several gateways on one registry share.

-- A key signs from this second on, so that every gateway knows it by then; 0 is at once.
ALTER TABLE callgate_keys ADD COLUMN active_from INTEGER NOT NULL DEFAULT 0;

-- What a client sent about a call that runs on another gateway: an answer or a cancellation, as it came.
-- Gateways read what has a higher number than what they know; none stays for long.
CREATE TABLE callgate_messages (
    number    INTEGER PRIMARY KEY,
    session   TEXT    NOT NULL,
    message   TEXT    NOT NULL,
    posted_at INTEGER NOT NULL
);
CREATE INDEX callgate_messages_age ON callgate_messages (posted_at);

INSERT INTO callgate_revisions (name, value) VALUES ('keys', 1), ('messages', 0), ('tokens', 1);

CREATE TRIGGER callgate_keys_i AFTER INSERT ON callgate_keys BEGIN UPDATE callgate_revisions SET value = value + 1 WHERE name = 'keys'; END;
CREATE TRIGGER callgate_keys_u AFTER UPDATE ON callgate_keys BEGIN UPDATE callgate_revisions SET value = value + 1 WHERE name = 'keys'; END;
CREATE TRIGGER callgate_keys_d AFTER DELETE ON callgate_keys BEGIN UPDATE callgate_revisions SET value = value + 1 WHERE name = 'keys'; END;

-- Tokens have a counter of their own: they are looked up one by one, not read with the rest of the access.
DROP TRIGGER callgate_tokens_i;
DROP TRIGGER callgate_tokens_u;
DROP TRIGGER callgate_tokens_d;
CREATE TRIGGER callgate_tokens_i AFTER INSERT ON callgate_tokens BEGIN UPDATE callgate_revisions SET value = value + 1 WHERE name = 'tokens'; END;
-- Not when only last_used_at changes.
CREATE TRIGGER callgate_tokens_u AFTER UPDATE OF id, id_user, digest, expires_at ON callgate_tokens BEGIN UPDATE callgate_revisions SET value = value + 1 WHERE name = 'tokens'; END;
CREATE TRIGGER callgate_tokens_d AFTER DELETE ON callgate_tokens BEGIN UPDATE callgate_revisions SET value = value + 1 WHERE name = 'tokens'; END;

-- Sections and settings are read into two snapshots, and raise no more than those.
DROP TRIGGER callgate_sections_i;
DROP TRIGGER callgate_sections_u;
DROP TRIGGER callgate_sections_d;
DROP TRIGGER callgate_settings_i;
DROP TRIGGER callgate_settings_u;
DROP TRIGGER callgate_settings_d;
CREATE TRIGGER callgate_sections_i AFTER INSERT ON sections BEGIN UPDATE callgate_revisions SET value = value + 1 WHERE name IN ('catalog', 'access'); END;
CREATE TRIGGER callgate_sections_u AFTER UPDATE ON sections BEGIN UPDATE callgate_revisions SET value = value + 1 WHERE name IN ('catalog', 'access'); END;
CREATE TRIGGER callgate_sections_d AFTER DELETE ON sections BEGIN UPDATE callgate_revisions SET value = value + 1 WHERE name IN ('catalog', 'access'); END;
CREATE TRIGGER callgate_settings_i AFTER INSERT ON settings BEGIN UPDATE callgate_revisions SET value = value + 1 WHERE name IN ('catalog', 'access'); END;
CREATE TRIGGER callgate_settings_u AFTER UPDATE ON settings BEGIN UPDATE callgate_revisions SET value = value + 1 WHERE name IN ('catalog', 'access'); END;
CREATE TRIGGER callgate_settings_d AFTER DELETE ON settings BEGIN UPDATE callgate_revisions SET value = value + 1 WHERE name IN ('catalog', 'access'); END;

-- What rows are looked up by.
CREATE INDEX callgate_tokens_name ON callgate_tokens (name);
CREATE INDEX callgate_keys_purpose ON callgate_keys (purpose, id);
CREATE INDEX callgate_credentials_upstream ON callgate_credentials (upstream);
CREATE INDEX callgate_imports_method ON callgate_imports (rpc_method);
CREATE INDEX callgate_role_grants ON sections_user_types_permission (id_section, id_user_type);
-- An action belongs to its method in whatever case it is written.
CREATE INDEX callgate_actions_key ON section_actions (lower(plugin), lower(method));
INSERT INTO callgate_migrations (version, name, applied_at) VALUES (6, 'replicas', unixepoch());
