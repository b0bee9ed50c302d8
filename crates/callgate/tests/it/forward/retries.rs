//! D31: never sent, any method; read-only, once, after an end before any byte; never after a time-out.

use std::time::Duration;

use callgate::forward::Outcome;
use serde_json::json;

use crate::forward::App;
use callgate_throwaway::fake::{Answer, Fake, nobody};

#[tokio::test]
async fn d31_what_only_reads_is_sent_again_once() {
    let fake =
        Fake::start(|seen| if seen.number == 0 { Answer::close() } else { seen.result(json!(1)) })
            .await;
    let app = App::new(&fake.url("/rpc"));
    assert_eq!(app.invoke("order.get", json!({"id": 1})).await.1, json!({"result": 1}));
    assert_eq!((fake.record.seen().len(), app.forward.stats().retries()), (2, 1));

    let never = Fake::start(|_| Answer::close()).await;
    let app = App::new(&never.url("/rpc"));
    assert_eq!(app.invoke("order.get", json!({"id": 1})).await.0, 500);
    assert_eq!((never.record.seen().len(), app.count(Outcome::Broken)), (2, 1));
}

#[tokio::test]
async fn d31_what_may_change_something_is_not_sent_again() {
    let fake = Fake::start(|_| Answer::close()).await;
    let app = App::new(&fake.url("/rpc"));
    assert_eq!(app.invoke("order.delete", json!({"id": 1})).await.0, 500);
    assert_eq!((fake.record.seen().len(), app.forward.stats().retries()), (1, 0));
}

#[tokio::test]
async fn d31_nothing_is_sent_again_after_a_byte_of_a_response() {
    for begun in
        ["H", "HTTP/1.1 200 OK\r\nContent-Le", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{"]
    {
        let fake = Fake::start(move |_| Answer::raw(begun).and_close()).await;
        let app = App::new(&fake.url("/rpc"));
        assert_eq!(app.invoke("order.get", json!({"id": 1})).await.0, 500);
        assert_eq!((fake.record.seen().len(), app.forward.stats().retries()), (1, 0), "{begun}");
    }
}

#[tokio::test]
async fn d31_nothing_is_sent_again_after_a_time_out() {
    let fake = Fake::start(|_| Answer::hang()).await;
    let app = App::impatient(&fake.url("/rpc"), Duration::from_millis(500));
    assert_eq!(app.invoke("order.get", json!({"id": 1})).await.0, 500);
    assert_eq!(app.count(Outcome::TimedOut), 1);
    fake.record.gone(1).await;
    assert_eq!((fake.record.seen().len(), app.forward.stats().retries()), (1, 0));
}

#[tokio::test]
async fn d31_what_never_left_is_sent_again_whatever_it_does() {
    let app = App::new(&format!("http://{}/", nobody().await));
    assert_eq!(app.invoke("order.delete", json!({"id": 1})).await.0, 500);
    assert_eq!((app.count(Outcome::Unreachable), app.forward.stats().retries()), (1, 1));
}

#[tokio::test]
async fn a_connection_that_ended_while_idle_costs_nobody_anything() {
    let fake = Fake::start(|seen| seen.result(json!(1)).and_close()).await;
    let app = App::new(&fake.url("/rpc"));
    for id in 0..10 {
        assert_eq!(app.invoke("order.delete", json!({"id": id})).await.0, 200, "{id}");
        // The end arrives.
        fake.record.ended(id + 1).await;
        tokio::task::yield_now().await;
    }
    assert_eq!(fake.record.seen().len(), 10, "each ran once");
}
