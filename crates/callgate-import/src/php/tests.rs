//! Names, constants and syntax of PHP. No file can stop an import.

use std::fmt::Write as _;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::evaluate::evaluate;
use super::symbols::Symbols;
use super::syntax::{self, Parser};
use super::{Source, methods_of};

/// Files with all constructs that are read.
const FILES: [&str; 5] = [
    include_str!("../../../callgate-cli/tests/php/plugins/Projects/ProjectsPlugin.php"),
    include_str!(
        "../../../callgate-cli/tests/php/plugins/Projects/domain/model/CommitValuesObject.php"
    ),
    include_str!("../../../callgate-cli/tests/php/plugins/Projects/domain/model/State.php"),
    include_str!("../../../callgate-cli/tests/php/core/Attributes.php"),
    include_str!(
        "../../../callgate-cli/tests/php/modules/site/src/Plugin/jsonrpc/Method/NodeCreate.php"
    ),
];

/// Returns the declarations in texts, which may have syntax errors.
fn parse_symbols(texts: &[&str]) -> Symbols {
    let mut symbols = Symbols::default();
    let mut parser = Parser::new().unwrap();
    for text in texts {
        symbols.add(syntax::read(&mut parser, text, "a.php").unwrap().0);
    }
    symbols
}

fn read(texts: &[&str]) -> Source {
    methods_of(&parse_symbols(texts), "source", "php").unwrap()
}

/// Returns the value of the constant `X` of the class `A`.
fn constant(text: &str) -> Option<Value> {
    let symbols = parse_symbols(&[text]);
    let class = symbols.class("A").unwrap();
    evaluate(symbols.context_of(class), class.constants.get("X").unwrap())
}

#[test]
fn constant_expressions_are_evaluated_as_in_php() {
    for (expression, value) in [
        ("1_000", json!(1000)),
        ("0x1F + 0b11 + 017 + 0o17", json!(64)),
        ("-7 % 3", json!(-1)),
        ("10 / 4", Value::Null),
        ("10 / 5", json!(2)),
        ("1.5 * 2", json!(3.0)),
        ("1 << 4 | 1", json!(17)),
        ("2 ** 10", json!(1024)),
        ("9223372036854775807 + 1", Value::Null),
        ("9223372036854775808", json!(9_223_372_036_854_775_808.0)),
        ("!TRUE", json!(false)),
        ("'it\\'s \\n' . \"\\n\\x41\\u{e9}\\101\\q\"", json!("it's \\n\nAéA\\q")),
        ("\"a $b\"", Value::Null),
        ("\"a {$b}\"", Value::Null),
        ("\"\\$b\"", json!("$b")),
        ("'a' . 1 . null . true", json!("a11")),
        ("[1, 2]", json!([1, 2])),
        ("array('a' => 1, 'b' => [])", json!({"a": 1, "b": []})),
        ("[1 => 'a', 'b']", json!({"1": "a", "2": "b"})),
        ("['0' => 'a', 1 => 'b']", json!(["a", "b"])),
        ("[...self::LIST, 3]", json!([1, 2, 3])),
        ("self::LIST[1]", json!(2)),
        ("self::MAP['k']", json!("v")),
        ("Other::NAME . '!'", json!("other!")),
        ("B::INHERITED", json!("parent's")),
        ("Suit::Hearts", json!("H")),
        ("Suit::Hearts->value . Suit::Hearts->name", json!("HHearts")),
        ("Other::class", json!("Other")),
        ("PHP_INT_MAX", json!(i64::MAX)),
        ("OUTSIDE", json!("outside")),
        ("new TranslatableMarkup('Hello @name', ['@name' => 1])", json!("Hello @name")),
        ("t('Hello')", json!("Hello")),
        ("time()", Value::Null),
        ("self::X", Value::Null),
        ("self::NOWHERE", Value::Null),
        ("<<<A\n    a\\t\n      b\n    A", json!("a\t\n  b")),
        ("<<<'A'\na\\t$b\nA", json!("a\\t$b")),
        ("[/* one */ 1, // two\n 2]", json!([1, 2])),
    ] {
        let text = format!(
            "<?php const OUTSIDE = 'outside';
             class A {{ const LIST = [1, 2]; const MAP = ['k' => 'v']; const X = {expression}; }}
             class Other {{ const NAME = 'other'; const INHERITED = \"parent's\"; }}
             class B extends Other {{}}
             enum Suit: string {{ case Hearts = 'H'; }}"
        );
        assert_eq!(constant(&text).unwrap_or_default(), value, "{expression}");
    }
}

#[test]
fn recursive_and_oversized_constants_have_no_value() {
    let mut text = String::from("<?php class A { const C0 = 'aaaaaaaaaaaaaaaa'; const L0 = [1];");
    for number in 1..60 {
        let last = number - 1;
        let _ = write!(
            text,
            "const C{number} = self::C{last} . self::C{last};
             const L{number} = [...self::L{last}, ...self::L{last}];"
        );
    }
    assert_eq!(constant(&format!("{text} const X = self::C59; }}")), None);
    assert_eq!(constant(&format!("{text} const X = self::L59; }}")), None);
    assert_eq!(
        constant(&format!("{text} const X = self::C5; }}")).unwrap().as_str().unwrap().len(),
        512
    );
    assert_eq!(constant("<?php class A { const X = self::Y; const Y = self::X; }"), None);
    assert_eq!(
        constant("<?php class A extends B { const X = self::Z; } class B extends A {}"),
        None
    );
}

#[test]
fn a_method_with_a_misspelled_access_tag_is_refused() {
    let read = |tag: &str| {
        let doc = format!("/** A text.\n* @rpc a\n* @{tag} admin\n*/");
        read(&[&format!("<?php class A {{ {doc} public function a() {{}} }}")])
    };
    let sections =
        "section: sections Sections section_name mcpSection secton sectioon sectiin sectoin ection";
    let safety = "mcpDestructve mcpDestructive: mcpdestrutcive";
    for tag in sections.split(' ').chain(safety.split(' ')) {
        let source = read(tag);
        assert!(source.methods.is_empty(), "{tag}");
        let reason = format!("its tag `@{tag}` is unknown");
        assert!(source.refused[0].reason.contains(&reason), "{}", source.refused[0].reason);
    }
    for tag in ["action", "selection", "see", "return", "SECTION", "mcpReadOnly", "mcpdestructive"]
    {
        assert_eq!(read(tag).methods.len(), 1, "{tag}");
    }
}

#[test]
fn sections_are_separated_by_commas_and_an_empty_section_tag_is_refused() {
    for (tag_text, idents) in [
        ("users", Some("users")),
        ("users admin may too", Some("users")),
        ("users, admin", Some("users admin")),
        ("users,admin , log ,more of it", Some("users admin log more")),
        ("users, // and\n* admin // too", Some("users admin")),
        ("users\n* @section users,log", Some("users log")),
        ("", None),
        (" // users", None),
        (" ,", None),
        ("users\n* @section", None),
    ] {
        let doc = format!("/** A text.\n* @rpc a\n* @section {tag_text}\n*/");
        let source = read(&[&format!("<?php class A {{ {doc} public function a() {{}} }}")]);
        let needs = source.methods.first().and_then(|method| method.needs.clone());
        let needs: Option<Vec<String>> =
            needs.map(|needs| needs.into_iter().map(|(ident, _)| ident).collect());
        assert_eq!(needs.map(|needs| needs.join(" ")).as_deref(), idents, "{tag_text}");
        assert_eq!(source.methods.len() + source.refused.len(), 1);
        let reason = source.refused.first().map_or("", |refused| refused.reason.as_str());
        assert_eq!(
            reason.contains("`@section` names no section"),
            idents.is_none(),
            "{tag_text}: {reason}"
        );
    }
}

#[test]
fn class_names_are_resolved_by_namespace_import_and_unique_short_name() {
    let source = read(&[
        r"<?php
        namespace App\Rpc;
        use Other\Thing, Far\Away as Near;
        use Lib\{One, Two as Second};
        use function Lib\Three;
        class ShopPlugin {
            /** @rpc all
             * @param Thing[] $thing
             * @param Near\Sub $near
             * @param One|Second $one
             * @param Three $three
             * @param \Whole\Name $whole
             * @param namespace\Local $local
             * @param Elsewhere $elsewhere
             * @param self $me
             * @return array<string, Thing> By name. */
            public function all($thing, $near, $one, $three, $whole, $local, $elsewhere, $me) {}
        }",
        r"<?php namespace Some\Where; class Elsewhere { public int $id; public ?Elsewhere $next = null; }",
    ]);
    assert!(source.refused.is_empty(), "{:?}", source.refused);
    let row = &source.methods[0].row;
    let params: Value = serde_json::from_str(row.params.as_deref().unwrap()).unwrap();
    let types: Vec<&str> =
        params.as_array().unwrap().iter().map(|param| param["type"].as_str().unwrap()).collect();
    assert_eq!(
        types,
        [
            "Other\\Thing[]",
            "Far\\Away\\Sub",
            "Lib\\One|Lib\\Two",
            "App\\Rpc\\Three",
            "Whole\\Name",
            "App\\Rpc\\Local",
            "Some\\Where\\Elsewhere",
            "App\\Rpc\\ShopPlugin",
        ]
    );
    assert_eq!(row.return_type.as_deref(), Some("array<string, Other\\Thing>"));
    assert_eq!(row.plugin.as_deref(), Some("ShopPlugin"), "no directory is called `Shop`");
    let types: Vec<&str> = source.types.iter().map(|row| row.name.as_str()).collect();
    assert_eq!(types, ["Some\\Where\\Elsewhere"]);
}

#[test]
fn deeply_nested_files_do_not_overflow_the_stack() {
    let depth = 20_000;
    let nested = |open: &str, close: &str| {
        let inner = format!("{}1{}", open.repeat(depth), close.repeat(depth));
        format!(
            "<?php class A {{ const X = {inner}; /** @rpc a */ function a($x = {inner}) {{}} }}"
        )
    };
    for text in [nested("[", "]"), nested("(", ")"), nested("- ", ""), nested("'a'.", "")] {
        assert_eq!(constant(&text), None);
        assert_eq!(read(&[&text]).methods.len(), 1);
    }
    let nested_ifs =
        format!("<?php {} class A {{}} {}", "if (1) {".repeat(depth), "}".repeat(depth));
    assert!(parse_symbols(&[&nested_ifs]).classes.is_empty());
    let types =
        format!("<?php class A {{ /** @rpc a */ function a({}int $x) {{}} }}", "?".repeat(depth));
    read(&[&types]);
    let doc = format!(
        "<?php class A {{ /** @rpc a\n@param {} $x */ function a($x) {{}} }}",
        "(".repeat(depth)
    );
    read(&[&doc]);
    let text = "<?php [".repeat(depth);
    assert!(syntax::read(&mut Parser::new().unwrap(), &text, "a.php").unwrap().1.is_some());
}

/// An edit of a text: position, number of characters to remove, and text to insert.
fn edit() -> impl Strategy<Value = (prop::sample::Index, usize, &'static str)> {
    let tokens = prop::sample::select(vec![
        "",
        "{",
        "}",
        "(",
        ")",
        "[",
        "]",
        "#[",
        "/**",
        "*/",
        "'",
        "\"",
        "<<<A\n",
        "\nA",
        "?>",
        "<?php ",
        "$",
        "\\",
        "::",
        "->",
        "...",
        "=>",
        "=",
        ";",
        ",",
        "|",
        "&",
        "@rpc x",
        "@param ",
        "@section ",
        "class A ",
        "enum E: int ",
        "case B = ",
        "const X = self::X",
        "use A\\{B, C}",
        "namespace N;",
        "function f(",
        "new ",
        "static ",
        "\u{e9}",
        "\u{0}",
        "int[]",
        "array{a: ",
        "JsonRpcMethod(",
        "McpTool(",
        "JsonProperty(",
        "extends A ",
        "use T;",
        "trait T ",
        "0x",
        "1e999",
        "-",
    ]);
    (any::<prop::sample::Index>(), 0..40_usize, tokens)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn edited_files_never_fail_the_import(
        file_index in 0..FILES.len(),
        edits in prop::collection::vec(edit(), 1..12),
    ) {
        let mut text: Vec<char> = FILES[file_index].chars().collect();
        for (position, removed, new) in edits {
            let position = position.index(text.len() + 1);
            let end = (position + removed).min(text.len());
            text.splice(position..end, new.chars());
        }
        let text: String = text.into_iter().collect();
        read(&[&text, FILES[2]]);
    }
}

/// Syntax of PHP 8.1 to 8.5, most of which the grammar supports.
const SYNTAX: &[&str] = &[
    "class A { public function __construct(readonly protected string $a, readonly private int $b = 1) {} METHOD }",
    "readonly class A { METHOD }",
    "final readonly class A { public function __construct(public string $a) {} METHOD }",
    "class A { const string NAME = 'a'; METHOD }",
    "enum E: string { case One = 'one'; const X = self::One; } class A { METHOD }",
    "class A { public string $name { get => $this->name; set(string $value) { $this->name = $value; } } METHOD }",
    "class A { public private(set) string $name; METHOD }",
    "class A { public function __construct(public private(set) string $name) {} METHOD }",
    "class A { #[\\Override] public const X = 1; METHOD }",
    "class A { public function b() { return $this->x |> strtoupper(...) |> trim(...); } METHOD }",
    "class A { public function b() { return clone($this, ['a' => 1]); } METHOD }",
    "class A { public function b(): never { throw new \\Exception(); } METHOD }",
    "class A { public function b((A&B)|null $x, false|null $y) { $f = fn(int ...$n) => match(true) { default => 1 }; } METHOD }",
    "class A { public function b() { $o = new class { use T; }; return $o?->c()::{$d}; } METHOD }",
    "abstract class A { abstract protected function c(): static; METHOD }",
    "class A { public function b() { return <<<TEXT\n  a {$x->y['z']} b\n  TEXT; } METHOD }",
    "class A { public function b() { return A::{'name'}; } METHOD }",
    "class A { public function b(#[\\SensitiveParameter] string $p, $q = new B(1),) { static $n = f(); } METHOD }",
    "class A { public abstract string $x { get; } METHOD }",
    "class A { public static private(set) int $n = 0; METHOD }",
    "class A { final public function __construct(final public string $a) {} METHOD }",
];

#[test]
fn a_method_is_read_next_to_syntax_of_php_8_1_to_8_5() {
    let mut unread = Vec::new();
    for code in SYNTAX {
        let method =
            "/** @rpc a.get */ public function get(int $id, string $x = 'y'): int { return 1; }";
        let source = read(&[&format!("<?php {}", code.replace("METHOD", method))]);
        if source.methods.iter().all(|method| method.row.rpc_method != "a.get") {
            unread.push(*code);
        }
    }
    assert_eq!(unread, [""; 0]);
}

/// All defaults together would take gigabytes.
#[test]
fn the_total_size_of_the_constants_of_a_method_is_limited() {
    let text = "a".repeat(900_000);
    let params: Vec<String> = (0..4000).map(|n| format!("$p{n} = self::LONG")).collect();
    let file = format!(
        "<?php class APlugin {{ const LONG = '{text}';\n/** @rpc a.b */\nfunction b({}) {{}} }}",
        params.join(", ")
    );
    let source = read(&[&file]);
    let bytes: usize =
        source.methods.iter().map(|method| crate::limits::method_bytes(&method.row)).sum();
    assert_eq!((source.methods.len(), source.refused.len()), (1, 0));
    assert!(bytes <= crate::limits::MAX_METHOD_BYTES, "{bytes}");
    assert!(source.notes.last().unwrap().contains("more notes"));
}
