CREATE TABLE users_types (
    id INT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
    caption VARCHAR(64) NOT NULL
) ENGINE = InnoDB;
CREATE TABLE users (
    id INT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
    id_type INT UNSIGNED NOT NULL,
    login VARCHAR(64) NOT NULL,
    password VARCHAR(64) NOT NULL,
    access_token VARCHAR(64) NULL
) ENGINE = InnoDB;
CREATE TABLE festi_sections (
    id INT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
    caption VARCHAR(128) NOT NULL,
    ident VARCHAR(64) NOT NULL,
    mask ENUM('2', '4', '6') NOT NULL DEFAULT '2'
) ENGINE = InnoDB;
CREATE TABLE festi_section_actions (
    id INT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
    id_section INT UNSIGNED NOT NULL,
    plugin VARCHAR(64) NOT NULL,
    method VARCHAR(64) NOT NULL,
    mask ENUM('2', '4', '6') NOT NULL DEFAULT '2',
    comment VARCHAR(255) NOT NULL,
    UNIQUE KEY plugin_method_section (plugin, method, id_section)
) ENGINE = InnoDB;
CREATE TABLE festi_sections_user_permission (
    id INT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
    id_section INT UNSIGNED NOT NULL,
    id_user INT UNSIGNED NOT NULL,
    value INT NOT NULL,
    UNIQUE KEY section_user (id_section, id_user)
) ENGINE = InnoDB;
CREATE TABLE festi_sections_user_types_permission (
    id INT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
    id_section INT UNSIGNED NOT NULL,
    id_user_type INT UNSIGNED NOT NULL,
    value INT NOT NULL DEFAULT 2
) ENGINE = InnoDB;
CREATE TABLE festi_settings (
    id INT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
    caption VARCHAR(128) NOT NULL,
    name VARCHAR(64) NOT NULL UNIQUE,
    value TEXT NULL
) ENGINE = InnoDB;
CREATE TABLE rpc_methods (
    id INT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
    plugin VARCHAR(64) NOT NULL,
    method VARCHAR(64) NOT NULL,
    rpc_method VARCHAR(128) NOT NULL,
    params TEXT NULL,
    description TEXT NULL,
    sections TEXT NULL,
    return_type VARCHAR(128) NULL,
    params_types TEXT NULL
) ENGINE = InnoDB;
