//! Another program that adds and removes two methods in one transaction, again and again, in plain SQL.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use callgate_test_support::DatabaseServer;

/// Time between two changes.
const INTERVAL: Duration = Duration::from_millis(500);
const REMOVE: &str = "DELETE FROM rpc_methods WHERE rpc_method IN ('pair.left', 'pair.right');
    DELETE FROM section_actions WHERE method IN ('pair.left', 'pair.right');";
const ADD: &str = "INSERT INTO rpc_methods (rpc_method, sections, upstream)
        VALUES ('pair.left', 'work', 'default'), ('pair.right', 'work', 'default');
    INSERT INTO section_actions (id_section, plugin, method, mask)
        SELECT id, 'default', 'pair.left', 2 FROM sections WHERE ident = 'work';
    INSERT INTO section_actions (id_section, plugin, method, mask)
        SELECT id, 'default', 'pair.right', 2 FROM sections WHERE ident = 'work';";

/// The other program. It stops when this is dropped.
pub(crate) struct CatalogChanges {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for CatalogChanges {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl CatalogChanges {
    pub(crate) fn start(server: Arc<DatabaseServer>, database: String) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let is_stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            while !is_stopped.load(Ordering::Relaxed) {
                for statements in [&[REMOVE, ADD].concat(), REMOVE] {
                    // Fails while the database server is down.
                    let sql = format!("BEGIN; {statements} COMMIT;");
                    let _ = server.try_sql(&database, &sql);
                    std::thread::sleep(INTERVAL);
                }
            }
        });
        Self { stop, thread: Some(thread) }
    }
}
