//! The tools, sections, grants and tokens that every server has.

use serde_json::{Map, Value, json};

/// Number of sections.
pub const SECTIONS: usize = 20;
/// Number of sets of grants.
pub const GRANT_SETS: usize = 100;
/// Number of tokens. Token `n` has the grants `n % GRANT_SETS`.
pub const TOKENS: usize = 1000;
/// Tool that is called.
pub const ECHO: &str = "echo";

/// Tool of an Ethereum node that is called.
pub const CHAIN: &str = "eth_chainId";
/// Its result, the id of anvil's chain.
pub const CHAIN_ID: &str = "0x7a69";
/// Reply of the service.
pub const ANSWER: &str =
    "the answer of the service, as long as what a method would usually have to say to an agent.";

/// Definition of a tool for all servers.
#[derive(Debug, Clone)]
pub struct Tool {
    /// Name.
    pub name: String,
    /// Description.
    pub description: String,
    /// Required parameters.
    pub params: &'static [Param],
    /// Section that the caller must be able to read, or `None` for a public tool.
    pub section: Option<usize>,
}

/// A parameter.
#[derive(Debug)]
pub struct Param {
    /// Name.
    pub name: &'static str,
    /// Type in Callgate's notation.
    pub notation: &'static str,
    /// Type in JSON Schema.
    pub json_type: &'static str,
    /// Description.
    pub description: &'static str,
}

const ECHO_PARAMS: &[Param] = &[Param {
    name: "text",
    notation: "string",
    json_type: "string",
    description: "What comes back.",
}];

const TOOL_PARAMS: &[Param] = &[
    Param {
        name: "query",
        notation: "string",
        json_type: "string",
        description: "The words to look for.",
    },
    Param {
        name: "limit",
        notation: "int",
        json_type: "integer",
        description: "How many items to return at most.",
    },
    Param {
        name: "archived",
        notation: "bool",
        json_type: "boolean",
        description: "Whether archived items count as well.",
    },
];

impl Tool {
    /// Returns the JSON Schema of the arguments.
    pub fn input_schema(&self) -> Map<String, Value> {
        let property =
            |param: &Param| json!({"type": param.json_type, "description": param.description});
        let properties: Map<String, Value> =
            self.params.iter().map(|param| (param.name.to_owned(), property(param))).collect();
        let required: Vec<&str> = self.params.iter().map(|param| param.name).collect();
        let mut schema = Map::new();
        schema.insert("type".to_owned(), "object".into());
        schema.insert("properties".to_owned(), properties.into());
        schema.insert("required".to_owned(), required.into());
        schema.insert("additionalProperties".to_owned(), false.into());
        schema
    }

    /// Returns the tool as in a `tools/list` reply.
    pub fn to_json(&self) -> Value {
        json!({
            "name": self.name,
            "description": self.description,
            "inputSchema": self.input_schema(),
            "annotations": {"readOnlyHint": true, "destructiveHint": false},
        })
    }

    /// Returns `true` if a caller with these grants may see and call the tool.
    pub fn is_open_to(&self, grants: u32) -> bool {
        self.section.is_none_or(|section| grants >> section & 1 == 1)
    }
}

/// Returns `count` tools including `echo`, sorted by name. Two of five are public.
pub fn tools(count: usize) -> Vec<Tool> {
    let echo = Tool {
        name: ECHO.to_owned(),
        description: "Returns its arguments.".to_owned(),
        params: ECHO_PARAMS,
        section: None,
    };
    let others = (0..count.saturating_sub(1)).map(|number| Tool {
        name: format!("tool_{number:02}"),
        description: format!(
            "Finds the items of collection {number} that match a query, newest first."
        ),
        params: TOOL_PARAMS,
        // The shift gives each section other tools in each turn.
        section: ((number + number / SECTIONS) % 5 >= 2).then_some(number % SECTIONS),
    });
    let mut tools: Vec<Tool> = others.chain([echo]).collect();
    tools.sort_by(|a, b| a.name.cmp(&b.name));
    tools
}

/// Returns the name of a section.
pub fn section_name(section: usize) -> String {
    format!("s{section:02}")
}

/// Returns a set of grants, in which bit `s` allows reading section `s`. Set 0 has all bits.
pub fn grant_set(number: usize) -> u32 {
    let everything = (1_u32 << SECTIONS) - 1;
    if number == 0 {
        return everything;
    }
    let number = u32::try_from(number).unwrap_or(u32::MAX);
    let mixed = number.wrapping_mul(0x9E37_79B1);
    (mixed ^ mixed >> 15).wrapping_mul(0x85EB_CA77) >> 7 & everything
}

/// Returns the number of a token's set of grants.
pub fn grant_set_of_token(token: usize) -> usize {
    token % GRANT_SETS
}

/// Returns a token.
pub fn token(number: usize) -> String {
    format!("bench-token-{number:04}")
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn sets_of_grants_differ() {
        let sets: HashSet<u32> = (0..GRANT_SETS).map(grant_set).collect();
        assert_eq!(sets.len(), GRANT_SETS);
    }

    #[test]
    fn only_the_first_set_sees_everything() {
        let tools = tools(50);
        let visible = |set| tools.iter().filter(|tool| tool.is_open_to(grant_set(set))).count();
        assert_eq!((tools.len(), visible(0)), (50, 50));
        assert!((1..GRANT_SETS).all(|set| visible(set) < 50));
    }
}
