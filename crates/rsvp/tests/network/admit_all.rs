//! Traffic control that admits every request, for tests of what stands before it.

use rsvp::traffic_control::{
    AdmissionFailure, Advertised, Granted, InterfaceId, RHandle, TcRequest, TrafficControl,
};
use rsvp::wire::{Flowspec, Real, SenderTemplate, Session};
use std::collections::BTreeSet;

/// Admits every request.
#[derive(Default)]
pub(crate) struct AdmitAll {
    next: u64,
    pub(crate) reserved: BTreeSet<RHandle>,
}

impl TrafficControl for AdmitAll {
    fn add_flowspec(&mut self, _: InterfaceId, _: &TcRequest) -> Result<Granted, AdmissionFailure> {
        self.next += 1;
        self.reserved.insert(RHandle(self.next));
        Ok(Granted {
            rhandle: RHandle(self.next),
            fwd_flowspec: None,
        })
    }

    fn modify_flowspec(&mut self, _: RHandle, _: &TcRequest) -> Result<Option<Flowspec>, AdmissionFailure> {
        Ok(None)
    }

    fn delete_flowspec(&mut self, handle: RHandle) {
        self.reserved.remove(&handle);
    }

    fn add_filter(&mut self, _: RHandle, _: &Session, _: &SenderTemplate) {}

    fn delete_filter(&mut self, _: RHandle, _: &Session, _: &SenderTemplate) {}

    fn advertise(&self, _: InterfaceId) -> Advertised {
        Advertised {
            bandwidth: Real::nearest(125_000_000),
            latency: 0,
            mtu: 1500,
            controlled_load: true,
            guaranteed: None,
        }
    }
}
