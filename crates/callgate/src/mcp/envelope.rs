//! One message, taken apart in one pass over its text: the envelope, `params` and `_meta`. What is in
//! them stays as it stands.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::classify::{Asked, Incoming};
use super::members::Members;
use super::reject::Reject;
use crate::jsonrpc::{self, EnvelopeError, Head, INVALID_PARAMS, Message, Request};
use crate::strict_json::Key;

/// Objects with more members than this are no parameters of MCP; to compare each with each must not
/// be much work.
const MAX_MEMBERS: usize = 64;

/// Reads a message.
pub(crate) fn incoming(body: &str) -> Result<Incoming<'_>, Reject> {
    let refused = |error: EnvelopeError| Reject::bad_request(error.code(), error.to_string());
    let mut deserializer = serde_json::Deserializer::from_str(body);
    let read = deserializer.deserialize_map(Envelope).and_then(|envelope| {
        deserializer.end()?;
        Ok(envelope)
    });
    let (head, params) = read.map_err(|error| refused(jsonrpc::why_not_an_object(body, error)))?;
    let about = |reject: Reject, id: Option<&RawValue>| match id {
        Some(id) => reject.of(id),
        None => reject,
    };
    let id = head.id().filter(|id| is_id(id.get()));
    if head.id().is_some() && id.is_none() {
        return Err(refused(EnvelopeError::invalid("`id` must be a string or an integer")));
    }
    let checked = head.check().map_err(|error| about(refused(error), id))?;
    let (id, method) = match checked {
        Message::Request(Request { id, method, .. }) => (id, method),
        Message::Response { id, outcome } => return Ok(Incoming::Response { id, outcome }),
    };
    let Params { members, meta, problem } = params.unwrap_or_default();
    match (id, problem) {
        (Some(id), None) => Ok(Incoming::Request(Asked { id, method, params: members, meta })),
        (None, None) => Ok(Incoming::Notification { method, params: members }),
        (Some(id), Some(problem)) => Err(problem.reject().of(id)),
        (None, Some(problem)) => Err(problem.reject().of_notification()),
    }
}

/// Longer numbers than this are none that readers of JSON agree on.
const MAX_DIGITS: usize = 20;

/// Whether this can be the id of a request: the schemas know strings and whole numbers.
pub(super) fn is_id(raw: &str) -> bool {
    raw.starts_with('"')
        || (raw.starts_with(|c: char| c == '-' || c.is_ascii_digit())
            && raw.len() <= MAX_DIGITS
            && !raw.contains(['.', 'e', 'E']))
}

/// `params`, and what is wrong with them; that is told once the id is known.
#[derive(Default)]
struct Params<'a> {
    members: Members<'a>,
    meta: Members<'a>,
    problem: Option<Problem>,
}

enum Problem {
    /// Neither an object nor a list.
    NotStructured,
    Wrong(String),
}

impl Problem {
    fn reject(self) -> Reject {
        match self {
            Self::NotStructured => {
                let error = EnvelopeError::invalid("`params` must be an object");
                Reject::bad_request(error.code(), error.to_string())
            }
            Self::Wrong(problem) => Reject::bad_request(INVALID_PARAMS, problem),
        }
    }
}

struct Envelope;

impl<'de> Visitor<'de> for Envelope {
    type Value = (Head<'de>, Option<Params<'de>>);

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut head = Head::default();
        let mut params = None;
        let mut others = Members::default();
        while let Some(Key(key)) = map.next_key()? {
            let is_new = if key == "params" {
                params.replace(map.next_value_seed(ParamsSeed)?).is_none()
            } else {
                let value = map.next_value()?;
                if others.len() >= MAX_MEMBERS {
                    return Err(serde::de::Error::custom("the message has too many members"));
                }
                head.member(&key, value).unwrap_or_else(|| others.add(key.clone(), value))
            };
            if !is_new {
                return Err(serde::de::Error::custom(format_args!(
                    "the key `{key}` is there twice"
                )));
            }
        }
        Ok((head, params))
    }
}

struct ParamsSeed;

impl<'de> DeserializeSeed<'de> for ParamsSeed {
    type Value = Params<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        let object = deserializer.deserialize_any(ObjectVisitor { with_meta: true })?;
        let problem = match object.problem {
            None => None,
            Some(Wrong::NotStructured) => Some(Problem::NotStructured),
            Some(wrong) => Some(Problem::Wrong(format!("`params` {wrong}"))),
        };
        let meta_problem = object.meta_problem.map(|wrong| format!("`params._meta` {wrong}"));
        let problem = problem.or(meta_problem.map(Problem::Wrong));
        let meta = object.meta.unwrap_or_default();
        Ok(Params { members: object.members, meta, problem })
    }
}

/// An object's members, or why there are none.
#[derive(Default)]
struct Object<'a> {
    members: Members<'a>,
    problem: Option<Wrong>,
    /// The members of its `_meta`.
    meta: Option<Members<'a>>,
    meta_problem: Option<Wrong>,
}

impl Object<'_> {
    fn not_structured() -> Self {
        Self { problem: Some(Wrong::NotStructured), ..Self::default() }
    }
}

enum Wrong {
    NotStructured,
    List,
    Twice(String),
    TooMany,
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotStructured | Self::List => f.write_str("must be an object"),
            Self::Twice(key) => write!(f, "must be an object: the key `{key}` is there twice"),
            Self::TooMany => write!(f, "has more than {MAX_MEMBERS} members"),
        }
    }
}

/// Reads any value; only an object has members.
struct ObjectVisitor {
    /// Whether `_meta` is taken apart too.
    with_meta: bool,
}

impl<'de> DeserializeSeed<'de> for ObjectVisitor {
    type Value = Object<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ObjectVisitor {
    type Value = Object<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut object = Object { members: Members::with_capacity(4), ..Object::default() };
        while let Some(Key(key)) = map.next_key()? {
            if self.with_meta && key == "_meta" {
                let meta = map.next_value_seed(ObjectVisitor { with_meta: false })?;
                object.meta_problem = meta.problem;
                if object.meta.replace(meta.members).is_some() {
                    object.problem = Some(Wrong::Twice(key.into_owned()));
                }
                continue;
            }
            let value: &'de RawValue = map.next_value()?;
            if object.members.len() >= MAX_MEMBERS {
                object.problem = Some(Wrong::TooMany);
            } else if !object.members.add(key.clone(), value) {
                object.problem = Some(Wrong::Twice(key.into_owned()));
            }
        }
        Ok(object)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Object { problem: Some(Wrong::List), ..Object::default() })
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
        Ok(Object::not_structured())
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
        Ok(Object::not_structured())
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
        Ok(Object::not_structured())
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
        Ok(Object::not_structured())
    }

    fn visit_str<E>(self, _: &str) -> Result<Self::Value, E> {
        Ok(Object::not_structured())
    }

    /// Some clients write null for nothing.
    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Object::default())
    }
}
