CREATE TABLE users_types (id INTEGER PRIMARY KEY, caption TEXT NOT NULL);
CREATE TABLE users (
    id INTEGER PRIMARY KEY, id_type INTEGER NOT NULL, login TEXT NOT NULL,
    password TEXT NOT NULL, access_token TEXT
);
CREATE TABLE festi_sections (
    id INTEGER PRIMARY KEY, caption TEXT NOT NULL, ident TEXT NOT NULL,
    mask TEXT NOT NULL DEFAULT '2' CHECK (mask IN ('2', '4', '6'))
);
CREATE TABLE festi_section_actions (
    id INTEGER PRIMARY KEY, id_section INTEGER NOT NULL, plugin TEXT NOT NULL, method TEXT NOT NULL,
    mask TEXT NOT NULL DEFAULT '2' CHECK (mask IN ('2', '4', '6')), comment TEXT NOT NULL,
    UNIQUE (plugin, method, id_section)
);
CREATE TABLE festi_sections_user_permission (
    id INTEGER PRIMARY KEY, id_section INTEGER NOT NULL, id_user INTEGER NOT NULL, value INTEGER NOT NULL,
    UNIQUE (id_section, id_user)
);
CREATE TABLE festi_sections_user_types_permission (
    id INTEGER PRIMARY KEY, id_section INTEGER NOT NULL, id_user_type INTEGER NOT NULL,
    value INTEGER NOT NULL DEFAULT 2
);
CREATE TABLE festi_settings (
    id INTEGER PRIMARY KEY, caption TEXT NOT NULL, name TEXT NOT NULL UNIQUE, value TEXT
);
CREATE TABLE rpc_methods (
    id INTEGER PRIMARY KEY, plugin TEXT NOT NULL, method TEXT NOT NULL, rpc_method TEXT NOT NULL,
    params TEXT, description TEXT, sections TEXT, return_type TEXT, params_types TEXT
);
