//! `quic-request`: a server that answers requests over QUIC, each on a stream of its own.

use super::kind::{FlowContext, FlowSource, MeasuredDelays, SourceKind, SourceReader, Transport};
use super::quic::{self, QuicConnection};
use super::request::{self, RequestSettings};
use super::tcp;
use sim::agent::Agent;
use sim::quic::application::ObjectStreams;
use sim::tcp::OwnControl;
use sim::tcp::objects::ObjectModel;
use std::sync::Arc;

/// The kind, for the list.
pub static KIND: SourceKind = SourceKind {
    name: "quic-request",
    summary: "QUIC with responses to requests, each on a stream of its own",
    transport: Transport::Quic,
    settings: &[&quic::GROUP, &request::OWN],
    read,
};

#[derive(Clone, Debug)]
struct Requests {
    connection: QuicConnection,
    model: ObjectModel,
}

fn read(reader: &mut SourceReader<'_>) -> Option<Arc<dyn FlowSource>> {
    let connection = QuicConnection::read(reader);
    let own = reader.group(RequestSettings::SETTINGS, RequestSettings::read);
    tcp::refuse_times(reader, KIND.name);
    let own = own?;
    quic::refuse_streams(reader, own.streams);
    Some(Arc::new(Requests {
        connection: connection?,
        model: request::model(own),
    }))
}

impl FlowSource for Requests {
    fn label(&self) -> String {
        self.connection.label(&KIND)
    }

    fn with_control(&self, own: OwnControl) -> Option<Arc<dyn FlowSource>> {
        Some(Arc::new(Self {
            connection: self.connection.with(own),
            ..self.clone()
        }))
    }

    fn delays(&self) -> MeasuredDelays {
        MeasuredDelays::Responses("answers")
    }

    fn agents(&self, context: &FlowContext<'_>) -> Vec<[Box<dyn Agent>; 2]> {
        let settings = self.connection.settings(context.mtu);
        let objects = ObjectStreams::new(&self.model, context.seed);
        vec![sim::quic::pair(&settings, Box::new(objects))]
    }
}
