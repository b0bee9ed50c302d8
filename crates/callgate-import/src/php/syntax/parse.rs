//! The syntax tree of a file, and the first error in it.

use std::borrow::Cow;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow};
use tree_sitter::{Node, ParseOptions, ParseState, Tree};

/// Maximum time to parse a file. Two megabytes take less than a second.
const MAX_TIME: Duration = Duration::from_secs(20);

pub(crate) struct Parser(tree_sitter::Parser);

impl Parser {
    pub(crate) fn new() -> anyhow::Result<Self> {
        let mut parser = tree_sitter::Parser::new();
        parser
            .set_language(&tree_sitter_php::LANGUAGE_PHP.into())
            .context("the parser does not support the version of the grammar")?;
        Ok(Self(parser))
    }

    /// Returns the syntax tree of a file, and the text to which its offsets refer.
    pub(super) fn parse<'t>(&mut self, text: &'t str) -> anyhow::Result<(Tree, Cow<'t, str>)> {
        let tree = self.tree(text)?;
        if tree.root_node().has_error()
            && let Some(ordered) = with_ordered_modifiers(text)
        {
            return Ok((self.tree(&ordered)?, Cow::Owned(ordered)));
        }
        Ok((tree, Cow::Borrowed(text)))
    }

    fn tree(&mut self, text: &str) -> anyhow::Result<Tree> {
        let started = Instant::now();
        let mut check_time = |_: &ParseState| {
            if started.elapsed() > MAX_TIME {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        };
        let options = ParseOptions::new().progress_callback(&mut check_time);
        let mut input = |offset: usize, _| text.as_bytes().get(offset..).unwrap_or_default();
        let tree = self.0.parse_with_options(&mut input, None, Some(options));
        tree.ok_or_else(|| {
            self.0.reset();
            anyhow!("parsing takes more than {} seconds", MAX_TIME.as_secs())
        })
    }
}

/// Moves the visibility of properties before `readonly`. PHP allows both orders, but the grammar requires this one for
/// parameters of constructors. Returns `None` if nothing has to be moved. Offsets do not change.
fn with_ordered_modifiers(text: &str) -> Option<String> {
    let mut ordered = text.to_owned();
    for visibility in ["public", "protected", "private"] {
        let (from, to) = (format!("readonly {visibility} "), format!("{visibility} readonly "));
        ordered = ordered.replace(&from, &to);
    }
    (ordered != text).then_some(ordered)
}

/// Returns the first node with an error outside of function bodies. Not recursive, because nodes may be nested to any
/// depth.
pub(super) fn first_error(root: Node<'_>) -> Option<Node<'_>> {
    let mut stack = vec![root];
    while let Some(node) = stack.pop() {
        if node.is_error() || node.is_missing() {
            return Some(node);
        }
        if !node.has_error() {
            continue;
        }
        let is_function = matches!(node.kind(), "method_declaration" | "function_definition");
        let body = field(node, "body").filter(|_| is_function);
        let mut invalid: Vec<Node<'_>> = node.children(&mut node.walk()).collect();
        invalid.retain(Node::has_error);
        // If no child has the error, this node itself has it.
        if invalid.is_empty() {
            return Some(node);
        }
        stack.extend(invalid.into_iter().rev().filter(|child| Some(*child) != body));
    }
    None
}

pub(super) fn syntax_error(node: Node<'_>, text: &str) -> anyhow::Error {
    let line = line(node);
    if node.is_missing() {
        return anyhow!("line {line}: `{}` is missing", node.kind());
    }
    let found = text.get(node.start_byte()..).unwrap_or_default();
    let found: String = found.lines().next().unwrap_or_default().chars().take(40).collect();
    anyhow!("line {line}: syntax error near `{}`", found.trim())
}

pub(super) fn line(node: Node<'_>) -> usize {
    node.start_position().row + 1
}

pub(super) fn text<'t>(node: Node<'_>, source: &'t str) -> &'t str {
    source.get(node.byte_range()).unwrap_or_default()
}

/// Returns the named children, including comments.
pub(super) fn children(node: Node<'_>) -> Vec<Node<'_>> {
    node.named_children(&mut node.walk()).collect()
}

/// Returns the named children without comments.
pub(super) fn children_without_comments(node: Node<'_>) -> Vec<Node<'_>> {
    let mut all = children(node);
    all.retain(|child| !child.is_extra());
    all
}

pub(super) fn children_of_kind<'t>(node: Node<'t>, kind: &str) -> impl Iterator<Item = Node<'t>> {
    children(node).into_iter().filter(move |child| child.kind() == kind)
}

/// Returns `true` for the name of a class or a constant.
pub(super) fn is_name(node: &Node<'_>) -> bool {
    matches!(node.kind(), "name" | "qualified_name" | "relative_name")
}

pub(super) fn field<'t>(node: Node<'t>, name: &str) -> Option<Node<'t>> {
    node.child_by_field_name(name)
}
