//! Doc comments: text and tags.

use std::collections::HashMap;

/// Maximum length of a tag's type and description, in bytes.
const MAX_BODY: usize = 16 * 1024;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Docblock {
    /// The text before the first tag.
    pub(crate) text: String,
    /// The tags: the name of each tag, without `@`, and the text after the name.
    tags: Vec<(String, String)>,
}

/// A `@param`, `@var` or `@return` tag.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct TypedTag {
    pub(crate) ty: Option<String>,
    /// Name of the parameter, without `$`.
    pub(crate) name: Option<String>,
    pub(crate) description: String,
}

impl Docblock {
    pub(crate) fn parse(comment: &str) -> Self {
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

    /// Returns `true` if the text or the body of a tag contains a word. Ignores case.
    pub(crate) fn mentions(&self, word: &str) -> bool {
        let mut texts = [&self.text].into_iter().chain(self.tags.iter().map(|(_, body)| body));
        texts.any(|text| text.to_ascii_lowercase().contains(word))
    }

    /// Returns a tag that looks like a misspelled `name`: a tag that contains `name`, or differs from it by one typo.
    /// Ignores case.
    pub(crate) fn misspelled(&self, name: &str) -> Option<&str> {
        let name = name.to_ascii_lowercase();
        let is_misspelled = |tag: &str| {
            let tag = tag.to_ascii_lowercase();
            // One typo: a letter is missing, added or different, or two adjacent letters are swapped.
            tag != name && (tag.contains(&name) || strsim::osa_distance(&tag, &name) == 1)
        };
        self.tags.iter().map(|(tag, _)| tag.as_str()).find(|tag| is_misspelled(tag))
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.all(name).next().is_some()
    }

    /// Returns the bodies of all tags with this name.
    pub(crate) fn all<'d>(&'d self, name: &str) -> impl Iterator<Item = &'d str> {
        let named = self.tags.iter().filter(move |(tag, _)| tag.eq_ignore_ascii_case(name));
        named.map(|(_, body)| body.trim())
    }

    pub(crate) fn first(&self, name: &str) -> Option<&str> {
        self.all(name).next()
    }

    /// Returns the `@param` tags of a constructor as doc comments of the properties that the parameters declare.
    pub(crate) fn param_docs(&self) -> HashMap<String, Self> {
        let of_param = |body: &str| {
            let tags = vec![("var".to_owned(), body.to_owned())];
            Some((TypedTag::parse(body).name?, Self { text: String::new(), tags }))
        };
        self.all("param").filter_map(of_param).collect()
    }

    pub(crate) fn typed(&self, name: &str) -> TypedTag {
        self.first(name).map(TypedTag::parse).unwrap_or_default()
    }
}

impl TypedTag {
    /// Parses `int[] $ids The ids.`, `array<string, int> Counts by name.` or `$id`.
    pub(crate) fn parse(body: &str) -> Self {
        let (ty, rest) = split_type(body);
        let named = rest.trim_start_matches(['&', '.']).strip_prefix('$');
        let Some(named) = named else {
            return Self { ty: non_empty(ty), name: None, description: clean(rest) };
        };
        let end = named.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(named.len());
        let (name, description) = named.split_at(end);
        Self { ty: non_empty(ty), name: non_empty(name), description: clean(description) }
    }
}

fn non_empty(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

/// Splits off the type. The type ends at a space that is outside of brackets and not beside `|`.
fn split_type(body: &str) -> (&str, &str) {
    let body = body.get(..body.floor_char_boundary(MAX_BODY)).unwrap_or(body);
    let mut depth = 0_usize;
    let mut quote = None;
    let mut last = None;
    for (index, c) in body.char_indices() {
        let (ty, rest) = body.split_at(index);
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
                let continues = last == Some('|') || rest.trim_start().starts_with('|');
                if !continues {
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

/// Splits `@name rest`.
fn tag(line: &str) -> Option<(&str, &str)> {
    let rest = line.trim_start().strip_prefix('@')?;
    let is_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '\\' | ':');
    let end = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
    let (name, rest) = rest.split_at(end);
    name.starts_with(char::is_alphabetic).then_some((name, rest))
}

/// Trims a text and removes inline tags that are meant for PHP's tools.
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
    fn a_doc_comment_is_split_into_text_and_tags() {
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
    fn a_tag_is_split_into_type_name_and_description() {
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
            let tag = TypedTag::parse(body);
            assert_eq!(tag.ty.as_deref().unwrap_or_default(), ty, "{body}");
            assert_eq!(tag.name.as_deref().unwrap_or_default(), name, "{body}");
            assert_eq!(tag.description, description, "{body}");
        }
    }
}
