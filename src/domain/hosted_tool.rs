//! `OpenAI`'s names for tools that run on the server, and the tools of this server that stand for them.

/// A tool of this server as clients of `/v1/responses` see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostedTool {
    /// Runs Python.
    Code,
    /// Searches the web.
    Search,
    /// Runs commands.
    Shell,
    /// Any other tool; shown as the tool of an MCP server.
    Other,
}

impl HostedTool {
    /// The types that a request may name, for texts.
    pub const TYPES: &'static str = "code_interpreter, web_search, shell, local_shell or mcp";

    /// The same for Anthropic's API.
    pub const ANTHROPIC_TYPES: &'static str = "custom, web_search_…, code_execution_… or bash_…";

    /// What a request may include beside the usual fields.
    pub const INCLUDES: [&'static str; 8] = [
        "reasoning.encrypted_content",
        "message.output_text.logprobs",
        "code_interpreter_call.outputs",
        "web_search_call.action.sources",
        "web_search_call.results",
        "file_search_call.results",
        "message.input_image.image_url",
        "computer_call_output.output.image_url",
    ];

    /// The tool of a type in a request; versions of it end with a date.
    pub fn of_type(kind: &str) -> Option<Self> {
        match kind {
            "code_interpreter" => Some(Self::Code),
            "shell" | "local_shell" => Some(Self::Shell),
            kind if kind == "web_search" || kind.starts_with("web_search_") => Some(Self::Search),
            _ => None,
        }
    }

    /// The same for the types of Anthropic's API.
    pub fn of_anthropic_type(kind: &str) -> Option<Self> {
        let prefixes =
            [("web_search_", Self::Search), ("code_execution_", Self::Code), ("bash_", Self::Shell)];
        prefixes.into_iter().find(|(prefix, _)| kind.starts_with(prefix)).map(|(_, tool)| tool)
    }

    /// How calls of this server's tool of this name are shown.
    pub fn of_tool(name: &str) -> Self {
        let shown =
            [Self::Code, Self::Search, Self::Shell].into_iter().find(|tool| tool.tool() == Some(name));
        shown.unwrap_or(Self::Other)
    }

    /// The tool of an item.
    pub fn of_item(kind: &str) -> Option<Self> {
        [Self::Code, Self::Search, Self::Other].into_iter().find(|tool| tool.item_type() == kind)
    }

    /// This server's tool.
    pub fn tool(self) -> Option<&'static str> {
        match self {
            Self::Code => Some("execute_python"),
            Self::Search => Some("web_search"),
            Self::Shell => Some("bash"),
            Self::Other => None,
        }
    }

    /// The type of its calls, which their events begin with, too.
    pub fn item_type(self) -> &'static str {
        match self {
            Self::Code => "code_interpreter_call",
            Self::Search => "web_search_call",
            Self::Shell | Self::Other => "mcp_call",
        }
    }

    /// What the ids of its calls begin with.
    pub fn id_prefix(self) -> &'static str {
        match self {
            Self::Code => "ci",
            Self::Search => "ws",
            Self::Shell | Self::Other => "mcp",
        }
    }
}
