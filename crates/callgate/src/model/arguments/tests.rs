use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::model::method::{Method, Param};
use crate::model::schema::Purpose;
use crate::model::tool;
use crate::model::types::Types;

impl From<ParamStyle> for ParamFormat {
    fn from(style: ParamStyle) -> Self {
        Self { style, null_is_absent: false }
    }
}

fn compiled(params: &[Param]) -> CompiledInput {
    let schema = Types::default().input_schema(params, Purpose::Check).to_string();
    CompiledInput::compile(schema.as_bytes()).unwrap()
}

fn param(name: &str, ty: &str) -> Param {
    Param::new(name, ty.parse().unwrap())
}

fn convert(input: &CompiledInput, arguments: &str, style: ParamStyle) -> Result<String, String> {
    let raw: &RawValue = serde_json::from_str(arguments).unwrap();
    let params = input.params(Some(raw), style);
    params.map(|params| params.get().to_owned()).map_err(|error| error.to_string())
}

fn user_get() -> CompiledInput {
    compiled(&[param("id_user", "int"), param("include_details", "bool").default(json!(false))])
}

#[test]
fn named_arguments_become_positional_in_the_order_of_the_signature() {
    let input = user_get();
    let positional = |text| convert(&input, text, ParamStyle::Positional).unwrap();
    assert_eq!(positional(r#"{"include_details":true,"id_user":7}"#), "[7,true]");
    assert_eq!(positional(r#"{"id_user":7}"#), "[7]", "absent arguments at the end are omitted");
}

#[test]
fn positional_arguments_are_sent_by_name_or_by_position() {
    let input = user_get();
    assert_eq!(
        convert(&input, "[7, true]", ParamStyle::Named).unwrap(),
        r#"{"id_user":7,"include_details":true}"#
    );
    assert_eq!(convert(&input, "[7, true]", ParamStyle::Positional).unwrap(), "[7,true]");
    assert_eq!(
        convert(&input, "[7, true, 1]", ParamStyle::Named).unwrap_err(),
        "expected at most 2 arguments, found 3"
    );
}

#[test]
fn null_for_an_optional_parameter_that_is_not_nullable_is_absent_or_rejected() {
    let schema = json!({
        "type": "object",
        "properties": {
            "id": {"type": "integer"},
            "size": {"type": "integer", "default": 3},
            "note": {"$ref": "#/$defs/note"},
            "tags": {"type": "array", "items": {"type": "string"}},
            "any": {},
        },
        "required": ["id"],
        "additionalProperties": true,
        "$defs": {"note": {"type": ["string", "null"]}},
    });
    let input = CompiledInput::compile(schema.to_string().as_bytes()).unwrap();
    let lenient = |arguments: &str, style| {
        let raw: &RawValue = serde_json::from_str(arguments).unwrap();
        let lenient_format = ParamFormat { style, null_is_absent: true };
        let params = input.params(Some(raw), lenient_format);
        params.map(|params| params.get().to_owned()).map_err(|error| error.to_string())
    };
    let all = r#"{"id":1,"size":null,"note":null,"tags":null,"any":null,"other":null}"#;
    assert_eq!(
        lenient(all, ParamStyle::Named).unwrap(),
        r#"{"id":1,"note":null,"any":null,"other":null,"size":3}"#
    );
    let by_position = lenient(r#"{"id":1,"size":null,"tags":null}"#, ParamStyle::Positional);
    assert_eq!(by_position.unwrap(), "[1]");
    for wrong in [r#"{"id":null}"#, r#"{"id":1,"tags":[null]}"#] {
        let problem = lenient(wrong, ParamStyle::Named).unwrap_err();
        assert!(!problem.contains("omit the argument"), "{problem}");
    }
    let hint = "omit the argument, since null is not allowed";
    let long = format!(r#"{{"id":1,"tags":null,"any":"{}"}}"#, "x".repeat(MAX_EXPLAINED));
    for refused in [all, &long] {
        let problem = convert(&input, refused, ParamStyle::Named).unwrap_err();
        assert!(problem.contains(hint), "{problem}");
    }
}

#[test]
fn missing_positional_argument_is_its_default_or_null_or_an_error() {
    let with_gaps = compiled(&[
        param("a", "int").default(json!({"x": [1]})),
        param("b", "?int").optional(),
        param("c", "int").optional(),
        param("d", "int").optional(),
    ]);
    let positional = |text| convert(&with_gaps, text, ParamStyle::Positional);
    assert_eq!(positional(r#"{"c":3}"#).unwrap(), r#"[{"x":[1]},null,3]"#);
    assert_eq!(
        positional(r#"{"d":4}"#).unwrap_err(),
        "argument `c` has no default and must be given if a later argument is given"
    );
    assert_eq!(positional("{}").unwrap(), "[]");
    assert_eq!(positional(r#"{"e":4}"#).unwrap_err(), "unknown argument `e`");
    let with_null = convert(&with_gaps, r#"{"d":4}"#, ParamStyle::PositionalNull).unwrap();
    assert_eq!(with_null, r#"[{"x":[1]},null,null,4]"#);
    let either = |text| convert(&with_gaps, text, ParamStyle::Either).unwrap();
    assert_eq!(either(r#"{"c":3,"b":2}"#), r#"[{"x":[1]},2,3]"#);
    assert_eq!(either(r#"{"d":4}"#), r#"{"d":4,"a":{"x":[1]}}"#);
}

#[test]
fn styles_parse_from_their_names() {
    for style in ParamStyle::ALL {
        assert_eq!(style.as_str().parse::<ParamStyle>().unwrap(), style);
        assert_eq!(serde_json::from_value::<ParamStyle>(json!(style.as_str())).unwrap(), style);
    }
    assert_eq!(
        "order".parse::<ParamStyle>().unwrap_err().to_string(),
        "params_by: expected one of `name`, `position`, `either`, `position-null`, found `order`"
    );
}

/// The parameters of `suix_getOwnedObjects`: an optional cursor that is not nullable, before a limit.
fn paged() -> CompiledInput {
    let schema = json!({
        "type": "object",
        "properties": {
            "address": {"type": "string"},
            "cursor": {"$ref": "#/$defs/ObjectID"},
            "limit": {"type": "integer"},
        },
        "required": ["address"],
        "$defs": {"ObjectID": {"type": "string"}},
    });
    CompiledInput::compile(schema.to_string().as_bytes()).unwrap()
}

#[test]
fn absent_parameter_in_the_middle_is_omitted_by_name_or_null_by_position() {
    let input = paged();
    let all = r#"{"address":"0x","cursor":"0x1","limit":5}"#;
    let (gap, null) =
        (r#"{"limit":5,"address":"0x"}"#, r#"{"address":"0x","cursor":null,"limit":5}"#);
    for (style, arguments, expected) in [
        (ParamStyle::Either, all, r#"["0x","0x1",5]"#),
        (ParamStyle::Either, r#"{"address":"0x"}"#, r#"["0x"]"#),
        (ParamStyle::Either, gap, r#"{"limit":5,"address":"0x"}"#),
        (ParamStyle::Either, null, r#"{"address":"0x","limit":5}"#),
        (ParamStyle::Either, r#"{"address":"0x","cursor":null}"#, r#"["0x"]"#),
        (ParamStyle::PositionalNull, all, r#"["0x","0x1",5]"#),
        (ParamStyle::PositionalNull, r#"{"address":"0x"}"#, r#"["0x"]"#),
        (ParamStyle::PositionalNull, gap, r#"["0x",null,5]"#),
        (ParamStyle::PositionalNull, null, r#"["0x",null,5]"#),
    ] {
        assert_eq!(convert(&input, arguments, style).unwrap(), expected, "{style:?} {arguments}");
    }
    for style in [ParamStyle::Either, ParamStyle::PositionalNull] {
        assert!(convert(&input, r#"{"address":null}"#, style).is_err(), "required");
    }
    assert_eq!(
        convert(&input, gap, ParamStyle::Positional).unwrap_err(),
        "argument `cursor` has no default and must be given if a later argument is given"
    );
    assert_eq!(input.unsendable(), Some(("limit", "cursor")));
}

#[test]
fn nullable_definition_is_null_by_position() {
    let schema = json!({
        "properties": {"a": {"$ref": "#/$defs/A"}, "b": {"allOf": [{}]}, "c": {"type": "integer"}},
        "$defs": {"A": {"anyOf": [{"type": "string"}, {"type": "null"}]}},
    });
    let input = CompiledInput::compile(schema.to_string().as_bytes()).unwrap();
    assert_eq!(convert(&input, r#"{"c":1}"#, ParamStyle::Positional).unwrap(), "[null,null,1]");
    assert_eq!(input.unsendable(), None);
}

#[test]
fn undeclared_argument_is_refused_in_every_style_with_a_suggestion() {
    let compile_schema =
        |schema: Value| CompiledInput::compile(schema.to_string().as_bytes()).unwrap();
    let limit = || json!({"limit": {"type": "integer"}, "user_id": {"type": "integer"}});
    let inputs = [
        compiled(&[param("limit", "int").optional(), param("user_id", "int").optional()]),
        compile_schema(json!({"type": "object", "properties": limit()})),
        compile_schema(
            json!({"type": "object", "properties": limit(), "additionalProperties": false}),
        ),
        // Errors of schemas with references are reported without details.
        compile_schema(
            json!({"properties": {"limit": {"$ref": "#/$defs/L"}, "user_id": {}}, "$defs": {"L": {}}}),
        ),
        compile_schema(json!({"properties": limit(), "allOf": [{"properties": {"sort": {}}}]})),
    ];
    for input in &inputs {
        for style in ParamStyle::ALL {
            let error_of = |text: &str| convert(input, text, style).unwrap_err();
            assert_eq!(
                error_of(r#"{"lmit":1}"#),
                "unknown argument `lmit` (did you mean `limit`?)"
            );
            assert_eq!(
                error_of(r#"{"userId":1,"limit":2}"#),
                "unknown argument `userId` (did you mean `user_id`?)"
            );
            assert_eq!(
                error_of(r#"{"limit":1,"limits":2,"x":3}"#),
                "unknown argument `limits`, `x`"
            );
            assert!(convert(input, r#"{"limit":1}"#, style).is_ok());
        }
    }
    let [.., union] = &inputs;
    assert_eq!(convert(union, r#"{"sort":1}"#, ParamStyle::Either).unwrap(), r#"{"sort":1}"#);
}

#[test]
fn undeclared_argument_is_sent_by_name_if_the_schema_allows_it() {
    for keywords in [
        json!({"additionalProperties": true}),
        json!({"additionalProperties": {"type": "string"}}),
        json!({"patternProperties": {"^ex": {}}}),
        json!({"propertyNames": {"maxLength": 9}}),
        json!({"required": ["extra"]}),
    ] {
        let mut schema = json!({"type": "object", "properties": {"limit": {}}});
        schema.as_object_mut().unwrap().extend(keywords.as_object().unwrap().clone());
        let input = CompiledInput::compile(schema.to_string().as_bytes()).unwrap();
        let text = r#"{"limit":1,"extra":"x"}"#;
        assert_eq!(convert(&input, text, ParamStyle::Named).unwrap(), text, "{keywords}");
        assert_eq!(convert(&input, text, ParamStyle::Either).unwrap(), text, "{keywords}");
        let by_position = convert(&input, text, ParamStyle::Positional).unwrap_err();
        assert_eq!(by_position, "unknown argument `extra`", "{keywords}");
    }
    // A schema that declares no properties allows all properties.
    let any = CompiledInput::compile(br#"{"type":"object","properties":{}}"#).unwrap();
    assert_eq!(convert(&any, r#"{"a":1}"#, ParamStyle::Named).unwrap(), r#"{"a":1}"#);
}

#[test]
fn arguments_are_passed_unchanged_unless_a_default_is_added() {
    let input = user_get();
    let unusual = "{ \"include_details\" : true,\n \"id_user\":1e0 }";
    assert_eq!(convert(&input, unusual, ParamStyle::Named).unwrap(), unusual);
    assert_eq!(
        convert(&input, r#"{"id_user":  1}"#, ParamStyle::Named).unwrap(),
        r#"{"id_user":  1,"include_details":false}"#
    );
    // Numbers that do not fit into any machine type are kept.
    let big = input_of_one("n", "float");
    let text = r#"{"n":123456789012345678901234567890.10}"#;
    assert_eq!(convert(&big, text, ParamStyle::Named).unwrap(), text);
    assert_eq!(
        convert(&big, text, ParamStyle::Positional).unwrap(),
        "[123456789012345678901234567890.10]"
    );
}

fn with_rest(first: &[&str]) -> CompiledInput {
    let mut properties: Map<String, Value> =
        first.iter().map(|name| ((*name).to_owned(), json!({"type": "integer"}))).collect();
    properties.insert("rest".to_owned(), json!({"type": "array", "items": {}, REST_PARAM: true}));
    let schema = json!({"properties": properties, "additionalProperties": false});
    CompiledInput::compile(schema.to_string().as_bytes()).unwrap()
}

#[test]
fn items_of_a_rest_parameter_are_sent_as_parameters() {
    let (alone, behind) = (with_rest(&[]), with_rest(&["a"]));
    for (input, arguments, expected) in [
        (&alone, r#"{"rest":[1,"x",[2, {}]]}"#, r#"[1,"x",[2, {}]]"#),
        (&alone, r#"{"rest":[ ]}"#, "[]"),
        (&alone, "{}", "[]"),
        (&alone, "[1, [2]]", "[1,[2]]"),
        (&alone, "[]", "[]"),
        (&behind, r#"{"a":1,"rest":[2,3]}"#, "[1,2,3]"),
        (&behind, r#"{"a":1,"rest":[]}"#, "[1]"),
        (&behind, "[1]", "[1]"),
        (&behind, "[1,2,3]", "[1,2,3]"),
    ] {
        assert_eq!(
            convert(input, arguments, ParamStyle::Positional).unwrap(),
            expected,
            "{arguments}"
        );
    }
    assert!(convert(&behind, r#"{"rest":[2]}"#, ParamStyle::Positional).is_err(), "a gap");
    assert!(convert(&alone, r#"{"rest":1}"#, ParamStyle::Positional).is_err());
    assert!(convert(&alone, r#"[{"a":1,"a":2}]"#, ParamStyle::Positional).is_err(), "a key twice");
    assert_eq!(convert(&behind, "[1,2]", ParamStyle::Named).unwrap(), r#"{"a":1,"rest":[2]}"#);
}

#[test]
fn unchecked_arguments_are_sent_like_checked_arguments() {
    let method = || {
        let params = [
            param("id", "int"),
            param("note", "string").optional(),
            param("page size", "?int").optional(),
            param("sort", "string").default(json!("up")),
            param("rest", "int[]").variadic(),
        ];
        params.into_iter().fold(Method::new("m".parse().unwrap()), Method::param)
    };
    let compile = |method: &Method| {
        let tool = tool::write(method, &Types::default()).unwrap();
        CompiledInput::compile(&tool.check.unwrap()).unwrap()
    };
    let (checked, unchecked) = (compile(&method()), compile(&method().unchecked()));
    for arguments in [
        r#"{"id":1}"#,
        r#"{"id":1,"note":null,"sort":"down"}"#,
        r#"{"id":1,"page_size":2}"#,
        r#"{"id":1,"note":"n","rest":[4,5]}"#,
        r#"[1,"n",null]"#,
    ] {
        for style in ParamStyle::ALL {
            for null_is_absent in [false, true] {
                let raw: &RawValue = serde_json::from_str(arguments).unwrap();
                let convert = |input: &CompiledInput| {
                    let params = input.params(Some(raw), ParamFormat { style, null_is_absent });
                    params.map(|params| params.get().to_owned()).map_err(|error| error.to_string())
                };
                let expected = convert(&checked);
                // An unchecked method skips exactly this check.
                if expected.as_ref().is_err_and(|error| error.contains("expected string")) {
                    continue;
                }
                assert_eq!(
                    convert(&unchecked),
                    expected,
                    "{arguments}, {style:?}, {null_is_absent}"
                );
            }
        }
    }
    let wrong = r#"{"id":"x","other":[]}"#;
    assert!(convert(&checked, wrong, ParamStyle::Named).is_err());
    let params = convert(&unchecked, wrong, ParamStyle::Named).unwrap();
    assert_eq!(params, r#"{"id":"x","other":[],"sort":"up"}"#);
}

#[test]
fn items_of_a_variadic_parameter_are_sent_as_parameters() {
    let input = compiled(&[param("sort", "string"), param("ids", "string[]").variadic()]);
    let positional = |text| convert(&input, text, ParamStyle::Positional).unwrap();
    assert_eq!(positional(r#"{"ids":["a","b"],"sort":"up"}"#), r#"["up","a","b"]"#);
    assert_eq!(positional(r#"{"sort":"up"}"#), r#"["up"]"#);
    assert_eq!(positional(r#"["up","a","b"]"#), r#"["up","a","b"]"#);
    let text = r#"{"sort":"up","ids":["a","b"]}"#;
    assert_eq!(convert(&input, text, ParamStyle::Named).unwrap(), text);
}

fn input_of_one(name: &str, ty: &str) -> CompiledInput {
    compiled(&[param(name, ty)])
}

#[test]
fn absent_arguments_are_an_empty_object() {
    let params = user_get().params(None, ParamStyle::Named).unwrap_err().to_string();
    assert_eq!(params, "argument `id_user` is missing");
    assert_eq!(compiled(&[]).params(None, ParamStyle::Named).unwrap().get(), "{}");
}

#[test]
fn renamed_parameter_is_sent_under_its_original_name() {
    let input = input_of_one("Transaction hash", "string");
    assert_eq!(
        convert(&input, r#"{"Transaction_hash":"0x1"}"#, ParamStyle::Named).unwrap(),
        r#"{"Transaction hash":"0x1"}"#
    );
}

#[test]
fn list_is_accepted_for_array_and_passed_unchanged() {
    let input = input_of_one("filter", "array");
    for text in [r#"{"filter":[]}"#, r#"{"filter":{}}"#, r#"{"filter":[1, 2]}"#] {
        assert_eq!(convert(&input, text, ParamStyle::Named).unwrap(), text);
    }
    assert_eq!(
        convert(&input, r#"{"filter":"x"}"#, ParamStyle::Named).unwrap_err(),
        "argument `filter`: expected array or object, found string \"x\""
    );
}

#[test]
fn each_problem_names_argument_expected_and_actual_value() {
    let input = compiled(&[
        param("id", "int"),
        param("sort", "'asc'|'desc'").optional(),
        param("filter", "array{name: string, age?: int<0, 150>}").optional(),
        param("either", "int|string").optional(),
        param("when", "?string").optional(),
    ]);
    let problems: Vec<String> = [
        "{}",
        r#"{"id":"7"}"#,
        r#"{"id":null}"#,
        r#"{"id":1.5}"#,
        r#"{"id":1,"sort":"up"}"#,
        r#"{"id":1,"filter":{}}"#,
        r#"{"id":1,"filter":{"name":1,"age":200}}"#,
        r#"{"id":1,"either":[]}"#,
        r#"{"id":1,"when":{}}"#,
        r#"{"id":{"id":1,"id":2}}"#,
        r#"{"id":1,"id":2}"#,
        "3",
        "[\"x\"]",
    ]
    .into_iter()
    .map(|text| convert(&input, text, ParamStyle::Named).unwrap_err())
    .collect();
    insta::assert_debug_snapshot!(problems);
}

#[test]
fn a_long_value_is_truncated_in_the_message() {
    let text = format!(r#"{{"id_user":"{}"}}"#, "x".repeat(10_000));
    let message = convert(&user_get(), &text, ParamStyle::Named).unwrap_err();
    assert!(message.len() < 200, "{message}");
}

#[test]
fn renamed_parameter_is_rejected_under_its_original_name() {
    let input = compiled(&[param("Transaction hash", "string").optional()]);
    for text in
        [r#"{"Transaction hash":5}"#, r#"{"Transaction_hash":"ok","Transaction hash":{"evil":1}}"#]
    {
        let problem = convert(&input, text, ParamStyle::Named).unwrap_err();
        assert!(problem.starts_with("unknown argument `Transaction hash`"), "{problem}");
    }
}

/// With each nesting level of a wrong argument, the time of a validator that collects every problem doubles. At this
/// depth, the validator would need hours and terabytes.
#[test]
fn invalid_arguments_of_a_recursive_type_are_rejected_without_collecting_all_errors() {
    let schema = json!({
        "type": "object",
        "properties": {"tree": {"$ref": "#/$defs/Node"}},
        "required": ["tree"],
        "$defs": {
            "Node": {"anyOf": [{"$ref": "#/$defs/Both"}, {"$ref": "#/$defs/Either"}, {"$ref": "#/$defs/Leaf"}]},
            "Both": {"type": "object", "properties": {"left": {"$ref": "#/$defs/Node"}, "right": {"$ref": "#/$defs/Node"}}, "required": ["left"]},
            "Either": {"type": "object", "properties": {"left": {"$ref": "#/$defs/Node"}}, "required": ["left"]},
            "Leaf": {"type": "object", "properties": {"value": {"type": "integer"}}, "required": ["value"]},
        },
    });
    let input = CompiledInput::compile(schema.to_string().as_bytes()).unwrap();
    let mut tree = json!({"value": "wrong"});
    for _ in 0..50 {
        tree = json!({"left": tree});
    }
    let text = json!({"tree": tree}).to_string();
    assert_eq!(
        convert(&input, &text, ParamStyle::Named).unwrap_err(),
        "argument `tree` does not match its schema, found object"
    );
    assert_eq!(convert(&input, "{}", ParamStyle::Named).unwrap_err(), "argument `tree` is missing");
}

#[test]
fn errors_of_large_arguments_are_reported_briefly() {
    let input = input_of_one("tags", "string[]|int");
    let text = format!(r#"{{"tags":[{}1]}}"#, "1,".repeat(100_000));
    let message = convert(&input, &text, ParamStyle::Named).unwrap_err();
    assert_eq!(message, "argument `tags` does not match its schema, found array");
}

#[test]
fn method_without_parameters_rejects_arguments() {
    assert_eq!(
        convert(&compiled(&[]), r#"{"x":1,"y":2}"#, ParamStyle::Named).unwrap_err(),
        "unknown argument `x`, `y`"
    );
}

proptest! {
    #[test]
    fn any_arguments_become_valid_json_or_are_rejected(text in r#"[\{\}\[\]",:a-z_0-9 ]{0,40}"#) {
        let input = user_get();
        let text = text.replace('a', "\"id_user\"");
        if let Ok(raw) = serde_json::from_str::<&RawValue>(&text) {
            for style in ParamStyle::ALL {
                if let Ok(params) = input.params(Some(raw), style) {
                    serde_json::from_str::<Value>(params.get()).unwrap();
                }
            }
        }
    }
}

#[test]
fn errors_of_many_values_in_many_alternatives_are_reported_briefly() {
    let alternatives = |of: &dyn Fn(usize) -> Value| (0..50).map(of).collect::<Value>();
    let inner = |_| {
        let inner = alternatives(&|n| json!({"type": "object", "required": [format!("k{n}")]}));
        json!({"type": "array", "items": {"anyOf": inner}})
    };
    let schema = json!({"properties": {
        "values": {"type": "array", "items": {"anyOf": alternatives(&inner)}},
    }});
    let input = CompiledInput::compile(schema.to_string().as_bytes()).unwrap();
    // Detailed errors for 8 KiB of arguments would take seconds and gigabytes.
    for (count, expected) in [
        (1, "argument `values.0`: array matches none of the alternatives"),
        (4000, "argument `values` does not match its schema, found array"),
    ] {
        let arguments = json!({"values": [vec![1; count]]}).to_string();
        let problem = convert(&input, &arguments, ParamStyle::Named).unwrap_err();
        assert!(problem.starts_with(expected), "{problem}");
    }
}

/// If the definitions were copied for each parameter, the copies would take gigabytes.
#[test]
fn large_definitions_are_not_copied_for_each_parameter() {
    let properties: Map<String, Value> =
        (0..4000).map(|n| (format!("p{n}"), json!({"$ref": "#/$defs/Text"}))).collect();
    let text = json!({"type": "string", "description": "a".repeat(1_000_000)});
    let schema = json!({"type": "object", "properties": properties, "$defs": {"Text": text}});
    let input = CompiledInput::compile(schema.to_string().as_bytes()).unwrap();
    assert_eq!(
        convert(&input, r#"{"p1": 1}"#, ParamStyle::Named).unwrap_err(),
        "argument `p1` does not match its schema, found number 1"
    );
}
