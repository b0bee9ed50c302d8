//! Text to a syntax tree, and the first thing that is wrong in it.

use std::borrow::Cow;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow};
use tree_sitter::{Node, ParseOptions, ParseState, Tree};

/// A file of two megabytes takes less than a second.
const MAX_TIME: Duration = Duration::from_secs(20);

pub(super) struct Parser(tree_sitter::Parser);

impl Parser {
    pub(super) fn new() -> anyhow::Result<Self> {
        let mut parser = tree_sitter::Parser::new();
        parser
            .set_language(&tree_sitter_php::LANGUAGE_PHP.into())
            .context("the parser and its grammar do not fit")?;
        Ok(Self(parser))
    }

    /// Returns the tree of a file, the text that it is of, and the first declaration in it that cannot be
    /// read. The grammar does not have all of PHP, so what it does not know costs no more than the
    /// declaration that it is in, and nothing where it is in the body of a function.
    pub(super) fn parse<'t>(
        &mut self,
        text: &'t str,
    ) -> anyhow::Result<(Tree, Cow<'t, str>, Option<anyhow::Error>)> {
        let (mut tree, mut text) = (self.tree(text)?, Cow::Borrowed(text));
        if tree.root_node().has_error()
            && let Some(other) = with_modifiers_in_order(&text)
        {
            (tree, text) = (self.tree(&other)?, Cow::Owned(other));
        }
        let error = first_error(tree.root_node()).map(|node| syntax_error(node, &text));
        Ok((tree, text, error))
    }

    /// The tree of a text as far as it is PHP.
    fn tree(&mut self, text: &str) -> anyhow::Result<Tree> {
        let started = Instant::now();
        let mut is_late = |_: &ParseState| {
            if started.elapsed() > MAX_TIME {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        };
        let options = ParseOptions::new().progress_callback(&mut is_late);
        let mut rest = |at: usize, _| text.as_bytes().get(at..).unwrap_or_default();
        let tree = self.0.parse_with_options(&mut rest, None, Some(options));
        tree.ok_or_else(|| {
            self.0.reset();
            anyhow!("it takes more than {} seconds to read", MAX_TIME.as_secs())
        })
    }
}

/// Returns the text with the visibility of each property before its `readonly`, which the grammar wants for
/// parameters of constructors and PHP does not; `None` if that is so already. All offsets stay.
fn with_modifiers_in_order(text: &str) -> Option<String> {
    let mut ordered = text.to_owned();
    for visibility in ["public", "protected", "private"] {
        let (from, to) = (format!("readonly {visibility} "), format!("{visibility} readonly "));
        ordered = ordered.replace(&from, &to);
    }
    (ordered != text).then_some(ordered)
}

/// Returns the first node that is wrong, outside of bodies of functions. Not by recursion: a file may be
/// nested as deep as it likes.
pub(super) fn first_error(root: Node<'_>) -> Option<Node<'_>> {
    let mut next = vec![root];
    while let Some(node) = next.pop() {
        if node.is_error() || node.is_missing() {
            return Some(node);
        }
        if !node.has_error() {
            continue;
        }
        let is_function = matches!(node.kind(), "method_declaration" | "function_definition");
        let body = field(node, "body").filter(|_| is_function);
        let mut wrong: Vec<Node<'_>> = node.children(&mut node.walk()).collect();
        wrong.retain(Node::has_error);
        // An error that no child has is the node's own.
        if wrong.is_empty() {
            return Some(node);
        }
        next.extend(wrong.into_iter().rev().filter(|child| Some(*child) != body));
    }
    None
}

fn syntax_error(node: Node<'_>, text: &str) -> anyhow::Error {
    let line = line(node);
    if node.is_missing() {
        return anyhow!("line {line}: `{}` is missing", node.kind());
    }
    let found = text.get(node.start_byte()..).unwrap_or_default();
    let found: String = found.lines().next().unwrap_or_default().chars().take(40).collect();
    anyhow!("line {line}: a syntax error near `{}`", found.trim())
}

pub(super) fn line(node: Node<'_>) -> usize {
    node.start_position().row + 1
}

pub(super) fn text<'t>(node: Node<'_>, source: &'t str) -> &'t str {
    source.get(node.byte_range()).unwrap_or_default()
}

/// The children that have a name in the grammar, comments among them.
pub(super) fn children(node: Node<'_>) -> Vec<Node<'_>> {
    node.named_children(&mut node.walk()).collect()
}

/// The children that are no comments.
pub(super) fn code(node: Node<'_>) -> Vec<Node<'_>> {
    let mut all = children(node);
    all.retain(|child| !child.is_extra());
    all
}

pub(super) fn of_kind<'t>(node: Node<'t>, kind: &str) -> impl Iterator<Item = Node<'t>> {
    children(node).into_iter().filter(move |child| child.kind() == kind)
}

/// Returns `true` if a node is the name of a class or a constant.
pub(super) fn is_name(node: &Node<'_>) -> bool {
    matches!(node.kind(), "name" | "qualified_name" | "relative_name")
}

pub(super) fn field<'t>(node: Node<'t>, name: &str) -> Option<Node<'t>> {
    node.child_by_field_name(name)
}
