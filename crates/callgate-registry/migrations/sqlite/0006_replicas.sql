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
CREATE TRIGGER callgate_sections_i AFTER INSERT ON {sections} BEGIN UPDATE callgate_revisions SET value = value + 1 WHERE name IN ('catalog', 'access'); END;
CREATE TRIGGER callgate_sections_u AFTER UPDATE ON {sections} BEGIN UPDATE callgate_revisions SET value = value + 1 WHERE name IN ('catalog', 'access'); END;
CREATE TRIGGER callgate_sections_d AFTER DELETE ON {sections} BEGIN UPDATE callgate_revisions SET value = value + 1 WHERE name IN ('catalog', 'access'); END;
CREATE TRIGGER callgate_settings_i AFTER INSERT ON {settings} BEGIN UPDATE callgate_revisions SET value = value + 1 WHERE name IN ('catalog', 'access'); END;
CREATE TRIGGER callgate_settings_u AFTER UPDATE ON {settings} BEGIN UPDATE callgate_revisions SET value = value + 1 WHERE name IN ('catalog', 'access'); END;
CREATE TRIGGER callgate_settings_d AFTER DELETE ON {settings} BEGIN UPDATE callgate_revisions SET value = value + 1 WHERE name IN ('catalog', 'access'); END;

-- What rows are looked up by.
CREATE INDEX callgate_tokens_name ON callgate_tokens (name);
CREATE INDEX callgate_keys_purpose ON callgate_keys (purpose, id);
CREATE INDEX callgate_credentials_upstream ON callgate_credentials (upstream);
CREATE INDEX callgate_imports_method ON callgate_imports (rpc_method);
CREATE INDEX callgate_role_grants ON {sections_user_types_permission} (id_section, id_user_type);
-- An action belongs to its method in whatever case it is written.
CREATE INDEX callgate_actions_key ON {section_actions} (lower(plugin), lower(method));
