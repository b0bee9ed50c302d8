//! Another program that changes the catalog all the time, in plain SQL: two methods come and go together.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use callgate_test_support::DatabaseServer;

/// So long lies between two changes.
const PACE: Duration = Duration::from_millis(500);
/// What takes them away, if they are there.
const GO: &str = "DELETE FROM rpc_methods WHERE rpc_method IN ('pair.left', 'pair.right');
    DELETE FROM section_actions WHERE method IN ('pair.left', 'pair.right');";
/// What brings them.
const COME: &str = "INSERT INTO rpc_methods (rpc_method, sections, upstream)
        VALUES ('pair.left', 'work', 'default'), ('pair.right', 'work', 'default');
    INSERT INTO section_actions (id_section, plugin, method, mask)
        SELECT id, 'default', 'pair.left', 2 FROM sections WHERE ident = 'work';
    INSERT INTO section_actions (id_section, plugin, method, mask)
        SELECT id, 'default', 'pair.right', 2 FROM sections WHERE ident = 'work';";

/// The other program; it ends with this.
pub(crate) struct Churn {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Churn {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Churn {
    pub(crate) fn start(server: Arc<DatabaseServer>, database: String) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let is_over = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            while !is_over.load(Ordering::Relaxed) {
                for what in [&[GO, COME].concat(), GO] {
                    // While the server is away there is nothing to change.
                    let sql = format!("BEGIN; {what} COMMIT;");
                    let _ = server.try_sql(&database, &sql);
                    std::thread::sleep(PACE);
                }
            }
        });
        Self { stop, thread: Some(thread) }
    }
}
