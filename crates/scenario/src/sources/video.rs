//! `video`: adaptive video over one TCP connection.

use super::kind::{
    FlowContext, FlowSource, MeasuredDelays, SettingGroup, SourceKind, SourceReader, Transport,
};
use super::tcp::{self, TcpConnections};
use engine::settings;
use engine::settings::{Raw, SettingValue, describe};
use engine::units::{Bandwidth, Duration};
use sim::agent::Agent;
use sim::tcp::responses::ResponseWriter;
use sim::tcp::video::{Adaptation, VideoModel, VideoPlayer};
use sim::tcp::{OwnControl, pair_with};
use std::sync::Arc;

/// The kind, for the list.
pub static KIND: SourceKind = SourceKind {
    name: "video",
    summary: "adaptive video: segments of a bitrate that a rule chooses, over TCP",
    transport: Transport::Tcp,
    settings: &[&tcp::GROUP, &OWN],
    read,
};

/// The bitrates of a video, ascending.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ladder(pub Vec<Bandwidth>);

impl SettingValue for Ladder {
    const UNIT: &'static str = "ascending rates such as \"400 kbit/s, 1 Mbit/s, 3 Mbit/s\"";
    fn from_raw(raw: &Raw) -> Result<Self, String> {
        let wrong = || format!("expected {}; found {}", Self::UNIT, describe(raw));
        let Raw::Text(text) = raw else {
            return Err(wrong());
        };
        let rates = text.split(',').map(|rate| rate.trim().parse().ok());
        let rates: Vec<Bandwidth> = rates.collect::<Option<_>>().ok_or_else(wrong)?;
        let ascend = rates.windows(2).all(|two| two[0] < two[1]);
        let positive = rates[0] > Bandwidth::default();
        Some(Self(rates)).filter(|_| ascend && positive).ok_or_else(wrong)
    }
}

settings! {
    /// Settings of `video` alone.
    pub struct VideoSettings {
        /// The bitrates that there are of each segment
        ladder: Ladder = required, "few: coarse steps", "";
        /// The duration of a segment
        segment: Duration = default "4 s", "too long: it adapts slowly", "Huang et al. 2014";
        /// What is buffered at most
        buffer: Duration = default "240 s", "too small: stalls, and idle times between segments", "Huang et al. 2014";
        /// What must be buffered for playback to begin, and to go on after a stall
        startup: Duration = derived "one segment", "too small: stalls; too large: a late start", "";
        /// The duration of the video
        length: Duration = derived "without end", "", "";
        /// How the bitrate of the next segment is chosen: by the level of the buffer (bba-0), or
        /// below the harmonic mean of the throughput of the last five segments (rate)
        adaptation: Adaptation = default "bba-0", "", "Huang et al. 2014; Yin et al. 2015";
        /// With bba-0: up to this level of the buffer the lowest bitrate
        reservoir: Duration = derived "3/8 of the buffer", "too small: stalls", "Huang et al. 2014: 90 s of 240 s";
        /// With bba-0: the highest bitrate from the reservoir and this on
        cushion: Duration = derived "21/40 of the buffer", "too small: many switches", "Huang et al. 2014: 126 s of 240 s";
    }
}

static OWN: SettingGroup = SettingGroup(VideoSettings::SETTINGS);

#[derive(Clone, Debug)]
struct Video {
    connection: TcpConnections,
    model: VideoModel,
}

fn read(reader: &mut SourceReader<'_>) -> Option<Arc<dyn FlowSource>> {
    let connection = TcpConnections::read(reader);
    let own = reader.group(VideoSettings::SETTINGS, VideoSettings::read);
    tcp::refuse_times(reader, KIND.name);
    let model = model(&own?, reader)?;
    Some(Arc::new(Video {
        connection: connection?,
        model,
    }))
}

/// A length of time as a part of another.
fn part(of: Duration, numerator: u64, denominator: u64) -> Duration {
    let part = u128::from(of.nanos()) * u128::from(numerator) / u128::from(denominator);
    Duration::from_nanos(u64::try_from(part).unwrap_or(u64::MAX))
}

/// The model of these settings; none if they contradict each other.
fn model(own: &VideoSettings, reader: &mut SourceReader<'_>) -> Option<VideoModel> {
    let before = reader.problems.len();
    let (segment, buffer) = (own.segment, own.buffer);
    let startup = own.startup.unwrap_or(segment);
    let reservoir = own.reservoir.unwrap_or_else(|| part(buffer, 3, 8));
    let cushion = own.cushion.unwrap_or_else(|| part(buffer, 21, 40));
    let short = segment < Duration::from_millis(1) || segment > Duration::from_secs(3600);
    reader.refuse("segment", short, "`segment` must be from 1 ms to 1 h");
    let long = buffer > Duration::from_secs(1_000_000);
    reader.refuse("buffer", long, "`buffer` must be at most 1000000 s");
    let wrong = own.startup.is_some() && startup == Duration::ZERO;
    reader.refuse("startup", wrong, "`startup` must be more than 0 s");
    let full = startup.min(buffer) + segment.min(buffer) > buffer || startup > buffer || segment > buffer;
    let what = "the buffer must hold what `startup` says, and a segment more";
    let key = if own.startup.is_some() {
        "startup"
    } else {
        "buffer"
    };
    reader.refuse(key, full && !short, what);
    for key in ["reservoir", "cushion"] {
        let alone = own.adaptation != Adaptation::BufferBased && reader.section.get(key).is_some();
        reader.refuse(
            key,
            alone,
            &format!("`{key}` belongs to `adaptation = \"bba-0\"`"),
        );
    }
    let least = own.length.is_some_and(|length| length < segment);
    reader.refuse("length", least && !short, "`length` must be one segment at least");
    let whole = |length: Duration| length.nanos().div_ceil(segment.nanos().max(1));
    (reader.problems.len() == before).then(|| VideoModel {
        ladder: own.ladder.0.clone(),
        segment,
        buffer,
        startup,
        segments: own.length.map_or(u64::MAX, whole),
        adaptation: own.adaptation,
        reservoir,
        cushion,
    })
}

impl FlowSource for Video {
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
        MeasuredDelays::Unmeasured
    }

    fn plays(&self) -> bool {
        true
    }

    fn agents(&self, context: &FlowContext<'_>) -> Vec<[Box<dyn Agent>; 2]> {
        let player = VideoPlayer::new(self.model.clone(), context.start);
        let settings = self.connection.settings(context.mtu);
        vec![pair_with(&settings, Box::new(ResponseWriter::new(player)))]
    }
}
