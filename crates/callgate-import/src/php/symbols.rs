//! The declarations of all files, by name.

use std::collections::HashMap;
use std::sync::Arc;

use super::syntax::{Class, Expression, File, Scope, joined, short};

#[derive(Debug, Default)]
pub(super) struct Symbols {
    pub(super) classes: Vec<Class>,
    /// Constants outside of classes, by full name.
    constants: HashMap<String, (Arc<Scope>, Expression)>,
    /// Indexes of classes by full name in lower case, because PHP ignores the case of class names.
    by_name: HashMap<String, usize>,
    /// Indexes of classes by name without namespace.
    by_short_name: HashMap<String, Vec<usize>>,
}

/// Place at which a name is written. The place determines how the name is resolved.
#[derive(Debug, Clone, Copy)]
pub(super) struct Context<'t> {
    pub(super) symbols: &'t Symbols,
    pub(super) scope: &'t Scope,
    pub(super) class: Option<&'t Class>,
}

impl Symbols {
    pub(super) fn add(&mut self, file: File) {
        self.constants.extend(file.constants);
        for class in file.classes {
            let index = self.classes.len();
            self.by_name.entry(class.name.to_ascii_lowercase()).or_insert(index);
            let short_name = short(&class.name).to_ascii_lowercase();
            self.by_short_name.entry(short_name).or_default().push(index);
            self.classes.push(class);
        }
    }

    pub(super) fn class(&self, name: &str) -> Option<&Class> {
        self.classes.get(*self.by_name.get(&name.to_ascii_lowercase())?)
    }

    /// Returns the context of names that are written in a class.
    pub(super) fn context_of<'t>(&'t self, class: &'t Class) -> Context<'t> {
        Context { symbols: self, scope: &class.scope, class: Some(class) }
    }

    pub(super) fn parent(&self, class: &Class) -> Option<&Class> {
        let parent = class.parent.as_deref()?;
        self.class(&self.context_of(class).resolve(parent))
    }

    pub(super) fn traits<'t>(&'t self, class: &'t Class) -> impl Iterator<Item = &'t Class> {
        let find = |name: &String| self.class(&self.context_of(class).resolve(name));
        class.traits.iter().filter_map(find)
    }
}

impl<'t> Context<'t> {
    /// Returns the full name of a class, without a leading backslash.
    ///
    /// Doc comments often omit the import. If a short name resolves to no class, and exactly one class has this short
    /// name, the name refers to that class.
    pub(super) fn resolve(self, written_name: &str) -> String {
        let Self { symbols, scope, .. } = self;
        let name = full_name(self, written_name);
        if let Some(class) = symbols.class(&name) {
            return class.name.clone();
        }
        let lower = written_name.to_ascii_lowercase();
        let is_short = !written_name.contains('\\') && !scope.uses.contains_key(&lower);
        let candidates = symbols.by_short_name.get(&lower).filter(|_| is_short);
        match candidates.map(Vec::as_slice) {
            Some([index]) => symbols.classes.get(*index).map_or(name, |class| class.name.clone()),
            _ => name,
        }
    }

    /// Returns a constant outside of classes. Searches the namespace first, then the global namespace.
    pub(super) fn constant(self, written_name: &str) -> Option<(&'t Scope, &'t Expression)> {
        let constants = &self.symbols.constants;
        let found = constants.get(&full_name(self, written_name));
        let (scope, expression) = found.or_else(|| constants.get(written_name))?;
        Some((scope.as_ref(), expression))
    }
}

fn full_name(context: Context<'_>, written_name: &str) -> String {
    if let Some(name) = written_name.strip_prefix('\\') {
        return name.to_owned();
    }
    match (written_name.to_ascii_lowercase().as_str(), context.class) {
        ("self" | "static" | "$this", Some(class)) => return class.name.clone(),
        ("parent", Some(Class { parent: Some(parent), .. }))
            if !parent.eq_ignore_ascii_case("parent") =>
        {
            return full_name(context, parent);
        }
        ("self" | "static" | "$this" | "parent", _) => return written_name.to_owned(),
        _ => {}
    }
    let (first, rest) =
        written_name.split_once('\\').map_or((written_name, None), |(a, b)| (a, Some(b)));
    if first.eq_ignore_ascii_case("namespace") {
        return joined(&context.scope.namespace, rest.unwrap_or_default());
    }
    match (context.scope.uses.get(&first.to_ascii_lowercase()), rest) {
        (Some(imported), None) => imported.clone(),
        (Some(imported), Some(rest)) => format!("{imported}\\{rest}"),
        (None, _) => joined(&context.scope.namespace, written_name),
    }
}
