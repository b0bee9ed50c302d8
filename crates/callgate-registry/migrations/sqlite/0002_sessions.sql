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
