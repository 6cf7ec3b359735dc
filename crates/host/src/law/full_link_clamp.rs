//! The paper's law: while the link is full, windows are clamped to the member's WINDOW.
//!
//! Shiokawa, Honda and Yuba: while the total throughput has reached the bottleneck's rate, a
//! member's connection may advertise at most the member's WINDOW; otherwise it is free.
//!
//! - "Reached" is 95 % of the rate over 0.1 s. The paper states a measured rate (`bottlenet 8000`
//!   on its 10 Mbit/s Ethernet, which carried 8600 kbit/s); a nominal rate is never reached
//!   exactly.
//! - The clamp ends after 0.2 s below that, since the clamp itself lowers the total.
//! - The window is rounded up to the connection's scale unit.
//!
//! The law reacts to members' own traffic too, and so slows down a lone download.

use super::Law;
use super::flow_controller::round_up;
use super::rate_meter::RateMeter;
use crate::order::{FlowLimit, LimitOrder, LimitReason};
use crate::tick::{Bottleneck, DataDirection, FlowSample, LawInput};

/// The largest window of the paper's system, which had no window scaling.
const MAX_WINDOW: f64 = 32_767.0;
/// The link is full from this fraction of its rate on,
const FULL: f64 = 0.95;
/// as a mean over this many seconds.
const MEAN_OVER: f64 = 0.1;
/// It is no longer full after this many seconds below.
const BELOW_FOR: f64 = 0.2;

/// The law's state.
#[derive(Clone, Debug)]
pub struct FullLinkClamp {
    meter: RateMeter,
    full: bool,
    below: f64,
}

impl Default for FullLinkClamp {
    fn default() -> Self {
        Self {
            meter: RateMeter::new(DataDirection::Download),
            full: false,
            below: 0.0,
        }
    }
}

impl Law for FullLinkClamp {
    fn tick(&mut self, tick: &LawInput<'_>) -> Vec<LimitOrder> {
        if let (Bottleneck::Stated(rate), Some(rates)) = (tick.bottleneck, self.meter.read(tick)) {
            if self.meter.total(MEAN_OVER) >= FULL * rate.bits() as f64 {
                (self.full, self.below) = (true, 0.0);
            } else {
                self.below += rates.seconds;
                // Rather half a tick early than a tick late.
                self.full &= self.below < BELOW_FOR - rates.seconds / 2.0;
            }
        }
        let order = |flow: &FlowSample| {
            let member = tick.members.iter().find(|member| member.id == flow.member);
            let window = member.and_then(|member| member.window);
            let (limit, reason) = match window.filter(|_| self.full) {
                Some(window) => {
                    let bytes = (window.get() as f64).clamp(1.0, MAX_WINDOW);
                    (
                        FlowLimit::Window(round_up(bytes, flow.scale)),
                        LimitReason::LinkIsFull,
                    )
                }
                None => (FlowLimit::Free, LimitReason::LinkIsFree),
            };
            LimitOrder {
                flow: flow.id,
                direction: DataDirection::Download,
                limit,
                reason,
            }
        };
        tick.flows.iter().map(order).collect()
    }
}
