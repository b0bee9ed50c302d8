-- Callgate's registry for MySQL and MariaDB, as `callgate migrate` creates it in an empty database.
-- Generated from crates/callgate-registry/src/db/schema.rs. To change this file, change the source and run
--     INSTA_UPDATE=always cargo test -p callgate-registry install_files
-- To print this script with Festi's table names: callgate migrate --dry-run --preset festi --database URL

-- 1: tables
CREATE TABLE callgate_migrations (
    version    BIGINT NOT NULL,
    name       VARCHAR(255) NOT NULL,
    applied_at DATETIME NOT NULL,
    PRIMARY KEY (version)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4
  COLLATE /*M! utf8mb4_nopad_bin */ /*!80017 utf8mb4_0900_bin */;

CREATE TABLE IF NOT EXISTS sections (
    id      BIGINT NOT NULL AUTO_INCREMENT,
    caption VARCHAR(255) NOT NULL DEFAULT '',
    ident   VARCHAR(255) NOT NULL,
    mask    INTEGER NOT NULL DEFAULT 2,
    PRIMARY KEY (id),
    UNIQUE (ident)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4
  COLLATE /*M! utf8mb4_nopad_bin */ /*!80017 utf8mb4_0900_bin */;

-- Plugin and method are matched without regard to case.
CREATE TABLE IF NOT EXISTS section_actions (
    id         BIGINT NOT NULL AUTO_INCREMENT,
    id_section BIGINT NOT NULL,
    plugin     VARCHAR(255) NOT NULL,
    method     VARCHAR(255) NOT NULL,
    mask       INTEGER NOT NULL,
    comment    TEXT,
    plugin_key VARCHAR(255) AS (LOWER(plugin)) VIRTUAL,
    method_key VARCHAR(255) AS (LOWER(method)) VIRTUAL,
    PRIMARY KEY (id),
    UNIQUE (plugin, method, id_section),
    INDEX callgate_actions_key (plugin_key, method_key)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4
  COLLATE /*M! utf8mb4_nopad_bin */ /*!80017 utf8mb4_0900_bin */;

-- There are no foreign keys to users or roles, because Festi's rows may refer to missing users and roles.
CREATE TABLE IF NOT EXISTS sections_user_permission (
    id         BIGINT NOT NULL AUTO_INCREMENT,
    id_section BIGINT NOT NULL,
    id_user    BIGINT NOT NULL,
    value      INTEGER NOT NULL,
    PRIMARY KEY (id),
    UNIQUE (id_section, id_user)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4
  COLLATE /*M! utf8mb4_nopad_bin */ /*!80017 utf8mb4_0900_bin */;

-- Rows are not unique, as in Festi. If several rows match, the lowest value applies.
CREATE TABLE IF NOT EXISTS sections_user_types_permission (
    id           BIGINT NOT NULL AUTO_INCREMENT,
    id_section   BIGINT NOT NULL,
    id_user_type BIGINT NOT NULL,
    value        INTEGER NOT NULL DEFAULT 2,
    PRIMARY KEY (id),
    INDEX callgate_role_grants (id_section, id_user_type)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4
  COLLATE /*M! utf8mb4_nopad_bin */ /*!80017 utf8mb4_0900_bin */;

CREATE TABLE IF NOT EXISTS settings (
    id      BIGINT NOT NULL AUTO_INCREMENT,
    caption VARCHAR(255),
    name    VARCHAR(255) NOT NULL,
    value   MEDIUMTEXT,
    PRIMARY KEY (id),
    UNIQUE (name)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4
  COLLATE /*M! utf8mb4_nopad_bin */ /*!80017 utf8mb4_0900_bin */;

CREATE TABLE IF NOT EXISTS users_types (
    id      BIGINT NOT NULL AUTO_INCREMENT,
    caption VARCHAR(255) NOT NULL,
    PRIMARY KEY (id),
    UNIQUE (caption)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4
  COLLATE /*M! utf8mb4_nopad_bin */ /*!80017 utf8mb4_0900_bin */;

-- An application may add columns, whose changes do not increment the counters.
CREATE TABLE IF NOT EXISTS users (
    id      BIGINT NOT NULL AUTO_INCREMENT,
    login   VARCHAR(255) NOT NULL,
    id_type BIGINT,
    PRIMARY KEY (id),
    UNIQUE (login)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4
  COLLATE /*M! utf8mb4_nopad_bin */ /*!80017 utf8mb4_0900_bin */;

-- `rpc_method` is not unique. If two rows have the same id, the second is quarantined. `remote_name` is the name at the service; null means the id. `params_by` is the style of the parameters; null means that of the upstream.
CREATE TABLE IF NOT EXISTS rpc_methods (
    id            BIGINT NOT NULL AUTO_INCREMENT,
    plugin        VARCHAR(255),
    method        VARCHAR(255),
    rpc_method    VARCHAR(255) NOT NULL,
    params        LONGTEXT CHECK (JSON_VALID(params) OR CHAR_LENGTH(params) - CHAR_LENGTH(REPLACE(REPLACE(params, '{', ''), '[', '')) > 30),
    params_types  LONGTEXT CHECK (JSON_VALID(params_types)),
    description   MEDIUMTEXT,
    sections      TEXT,
    return_type   TEXT,
    title         TEXT,
    safety        TEXT,
    annotations   LONGTEXT CHECK (JSON_VALID(annotations)),
    exposed       BOOLEAN,
    upstream      VARCHAR(255),
    tool_name     VARCHAR(255),
    remote_name   VARCHAR(255),
    input_schema  LONGTEXT CHECK (JSON_VALID(input_schema) OR CHAR_LENGTH(input_schema) - CHAR_LENGTH(REPLACE(REPLACE(input_schema, '{', ''), '[', '')) > 30),
    output_schema LONGTEXT CHECK (JSON_VALID(output_schema) OR CHAR_LENGTH(output_schema) - CHAR_LENGTH(REPLACE(REPLACE(output_schema, '{', ''), '[', '')) > 30),
    defaults      LONGTEXT CHECK (JSON_VALID(defaults) OR CHAR_LENGTH(defaults) - CHAR_LENGTH(REPLACE(REPLACE(defaults, '{', ''), '[', '')) > 30),
    params_by     VARCHAR(20) CHECK (params_by IN ('name', 'position', 'either', 'position-null')),
    PRIMARY KEY (id),
    INDEX callgate_rpc_methods_id (rpc_method)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4
  COLLATE /*M! utf8mb4_nopad_bin */ /*!80017 utf8mb4_0900_bin */;

-- Definitions of classes: `fields`, a list of {"name", "type", "description", "optional"}, or `schema`.
CREATE TABLE IF NOT EXISTS callgate_types (
    name   VARCHAR(255) NOT NULL,
    fields LONGTEXT CHECK (JSON_VALID(fields) OR CHAR_LENGTH(fields) - CHAR_LENGTH(REPLACE(REPLACE(fields, '{', ''), '[', '')) > 30),
    `schema` LONGTEXT CHECK (JSON_VALID(`schema`) OR CHAR_LENGTH(`schema`) - CHAR_LENGTH(REPLACE(REPLACE(`schema`, '{', ''), '[', '')) > 30),
    PRIMARY KEY (name)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4
  COLLATE /*M! utf8mb4_nopad_bin */ /*!80017 utf8mb4_0900_bin */;

-- Services that run methods. `config` is a JSON object with the keys of `[upstreams.NAME]` in callgate.toml.
CREATE TABLE IF NOT EXISTS callgate_upstreams (
    name   VARCHAR(255) NOT NULL,
    config LONGTEXT NOT NULL CHECK (JSON_VALID(config)),
    PRIMARY KEY (name)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4
  COLLATE /*M! utf8mb4_nopad_bin */ /*!80017 utf8mb4_0900_bin */;

-- Users' credentials at services. The secrets are in plain text: a reader of this table can use them.
CREATE TABLE IF NOT EXISTS callgate_credentials (
    id_user  BIGINT NOT NULL,
    upstream VARCHAR(255) NOT NULL,
    secret   MEDIUMTEXT NOT NULL,
    set_at   DATETIME NOT NULL,
    PRIMARY KEY (id_user, upstream),
    INDEX callgate_credentials_upstream (upstream)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4
  COLLATE /*M! utf8mb4_nopad_bin */ /*!80017 utf8mb4_0900_bin */;

-- SHA-256 digests of tokens, in hexadecimal. Tokens have their own counter, because they are looked up individually, not read with the other access tables.
CREATE TABLE IF NOT EXISTS callgate_tokens (
    id           BIGINT NOT NULL AUTO_INCREMENT,
    id_user      BIGINT NOT NULL,
    name         VARCHAR(255) NOT NULL,
    digest       VARCHAR(64) NOT NULL CHECK (CHAR_LENGTH(digest) = 64),
    created_at   DATETIME NOT NULL,
    expires_at   DATETIME,
    last_used_at DATETIME,
    PRIMARY KEY (id),
    UNIQUE (digest),
    INDEX callgate_tokens_name (name)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4
  COLLATE /*M! utf8mb4_nopad_bin */ /*!80017 utf8mb4_0900_bin */;

-- Signing keys, in hexadecimal. A key is stored some time before it signs (`active_from`), so that every server has read it by then. Signatures of older keys stay valid.
CREATE TABLE IF NOT EXISTS callgate_keys (
    id          BIGINT NOT NULL AUTO_INCREMENT,
    purpose     VARCHAR(255) NOT NULL,
    secret      TEXT NOT NULL,
    created_at  DATETIME NOT NULL,
    active_from DATETIME NOT NULL DEFAULT '1970-01-01 00:00:00',
    PRIMARY KEY (id),
    INDEX callgate_keys_purpose (purpose, id)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4
  COLLATE /*M! utf8mb4_nopad_bin */ /*!80017 utf8mb4_0900_bin */;

-- MCP sessions that changed after they were opened; an unchanged session has no row. A server reads only rows with a higher `number` than those that it has read. `subscriptions` lists the resources that the client subscribed to.
CREATE TABLE IF NOT EXISTS callgate_sessions (
    nonce         VARCHAR(64) NOT NULL,
    number        BIGINT NOT NULL,
    ended         BOOLEAN NOT NULL,
    log_level     VARCHAR(20),
    ends_at       DATETIME NOT NULL,
    subscriptions LONGTEXT CHECK (JSON_VALID(subscriptions)),
    PRIMARY KEY (nonce),
    UNIQUE (number),
    INDEX callgate_sessions_end (ends_at)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4
  COLLATE /*M! utf8mb4_nopad_bin */ /*!80017 utf8mb4_0900_bin */;

-- Answers and cancellations of clients for calls that run on another server, as JSON-RPC messages. A server reads only rows with a higher `number` than those that it has read. Rows are deleted after a minute.
CREATE TABLE IF NOT EXISTS callgate_messages (
    number    BIGINT NOT NULL,
    session   VARCHAR(64) NOT NULL,
    message   LONGTEXT NOT NULL,
    posted_at DATETIME NOT NULL,
    PRIMARY KEY (number),
    INDEX callgate_messages_age (posted_at)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4
  COLLATE /*M! utf8mb4_nopad_bin */ /*!80017 utf8mb4_0900_bin */;

-- Running servers, which share the rate limits equally. Each server renews its row until the server ends.
CREATE TABLE IF NOT EXISTS callgate_servers (
    server     VARCHAR(64) NOT NULL,
    expires_at DATETIME NOT NULL,
    PRIMARY KEY (server),
    INDEX callgate_servers_expiry (expires_at)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4
  COLLATE /*M! utf8mb4_nopad_bin */ /*!80017 utf8mb4_0900_bin */;

-- Methods as the last import wrote them, as JSON. If a column of the method now has another value, it was changed by hand after the import. The next import keeps this value.
CREATE TABLE IF NOT EXISTS callgate_imports (
    upstream   VARCHAR(255) NOT NULL,
    rpc_method VARCHAR(255) NOT NULL,
    source     TEXT NOT NULL,
    written    LONGTEXT NOT NULL CHECK (JSON_VALID(written) OR CHAR_LENGTH(written) - CHAR_LENGTH(REPLACE(REPLACE(written, '{', ''), '[', '')) > 30),
    PRIMARY KEY (upstream, rpc_method),
    INDEX callgate_imports_method (rpc_method)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4
  COLLATE /*M! utf8mb4_nopad_bin */ /*!80017 utf8mb4_0900_bin */;

-- Metadata of the registry.
CREATE TABLE IF NOT EXISTS callgate_meta (
    name  VARCHAR(255) NOT NULL,
    value MEDIUMTEXT NOT NULL,
    PRIMARY KEY (name)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4
  COLLATE /*M! utf8mb4_nopad_bin */ /*!80017 utf8mb4_0900_bin */;

-- Counters of changes, including changes by plain SQL; servers poll the counters. Sessions and messages are numbered by their counters.
CREATE TABLE IF NOT EXISTS callgate_revisions (
    name  VARCHAR(40) NOT NULL,
    value BIGINT NOT NULL,
    PRIMARY KEY (name)
) ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4
  COLLATE /*M! utf8mb4_nopad_bin */ /*!80017 utf8mb4_0900_bin */;

INSERT IGNORE INTO callgate_revisions (name, value)
VALUES ('access', 1), ('catalog', 1), ('keys', 1), ('messages', 0), ('sessions', 0), ('tokens', 1);

-- TRUNCATE fires no triggers, so servers do not notice it.
DROP TRIGGER IF EXISTS callgate_sections_i;
CREATE TRIGGER callgate_sections_i AFTER INSERT ON sections FOR EACH ROW
    UPDATE callgate_revisions SET value = value + 1 WHERE name IN ('access', 'catalog');
DROP TRIGGER IF EXISTS callgate_sections_u;
CREATE TRIGGER callgate_sections_u AFTER UPDATE ON sections FOR EACH ROW
    UPDATE callgate_revisions SET value = value + 1 WHERE name IN ('access', 'catalog');
DROP TRIGGER IF EXISTS callgate_sections_d;
CREATE TRIGGER callgate_sections_d AFTER DELETE ON sections FOR EACH ROW
    UPDATE callgate_revisions SET value = value + 1 WHERE name IN ('access', 'catalog');
DROP TRIGGER IF EXISTS callgate_actions_i;
CREATE TRIGGER callgate_actions_i AFTER INSERT ON section_actions FOR EACH ROW
    UPDATE callgate_revisions SET value = value + 1 WHERE name IN ('catalog');
DROP TRIGGER IF EXISTS callgate_actions_u;
CREATE TRIGGER callgate_actions_u AFTER UPDATE ON section_actions FOR EACH ROW
    UPDATE callgate_revisions SET value = value + 1 WHERE name IN ('catalog');
DROP TRIGGER IF EXISTS callgate_actions_d;
CREATE TRIGGER callgate_actions_d AFTER DELETE ON section_actions FOR EACH ROW
    UPDATE callgate_revisions SET value = value + 1 WHERE name IN ('catalog');
DROP TRIGGER IF EXISTS callgate_user_grants_i;
CREATE TRIGGER callgate_user_grants_i AFTER INSERT ON sections_user_permission FOR EACH ROW
    UPDATE callgate_revisions SET value = value + 1 WHERE name IN ('access');
DROP TRIGGER IF EXISTS callgate_user_grants_u;
CREATE TRIGGER callgate_user_grants_u AFTER UPDATE ON sections_user_permission FOR EACH ROW
    UPDATE callgate_revisions SET value = value + 1 WHERE name IN ('access');
DROP TRIGGER IF EXISTS callgate_user_grants_d;
CREATE TRIGGER callgate_user_grants_d AFTER DELETE ON sections_user_permission FOR EACH ROW
    UPDATE callgate_revisions SET value = value + 1 WHERE name IN ('access');
DROP TRIGGER IF EXISTS callgate_role_grants_i;
CREATE TRIGGER callgate_role_grants_i AFTER INSERT ON sections_user_types_permission FOR EACH ROW
    UPDATE callgate_revisions SET value = value + 1 WHERE name IN ('access');
DROP TRIGGER IF EXISTS callgate_role_grants_u;
CREATE TRIGGER callgate_role_grants_u AFTER UPDATE ON sections_user_types_permission FOR EACH ROW
    UPDATE callgate_revisions SET value = value + 1 WHERE name IN ('access');
DROP TRIGGER IF EXISTS callgate_role_grants_d;
CREATE TRIGGER callgate_role_grants_d AFTER DELETE ON sections_user_types_permission FOR EACH ROW
    UPDATE callgate_revisions SET value = value + 1 WHERE name IN ('access');
DROP TRIGGER IF EXISTS callgate_settings_i;
CREATE TRIGGER callgate_settings_i AFTER INSERT ON settings FOR EACH ROW
    UPDATE callgate_revisions SET value = value + 1 WHERE name IN ('access', 'catalog');
DROP TRIGGER IF EXISTS callgate_settings_u;
CREATE TRIGGER callgate_settings_u AFTER UPDATE ON settings FOR EACH ROW
    UPDATE callgate_revisions SET value = value + 1 WHERE name IN ('access', 'catalog');
DROP TRIGGER IF EXISTS callgate_settings_d;
CREATE TRIGGER callgate_settings_d AFTER DELETE ON settings FOR EACH ROW
    UPDATE callgate_revisions SET value = value + 1 WHERE name IN ('access', 'catalog');
DROP TRIGGER IF EXISTS callgate_users_types_i;
CREATE TRIGGER callgate_users_types_i AFTER INSERT ON users_types FOR EACH ROW
    UPDATE callgate_revisions SET value = value + 1 WHERE name IN ('access');
DROP TRIGGER IF EXISTS callgate_users_types_u;
CREATE TRIGGER callgate_users_types_u AFTER UPDATE ON users_types FOR EACH ROW
    UPDATE callgate_revisions SET value = value + 1 WHERE name IN ('access');
DROP TRIGGER IF EXISTS callgate_users_types_d;
CREATE TRIGGER callgate_users_types_d AFTER DELETE ON users_types FOR EACH ROW
    UPDATE callgate_revisions SET value = value + 1 WHERE name IN ('access');
DROP TRIGGER IF EXISTS callgate_users_i;
CREATE TRIGGER callgate_users_i AFTER INSERT ON users FOR EACH ROW
    UPDATE callgate_revisions SET value = value + 1 WHERE name IN ('access');
DROP TRIGGER IF EXISTS callgate_users_u;
CREATE TRIGGER callgate_users_u AFTER UPDATE ON users FOR EACH ROW
    UPDATE callgate_revisions SET value = value + 1 WHERE name IN ('access')
    AND NOT (NEW.id <=> OLD.id AND NEW.login <=> OLD.login AND NEW.id_type <=> OLD.id_type);
DROP TRIGGER IF EXISTS callgate_users_d;
CREATE TRIGGER callgate_users_d AFTER DELETE ON users FOR EACH ROW
    UPDATE callgate_revisions SET value = value + 1 WHERE name IN ('access');
DROP TRIGGER IF EXISTS callgate_rpc_methods_i;
CREATE TRIGGER callgate_rpc_methods_i AFTER INSERT ON rpc_methods FOR EACH ROW
    UPDATE callgate_revisions SET value = value + 1 WHERE name IN ('catalog');
DROP TRIGGER IF EXISTS callgate_rpc_methods_u;
CREATE TRIGGER callgate_rpc_methods_u AFTER UPDATE ON rpc_methods FOR EACH ROW
    UPDATE callgate_revisions SET value = value + 1 WHERE name IN ('catalog');
DROP TRIGGER IF EXISTS callgate_rpc_methods_d;
CREATE TRIGGER callgate_rpc_methods_d AFTER DELETE ON rpc_methods FOR EACH ROW
    UPDATE callgate_revisions SET value = value + 1 WHERE name IN ('catalog');
DROP TRIGGER IF EXISTS callgate_types_i;
CREATE TRIGGER callgate_types_i AFTER INSERT ON callgate_types FOR EACH ROW
    UPDATE callgate_revisions SET value = value + 1 WHERE name IN ('catalog');
DROP TRIGGER IF EXISTS callgate_types_u;
CREATE TRIGGER callgate_types_u AFTER UPDATE ON callgate_types FOR EACH ROW
    UPDATE callgate_revisions SET value = value + 1 WHERE name IN ('catalog');
DROP TRIGGER IF EXISTS callgate_types_d;
CREATE TRIGGER callgate_types_d AFTER DELETE ON callgate_types FOR EACH ROW
    UPDATE callgate_revisions SET value = value + 1 WHERE name IN ('catalog');
DROP TRIGGER IF EXISTS callgate_upstreams_i;
CREATE TRIGGER callgate_upstreams_i AFTER INSERT ON callgate_upstreams FOR EACH ROW
    UPDATE callgate_revisions SET value = value + 1 WHERE name IN ('catalog');
DROP TRIGGER IF EXISTS callgate_upstreams_u;
CREATE TRIGGER callgate_upstreams_u AFTER UPDATE ON callgate_upstreams FOR EACH ROW
    UPDATE callgate_revisions SET value = value + 1 WHERE name IN ('catalog');
DROP TRIGGER IF EXISTS callgate_upstreams_d;
CREATE TRIGGER callgate_upstreams_d AFTER DELETE ON callgate_upstreams FOR EACH ROW
    UPDATE callgate_revisions SET value = value + 1 WHERE name IN ('catalog');
DROP TRIGGER IF EXISTS callgate_credentials_i;
CREATE TRIGGER callgate_credentials_i AFTER INSERT ON callgate_credentials FOR EACH ROW
    UPDATE callgate_revisions SET value = value + 1 WHERE name IN ('access');
DROP TRIGGER IF EXISTS callgate_credentials_u;
CREATE TRIGGER callgate_credentials_u AFTER UPDATE ON callgate_credentials FOR EACH ROW
    UPDATE callgate_revisions SET value = value + 1 WHERE name IN ('access');
DROP TRIGGER IF EXISTS callgate_credentials_d;
CREATE TRIGGER callgate_credentials_d AFTER DELETE ON callgate_credentials FOR EACH ROW
    UPDATE callgate_revisions SET value = value + 1 WHERE name IN ('access');
DROP TRIGGER IF EXISTS callgate_tokens_i;
CREATE TRIGGER callgate_tokens_i AFTER INSERT ON callgate_tokens FOR EACH ROW
    UPDATE callgate_revisions SET value = value + 1 WHERE name IN ('tokens');
DROP TRIGGER IF EXISTS callgate_tokens_u;
CREATE TRIGGER callgate_tokens_u AFTER UPDATE ON callgate_tokens FOR EACH ROW
    UPDATE callgate_revisions SET value = value + 1 WHERE name IN ('tokens')
    AND NOT (NEW.id <=> OLD.id AND NEW.id_user <=> OLD.id_user AND NEW.digest <=> OLD.digest AND NEW.expires_at <=> OLD.expires_at);
DROP TRIGGER IF EXISTS callgate_tokens_d;
CREATE TRIGGER callgate_tokens_d AFTER DELETE ON callgate_tokens FOR EACH ROW
    UPDATE callgate_revisions SET value = value + 1 WHERE name IN ('tokens');
DROP TRIGGER IF EXISTS callgate_keys_i;
CREATE TRIGGER callgate_keys_i AFTER INSERT ON callgate_keys FOR EACH ROW
    UPDATE callgate_revisions SET value = value + 1 WHERE name IN ('keys');
DROP TRIGGER IF EXISTS callgate_keys_u;
CREATE TRIGGER callgate_keys_u AFTER UPDATE ON callgate_keys FOR EACH ROW
    UPDATE callgate_revisions SET value = value + 1 WHERE name IN ('keys');
DROP TRIGGER IF EXISTS callgate_keys_d;
CREATE TRIGGER callgate_keys_d AFTER DELETE ON callgate_keys FOR EACH ROW
    UPDATE callgate_revisions SET value = value + 1 WHERE name IN ('keys');
DELETE FROM callgate_meta WHERE name = 'tables';
INSERT INTO callgate_meta (name, value) VALUES ('tables', '{"prefix":"","rpc_methods":"rpc_methods","users":"users","users_types":"users_types"}');
INSERT INTO callgate_migrations (version, name, applied_at) VALUES (1, 'tables', UTC_TIMESTAMP());
