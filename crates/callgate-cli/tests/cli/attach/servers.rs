//! The same tests on real database servers, as a user with read access only.

use std::path::Path;
use std::process::Command;

use callgate_test_support::{DatabaseServer, Engine};

use super::super::databases::url_for_user;
use super::super::support::{CommandOutput, Server, TestDirectory};
use super::{ACTION, ROLE_GRANT, SECTION, USER_GRANT, lists_tool, status};

const APPLICATION: &str = include_str!("../../../../callgate-registry/tests/festi/application.sql");
const USERS: &str = "INSERT INTO users_types (id, caption) VALUES (1, 'admin'), (2, 'reader');
    INSERT INTO users (id, id_type, login, password, access_token)
    VALUES (7, 1, 'root', 's3cret', 'token-of-root'), (123, 2, 'ada', 's3cret', 'token-of-ada');";
const TABLES: [&str; 8] = [
    "rpc_methods",
    "festi_sections",
    "festi_section_actions",
    "festi_sections_user_permission",
    "festi_sections_user_types_permission",
    "festi_settings",
    "users",
    "users_types",
];
const ACTIONS: &str = "festi_section_actions";

/// A Festi application in a database of a server, and a user who may read the tables that docs/guide/festi.md lists.
struct FestiApplication {
    server: &'static DatabaseServer,
    name: String,
    /// URL of the owner, with the password.
    url: String,
    /// URL of the reading user, without a password.
    reader_url: String,
    /// Name of the reading user in SQL.
    grantee: String,
}

impl FestiApplication {
    fn new(server: &'static DatabaseServer, unreadable: &[&str]) -> Self {
        let database = server.database();
        let (name, url) = (database.name, database.url);
        let is_mysql = url.starts_with("mysql");
        let tables = if is_mysql {
            include_str!("../../../../callgate-registry/tests/festi/mysql.sql")
        } else {
            include_str!("../../../../callgate-registry/tests/festi/pgsql.sql")
        };
        server.sql(&name, &format!("{tables}{APPLICATION}{USERS}"));
        let user = format!("reader_{name}");
        let (grantee, create) = if is_mysql {
            let grantee = format!("{user}@'127.0.0.1'");
            let create = format!("CREATE USER {grantee} IDENTIFIED BY 'hunter2'");
            (grantee, create)
        } else {
            (user.clone(), format!("CREATE ROLE {user} LOGIN PASSWORD 'hunter2'"))
        };
        server.sql(&name, &create);
        let application =
            Self { server, reader_url: url_for_user(&url, &user), name, url, grantee };
        for table in TABLES.iter().filter(|table| !unreadable.contains(table)) {
            application.grant(table);
        }
        application
    }

    /// Lets the user read a table, or the columns of it that docs/guide/festi.md lists.
    fn grant(&self, table: &str) {
        let columns = match table {
            "users" => " (id, id_type, login, access_token)",
            "festi_settings" => " (name, value)",
            _ => "",
        };
        self.sql(&format!("GRANT SELECT{columns} ON {table} TO {}", self.grantee));
    }

    fn sql(&self, sql: &str) -> String {
        self.server.sql(&self.name, sql)
    }

    /// Returns a checksum of all of Festi's tables.
    fn checksum(&self) -> String {
        if self.url.starts_with("mysql") {
            return self.sql(&format!("CHECKSUM TABLE {}", TABLES.join(", ")));
        }
        let sum = |table: &str| {
            self.sql(&format!(
                "SELECT md5(string_agg(t::text, '|' ORDER BY t::text)) FROM {table} t"
            ))
        };
        TABLES.map(sum).concat()
    }

    /// Returns a command with this database attached. The registry is in the same database, or in a file.
    fn command(&self, dir: &TestDirectory, is_same_database: bool, arguments: &[&str]) -> Command {
        let mut command = dir.command(&[arguments, &["--preset", "festi"]].concat());
        command.env("CALLGATE_ATTACH_DATABASE", &self.reader_url);
        command.env("CALLGATE_ATTACH_PASSWORD", "hunter2");
        if is_same_database {
            command.env("CALLGATE_DATABASE", &self.url);
        }
        command
    }
}

fn servers() -> [(&'static DatabaseServer, bool); 2] {
    let tmp = Path::new(env!("CARGO_TARGET_TMPDIR"));
    [(Engine::Postgres.shared(tmp), true), (Engine::MariaDb.shared(tmp), false)]
}

fn assert_followed((server, is_same_database): (&'static DatabaseServer, bool)) {
    let (dir, application) = (TestDirectory::new(), FestiApplication::new(server, &[]));
    let before = application.checksum();
    let run = |arguments: &[&str]| {
        let output =
            CommandOutput(application.command(&dir, is_same_database, arguments).output().unwrap());
        assert!(output.0.status.success(), "{arguments:?}: {}", output.stderr());
        output.stdout()
    };
    run(&["migrate"]);
    let registry_token = run(&["token", "add", "ada"]);
    run(&["method", "set", "getUserInfo", "--title", "Of ours"]);
    let arguments = ["serve", "--json", "--listen", "127.0.0.1:0"];
    let server = Server::start(application.command(&dir, is_same_database, &arguments));
    let (root, ada) = ("token-of-root", "token-of-ada");
    for token in [root, ada, registry_token.trim()] {
        assert_eq!(server.tools(token), ["getProjects", "getUserInfo"]);
    }
    assert!(server.get(ada, "/mcp/tools/list").body.contains("Of ours"));
    assert_eq!(status(&server, "token-of-nobody"), 401);
    assert_eq!(application.checksum(), before);
    application.sql(&format!("{SECTION}{ACTION}{ROLE_GRANT}"));
    server.wait_until("the role's grant counts", |server| lists_tool(server, root, "deleteUser"));
    assert!(!lists_tool(&server, ada, "deleteUser"));
    application.sql(USER_GRANT);
    server.wait_until("the user's grant counts", |server| lists_tool(server, ada, "deleteUser"));
    application.sql("UPDATE users SET access_token = 'another' WHERE login = 'ada'");
    server.wait_until("the new token counts", |server| status(server, "another") == 200);
    server.wait_until("the old token is dead", |server| status(server, ada) == 401);
    application.sql("UPDATE festi_sections_user_permission SET value = 0");
    let before = application.checksum();
    server.wait_until("a user's 0 denies", |server| !lists_tool(server, "another", "deleteUser"));
    let (code, log) = server.stop();
    assert_eq!(code, Some(0), "{log}");
    assert!(!log.contains("hunter2") && !log.contains("token-of"), "{log}");
    assert_eq!(application.checksum(), before);
}

#[test]
fn a_festi_database_on_postgres_is_followed_with_read_access_only() {
    assert_followed(servers()[0]);
}

#[test]
fn a_festi_database_on_mariadb_is_followed_with_read_access_only() {
    assert_followed(servers()[1]);
}

#[test]
fn an_import_is_refused_if_the_permissions_cannot_be_read() {
    for (server, _) in servers() {
        let (dir, application) = (TestDirectory::new(), FestiApplication::new(server, &[ACTIONS]));
        dir.write("password", "hunter2\n");
        dir.ok(&["migrate"]);
        let import = ["import", "festi", &application.reader_url, "--password-file", "password"];
        let (code, stderr) = dir.run(&import).failure();
        assert_eq!(code, 1, "{stderr}");
        assert!(stderr.contains(ACTIONS), "{stderr}");
        assert_eq!(dir.ok(&["method", "list", "--json"]), "");
        application.grant(ACTIONS);
        dir.ok(&import);
        assert!(dir.ok(&["method", "list"]).contains("deleteUser"));
    }
}
