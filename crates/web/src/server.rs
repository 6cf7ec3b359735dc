//! The addresses, and who may ask.
//!
//! Everything is read only. A browser may be told by any page to ask here, under a name that points
//! to this address; so the name in a request must be an address or `localhost`. The page loads
//! nothing from elsewhere.

use crate::addresses::{EVENTS, HISTORY, HTML, JSON, METRICS, OPENAPI, PAGE, STATUS};
use crate::live::{self, LiveState};
use crate::metrics;
use crate::openapi;
use axum::Router;
use axum::extract::Request as HttpRequest;
use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HOST};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::middleware::{self, Next};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use control::protocol::{Refusal, Reply, Request};
use control::snapshot::Snapshot;
use control::socket::Client;
use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, TcpListener};
use std::time::Duration;
use tokio::sync::watch;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::WatchStream;

/// What the page may load: itself.
const POLICY: &str = "default-src 'self'; style-src 'self' 'unsafe-inline'; frame-ancestors 'none'";

/// The page's files: path, type, content.
const FILES: [(&str, &str, &str); 6] = [
    (PAGE, HTML, include_str!("../page/index.html")),
    (
        "/favicon.svg",
        "image/svg+xml",
        include_str!("../page/favicon.svg"),
    ),
    ("/page.css", "text/css", include_str!("../page/page.css")),
    ("/page.js", "text/javascript", include_str!("../page/page.js")),
    (
        "/uplot.js",
        "text/javascript",
        include_str!("../page/uplot/uPlot.iife.min.js"),
    ),
    (
        "/uplot.css",
        "text/css",
        include_str!("../page/uplot/uPlot.min.css"),
    ),
];

/// Serves the program of this socket, or the only one, until the process ends.
///
/// # Errors
///
/// Returns an error if the listener cannot be used.
pub fn serve(listener: TcpListener, socket: Option<String>) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let state = live::follow(socket.clone())?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::from_std(listener)?;
        axum::serve(listener, routes(socket, state)).await
    })
}

/// The addresses of the program of this socket, or the only one, and of the states that it is
/// followed by.
pub fn routes(socket: Option<String>, state: watch::Receiver<LiveState>) -> Router {
    let ask = move |request: Request| {
        let socket = socket.clone();
        move || asked(socket, request)
    };
    let counters = Request::Status {
        interval_ms: 0,
        follow: false,
        detail: Default::default(),
    };
    let (status, prometheus, history) = (ask(counters.clone()), ask(counters), ask(Request::History {}));
    let mut routes = Router::new()
        .route(
            STATUS,
            get(async move || status().await.map(|reply| axum_json(&reply))),
        )
        .route(
            HISTORY,
            get(async move || history().await.map(|reply| axum_json(&reply))),
        )
        .route(
            METRICS,
            get(async move || prometheus().await.and_then(as_metrics)),
        )
        .route(EVENTS, get(async move || events(state)))
        .route(
            OPENAPI,
            get(async || ([(CONTENT_TYPE, JSON)], openapi::document().to_string())),
        );
    for (path, kind, content) in FILES {
        let headers = [
            (CONTENT_TYPE, kind),
            (CACHE_CONTROL, "no-cache"),
            (CONTENT_SECURITY_POLICY, POLICY),
        ];
        routes = routes.route(path, get(async move || (headers, content)));
    }
    routes.layer(middleware::from_fn(by_address))
}

/// The control socket is asked in a thread where waiting harms nobody.
async fn asked(socket: Option<String>, request: Request) -> Result<Reply, Gone> {
    let ask = move || Client::connect(socket.as_deref())?.ask(&request);
    let reply = tokio::task::spawn_blocking(ask).await;
    match reply.map_err(|why| Gone(Refusal::new(why.to_string())))? {
        Ok(Reply::Refused(why)) | Err(why) => Err(Gone(why)),
        Ok(reply) => Ok(reply),
    }
}

/// There is nobody to ask, or it refuses.
struct Gone(Refusal);

impl IntoResponse for Gone {
    fn into_response(self) -> Response {
        (StatusCode::SERVICE_UNAVAILABLE, format!("{}\n", self.0)).into_response()
    }
}

fn axum_json(reply: &Reply) -> Response {
    let text = serde_json::to_string(reply).unwrap_or_default();
    ([(CONTENT_TYPE, JSON)], text).into_response()
}

fn as_metrics(reply: Reply) -> Result<Response, Gone> {
    let failed = |why: String| Gone(Refusal::new(why));
    let now: Snapshot = match reply {
        Reply::Status(now) => *now,
        _ => return Err(failed("an answer that is no status".into())),
    };
    let text = metrics::text(&now).map_err(|why| failed(why.to_string()))?;
    Ok(([(CONTENT_TYPE, metrics::CONTENT_TYPE)], text).into_response())
}

/// Every state from now on.
fn events(
    state: watch::Receiver<LiveState>,
) -> Sse<impl tokio_stream::Stream<Item = Result<Event, Infallible>>> {
    let each = WatchStream::new(state).map(|state| Ok(Event::default().data(&*state)));
    Sse::new(each).keep_alive(KeepAlive::new().interval(Duration::from_secs(10)))
}

/// Refuses requests under a name: see above.
async fn by_address(headers: HeaderMap, request: HttpRequest, next: Next) -> Response {
    match headers.get(HOST).is_some_and(is_address) {
        true => next.run(request).await,
        false => (StatusCode::FORBIDDEN, "ask by an address, or by localhost\n").into_response(),
    }
}

fn is_address(host: &HeaderValue) -> bool {
    let host = host.to_str().unwrap_or_default();
    let without_port = match host.rsplit_once(':') {
        Some((name, port)) if port.parse::<u16>().is_ok() && !name.ends_with(':') => name,
        _ => host,
    };
    let name = without_port.trim_start_matches('[').trim_end_matches(']');
    name == "localhost" || name.parse::<IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_under_a_name_is_refused() {
        let good = [
            "localhost",
            "localhost:9476",
            "127.0.0.1:9476",
            "10.1.2.3",
            "[::1]:9476",
            "[::1]",
        ];
        let bad = [
            "",
            "evil.example",
            "evil.example:9476",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
        ];
        let address = |host: &str| is_address(&HeaderValue::from_str(host).expect("a header"));
        assert!(good.iter().all(|host| address(host)));
        assert!(!bad.iter().any(|host| address(host)));
    }
}
