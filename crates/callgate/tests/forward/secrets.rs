//! Secrets reach the service, and nothing and nobody else.

use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use callgate::ParamStyle;
use callgate::forward::ForwardLimits;
use serde_json::json;
use tracing_subscriber::fmt::MakeWriter;

use crate::fake::{Act, Fake, nobody};
use crate::{App, limits, options};

const SECRET: &str = "s3cret";
/// `gate:s3cret`
const BASIC: &str = "Z2F0ZTpzM2NyZXQ=";

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

fn app(url: &str) -> App {
    let timeout = Duration::from_millis(500);
    let options = options(&format!("{url}?key={SECRET}"))
        .params(ParamStyle::Positional)
        .first_param(&json!(format!("token:{SECRET}")))
        .member("auth", &json!(SECRET))
        .unwrap()
        .basic("gate", SECRET)
        .unwrap()
        .header("X-Key", SECRET)
        .unwrap();
    App::with(options.limits(ForwardLimits { timeout, ..limits() }))
}

#[tokio::test(flavor = "current_thread")]
async fn secrets_are_in_no_log_no_debug_and_no_reply() {
    let log = Log::default();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_writer(log.clone())
        .with_ansi(false)
        .finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    // It repeats all that it was sent.
    let fake = Fake::start(|number, seen| match number {
        0 => Act::text(200, "text/html", &format!("{seen:?}")),
        1 => Act::text(500, "application/json", &format!("{seen:?}")),
        2 => Act::Send(format!(
            "HTTP/1.1 302 Found\r\nLocation: http://localhost/?key={SECRET}\r\nContent-Length: 0\r\n\r\n"
        )),
        3 => Act::close(),
        4 => Act::Hang,
        _ => Act::json(200, json!({"result": 1, "id": SECRET})),
    })
    .await;
    let app = app(&fake.url());
    let mut told = format!("{:?} {:?}", app.forward, app.gateway);
    for _ in 0..6 {
        told.push_str(&app.text("order_delete", json!({"id": 1})).await.0);
    }
    let refused = self::app(&format!("http://{}/", nobody().await));
    told.push_str(&refused.text("order_delete", json!({"id": 1})).await.0);
    let seen = fake.diary.seen();
    assert_eq!(seen.len(), 6);
    assert!(seen.iter().all(|seen| seen.headers["x-key"] == SECRET && seen.line.contains(SECRET)));
    let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    for text in [&told, &log] {
        assert!(!text.contains(SECRET) && !text.contains(BASIC), "{text}");
    }
    assert_eq!(log.matches("upstream `shop`: ").count(), 7, "{log}");
}
