//! Upstreams that are defined by rows of the registry.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use callgate::Caller;
use callgate::gateway::Gateway;
use callgate::upstream::{
    BoxFuture, Call, CallError, CallFailure, CallOutput, CallerMethods, Identity, ListError,
    MethodLister, Upstream,
};

use crate::rows::UpstreamRow;

/// Creates upstreams from rows.
pub trait UpstreamFactory: Send + Sync + fmt::Debug {
    /// Creates an upstream. An error must not contain secrets. The function may block, because it is not called on a
    /// thread that serves requests.
    fn build(&self, row: &UpstreamRow) -> Result<Arc<dyn Upstream>, String>;
}

/// Upstreams of the registry.
#[derive(Debug, Default)]
pub(crate) struct RowUpstreams {
    factory: Option<Arc<dyn UpstreamFactory>>,
    current: Mutex<CurrentUpstreams>,
}

#[derive(Debug, Default)]
struct CurrentUpstreams {
    /// Upstreams and their rows, by name.
    built: HashMap<Arc<str>, (UpstreamRow, Arc<dyn Upstream>)>,
    problems: BTreeSet<String>,
}

impl RowUpstreams {
    pub(crate) fn new(factory: Option<Arc<dyn UpstreamFactory>>) -> Self {
        Self { factory, current: Mutex::default() }
    }

    /// Replaces the upstreams of the gateway. Unchanged upstreams are kept, with their connections and counters.
    /// Returns the previous and the current problems.
    pub(crate) fn update(
        &self,
        rows: &[UpstreamRow],
        gateway: &Gateway,
    ) -> (BTreeSet<String>, BTreeSet<String>) {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let mut now = CurrentUpstreams::default();
        let mut served: HashMap<Arc<str>, Arc<dyn Upstream>> = HashMap::new();
        for row in rows {
            let name: Arc<str> = row.name.as_str().into();
            if gateway.has_static_upstream(&name) {
                now.problems.insert(format!(
                    "upstream `{name}` of the registry is ignored, because the program defines an upstream \
                     with the same name"
                ));
                continue;
            }
            let built = match current.built.remove(&name) {
                Some((before, upstream)) if before == *row => Ok(upstream),
                _ => self.build(row),
            };
            match built {
                Ok(upstream) => {
                    served.insert(Arc::clone(&name), Arc::clone(&upstream));
                    now.built.insert(name, (row.clone(), upstream));
                }
                Err(reason) => {
                    now.problems.insert(format!("upstream `{name}` is quarantined: {reason}"));
                    served.insert(name, Arc::new(Quarantined::new(row, reason)));
                }
            }
        }
        gateway.set_dynamic_upstreams(served);
        let problems = now.problems.clone();
        let before = std::mem::replace(&mut *current, now);
        (before.problems, problems)
    }

    fn build(&self, row: &UpstreamRow) -> Result<Arc<dyn Upstream>, String> {
        match &self.factory {
            Some(factory) => factory.build(row),
            None => Err("this program does not support upstreams in the registry".to_owned()),
        }
    }
}

/// Takes the place of an upstream whose row is invalid. All calls to it fail.
#[derive(Debug)]
struct Quarantined {
    reason: String,
    /// Whether the service decides which methods callers see. If so, callers see none of its methods while the upstream
    /// is quarantined.
    limits_callers: bool,
}

impl Quarantined {
    fn new(row: &UpstreamRow, reason: String) -> Self {
        let keys = serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(&row.config);
        let limits_callers = match keys {
            Ok(keys) => keys.get("visibility").is_some_and(|visibility| visibility != "registry"),
            Err(_) => true,
        };
        Self { reason, limits_callers }
    }
}

impl MethodLister for Quarantined {
    fn max_age(&self) -> Duration {
        Duration::from_mins(1)
    }

    fn identity<'a>(&'a self, _: &'a Caller) -> BoxFuture<'a, Result<Option<Identity>, ListError>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    fn methods<'a>(&'a self, _: &'a Caller) -> BoxFuture<'a, Result<CallerMethods, ListError>> {
        let refused = CallerMethods::Refused("the upstream is quarantined".to_owned());
        Box::pin(std::future::ready(Ok(refused)))
    }
}

impl Upstream for Quarantined {
    fn method_lister(&self) -> Option<&dyn MethodLister> {
        self.limits_callers.then_some(self as _)
    }

    fn call<'a>(&'a self, _: Call<'a>) -> BoxFuture<'a, Result<CallOutput, CallError>> {
        let message = "The configuration of the service behind this tool is invalid. Nothing was run; \
                     an administrator has to correct it.";
        let detail = format!("the upstream is quarantined: {}", self.reason);
        let failure = CallFailure::new(message, detail);
        Box::pin(std::future::ready(Err(CallError::Failed(failure))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// Creates upstreams from all rows except those whose configuration is `no`.
    #[derive(Debug, Default)]
    struct Factory(AtomicUsize);

    impl UpstreamFactory for Factory {
        fn build(&self, row: &UpstreamRow) -> Result<Arc<dyn Upstream>, String> {
            self.0.fetch_add(1, Ordering::SeqCst);
            if row.config == "no" {
                Err("no".to_owned())
            } else {
                Ok(Arc::new(Quarantined::new(row, String::new())))
            }
        }
    }

    fn row(name: &str, config: &str) -> UpstreamRow {
        UpstreamRow { name: name.to_owned(), config: config.to_owned() }
    }

    #[test]
    fn unchanged_upstreams_are_kept_and_invalid_ones_are_retried() {
        let factory = Arc::new(Factory::default());
        let upstreams = RowUpstreams::new(Some(Arc::clone(&factory) as _));
        let gateway = Gateway::new([]);
        let update = |rows: &[UpstreamRow]| {
            let problems = upstreams.update(rows, &gateway).1.len();
            (factory.0.load(Ordering::SeqCst), gateway.upstream_names().len(), problems)
        };
        assert_eq!(update(&[row("a", "1"), row("b", "no")]), (2, 2, 1));
        assert_eq!(update(&[row("a", "1"), row("b", "no")]), (3, 2, 1));
        assert_eq!(update(&[row("a", "2"), row("b", "1")]), (5, 2, 0));
        assert_eq!(update(&[row("b", "1")]), (5, 1, 0));
        assert_eq!(update(&[]), (5, 0, 0));
    }

    #[test]
    fn quarantined_upstreams_list_no_methods_unless_the_registry_decides_visibility() {
        for (config, is_closed) in [
            ("{}", false),
            (r#"{"visibility":"registry"}"#, false),
            (r#"{"visibility":"upstream"}"#, true),
            ("not JSON", true),
        ] {
            let quarantined = Quarantined::new(&row("a", config), String::new());
            assert_eq!(quarantined.method_lister().is_some(), is_closed, "{config}");
        }
    }

    #[test]
    fn upstreams_of_the_program_take_precedence_and_rows_require_a_factory() {
        let program_upstream: (Arc<str>, Arc<dyn Upstream>) =
            ("a".into(), Arc::new(Quarantined::new(&row("a", "{}"), "own".into())));
        let gateway = Gateway::new([program_upstream]);
        let upstreams = RowUpstreams::default();
        let (_, problems) = upstreams.update(&[row("a", "{}"), row("b", "{}")], &gateway);
        let problems: Vec<&str> = problems.iter().map(String::as_str).collect();
        assert_eq!(
            problems,
            [
                "upstream `a` of the registry is ignored, because the program defines an upstream with the same name",
                "upstream `b` is quarantined: this program does not support upstreams in the registry",
            ]
        );
        assert_eq!(gateway.upstream_names(), ["a".into(), "b".into()]);
    }
}
