//! How a method that asks its client comes to its answers: in the modern era it runs again with them,
//! in the legacy era it waits for them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::value::RawValue;

use super::classify::Outcome;
use super::running::Scope;
use crate::ask::Answers;
use crate::client::{Capability, Line, Posed, Said, TaskWish, Wish};
use crate::jsonrpc::RpcError;

/// How a client is asked.
#[derive(Debug)]
pub(crate) enum Way {
    /// The method runs again with the answers.
    Again {
        answers: Answers,
        /// Whether it may also run on as a task.
        tasks: bool,
    },
    /// The client answers while the method waits.
    Live {
        /// Whose answers count.
        scope: Scope,
        questions: Arc<Questions>,
    },
    /// It cannot be asked, for this reason.
    Cannot(&'static str),
}

/// How far a method came.
pub(crate) enum Conversed<T> {
    /// To its end.
    Over(T),
    /// To questions that have no answer yet.
    Asks(Vec<Posed>),
    /// To what the client cannot do.
    Lacks(Capability),
    /// To where it runs on as a task.
    Task(TaskWish),
}

/// Runs a method and sees to its wishes. What has not come to its end can be run on.
pub(crate) async fn converse<T>(
    line: &Line,
    way: &Way,
    run: &mut (impl Future<Output = T> + Unpin),
) -> Conversed<T> {
    let mut unanswered = Vec::new();
    // Taken back when the method is over, whatever came of them.
    let mut waiting = Vec::new();
    loop {
        let wish = tokio::select! {
            biased;
            result = &mut *run => return Conversed::Over(result),
            wish = next(line, !unanswered.is_empty()) => wish,
        };
        let posed = match wish {
            Some(Wish::Question(posed)) => posed,
            Some(Wish::Task(wish)) => match task(line, way, wish) {
                Some(conversed) => return conversed,
                None => continue,
            },
            // Nothing more comes before an answer does.
            None => return Conversed::Asks(unanswered),
        };
        let lacks = !line.capabilities().has(posed.needs);
        match way {
            Way::Cannot(why) => posed.answer(Err((*why).to_owned())),
            Way::Again { .. } if lacks => return Conversed::Lacks(posed.needs),
            Way::Live { .. } if lacks => {
                let problem = format!("the client does not offer {}", posed.needs);
                posed.answer(Err(problem));
            }
            Way::Again { answers, .. } => match answers.get(&posed.key) {
                Some(answer) if (posed.check)(answer).is_ok() => posed.answer(Ok(answer.clone())),
                _ => unanswered.push(posed),
            },
            Way::Live { scope, questions } => waiting.extend(questions.put(*scope, posed, line)),
        }
    }
}

/// What comes of the wish to run on as a task, where that is the end of this.
fn task<T>(line: &Line, way: &Way, wish: TaskWish) -> Option<Conversed<T>> {
    let can = line.capabilities().has(Capability::Tasks);
    match way {
        Way::Again { tasks: true, .. } if can => return Some(Conversed::Task(wish)),
        Way::Again { tasks: true, .. } if wish.is_required => {
            return Some(Conversed::Lacks(Capability::Tasks));
        }
        _ if wish.is_required => {
            wish.answer(Err("this runs as a task only, which needs a newer client".to_owned()));
        }
        _ => wish.answer(Ok(false)),
    }
    None
}

/// The next wish; none where a question is open and nothing else is there.
async fn next(line: &Line, is_one_open: bool) -> Option<Wish> {
    match line.wished_already() {
        Some(wish) => Some(wish),
        None if is_one_open => None,
        None => Some(line.wished().await),
    }
}

/// Questions on their way to clients.
#[derive(Debug, Default)]
pub(crate) struct Questions {
    open: Mutex<HashMap<(Scope, String), Posed>>,
}

impl Questions {
    fn lock(&self) -> MutexGuard<'_, HashMap<(Scope, String), Posed>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a question off, and notes it until what comes back is dropped. Its id cannot be guessed.
    fn put(self: &Arc<Self>, scope: Scope, posed: Posed, line: &Line) -> Option<Place> {
        let mut id = [0; 12];
        if getrandom::fill(&mut id).is_err() {
            posed.answer(Err("the question has no id: there is no randomness".to_owned()));
            return None;
        }
        let id = URL_SAFE_NO_PAD.encode(id);
        let (method, params) = (posed.method, posed.params.clone());
        self.lock().insert((scope, id.clone()), posed);
        line.say(Said::Request { id: id.clone(), method, params });
        Some(Place { questions: Arc::clone(self), key: (scope, id) })
    }

    /// A client's answer; one to nothing that is open is none of ours.
    pub(crate) fn answer(&self, scope: Scope, id: &RawValue, outcome: Outcome<'_>) {
        let Some(id) = crate::strict_json::text(id) else { return };
        let Some(posed) = self.lock().remove(&(scope, id.into_owned())) else { return };
        posed.answer(match outcome {
            Ok(result) => Ok(result.to_owned()),
            Err(error) => Err(refused(error)),
        });
    }
}

fn refused(error: &RawValue) -> String {
    let error = serde_json::from_str::<RpcError>(error.get());
    let words = error.map_or_else(|_| "it gave no reason".to_owned(), |error| error.to_string());
    format!("the client did not answer: {words}")
}

/// A question's place among those that are open.
#[derive(Debug)]
pub(crate) struct Place {
    questions: Arc<Questions>,
    key: (Scope, String),
}

impl Drop for Place {
    fn drop(&mut self) {
        self.questions.lock().remove(&self.key);
    }
}
