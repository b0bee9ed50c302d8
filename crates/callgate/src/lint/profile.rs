//! What clients are known to refuse, as data.
//!
//! Each rule names where it was seen: a rule that nobody can point at is not here. Clients change; a rule
//! that some versions of a client no longer have is a warning and no error.

use super::Level;
use super::check::Check;

/// A client, or what several have in common.
#[derive(Debug)]
pub struct Profile {
    /// Its name on the command line.
    pub name: &'static str,
    /// Which clients it stands for.
    pub title: &'static str,
    /// What they refuse.
    pub rules: &'static [Rule],
}

/// Something that a client refuses.
#[derive(Debug)]
pub struct Rule {
    /// What is looked for.
    pub check: Check,
    /// How bad it is.
    pub level: Level,
    /// Where it was seen: issues of public repositories.
    pub seen: &'static str,
}

const fn error(check: Check, seen: &'static str) -> Rule {
    Rule { check, level: Level::Error, seen }
}

const fn warning(check: Check, seen: &'static str) -> Rule {
    Rule { check, level: Level::Warning, seen }
}

impl Profile {
    /// All that there are.
    pub const ALL: &'static [Self] = &[GENERIC, CLAUDE, OPENAI, GEMINI, CURSOR, COPILOT];

    /// By its name.
    pub fn named(name: &str) -> Option<&'static Self> {
        Self::ALL.iter().find(|profile| profile.name == name)
    }
}

const GENERIC: Profile =
    Profile { name: "generic", title: "any client: what holds for all of them", rules: &[] };

const CLAUDE: Profile = Profile {
    name: "claude",
    title: "Claude Desktop, Claude Code, and others that use Anthropic's API",
    rules: &[
        error(Check::NameForm, "anthropics/claude-code#467, NetApp/netapp-dataops-toolkit#38"),
        // `mcp__SERVER__TOOL`
        error(
            Check::NameLength { around: 7, most: 64 },
            "anthropics/claude-code#2485, anthropics/claude-code#20643",
        ),
        error(Check::PropertyNames, "beautyfree/appstore-connect-mcp#2, decocms/studio#6874"),
        error(Check::AtRoot(&["oneOf", "anyOf", "allOf"]), "anthropics/claude-code#5973"),
        error(Check::Dialect, "anthropics/claude-code#586"),
        warning(Check::References, "PrefectHQ/fastmcp#2861"),
        warning(Check::ListTokens(25_000), "anthropics/claude-code#12241"),
    ],
};

const OPENAI: Profile = Profile {
    name: "openai",
    title: "clients that use OpenAI's API, or one of the same shape",
    rules: &[
        error(Check::NameForm, "microsoft/foundry-dev-tools#201"),
        error(
            Check::AtRoot(&["oneOf", "anyOf", "allOf", "enum", "not"]),
            "nspady/google-calendar-mcp#39",
        ),
        error(Check::RootProperties, "github/copilot-cli#1825"),
        error(Check::Items, "streamnative/streamnative-mcp-server#26, PrefectHQ/fastmcp#2464"),
        error(Check::ToolCount(128), "zed-industries/zed#32946"),
        warning(Check::References, "openai/codex#3152"),
        // OpenAI itself has given it up (run-llama/llama_index#18784), others have not.
        warning(Check::DescriptionLength(1024), "getsentry/sentry-mcp#106, higebu/3gpp-mcp#238"),
    ],
};

const GEMINI: Profile = Profile {
    name: "gemini",
    title: "Gemini CLI, and others that use Gemini's API",
    rules: &[
        error(Check::NameStart, "wonderwhy-er/DesktopCommanderMCP#79"),
        error(Check::Items, "DEEIX-AI/DEEIX-Chat#546"),
        // Newer versions of the API know `$ref`, many clients still use the older form.
        warning(
            Check::References,
            "google-gemini/gemini-cli#13326, pydantic/pydantic-ai#1598, zendev-sh/goai#39",
        ),
        warning(Check::TextEnums, "microsoft/azure-devops-mcp#139, anomalyco/opencode#28412"),
    ],
};

const CURSOR: Profile = Profile {
    name: "cursor",
    title: "Cursor",
    rules: &[
        error(
            Check::NameLength { around: 0, most: 59 },
            "ComposioHQ/composio#2788, PostHog/posthog#51483",
        ),
        // Of all servers together; later versions say 80.
        warning(Check::ToolCount(40), "bun913/mcp-testrail#6, Snowflake-Labs/mcp#77"),
    ],
};

const COPILOT: Profile = Profile {
    name: "copilot",
    title: "GitHub Copilot in VS Code and other editors, Copilot CLI",
    rules: &[
        error(Check::Items, "microsoft/vscode#246119"),
        error(Check::RootProperties, "github/copilot-cli#1825"),
        error(
            Check::ToolCount(128),
            "microsoft/vscode-copilot-release#9375, microsoft/copilot-intellij-feedback#1842",
        ),
        warning(Check::References, "github/copilot-cli#1876, PrefectHQ/fastmcp#2808"),
    ],
};
