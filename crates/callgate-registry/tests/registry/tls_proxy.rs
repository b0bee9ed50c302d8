//! A proxy that adds encryption to a server that has none: TLS 1.2 in TDS packets, as in SQL Server.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;

use rcgen::{CertifiedKey, KeyPair};
use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};

const HEADER: usize = 8;
const PRELOGIN: u8 = 0x12;
/// The last packet of a message.
const END: u8 = 0x01;
const ENCRYPTION: u8 = 0x01;
const REQUIRED: u8 = 0x03;

/// Starts the proxy. It runs as long as the tests.
pub(crate) fn start(server: SocketAddr, identity: &CertifiedKey<KeyPair>) -> SocketAddr {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let key = PrivateKeyDer::try_from(identity.signing_key.serialize_der()).unwrap();
    let config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS12])
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![identity.cert.der().clone()], key)
        .unwrap();
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let config = Arc::clone(&config);
            // If either side disconnects, the connection ends.
            std::thread::spawn(move || forward(client, TcpStream::connect(server)?, config));
        }
    });
    address
}

fn forward(
    mut client: TcpStream,
    mut server: TcpStream,
    config: Arc<ServerConfig>,
) -> io::Result<()> {
    server.write_all(&packet(&mut client)?)?;
    client.write_all(&require_encryption(packet(&mut server)?))?;
    let mut tls = ServerConnection::new(config).map_err(io::Error::other)?;
    while tls.is_handshaking() {
        let received = packet(&mut client)?;
        tls.read_tls(&mut received.get(HEADER..).unwrap_or_default())?;
        let processed = tls.process_new_packets();
        let mut records = Vec::new();
        while tls.wants_write() {
            tls.write_tls(&mut records)?;
        }
        if !records.is_empty() {
            client.write_all(&wrap(&records))?;
        }
        processed.map_err(io::Error::other)?;
    }
    let mut client = StreamOwned::new(tls, client);
    loop {
        server.write_all(&message(&mut client)?)?;
        client.write_all(&message(&mut server)?)?;
        client.flush()?;
    }
}

fn packet(from: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut packet = vec![0; HEADER];
    from.read_exact(&mut packet)?;
    let length = usize::from(u16::from_be_bytes([packet[2], packet[3]]));
    packet.resize(length, 0);
    from.read_exact(&mut packet[HEADER..])?;
    Ok(packet)
}

fn message(from: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut message = Vec::new();
    loop {
        let packet = packet(from)?;
        message.extend_from_slice(&packet);
        if packet[1] & END != 0 {
            return Ok(message);
        }
    }
}

fn wrap(records: &[u8]) -> Vec<u8> {
    let length = u16::try_from(HEADER + records.len()).unwrap().to_be_bytes();
    let header = [PRELOGIN, END, length[0], length[1], 0, 0, 0, 0];
    [&header, records].concat()
}

/// Changes the server's first reply so that it requires encryption. After the header, the reply contains a list of
/// options, each with its offset and length.
fn require_encryption(mut reply: Vec<u8>) -> Vec<u8> {
    let body = &mut reply[HEADER..];
    let entry = body.chunks(5).find(|entry| entry[0] == ENCRYPTION).unwrap();
    let offset = usize::from(u16::from_be_bytes([entry[1], entry[2]]));
    body[offset] = REQUIRED;
    reply
}
