//! Access requirements of a tool: `annotations.auth` of `jsonrpc_mcp`.
//!
//! `level` is `none`, `optional` or `required`. Scopes without a level mean `required`. To call a tool that requires a
//! login, a caller needs read on the built-in section `@authenticated`, which every user has. Callers without a token
//! therefore do not see the tool. Each scope becomes a section: `content:read` becomes read on `content`, and likewise
//! for `write` and `execute`. Any other scope becomes a section with the name of the scope, with the mask read.

use callgate::Mask;
use callgate::access::Section;
use serde_json::Value;

use crate::source::RequiredMask;

/// Maximum number of scopes of one tool.
const MAX_SCOPES: usize = 100;

/// Keys of `annotations.auth` that do not restrict access.
const DESCRIPTIVE_KEYS: [&str; 2] = ["description", "label"];

/// Returns the sections that callers need, or `None` if every caller may call the tool. An unknown value is an error,
/// because it may be a restriction.
pub(super) fn needs(auth: Option<&Value>) -> Result<Option<Vec<(String, RequiredMask)>>, String> {
    let auth = match auth {
        None | Some(Value::Null) => return Ok(None),
        // PHP encodes an empty map as a list.
        Some(Value::Array(items)) if items.is_empty() => return Ok(None),
        Some(Value::Object(auth)) => auth,
        Some(_) => return Err("`annotations.auth` is not an object".to_owned()),
    };
    let is_known = |key: &&String| {
        ["level", "scopes"].contains(&key.as_str()) || DESCRIPTIVE_KEYS.contains(&key.as_str())
    };
    if let Some(key) = auth.keys().find(|key| !is_known(key)) {
        return Err(format!("`annotations.auth.{key}` is not known"));
    }
    let scopes = scopes(auth.get("scopes"))?;
    let is_required = match auth.get("level") {
        None | Some(Value::Null) => !scopes.is_empty(),
        Some(Value::String(level)) => match level.as_str() {
            "required" => true,
            // Drupal checks scopes at every level.
            "none" | "optional" => !scopes.is_empty(),
            other => {
                return Err(format!(
                    "`annotations.auth.level` is `{other}`; expected `none`, `optional` or `required`"
                ));
            }
        },
        Some(_) => return Err("`annotations.auth.level` is not a string".to_owned()),
    };
    if !is_required {
        return Ok(None);
    }
    let authenticated =
        (Section::authenticated().as_str().to_owned(), RequiredMask::Mask(Mask::Read));
    Ok(Some([authenticated].into_iter().chain(scopes.into_iter().map(section)).collect()))
}

/// Returns the names of scopes. They can be the values of a map, because PHP encodes a list with gaps as a map.
fn scopes(scopes: Option<&Value>) -> Result<Vec<&str>, String> {
    let all: Vec<&Value> = match scopes {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(scopes)) => scopes.iter().collect(),
        Some(Value::Object(scopes)) => scopes.values().collect(),
        Some(_) => return Err("`annotations.auth.scopes` is not a list of scopes".to_owned()),
    };
    if all.len() > MAX_SCOPES {
        return Err(format!("`annotations.auth.scopes` has more than {MAX_SCOPES} scopes"));
    }
    let names = all
        .into_iter()
        .map(|scope| scope.as_str().map(str::trim).filter(|scope| !scope.is_empty()));
    let names: Option<Vec<&str>> = names.collect();
    names.ok_or_else(|| {
        "`annotations.auth.scopes` contains something other than names of scopes".to_owned()
    })
}

fn section(scope: &str) -> (String, RequiredMask) {
    let (section, mask) = match scope.rsplit_once(':') {
        Some((section, "read")) if !section.is_empty() => (section, Mask::Read),
        Some((section, "write")) if !section.is_empty() => (section, Mask::Write),
        Some((section, "execute")) if !section.is_empty() => (section, Mask::Execute),
        _ => (scope, Mask::Read),
    };
    (section.to_owned(), RequiredMask::Mask(mask))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn summary(auth: &Value) -> String {
        match needs(Some(auth)) {
            Ok(None) => "open".to_owned(),
            Ok(Some(needs)) => {
                let entry =
                    |(section, needed): &(String, RequiredMask)| format!("{section} {needed:?}");
                needs.iter().map(entry).collect::<Vec<_>>().join(", ")
            }
            Err(problem) => format!("refused: {problem}"),
        }
    }

    #[test]
    fn levels_and_scopes_become_required_sections() {
        let cases = [
            json!({"level": "none"}),
            json!({"level": "optional"}),
            json!({"level": "required"}),
            json!({"level": "required", "scopes": ["content:read"]}),
            json!({"scopes": ["user:read"], "description": "inferred"}),
            json!({"level": "optional", "scopes": ["content:write", "content:read"]}),
            json!({"level": "required", "scopes": ["tutorial:search", "admin", ":read", "a:b:execute"]}),
            json!({"scopes": []}),
            json!({"level": "admin"}),
            json!({"level": 1}),
            json!({"scopes": "content:read"}),
            json!({"scopes": ["content:read", 7]}),
            json!({"scopes": {"1": "content:write"}}),
            json!({"Level": "required"}),
            json!({"scope": "content:write"}),
            json!({"description": "For everybody"}),
            json!("required"),
            json!([]),
        ];
        let table: Vec<String> =
            cases.into_iter().map(|auth| format!("{auth}\n    {}", summary(&auth))).collect();
        insta::assert_snapshot!(table.join("\n"));
    }
}
