//! Methods from PHP source: the small application in `tests/php`, and files of the tests.

use serde_json::{Value, json};

use super::super::support::{CommandOutput, TestDirectory};
use crate::fake::FakeService;

/// The source of the application.
const HOST: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/php");

impl TestDirectory {
    /// Imports from a directory, which must succeed.
    fn import_php(&self, directory: &str, options: &[&str]) -> CommandOutput {
        self.run(&[&["import", "php", directory], options].concat()).expect_success()
    }

    /// Writes a file of a source.
    fn php(&self, path: &str, text: &str) {
        std::fs::create_dir_all(self.path(path).parent().unwrap()).unwrap();
        self.write(path, &format!("<?php\n{text}"));
    }

    fn properties(&self, id: &str) -> Value {
        self.tool(id)["inputSchema"]["properties"].clone()
    }
}

fn host() -> TestDirectory {
    let dir = TestDirectory::migrated();
    dir.import_php(HOST, &["--upstream", "php"]);
    dir
}

#[test]
fn a_php_source_is_imported_with_docs_safety_and_sections() {
    let dir = TestDirectory::migrated();
    let output = dir.import_php(HOST, &["--upstream", "php", "--dry-run"]);
    insta::assert_snapshot!(format!("{}---\n{}", output.stdout(), output.stderr()));
    dir.import_php(HOST, &["--upstream", "php"]);
    let repeated = dir.import_php(HOST, &["--upstream", "php"]).stdout();
    assert!(
        repeated.contains("nothing changed") && repeated.contains("11 unchanged"),
        "{repeated}"
    );
    insta::assert_json_snapshot!(dir.tool("getProject"));
    insta::assert_json_snapshot!(dir.tool("node.create"));
    let methods = dir.exported();
    assert_eq!(methods["user.count"]["exposed"], false);
    assert_eq!(methods["batchCreateByProjectID"]["plugin"], "Projects");
    assert_eq!(methods["getProjects"]["method"], "onDisplayList");
}

#[test]
fn php_types_become_schemas() {
    let dir = TestDirectory::migrated();
    dir.php(
        "shop/ShopPlugin.php",
        "class ShopPlugin {
            /**
             * @rpc all
             * @param int[] $list
             * @param array<string, float> $map
             * @param $untyped
             */
            public function all(
                int $int, float $float, string $string, bool $bool, array $array, array $list,
                array $map, ?string $nullable, null|int $or_null, int|string $union,
                int|float $overlapping, mixed $mixed, $untyped, iterable $iterable, Unknown $unknown,
            ) {}
        }",
    );
    dir.import_php("shop", &[]);
    insta::assert_json_snapshot!(dir.tool("all")["inputSchema"]);
}

#[test]
fn items_of_php_variadics_are_sent_as_parameters() {
    let service = FakeService::json_rpc(|_, params| Some(params.clone()));
    let dir = TestDirectory::migrated();
    let class = "class ShopPlugin {
        /** @rpc item.sort */
        public function sort(string $by, string ...$ids) {}
    }";
    dir.php("shop/ShopPlugin.php", class);
    dir.import_php("shop", &["--params-by", "position"]);
    dir.ok(&["method", "add", "item.list", "--param", "int ...$ids", "--params-by", "position"]);
    let url = format!("[upstreams.default]\nurl = \"http://{}/\"\n", service.address);
    dir.write("callgate.toml", &url);
    let server = dir.serve(&[]);
    for (id, arguments, sent) in [
        ("item.sort", json!({"ids": ["a", "b"], "by": "name"}), json!(["name", "a", "b"])),
        ("item.sort", json!({"by": "name"}), json!(["name"])),
        ("item.list", json!({"ids": [1, 2]}), json!([1, 2])),
    ] {
        assert_eq!(server.invoke("", id, &arguments).json(), json!({"result": sent}), "{id}");
    }
}

#[test]
fn php_classes_have_exactly_their_json_properties() {
    let dir = host();
    insta::assert_json_snapshot!(dir.properties("batchCreateByProjectID"));
    let find = dir.properties("findProjects");
    let states = json!(["planned", "running", "done"]);
    assert_eq!(find["states"]["items"]["enum"], states, "an enum has the values of its cases");
    assert_eq!(find["atLeast"]["enum"], json!([1, 16]));
    assert_eq!(find["order"]["enum"], json!(["name", "date"]));
}

#[test]
fn without_json_properties_public_or_promoted_properties_are_used() {
    let dir = TestDirectory::migrated();
    dir.php(
        "a/Values.php",
        "namespace app;
        class Base { public int $inherited; protected int $not; public static $nor; }
        trait Named { /** Its name. */ public string $name = ''; }
        class Open extends Base { use Named; public $untyped; public Sealed $sealed; }
        class Sealed { public function __construct(private int $id, private ?string $word = null) {} }
        class Nothing { private int $x; }
        /** In a doc comment, as before attributes. */
        class Old { /**
            * @JsonProperty(\"userId\")
            * @var int */ private $id; private $other; }
        enum Pure { case Up; case Down; }
        class APlugin {
            /** @rpc all */
            public function all(Open $open, Nothing $nothing, Old $old, Pure $pure = Pure::Down) {}
        }",
    );
    dir.import_php("a", &[]);
    insta::assert_json_snapshot!(dir.properties("all"));
}

#[test]
fn names_and_defaults_are_those_of_the_php_signature() {
    let tool = host().tool("mixAll");
    insta::assert_json_snapshot!(tool["inputSchema"]);
}

#[test]
fn a_php_response_is_not_an_argument_and_the_return_type_is_ignored() {
    let dir = TestDirectory::migrated();
    dir.import_php(HOST, &["--upstream", "php"]);
    let tool = dir.tool("getProjects");
    assert_eq!(tool["inputSchema"]["properties"], json!({}));
    assert!(tool.get("outputSchema").is_none(), "{tool}");
    let tool = dir.tool("batchCreateByProjectID");
    assert_eq!(tool["outputSchema"], json!({"type": "integer"}));
    assert_eq!(dir.tool("cache.rebuild")["outputSchema"], json!({"type": "boolean"}));
}

#[test]
fn the_class_of_a_php_method_becomes_its_plugin() {
    let dir = TestDirectory::migrated();
    dir.php(
        "src/MyPlugin.php",
        "class MyPlugin extends DisplayPlugin
        {
            /**
             * @rpc deleteUser
             * @param int $idUser
             * @section user_management  // References a section in festi_sections
             * @return bool
             */
            public function deleteUser(int $idUser): bool { return true; }
        }",
    );
    dir.import_php("src", &[]);
    let method = &dir.exported()["deleteUser"];
    assert_eq!(
        (&method["plugin"], &method["safety"]),
        (&json!("MyPlugin"), &json!("guessed_destructive"))
    );
    assert_eq!(method["sections"], json!({"user_management": "write"}));
}

#[test]
fn an_invalid_php_file_is_reported_and_removes_nothing() {
    let dir = TestDirectory::migrated();
    let source = "class APlugin { /** @rpc a */ public function a() {} /** @rpc b */ public function b() {} }";
    dir.php("src/APlugin.php", source);
    dir.php("src/BPlugin.php", "class BPlugin { /** @rpc c */ public function c() {} }");
    dir.import_php("src", &[]);
    dir.php("src/APlugin.php", &source.replace("a() {}", "a( {}"));
    let output = dir.import_php("src", &[]);
    insta::assert_snapshot!(output.stdout(), @"
    skipped  APlugin.php: line 2: `)` is missing
    nothing changed
    0 added, 0 changed, 0 removed, 0 hidden, 0 kept, 0 refused, 2 unchanged
    ");
    assert!(output.stderr().contains("nothing is removed"), "{}", output.stderr());
    dir.php("src/APlugin.php", "class APlugin { /** @rpc a */ public function a() {} }");
    insta::assert_snapshot!(dir.import_php("src", &[]).stdout(), @"
    removed  b: hidden; `--prune` deletes it
    0 added, 0 changed, 1 removed, 0 hidden, 0 kept, 0 refused, 2 unchanged
    ");
}

#[test]
fn only_php_files_below_the_directory_are_read_without_third_party_code() {
    let dir = TestDirectory::migrated();
    let method = |id: &str| format!("class C{id} {{ /** @rpc {id} */ public function f() {{}} }}");
    for (path, id) in [
        ("src/a.php", "a"),
        ("src/deep/er/b.inc", "b"),
        ("src/vendor/x/c.php", "c"),
        ("src/node_modules/d.php", "d"),
        ("src/.hidden/e.php", "e"),
        ("src/tests/f.php", "f"),
        ("src/deep/tests/g.php", "g"),
        ("src/notes.txt", "h"),
        ("outside/i.php", "i"),
    ] {
        dir.php(path, &method(id));
    }
    std::os::unix::fs::symlink(dir.path("outside"), dir.path("src/link")).unwrap();
    std::os::unix::fs::symlink(dir.path("outside/i.php"), dir.path("src/i.php")).unwrap();
    std::os::unix::fs::symlink(dir.path("src"), dir.path("src/loop")).unwrap();
    let large = format!("{}{}", method("large"), " ".repeat(3 * 1024 * 1024));
    dir.php("src/large.php", &large);
    let output = dir.import_php("src", &["--skip", "deep/tests"]);
    assert_eq!(dir.exported().keys().collect::<Vec<_>>(), ["a", "b", "f"]);
    insta::assert_snapshot!(format!("{}{}", output.stdout(), output.stderr()));
    std::fs::remove_file(dir.path("src/large.php")).unwrap();
    dir.import_php("src", &["--vendor", "--skip", "tests"]);
    let methods = dir.exported();
    assert!(["c", "d"].iter().all(|id| methods.contains_key(*id)), "{methods:?}");
    assert!(!methods.contains_key("g") && methods["f"]["exposed"] == false, "{methods:?}");
}

#[test]
fn unreadable_php_sources_are_reported_with_hints() {
    let dir = TestDirectory::migrated();
    dir.write("file.php", "<?php");
    std::fs::create_dir(dir.path("empty")).unwrap();
    let mut errors = String::new();
    for arguments in [
        ["nowhere", "--vendor"],
        ["file.php", "--vendor"],
        ["empty", "--upstream=local"],
        ["empty", "--vendor"],
    ] {
        let (code, stderr) = dir.run(&[&["import", "php"], &arguments[..]].concat()).failure();
        assert_eq!(code, 1);
        errors += &stderr;
    }
    let errors = errors.replace(&dir.path("").display().to_string(), "…/");
    insta::assert_snapshot!(errors);
}

#[test]
fn attributes_that_are_not_constant_are_reported() {
    let dir = TestDirectory::migrated();
    dir.php(
        "src/a.php",
        "namespace app;
        #[JsonRpcMethod(id: name())] class NoId {}
        #[JsonRpcMethod(id: 'a.list', params: PARAMS)] #[McpTool] class NoParams {}
        #[JsonRpcMethod(id: 'a.notes', usage: usage(), params: ['x' => new JsonRpcParameterDefinition('x', SCHEMA)])]
        #[McpTool(annotations: ANNOTATIONS)]
        class Notes {}
        #[JsonRpcMethod('a.positional', new TranslatableMarkup('By position.'), [], [new JsonRpcParameterDefinition('x', ['type' => 'integer'], NULL, NULL, TRUE)])]
        #[McpTool(annotations: ['a', 'b'])]
        class ListOfAnnotations {}
        #[JsonRpcMethod(id: 'a.factory', params: ['f' => new JsonRpcParameterDefinition('f', factory: Factory::class)])]
        #[McpTool('Title', ['readOnlyHint' => true])]
        class OwnFactory {}
        class Factory { public static function schema($x) { return ['type' => 'string', 'minLength' => 3]; } }
        class Service {
            /** Reads it. */
            #[JsonRpcMethod(id: 'a.read'), McpTool(annotations: ['readOnlyHint' => true])]
            #[JsonRpcParameterDefinition(name: 'at', schema: ['type' => 'integer'], required: true)]
            public function read(int $at): string {}
            #[JsonRpcMethod(id: 'a.signature')] #[McpTool]
            public function signature(int $id, string $word = 'x'): void {}
        }",
    );
    let output = dir.import_php("src", &["--dry-run"]);
    insta::assert_snapshot!(format!("{}---\n{}", output.stdout(), output.stderr()));
    dir.import_php("src", &[]);
    assert_eq!(dir.properties("a.factory")["f"]["minLength"], 3);
    assert_eq!(dir.exported()["a.factory"]["safety"], "read_only");
}

#[test]
fn classes_of_two_applications_do_not_change_each_other() {
    let dir = TestDirectory::migrated();
    let applications = [("shop", "int $price"), ("zoo", "string $name")];
    for (name, field) in applications {
        dir.php(
            &format!("{name}/App.php"),
            &format!(
                "class Item {{ public {field}; }}
                class App {{
                    /** @rpc {name}.list\n * @param Item[] $items */
                    public function items(array $items) {{}}
                }}"
            ),
        );
        dir.import_php(name, &["--upstream", name]);
    }
    // The classes also stay separate if the applications are imported again.
    for _ in 0..2 {
        for (name, field) in applications {
            let stdout = dir.import_php(name, &["--upstream", name]).stdout();
            assert!(stdout.contains("nothing changed"), "{stdout}");
            let property = field.split_once('$').unwrap().1;
            let item = &dir.properties(&format!("{name}.list"))["items"]["items"]["properties"];
            let properties: Vec<&String> = item.as_object().unwrap().keys().collect();
            assert_eq!(properties, [property]);
        }
    }
    let copy = TestDirectory::migrated();
    copy.write("manifest.json", &dir.ok(&["export"]));
    copy.ok(&["import", "manifest", "manifest.json"]);
    assert_eq!(copy.ok(&["export"]), dir.ok(&["export"]));
}
