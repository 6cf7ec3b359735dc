//! HTTP of `suimon web`, over a connection in memory.

use super::FuzzTarget;
use crate::mutate::InputShape;
use axum::serve::Listener;
use engine::tree::Registry;
use std::io;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::runtime::Runtime;
use tokio::sync::{mpsc, watch};
use web::experience_metrics::HostMetrics;
use web::server::Served;
use web::token::Token;

pub(super) const TARGET: FuzzTarget = FuzzTarget {
    name: "http",
    about: "requests of a browser or a stranger: answered by HTTP or hung up on, to addresses alone, nothing changed",
    shape: InputShape::Text(4_000),
    tree: &[],
    make: || {
        let server = Web::new().unwrap_or_else(|e| panic!("a server: {e}"));
        Box::new(move |input| server.judge(input))
    },
};

/// Connections that are handed to the server.
struct Handed(mpsc::UnboundedReceiver<DuplexStream>);

impl Listener for Handed {
    type Io = DuplexStream;
    type Addr = ();

    async fn accept(&mut self) -> (DuplexStream, ()) {
        match self.0.recv().await {
            Some(stream) => (stream, ()),
            None => std::future::pending().await,
        }
    }

    fn local_addr(&self) -> io::Result<()> {
        Ok(())
    }
}

struct Web {
    runtime: Runtime,
    connect: mpsc::UnboundedSender<DuplexStream>,
}

impl Web {
    fn new() -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let (connect, connections) = mpsc::unbounded_channel();
        // One state and the end: a stream of events ends too, or a client that reads would wait.
        let (_, states) = watch::channel("{}".into());
        // Nobody answers there: what would be asked is refused.
        let served = Served {
            socket: Some("/nobody/is/here".into()),
            registry: Registry::builtin(),
            token: Some(Token::new()?),
            hosts: HostMetrics::ByAddress,
        };
        let routes = web::server::routes(served, states);
        runtime.spawn(async move { axum::serve(Handed(connections), routes).await });
        Ok(Self { runtime, connect })
    }

    fn judge(&self, input: &[u8]) {
        let got = self.runtime.block_on(async {
            let (mut ours, theirs) = tokio::io::duplex(1 << 16);
            let handed = self.connect.send(theirs);
            assert!(handed.is_ok(), "the server is gone");
            // It hangs up on what is no HTTP.
            let _ = ours.write_all(input).await;
            let _ = ours.shutdown().await;
            let mut got = Vec::new();
            let _ = ours.read_to_end(&mut got).await;
            got
        });
        assert!(
            got.is_empty() || got.starts_with(b"HTTP/1."),
            "{}",
            got.escape_ascii()
        );
        let says = |part: &[u8]| got.windows(part.len()).any(|at| at == part);
        assert!(!says(b" 500 "), "{}", got.escape_ascii());
    }
}
