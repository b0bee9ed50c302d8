//! Content blocks of tool results and prompts.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use serde_json::Value;

use crate::wire::revision::Revision;

/// A content block.
///
/// ```
/// use callgate::{Content, method};
///
/// /// Draws a red dot.
/// #[method(read_only)]
/// fn dot() -> Content {
///     let svg = "<svg xmlns='http://www.w3.org/2000/svg'><circle r='9' fill='red'/></svg>";
///     Content::image(svg, "image/svg+xml")
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Content {
    /// Text.
    Text {
        /// The text.
        text: String,
    },
    /// An image.
    #[serde(rename_all = "camelCase")]
    Image {
        /// Base64 data.
        data: String,
        /// Media type, such as `image/png`.
        mime_type: String,
    },
    /// Audio.
    #[serde(rename_all = "camelCase")]
    Audio {
        /// Base64 data.
        data: String,
        /// Media type, such as `audio/wav`.
        mime_type: String,
    },
    /// An embedded resource.
    Resource {
        /// Contents of the resource.
        resource: ResourceContents,
    },
    /// A link to a resource.
    #[serde(rename_all = "camelCase")]
    ResourceLink {
        /// URI of the resource.
        uri: String,
        /// Name of the resource.
        name: String,
        /// Description of the resource.
        #[serde(skip_serializing_if = "Option::is_none")]
        description: Option<String>,
        /// Media type, such as `text/plain`.
        #[serde(skip_serializing_if = "Option::is_none")]
        mime_type: Option<String>,
    },
}

impl Content {
    /// Creates a text block.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into() }
    }

    /// Creates an image from its bytes.
    pub fn image(bytes: impl AsRef<[u8]>, mime_type: impl Into<String>) -> Self {
        Self::Image { data: STANDARD.encode(bytes), mime_type: mime_type.into() }
    }

    /// Creates an audio block from its bytes.
    pub fn audio(bytes: impl AsRef<[u8]>, mime_type: impl Into<String>) -> Self {
        Self::Audio { data: STANDARD.encode(bytes), mime_type: mime_type.into() }
    }

    /// Creates an embedded resource.
    pub fn resource(resource: ResourceContents) -> Self {
        Self::Resource { resource }
    }

    /// Creates a link to a resource.
    pub fn link(uri: impl Into<String>, name: impl Into<String>) -> Self {
        let (uri, name) = (uri.into(), name.into());
        Self::ResourceLink { uri, name, description: None, mime_type: None }
    }

    /// Converts the content to text if the revision does not support content of this kind.
    pub(crate) fn for_revision(self, revision: Revision) -> Self {
        match self {
            Self::Audio { data, mime_type } if revision < Revision::V2025_03_26 => {
                Self::text(format!("[audio, {mime_type}, {} characters of base64]", data.len()))
            }
            Self::ResourceLink { uri, name, .. } if revision < Revision::V2025_06_18 => {
                Self::text(format!("{name}: {uri}"))
            }
            other => other,
        }
    }
}

impl From<&str> for Content {
    fn from(text: &str) -> Self {
        Self::text(text)
    }
}

impl From<String> for Content {
    fn from(text: String) -> Self {
        Self::text(text)
    }
}

/// Contents of a resource.
///
/// Argument of [`Content::resource`], and result of functions with `#[resource]` and of
/// [`Resources::read`](crate::mcp::Resources::read). [`ToolContent`] has an example.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceContents {
    uri: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    mime_type: Option<String>,
    #[serde(flatten)]
    body: ResourceBody,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
enum ResourceBody {
    Text(String),
    Blob(String),
}

impl ResourceContents {
    /// Creates a text resource.
    pub fn text(uri: impl Into<String>, text: impl Into<String>) -> Self {
        Self { uri: uri.into(), mime_type: None, body: ResourceBody::Text(text.into()) }
    }

    /// Creates a binary resource.
    pub fn bytes(uri: impl Into<String>, bytes: impl AsRef<[u8]>) -> Self {
        let body = ResourceBody::Blob(STANDARD.encode(bytes));
        Self { uri: uri.into(), mime_type: None, body }
    }

    /// Sets the media type, such as `text/plain`.
    #[must_use]
    pub fn mime_type(mut self, mime_type: impl Into<String>) -> Self {
        self.mime_type = Some(mime_type.into());
        self
    }
}

/// Author of a message.
///
/// Argument of [`GetPromptResult::message`](crate::mcp::GetPromptResult::message) and
/// [`Sample::message`](crate::ask::Sample::message). [`Sample`](crate::ask::Sample) has an example.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The user.
    User,
    /// The model.
    Assistant,
}

/// A tool's result as content blocks.
///
/// Functions that return only one block can return a [`Content`].
///
/// ```
/// use callgate::upstream::{ResourceContents, ToolContent};
/// use callgate::{Callgate, Caller, Content, method, methods};
///
/// /// Reports the orders of this month.
/// #[method(read_only)]
/// fn report() -> ToolContent {
///     let csv = ResourceContents::text("reports://orders", "day,orders\n1,7").mime_type("text/csv");
///     ToolContent::new([Content::text("7 orders"), Content::resource(csv)])
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let server = Callgate::builder().methods(methods![report]).build()?;
/// let result = server.test_client(Caller::anonymous()).call("report", ()).await?;
/// assert_eq!(result["content"][0]["text"], "7 orders");
/// assert_eq!(result["content"][1]["resource"]["mimeType"], "text/csv");
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolContent {
    pub(crate) content: Vec<Content>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) structured_content: Option<Value>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) is_error: bool,
}

impl ToolContent {
    /// Creates a result from content blocks.
    pub fn new(content: impl IntoIterator<Item = Content>) -> Self {
        Self { content: content.into_iter().collect(), ..Self::default() }
    }

    /// Adds structured content, for methods with an output schema.
    #[must_use]
    pub fn structured(mut self, value: impl Into<Value>) -> Self {
        self.structured_content = Some(value.into());
        self
    }

    /// Marks the result as an error.
    #[must_use]
    pub fn error(mut self) -> Self {
        self.is_error = true;
        self
    }

    /// Returns the approximate size in bytes.
    pub(crate) fn len(&self) -> usize {
        let lengths = self.content.iter().map(|content| match content {
            Content::Text { text } => text.len(),
            Content::Image { data, .. } | Content::Audio { data, .. } => data.len(),
            Content::Resource { resource } => match &resource.body {
                ResourceBody::Text(text) | ResourceBody::Blob(text) => text.len(),
            },
            Content::ResourceLink { uri, .. } => uri.len(),
        });
        lengths.sum()
    }

    /// Returns the text blocks, joined by line breaks.
    pub(crate) fn joined_text(&self) -> String {
        let texts = self.content.iter().filter_map(|content| match content {
            Content::Text { text } => Some(text.as_str()),
            _ => None,
        });
        texts.collect::<Vec<_>>().join("\n")
    }
}

impl From<Content> for ToolContent {
    fn from(content: Content) -> Self {
        Self::new([content])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_blocks_serialize_as_mcp_defines() {
        let all = [
            Content::text("a"),
            Content::image([1], "image/png"),
            Content::audio([2], "audio/wav"),
            Content::resource(ResourceContents::text("a:b", "c").mime_type("text/plain")),
            Content::resource(ResourceContents::bytes("a:b", [3])),
            Content::link("a:b", "c"),
        ];
        insta::assert_json_snapshot!(all);
    }

    #[test]
    fn content_that_a_revision_does_not_support_becomes_text() {
        let audio = Content::audio([0; 3], "audio/wav");
        let link = Content::link("a:b", "c");
        let is_unchanged = |content: &Content| {
            Revision::ALL.map(|revision| content.clone().for_revision(revision) == *content)
        };
        assert_eq!(is_unchanged(&audio), [false, true, true, true, true]);
        assert_eq!(is_unchanged(&link), [false, false, true, true, true]);
        let text = link.for_revision(Revision::V2024_11_05);
        assert_eq!(text, Content::text("c: a:b"));
    }
}
