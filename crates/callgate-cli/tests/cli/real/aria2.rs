//! aria2: it lists its methods without signatures, takes parameters by position, its secret first.

use super::servers;

#[test]
fn it_starts() {
    let aria2 = servers::aria2();
    let mut anvil = servers::anvil();
    anvil.signal("-STOP");
    anvil.kill();
    anvil.start_again();
    let place = crate::support::Place::new();
    place.write("pets.json", r#"{"openrpc":"1.2.6","info":{"title":"Pets","version":"1"},"methods":[{"name":"get_pets","params":[],"result":{"name":"a","schema":{"type":"string"}}}]}"#);
    let mock = servers::mock(&place.path("pets.json"));
    assert_ne!(aria2.url(""), mock.url(""));
}
