//! What clients that listen are told beside changes of their tools: the embedder says what happened.

use std::sync::Arc;

use tokio::sync::broadcast;

use super::tasks::Task;

/// Who listens slower than this hears that everything may have changed.
const MAX_WAITING: usize = 256;

/// Something that happened.
#[derive(Debug, Clone)]
pub(crate) enum News {
    /// There are other prompts.
    Prompts,
    /// There are other resources.
    Resources,
    /// The contents of a resource are others.
    Resource(Arc<str>),
    /// A task stands otherwise.
    Task(Arc<Task>),
}

/// Spreads what happens.
#[derive(Debug, Clone)]
pub(crate) struct Newsroom(broadcast::Sender<News>);

impl Default for Newsroom {
    fn default() -> Self {
        Self(broadcast::Sender::new(MAX_WAITING))
    }
}

impl Newsroom {
    pub(crate) fn tell(&self, news: News) {
        // Nobody may be listening.
        let _ = self.0.send(news);
    }

    pub(crate) fn listen(&self) -> broadcast::Receiver<News> {
        self.0.subscribe()
    }
}
