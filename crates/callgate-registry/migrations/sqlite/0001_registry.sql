-- The registry. Names and columns of the first eight tables are Festi's; those in braces are
-- configured. Ids are never given twice: a grant must not pass to whoever gets a freed number.

CREATE TABLE {sections} (
    id      INTEGER PRIMARY KEY AUTOINCREMENT,
    caption TEXT    NOT NULL DEFAULT '',
    ident   TEXT    NOT NULL UNIQUE,
    mask    INTEGER NOT NULL DEFAULT 2
);

CREATE TABLE {section_actions} (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    id_section INTEGER NOT NULL,
    plugin     TEXT    NOT NULL,
    method     TEXT    NOT NULL,
    mask       INTEGER NOT NULL,
    comment    TEXT,
    UNIQUE (plugin, method, id_section)
);

-- No foreign keys to users or roles: Festi's own rows may name ones that are not here.
CREATE TABLE {sections_user_permission} (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    id_section INTEGER NOT NULL,
    id_user    INTEGER NOT NULL,
    value      INTEGER NOT NULL,
    UNIQUE (id_section, id_user)
);

-- Not unique, as in Festi; of several rows the lowest counts.
CREATE TABLE {sections_user_types_permission} (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    id_section   INTEGER NOT NULL,
    id_user_type INTEGER NOT NULL,
    value        INTEGER NOT NULL DEFAULT 2
);

CREATE TABLE {settings} (
    id      INTEGER PRIMARY KEY AUTOINCREMENT,
    caption TEXT,
    name    TEXT NOT NULL UNIQUE,
    value   TEXT
);

CREATE TABLE {users_types} (
    id      INTEGER PRIMARY KEY AUTOINCREMENT,
    caption TEXT NOT NULL UNIQUE
);

CREATE TABLE {users} (
    id      INTEGER PRIMARY KEY AUTOINCREMENT,
    login   TEXT NOT NULL UNIQUE,
    id_type INTEGER
);

-- Not unique by rpc_method: a duplicate is quarantined with a reason, not lost in an import.
CREATE TABLE {rpc_methods} (
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
CREATE INDEX callgate_rpc_methods_id ON {rpc_methods} (rpc_method);

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

CREATE TRIGGER callgate_rpc_methods_i AFTER INSERT ON {rpc_methods} BEGIN UPDATE callgate_revisions SET value = value + 1 WHERE name = 'catalog'; END;
CREATE TRIGGER callgate_rpc_methods_u AFTER UPDATE ON {rpc_methods} BEGIN UPDATE callgate_revisions SET value = value + 1 WHERE name = 'catalog'; END;
CREATE TRIGGER callgate_rpc_methods_d AFTER DELETE ON {rpc_methods} BEGIN UPDATE callgate_revisions SET value = value + 1 WHERE name = 'catalog'; END;
CREATE TRIGGER callgate_actions_i AFTER INSERT ON {section_actions} BEGIN UPDATE callgate_revisions SET value = value + 1 WHERE name = 'catalog'; END;
CREATE TRIGGER callgate_actions_u AFTER UPDATE ON {section_actions} BEGIN UPDATE callgate_revisions SET value = value + 1 WHERE name = 'catalog'; END;
CREATE TRIGGER callgate_actions_d AFTER DELETE ON {section_actions} BEGIN UPDATE callgate_revisions SET value = value + 1 WHERE name = 'catalog'; END;
CREATE TRIGGER callgate_types_i AFTER INSERT ON callgate_types BEGIN UPDATE callgate_revisions SET value = value + 1 WHERE name = 'catalog'; END;
CREATE TRIGGER callgate_types_u AFTER UPDATE ON callgate_types BEGIN UPDATE callgate_revisions SET value = value + 1 WHERE name = 'catalog'; END;
CREATE TRIGGER callgate_types_d AFTER DELETE ON callgate_types BEGIN UPDATE callgate_revisions SET value = value + 1 WHERE name = 'catalog'; END;

-- Sections and settings are read into both snapshots.
CREATE TRIGGER callgate_sections_i AFTER INSERT ON {sections} BEGIN UPDATE callgate_revisions SET value = value + 1; END;
CREATE TRIGGER callgate_sections_u AFTER UPDATE ON {sections} BEGIN UPDATE callgate_revisions SET value = value + 1; END;
CREATE TRIGGER callgate_sections_d AFTER DELETE ON {sections} BEGIN UPDATE callgate_revisions SET value = value + 1; END;
CREATE TRIGGER callgate_settings_i AFTER INSERT ON {settings} BEGIN UPDATE callgate_revisions SET value = value + 1; END;
CREATE TRIGGER callgate_settings_u AFTER UPDATE ON {settings} BEGIN UPDATE callgate_revisions SET value = value + 1; END;
CREATE TRIGGER callgate_settings_d AFTER DELETE ON {settings} BEGIN UPDATE callgate_revisions SET value = value + 1; END;

CREATE TRIGGER callgate_user_grants_i AFTER INSERT ON {sections_user_permission} BEGIN UPDATE callgate_revisions SET value = value + 1 WHERE name = 'access'; END;
CREATE TRIGGER callgate_user_grants_u AFTER UPDATE ON {sections_user_permission} BEGIN UPDATE callgate_revisions SET value = value + 1 WHERE name = 'access'; END;
CREATE TRIGGER callgate_user_grants_d AFTER DELETE ON {sections_user_permission} BEGIN UPDATE callgate_revisions SET value = value + 1 WHERE name = 'access'; END;
CREATE TRIGGER callgate_role_grants_i AFTER INSERT ON {sections_user_types_permission} BEGIN UPDATE callgate_revisions SET value = value + 1 WHERE name = 'access'; END;
CREATE TRIGGER callgate_role_grants_u AFTER UPDATE ON {sections_user_types_permission} BEGIN UPDATE callgate_revisions SET value = value + 1 WHERE name = 'access'; END;
CREATE TRIGGER callgate_role_grants_d AFTER DELETE ON {sections_user_types_permission} BEGIN UPDATE callgate_revisions SET value = value + 1 WHERE name = 'access'; END;
CREATE TRIGGER callgate_users_i AFTER INSERT ON {users} BEGIN UPDATE callgate_revisions SET value = value + 1 WHERE name = 'access'; END;
CREATE TRIGGER callgate_users_u AFTER UPDATE OF id, login, id_type ON {users} BEGIN UPDATE callgate_revisions SET value = value + 1 WHERE name = 'access'; END;
CREATE TRIGGER callgate_users_d AFTER DELETE ON {users} BEGIN UPDATE callgate_revisions SET value = value + 1 WHERE name = 'access'; END;
CREATE TRIGGER callgate_users_types_i AFTER INSERT ON {users_types} BEGIN UPDATE callgate_revisions SET value = value + 1 WHERE name = 'access'; END;
CREATE TRIGGER callgate_users_types_u AFTER UPDATE ON {users_types} BEGIN UPDATE callgate_revisions SET value = value + 1 WHERE name = 'access'; END;
CREATE TRIGGER callgate_users_types_d AFTER DELETE ON {users_types} BEGIN UPDATE callgate_revisions SET value = value + 1 WHERE name = 'access'; END;
CREATE TRIGGER callgate_tokens_i AFTER INSERT ON callgate_tokens BEGIN UPDATE callgate_revisions SET value = value + 1 WHERE name = 'access'; END;
-- Not when only last_used_at changes.
CREATE TRIGGER callgate_tokens_u AFTER UPDATE OF id, id_user, digest, expires_at ON callgate_tokens BEGIN UPDATE callgate_revisions SET value = value + 1 WHERE name = 'access'; END;
CREATE TRIGGER callgate_tokens_d AFTER DELETE ON callgate_tokens BEGIN UPDATE callgate_revisions SET value = value + 1 WHERE name = 'access'; END;
