//! `callgate registry copy`, and the output of `callgate migrate --dry-run`.

use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};

use super::support::{Server, TestDirectory};

/// SQL that inserts so many tokens that copying takes a noticeable time.
pub(crate) const TOKENS: &str = "
    WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < 20000)
    INSERT INTO callgate_tokens (id_user, name, digest, created_at)
    SELECT 1, 'token ' || n, printf('%064x', n), 1700000000 FROM numbers;";

/// Returns a registry `from.db` with some rows in every table.
pub(crate) fn source() -> TestDirectory {
    let dir = TestDirectory::new();
    let ok = |arguments: &[&str]| {
        dir.ok(&[arguments, &["--database", "sqlite:from.db"]].concat());
    };
    ok(&["migrate"]);
    ok(&["section", "add", "content", "--caption", "Content 😀"]);
    ok(&["user", "add", "ada", "--role", "editors"]);
    ok(&["grant", "set", "content", "write", "--role", "editors"]);
    ok(&["method", "add", "article.get", "--param", "int $id", "--section", "content:read"]);
    dir
}

#[test]
fn a_registry_is_copied_and_compared() {
    let dir = source();
    let copy = ["registry", "copy", "sqlite:from.db", "sqlite:to.db"];
    let output = dir.run(&copy);
    insta::assert_snapshot!(format!("{}----\n{}", output.stdout(), output.stderr()));
    let export = |name: &str| dir.ok(&["export", "--database", name]);
    assert_eq!(export("sqlite:to.db"), export("sqlite:from.db"));
    assert!(dir.run(&copy).stderr().ends_with("sqlite:to.db was complete already\n"));
    dir.ok(&["user", "add", "bob", "--database", "sqlite:to.db"]);
    let failures = [
        dir.run(&copy).failure(),
        dir.run(&["registry", "copy", "sqlite:none.db", "sqlite:new.db"]).failure(),
    ];
    insta::assert_debug_snapshot!(failures);
    assert!(!dir.path("new.db").exists(), "nothing is made where there is nothing to copy");
}

/// A target that accepts half of the tokens, and then never finishes writing.
const HOLD: &str = "
    CREATE VIEW endless AS WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers)
        SELECT n FROM numbers;
    CREATE TRIGGER hold AFTER INSERT ON callgate_tokens WHEN NEW.id > 10000
        BEGIN SELECT COUNT(*) FROM endless; END;";

#[test]
fn a_killed_copy_leaves_an_empty_target_and_a_second_copy_is_complete() {
    let dir = source();
    dir.sql("from.db", TOKENS);
    dir.ok(&["migrate", "--database", "sqlite:to.db"]);
    dir.sql("to.db", HOLD);
    let copy = ["registry", "copy", "sqlite:from.db", "sqlite:to.db"];
    let mut command = dir.command(&copy);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let stderr = BufReader::new(child.stderr.take().unwrap()).lines();
    let reached = stderr.map_while(Result::ok).any(|line| line == "copying callgate_tokens");
    // Kills with SIGKILL.
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(reached);
    dir.sql("to.db", "DROP TRIGGER hold; DROP VIEW endless;");
    let users = || dir.ok(&["user", "list", "--database", "sqlite:to.db"]);
    assert_eq!(users(), "ID  NAME  ROLE\n");
    let second = dir.run(&copy).expect_success();
    assert!(second.stderr().contains("copying users"), "{}", second.stderr());
    assert!(
        second.stdout().contains("callgate_tokens                 20000  equal"),
        "{}",
        second.stdout()
    );
    assert!(users().contains("ada"));
}

#[test]
fn a_dry_run_of_migrate_prints_sql_without_running_it() {
    let dir = TestDirectory::new();
    let output = dir.run(&["migrate", "--dry-run", "--preset", "festi"]);
    assert!(output.0.status.success());
    assert!(!dir.path("callgate.db").exists());
    insta::assert_snapshot!(output.stderr());
    let script = output.stdout();
    assert!(script.contains("CREATE TABLE festi_sections ("), "{script}");
    // After the script has run, nothing is left to migrate.
    dir.sql("callgate.db", script.leak());
    let permissions = std::fs::Permissions::from_mode(0o600);
    std::fs::set_permissions(dir.path("callgate.db"), permissions).unwrap();
    let repeated = dir.run(&["migrate", "--dry-run"]);
    assert_eq!(repeated.stdout(), "");
    assert_eq!(repeated.stderr(), "sqlite:callgate.db is up to date: nothing to do\n");
    assert_eq!(dir.run(&["migrate"]).stderr(), "sqlite:callgate.db is up to date\n");
    assert_eq!(dir.ok(&["section", "list"]), "ID  IDENT  CAPTION\n");
    // Only the settings are missing, because the script does not contain them.
    let settings = dir.run(&["migrate", "--dry-run", "--preset", "festi"]).stderr();
    assert!(settings.lines().count() == 4 && settings.contains("would set"), "{settings}");
    dir.ok(&["migrate", "--preset", "festi"]);
    let repeated = dir.run(&["migrate", "--dry-run", "--preset", "festi"]);
    assert_eq!(repeated.stderr(), "sqlite:callgate.db is up to date: nothing to do\n");
}

#[test]
fn a_dry_run_of_migrate_with_an_attached_festi_database_succeeds_without_output() {
    let dir = TestDirectory::migrated();
    let attached = ["--preset", "festi", "--attach", "sqlite:festi.db"];
    let output = dir.run(&[&["migrate", "--dry-run"], &attached[..]].concat());
    assert!(output.0.status.success() && output.stdout().is_empty(), "{}", output.stderr());
    dir.ok(&[&["migrate"], &attached[..]].concat());
}

fn with_umask(dir: &TestDirectory, umask: &str, arguments: &[&str]) -> Command {
    let program = dir.command(arguments);
    let mut command = Command::new("sh");
    command.args(["-c", "umask \"$0\" && exec \"$@\"", umask]).arg(program.get_program());
    command.args(program.get_args()).current_dir(dir.path(""));
    command
}

fn mode(dir: &TestDirectory, file: &str) -> u32 {
    std::fs::metadata(dir.path(file)).unwrap().permissions().mode() & 0o777
}

#[test]
fn files_of_a_registry_are_private_with_every_umask() {
    for umask in ["000", "022", "077"] {
        let dir = TestDirectory::new();
        for arguments in
            [&["migrate"][..], &["registry", "copy", "sqlite:callgate.db", "sqlite:copy.db"]]
        {
            let output = with_umask(&dir, umask, arguments).output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        }
        let serve = ["serve", "--json", "--listen", "127.0.0.1:0"];
        let _server = Server::start(with_umask(&dir, umask, &serve));
        let _demo = Server::start(with_umask(&dir, umask, &[&serve[..], &["--demo"]].concat()));
        for name in ["callgate.db", "callgate-demo.db"] {
            for file in ["", "-wal", "-shm"].map(|suffix| format!("{name}{suffix}")) {
                assert_eq!(mode(&dir, &file), 0o600, "umask {umask}: {file}");
            }
        }
        assert_eq!(mode(&dir, "copy.db"), 0o600, "umask {umask}");
    }
}

#[test]
fn a_registry_that_other_users_can_read_or_change_causes_a_warning() {
    let dir = TestDirectory::new();
    let set = |mode| {
        let mode = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(dir.path("callgate.db"), mode).unwrap();
    };
    let warning = "run `chmod 600 callgate.db";
    assert!(!dir.run(&["migrate"]).stderr().contains("warning"));
    for (mode, is_open) in [(0o644, true), (0o640, true), (0o620, true), (0o600, false)] {
        set(mode);
        assert_eq!(dir.run(&["migrate"]).stderr().contains(warning), is_open, "{mode:o}");
        let server = dir.serve(&[]);
        assert_eq!(server.stop().1.contains(warning), is_open, "{mode:o}");
    }
}
