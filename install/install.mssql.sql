-- Callgate's registry for SQL Server, as `callgate migrate` creates it in an empty database.
-- Generated from crates/callgate-registry/src/db/schema.rs. To change this file, change the source and run
--     INSTA_UPDATE=always cargo test -p callgate-registry install_files
-- To print this script with Festi's table names: callgate migrate --dry-run --preset festi --database URL

-- 1: tables
GO
CREATE TABLE callgate_migrations (
    version    BIGINT NOT NULL,
    name       NVARCHAR(420) COLLATE Latin1_General_100_BIN2 NOT NULL,
    applied_at DATETIME2 NOT NULL,
    CONSTRAINT callgate_migrations_pk PRIMARY KEY (version)
);

GO
CREATE TABLE sections (
    id      BIGINT IDENTITY(1, 1) NOT NULL,
    caption NVARCHAR(MAX) NOT NULL DEFAULT '',
    ident   NVARCHAR(420) COLLATE Latin1_General_100_BIN2 NOT NULL,
    mask    BIGINT NOT NULL DEFAULT 2,
    CONSTRAINT callgate_sections_pk PRIMARY KEY (id),
    CONSTRAINT callgate_sections_ident UNIQUE (ident)
);

-- Plugin and method are matched without regard to case.
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

-- There are no foreign keys to users or roles, because Festi's rows may refer to missing users and roles.
CREATE TABLE sections_user_permission (
    id         BIGINT IDENTITY(1, 1) NOT NULL,
    id_section BIGINT NOT NULL,
    id_user    BIGINT NOT NULL,
    value      BIGINT NOT NULL,
    CONSTRAINT callgate_user_grants_pk PRIMARY KEY (id)
);
CREATE UNIQUE INDEX callgate_user_grants_key ON sections_user_permission (id_section, id_user);

-- Rows are not unique, as in Festi. If several rows match, the lowest value applies.
CREATE TABLE sections_user_types_permission (
    id           BIGINT IDENTITY(1, 1) NOT NULL,
    id_section   BIGINT NOT NULL,
    id_user_type BIGINT NOT NULL,
    value        BIGINT NOT NULL DEFAULT 2,
    CONSTRAINT callgate_role_grants_pk PRIMARY KEY (id)
);
CREATE INDEX callgate_role_grants ON sections_user_types_permission (id_section, id_user_type);

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

-- An application may add columns, whose changes do not increment the counters.
CREATE TABLE users (
    id      BIGINT IDENTITY(1, 1) NOT NULL,
    login   NVARCHAR(420) COLLATE Latin1_General_100_BIN2 NOT NULL,
    id_type BIGINT,
    CONSTRAINT callgate_users_pk PRIMARY KEY (id),
    CONSTRAINT callgate_users_login UNIQUE (login)
);

-- `rpc_method` is not unique. If two rows have the same id, the second is quarantined. `remote_name` is the name at the service; null means the id. `params_by` is the style of the parameters; null means that of the upstream.
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
    remote_name   NVARCHAR(420) COLLATE Latin1_General_100_BIN2,
    input_schema  NVARCHAR(MAX),
    output_schema NVARCHAR(MAX),
    defaults      NVARCHAR(MAX),
    params_by     NVARCHAR(20) COLLATE Latin1_General_100_BIN2,
    CONSTRAINT callgate_rpc_methods_pk PRIMARY KEY (id),
    CONSTRAINT callgate_rpc_methods_params_check CHECK (ISJSON(params) = 1),
    CONSTRAINT callgate_rpc_methods_params_types_check CHECK (ISJSON(params_types) = 1),
    CONSTRAINT callgate_rpc_methods_annotations_check CHECK (ISJSON(annotations) = 1),
    CONSTRAINT callgate_rpc_methods_input_schema_check CHECK (ISJSON(input_schema) = 1 OR input_schema IN ('true', 'false')),
    CONSTRAINT callgate_rpc_methods_output_schema_check CHECK (ISJSON(output_schema) = 1 OR output_schema IN ('true', 'false')),
    CONSTRAINT callgate_rpc_methods_defaults_check CHECK (ISJSON(defaults) = 1),
    CONSTRAINT callgate_rpc_methods_params_by_check CHECK (params_by IN ('name', 'position', 'either', 'position-null'))
);
CREATE INDEX callgate_rpc_methods_id ON rpc_methods (rpc_method);

-- Definitions of classes: `fields`, a list of {"name", "type", "description", "optional"}, or `schema`.
CREATE TABLE callgate_types (
    name   NVARCHAR(420) COLLATE Latin1_General_100_BIN2 NOT NULL,
    fields NVARCHAR(MAX),
    [schema] NVARCHAR(MAX),
    CONSTRAINT callgate_types_pk PRIMARY KEY (name),
    CONSTRAINT callgate_types_fields_check CHECK (ISJSON(fields) = 1),
    CONSTRAINT callgate_types_schema_check CHECK (ISJSON([schema]) = 1 OR [schema] IN ('true', 'false'))
);

-- Services that run methods. `config` is a JSON object with the keys of `[upstreams.NAME]` in callgate.toml.
CREATE TABLE callgate_upstreams (
    name   NVARCHAR(420) COLLATE Latin1_General_100_BIN2 NOT NULL,
    config NVARCHAR(MAX) NOT NULL,
    CONSTRAINT callgate_upstreams_pk PRIMARY KEY (name),
    CONSTRAINT callgate_upstreams_config_check CHECK (ISJSON(config) = 1)
);

-- Users' credentials at services. The secrets are in plain text: a reader of this table can use them.
CREATE TABLE callgate_credentials (
    id_user  BIGINT NOT NULL,
    upstream NVARCHAR(420) COLLATE Latin1_General_100_BIN2 NOT NULL,
    secret   NVARCHAR(MAX) NOT NULL,
    set_at   DATETIME2 NOT NULL,
    CONSTRAINT callgate_credentials_pk PRIMARY KEY (id_user, upstream)
);
CREATE INDEX callgate_credentials_upstream ON callgate_credentials (upstream);

-- SHA-256 digests of tokens, in hexadecimal. Tokens have their own counter, because they are looked up individually, not read with the other access tables.
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
    CONSTRAINT callgate_tokens_digest_check CHECK (LEN(digest) = 64)
);
CREATE INDEX callgate_tokens_name ON callgate_tokens (name);

-- Signing keys, in hexadecimal. A key is stored some time before it signs (`active_from`), so that every server has read it by then. Signatures of older keys stay valid.
CREATE TABLE callgate_keys (
    id          BIGINT IDENTITY(1, 1) NOT NULL,
    purpose     NVARCHAR(420) COLLATE Latin1_General_100_BIN2 NOT NULL,
    secret      NVARCHAR(MAX) NOT NULL,
    created_at  DATETIME2 NOT NULL,
    active_from DATETIME2 NOT NULL DEFAULT '1970-01-01',
    CONSTRAINT callgate_keys_pk PRIMARY KEY (id)
);
CREATE INDEX callgate_keys_purpose ON callgate_keys (purpose, id);

-- MCP sessions that changed after they were opened; an unchanged session has no row. A server reads only rows with a higher `number` than those that it has read. `subscriptions` lists the resources that the client subscribed to.
CREATE TABLE callgate_sessions (
    nonce         NVARCHAR(255) COLLATE Latin1_General_100_BIN2 NOT NULL,
    number        BIGINT NOT NULL,
    ended         BIT NOT NULL,
    log_level     NVARCHAR(255),
    ends_at       DATETIME2 NOT NULL,
    subscriptions NVARCHAR(MAX),
    CONSTRAINT callgate_sessions_pk PRIMARY KEY (nonce),
    CONSTRAINT callgate_sessions_number UNIQUE (number),
    CONSTRAINT callgate_sessions_subscriptions_check CHECK (ISJSON(subscriptions) = 1)
);
CREATE INDEX callgate_sessions_end ON callgate_sessions (ends_at);

-- Answers and cancellations of clients for calls that run on another server, as JSON-RPC messages. A server reads only rows with a higher `number` than those that it has read. Rows are deleted after a minute.
CREATE TABLE callgate_messages (
    number    BIGINT NOT NULL,
    session   NVARCHAR(255) COLLATE Latin1_General_100_BIN2 NOT NULL,
    message   NVARCHAR(MAX) NOT NULL,
    posted_at DATETIME2 NOT NULL,
    CONSTRAINT callgate_messages_pk PRIMARY KEY (number)
);
CREATE INDEX callgate_messages_age ON callgate_messages (posted_at);

-- Running servers, which share the rate limits equally. Each server renews its row until the server ends.
CREATE TABLE callgate_servers (
    server     NVARCHAR(255) COLLATE Latin1_General_100_BIN2 NOT NULL,
    expires_at DATETIME2 NOT NULL,
    CONSTRAINT callgate_servers_pk PRIMARY KEY (server)
);
CREATE INDEX callgate_servers_expiry ON callgate_servers (expires_at);

-- Methods as the last import wrote them, as JSON. If a column of the method now has another value, it was changed by hand after the import. The next import keeps this value.
CREATE TABLE callgate_imports (
    upstream   NVARCHAR(420) COLLATE Latin1_General_100_BIN2 NOT NULL,
    rpc_method NVARCHAR(420) COLLATE Latin1_General_100_BIN2 NOT NULL,
    source     NVARCHAR(MAX) NOT NULL,
    written    NVARCHAR(MAX) NOT NULL,
    CONSTRAINT callgate_imports_pk PRIMARY KEY NONCLUSTERED (upstream, rpc_method),
    CONSTRAINT callgate_imports_written_check CHECK (ISJSON(written) = 1)
);
CREATE INDEX callgate_imports_method ON callgate_imports (rpc_method);

-- Metadata of the registry.
CREATE TABLE callgate_meta (
    name  NVARCHAR(420) COLLATE Latin1_General_100_BIN2 NOT NULL,
    value NVARCHAR(MAX) NOT NULL,
    CONSTRAINT callgate_meta_pk PRIMARY KEY (name)
);

-- Counters of changes, including changes by plain SQL; servers poll the counters. Sessions and messages are numbered by their counters.
CREATE TABLE callgate_revisions (
    name  NVARCHAR(20) COLLATE Latin1_General_100_BIN2 NOT NULL,
    value BIGINT NOT NULL,
    CONSTRAINT callgate_revisions_pk PRIMARY KEY (name)
);

INSERT INTO callgate_revisions (name, value)
VALUES ('access', 1), ('catalog', 1), ('keys', 1), ('messages', 0), ('sessions', 0), ('tokens', 1);

GO
-- A trigger runs once per statement, and increments nothing if no row changed. `access` and `catalog` are locked
-- together, in this order, to avoid deadlocks. The other counters are locked separately, so that a token can be
-- revoked during an import. The program locks the counters before the rows. Plain SQL locks the rows first. If
-- this causes a deadlock, SQL Server ends one of the two transactions, and the program retries. Triggers set
-- NOCOUNT, because programs would otherwise mistake the row counts of triggers for those of the statement.
CREATE TRIGGER callgate_sections_i ON sections AFTER INSERT AS
BEGIN
    SET NOCOUNT ON;
    IF EXISTS (SELECT 1 FROM inserted)
        UPDATE callgate_revisions SET value = value + CASE WHEN name IN ('access', 'catalog') THEN 1 ELSE 0 END
        WHERE name IN ('access', 'catalog');
END;
GO
CREATE TRIGGER callgate_sections_u ON sections AFTER UPDATE AS
BEGIN
    SET NOCOUNT ON;
    IF EXISTS (SELECT 1 FROM inserted)
        UPDATE callgate_revisions SET value = value + CASE WHEN name IN ('access', 'catalog') THEN 1 ELSE 0 END
        WHERE name IN ('access', 'catalog');
END;
GO
CREATE TRIGGER callgate_sections_d ON sections AFTER DELETE AS
BEGIN
    SET NOCOUNT ON;
    IF EXISTS (SELECT 1 FROM deleted)
        UPDATE callgate_revisions SET value = value + CASE WHEN name IN ('access', 'catalog') THEN 1 ELSE 0 END
        WHERE name IN ('access', 'catalog');
END;
GO
CREATE TRIGGER callgate_actions_i ON section_actions AFTER INSERT AS
BEGIN
    SET NOCOUNT ON;
    IF EXISTS (SELECT 1 FROM inserted)
        UPDATE callgate_revisions SET value = value + CASE WHEN name IN ('catalog') THEN 1 ELSE 0 END
        WHERE name IN ('access', 'catalog');
END;
GO
CREATE TRIGGER callgate_actions_u ON section_actions AFTER UPDATE AS
BEGIN
    SET NOCOUNT ON;
    IF EXISTS (SELECT 1 FROM inserted)
        UPDATE callgate_revisions SET value = value + CASE WHEN name IN ('catalog') THEN 1 ELSE 0 END
        WHERE name IN ('access', 'catalog');
END;
GO
CREATE TRIGGER callgate_actions_d ON section_actions AFTER DELETE AS
BEGIN
    SET NOCOUNT ON;
    IF EXISTS (SELECT 1 FROM deleted)
        UPDATE callgate_revisions SET value = value + CASE WHEN name IN ('catalog') THEN 1 ELSE 0 END
        WHERE name IN ('access', 'catalog');
END;
GO
CREATE TRIGGER callgate_user_grants_i ON sections_user_permission AFTER INSERT AS
BEGIN
    SET NOCOUNT ON;
    IF EXISTS (SELECT 1 FROM inserted)
        UPDATE callgate_revisions SET value = value + CASE WHEN name IN ('access') THEN 1 ELSE 0 END
        WHERE name IN ('access', 'catalog');
END;
GO
CREATE TRIGGER callgate_user_grants_u ON sections_user_permission AFTER UPDATE AS
BEGIN
    SET NOCOUNT ON;
    IF EXISTS (SELECT 1 FROM inserted)
        UPDATE callgate_revisions SET value = value + CASE WHEN name IN ('access') THEN 1 ELSE 0 END
        WHERE name IN ('access', 'catalog');
END;
GO
CREATE TRIGGER callgate_user_grants_d ON sections_user_permission AFTER DELETE AS
BEGIN
    SET NOCOUNT ON;
    IF EXISTS (SELECT 1 FROM deleted)
        UPDATE callgate_revisions SET value = value + CASE WHEN name IN ('access') THEN 1 ELSE 0 END
        WHERE name IN ('access', 'catalog');
END;
GO
CREATE TRIGGER callgate_role_grants_i ON sections_user_types_permission AFTER INSERT AS
BEGIN
    SET NOCOUNT ON;
    IF EXISTS (SELECT 1 FROM inserted)
        UPDATE callgate_revisions SET value = value + CASE WHEN name IN ('access') THEN 1 ELSE 0 END
        WHERE name IN ('access', 'catalog');
END;
GO
CREATE TRIGGER callgate_role_grants_u ON sections_user_types_permission AFTER UPDATE AS
BEGIN
    SET NOCOUNT ON;
    IF EXISTS (SELECT 1 FROM inserted)
        UPDATE callgate_revisions SET value = value + CASE WHEN name IN ('access') THEN 1 ELSE 0 END
        WHERE name IN ('access', 'catalog');
END;
GO
CREATE TRIGGER callgate_role_grants_d ON sections_user_types_permission AFTER DELETE AS
BEGIN
    SET NOCOUNT ON;
    IF EXISTS (SELECT 1 FROM deleted)
        UPDATE callgate_revisions SET value = value + CASE WHEN name IN ('access') THEN 1 ELSE 0 END
        WHERE name IN ('access', 'catalog');
END;
GO
CREATE TRIGGER callgate_settings_i ON settings AFTER INSERT AS
BEGIN
    SET NOCOUNT ON;
    IF EXISTS (SELECT 1 FROM inserted)
        UPDATE callgate_revisions SET value = value + CASE WHEN name IN ('access', 'catalog') THEN 1 ELSE 0 END
        WHERE name IN ('access', 'catalog');
END;
GO
CREATE TRIGGER callgate_settings_u ON settings AFTER UPDATE AS
BEGIN
    SET NOCOUNT ON;
    IF EXISTS (SELECT 1 FROM inserted)
        UPDATE callgate_revisions SET value = value + CASE WHEN name IN ('access', 'catalog') THEN 1 ELSE 0 END
        WHERE name IN ('access', 'catalog');
END;
GO
CREATE TRIGGER callgate_settings_d ON settings AFTER DELETE AS
BEGIN
    SET NOCOUNT ON;
    IF EXISTS (SELECT 1 FROM deleted)
        UPDATE callgate_revisions SET value = value + CASE WHEN name IN ('access', 'catalog') THEN 1 ELSE 0 END
        WHERE name IN ('access', 'catalog');
END;
GO
CREATE TRIGGER callgate_users_types_i ON users_types AFTER INSERT AS
BEGIN
    SET NOCOUNT ON;
    IF EXISTS (SELECT 1 FROM inserted)
        UPDATE callgate_revisions SET value = value + CASE WHEN name IN ('access') THEN 1 ELSE 0 END
        WHERE name IN ('access', 'catalog');
END;
GO
CREATE TRIGGER callgate_users_types_u ON users_types AFTER UPDATE AS
BEGIN
    SET NOCOUNT ON;
    IF EXISTS (SELECT 1 FROM inserted)
        UPDATE callgate_revisions SET value = value + CASE WHEN name IN ('access') THEN 1 ELSE 0 END
        WHERE name IN ('access', 'catalog');
END;
GO
CREATE TRIGGER callgate_users_types_d ON users_types AFTER DELETE AS
BEGIN
    SET NOCOUNT ON;
    IF EXISTS (SELECT 1 FROM deleted)
        UPDATE callgate_revisions SET value = value + CASE WHEN name IN ('access') THEN 1 ELSE 0 END
        WHERE name IN ('access', 'catalog');
END;
GO
CREATE TRIGGER callgate_users_i ON users AFTER INSERT AS
BEGIN
    SET NOCOUNT ON;
    IF EXISTS (SELECT 1 FROM inserted)
        UPDATE callgate_revisions SET value = value + CASE WHEN name IN ('access') THEN 1 ELSE 0 END
        WHERE name IN ('access', 'catalog');
END;
GO
CREATE TRIGGER callgate_users_u ON users AFTER UPDATE AS
BEGIN
    SET NOCOUNT ON;
    IF EXISTS (SELECT id, login, id_type FROM inserted EXCEPT SELECT id, login, id_type FROM deleted)
        UPDATE callgate_revisions SET value = value + CASE WHEN name IN ('access') THEN 1 ELSE 0 END
        WHERE name IN ('access', 'catalog');
END;
GO
CREATE TRIGGER callgate_users_d ON users AFTER DELETE AS
BEGIN
    SET NOCOUNT ON;
    IF EXISTS (SELECT 1 FROM deleted)
        UPDATE callgate_revisions SET value = value + CASE WHEN name IN ('access') THEN 1 ELSE 0 END
        WHERE name IN ('access', 'catalog');
END;
GO
CREATE TRIGGER callgate_rpc_methods_i ON rpc_methods AFTER INSERT AS
BEGIN
    SET NOCOUNT ON;
    IF EXISTS (SELECT 1 FROM inserted)
        UPDATE callgate_revisions SET value = value + CASE WHEN name IN ('catalog') THEN 1 ELSE 0 END
        WHERE name IN ('access', 'catalog');
END;
GO
CREATE TRIGGER callgate_rpc_methods_u ON rpc_methods AFTER UPDATE AS
BEGIN
    SET NOCOUNT ON;
    IF EXISTS (SELECT 1 FROM inserted)
        UPDATE callgate_revisions SET value = value + CASE WHEN name IN ('catalog') THEN 1 ELSE 0 END
        WHERE name IN ('access', 'catalog');
END;
GO
CREATE TRIGGER callgate_rpc_methods_d ON rpc_methods AFTER DELETE AS
BEGIN
    SET NOCOUNT ON;
    IF EXISTS (SELECT 1 FROM deleted)
        UPDATE callgate_revisions SET value = value + CASE WHEN name IN ('catalog') THEN 1 ELSE 0 END
        WHERE name IN ('access', 'catalog');
END;
GO
CREATE TRIGGER callgate_types_i ON callgate_types AFTER INSERT AS
BEGIN
    SET NOCOUNT ON;
    IF EXISTS (SELECT 1 FROM inserted)
        UPDATE callgate_revisions SET value = value + CASE WHEN name IN ('catalog') THEN 1 ELSE 0 END
        WHERE name IN ('access', 'catalog');
END;
GO
CREATE TRIGGER callgate_types_u ON callgate_types AFTER UPDATE AS
BEGIN
    SET NOCOUNT ON;
    IF EXISTS (SELECT 1 FROM inserted)
        UPDATE callgate_revisions SET value = value + CASE WHEN name IN ('catalog') THEN 1 ELSE 0 END
        WHERE name IN ('access', 'catalog');
END;
GO
CREATE TRIGGER callgate_types_d ON callgate_types AFTER DELETE AS
BEGIN
    SET NOCOUNT ON;
    IF EXISTS (SELECT 1 FROM deleted)
        UPDATE callgate_revisions SET value = value + CASE WHEN name IN ('catalog') THEN 1 ELSE 0 END
        WHERE name IN ('access', 'catalog');
END;
GO
CREATE TRIGGER callgate_upstreams_i ON callgate_upstreams AFTER INSERT AS
BEGIN
    SET NOCOUNT ON;
    IF EXISTS (SELECT 1 FROM inserted)
        UPDATE callgate_revisions SET value = value + CASE WHEN name IN ('catalog') THEN 1 ELSE 0 END
        WHERE name IN ('access', 'catalog');
END;
GO
CREATE TRIGGER callgate_upstreams_u ON callgate_upstreams AFTER UPDATE AS
BEGIN
    SET NOCOUNT ON;
    IF EXISTS (SELECT 1 FROM inserted)
        UPDATE callgate_revisions SET value = value + CASE WHEN name IN ('catalog') THEN 1 ELSE 0 END
        WHERE name IN ('access', 'catalog');
END;
GO
CREATE TRIGGER callgate_upstreams_d ON callgate_upstreams AFTER DELETE AS
BEGIN
    SET NOCOUNT ON;
    IF EXISTS (SELECT 1 FROM deleted)
        UPDATE callgate_revisions SET value = value + CASE WHEN name IN ('catalog') THEN 1 ELSE 0 END
        WHERE name IN ('access', 'catalog');
END;
GO
CREATE TRIGGER callgate_credentials_i ON callgate_credentials AFTER INSERT AS
BEGIN
    SET NOCOUNT ON;
    IF EXISTS (SELECT 1 FROM inserted)
        UPDATE callgate_revisions SET value = value + CASE WHEN name IN ('access') THEN 1 ELSE 0 END
        WHERE name IN ('access', 'catalog');
END;
GO
CREATE TRIGGER callgate_credentials_u ON callgate_credentials AFTER UPDATE AS
BEGIN
    SET NOCOUNT ON;
    IF EXISTS (SELECT 1 FROM inserted)
        UPDATE callgate_revisions SET value = value + CASE WHEN name IN ('access') THEN 1 ELSE 0 END
        WHERE name IN ('access', 'catalog');
END;
GO
CREATE TRIGGER callgate_credentials_d ON callgate_credentials AFTER DELETE AS
BEGIN
    SET NOCOUNT ON;
    IF EXISTS (SELECT 1 FROM deleted)
        UPDATE callgate_revisions SET value = value + CASE WHEN name IN ('access') THEN 1 ELSE 0 END
        WHERE name IN ('access', 'catalog');
END;
GO
CREATE TRIGGER callgate_tokens_i ON callgate_tokens AFTER INSERT AS
BEGIN
    SET NOCOUNT ON;
    IF EXISTS (SELECT 1 FROM inserted)
        UPDATE callgate_revisions SET value = value + CASE WHEN name IN ('tokens') THEN 1 ELSE 0 END
        WHERE name IN ('tokens');
END;
GO
CREATE TRIGGER callgate_tokens_u ON callgate_tokens AFTER UPDATE AS
BEGIN
    SET NOCOUNT ON;
    IF EXISTS (SELECT id, id_user, digest, expires_at FROM inserted EXCEPT SELECT id, id_user, digest, expires_at FROM deleted)
        UPDATE callgate_revisions SET value = value + CASE WHEN name IN ('tokens') THEN 1 ELSE 0 END
        WHERE name IN ('tokens');
END;
GO
CREATE TRIGGER callgate_tokens_d ON callgate_tokens AFTER DELETE AS
BEGIN
    SET NOCOUNT ON;
    IF EXISTS (SELECT 1 FROM deleted)
        UPDATE callgate_revisions SET value = value + CASE WHEN name IN ('tokens') THEN 1 ELSE 0 END
        WHERE name IN ('tokens');
END;
GO
CREATE TRIGGER callgate_keys_i ON callgate_keys AFTER INSERT AS
BEGIN
    SET NOCOUNT ON;
    IF EXISTS (SELECT 1 FROM inserted)
        UPDATE callgate_revisions SET value = value + CASE WHEN name IN ('keys') THEN 1 ELSE 0 END
        WHERE name IN ('keys');
END;
GO
CREATE TRIGGER callgate_keys_u ON callgate_keys AFTER UPDATE AS
BEGIN
    SET NOCOUNT ON;
    IF EXISTS (SELECT 1 FROM inserted)
        UPDATE callgate_revisions SET value = value + CASE WHEN name IN ('keys') THEN 1 ELSE 0 END
        WHERE name IN ('keys');
END;
GO
CREATE TRIGGER callgate_keys_d ON callgate_keys AFTER DELETE AS
BEGIN
    SET NOCOUNT ON;
    IF EXISTS (SELECT 1 FROM deleted)
        UPDATE callgate_revisions SET value = value + CASE WHEN name IN ('keys') THEN 1 ELSE 0 END
        WHERE name IN ('keys');
END;
GO
DELETE FROM callgate_meta WHERE name = 'tables';
INSERT INTO callgate_meta (name, value) VALUES ('tables', '{"prefix":"","rpc_methods":"rpc_methods","users":"users","users_types":"users_types"}');
GO
INSERT INTO callgate_migrations (version, name, applied_at) VALUES (1, 'tables', SYSUTCDATETIME());
