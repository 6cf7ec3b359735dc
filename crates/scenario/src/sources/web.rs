//! `web`: a browser that loads pages, each a main object and what is embedded in it, over several
//! connections or one.

use super::kind::{
    FlowContext, FlowSource, MeasuredDelays, SettingGroup, SourceKind, SourceReader, Transport,
};
use super::tcp::{self, TcpConnections};
use engine::settings;
use engine::units::{Bytes, Duration};
use measure::distribution::{Drawn, DrawnCount};
use sim::agent::Agent;
use sim::tcp::pages::PageModel;
use sim::tcp::responses::ResponseWriter;
use sim::tcp::{OwnControl, pair_with};
use std::sync::Arc;

/// The kind, for the list.
pub static KIND: SourceKind = SourceKind {
    name: "web",
    summary: "pages: a main object, then others over parallel TCP connections",
    transport: Transport::Tcp,
    settings: &[&tcp::GROUP, &OWN],
    read,
};

settings! {
    /// Settings of `web` alone.
    pub struct WebSettings {
        /// The bytes of a page's main object
        main: Drawn<Bytes> = required, "", "";
        /// The number of objects that are embedded in it, 10000 at most
        objects: Drawn<DrawnCount> = required, "", "";
        /// The bytes of each
        object: Drawn<Bytes> = required, "", "";
        /// From the last byte of a page to the next page
        think: Drawn<Duration> = default "0 s", "", "a reader who never reads";
        /// The number of pages
        pages: u32 = derived "without end", "", "";
        /// The connections at most; an object is asked for when one is free
        connections: u32 = default "6",
            "1: each object waits for the one before; many: they take the share of many flows",
            "browsers, with HTTP/1.1";
        /// Whether all objects of a page are asked for at once, on one connection, as with HTTP/2
        multiplexed: bool = default "false", "true: one lost segment holds up all objects", "";
    }
}

static OWN: SettingGroup = SettingGroup(WebSettings::SETTINGS);

/// The connections of a browser at most.
const MOST: u32 = 256;

/// A browser: of pages, or of single objects by `request`.
#[derive(Clone, Debug)]
pub(super) struct Browser {
    pub(super) kind: &'static SourceKind,
    /// What its delays are of.
    pub(super) loads: &'static str,
    pub(super) connection: TcpConnections,
    pub(super) model: PageModel,
}

fn read(reader: &mut SourceReader<'_>) -> Option<Arc<dyn FlowSource>> {
    let connection = TcpConnections::read(reader);
    let own = reader.group(WebSettings::SETTINGS, WebSettings::read);
    tcp::refuse_times(reader, KIND.name);
    let own = own?;
    let several = own.multiplexed && reader.section.get("connections").is_some();
    reader.refuse(
        "connections",
        several,
        "`connections` does not apply with `multiplexed = true`, which takes one",
    );
    let wrong = !(1..=MOST).contains(&own.connections);
    reader.refuse("connections", wrong, "`connections` must be from 1 to 256");
    let model = PageModel {
        main: own.main.distribution,
        objects: own.objects.distribution,
        object: own.object.distribution,
        think: own.think.distribution,
        pages: own.pages.map_or(u64::MAX, u64::from),
        connections: own.connections,
        multiplexed: own.multiplexed,
    };
    Some(Arc::new(Browser {
        kind: &KIND,
        loads: "pages",
        connection: connection?,
        model,
    }))
}

impl FlowSource for Browser {
    fn label(&self) -> String {
        self.connection.label(self.kind)
    }

    fn with_control(&self, own: OwnControl) -> Option<Arc<dyn FlowSource>> {
        Some(Arc::new(Self {
            connection: self.connection.with(own),
            ..self.clone()
        }))
    }

    fn delays(&self) -> MeasuredDelays {
        MeasuredDelays::Responses(self.loads)
    }

    fn connections(&self) -> u32 {
        self.model.parallel()
    }

    fn agents(&self, context: &FlowContext<'_>) -> Vec<[Box<dyn Agent>; 2]> {
        let settings = self.connection.settings(context.mtu);
        let clients = self.model.connections(context.seed).into_iter();
        let ends = clients.map(|client| pair_with(&settings, Box::new(ResponseWriter::new(client))));
        ends.collect()
    }
}
