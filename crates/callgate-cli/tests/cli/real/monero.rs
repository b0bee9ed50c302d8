//! A Monero node: parameters by name, by position for one method, no batches, and HTTP Digest.

use serde_json::{Value, json};

use super::servers;
use super::{call, call_batch, dir, wait_until_unreachable};
use crate::support::TestDirectory;

#[test]
fn monero_is_called_by_name_and_by_position_until_it_stops() {
    let mut node = servers::monerod(&[]);
    let dir =
        dir(&format!("[upstreams.service]\nurl = \"{}\"\nbatch = true\n", node.url("/json_rpc")));
    let height = ["--param", "int $height"];
    let by_position = ["--param", "int $height", "--params-by", "position"];
    for (id, options) in [
        ("get_block_count", &[][..]),
        ("get_block_header_by_height", &height),
        ("on_get_block_hash", &by_position),
    ] {
        let add = ["method", "add", id, "--read-only", "--upstream", "service"];
        dir.ok(&[&add[..], options].concat());
    }
    let server = dir.serve(&[]);
    let (_, header) = call(&server, "get_block_header_by_height", &json!({"height": 0}));
    let header: Value = serde_json::from_str(&header).unwrap();
    let hash = header["block_header"]["hash"].as_str().unwrap().to_owned();
    assert_eq!(call(&server, "on_get_block_hash", &json!({"height": 0})), (false, hash));
    let counts = call_batch(&server, "get_block_count", &json!({}), 3);
    assert!(counts.iter().all(|result| result["count"] == 1), "{counts:?}");
    let (is_error, text) = call(&server, "get_block_header_by_height", &json!({"height": 99}));
    let expected = "Requested block height: 99 greater than current top block height: 0";
    assert!(is_error && text.contains(expected), "{text}");
    node.kill();
    wait_until_unreachable(&server, "get_block_count");
}

#[test]
fn the_digest_login_of_monero_is_reported_as_unsupported() {
    let (node, dir) = (servers::monerod(&["--rpc-login=ada:s3cret"]), TestDirectory::new());
    dir.write("password", "s3cret");
    let url = node.url("/json_rpc");
    for credential in [&[][..], &["--basic", "ada", "--password-file", "password"]] {
        let stderr = dir.run(&[&["try", &url], credential].concat()).failure().1;
        assert!(stderr.contains("HTTP Digest, which is not supported"), "{stderr}");
        assert!(!stderr.contains("basic_user") && !stderr.contains("--basic"), "{stderr}");
    }
}
