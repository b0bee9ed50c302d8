//! How a method that asks its client comes to its answers: in the modern era it runs again with them,
//! in the legacy era it waits for them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::value::RawValue;

use super::classify::Outcome;
use super::input_required::Recorded;
use super::running::Scope;
use super::session::random_id;
use crate::client::{Capability, Line, Posed, Said, TaskWish, Wish};
use crate::jsonrpc::RpcError;

/// So many questions of one call are open.
const MAX_OPEN: usize = 32;
const GONE: &str = "the client has gone";

/// How a client is asked.
#[derive(Debug)]
pub(crate) enum Way {
    /// The method runs again with the answers.
    Again {
        answers: Recorded,
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
    Asks(Asks),
    /// To what the client cannot do.
    Lacks(Capability),
    /// To where it runs on as a task, with what it asked before.
    Task(TaskWish, Asks),
}

/// What a method asked: what has no answer, and the answers that it had.
#[derive(Debug, Default)]
pub(crate) struct Asks {
    pub(crate) unanswered: Vec<Posed>,
    pub(crate) used: Recorded,
}

/// Runs a method and sees to its wishes. What has not come to its end can be run on, with what it asked
/// so far.
pub(crate) async fn converse<T>(
    line: &Line,
    way: &Way,
    mut asks: Asks,
    run: &mut (impl Future<Output = T> + Unpin),
) -> Conversed<T> {
    // Taken back when the method is over, whatever came of them.
    let mut waiting = Waiting::default();
    loop {
        let wish = tokio::select! {
            biased;
            result = &mut *run => return Conversed::Over(result),
            () = line.hung_up(), if !waiting.is_empty() => {
                waiting.give_up();
                continue;
            }
            wish = next(line, !asks.unanswered.is_empty()) => wish,
        };
        let posed = match wish {
            Some(Wish::Question(posed)) => posed,
            Some(Wish::Task(wish)) if asks.unanswered.is_empty() => match task(line, way, wish) {
                Tasked::Yes(wish) => return Conversed::Task(wish, asks),
                Tasked::Lacks => return Conversed::Lacks(Capability::Tasks),
                Tasked::No => continue,
            },
            // Nothing more comes before an answer does.
            Some(Wish::Task(_)) | None => return Conversed::Asks(asks),
        };
        let lacks = !line.capabilities().has(posed.needs);
        match way {
            Way::Cannot(why) => posed.answer(Err((*why).to_owned())),
            Way::Again { .. } if lacks => return Conversed::Lacks(posed.needs),
            Way::Again { answers, .. } => asks.take(posed, answers),
            Way::Live { .. } if lacks => {
                let problem = format!("the client does not offer {}", posed.needs);
                posed.answer(Err(problem));
            }
            Way::Live { .. } if line.has_hung_up() => posed.answer(Err(GONE.to_owned())),
            Way::Live { scope, questions } => waiting.put(questions, *scope, posed, line),
        }
    }
}

impl Asks {
    /// Gives a question its answer, if that was for the same question and fits.
    fn take(&mut self, posed: Posed, answers: &Recorded) {
        match answers.answer_to(&posed) {
            Some(answer) => {
                self.used.record(&posed, answer);
                posed.answer(Ok(answer.to_owned()));
            }
            None => self.unanswered.push(posed),
        }
    }
}

/// What comes of the wish to run on as a task.
enum Tasked {
    Yes(TaskWish),
    /// The client would have to be able to come back.
    Lacks,
    /// The method goes on, or fails, as it is.
    No,
}

fn task(line: &Line, way: &Way, wish: TaskWish) -> Tasked {
    let can = line.capabilities().has(Capability::Tasks);
    match way {
        Way::Again { tasks: true, .. } if can => return Tasked::Yes(wish),
        Way::Again { tasks: true, .. } if wish.is_required => return Tasked::Lacks,
        _ if wish.is_required => {
            wish.answer(Err("this runs as a task only, and here it cannot".to_owned()));
        }
        _ => wish.answer(Ok(false)),
    }
    Tasked::No
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

    /// A client's answer. Comes back with whether something here waits for it.
    pub(crate) fn answer(&self, scope: Scope, id: &RawValue, outcome: Outcome<'_>) -> bool {
        let Some(id) = crate::strict_json::text(id) else { return false };
        let Some(posed) = self.lock().remove(&(scope, id.into_owned())) else { return false };
        posed.answer(match outcome {
            Ok(result) => Ok(result.to_owned()),
            Err(error) => Err(refused(error)),
        });
        true
    }
}

fn refused(error: &RawValue) -> String {
    let error = serde_json::from_str::<RpcError>(error.get());
    let words = error.map_or_else(|_| "it gave no reason".to_owned(), |error| error.to_string());
    format!("the client did not answer: {words}")
}

/// The questions of one call that wait for their client.
#[derive(Debug, Default)]
struct Waiting(Vec<Place>);

impl Waiting {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Sends a question off. Its id cannot be guessed.
    fn put(&mut self, questions: &Arc<Questions>, scope: Scope, posed: Posed, line: &Line) {
        // What was answered, or is no longer waited for, is let go.
        self.0.retain(Place::is_awaited);
        if self.0.len() >= MAX_OPEN {
            return posed.answer(Err("too many questions are open".to_owned()));
        }
        let Some(id) = random_id() else {
            return posed.answer(Err("the question has no id: there is no randomness".to_owned()));
        };
        let (method, params) = (posed.method, posed.params.clone());
        let key = (scope, id.clone());
        questions.lock().insert(key.clone(), posed);
        self.0.push(Place { questions: Arc::clone(questions), key });
        line.say(Said::Request { id, method, params });
    }

    /// The client has gone: nobody could hear what becomes of it.
    fn give_up(&mut self) {
        for place in self.0.drain(..) {
            let posed = place.questions.lock().remove(&place.key);
            if let Some(posed) = posed {
                posed.answer(Err(GONE.to_owned()));
            }
        }
    }
}

/// A question's place among those that are open.
#[derive(Debug)]
struct Place {
    questions: Arc<Questions>,
    key: (Scope, String),
}

impl Place {
    fn is_awaited(&self) -> bool {
        self.questions.lock().get(&self.key).is_some_and(Posed::is_awaited)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.questions.lock().remove(&self.key);
    }
}
