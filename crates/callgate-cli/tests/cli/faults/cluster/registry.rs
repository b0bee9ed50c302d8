//! A registry with methods, users and tokens, and the upstream of the methods.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::faults::cluster::upstream::{Execution, Upstream, UpstreamMode};
use crate::faults::load::Account;
use crate::faults::load::call_log::ClientGroup;
use crate::faults::load::client::{OTHER_TOOLS, WORK_TOOLS};
use crate::real::servers::RunningProcess;
use crate::support::TestDirectory;

/// Method that no user is granted.
pub(crate) const FORBIDDEN_METHOD: &str = "work.secret";

/// Build of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Program {
    /// Build of the tests.
    Tested,
    /// Build that is measured, made by `cargo xtask bench`.
    Dist,
}

impl Program {
    pub(crate) fn path(self) -> PathBuf {
        let tested = PathBuf::from(env!("CARGO_BIN_EXE_callgate"));
        match self {
            Self::Tested => tested,
            Self::Dist => {
                let target = tested.ancestors().nth(2).unwrap();
                let packaged = target.join("dist/callgate");
                assert!(packaged.exists(), "run `cargo xtask dist` first");
                packaged
            }
        }
    }

    /// Returns the pause between two calls of a client.
    pub(crate) fn pace(self) -> Duration {
        match self {
            Self::Tested => Duration::from_millis(250),
            Self::Dist => Duration::from_millis(20),
        }
    }
}

/// A registry and the working directory of the program.
pub(crate) struct TestRegistry {
    pub(crate) dir: TestDirectory,
    pub(crate) program: Program,
    /// URL for commands, which bypasses the proxies.
    url: String,
    upstream: Upstream,
    tokens: [String; 3],
}

/// Begin and end of the commands that revoke access.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RevocationTimes {
    /// Revocation of the token of [`ClientGroup::TokenRevoked`].
    token: (Instant, Instant),
    /// Revocation of the grant of [`ClientGroup::GrantRevoked`].
    grant: (Instant, Instant),
}

impl RevocationTimes {
    pub(crate) fn at_once(now: Instant) -> Self {
        Self { token: (now, now), grant: (now, now) }
    }

    /// Returns begin and end of the command that affects a group.
    pub(crate) fn of(&self, group: ClientGroup) -> Option<(Instant, Instant)> {
        match group {
            ClientGroup::Unchanged => None,
            ClientGroup::TokenRevoked => Some(self.token),
            ClientGroup::GrantRevoked => Some(self.grant),
        }
    }
}

impl TestRegistry {
    /// Creates a registry in the database at this URL.
    pub(crate) fn new(program: Program, url: &str, mode: UpstreamMode) -> Self {
        let (dir, upstream) = (TestDirectory::new(), Upstream::start(mode));
        let service = format!("[upstreams.default]\nurl = \"http://{}/\"\n", upstream.address);
        dir.write("callgate.toml", &service);
        let url = url.to_owned();
        let mut registry = Self { dir, program, url, upstream, tokens: Default::default() };
        registry.populate();
        registry
    }

    fn populate(&mut self) {
        self.run(&["migrate"]);
        for section in ["work", "other", "secret"] {
            self.run(&["section", "add", section]);
        }
        for (method, section) in
            [("work.do", "work"), ("other.do", "other"), (FORBIDDEN_METHOD, "secret")]
        {
            self.add_method(method, section, &[]);
        }
        for (method, section) in [("work.find", "work"), ("other.find", "other")] {
            self.add_method(method, section, &["--read-only"]);
        }
        let users = [("unchanged", "work"), ("token_revoked", "work"), ("grant_revoked", "other")];
        self.tokens = users.map(|(user, section)| {
            self.run(&["user", "add", user]);
            self.run(&["grant", "set", "--user", user, section, "read"]);
            self.run(&["token", "add", user, "--name", user]).trim().to_owned()
        });
    }

    fn add_method(&self, method: &str, section: &str, options: &[&str]) {
        let requirement = format!("{section}:read");
        let add = ["method", "add", method, "--section", &requirement, "--param", "string $key"];
        self.run(&[&add, options].concat());
    }

    /// Returns a command of the program in this directory.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.program.path());
        command.args(arguments).current_dir(self.dir.path(""));
        command.env("CALLGATE_DATABASE", &self.url);
        command
    }

    /// Runs a command that must succeed. Returns its output.
    pub(crate) fn run(&self, arguments: &[&str]) -> String {
        let output = self.command(arguments).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {error}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Starts a server on the registry at this URL.
    pub(crate) fn serve(&self, url: &str, grace: Duration) -> RunningProcess {
        let (program, directory) = (self.program.path(), self.dir.path(""));
        let (url, grace) = (url.to_owned(), grace.as_secs().to_string());
        RunningProcess::start(move |port| {
            let mut command = Command::new(&program);
            command.args(["serve", "--json", "--listen", &format!("127.0.0.1:{port}")]);
            command.args(["--token-grace-seconds", &grace]);
            command.env("CALLGATE_DATABASE", &url).env("CALLGATE_METRICS", "true");
            command.env("CALLGATE_LIMITS_REQUESTS_PER_CALLER", "none");
            // The default level logs every denied call.
            command.env("CALLGATE_LOG", "warn,callgate_registry=info").current_dir(&directory);
            command
        })
    }

    pub(crate) fn account(&self, group: ClientGroup) -> Account {
        let [unchanged, token_revoked, grant_revoked] = &self.tokens;
        match group {
            ClientGroup::Unchanged => Account { token: unchanged.clone(), tools: WORK_TOOLS },
            ClientGroup::TokenRevoked => {
                Account { token: token_revoked.clone(), tools: WORK_TOOLS }
            }
            ClientGroup::GrantRevoked => {
                Account { token: grant_revoked.clone(), tools: OTHER_TOOLS }
            }
        }
    }

    /// Revokes a token and a grant.
    pub(crate) fn revoke(&self) -> RevocationTimes {
        let tokens = self.run(&["token", "list", "--json"]);
        let mut tokens = tokens.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let revoked = tokens.find(|token| token["name"] == "token_revoked").unwrap();
        let run = |arguments: &[&str]| {
            let begin = Instant::now();
            self.run(arguments);
            (begin, Instant::now())
        };
        let token = run(&["token", "remove", &revoked["id"].to_string()]);
        let grant = run(&["grant", "set", "--user", "grant_revoked", "other", "none"]);
        RevocationTimes { token, grant }
    }

    /// Returns the calls that the upstream has run.
    pub(crate) fn executed(&self) -> Vec<Execution> {
        self.upstream.executed()
    }
}
