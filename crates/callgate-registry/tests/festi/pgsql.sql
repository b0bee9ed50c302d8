CREATE TABLE users_types (
    id SERIAL PRIMARY KEY,
    caption VARCHAR(128) NOT NULL
);
CREATE TABLE users (
    id SERIAL PRIMARY KEY,
    id_type INTEGER NOT NULL,
    login VARCHAR(128) NOT NULL,
    password VARCHAR(128) NOT NULL,
    access_token VARCHAR(128) NULL
);
CREATE TABLE festi_sections (
    id SERIAL PRIMARY KEY,
    caption VARCHAR(256) NOT NULL,
    ident VARCHAR(128) NOT NULL,
    mask VARCHAR(2) NOT NULL DEFAULT '2' CHECK (mask IN ('2', '4', '6'))
);
CREATE TABLE festi_section_actions (
    id SERIAL PRIMARY KEY,
    id_section INTEGER NOT NULL,
    plugin VARCHAR(128) NOT NULL,
    method VARCHAR(128) NOT NULL,
    mask VARCHAR(2) NOT NULL DEFAULT '2' CHECK (mask IN ('2', '4', '6')),
    comment VARCHAR(510) NULL,
    UNIQUE (plugin, method, id_section)
);
CREATE TABLE festi_sections_user_permission (
    id SERIAL PRIMARY KEY,
    id_section INTEGER NOT NULL,
    id_user INTEGER NOT NULL,
    value INTEGER NOT NULL,
    UNIQUE (id_section, id_user)
);
CREATE TABLE festi_sections_user_types_permission (
    id SERIAL PRIMARY KEY,
    id_section INTEGER NOT NULL,
    id_user_type INTEGER NOT NULL,
    value INTEGER NOT NULL DEFAULT 2
);
CREATE TABLE festi_settings (
    id SERIAL PRIMARY KEY,
    caption VARCHAR(256) NOT NULL,
    name VARCHAR(128) NOT NULL UNIQUE,
    value TEXT NULL
);
CREATE TABLE rpc_methods (
    id SERIAL PRIMARY KEY,
    plugin VARCHAR(128) NOT NULL,
    method VARCHAR(128) NOT NULL,
    rpc_method VARCHAR(256) NOT NULL,
    params TEXT NULL,
    description TEXT NULL,
    sections TEXT NULL,
    return_type VARCHAR(256) NULL,
    params_types TEXT NULL
);
