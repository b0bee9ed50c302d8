//! Doc comments: a text, and tags.

use std::collections::HashMap;

/// No more of what follows a tag is looked at for a type and what is said of it.
const MAX_BODY: usize = 16 * 1024;

/// A doc comment, taken apart.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Docblock {
    /// What stands before the first tag.
    pub(super) text: String,
    /// Each tag's name without its `@`, and what follows.
    tags: Vec<(String, String)>,
}

/// What `@param`, `@var` and `@return` say.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Typed {
    pub(super) ty: Option<String>,
    /// The name behind the `$`.
    pub(super) name: Option<String>,
    pub(super) description: String,
}

impl Docblock {
    /// Takes `/** … */` apart.
    pub(super) fn parse(comment: &str) -> Self {
        let inner = comment.trim();
        let inner = inner.strip_prefix("/**").unwrap_or(inner);
        let inner = inner.strip_suffix("*/").unwrap_or(inner);
        let mut docblock = Self::default();
        let mut text = Vec::new();
        let mut is_code = false;
        for line in inner.lines().map(without_star) {
            if line.trim_start().starts_with("```") {
                is_code = !is_code;
            }
            match (tag(line).filter(|_| !is_code), docblock.tags.last_mut()) {
                (Some((name, rest)), _) => docblock.tags.push((name.to_owned(), rest.to_owned())),
                (None, Some((_, body))) => {
                    body.push('\n');
                    body.push_str(line);
                }
                (None, None) => text.push(line),
            }
        }
        docblock.text = clean(&text.join("\n"));
        docblock
    }

    /// Returns `true` if a word stands in a text, in whatever case.
    pub(super) fn mentions(&self, word: &str) -> bool {
        let mut texts = [&self.text].into_iter().chain(self.tags.iter().map(|(_, body)| body));
        texts.any(|text| text.to_ascii_lowercase().contains(word))
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.all(name).next().is_some()
    }

    /// What follows each tag of that name.
    pub(super) fn all<'d>(&'d self, name: &str) -> impl Iterator<Item = &'d str> {
        let named = self.tags.iter().filter(move |(tag, _)| tag.eq_ignore_ascii_case(name));
        named.map(|(_, body)| body.trim())
    }

    /// What follows the first tag of that name.
    pub(super) fn first(&self, name: &str) -> Option<&str> {
        self.all(name).next()
    }

    /// What a constructor's doc comment says of its parameters, as properties would say it of
    /// themselves.
    pub(super) fn of_params(&self) -> HashMap<String, Self> {
        let of_param = |body: &str| {
            let tags = vec![("var".to_owned(), body.to_owned())];
            Some((Typed::parse(body).name?, Self { text: String::new(), tags }))
        };
        self.all("param").filter_map(of_param).collect()
    }

    /// The first tag of that name as a type and what is said of it.
    pub(super) fn typed(&self, name: &str) -> Typed {
        self.first(name).map(Typed::parse).unwrap_or_default()
    }
}

impl Typed {
    /// Reads `int[] $ids The ids.`, `array<string, int> what it counts`, `$id`.
    pub(super) fn parse(body: &str) -> Self {
        let (ty, rest) = split_type(body);
        let named = rest.trim_start_matches(['&', '.']).strip_prefix('$');
        let Some(named) = named else {
            return Self { ty: some(ty), name: None, description: clean(rest) };
        };
        let end = named.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(named.len());
        let (name, description) = named.split_at(end);
        Self { ty: some(ty), name: some(name), description: clean(description) }
    }
}

fn some(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

/// The type at the beginning: up to a space outside of brackets that no `|` or `&` is beside.
fn split_type(body: &str) -> (&str, &str) {
    let body = body.get(..body.floor_char_boundary(MAX_BODY)).unwrap_or(body);
    let mut depth = 0_usize;
    let mut quote = None;
    let mut last = None;
    for (at, c) in body.char_indices() {
        let (ty, rest) = body.split_at(at);
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None, '\'' | '"') => quote = Some(c),
            (None, '<' | '{' | '(' | '[') => depth += 1,
            (None, '>' | '}' | ')' | ']') => depth = depth.saturating_sub(1),
            (None, '$' | '.')
                if depth == 0
                    && (rest.starts_with("...") || c == '$')
                    && !rest.starts_with("$this") =>
            {
                return (ty.trim_end().trim_end_matches('&').trim_end(), rest);
            }
            (None, c) if c.is_whitespace() && depth == 0 => {
                let goes_on = last == Some('|') || rest.trim_start().starts_with('|');
                if !goes_on {
                    return (ty.trim_end_matches('&'), rest.trim_start());
                }
            }
            _ => {}
        }
        if !c.is_whitespace() {
            last = Some(c);
        }
    }
    (body, "")
}

fn without_star(line: &str) -> &str {
    let line = line.trim();
    let line = line.strip_prefix('*').unwrap_or(line);
    line.strip_prefix(' ').unwrap_or(line)
}

/// `@name rest`
fn tag(line: &str) -> Option<(&str, &str)> {
    let rest = line.trim_start().strip_prefix('@')?;
    let is_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '\\' | ':');
    let end = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
    let (name, rest) = rest.split_at(end);
    name.starts_with(char::is_alphabetic).then_some((name, rest))
}

/// Without space around it, and without what only PHP's tools read.
fn clean(text: &str) -> String {
    let mut text = text.to_owned();
    for inline in ["{@inheritdoc}", "{@inheritDoc}", "{@internal}"] {
        text = text.replace(inline, "");
    }
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    lines.join("\n").trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_and_tags_are_told_apart() {
        let doc = Docblock::parse(
            "/**
              * Finds users.
              *
              * Words with commas between them:
              * ```
              * @not a tag
              * ```
              *
              * @rpc   findUsers
              * @param string $query What to look for,
              *                      in words.
              * @section users
              * @section log
              * @mcpReadOnly
              */",
        );
        assert_eq!(
            doc.text,
            "Finds users.\n\nWords with commas between them:\n```\n@not a tag\n```"
        );
        assert_eq!(doc.first("rpc"), Some("findUsers"));
        assert_eq!(doc.all("section").collect::<Vec<_>>(), ["users", "log"]);
        assert!(doc.has("mcpReadonly") && !doc.has("mcpDestructive"));
        let param = doc.typed("param");
        assert_eq!((param.ty.as_deref(), param.name.as_deref()), (Some("string"), Some("query")));
        assert!(param.description.starts_with("What to look for,\n"), "{param:?}");
        assert_eq!(Docblock::parse("/** One line. */").text, "One line.");
        assert_eq!(Docblock::parse("/** @rpc */").first("rpc"), Some(""));
    }

    #[test]
    fn types_end_where_words_begin() {
        for (body, ty, name, description) in [
            ("int $id", "int", "id", ""),
            ("int[] $ids The ids", "int[]", "ids", "The ids"),
            ("array<string, int> $map A map", "array<string, int>", "map", "A map"),
            ("array{id: int, name?: string} $x", "array{id: int, name?: string}", "x", ""),
            ("string | null $x", "string | null", "x", ""),
            ("'a b'|'c' $x", "'a b'|'c'", "x", ""),
            ("int ...$ids many", "int", "ids", "many"),
            ("Response &$response", "Response", "response", ""),
            ("Response& $response", "Response", "response", ""),
            ("bool whether it is so", "bool", "", "whether it is so"),
            ("$id the id", "", "id", "the id"),
            ("static the same", "static", "", "the same"),
            ("", "", "", ""),
        ] {
            let found = Typed::parse(body);
            assert_eq!(found.ty.as_deref().unwrap_or_default(), ty, "{body}");
            assert_eq!(found.name.as_deref().unwrap_or_default(), name, "{body}");
            assert_eq!(found.description, description, "{body}");
        }
    }
}
