//! The program on real database servers.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use callgate_test_support::{DatabaseServer, Engine};

use super::support::{CommandOutput, TestDirectory};

/// Returns each server, and the statement that grants a user only the rights that serving needs.
fn databases() -> [(&'static DatabaseServer, &'static str); 2] {
    let tmp = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let postgres = "CREATE ROLE {user} LOGIN PASSWORD 'hunter2';
        GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {user};
        GRANT USAGE, SELECT, UPDATE ON ALL SEQUENCES IN SCHEMA public TO {user};";
    let mysql = "CREATE USER {user}@'127.0.0.1' IDENTIFIED BY 'hunter2';
        GRANT SELECT, INSERT, UPDATE, DELETE ON {database}.* TO {user}@'127.0.0.1';";
    [(Engine::Postgres.shared(tmp), postgres), (Engine::MariaDb.shared(tmp), mysql)]
}

/// Returns a URL for another user, without a password.
pub(super) fn url_for_user(url: &str, user: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap();
    format!("{scheme}://{user}@{}", rest.rsplit_once('@').unwrap().1)
}

fn run(mut command: Command, password: &str) -> CommandOutput {
    CommandOutput(command.env("CALLGATE_DATABASE_PASSWORD", password).output().unwrap())
}

#[test]
fn servers_that_start_concurrently_create_one_registry() {
    let dir = TestDirectory::new();
    for (database, _) in databases() {
        let url = database.database().url;
        let start = || dir.serve_with(&[("CALLGATE_DATABASE", &url)], &[]);
        let servers = std::thread::scope(|scope| {
            let threads = [scope.spawn(start), scope.spawn(start)];
            threads.map(|thread| thread.join().unwrap())
        });
        for server in servers {
            assert_eq!(server.get("", "/readyz").status, 200);
        }
    }
}

#[test]
fn a_database_user_without_ddl_rights_can_serve_an_existing_registry() {
    for (database, grants) in databases() {
        let dir = TestDirectory::new();
        let (existing, empty) = (database.database(), database.database());
        dir.ok(&["migrate", "--database", &existing.url]);
        let user = format!("app_{}", existing.name);
        let grants = grants.replace("{user}", &user).replace("{database}", &existing.name);
        database.sql(&existing.name, &grants);
        let url = url_for_user(&existing.url, &user);
        let run_ok = |arguments: &[&str]| {
            let output = run(dir.command(&[arguments, &["--database", &url]].concat()), "hunter2");
            assert!(output.0.status.success(), "{arguments:?}: {}", output.stderr());
            output
        };
        assert!(run_ok(&["migrate"]).stderr().ends_with("is up to date\n"));
        run_ok(&["user", "add", "ada", "--role", "editors"]);
        run_ok(&["token", "add", "ada"]);
        let variables = [("CALLGATE_DATABASE", &*url), ("CALLGATE_DATABASE_PASSWORD", "hunter2")];
        assert_eq!(dir.serve_with(&variables, &[]).get("", "/readyz").status, 200);
        // The user cannot create missing tables.
        let url = url_for_user(&empty.url, &user);
        let (code, stderr) =
            run(dir.command(&["migrate", "--database", &url]), "hunter2").failure();
        assert_eq!(code, 1);
        assert!(stderr.contains(&format!("cannot migrate the registry `{url}`")), "{stderr}");
        assert!(stderr.contains("hint: check the user"), "{stderr}");
    }
}

#[test]
fn connection_errors_of_databases_have_hints() {
    for (database, _) in databases() {
        let dir = TestDirectory::new();
        let url = url_for_user(&database.database().url, "callgate");
        let absent = format!("{}/absent", url.rsplit_once('/').unwrap().0);
        let (head, port) = url.rsplit_once(':').unwrap();
        let closed = format!("{head}:1/{}", port.split_once('/').unwrap().1);
        for (url, password, hint) in [
            (&closed, "s3cret:/@%", "hint: check that the database is running"),
            (&url, "hunter2", "hint: check the user, the password"),
            (&absent, "s3cret:/@%", "hint: create the database first"),
        ] {
            let (code, stderr) =
                run(dir.command(&["migrate", "--database", url]), password).failure();
            assert_eq!(code, 1);
            assert!(stderr.contains(url) && stderr.contains(hint), "{stderr}");
            assert!(!stderr.contains(password), "{stderr}");
        }
    }
}

#[test]
fn a_registry_is_copied_through_all_databases_although_copies_are_killed() {
    let dir = super::copy::source();
    dir.sql("from.db", super::copy::TOKENS);
    dir.write("password", "s3cret:/@%\n");
    let [postgres, mysql] =
        databases().map(|(database, _)| url_for_user(&database.database().url, "callgate"));
    let urls = ["sqlite:from.db", &postgres, &mysql, "sqlite:back.db"];
    let mut interrupted = 0;
    for step in urls.windows(2) {
        let files = ["--from-password-file", "password", "--to-password-file", "password"];
        let copy = [&["registry", "copy", step[0], step[1]], &files[..]].concat();
        let mut command = dir.command(&copy);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap()).lines();
        assert!(stderr.map_while(Result::ok).any(|line| line == "copying callgate_tokens"));
        child.kill().unwrap();
        let is_interrupted = !child.wait().unwrap().success();
        let users = run(dir.command(&["user", "list", "--database", step[1]]), "s3cret:/@%");
        assert_eq!(users.stdout().contains("ada"), !is_interrupted, "{}", users.stderr());
        interrupted += usize::from(is_interrupted);
        let second = dir.run(&copy).expect_success();
        assert_eq!(
            second.stderr().contains("copying users"),
            is_interrupted,
            "{}",
            second.stderr()
        );
    }
    assert!(interrupted > 0, "each copy was faster than its kill");
    let output = dir.run(&["registry", "copy", "sqlite:from.db", "sqlite:back.db"]);
    assert!(
        output.stderr().ends_with("sqlite:back.db was complete already\n"),
        "{}",
        output.stderr()
    );
    let export = |name: &str| dir.ok(&["export", "--database", name]);
    assert_eq!(export("sqlite:back.db"), export("sqlite:from.db"));
}
