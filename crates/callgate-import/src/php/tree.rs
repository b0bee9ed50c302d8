//! The classes of all files, found by name.

use std::collections::HashMap;
use std::sync::Arc;

use super::evaluate::Context;
use super::expression::Expression;
use super::model::{Class, Scope, short};

/// All that was declared.
#[derive(Debug, Default)]
pub(super) struct Tree {
    pub(super) classes: Vec<Class>,
    /// Constants outside of classes, by whole name.
    pub(super) constants: HashMap<String, (Arc<Scope>, Expression)>,
    /// By whole name in lower case, since PHP's names of classes ignore case.
    by_name: HashMap<String, usize>,
    /// By the name without its namespace: those that have it.
    by_short: HashMap<String, Vec<usize>>,
}

impl Tree {
    pub(super) fn add_class(&mut self, class: Class) {
        let number = self.classes.len();
        self.by_name.entry(class.name.to_ascii_lowercase()).or_insert(number);
        self.by_short.entry(short(&class.name).to_ascii_lowercase()).or_default().push(number);
        self.classes.push(class);
    }

    pub(super) fn class(&self, name: &str) -> Option<&Class> {
        self.classes.get(*self.by_name.get(&name.to_ascii_lowercase())?)
    }

    /// The class that a class extends, where it is here.
    pub(super) fn parent(&self, class: &Class) -> Option<&Class> {
        let parent = class.parent.as_deref()?;
        self.class(&self.resolve(Context::of(class), parent))
    }

    /// The traits that a class uses, as far as they are here.
    pub(super) fn traits<'t>(&'t self, class: &'t Class) -> impl Iterator<Item = &'t Class> {
        let find = |name: &String| self.class(&self.resolve(Context::of(class), name));
        class.traits.iter().filter_map(find)
    }

    /// The whole name of what is written, without a backslash before it.
    ///
    /// Doc comments often leave an import out. So what is not where its short name says is the one
    /// class with that name, if there is only one.
    pub(super) fn resolve(&self, at: Context<'_>, written: &str) -> String {
        let name = whole(at, written);
        if let Some(class) = self.class(&name) {
            return class.name.clone();
        }
        let is_assumed =
            !written.contains('\\') && !at.scope.uses.contains_key(&written.to_ascii_lowercase());
        let named = self.by_short.get(&written.to_ascii_lowercase()).filter(|_| is_assumed);
        match named.map(Vec::as_slice) {
            Some([only]) => self.classes.get(*only).map_or(name, |class| class.name.clone()),
            _ => name,
        }
    }

    /// A constant outside of classes: of its namespace, else of none.
    pub(super) fn constant(&self, at: Context<'_>, written: &str) -> Option<(&Scope, &Expression)> {
        let found = self.constants.get(&whole(at, written));
        let (scope, expression) = found.or_else(|| self.constants.get(written))?;
        Some((scope.as_ref(), expression))
    }
}

/// What a name stands for at a place.
fn whole(at: Context<'_>, written: &str) -> String {
    if let Some(name) = written.strip_prefix('\\') {
        return name.to_owned();
    }
    match (written.to_ascii_lowercase().as_str(), at.class) {
        ("self" | "static" | "$this", Some(class)) => return class.name.clone(),
        ("parent", Some(Class { parent: Some(parent), .. }))
            if !parent.eq_ignore_ascii_case("parent") =>
        {
            return whole(at, parent);
        }
        ("self" | "static" | "$this" | "parent", _) => return written.to_owned(),
        _ => {}
    }
    let (first, rest) = written.split_once('\\').map_or((written, None), |(a, b)| (a, Some(b)));
    if first.eq_ignore_ascii_case("namespace") {
        return joined(&at.scope.namespace, rest.unwrap_or_default());
    }
    match (at.scope.uses.get(&first.to_ascii_lowercase()), rest) {
        (Some(imported), None) => imported.clone(),
        (Some(imported), Some(rest)) => format!("{imported}\\{rest}"),
        (None, _) => joined(&at.scope.namespace, written),
    }
}

pub(super) fn joined(namespace: &str, name: &str) -> String {
    if namespace.is_empty() { name.to_owned() } else { format!("{namespace}\\{name}") }
}
