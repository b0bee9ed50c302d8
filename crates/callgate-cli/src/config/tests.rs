//! The reference pages are generated from the code, and compared with the committed pages.

use std::fmt::Write as _;

use super::known_keys::{IMPORT_KEYS, KEYS, Key, Keys, UPSTREAM_KEYS};
use super::sources::{Values, variable_name};
use super::{Config, Imports, Upstreams};

/// Compares a page with the committed one. If snapshots are being updated, writes the page instead.
pub(crate) fn check_reference(name: &str, text: &str) {
    let path =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference").join(name);
    if std::env::var_os("INSTA_UPDATE").is_some_and(|update| update == "always") {
        std::fs::write(&path, text).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == text,
        "docs/reference/{name} is old; run the test with INSTA_UPDATE=always"
    );
}

#[test]
fn the_reference_of_the_configuration_is_up_to_date() {
    let mut text = String::from(
        "# Configuration\n\nGenerated from the program; do not edit. Each key of the first table can be set in the environment \
         variable that the table names, or in the file. The file is `callgate.toml` in the working directory, or the file that \
         `--config` or `CALLGATE_CONFIG` names. Some keys can also be set with an option of a command, such as `--listen` for \
         `listen`; [command-line.md](command-line.md) lists the options. If a key is set several times, the option takes \
         precedence over the variable, and the variable over the file. For `open_methods` and `limits.*`, a \
         [setting](mcp.md#settings) of the registry takes precedence over all of these. An unknown key is an error.\n\n\
         | key | variable | default | meaning |\n| --- | --- | --- | --- |\n",
    );
    for Key { name, default, meaning } in KEYS.iter() {
        let (variable, default) = (variable_name(name), code(default));
        writeln!(text, "| `{name}` | `{variable}` | {default} | {meaning} |").unwrap();
    }
    text.push_str(
        "\n## `[upstreams.NAME]`\n\nA table of this form in the file, or a row of the registry with the same keys, defines a \
         service that runs methods ([upstreams.md](../guide/upstreams.md)). These keys have no variables. But a value can be \
         read from an environment variable or from a file: `{ env = \"NAME\" }` or `{ file = \"PATH\" }`. If \
         `prefix = \"…\"` is added, its text is put before the value. These forms are intended for secrets, and are accepted for:\n\n\
         - `url`, `basic_user` and `basic_password`;\n\
         - the values of `headers`, `members`, `first_params` and `login.params`;\n\
         - `token_url`, `client_id`, `client_secret` and `refresh_token` of `oauth`.\n\n\
         | key | default | meaning |\n| --- | --- | --- |\n",
    );
    describe(&UPSTREAM_KEYS, &mut text);
    text.push_str(
        "\n## `[imports.NAME]`\n\nA table of this form defines an import that `callgate serve` repeats. These keys can be set \
         only in the file. See [import.md](../guide/import.md#sources-that-change).\n\n\
         | key | default | meaning |\n| --- | --- | --- |\n",
    );
    describe(&IMPORT_KEYS, &mut text);
    check_reference("configuration.md", &text);
}

fn describe(keys: &Keys, text: &mut String) {
    for Key { name, default, meaning } in keys.iter() {
        writeln!(text, "| `{name}` | {} | {meaning} |", code(default)).unwrap();
    }
}

fn code(default: &str) -> String {
    if default.is_empty() { String::new() } else { format!("`{default}`") }
}

/// Keys whose values are not parsed.
const UNPARSED_KEYS: [&str; 7] = [
    "database.password_file",
    "allowed_hosts",
    "allowed_origins",
    "registry_upstreams.directory",
    "attach.password_file",
    "attach.overlay",
    "attach.upstream",
];

#[test]
fn errors_about_invalid_values_name_the_key_and_its_source() {
    for Key { name, .. } in KEYS.iter().filter(|key| !UNPARSED_KEYS.contains(&key.name)) {
        let mut values = Values::default();
        if name.starts_with("attach.") {
            values.set("preset", "festi");
            values.set("attach.database", "sqlite:site.db");
        }
        values.set(name, "wrong, ?");
        let error = Config::resolve(values, false).err().unwrap_or_else(|| panic!("`{name}`"));
        let place = format!("`{name}` in {}", variable_name(name));
        assert!(format!("{error:#}").starts_with(&place), "{name}: {error:#}");
    }
}

#[test]
fn errors_about_invalid_values_in_tables_name_the_key() {
    let read = |table: &str, keys: &Keys, read: fn(&toml::Value) -> anyhow::Result<()>| {
        for Key { name, .. } in keys.iter() {
            let mut keys_of_table = toml::Table::new();
            if table == "upstreams" {
                keys_of_table.insert("url".to_owned(), "http://localhost/".into());
            }
            let invalid =
                if name == "first_params" { 1.into() } else { vec![vec![vec![1]]].into() };
            keys_of_table.insert(name.to_owned(), invalid);
            let tables =
                toml::Table::from_iter([("x".to_owned(), toml::Value::Table(keys_of_table))]);
            let error = format!("{:#}", read(&tables.into()).unwrap_err());
            assert!(error.starts_with(&format!("`{table}.x` in file: `{name}`: ")), "{error}");
        }
    };
    read("upstreams", &UPSTREAM_KEYS, |value| Upstreams::read(value, "file").map(drop));
    read("imports", &IMPORT_KEYS, |value| Imports::read(value, "file").map(drop));
}
