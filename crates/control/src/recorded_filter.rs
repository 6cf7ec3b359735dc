//! A filter as a recording has it: so that of a packet that is done again the filters can be told
//! that were asked. What they answered is on the tape.

use engine::classify::{DscpPattern, Filter, FlagPattern};
use engine::header::Family;
use engine::packet::ClassId;
use serde::{Deserialize, Serialize};

/// A recording has the filters of an interface with so many at most: they are in it once for each
/// change.
pub(crate) const MOST: usize = 10_000;

/// A filter, for the class of a number.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RecordedFilter {
    class: u32,
    #[serde(default, skip_serializing_if = "is_zero")]
    rule: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    family: Option<u8>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    source: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    destination: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    protocol: Option<u8>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    source_port: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    destination_port: Option<String>,
    /// Flags that are set, and those that are not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tcp_flags: Option<[u8; 2]>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    length: Option<String>,
    /// The value, and the bits of it that matter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    dscp: Option<[u8; 2]>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    flow_label: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    mark: Option<u32>,
}

fn is_zero(rule: &u32) -> bool {
    *rule == 0
}

/// Families by the number of their protocol's version; 0 is neither.
const FAMILIES: [(u8, Family); 3] = [(0, Family::Other), (4, Family::V4), (6, Family::V6)];

impl From<&Filter> for RecordedFilter {
    fn from(filter: &Filter) -> Self {
        fn text<T: ToString>(of: Option<T>) -> Option<String> {
            of.map(|of| of.to_string())
        }
        let number = |family: Family| FAMILIES.iter().find(|(_, known)| *known == family);
        Self {
            class: filter.class.0,
            rule: filter.rule,
            family: filter.family.and_then(number).map(|(number, _)| *number),
            source: text(filter.source),
            destination: text(filter.destination),
            protocol: filter.protocol,
            source_port: text(filter.source_port),
            destination_port: text(filter.destination_port),
            tcp_flags: filter
                .tcp_flags
                .map(|flags| [flags.set(), flags.mask() & !flags.set()]),
            length: text(filter.length),
            dscp: filter.dscp.map(|dscp| [dscp.value(), dscp.mask()]),
            flow_label: filter.flow_label,
            mark: filter.mark,
        }
    }
}

impl RecordedFilter {
    /// The filter; `None` if it is none.
    pub(crate) fn filter(&self) -> Option<Filter> {
        fn read<T: std::str::FromStr>(text: &Option<String>) -> Option<Option<T>> {
            text.as_ref()
                .map(|text| text.parse().ok())
                .map_or(Some(None), |read| read.map(Some))
        }
        let family = |number: u8| FAMILIES.iter().find(|(known, _)| *known == number);
        let family = match self.family {
            Some(number) => Some(family(number)?.1),
            None => None,
        };
        let dscp = match self.dscp {
            Some([value, mask]) => Some(DscpPattern::masked(value, mask)?),
            None => None,
        };
        let tcp_flags = match self.tcp_flags {
            Some([set, unset]) => Some(FlagPattern::new(set, unset)?),
            None => None,
        };
        Some(Filter {
            rule: self.rule,
            family,
            source: read(&self.source)?,
            destination: read(&self.destination)?,
            protocol: self.protocol,
            source_port: read(&self.source_port)?,
            destination_port: read(&self.destination_port)?,
            tcp_flags,
            length: read(&self.length)?,
            dscp,
            flow_label: self.flow_label,
            mark: self.mark,
            ..Filter::new(ClassId(self.class))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::classify::{Lengths, Ports, Prefix};

    #[test]
    fn a_filter_that_is_written_and_read_again_is_the_same() {
        let plain = Filter::new(ClassId(3));
        let prefix = |text: &str| text.parse::<Prefix>().expect("a prefix");
        let full = Filter {
            rule: 7,
            family: Some(Family::V6),
            source: Some(prefix("2001:db8::/32")),
            destination: Some(prefix("2001:db8:1::7/128")),
            protocol: Some(17),
            source_port: Ports::new(5_060, 5_070),
            destination_port: Some(Ports::one(53)),
            tcp_flags: FlagPattern::new(2, 16),
            length: Lengths::new(40, 128),
            dscp: DscpPattern::masked(8, 56),
            flow_label: Some(0xf_ffff),
            mark: Some(9),
            ..plain
        };
        for filter in [plain, full] {
            let json = serde_json::to_string(&RecordedFilter::from(&filter)).expect("written");
            let read: RecordedFilter = serde_json::from_str(&json).expect("read");
            assert_eq!(read.filter(), Some(filter), "{json}");
        }
        assert_eq!(
            serde_json::to_string(&RecordedFilter::from(&plain)).expect("written"),
            r#"{"class":3}"#
        );
        for wrong in [
            r#"{"class":3,"source":"10.0.0.1/8"}"#,
            r#"{"class":3,"family":5}"#,
            r#"{"class":3,"dscp":[64,63]}"#,
            r#"{"class":3,"source_port":"9-8"}"#,
            r#"{"class":3,"tcp_flags":[2,2]}"#,
        ] {
            let read: RecordedFilter = serde_json::from_str(wrong).expect("read");
            assert_eq!(read.filter(), None, "{wrong}");
        }
    }
}
