-- Callgate's registry for SQL Server, as `callgate migrate` makes it in an empty database.
-- Made from crates/callgate-registry/migrations; do not edit, but run
--     INSTA_UPDATE=always cargo test -p callgate-registry install_files
-- With other names of tables: callgate migrate --dry-run --preset festi --database URL

-- 1: registry
GO
CREATE TABLE callgate_migrations (
    version BIGINT NOT NULL PRIMARY KEY, name NVARCHAR(255) NOT NULL, applied_at DATETIME2 NOT NULL
);
GO
-- The registry. Names and columns of the first eight tables are Festi's; those in braces are
-- configured. Ids are never given twice: a grant must not pass to whoever gets a freed number.
-- Names are compared by their characters, whatever the database's collation is. They have 255 letters,
-- some of which take two places; one of them is what a clustered index can have, and two what
-- another can. Times are in UTC.
-- What must be there once in two columns is an index: beside a constraint it has no other meaning.

CREATE TABLE sections (
    id      BIGINT IDENTITY(1, 1) NOT NULL,
    caption NVARCHAR(MAX) NOT NULL DEFAULT N'',
    ident   NVARCHAR(420) COLLATE Latin1_General_100_BIN2 NOT NULL,
    mask    BIGINT NOT NULL DEFAULT 2,
    CONSTRAINT callgate_sections_pk PRIMARY KEY (id),
    CONSTRAINT callgate_sections_ident UNIQUE (ident)
);

-- No index on LOWER(plugin): it would refuse writers with QUOTED_IDENTIFIER off, as sqlcmd has it.
CREATE TABLE section_actions (
    id         BIGINT IDENTITY(1, 1) NOT NULL,
    id_section BIGINT NOT NULL,
    plugin     NVARCHAR(420) COLLATE Latin1_General_100_BIN2 NOT NULL,
    method     NVARCHAR(420) COLLATE Latin1_General_100_BIN2 NOT NULL,
    mask       BIGINT NOT NULL,
    comment    NVARCHAR(MAX),
    CONSTRAINT callgate_actions_pk PRIMARY KEY (id)
);
CREATE UNIQUE INDEX callgate_actions_key ON section_actions (plugin, method, id_section);

-- No foreign keys to users or roles: Festi's own rows may name ones that are not here.
CREATE TABLE sections_user_permission (
    id         BIGINT IDENTITY(1, 1) NOT NULL,
    id_section BIGINT NOT NULL,
    id_user    BIGINT NOT NULL,
    value      BIGINT NOT NULL,
    CONSTRAINT callgate_user_grants_pk PRIMARY KEY (id)
);
CREATE UNIQUE INDEX callgate_user_grants_key ON sections_user_permission (id_section, id_user);

-- Not unique, as in Festi; of several rows the lowest counts.
CREATE TABLE sections_user_types_permission (
    id           BIGINT IDENTITY(1, 1) NOT NULL,
    id_section   BIGINT NOT NULL,
    id_user_type BIGINT NOT NULL,
    value        BIGINT NOT NULL DEFAULT 2,
    CONSTRAINT callgate_role_grants_pk PRIMARY KEY (id)
);
CREATE INDEX callgate_role_grants_key ON sections_user_types_permission (id_section, id_user_type);

CREATE TABLE settings (
    id      BIGINT IDENTITY(1, 1) NOT NULL,
    caption NVARCHAR(MAX),
    name    NVARCHAR(420) COLLATE Latin1_General_100_BIN2 NOT NULL,
    value   NVARCHAR(MAX),
    CONSTRAINT callgate_settings_pk PRIMARY KEY (id),
    CONSTRAINT callgate_settings_name UNIQUE (name)
);

CREATE TABLE users_types (
    id      BIGINT IDENTITY(1, 1) NOT NULL,
    caption NVARCHAR(420) COLLATE Latin1_General_100_BIN2 NOT NULL,
    CONSTRAINT callgate_users_types_pk PRIMARY KEY (id),
    CONSTRAINT callgate_users_types_caption UNIQUE (caption)
);

CREATE TABLE users (
    id      BIGINT IDENTITY(1, 1) NOT NULL,
    login   NVARCHAR(420) COLLATE Latin1_General_100_BIN2 NOT NULL,
    id_type BIGINT,
    CONSTRAINT callgate_users_pk PRIMARY KEY (id),
    CONSTRAINT callgate_users_login UNIQUE (login)
);

-- Not unique by rpc_method: a duplicate is quarantined with a reason, not lost in an import. ISJSON knows
-- objects and lists only.
CREATE TABLE rpc_methods (
    id            BIGINT IDENTITY(1, 1) NOT NULL,
    plugin        NVARCHAR(420) COLLATE Latin1_General_100_BIN2,
    method        NVARCHAR(420) COLLATE Latin1_General_100_BIN2,
    rpc_method    NVARCHAR(420) COLLATE Latin1_General_100_BIN2 NOT NULL,
    params        NVARCHAR(MAX),
    params_types  NVARCHAR(MAX),
    description   NVARCHAR(MAX),
    sections      NVARCHAR(MAX),
    return_type   NVARCHAR(MAX),
    title         NVARCHAR(MAX),
    safety        NVARCHAR(MAX),
    annotations   NVARCHAR(MAX),
    exposed       BIT,
    upstream      NVARCHAR(420) COLLATE Latin1_General_100_BIN2,
    tool_name     NVARCHAR(420) COLLATE Latin1_General_100_BIN2,
    input_schema  NVARCHAR(MAX),
    output_schema NVARCHAR(MAX),
    defaults      NVARCHAR(MAX),
    params_by     NVARCHAR(8) COLLATE Latin1_General_100_BIN2,
    CONSTRAINT callgate_rpc_methods_pk PRIMARY KEY (id),
    CONSTRAINT callgate_rpc_methods_params CHECK (ISJSON(params) = 1),
    CONSTRAINT callgate_rpc_methods_params_types CHECK (ISJSON(params_types) = 1),
    CONSTRAINT callgate_rpc_methods_annotations CHECK (ISJSON(annotations) = 1),
    CONSTRAINT callgate_rpc_methods_input CHECK (
        ISJSON(input_schema) = 1 OR input_schema IN (N'true', N'false')
    ),
    CONSTRAINT callgate_rpc_methods_output CHECK (
        ISJSON(output_schema) = 1 OR output_schema IN (N'true', N'false')
    ),
    CONSTRAINT callgate_rpc_methods_defaults CHECK (ISJSON(defaults) = 1),
    CONSTRAINT callgate_rpc_methods_params_by CHECK (params_by IN (N'name', N'position'))
);
CREATE INDEX callgate_rpc_methods_id ON rpc_methods (rpc_method);

-- What a class holds: `fields`, a list of {"name", "type", "description", "optional"}, or `schema`.
CREATE TABLE callgate_types (
    name     NVARCHAR(420) COLLATE Latin1_General_100_BIN2 NOT NULL,
    fields   NVARCHAR(MAX),
    [schema] NVARCHAR(MAX),
    CONSTRAINT callgate_types_pk PRIMARY KEY (name),
    CONSTRAINT callgate_types_fields CHECK (ISJSON(fields) = 1),
    CONSTRAINT callgate_types_schema CHECK (
        ISJSON([schema]) = 1 OR [schema] IN (N'true', N'false')
    )
);

-- Of a token only the SHA-256 is kept, in hexadecimal.
CREATE TABLE callgate_tokens (
    id           BIGINT IDENTITY(1, 1) NOT NULL,
    id_user      BIGINT NOT NULL,
    name         NVARCHAR(420) COLLATE Latin1_General_100_BIN2 NOT NULL,
    digest       NVARCHAR(64) COLLATE Latin1_General_100_BIN2 NOT NULL,
    created_at   DATETIME2 NOT NULL,
    expires_at   DATETIME2,
    last_used_at DATETIME2,
    CONSTRAINT callgate_tokens_pk PRIMARY KEY (id),
    CONSTRAINT callgate_tokens_digest UNIQUE (digest),
    CONSTRAINT callgate_tokens_sha256 CHECK (LEN(digest) = 64)
);
CREATE INDEX callgate_tokens_name ON callgate_tokens (name);

-- Secrets that servers sign with, in hexadecimal. The newest that is active signs, older ones are still
-- recognised. A key signs from a moment on, so that every gateway knows it by then.
CREATE TABLE callgate_keys (
    id          BIGINT IDENTITY(1, 1) NOT NULL,
    purpose     NVARCHAR(420) COLLATE Latin1_General_100_BIN2 NOT NULL,
    secret      NVARCHAR(MAX) NOT NULL,
    created_at  DATETIME2 NOT NULL,
    active_from DATETIME2 NOT NULL DEFAULT '1970-01-01',
    CONSTRAINT callgate_keys_pk PRIMARY KEY (id)
);
CREATE INDEX callgate_keys_purpose ON callgate_keys (purpose, id);

-- What MCP sessions became after they were opened; one that nothing happened to has no row. Servers
-- read what has a higher number than what they know. `subscriptions` is a list of resources that the
-- client wants to hear of.
CREATE TABLE callgate_sessions (
    nonce         NVARCHAR(255) COLLATE Latin1_General_100_BIN2 NOT NULL,
    number        BIGINT NOT NULL,
    ended         BIT NOT NULL,
    log_level     NVARCHAR(255),
    subscriptions NVARCHAR(MAX),
    ends_at       DATETIME2 NOT NULL,
    CONSTRAINT callgate_sessions_pk PRIMARY KEY (nonce),
    CONSTRAINT callgate_sessions_number UNIQUE (number),
    CONSTRAINT callgate_sessions_subscriptions CHECK (ISJSON(subscriptions) = 1)
);
CREATE INDEX callgate_sessions_end ON callgate_sessions (ends_at);

-- What a client sent about a call that runs on another gateway: an answer or a cancellation, as it came.
-- Gateways read what has a higher number than what they know; none stays for long.
CREATE TABLE callgate_messages (
    number    BIGINT NOT NULL,
    session   NVARCHAR(255) COLLATE Latin1_General_100_BIN2 NOT NULL,
    message   NVARCHAR(MAX) NOT NULL,
    posted_at DATETIME2 NOT NULL,
    CONSTRAINT callgate_messages_pk PRIMARY KEY (number)
);
CREATE INDEX callgate_messages_age ON callgate_messages (posted_at);

-- What an import wrote last, as JSON: what differs from it was changed by hand since, and is kept.
CREATE TABLE callgate_imports (
    upstream   NVARCHAR(420) COLLATE Latin1_General_100_BIN2 NOT NULL,
    rpc_method NVARCHAR(420) COLLATE Latin1_General_100_BIN2 NOT NULL,
    source     NVARCHAR(MAX) NOT NULL,
    written    NVARCHAR(MAX) NOT NULL,
    CONSTRAINT callgate_imports_pk PRIMARY KEY NONCLUSTERED (upstream, rpc_method),
    CONSTRAINT callgate_imports_written CHECK (ISJSON(written) = 1)
);
CREATE INDEX callgate_imports_method ON callgate_imports (rpc_method);

-- Services that run methods. `config` is a JSON object with the keys of `[upstreams.NAME]` in callgate.toml.
CREATE TABLE callgate_upstreams (
    name   NVARCHAR(420) COLLATE Latin1_General_100_BIN2 NOT NULL,
    config NVARCHAR(MAX) NOT NULL,
    CONSTRAINT callgate_upstreams_pk PRIMARY KEY (name),
    CONSTRAINT callgate_upstreams_config CHECK (ISJSON(config) = 1)
);

-- What users are known by at services. The secrets are kept as they are: whoever reads them can use them.
CREATE TABLE callgate_credentials (
    id_user  BIGINT NOT NULL,
    upstream NVARCHAR(420) COLLATE Latin1_General_100_BIN2 NOT NULL,
    secret   NVARCHAR(MAX) NOT NULL,
    set_at   DATETIME2 NOT NULL,
    CONSTRAINT callgate_credentials_pk PRIMARY KEY (id_user, upstream)
);
CREATE INDEX callgate_credentials_upstream ON callgate_credentials (upstream);

-- Facts about the registry itself.
CREATE TABLE callgate_meta (
    name  NVARCHAR(420) COLLATE Latin1_General_100_BIN2 NOT NULL,
    value NVARCHAR(MAX) NOT NULL,
    CONSTRAINT callgate_meta_pk PRIMARY KEY (name)
);

-- Counters that changes raise, also those made by plain SQL: servers watch them. Sessions and messages
-- are numbered by theirs.
CREATE TABLE callgate_revisions (
    name  NVARCHAR(20) COLLATE Latin1_General_100_BIN2 NOT NULL,
    value BIGINT NOT NULL,
    CONSTRAINT callgate_revisions_pk PRIMARY KEY (name)
);
INSERT INTO callgate_revisions (name, value)
VALUES (N'access', 1), (N'catalog', 1), (N'keys', 1), (N'messages', 0), (N'sessions', 0), (N'tokens', 1);
GO

-- A trigger runs once for a statement, also for one that changed no row: that counts as nothing. Whoever
-- raises one of the first two counters takes both, in the order of their names. Others hold up nobody: a token is
-- revoked while an import runs. The program has the counters before the rows that it changes, plain SQL has
-- them after: of two that wait for each other SQL Server ends one, and the program tries again. A
-- trigger sends no counts of rows of its own: programs would take them for those of their statement.

CREATE TRIGGER callgate_rpc_methods_w ON rpc_methods AFTER INSERT, UPDATE AS
BEGIN
    SET NOCOUNT ON;
    IF EXISTS (SELECT 1 FROM inserted)
        UPDATE callgate_revisions SET value = value + CASE WHEN name = N'catalog' THEN 1 ELSE 0 END
        WHERE name IN (N'access', N'catalog');
END;
GO
CREATE TRIGGER callgate_rpc_methods_d ON rpc_methods AFTER DELETE AS
BEGIN
    SET NOCOUNT ON;
    IF EXISTS (SELECT 1 FROM deleted)
        UPDATE callgate_revisions SET value = value + CASE WHEN name = N'catalog' THEN 1 ELSE 0 END
        WHERE name IN (N'access', N'catalog');
END;
GO

CREATE TRIGGER callgate_actions_w ON section_actions AFTER INSERT, UPDATE AS
BEGIN
    SET NOCOUNT ON;
    IF EXISTS (SELECT 1 FROM inserted)
        UPDATE callgate_revisions SET value = value + CASE WHEN name = N'catalog' THEN 1 ELSE 0 END
        WHERE name IN (N'access', N'catalog');
END;
GO
CREATE TRIGGER callgate_actions_d ON section_actions AFTER DELETE AS
BEGIN
    SET NOCOUNT ON;
    IF EXISTS (SELECT 1 FROM deleted)
        UPDATE callgate_revisions SET value = value + CASE WHEN name = N'catalog' THEN 1 ELSE 0 END
        WHERE name IN (N'access', N'catalog');
END;
GO

CREATE TRIGGER callgate_types_w ON callgate_types AFTER INSERT, UPDATE AS
BEGIN
    SET NOCOUNT ON;
    IF EXISTS (SELECT 1 FROM inserted)
        UPDATE callgate_revisions SET value = value + CASE WHEN name = N'catalog' THEN 1 ELSE 0 END
        WHERE name IN (N'access', N'catalog');
END;
GO
CREATE TRIGGER callgate_types_d ON callgate_types AFTER DELETE AS
BEGIN
    SET NOCOUNT ON;
    IF EXISTS (SELECT 1 FROM deleted)
        UPDATE callgate_revisions SET value = value + CASE WHEN name = N'catalog' THEN 1 ELSE 0 END
        WHERE name IN (N'access', N'catalog');
END;
GO

CREATE TRIGGER callgate_upstreams_w ON callgate_upstreams AFTER INSERT, UPDATE AS
BEGIN
    SET NOCOUNT ON;
    IF EXISTS (SELECT 1 FROM inserted)
        UPDATE callgate_revisions SET value = value + CASE WHEN name = N'catalog' THEN 1 ELSE 0 END
        WHERE name IN (N'access', N'catalog');
END;
GO
CREATE TRIGGER callgate_upstreams_d ON callgate_upstreams AFTER DELETE AS
BEGIN
    SET NOCOUNT ON;
    IF EXISTS (SELECT 1 FROM deleted)
        UPDATE callgate_revisions SET value = value + CASE WHEN name = N'catalog' THEN 1 ELSE 0 END
        WHERE name IN (N'access', N'catalog');
END;
GO

-- Sections and settings are read into both snapshots.
CREATE TRIGGER callgate_sections_w ON sections AFTER INSERT, UPDATE AS
BEGIN
    SET NOCOUNT ON;
    IF EXISTS (SELECT 1 FROM inserted)
        UPDATE callgate_revisions SET value = value + 1
        WHERE name IN (N'access', N'catalog');
END;
GO
CREATE TRIGGER callgate_sections_d ON sections AFTER DELETE AS
BEGIN
    SET NOCOUNT ON;
    IF EXISTS (SELECT 1 FROM deleted)
        UPDATE callgate_revisions SET value = value + 1
        WHERE name IN (N'access', N'catalog');
END;
GO

CREATE TRIGGER callgate_settings_w ON settings AFTER INSERT, UPDATE AS
BEGIN
    SET NOCOUNT ON;
    IF EXISTS (SELECT 1 FROM inserted)
        UPDATE callgate_revisions SET value = value + 1
        WHERE name IN (N'access', N'catalog');
END;
GO
CREATE TRIGGER callgate_settings_d ON settings AFTER DELETE AS
BEGIN
    SET NOCOUNT ON;
    IF EXISTS (SELECT 1 FROM deleted)
        UPDATE callgate_revisions SET value = value + 1
        WHERE name IN (N'access', N'catalog');
END;
GO

CREATE TRIGGER callgate_user_grants_w ON sections_user_permission AFTER INSERT, UPDATE AS
BEGIN
    SET NOCOUNT ON;
    IF EXISTS (SELECT 1 FROM inserted)
        UPDATE callgate_revisions SET value = value + CASE WHEN name = N'access' THEN 1 ELSE 0 END
        WHERE name IN (N'access', N'catalog');
END;
GO
CREATE TRIGGER callgate_user_grants_d ON sections_user_permission AFTER DELETE AS
BEGIN
    SET NOCOUNT ON;
    IF EXISTS (SELECT 1 FROM deleted)
        UPDATE callgate_revisions SET value = value + CASE WHEN name = N'access' THEN 1 ELSE 0 END
        WHERE name IN (N'access', N'catalog');
END;
GO

CREATE TRIGGER callgate_role_grants_w ON sections_user_types_permission AFTER INSERT, UPDATE AS
BEGIN
    SET NOCOUNT ON;
    IF EXISTS (SELECT 1 FROM inserted)
        UPDATE callgate_revisions SET value = value + CASE WHEN name = N'access' THEN 1 ELSE 0 END
        WHERE name IN (N'access', N'catalog');
END;
GO
CREATE TRIGGER callgate_role_grants_d ON sections_user_types_permission AFTER DELETE AS
BEGIN
    SET NOCOUNT ON;
    IF EXISTS (SELECT 1 FROM deleted)
        UPDATE callgate_revisions SET value = value + CASE WHEN name = N'access' THEN 1 ELSE 0 END
        WHERE name IN (N'access', N'catalog');
END;
GO

CREATE TRIGGER callgate_users_types_w ON users_types AFTER INSERT, UPDATE AS
BEGIN
    SET NOCOUNT ON;
    IF EXISTS (SELECT 1 FROM inserted)
        UPDATE callgate_revisions SET value = value + CASE WHEN name = N'access' THEN 1 ELSE 0 END
        WHERE name IN (N'access', N'catalog');
END;
GO
CREATE TRIGGER callgate_users_types_d ON users_types AFTER DELETE AS
BEGIN
    SET NOCOUNT ON;
    IF EXISTS (SELECT 1 FROM deleted)
        UPDATE callgate_revisions SET value = value + CASE WHEN name = N'access' THEN 1 ELSE 0 END
        WHERE name IN (N'access', N'catalog');
END;
GO

CREATE TRIGGER callgate_credentials_w ON callgate_credentials AFTER INSERT, UPDATE AS
BEGIN
    SET NOCOUNT ON;
    IF EXISTS (SELECT 1 FROM inserted)
        UPDATE callgate_revisions SET value = value + CASE WHEN name = N'access' THEN 1 ELSE 0 END
        WHERE name IN (N'access', N'catalog');
END;
GO
CREATE TRIGGER callgate_credentials_d ON callgate_credentials AFTER DELETE AS
BEGIN
    SET NOCOUNT ON;
    IF EXISTS (SELECT 1 FROM deleted)
        UPDATE callgate_revisions SET value = value + CASE WHEN name = N'access' THEN 1 ELSE 0 END
        WHERE name IN (N'access', N'catalog');
END;
GO

-- An application may keep more about its users: only what matters here counts.
CREATE TRIGGER callgate_users_i ON users AFTER INSERT AS
BEGIN
    SET NOCOUNT ON;
    IF EXISTS (SELECT 1 FROM inserted)
        UPDATE callgate_revisions SET value = value + CASE WHEN name = N'access' THEN 1 ELSE 0 END
        WHERE name IN (N'access', N'catalog');
END;
GO
CREATE TRIGGER callgate_users_u ON users AFTER UPDATE AS
BEGIN
    SET NOCOUNT ON;
    IF EXISTS (
        SELECT id, login, id_type FROM inserted
        EXCEPT SELECT id, login, id_type FROM deleted
    )
        UPDATE callgate_revisions SET value = value + CASE WHEN name = N'access' THEN 1 ELSE 0 END
        WHERE name IN (N'access', N'catalog');
END;
GO
CREATE TRIGGER callgate_users_d ON users AFTER DELETE AS
BEGIN
    SET NOCOUNT ON;
    IF EXISTS (SELECT 1 FROM deleted)
        UPDATE callgate_revisions SET value = value + CASE WHEN name = N'access' THEN 1 ELSE 0 END
        WHERE name IN (N'access', N'catalog');
END;
GO

CREATE TRIGGER callgate_keys_w ON callgate_keys AFTER INSERT, UPDATE AS
BEGIN
    SET NOCOUNT ON;
    IF EXISTS (SELECT 1 FROM inserted)
        UPDATE callgate_revisions SET value = value + 1 WHERE name = N'keys';
END;
GO
CREATE TRIGGER callgate_keys_d ON callgate_keys AFTER DELETE AS
BEGIN
    SET NOCOUNT ON;
    IF EXISTS (SELECT 1 FROM deleted)
        UPDATE callgate_revisions SET value = value + 1 WHERE name = N'keys';
END;
GO

-- Tokens have a counter of their own: they are looked up one by one, not read with the rest of the
-- access. When they were last used counts as nothing.
CREATE TRIGGER callgate_tokens_i ON callgate_tokens AFTER INSERT AS
BEGIN
    SET NOCOUNT ON;
    IF EXISTS (SELECT 1 FROM inserted)
        UPDATE callgate_revisions SET value = value + 1 WHERE name = N'tokens';
END;
GO
CREATE TRIGGER callgate_tokens_u ON callgate_tokens AFTER UPDATE AS
BEGIN
    SET NOCOUNT ON;
    IF EXISTS (
        SELECT id, id_user, digest, expires_at FROM inserted
        EXCEPT SELECT id, id_user, digest, expires_at FROM deleted
    )
        UPDATE callgate_revisions SET value = value + 1 WHERE name = N'tokens';
END;
GO
CREATE TRIGGER callgate_tokens_d ON callgate_tokens AFTER DELETE AS
BEGIN
    SET NOCOUNT ON;
    IF EXISTS (SELECT 1 FROM deleted)
        UPDATE callgate_revisions SET value = value + 1 WHERE name = N'tokens';
END;
GO
GO
INSERT INTO callgate_meta (name, value) VALUES ('tables', '{"prefix":"","rpc_methods":"rpc_methods","users":"users","users_types":"users_types"}');
GO
INSERT INTO callgate_migrations (version, name, applied_at) VALUES (1, 'registry', SYSUTCDATETIME());
