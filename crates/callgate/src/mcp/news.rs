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
}

/// Spreads what happens; tasks apart, since they change often.
#[derive(Debug, Clone)]
pub(crate) struct Newsroom {
    news: broadcast::Sender<News>,
    tasks: broadcast::Sender<Arc<Task>>,
}

impl Default for Newsroom {
    fn default() -> Self {
        Self {
            news: broadcast::Sender::new(MAX_WAITING),
            tasks: broadcast::Sender::new(MAX_WAITING),
        }
    }
}

impl Newsroom {
    pub(crate) fn tell(&self, news: News) {
        // Nobody may be listening.
        let _ = self.news.send(news);
    }

    pub(crate) fn tell_of(&self, task: &Task) {
        if self.tasks.receiver_count() > 0 {
            let _ = self.tasks.send(Arc::new(task.clone()));
        }
    }

    pub(crate) fn listen(&self) -> broadcast::Receiver<News> {
        self.news.subscribe()
    }

    pub(crate) fn listen_to_tasks(&self) -> broadcast::Receiver<Arc<Task>> {
        self.tasks.subscribe()
    }
}
