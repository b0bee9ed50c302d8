//! Types whose functions are methods with shared state.
//!
//! The attribute [`methods`] on an `impl` block makes the type a [`Plugin`], and registers the functions of the block
//! that have `#[method]`, `#[prompt]` or `#[resource]`.
//!
//! ```
//! use std::sync::atomic::{AtomicU64, Ordering};
//! use callgate::{Callgate, plugin};
//!
//! #[derive(Default)]
//! struct Counter(AtomicU64);
//!
//! #[plugin::methods]
//! impl Counter {
//!     /// Counts one more, and returns how many there are.
//!     #[method(id = "counter.next", destructive)]
//!     fn next(&self) -> u64 {
//!         self.0.fetch_add(1, Ordering::Relaxed) + 1
//!     }
//! }
//!
//! let server = Callgate::builder().plugin(Counter::default()).build()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::sync::Arc;

use crate::mcp::features::prompt_function::PromptFunction;
use crate::mcp::features::resource_function::ResourceFunction;
use crate::upstream::local::MethodFunction;

/// Attribute of an `impl` block that makes its type a [`Plugin`].
pub use callgate_macros::methods;

/// A type whose functions are methods. The attribute [`methods`] implements this trait.
///
/// Argument of [`Builder::plugin`](crate::Builder::plugin). The module [`plugin`](self) has an example.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a plugin",
    note = "put `#[plugin::methods]` before an `impl {Self}`, and `#[method(…)]` before functions in it"
)]
pub trait Plugin: Send + Sync + 'static {
    /// Returns the methods, prompts and resources.
    fn items(self: Arc<Self>) -> PluginItems;
}

/// The methods, prompts and resources of a [`Plugin`].
///
/// Returned by [`Plugin::items`]. The attribute [`methods`] generates the code that builds it; applications do not need
/// it.
#[derive(Debug, Default)]
pub struct PluginItems {
    pub(crate) methods: Vec<MethodFunction>,
    pub(crate) prompts: Vec<PromptFunction>,
    pub(crate) resources: Vec<ResourceFunction>,
}

impl PluginItems {
    /// Adds a method.
    #[must_use]
    pub fn method(mut self, method: MethodFunction) -> Self {
        self.methods.push(method);
        self
    }

    /// Adds a prompt.
    #[must_use]
    pub fn prompt(mut self, prompt: PromptFunction) -> Self {
        self.prompts.push(prompt);
        self
    }

    /// Adds a resource.
    #[must_use]
    pub fn resource(mut self, resource: ResourceFunction) -> Self {
        self.resources.push(resource);
        self
    }

    /// Returns the methods, to be added to a [`Local`](crate::upstream::local::Local).
    pub fn into_methods(self) -> Vec<MethodFunction> {
        self.methods
    }
}
