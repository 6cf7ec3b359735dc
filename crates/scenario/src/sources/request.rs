//! `request`: a TCP server that answers requests on one connection: pages of one object each.

use super::kind::{FlowSource, SettingGroup, SourceKind, SourceReader, Transport};
use super::tcp::{self, TcpConnections};
use super::web::Browser;
use engine::settings;
use engine::units::{Bytes, Duration};
use measure::distribution::Drawn;
use sim::tcp::pages::PageModel;
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
    /// Settings of `request` alone. Sending a request takes no time.
    pub struct RequestSettings {
        /// The bytes of each response
        size: Drawn<Bytes> = required, "", "files of the web have heavy tails: Pareto's, shape 1.1 to 1.2 (Crovella and Bestavros 1997)";
        /// From the last byte of a response to the next request
        pause: Drawn<Duration> = default "0 s", "", "a client that never pauses";
        /// The number of requests
        requests: u32 = derived "without end", "", "";
    }
}

static OWN: SettingGroup = SettingGroup(RequestSettings::SETTINGS);

fn read(reader: &mut SourceReader<'_>) -> Option<Arc<dyn FlowSource>> {
    let connection = TcpConnections::read(reader);
    let own = reader.group(RequestSettings::SETTINGS, RequestSettings::read);
    tcp::refuse_times(reader, KIND.name);
    let RequestSettings {
        size,
        pause,
        requests,
    } = own?;
    let model = PageModel {
        think: pause.distribution,
        pages: requests.map_or(u64::MAX, u64::from),
        ..PageModel::of(size.distribution)
    };
    Some(Arc::new(Browser {
        kind: &KIND,
        loads: "answers",
        connection: connection?,
        model,
    }))
}
