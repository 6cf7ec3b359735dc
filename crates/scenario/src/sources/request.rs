//! `request`: a TCP server that answers requests on one connection, one after the other or several
//! at a time.

use super::kind::{
    FlowContext, FlowSource, MeasuredDelays, SettingGroup, SourceKind, SourceReader, Transport,
};
use super::quic;
use super::tcp::{self, TcpConnections};
use super::web::Browser;
use engine::settings;
use engine::units::{Bytes, Duration};
use measure::distribution::Drawn;
use sim::agent::Agent;
use sim::tcp::objects::{ObjectModel, ObjectWriter};
use sim::tcp::pages::PageModel;
use sim::tcp::{OwnControl, pair_with};
use std::sync::Arc;

/// The kind, for the list.
pub static KIND: SourceKind = SourceKind {
    name: "request",
    summary: "TCP with responses to requests",
    transport: Transport::Tcp,
    settings: &[&tcp::GROUP, &OWN],
    read,
};

settings! {
    /// Settings of requests, over TCP or QUIC. Sending a request takes no time.
    pub struct RequestSettings {
        /// The bytes of each response
        size: Drawn<Bytes> = required, "", "files of the web have heavy tails: Pareto's, shape 1.1 to 1.2 (Crovella and Bestavros 1997)";
        /// From the last byte of a response to the next request
        pause: Drawn<Duration> = default "0 s", "", "a client that never pauses";
        /// The number of requests
        requests: u32 = derived "without end", "", "";
        /// The requests that are outstanding at a time; their responses take turns, a packet each
        streams: u32 = default "1",
            "many: over TCP, one lost segment holds up all of them; over QUIC, those with data in it", "HTTP/1.1; of HTTP/2 and HTTP/3 a page's";
    }
}

/// The settings of requests, for the kinds that have them.
pub(super) static OWN: SettingGroup = SettingGroup(RequestSettings::SETTINGS);

/// The objects that are asked for.
pub(super) fn model(own: RequestSettings) -> ObjectModel {
    ObjectModel {
        size: own.size.distribution,
        pause: own.pause.distribution,
        objects: own.requests.map_or(u64::MAX, u64::from),
        at_once: own.streams,
    }
}

fn read(reader: &mut SourceReader<'_>) -> Option<Arc<dyn FlowSource>> {
    let connection = TcpConnections::read(reader);
    let own = reader.group(RequestSettings::SETTINGS, RequestSettings::read);
    tcp::refuse_times(reader, KIND.name);
    let model = model(own?);
    quic::refuse_streams(reader, model.at_once);
    let connection = connection?;
    if model.at_once > 1 {
        return Some(Arc::new(Multiplexed { connection, model }));
    }
    let pages = PageModel {
        think: model.pause,
        pages: model.objects,
        ..PageModel::of(model.size)
    };
    Some(Arc::new(Browser {
        kind: &KIND,
        loads: "answers",
        connection,
        model: pages,
    }))
}

/// Several requests at a time, on one connection.
#[derive(Clone, Debug)]
struct Multiplexed {
    connection: TcpConnections,
    model: ObjectModel,
}

impl FlowSource for Multiplexed {
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
        let writer = ObjectWriter::new(&self.model, settings.mss().get(), context.seed);
        vec![pair_with(&settings, Box::new(writer))]
    }
}
