//! Known limitations of MCP clients.
//!
//! Each rule refers to a public report. If newer versions of a client no longer have a limitation, the level of the
//! rule is warning.

use super::Level;
use super::client_check::Check;

/// A client, or a group of clients with the same limitations.
///
/// ```
/// use callgate::lint::{ClientProfile, Level, LintOptions, lint};
/// use callgate::{Callgate, method, methods};
///
/// /// Checks the second factor of a login.
/// #[method(id = "2fa.check", read_only)]
/// fn check(
///     /// The code.
///     code: u32,
/// ) -> bool {
///     code == 287_082
/// }
///
/// let server = Callgate::builder().methods(methods![check]).build()?;
/// let gemini = ClientProfile::named("gemini").ok_or("there is no such profile")?;
/// let options = LintOptions { profiles: vec![gemini], ..LintOptions::default() };
/// let report = lint(&server.gateway().catalog(), &options);
/// let problem = &report.problems[0];
/// assert_eq!((problem.level, problem.code), (Level::Error, "name-start"));
/// assert_eq!(problem.clients, ["gemini"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct ClientProfile {
    /// Name on the command line.
    pub name: &'static str,
    /// Names of the clients.
    pub title: &'static str,
    /// Limitations.
    pub rules: &'static [Rule],
}

/// A limitation of a client.
///
/// Part of a [`ClientProfile`].
#[derive(Debug)]
pub struct Rule {
    /// The check.
    pub check: Check,
    /// Severity.
    pub level: Level,
    /// Issues in public repositories that report the limitation.
    pub seen: &'static str,
}

const fn error(check: Check, seen: &'static str) -> Rule {
    Rule { check, level: Level::Error, seen }
}

const fn warning(check: Check, seen: &'static str) -> Rule {
    Rule { check, level: Level::Warning, seen }
}

impl ClientProfile {
    /// All profiles.
    pub const ALL: &'static [Self] =
        &[GENERIC, CLAUDE, OPENAI, GEMINI, CURSOR, COPILOT, FRAMEWORKS];

    /// Finds a profile by name.
    pub fn named(name: &str) -> Option<&'static Self> {
        Self::ALL.iter().find(|profile| profile.name == name)
    }
}

const GENERIC: ClientProfile =
    ClientProfile { name: "generic", title: "clients without rules of their own", rules: &[] };

const CLAUDE: ClientProfile = ClientProfile {
    name: "claude",
    title: "Claude Desktop, Claude Code, and other clients that use Anthropic's API",
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

const OPENAI: ClientProfile = ClientProfile {
    name: "openai",
    title: "clients that use OpenAI's API or a compatible API",
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
        // OpenAI has removed this limit (run-llama/llama_index#18784); other providers have not.
        warning(Check::DescriptionLength(1024), "getsentry/sentry-mcp#106, higebu/3gpp-mcp#238"),
    ],
};

const GEMINI: ClientProfile = ClientProfile {
    name: "gemini",
    title: "Gemini CLI, and other clients that use Gemini's API",
    rules: &[
        error(Check::NameStart, "wonderwhy-er/DesktopCommanderMCP#79"),
        error(Check::Items, "DEEIX-AI/DEEIX-Chat#546"),
        // Newer versions of the API support `$ref`, but many clients use an older version.
        warning(
            Check::References,
            "google-gemini/gemini-cli#13326, pydantic/pydantic-ai#1598, zendev-sh/goai#39",
        ),
        warning(Check::TextEnums, "microsoft/azure-devops-mcp#139, anomalyco/opencode#28412"),
    ],
};

const CURSOR: ClientProfile = ClientProfile {
    name: "cursor",
    title: "Cursor",
    rules: &[
        error(
            Check::NameLength { around: 0, most: 59 },
            "ComposioHQ/composio#2788, PostHog/posthog#51483",
        ),
        // The limit applies to all servers together. Later versions of the client allow 80 tools.
        warning(Check::ToolCount(40), "bun913/mcp-testrail#6, Snowflake-Labs/mcp#77"),
    ],
};

const COPILOT: ClientProfile = ClientProfile {
    name: "copilot",
    title: "GitHub Copilot in VS Code and other editors, and Copilot CLI",
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

const FRAMEWORKS: ClientProfile = ClientProfile {
    name: "frameworks",
    title: "Semantic Kernel, AutoGen, DSPy, CrewAI and other libraries that convert schemas to types",
    rules: &[
        error(
            Check::SingleTypes,
            "crewAIInc/crewAI#7280, NVIDIA/NeMo-Agent-Toolkit#371, hideya/langchain-mcp-tools-py#14",
        ),
        // LlamaIndex loses all tools of a server if one of them has a recursive schema.
        warning(Check::References, "OpenHands/software-agent-sdk#1955, crewAIInc/crewAI#5478"),
    ],
};
