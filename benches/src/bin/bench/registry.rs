//! The directory of the packaged program: its configuration, and its registry in SQLite, filled by plain SQL.

use std::net::SocketAddr;
use std::path::Path;

use callgate_bench::model;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions as _, SqliteConnection};
use tempfile::TempDir;
use tokio::runtime::{self, Runtime};

use crate::process::Server;

/// Maximum number of rows that one statement inserts.
const CHUNK: usize = 20_000;
/// First id of the inserted rows. The ids of the demo are lower.
const FIRST_ID: usize = 1000;

const SECTIONS: &str = "INSERT INTO sections (id, ident, mask)
    SELECT value->>'id', value->>'ident', 6 FROM json_each(?)";
const ROLES: &str = "INSERT INTO users_types (id, caption)
    SELECT value->>'id', value->>'caption' FROM json_each(?)";
const GRANTS: &str = "INSERT INTO sections_user_types_permission (id_section, id_user_type, value)
    SELECT value->>'section', value->>'role', value->>'mask' FROM json_each(?)";
/// Grants on the section of the demo that the called functions need.
const DEMO_GRANTS: &str =
    "INSERT INTO sections_user_types_permission (id_section, id_user_type, value)
    SELECT sections.id, users_types.id, 2 FROM sections, users_types
    WHERE ident = 'user_management' AND users_types.caption LIKE 'role%'";
const USERS: &str = "INSERT INTO users (id, login, id_type)
    SELECT value->>'id', value->>'login', value->>'role' FROM json_each(?)";
const TOKENS: &str = "INSERT INTO callgate_tokens (id_user, name, digest, created_at)
    SELECT value->>'user', 'bench', value->>'digest', 0 FROM json_each(?)";
const METHODS: &str = "INSERT INTO rpc_methods
    (rpc_method, description, params, sections, safety, upstream, remote_name)
    SELECT value->>'id', value->>'description', value->>'params', value->>'section', 'read_only',
        'service', value->>'remote' FROM json_each(?)";
/// The method of anvil, which takes no named parameters.
const CHAIN: &str = "INSERT INTO rpc_methods (rpc_method, safety, upstream, params_by)
    VALUES ('eth_chainId', 'read_only', 'service', 'position')";
const ACTIONS: &str = "INSERT INTO section_actions (id_section, plugin, method, mask)
    SELECT sections.id, upstream, rpc_method, 2 FROM rpc_methods
    JOIN sections ON ident = rpc_methods.sections WHERE upstream = 'service'";
const HIDE_DEMO: &str =
    "UPDATE rpc_methods SET exposed = 0 WHERE upstream = 'local' AND rpc_method <> 'user.get'";

/// A directory with a registry. It is removed when this value is dropped.
#[derive(Debug)]
pub(crate) struct Registry {
    directory: TempDir,
    runtime: Runtime,
}

/// Number of tools and of tokens. Each token belongs to a different user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) methods: usize,
    pub(crate) tokens: usize,
}

/// The size that comparisons use.
pub(crate) const DEFAULT_SIZE: Size = Size { methods: model::TOOLS, tokens: model::TOKENS };

impl Registry {
    /// Creates a registry with default limits. Its methods belong to a service, except for one function of the demo.
    pub(crate) fn create(size: Size, service: SocketAddr, batch: bool) -> anyhow::Result<Self> {
        let directory = tempfile::tempdir()?;
        let config = format!("[upstreams.service]\nurl = \"http://{service}/\"\nbatch = {batch}\n");
        std::fs::write(directory.path().join("callgate.toml"), config)?;
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        let registry = Self { directory, runtime };
        // The first start creates the tables.
        drop(Server::start_callgate(&registry, None)?);
        registry.fill(size)?;
        Ok(registry)
    }

    /// Returns the directory.
    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Changes the descriptions of methods that match a pattern.
    pub(crate) fn set_descriptions(&self, pattern: &str, description: &str) -> anyhow::Result<()> {
        const DESCRIBE: &str = "UPDATE rpc_methods SET description = ? WHERE rpc_method GLOB ?";
        self.runtime.block_on(async {
            let update = sqlx::query(DESCRIBE).bind(description).bind(pattern);
            update.execute(&mut self.connect().await?).await?;
            Ok(())
        })
    }

    /// Adds the method of anvil.
    pub(crate) fn add_chain(&self) -> anyhow::Result<()> {
        self.runtime.block_on(async {
            sqlx::query(CHAIN).execute(&mut self.connect().await?).await?;
            Ok(())
        })
    }

    async fn connect(&self) -> anyhow::Result<SqliteConnection> {
        let file = self.path().join("callgate-demo.db");
        let options = SqliteConnectOptions::new().filename(file);
        // A negative number is a size in KiB. This size is enough for the indexes of a million tokens.
        Ok(options.pragma("cache_size", "-400000").connect().await?)
    }

    fn fill(&self, size: Size) -> anyhow::Result<()> {
        self.runtime.block_on(async {
            let mut connection = self.connect().await?;
            sqlx::query("BEGIN").execute(&mut connection).await?;
            let connection = &mut connection;
            insert(connection, SECTIONS, (0..model::SECTIONS).map(section)).await?;
            insert(connection, ROLES, (0..model::GRANT_SETS).map(role)).await?;
            insert(connection, GRANTS, (0..model::GRANT_SETS).flat_map(grants)).await?;
            sqlx::query(DEMO_GRANTS).execute(&mut *connection).await?;
            insert(connection, USERS, (0..size.tokens).map(user)).await?;
            insert(connection, TOKENS, (0..size.tokens).map(token)).await?;
            insert(connection, METHODS, methods(size.methods)).await?;
            sqlx::query(ACTIONS).execute(&mut *connection).await?;
            sqlx::query(HIDE_DEMO).execute(&mut *connection).await?;
            sqlx::query("COMMIT").execute(connection).await?;
            Ok(())
        })
    }
}

async fn insert(
    connection: &mut SqliteConnection,
    statement: &'static str,
    rows: impl Iterator<Item = Value>,
) -> anyhow::Result<()> {
    let mut rows = rows.peekable();
    while rows.peek().is_some() {
        let chunk: Vec<Value> = rows.by_ref().take(CHUNK).collect();
        let chunk = Value::from(chunk).to_string();
        sqlx::query(statement).bind(chunk).execute(&mut *connection).await?;
    }
    Ok(())
}

fn section(number: usize) -> Value {
    json!({"id": FIRST_ID + number, "ident": model::section_name(number)})
}

fn role(set: usize) -> Value {
    json!({"id": FIRST_ID + set, "caption": format!("role{set}")})
}

fn grants(set: usize) -> impl Iterator<Item = Value> {
    (0..model::SECTIONS).map(move |section| {
        let mask = model::mask(set, section);
        json!({"section": FIRST_ID + section, "role": FIRST_ID + set, "mask": mask})
    })
}

fn user(number: usize) -> Value {
    let role = FIRST_ID + number % model::GRANT_SETS;
    json!({"id": FIRST_ID + number, "login": format!("user{number}"), "role": role})
}

fn token(number: usize) -> Value {
    let digest = Sha256::digest(model::token(number));
    let digest = digest.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"));
    json!({"user": FIRST_ID + number, "digest": digest})
}

/// Returns the rows of the methods that the demo does not have.
fn methods(count: usize) -> impl Iterator<Item = Value> {
    let tools = model::tools(count).into_iter().filter(|tool| tool.name != model::LOCAL);
    tools.map(|tool| {
        let is_called = tool.name == model::FORWARDED;
        let param = |param: &model::Param| {
            json!({"name": param.name, "type": param.notation, "description": param.description})
        };
        let params: Vec<Value> = tool.params.iter().map(param).collect();
        let section = tool.section.map(model::section_name);
        let section = section.or_else(|| is_called.then(|| "user_management".to_owned()));
        json!({
            // Lists are sorted by this id, in which a dot comes before an underscore.
            "id": if is_called { "user.fetch" } else { tool.name.as_str() },
            "description": tool.description,
            "params": Value::from(params).to_string(),
            "section": section,
            "remote": is_called.then_some("user.get"),
        })
    })
}
