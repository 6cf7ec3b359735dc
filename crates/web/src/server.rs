//! The addresses, and who may ask.
//!
//! Everything is read only; what is tried is tried in the simulator. Only where there is a
//! [`Token`], whoever knows it may go back to another generation. A browser may be told by any
//! page to ask here, under a name that points to this address; so the name in a request must be an
//! address or `localhost`. The page loads nothing from elsewhere.

use crate::addresses::{
    EVENTS, HISTORY, HTML, JSON, METRICS, OPENAPI, PAGE, ROLLBACK, RollbackRequest, STATUS, WHAT_IF,
};
use crate::experience_metrics::HostMetrics;
use crate::live::{self, LiveState};
use crate::metrics;
use crate::openapi;
use crate::token::Token;
use crate::what_if::{Unanswered, WhatIf, WhatIfRequest};
use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, Request as HttpRequest};
use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HOST};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::middleware::{self, Next};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use control::difference::Breaking;
use control::protocol::{Refusal, Reply, Request};
use control::snapshot::Snapshot;
use control::socket::Client;
use engine::tree::Registry;
use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::WatchStream;

/// What the page may load: itself.
const POLICY: &str = "default-src 'self'; style-src 'self' 'unsafe-inline'; frame-ancestors 'none'";

/// The longest question.
const QUESTION: usize = 4 << 10;

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

/// What is served.
#[derive(Debug)]
pub struct Served {
    /// The socket of the program; none: of the only one.
    pub socket: Option<String>,
    /// The kinds that its policy may name.
    pub registry: Registry,
    /// What must be known to change something; none: nothing can be changed.
    pub token: Option<Token>,
    /// Whether `/metrics` has hosts, by their addresses.
    pub hosts: HostMetrics,
}

/// Serves until the process ends.
///
/// # Errors
///
/// Returns an error if the listener cannot be used.
pub fn serve(listener: TcpListener, served: Served) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let state = live::follow(served.socket.clone())?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::from_std(listener)?;
        axum::serve(listener, routes(served, state)).await
    })
}

/// The addresses of a program, and of the states that it is followed by.
pub fn routes(served: Served, state: watch::Receiver<LiveState>) -> Router {
    let Served {
        socket,
        registry,
        token,
        hosts,
    } = served;
    let undo = (token, socket.clone());
    let what_if = (Arc::new(WhatIf::new(registry)), socket.clone());
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
            get(async move || prometheus().await.and_then(|reply| as_metrics(reply, hosts))),
        )
        .route(EVENTS, get(async move || events(state)))
        .route(
            WHAT_IF,
            post(move |headers: HeaderMap, body: Bytes| tried(what_if, headers, body))
                .layer(DefaultBodyLimit::max(QUESTION)),
        )
        .route(
            ROLLBACK,
            post(move |headers: HeaderMap, body: Bytes| rolled_back(undo, headers, body))
                .layer(DefaultBodyLimit::max(QUESTION)),
        )
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

/// Tries a change in the simulator, in a thread where that harms nobody.
///
/// Only a question in JSON is answered: a page elsewhere cannot have a browser send that here.
async fn tried(
    (what_if, socket): (Arc<WhatIf>, Option<String>),
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    if headers.get(CONTENT_TYPE).is_none_or(|kind| kind != JSON) {
        return (StatusCode::UNSUPPORTED_MEDIA_TYPE, "ask in application/json\n").into_response();
    }
    let wanted: WhatIfRequest = match serde_json::from_slice(&body) {
        Ok(wanted) => wanted,
        Err(why) => return (StatusCode::BAD_REQUEST, format!("{why}\n")).into_response(),
    };
    let answer = tokio::task::spawn_blocking(move || what_if.answer(socket.as_deref(), &wanted)).await;
    match answer {
        Ok(Ok(report)) => {
            let text = serde_json::to_string(&report).unwrap_or_default();
            ([(CONTENT_TYPE, JSON)], text).into_response()
        }
        Ok(Err(Unanswered::Busy)) => {
            (StatusCode::TOO_MANY_REQUESTS, "another is simulated now\n").into_response()
        }
        Ok(Err(Unanswered::Refused(why))) => (StatusCode::BAD_REQUEST, format!("{why}\n")).into_response(),
        Ok(Err(Unanswered::Gone(why))) => Gone(why).into_response(),
        Err(why) => Gone(Refusal::new(why.to_string())).into_response(),
    }
}

/// Goes back to another generation, for one who may.
async fn rolled_back(
    (token, socket): (Option<Token>, Option<String>),
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let Some(token) = token else {
        return (StatusCode::FORBIDDEN, "read only: start `suimon web --undo`\n").into_response();
    };
    if !token.is_known_by(&headers) {
        return (
            StatusCode::UNAUTHORIZED,
            "what `suimon web` told at its start is missing\n",
        )
            .into_response();
    }
    let wanted: RollbackRequest = match serde_json::from_slice(&body) {
        Ok(wanted) => wanted,
        Err(why) => return (StatusCode::BAD_REQUEST, format!("{why}\n")).into_response(),
    };
    let request = Request::Rollback {
        to: wanted.to,
        break_reservations: Breaking::Refused,
        reason: Some(wanted.reason.unwrap_or_else(|| "by suimon web".into())),
    };
    let ask = move || Client::connect(socket.as_deref())?.ask(&request);
    match tokio::task::spawn_blocking(ask).await {
        Ok(Ok(Reply::Refused(why))) => (StatusCode::CONFLICT, format!("{why}\n")).into_response(),
        Ok(Ok(reply)) => axum_json(&reply),
        Ok(Err(why)) => Gone(why).into_response(),
        Err(why) => Gone(Refusal::new(why.to_string())).into_response(),
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

fn as_metrics(reply: Reply, hosts: HostMetrics) -> Result<Response, Gone> {
    let failed = |why: String| Gone(Refusal::new(why));
    let now: Snapshot = match reply {
        Reply::Status(now) => *now,
        _ => return Err(failed("an answer that is no status".into())),
    };
    let text = metrics::text(&now, hosts).map_err(|why| failed(why.to_string()))?;
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
