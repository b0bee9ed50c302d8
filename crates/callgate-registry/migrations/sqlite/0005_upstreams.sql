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
