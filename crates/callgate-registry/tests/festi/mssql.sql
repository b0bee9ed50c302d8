CREATE TABLE user_types (
    id INT IDENTITY(1, 1) NOT NULL PRIMARY KEY,
    caption NVARCHAR(64) NOT NULL
);
CREATE TABLE users (
    id INT IDENTITY(1, 1) NOT NULL PRIMARY KEY,
    id_type INT NOT NULL,
    login NVARCHAR(64) NOT NULL,
    password NVARCHAR(64) NOT NULL,
    access_token NVARCHAR(64) NULL
);
CREATE TABLE festi_sections (
    id INT IDENTITY(1, 1) NOT NULL PRIMARY KEY,
    caption NVARCHAR(128) NOT NULL,
    ident NVARCHAR(64) NOT NULL,
    mask INT NOT NULL DEFAULT 2
);
CREATE TABLE festi_section_actions (
    id INT IDENTITY(1, 1) NOT NULL PRIMARY KEY,
    id_section INT NOT NULL,
    plugin NVARCHAR(64) NOT NULL,
    method NVARCHAR(64) NOT NULL,
    mask INT NOT NULL DEFAULT 2,
    comment NVARCHAR(255) NOT NULL
);
CREATE TABLE festi_sections_user_permission (
    id INT IDENTITY(1, 1) NOT NULL PRIMARY KEY,
    id_section INT NOT NULL,
    id_user INT NOT NULL,
    value INT NOT NULL
);
CREATE TABLE festi_sections_user_types_permission (
    id INT IDENTITY(1, 1) NOT NULL PRIMARY KEY,
    id_section INT NOT NULL,
    id_user_type INT NOT NULL,
    value INT NOT NULL
);
CREATE TABLE festi_settings (
    id INT IDENTITY(1, 1) NOT NULL PRIMARY KEY,
    caption NVARCHAR(128) NOT NULL,
    name NVARCHAR(64) NOT NULL,
    value NVARCHAR(MAX) NULL
);
CREATE TABLE rpc_methods (
    id INT IDENTITY(1, 1) NOT NULL PRIMARY KEY,
    plugin NVARCHAR(64) NOT NULL,
    method NVARCHAR(64) NOT NULL,
    rpc_method NVARCHAR(128) NOT NULL,
    params NVARCHAR(MAX) NULL,
    description NVARCHAR(MAX) NULL,
    sections NVARCHAR(MAX) NULL,
    return_type NVARCHAR(128) NULL,
    params_types NVARCHAR(MAX) NULL
);
