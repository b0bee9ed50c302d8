//! Fuzz targets for untrusted documents, and the invariants that they check.
//!
//! `fuzz/` contains the binaries. The tests run the same targets over the corpora and over variants of them.

use callgate::internal::invisible_characters;
use callgate_registry::CatalogRows;

use crate::limits::{MAX_METHOD_BYTES, MAX_SOURCE_BYTES, method_bytes, type_bytes};
use crate::openrpc::ReadOptions;
use crate::plan::{Detail, Report};
use crate::source::{ImportOptions, Source};
use crate::{Line, Plan, manifest, openrpc};

/// Imports an OpenRPC document.
pub fn openrpc(text: &str) {
    let options = ReadOptions { upstream: "a", external: &[], name: None };
    openrpc::read(text, options).into_iter().for_each(check_source);
}

/// Imports a manifest, and uses it as an overlay.
pub fn manifest(text: &str) {
    manifest::read(text, None, None).into_iter().for_each(check_source);
    let _ = manifest::overlay(text);
}

/// Checks that a source is within the limits, and that its report contains no invisible characters.
fn check_source(mut source: Source) {
    let options = ImportOptions::default();
    source.apply_options(&options);
    let sizes = source.methods.iter().map(|method| method_bytes(&method.row));
    assert!(sizes.clone().all(|size| size <= MAX_METHOD_BYTES));
    let bytes = sizes.chain(source.types.iter().map(type_bytes)).sum::<usize>();
    assert!(bytes <= MAX_SOURCE_BYTES);
    let plan = Plan::new(&source, &CatalogRows::default(), &[], &options);
    for detail in [Detail::Brief, Detail::Full] {
        for line in Report::of_preview(&source, &plan, detail).lines {
            let (Line::Data(line) | Line::Note(line)) = line;
            assert!(
                !line.contains('\n') && invisible_characters(&line).next().is_none(),
                "{line:?}"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use proptest::prelude::*;

    use super::*;

    fn corpus(name: &str) -> Vec<String> {
        let corpora = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
        let entries = std::fs::read_dir(corpora.join(name)).unwrap();
        let mut inputs: Vec<String> =
            entries.map(|entry| std::fs::read_to_string(entry.unwrap().path()).unwrap()).collect();
        inputs.sort();
        inputs
    }

    /// A position, the number of characters to replace there, and the part of the document that replaces them.
    fn edit() -> impl Strategy<Value = (prop::sample::Index, usize, (prop::sample::Index, usize))> {
        let index = any::<prop::sample::Index>;
        (index(), 0..30_usize, (index(), 0..60_usize))
    }

    fn edited(
        text: &str,
        edits: Vec<(prop::sample::Index, usize, (prop::sample::Index, usize))>,
    ) -> String {
        let original: Vec<char> =
            text.chars().chain("\u{202e}\u{e0041}\"{}[]:,0$ref#/".chars()).collect();
        let mut text: Vec<char> = text.chars().collect();
        for (position, removed, (from, length)) in edits {
            let (position, from) = (position.index(text.len() + 1), from.index(original.len()));
            let new = original[from..(from + length).min(original.len())].to_vec();
            text.splice(position..(position + removed).min(text.len()), new);
        }
        text.into_iter().collect()
    }

    proptest! {
        #[test]
        fn edited_inputs_of_the_corpora_pass_the_checks(
            is_manifest: bool,
            input_index: prop::sample::Index,
            edits in prop::collection::vec(edit(), 0..6),
        ) {
            let (name, target): (_, fn(&str)) =
                if is_manifest { ("manifest", manifest) } else { ("openrpc", openrpc) };
            let inputs = corpus(name);
            let input: &String = input_index.get(&inputs);
            target(input);
            target(&edited(input, edits));
        }
    }
}
