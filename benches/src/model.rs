//! The tools, sections, grants and tokens that every server has.

use serde_json::{Map, Value, json};

/// Number of tools.
pub const TOOLS: usize = 50;
/// Number of sections.
pub const SECTIONS: usize = 20;
/// Number of sets of grants.
pub const GRANT_SETS: usize = 100;
/// Number of sets of grants with which every tool is visible. These sets differ only in their masks.
const COMPLETE_SETS: usize = 50;
/// Number of tokens. Token `n` has the set of grants with the number `n % GRANT_SETS`.
pub const TOKENS: usize = 1000;
/// Grants with which every tool is visible.
pub const ALL_GRANTS: u32 = (1 << SECTIONS) - 1;

/// Tool that runs in the process of the server: a function of Callgate's demo.
pub const LOCAL: &str = "user_get";
/// Tool of the service.
pub const FORWARDED: &str = "user_fetch";
/// Tool of an Ethereum node.
pub const CHAIN: &str = "eth_chainId";
/// Result of [`CHAIN`]: the id of anvil's chain.
pub const CHAIN_ID: &str = "0x7a69";
/// Result of [`LOCAL`] and of [`FORWARDED`].
pub const USER: &str = r#"{"id":2,"name":"Ravi Menon"}"#;
/// Text that [`USER`] contains.
pub const NAME: &str = "Ravi Menon";

/// [`LOCAL`] as the demo lists it.
const LOCAL_TOOL: &str = r#"{"name":"user_get","title":"Get user",
"description":"Looks up a user of the site by number.",
"inputSchema":{"type":"object","properties":{
"id_user":{"type":"integer","description":"The user's number."},
"include_details":{"type":"boolean","description":"Also return e-mail and roles.","default":false}},
"required":["id_user"],"additionalProperties":false},
"outputSchema":{"type":"object","properties":{"id":{"type":"integer"},"name":{"type":"string"},
"email":{"anyOf":[{"type":"string"},{"type":"null"}]},
"roles":{"anyOf":[{"type":"array","items":{"type":"string"}},{"type":"null"}]}},
"required":["id","name"]},
"annotations":{"readOnlyHint":true,"destructiveHint":false}}"#;

/// Definition of a tool for all servers.
#[derive(Debug, Clone)]
pub struct Tool {
    /// Name.
    pub name: String,
    /// Description.
    pub description: String,
    /// Required parameters.
    pub params: &'static [Param],
    /// Section that the caller must be able to read, or `None` for a tool that every caller may use.
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

const USER_PARAMS: &[Param] = &[Param {
    name: "id_user",
    notation: "int",
    json_type: "integer",
    description: "The user's number.",
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
    /// Returns the tool as in a `tools/list` reply.
    pub fn to_json(&self) -> Value {
        if self.name == LOCAL {
            return serde_json::from_str(LOCAL_TOOL).unwrap_or_default();
        }
        let property =
            |param: &Param| json!({"type": param.json_type, "description": param.description});
        let properties: Map<String, Value> =
            self.params.iter().map(|param| (param.name.to_owned(), property(param))).collect();
        let required: Vec<&str> = self.params.iter().map(|param| param.name).collect();
        json!({
            "name": self.name,
            "description": self.description,
            "inputSchema": {
                "type": "object",
                "properties": properties,
                "required": required,
                "additionalProperties": false,
            },
            "annotations": {"readOnlyHint": true, "destructiveHint": false},
        })
    }

    /// Returns `true` if a caller with these grants may see and call the tool.
    pub fn is_allowed_by(&self, grants: u32) -> bool {
        self.section.is_none_or(|section| grants >> section & 1 == 1)
    }
}

/// Returns `count` tools including [`LOCAL`] and [`FORWARDED`], sorted by name. Two of five tools need no grant.
pub fn tools(count: usize) -> Vec<Tool> {
    let user = |name: &str| Tool {
        name: name.to_owned(),
        description: "Looks up a user.".to_owned(),
        params: USER_PARAMS,
        section: None,
    };
    let numbered_tools = (0..count.saturating_sub(2)).map(|number| Tool {
        name: format!("tool_{number:02}"),
        description: format!(
            "Finds the items of collection {number} that match a query, newest first."
        ),
        params: TOOL_PARAMS,
        // Without the term `number / SECTIONS`, two of five sections would have no tools.
        section: ((number + number / SECTIONS) % 5 >= 2).then_some(number % SECTIONS),
    });
    let mut tools: Vec<Tool> = numbered_tools.chain([user(LOCAL), user(FORWARDED)]).collect();
    tools.sort_by(|a, b| a.name.cmp(&b.name));
    tools
}

/// Returns the result of [`LOCAL`] and of [`FORWARDED`].
pub fn user() -> Value {
    serde_json::from_str(USER).unwrap_or_default()
}

/// Returns the name of a section.
pub fn section_name(section: usize) -> String {
    format!("s{section:02}")
}

/// Returns a set of grants, in which bit `s` allows reading section `s`.
pub fn grant_set(number: usize) -> u32 {
    if number < COMPLETE_SETS {
        return ALL_GRANTS;
    }
    let number = u32::try_from(number).unwrap_or(u32::MAX);
    let mixed = number.wrapping_mul(0x9E37_79B1);
    (mixed ^ mixed >> 15).wrapping_mul(0x85EB_CA77) >> 7 & ALL_GRANTS
}

/// Returns the mask that a set of grants has on a section: 0 for none, 2 to read, 4 to write.
pub fn mask(number: usize, section: usize) -> u8 {
    let is_writer = number >> (section % 7) & 1 == 1;
    let is_reader = grant_set(number) >> section & 1 == 1;
    u8::from(is_reader) * (2 + 2 * u8::from(is_writer))
}

/// Returns the grants of a token.
pub fn grants_of_token(token: usize) -> u32 {
    grant_set(token % GRANT_SETS)
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
    fn all_sets_of_grants_differ() {
        let masks = |set| (0..SECTIONS).map(|section| mask(set, section)).collect::<Vec<u8>>();
        let sets: HashSet<Vec<u8>> = (0..GRANT_SETS).map(masks).collect();
        assert_eq!(sets.len(), GRANT_SETS);
    }

    #[test]
    fn half_of_the_sets_of_grants_allow_all_tools() {
        let tools = tools(TOOLS);
        assert_eq!(tools.len(), TOOLS);
        let visible = |set| tools.iter().filter(|tool| tool.is_allowed_by(grant_set(set))).count();
        assert!((0..COMPLETE_SETS).all(|set| visible(set) == TOOLS));
        assert!((COMPLETE_SETS..GRANT_SETS).all(|set| visible(set) < TOOLS));
    }

    #[test]
    fn the_local_tool_and_its_result_are_valid_json() {
        let tools = tools(TOOLS);
        assert_eq!(tools.last().unwrap().to_json()["name"], LOCAL);
        assert_eq!(user()["name"], NAME);
    }
}
