use proptest::prelude::*;

use super::*;

fn parse(text: &str) -> TypeExpr {
    text.parse().unwrap_or_else(|error| panic!("{error}"))
}

fn printed(text: &str) -> String {
    parse(text).to_string()
}

#[test]
fn scalars_parse_in_any_case_and_by_their_doc_comment_names() {
    for (text, canonical) in [
        ("int", "int"),
        ("INT", "int"),
        ("integer", "int"),
        ("float", "float"),
        ("double", "float"),
        ("String", "string"),
        ("bool", "bool"),
        ("boolean", "bool"),
        ("  mixed ", "mixed"),
        ("void", "null"),
        ("object", "object"),
        ("\\stdClass", "object"),
        ("positive-int", "int<1, max>"),
        ("int<0, 100>", "int<0, 100>"),
        ("int<min, -1>", "int<min, -1>"),
        ("non-empty-string", "string"),
        ("class-string<Foo>", "string"),
        ("array-key", "int|string"),
        ("scalar", "int|float|string|bool"),
    ] {
        assert_eq!(printed(text), canonical, "{text}");
    }
}

#[test]
fn arrays_and_lists_have_one_normal_form() {
    for (text, canonical) in [
        ("array", "array"),
        ("iterable", "array"),
        ("int[]", "int[]"),
        ("list<int>", "int[]"),
        ("array<int>", "int[]"),
        ("array<int, string>", "string[]"),
        ("non-empty-list<int>", "int[]"),
        ("list", "mixed[]"),
        ("array<string, int>", "array<string, int>"),
        ("array<array-key, int>", "array<string, int>"),
        ("int[][]", "int[][]"),
        ("array<string, int[]>[]", "array<string, int[]>[]"),
    ] {
        assert_eq!(printed(text), canonical, "{text}");
    }
}

#[test]
fn classes_keep_their_namespace() {
    assert_eq!(
        printed("\\plugin\\Commits\\CommitValuesObject[]"),
        "plugin\\Commits\\CommitValuesObject[]"
    );
    let TypeExpr::Class(name) = parse("plugin\\Commits\\Commit") else { panic!() };
    assert_eq!(name.short(), "Commit");
    assert_eq!(parse("Größe"), TypeExpr::Class(ClassName::parse("Größe").unwrap()));
}

#[test]
fn unions_are_flat_and_null_is_outside() {
    for (text, canonical) in [
        ("int|string", "int|string"),
        ("int|int", "int"),
        ("int|(string|int)", "int|string"),
        ("?string", "?string"),
        ("string|null", "?string"),
        ("null|string", "?string"),
        ("bool|null", "?bool"),
        ("?int|string", "int|string|null"),
        ("null|null", "null"),
        ("?mixed", "mixed"),
        ("int|mixed", "mixed"),
        ("?T[]", "?T[]"),
        ("(?T)[]", "(?T)[]"),
        ("(A|B)[]", "(A|B)[]"),
        ("((int))", "int"),
        ("'asc'|'desc'", "'asc'|'desc'"),
        ("\"asc\"|3|-1.5|true", "'asc'|3|-1.5|true"),
    ] {
        assert_eq!(printed(text), canonical, "{text}");
    }
    assert!(
        matches!(parse("?T[]"), TypeExpr::Nullable(inner) if matches!(*inner, TypeExpr::List(_)))
    );
}

#[test]
fn shapes_have_named_optional_and_positional_fields() {
    for (text, canonical) in [
        ("array{id: int, name?: string}", "array{id: int, name?: string}"),
        ("array{ id:int , }", "array{id: int}"),
        ("array{'first-name': string, 'a b'?: int}", "array{first-name: string, 'a b'?: int}"),
        ("array{int, string}", "array{int, string}"),
        ("array{0: int, 1: string}", "array{int, string}"),
        ("list{int, int}", "array{int, int}"),
        ("array{}", "array{}"),
        ("object{x: int}", "array{x: int}"),
        ("array{id: int, ...}", "array{id: int}"),
        ("array{user: array{id: int}[]}", "array{user: array{id: int}[]}"),
        ("array{5: int}", "array{5: int}"),
        ("array{sort: 'asc'|'desc'}", "array{sort: 'asc'|'desc'}"),
    ] {
        assert_eq!(printed(text), canonical, "{text}");
    }
}

#[test]
fn invalid_types_are_rejected_with_column_and_reason() {
    let errors: Vec<String> = [
        "",
        "self",
        "static[]",
        "$this",
        "callable",
        "Closure",
        "callable(int): string",
        "resource",
        "int|",
        "int string",
        "int[",
        "(int",
        "array<",
        "array<int, string, bool>",
        "list<int, int>",
        "array{id: int, id: int}",
        "array{id: int",
        "Collection<User>",
        "A&B",
        "int<a, 3>",
        "'open",
        "A\\\\B",
        "é$",
        "1.2.3",
    ]
    .into_iter()
    .map(|text| text.parse::<TypeExpr>().unwrap_err().to_string())
    .collect();
    insta::assert_debug_snapshot!(errors);
}

#[test]
fn deeply_nested_or_long_types_are_rejected() {
    for text in [
        "(".repeat(4_000),
        "?".repeat(4_000),
        format!("int{}", "[]".repeat(3_000)),
        "array<".repeat(1_000),
        "array{a:".repeat(900),
        "x".repeat(10_000),
    ] {
        assert!(text.parse::<TypeExpr>().is_err());
    }
}

fn any_type() -> impl Strategy<Value = TypeExpr> {
    let name = "[A-Z][a-z]{1,6}(\\\\[A-Z][a-z]{1,4}){0,2}";
    let leaf = prop_oneof![
        Just(TypeExpr::INT),
        (any::<i8>(), any::<u8>()).prop_map(|(min, size)| TypeExpr::Int {
            min: Some(min.into()),
            max: Some(i64::from(min) + i64::from(size)),
        }),
        Just(TypeExpr::Float),
        Just(TypeExpr::String),
        Just(TypeExpr::Bool),
        Just(TypeExpr::Null),
        Just(TypeExpr::Mixed),
        Just(TypeExpr::Array),
        Just(TypeExpr::Object),
        any::<String>().prop_map(|text| TypeExpr::Literal(Literal::String(text))),
        any::<i64>().prop_map(|n| TypeExpr::Literal(Literal::Number(n.into()))),
        any::<bool>().prop_map(|value| TypeExpr::Literal(Literal::Bool(value))),
        name.prop_filter_map("a word of PHP's own", |name| {
            let class = ClassName::parse(&name)?;
            (name.parse() == Ok(TypeExpr::Class(class.clone()))).then_some(TypeExpr::Class(class))
        }),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        let field = ("[a-z][a-z0-9]{0,5}|[ \\PC]{1,4}x", any::<bool>(), inner.clone())
            .prop_map(|(name, optional, ty)| Field { name, optional, ty });
        prop_oneof![
            inner.clone().prop_map(|ty| TypeExpr::List(Box::new(ty))),
            inner.clone().prop_map(|ty| TypeExpr::Map(Box::new(ty))),
            prop::collection::vec(inner.clone(), 1..4).prop_map(TypeExpr::Tuple),
            prop::collection::vec(field, 0..4).prop_map(|mut fields| {
                let mut names = std::collections::HashSet::new();
                fields.retain(|field| names.insert(field.name.clone()));
                TypeExpr::Shape(fields)
            }),
            inner.clone().prop_map(TypeExpr::or_null),
            prop::collection::vec(inner, 1..4).prop_map(TypeExpr::union_of),
        ]
    })
}

proptest! {
    #[test]
    fn a_printed_type_parses_to_the_same_type(ty in any_type()) {
        prop_assert_eq!(ty.to_string().parse(), Ok(ty));
    }

    #[test]
    fn any_text_is_rejected_or_parses_to_a_printable_type(
        text in "[\\PC]{0,40}|[a-z?|<>\\[\\](){}:,'$\\\\0-9 ]{0,40}",
    ) {
        if let Ok(ty) = text.parse::<TypeExpr>() {
            prop_assert_eq!(ty.to_string().parse(), Ok(ty));
        }
    }
}
