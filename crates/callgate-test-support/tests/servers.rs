//! Database servers start, restart and stop with the test process.
#![expect(clippy::print_stdout, reason = "to be read by another test")]

use std::io::{BufRead as _, BufReader};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use callgate_test_support::{DatabaseServer, Engine};

const TMP: &str = env!("CARGO_TARGET_TMPDIR");
/// Maximum time to wait for a server to stop, with a large margin for a busy machine.
const TIMEOUT: Duration = Duration::from_mins(1);

fn start_all() -> [DatabaseServer; 2] {
    [Engine::Postgres.start(Path::new(TMP)), Engine::MariaDb.start(Path::new(TMP))]
}

#[test]
fn a_server_has_separate_databases_keeps_data_after_a_kill_and_stops_when_dropped() {
    let servers = start_all();
    for server in &servers {
        let (first, second) = (server.database(), server.database());
        server.sql(&first.name, "CREATE TABLE a (b INTEGER); INSERT INTO a VALUES (7);");
        assert!(server.try_sql(&second.name, "SELECT b FROM a;").is_err());
        server.kill();
        assert!(TcpStream::connect(server.address()).is_err());
        server.restart();
        assert_eq!(server.sql(&first.name, "SELECT b FROM a;").trim(), "7");
    }
    let addresses = servers.each_ref().map(DatabaseServer::address);
    drop(servers);
    assert!(addresses.iter().all(|address| TcpStream::connect(address).is_err()));
}

/// Used only by the next test, which runs this test in a separate process and kills the process.
#[test]
#[ignore = "it waits to be killed"]
fn wait_to_be_killed() {
    let servers = start_all();
    for server in &servers {
        println!("listening {}", server.address());
    }
    println!("all");
    loop {
        std::thread::park();
    }
}

#[test]
fn servers_stop_if_their_test_process_is_killed() {
    let mut test = Command::new(std::env::current_exe().unwrap());
    test.args(["--ignored", "--exact", "--nocapture", "wait_to_be_killed"]);
    let mut test = test.stdout(Stdio::piped()).spawn().unwrap();
    let stdout = BufReader::new(test.stdout.take().unwrap()).lines().map(Result::unwrap);
    let addresses: Vec<String> = stdout
        .take_while(|line| line != "all")
        .filter_map(|line| Some(line.split_once("listening ")?.1.to_owned()))
        .collect();
    assert!(addresses.len() == 2 && addresses.iter().all(|it| TcpStream::connect(it).is_ok()));
    test.kill().unwrap();
    test.wait().unwrap();
    let deadline = Instant::now() + TIMEOUT;
    while addresses.iter().any(|address| TcpStream::connect(address).is_ok()) {
        assert!(Instant::now() < deadline, "a server at one of {addresses:?} is still listening");
        std::thread::yield_now();
    }
}
