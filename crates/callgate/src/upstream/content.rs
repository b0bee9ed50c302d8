//! What a method can give beside plain JSON: text, images, audio, resources and links, for tools and
//! for prompts.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use serde_json::Value;

use crate::wire::revision::Revision;

/// One piece of content.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Content {
    /// Words.
    Text {
        /// The words.
        text: String,
    },
    /// A picture.
    #[serde(rename_all = "camelCase")]
    Image {
        /// Its bytes in base64.
        data: String,
        /// Such as `image/png`.
        mime_type: String,
    },
    /// A sound.
    #[serde(rename_all = "camelCase")]
    Audio {
        /// Its bytes in base64.
        data: String,
        /// Such as `audio/wav`.
        mime_type: String,
    },
    /// A resource, whole.
    Resource {
        /// The resource.
        resource: ResourceContents,
    },
    /// A resource that the client may read.
    #[serde(rename_all = "camelCase")]
    ResourceLink {
        /// Where it is.
        uri: String,
        /// What it is called.
        name: String,
        /// What it is about.
        #[serde(skip_serializing_if = "Option::is_none")]
        description: Option<String>,
        /// Such as `text/plain`.
        #[serde(skip_serializing_if = "Option::is_none")]
        mime_type: Option<String>,
    },
}

impl Content {
    /// Words.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into() }
    }

    /// A picture.
    pub fn image(bytes: impl AsRef<[u8]>, mime_type: impl Into<String>) -> Self {
        Self::Image { data: STANDARD.encode(bytes), mime_type: mime_type.into() }
    }

    /// A sound.
    pub fn audio(bytes: impl AsRef<[u8]>, mime_type: impl Into<String>) -> Self {
        Self::Audio { data: STANDARD.encode(bytes), mime_type: mime_type.into() }
    }

    /// A resource, whole.
    pub fn resource(resource: ResourceContents) -> Self {
        Self::Resource { resource }
    }

    /// A resource that the client may read.
    pub fn link(uri: impl Into<String>, name: impl Into<String>) -> Self {
        let (uri, name) = (uri.into(), name.into());
        Self::ResourceLink { uri, name, description: None, mime_type: None }
    }

    /// As a client of this revision can read it: kinds that came later are told in words.
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

/// A resource's contents.
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
    /// A text.
    pub fn text(uri: impl Into<String>, text: impl Into<String>) -> Self {
        Self { uri: uri.into(), mime_type: None, body: ResourceBody::Text(text.into()) }
    }

    /// Bytes.
    pub fn bytes(uri: impl Into<String>, bytes: impl AsRef<[u8]>) -> Self {
        let body = ResourceBody::Blob(STANDARD.encode(bytes));
        Self { uri: uri.into(), mime_type: None, body }
    }

    /// Says what kind it is, such as `text/plain`.
    #[must_use]
    pub fn mime_type(mut self, mime_type: impl Into<String>) -> Self {
        self.mime_type = Some(mime_type.into());
        self
    }
}

/// Who says something in a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The person.
    User,
    /// The model.
    Assistant,
}

/// A tool's result piece by piece, instead of one JSON value.
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
    /// These pieces.
    pub fn new(content: impl IntoIterator<Item = Content>) -> Self {
        Self { content: content.into_iter().collect(), ..Self::default() }
    }

    /// Adds the same as data, for a method that declares what it returns.
    #[must_use]
    pub fn structured(mut self, value: impl Into<Value>) -> Self {
        self.structured_content = Some(value.into());
        self
    }

    /// Says that it tells of a failure.
    #[must_use]
    pub fn error(mut self) -> Self {
        self.is_error = true;
        self
    }

    /// About how much memory the pieces have.
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

    /// The words in it.
    pub(crate) fn words(&self) -> String {
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
    fn contents_have_the_form_of_the_protocol() {
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
    fn d10_what_a_revision_lacks_becomes_text() {
        let audio = Content::audio([0; 3], "audio/wav");
        let link = Content::link("a:b", "c");
        let of = |content: &Content| {
            Revision::ALL.map(|revision| content.clone().for_revision(revision) == *content)
        };
        assert_eq!(of(&audio), [false, true, true, true, true]);
        assert_eq!(of(&link), [false, false, true, true, true]);
        let text = link.for_revision(Revision::V2024_11_05);
        assert_eq!(text, Content::text("c: a:b"));
    }
}
