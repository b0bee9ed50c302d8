//! The methods of MCP, in all revisions.

/// Method of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum McpMethod {
    Complete,
    Discover,
    Initialize,
    Listen,
    Ping,
    PromptsGet,
    PromptsList,
    ResourcesList,
    ResourcesRead,
    ResourcesSubscribe,
    ResourcesUnsubscribe,
    ResourceTemplatesList,
    SetLogLevel,
    TasksCancel,
    TasksGet,
    TasksUpdate,
    ToolsCall,
    ToolsList,
    /// Any other method.
    Unknown,
}

impl McpMethod {
    pub(crate) fn of(name: &str) -> Self {
        match name {
            "completion/complete" => Self::Complete,
            "server/discover" => Self::Discover,
            "initialize" => Self::Initialize,
            "subscriptions/listen" => Self::Listen,
            "ping" => Self::Ping,
            "prompts/get" => Self::PromptsGet,
            "prompts/list" => Self::PromptsList,
            "resources/list" => Self::ResourcesList,
            "resources/read" => Self::ResourcesRead,
            "resources/subscribe" => Self::ResourcesSubscribe,
            "resources/unsubscribe" => Self::ResourcesUnsubscribe,
            "resources/templates/list" => Self::ResourceTemplatesList,
            "logging/setLevel" => Self::SetLogLevel,
            "tasks/cancel" => Self::TasksCancel,
            "tasks/get" => Self::TasksGet,
            "tasks/update" => Self::TasksUpdate,
            "tools/call" => Self::ToolsCall,
            "tools/list" => Self::ToolsList,
            _ => Self::Unknown,
        }
    }

    /// Returns `true` if the response depends on the caller's tools.
    pub(crate) fn depends_on_tools(self) -> bool {
        use McpMethod::{Discover, Initialize, Listen, ResourcesRead, ToolsCall, ToolsList};
        matches!(self, Discover | Initialize | Listen | ResourcesRead | ToolsCall | ToolsList)
    }

    /// Returns the member of `params` that the header `Mcp-Name` repeats.
    pub(crate) fn name_member(self) -> Option<&'static str> {
        match self {
            Self::ToolsCall | Self::PromptsGet => Some("name"),
            Self::ResourcesRead => Some("uri"),
            Self::TasksGet | Self::TasksUpdate | Self::TasksCancel => Some("taskId"),
            _ => None,
        }
    }

    /// Returns `true` if a modern request is not available with `rawRequest`, because it changes a task or opens a
    /// stream.
    pub(crate) fn needs_post(self) -> bool {
        matches!(self, Self::TasksUpdate | Self::TasksCancel | Self::Listen)
    }
}
