//! A registry with tools and callers, and the service behind the tools.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::client::{OTHER, OWN};
use super::load::Account;
use super::record::Who;
use super::upstream::{Execution, Manner, Upstream};
use crate::real::servers::Running;
use crate::support::Place;

/// What nobody may call.
pub(crate) const SECRET_METHOD: &str = "work.secret";

/// Which build of the program runs, and how hard it is driven.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Program {
    /// The one that is tested.
    Tested,
    /// The one that is measured; `cargo xtask bench` makes it.
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

    /// How long a client waits between two calls.
    pub(crate) fn pace(self) -> Duration {
        match self {
            Self::Tested => Duration::from_millis(250),
            Self::Dist => Duration::from_millis(20),
        }
    }
}

/// A registry, and the directory that the program runs in.
pub(crate) struct Filled {
    pub(crate) place: Place,
    pub(crate) program: Program,
    /// The way to the registry for commands, past all faults.
    url: String,
    upstream: Upstream,
    tokens: [String; 3],
}

/// What was withdrawn: from before each command until it had returned.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Withdrawn {
    /// The token of the doomed was revoked.
    revoked: (Instant, Instant),
    /// The grant of the demoted was withdrawn.
    demoted: (Instant, Instant),
}

impl Withdrawn {
    pub(crate) fn at_once(now: Instant) -> Self {
        Self { revoked: (now, now), demoted: (now, now) }
    }

    /// When the command about these clients began and had returned; nothing is withdrawn of the steady.
    pub(crate) fn of(&self, who: Who) -> Option<(Instant, Instant)> {
        match who {
            Who::Steady => None,
            Who::Doomed => Some(self.revoked),
            Who::Demoted => Some(self.demoted),
        }
    }
}

impl Filled {
    /// Fills the database at this URL.
    pub(crate) fn new(program: Program, url: &str, manner: Manner) -> Self {
        let (place, upstream) = (Place::new(), Upstream::start(manner));
        let service = format!("[upstreams.default]\nurl = \"http://{}/\"\n", upstream.address);
        place.write("callgate.toml", &service);
        let url = url.to_owned();
        let mut filled = Self { place, program, url, upstream, tokens: Default::default() };
        filled.fill();
        filled
    }

    fn fill(&mut self) {
        self.run(&["migrate"]);
        for section in ["work", "other", "secret"] {
            self.run(&["section", "add", section]);
        }
        for (method, section) in
            [("work.do", "work"), ("other.do", "other"), (SECRET_METHOD, "secret")]
        {
            self.add_method(method, section, &[]);
        }
        for (method, section) in [("work.find", "work"), ("other.find", "other")] {
            self.add_method(method, section, &["--read-only"]);
        }
        let users = [("steady", "work"), ("doomed", "work"), ("demoted", "other")];
        self.tokens = users.map(|(user, section)| {
            self.run(&["user", "add", user]);
            self.run(&["grant", "--user", user, section, "read"]);
            self.run(&["token", "create", user, "--name", user]).trim().to_owned()
        });
    }

    fn add_method(&self, method: &str, section: &str, more: &[&str]) {
        let need = format!("{section}:read");
        let add = ["method", "add", method, "--section", &need, "--param", "string $key"];
        self.run(&[&add, more].concat());
    }

    /// The program, in this directory.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.program.path());
        command.args(arguments).current_dir(self.place.path(""));
        command.env("CALLGATE_DATABASE", &self.url);
        command
    }

    /// Runs what must succeed; what it prints.
    pub(crate) fn run(&self, arguments: &[&str]) -> String {
        let output = self.command(arguments).output().unwrap();
        let talk = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {talk}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// A gateway that knows the registry by this URL. Tokens count for `grace` after it last saw it.
    pub(crate) fn serve(&self, url: &str, grace: Duration) -> Running {
        let (program, directory) = (self.program.path(), self.place.path(""));
        let (url, grace) = (url.to_owned(), grace.as_secs().to_string());
        Running::start(move |port| {
            let mut command = Command::new(&program);
            command.args(["serve", "--json", "--listen", &format!("127.0.0.1:{port}")]);
            command.args(["--token-grace-seconds", &grace]);
            command.env("CALLGATE_DATABASE", &url).env("CALLGATE_METRICS", "true");
            // A line for each call that is denied would be most of it.
            command.env("CALLGATE_LOG", "warn,callgate_registry=info").current_dir(&directory);
            command
        })
    }

    pub(crate) fn account(&self, who: Who) -> Account {
        let [steady, doomed, demoted] = &self.tokens;
        match who {
            Who::Steady => Account { token: steady.clone(), tools: OWN },
            Who::Doomed => Account { token: doomed.clone(), tools: OWN },
            Who::Demoted => Account { token: demoted.clone(), tools: OTHER },
        }
    }

    /// Revokes the token of the doomed, and withdraws the grant of the demoted.
    pub(crate) fn withdraw(&self) -> Withdrawn {
        let tokens = self.run(&["token", "list", "--json"]);
        let mut tokens = tokens.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let doomed = tokens.find(|token| token["name"] == "doomed").unwrap();
        let run = |arguments: &[&str]| {
            let begin = Instant::now();
            self.run(arguments);
            (begin, Instant::now())
        };
        let revoked = run(&["token", "revoke", &doomed["id"].to_string()]);
        let demoted = run(&["grant", "--user", "demoted", "other", "none"]);
        Withdrawn { revoked, demoted }
    }

    /// What the service ran so far.
    pub(crate) fn executed(&self) -> Vec<Execution> {
        self.upstream.executed()
    }
}
