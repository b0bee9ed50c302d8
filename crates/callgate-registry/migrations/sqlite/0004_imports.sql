-- How a method takes its parameters, `name` or `position`; null is as its upstream does.
ALTER TABLE {rpc_methods} ADD COLUMN params_by TEXT;

-- What an import wrote last, as JSON: what differs from it was changed by hand since, and is kept.
CREATE TABLE callgate_imports (
    upstream   TEXT NOT NULL,
    rpc_method TEXT NOT NULL,
    source     TEXT NOT NULL,
    written    TEXT NOT NULL,
    PRIMARY KEY (upstream, rpc_method)
);
