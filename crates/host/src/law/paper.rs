//! The paper's law: while the total throughput has reached the bottleneck's rate, the largest window that a connection of a
//! member may advertise is the member's WINDOW; otherwise it is free.
//!
//! "Reached" is 95 % of the rate, over a tenth of a second. The paper states a measured rate (`bottlenet 8000` on its 10 Mbit/s
//! Ethernet, which carried 8600 kbit/s): a stated nominal rate is not reached to the last bit. The clamp ends after
//! a fifth of a second below, since the clamp itself takes the total below the rate. The window is rounded up to what the
//! connection's scale can express. It reacts to members' own traffic too, and so taxes a lone download.

use super::Law;
use super::rates::Meter;
use super::windows::round_up;
use crate::order::{Hold, Order, Why};
use crate::reading::{Bottleneck, Direction, FlowReading, Tick};

/// The largest window before window scaling: what the paper's Linux had for everyone.
const LARGEST: f64 = 32_767.0;
const REACHED: f64 = 0.95;
/// In seconds.
const OVER: f64 = 0.1;
const BELOW: f64 = 0.2;

/// The law's state.
#[derive(Clone, Debug)]
pub struct Paper {
    meter: Meter,
    full: bool,
    below: f64,
}

impl Default for Paper {
    fn default() -> Self {
        Self {
            meter: Meter::new(Direction::Download),
            full: false,
            below: 0.0,
        }
    }
}

impl Law for Paper {
    fn tick(&mut self, tick: &Tick<'_>) -> Vec<Order> {
        if let (Bottleneck::Stated(rate), Some(rates)) = (tick.bottleneck, self.meter.read(tick)) {
            if self.meter.total(OVER) >= REACHED * rate.bits() as f64 {
                (self.full, self.below) = (true, 0.0);
            } else {
                self.below += rates.seconds;
                // Half a tick early rather than a tick late.
                self.full &= self.below < BELOW - rates.seconds / 2.0;
            }
        }
        let order = |flow: &FlowReading| {
            let member = tick.members.iter().find(|member| member.id == flow.member);
            let window = member.and_then(|member| member.window);
            let (hold, why) = match window.filter(|_| self.full) {
                Some(window) => {
                    let bytes = (window.get() as f64).clamp(1.0, LARGEST);
                    (Hold::Window(round_up(bytes, flow.scale)), Why::LinkIsFull)
                }
                None => (Hold::Free, Why::LinkIsFree),
            };
            Order {
                flow: flow.id,
                direction: Direction::Download,
                hold,
                why,
            }
        };
        tick.flows.iter().map(order).collect()
    }
}
