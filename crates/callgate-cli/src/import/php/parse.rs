//! Text to a syntax tree, and the first thing that is wrong in it.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use thiserror::Error;
use tree_sitter::{Node, ParseOptions, ParseState, Tree};

/// A file of two megabytes takes less than a second.
const MAX_TIME: Duration = Duration::from_secs(20);

/// Why a file is not read.
#[derive(Debug, Error)]
pub(super) enum ParseError {
    #[error("line {line}: {what}")]
    Syntax { line: usize, what: String },
    #[error("it takes more than {} seconds to read", MAX_TIME.as_secs())]
    TooSlow,
}

/// A parser of PHP.
pub(super) struct Parser(tree_sitter::Parser);

impl Parser {
    pub(super) fn new() -> anyhow::Result<Self> {
        let mut parser = tree_sitter::Parser::new();
        parser
            .set_language(&tree_sitter_php::LANGUAGE_PHP.into())
            .context("the parser and its grammar do not fit")?;
        Ok(Self(parser))
    }

    /// The tree of a text without mistakes.
    pub(super) fn parse(&mut self, text: &str) -> Result<Tree, ParseError> {
        let tree = self.tree(text)?;
        match first_error(tree.root_node()) {
            None => Ok(tree),
            Some(node) => Err(syntax_error(node, text)),
        }
    }

    /// The tree of a text as far as it is PHP.
    pub(super) fn tree(&mut self, text: &str) -> Result<Tree, ParseError> {
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
        let Some(tree) = tree else {
            self.0.reset();
            return Err(ParseError::TooSlow);
        };
        Ok(tree)
    }
}

/// The first node that is wrong. Not by recursion: a file may be nested as deep as it likes.
fn first_error(root: Node<'_>) -> Option<Node<'_>> {
    let mut node = root.has_error().then_some(root)?;
    while !node.is_error() && !node.is_missing() {
        let inner = named_and_other(node).into_iter().find(Node::has_error);
        // An error that no child has is the node's own.
        let Some(inner) = inner else { return Some(node) };
        node = inner;
    }
    Some(node)
}

fn syntax_error(node: Node<'_>, text: &str) -> ParseError {
    let what = if node.is_missing() {
        format!("`{}` is missing", node.kind())
    } else {
        let found = text.get(node.start_byte()..).unwrap_or_default();
        let found: String = found.lines().next().unwrap_or_default().chars().take(40).collect();
        format!("a syntax error near `{}`", found.trim())
    };
    ParseError::Syntax { line: line(node), what }
}

/// The line on which a node begins.
pub(super) fn line(node: Node<'_>) -> usize {
    node.start_position().row + 1
}

/// What stands there.
pub(super) fn text<'t>(node: Node<'_>, source: &'t str) -> &'t str {
    source.get(node.byte_range()).unwrap_or_default()
}

/// The children that have a name in the grammar, comments among them.
pub(super) fn children(node: Node<'_>) -> Vec<Node<'_>> {
    node.named_children(&mut node.walk()).collect()
}

/// All children, punctuation too.
pub(super) fn named_and_other(node: Node<'_>) -> Vec<Node<'_>> {
    node.children(&mut node.walk()).collect()
}

/// Whether there is a child of this kind.
pub(super) fn has(node: Node<'_>, kind: &str) -> bool {
    children(node).iter().any(|child| child.kind() == kind)
}

/// The child under this name in the grammar.
pub(super) fn field<'t>(node: Node<'t>, name: &str) -> Option<Node<'t>> {
    node.child_by_field_name(name)
}
