//! Records the traffic: a proxy between the client and the program that forwards bytes and keeps a copy.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// Both directions of one connection.
#[derive(Debug, Clone, Default)]
pub(crate) struct Recording {
    pub(crate) sent: Vec<u8>,
    pub(crate) received: Vec<u8>,
}

type Recordings = Arc<Mutex<Vec<Arc<Mutex<Recording>>>>>;

/// A recorder in front of a server.
pub(crate) struct Recorder {
    address: SocketAddr,
    connections: Recordings,
}

impl Recorder {
    pub(crate) fn start(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let connections = Recordings::default();
        let shared = Arc::clone(&connections);
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let Ok(server) = TcpStream::connect(server) else { continue };
                let recording = Arc::new(Mutex::new(Recording::default()));
                shared.lock().unwrap().push(Arc::clone(&recording));
                forward(&client, &server, Arc::clone(&recording), |r| &mut r.sent);
                forward(&server, &client, recording, |r| &mut r.received);
            }
        });
        Self { address, connections }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the recording of each connection.
    pub(crate) fn finish(&self) -> Vec<Recording> {
        let connections = self.connections.lock().unwrap();
        connections.iter().map(|recording| recording.lock().unwrap().clone()).collect()
    }
}

fn forward(
    from: &TcpStream,
    to: &TcpStream,
    recording: Arc<Mutex<Recording>>,
    direction: fn(&mut Recording) -> &mut Vec<u8>,
) {
    let (mut from, mut to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
    std::thread::spawn(move || {
        let mut buffer = [0; 16 * 1024];
        while let Ok(count @ 1..) = from.read(&mut buffer) {
            direction(&mut recording.lock().unwrap()).extend_from_slice(&buffer[..count]);
            if to.write_all(&buffer[..count]).is_err() {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Write);
        let _ = from.shutdown(Shutdown::Read);
    });
}
