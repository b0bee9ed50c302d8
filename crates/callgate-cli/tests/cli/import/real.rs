//! Real documents. One document is an npm package. The other documents are not a part of the
//! project. They are tested if they are in a directory beside the repository, or in the directory
//! that `CALLGATE_OPENRPC_DOCUMENTS` names.

use std::path::PathBuf;

use serde_json::Value;

use crate::real::servers::ethereum_document;
use crate::support::TestDirectory;

/// File, number of methods, and number of methods refused for external references.
const DOCUMENTS: [(&str, usize, usize); 5] = [
    ("ethereum-execution-apis.json", 86, 0),
    ("filecoin-lotus-gateway.json", 109, 0),
    ("starknet-api.json", 25, 0),
    ("starknet-wallet.json", 16, 8),
    ("starknet-ws.json", 12, 11),
];

/// Returns the directory of the documents, if it exists.
#[expect(clippy::print_stdout, reason = "a test that checks less says so")]
fn directory() -> Option<PathBuf> {
    let default_path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/openrpc");
    let configured = std::env::var_os("CALLGATE_OPENRPC_DOCUMENTS").map(PathBuf::from);
    let directory = configured.unwrap_or_else(|| PathBuf::from(default_path));
    if !directory.is_dir() {
        println!("no OpenRPC documents at {}: only those of npm are checked", directory.display());
        return None;
    }
    Some(directory)
}

fn documents() -> Vec<(PathBuf, usize, usize)> {
    let (file, methods) = ethereum_document();
    let local_documents = directory().into_iter().flat_map(|directory| {
        DOCUMENTS.map(|(file, methods, refused)| (directory.join(file), methods, refused))
    });
    [(file, methods, 0)].into_iter().chain(local_documents).collect()
}

fn references(schema: &Value, found: &mut Vec<String>) {
    match schema {
        Value::Object(members) => {
            found.extend(members.get("$ref").and_then(Value::as_str).map(ToOwned::to_owned));
            members.values().for_each(|member| references(member, found));
        }
        Value::Array(items) => items.iter().for_each(|item| references(item, found)),
        _ => {}
    }
}

#[test]
fn every_valid_method_of_real_documents_survives_a_round_trip() {
    for (file, methods, refused) in documents() {
        let dir = TestDirectory::migrated();
        let file = file.display().to_string();
        let stdout = dir.ok(&["import", "openrpc", &file]);
        let counts = format!(
            "{} added, 0 changed, 0 removed, 0 hidden, 0 kept, {refused} refused",
            methods - refused
        );
        assert!(stdout.contains(&counts), "{file}: {stdout}");
        assert_eq!(stdout.matches("outside of the document").count(), refused, "{file}");
        assert!(dir.ok(&["import", "openrpc", &file]).contains("nothing changed"), "{file}");
        let imported = dir.exported();
        assert_eq!(imported.len(), methods - refused);
        for (id, method) in &imported {
            let schema = &method["input_schema"];
            assert!(jsonschema::draft202012::new(schema).is_ok(), "{id}");
            let mut found = Vec::new();
            references(schema, &mut found);
            let resolves = |it: &String| schema.pointer(it.trim_start_matches('#')).is_some();
            assert!(found.iter().all(resolves), "{id}: {found:?}");
        }
        let listed = dir.ok(&["method", "list"]);
        assert!(!listed.contains("quarantined"), "{file}");
        let without_schemas = dir.ok(&["import", "openrpc", &file, "--no-output-schemas"]);
        assert!(without_schemas.contains("0 refused") || refused > 0, "{file}: {without_schemas}");
        dir.ok(&["import", "openrpc", &file]);
        // The document may cause warnings, but no errors.
        let lint = dir.run(&["lint", "--json"]);
        assert!(lint.0.status.success(), "{file}: {}{}", lint.stderr(), lint.stdout());
        // Exports in both formats can be imported into the same registry and into an empty
        // registry.
        let document = dir.ok(&["export", "--format", "openrpc"]);
        assert!(dir.import(&document, &[]).contains("nothing changed"), "{file}");
        let other_dir = TestDirectory::migrated();
        other_dir.import(&document, &[]);
        assert_eq!(other_dir.exported(), imported, "{file}");
        let manifest = dir.ok(&["export"]);
        let other_dir = TestDirectory::migrated();
        other_dir.write("manifest", &manifest);
        other_dir.ok(&["import", "manifest", "manifest"]);
        assert_eq!(other_dir.exported(), imported, "{file}");
    }
}

#[test]
fn every_method_is_imported_if_the_external_file_is_given() {
    let Some(directory) = directory() else { return };
    let file = |name: &str| directory.join(name).display().to_string();
    let reference = format!("./api/starknet_api_openrpc.json={}", file("starknet-api.json"));
    for (name, methods) in [("starknet-wallet.json", 16), ("starknet-ws.json", 12)] {
        let dir = TestDirectory::migrated();
        let stdout = dir.ok(&["import", "openrpc", &file(name), "--reference", &reference]);
        assert!(
            stdout.contains(&format!("{methods} added")) && stdout.contains("0 refused"),
            "{stdout}"
        );
        for (id, method) in &dir.exported() {
            let schema = &method["input_schema"];
            assert!(jsonschema::draft202012::new(schema).is_ok(), "{id}");
            assert!(!schema.to_string().contains("x-callgate"), "{id}: {schema}");
        }
    }
}
