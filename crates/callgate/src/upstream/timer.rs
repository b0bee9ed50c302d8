//! Time limits of futures.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

use tokio::task::coop::unconstrained;
use tokio::time::Sleep;

/// Runs a future. Returns `None` if the timer ends first. Unlike with `tokio::time::timeout`, the future can then be
/// polled again. The timer is checked even if the task has used up its cooperative budget. A future that is ready at
/// once does not start the timer.
pub(crate) fn until<T>(
    timer: Pin<&mut Sleep>,
    mut future: Pin<&mut (impl Future<Output = T> + ?Sized)>,
) -> impl Future<Output = Option<T>> {
    let mut timer = unconstrained(timer);
    poll_fn(move |context| match future.as_mut().poll(context) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => Pin::new(&mut timer).poll(context).map(|()| None),
    })
}
