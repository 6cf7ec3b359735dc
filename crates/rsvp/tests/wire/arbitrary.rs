//! Strategies for any valid message: both families, all types, styles and contents.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use proptest::collection::vec;
use proptest::prelude::*;
use rsvp::wire::{
    Adspec, AdspecFragment, Challenge, Content, Descriptors, ErrorSpec, Flowspec, Frame, Hop, Integrity,
    Message, MessageId, MessageIdAck, MessageIdList, MessageIds, Opaque, Parameter, Path, PathErr, PathTear,
    Real, Refresh, Resv, ResvConf, ResvErr, ResvTear, Scope, SenderDescriptor, SenderTemplate, Session,
    TokenBucket,
};

fn v4() -> impl Strategy<Value = Ipv4Addr> {
    any::<u32>().prop_map(Ipv4Addr::from)
}

fn v6() -> impl Strategy<Value = Ipv6Addr> {
    any::<u128>().prop_map(Ipv6Addr::from)
}

fn address(six: bool) -> BoxedStrategy<IpAddr> {
    if six {
        v6().prop_map(IpAddr::V6).boxed()
    } else {
        v4().prop_map(IpAddr::V4).boxed()
    }
}

fn words(most: usize) -> impl Strategy<Value = Vec<u8>> {
    vec(any::<[u8; 4]>(), 0..most).prop_map(|words| words.concat())
}

fn session(six: bool) -> impl Strategy<Value = Session> {
    (address(six), 1u8.., any::<u16>(), any::<bool>()).prop_map(|(destination, protocol, port, police)| {
        Session {
            destination,
            protocol,
            port,
            police,
        }
    })
}

fn hop(six: bool) -> impl Strategy<Value = Hop> {
    (address(six), any::<u32>()).prop_map(|(address, lih)| Hop { address, lih })
}

fn refresh() -> impl Strategy<Value = Refresh> {
    any::<u32>().prop_map(Refresh::millis)
}

fn sender(six: bool) -> BoxedStrategy<SenderTemplate> {
    let port =
        (address(six), any::<u16>()).prop_map(|(address, port)| SenderTemplate::Port { address, port });
    let label =
        (v6(), 0..1u32 << 20).prop_map(|(address, label)| SenderTemplate::FlowLabel { address, label });
    if six {
        prop_oneof![port, label].boxed()
    } else {
        port.boxed()
    }
}

/// From zero up to, but not including, infinity.
pub(crate) fn real() -> impl Strategy<Value = Real> {
    (0..Real::INFINITE.bits()).prop_map(|bits| Real::from_bits(bits).expect("a number"))
}

pub(crate) fn bucket() -> impl Strategy<Value = TokenBucket> {
    let peak = prop_oneof![real(), Just(Real::INFINITE)];
    (real(), real(), peak, any::<[u32; 2]>()).prop_map(|(a, bucket, b, [m, n])| TokenBucket {
        rate: a.min(b),
        bucket,
        peak: a.max(b),
        minimum: m.min(n),
        maximum: m.max(n),
    })
}

/// Known contents, and occasionally an unknown C-Type.
fn content<T: core::fmt::Debug + Clone + 'static>(
    known: impl Strategy<Value = T> + 'static,
) -> impl Strategy<Value = Content<T>> {
    prop_oneof![
        8 => known.prop_map(Content::Known),
        1 => (3u8.., words(9)).prop_map(|(c_type, data)| Content::Raw { c_type, data }),
    ]
}

pub(crate) fn flowspec() -> impl Strategy<Value = Flowspec> {
    prop_oneof![
        bucket().prop_map(Flowspec::ControlledLoad),
        (bucket(), real(), any::<u32>()).prop_map(|(bucket, rate, slack)| Flowspec::Guaranteed {
            bucket,
            rate: rate.max(bucket.rate),
            slack,
        }),
    ]
}

fn fragment(service: impl Strategy<Value = u8>) -> impl Strategy<Value = AdspecFragment> {
    let parameter = (any::<u8>(), any::<u8>(), vec(any::<u32>(), 0..3))
        .prop_map(|(id, flags, words)| Parameter { id, flags, words });
    (service, any::<bool>(), vec(parameter, 0..6)).prop_map(|(service, broken, parameters)| AdspecFragment {
        service,
        broken,
        parameters,
    })
}

fn adspec() -> impl Strategy<Value = Adspec> {
    let rest = vec(fragment(any::<u8>()), 0..3);
    (fragment(Just(1)), rest).prop_map(|(general, rest)| {
        Adspec::new(core::iter::once(general).chain(rest).collect())
            .expect("the general parameters are first")
    })
}

fn descriptor(six: bool) -> impl Strategy<Value = SenderDescriptor> {
    let adspec = proptest::option::of(content(adspec()));
    (sender(six), content(bucket()), adspec).prop_map(|(template, tspec, adspec)| SenderDescriptor {
        template,
        tspec,
        adspec,
    })
}

fn error(six: bool) -> impl Strategy<Value = ErrorSpec> {
    (
        address(six),
        any::<bool>(),
        any::<bool>(),
        any::<u8>(),
        any::<u16>(),
    )
        .prop_map(|(node, in_place, not_guilty, code, value)| ErrorSpec {
            node,
            in_place,
            not_guilty,
            code,
            value,
        })
}

fn scope(six: bool) -> impl Strategy<Value = Option<Scope>> {
    let list = if six {
        vec(v6(), 0..4).prop_map(Scope::V6).boxed()
    } else {
        vec(v4(), 0..4).prop_map(Scope::V4).boxed()
    };
    proptest::option::of(list)
}

fn policy() -> impl Strategy<Value = Vec<Opaque>> {
    let one = (any::<u8>(), words(5)).prop_map(|(c_type, data)| Opaque {
        class: 14,
        c_type,
        data,
    });
    vec(one, 0..3)
}

fn forwarded() -> impl Strategy<Value = Vec<Opaque>> {
    let one =
        (192u8.., any::<u8>(), words(5)).prop_map(|(class, c_type, data)| Opaque { class, c_type, data });
    vec(one, 0..3)
}

fn descriptors<F: Clone + core::fmt::Debug + 'static>(
    six: bool,
    flowspec: impl Strategy<Value = F> + Clone + 'static,
) -> impl Strategy<Value = Descriptors<F>> {
    let unknown = (0x20u32..1 << 24, vec(any::<[u8; 4]>(), 0..3)).prop_map(|(options, objects)| {
        let objects = objects
            .into_iter()
            .flat_map(|data| [0, 8, 10, 200].into_iter().chain(data));
        Descriptors::Unknown(options, objects.collect())
    });
    prop_oneof![
        flowspec.clone().prop_map(Descriptors::Wildcard),
        vec((flowspec.clone(), sender(six)), 1..4).prop_map(Descriptors::Fixed),
        (flowspec, vec(sender(six), 1..4))
            .prop_map(|(flowspec, list)| Descriptors::SharedExplicit(flowspec, list)),
        unknown,
    ]
}

fn path(six: bool) -> impl Strategy<Value = Message> {
    (session(six), hop(six), refresh(), policy(), descriptor(six)).prop_map(
        |(session, hop, refresh, policy, sender)| {
            Message::Path(Path {
                session,
                hop,
                refresh,
                policy,
                sender,
            })
        },
    )
}

fn resv(six: bool) -> impl Strategy<Value = Message> {
    let flows = descriptors(six, content(flowspec()).boxed());
    let confirm = proptest::option::of(address(six));
    (
        session(six),
        hop(six),
        refresh(),
        confirm,
        scope(six),
        policy(),
        flows,
    )
        .prop_map(|(session, hop, refresh, confirm, scope, policy, descriptors)| {
            Message::Resv(Resv {
                session,
                hop,
                refresh,
                confirm,
                scope,
                policy,
                descriptors,
            })
        })
}

fn errors(six: bool) -> impl Strategy<Value = Message> {
    let flows = descriptors(six, content(flowspec()).boxed());
    let path =
        (session(six), error(six), policy(), descriptor(six)).prop_map(|(session, error, policy, sender)| {
            Message::PathErr(PathErr {
                session,
                error,
                policy,
                sender,
            })
        });
    let resv = (session(six), hop(six), error(six), scope(six), policy(), flows).prop_map(
        |(session, hop, error, scope, policy, descriptors)| {
            Message::ResvErr(ResvErr {
                session,
                hop,
                error,
                scope,
                policy,
                descriptors,
            })
        },
    );
    prop_oneof![path, resv]
}

fn ends(six: bool) -> impl Strategy<Value = Message> {
    let path = (session(six), hop(six), sender(six))
        .prop_map(|(session, hop, sender)| Message::PathTear(PathTear { session, hop, sender }));
    let resv = (session(six), hop(six), scope(six), descriptors(six, Just(()))).prop_map(
        |(session, hop, scope, descriptors)| {
            Message::ResvTear(ResvTear {
                session,
                hop,
                scope,
                descriptors,
            })
        },
    );
    let flows = descriptors(six, content(flowspec()).boxed());
    let confirm =
        (session(six), error(six), address(six), flows).prop_map(|(session, error, confirm, descriptors)| {
            Message::ResvConf(ResvConf {
                session,
                error,
                confirm,
                descriptors,
            })
        });
    prop_oneof![path, resv, confirm]
}

fn lists() -> impl Strategy<Value = Message> {
    let id = any::<u32>;
    let names = prop_oneof![
        vec(id(), 0..5).prop_map(MessageIds::Neighbour),
        vec((id(), v4()), 0..5).prop_map(MessageIds::SourceV4),
        vec((id(), v6()), 0..5).prop_map(MessageIds::SourceV6),
        vec((id(), v4(), v4()), 0..5).prop_map(MessageIds::GroupV4),
        vec((id(), v6(), v6()), 0..5).prop_map(MessageIds::GroupV6),
    ];
    let list = (0..1u32 << 24, names).prop_map(|(epoch, ids)| MessageIdList { epoch, ids });
    vec(list, 1..3).prop_map(Message::Srefresh)
}

fn challenge() -> impl Strategy<Value = Message> {
    let cookie = vec(any::<[u8; 4]>(), 1..6).prop_map(|words| words.concat());
    (any::<bool>(), 0..1u64 << 48, cookie).prop_map(|(answer, key, cookie)| {
        let challenge = Challenge { key, cookie };
        if answer {
            Message::Response(challenge)
        } else {
            Message::Challenge(challenge)
        }
    })
}

fn acknowledgement() -> impl Strategy<Value = MessageIdAck> {
    (any::<bool>(), 0..1u32 << 24, any::<u32>()).prop_map(|(known, epoch, id)| MessageIdAck {
        known,
        epoch,
        id,
    })
}

fn integrity() -> impl Strategy<Value = Integrity> {
    let digest = prop_oneof![vec(any::<u8>(), 16), vec(any::<u8>(), 32)];
    (any::<bool>(), 0..1u64 << 48, any::<u64>(), digest).prop_map(|(handshake, key, sequence, digest)| {
        Integrity {
            handshake,
            key,
            sequence,
            digest,
        }
    })
}

fn framed(message: impl Strategy<Value = Message>, least: usize) -> impl Strategy<Value = Frame> {
    let id = (any::<bool>(), 0..1u32 << 24, any::<u32>()).prop_map(|(ack_desired, epoch, id)| MessageId {
        ack_desired,
        epoch,
        id,
    });
    (
        any::<u8>(),
        any::<bool>(),
        proptest::option::of(integrity()),
        vec(acknowledgement(), least..3),
        proptest::option::of(id),
        message,
        forwarded(),
    )
        .prop_map(
            |(send_ttl, refresh_reduction, integrity, acknowledgements, message_id, message, forwarded)| {
                Frame {
                    send_ttl,
                    refresh_reduction,
                    integrity,
                    acknowledgements,
                    message_id,
                    message,
                    forwarded,
                }
            },
        )
}

/// Any message but a bundle.
pub(crate) fn single() -> impl Strategy<Value = Frame> {
    let message = any::<bool>()
        .prop_flat_map(|six| prop_oneof![path(six), resv(six), errors(six), ends(six), lists(), challenge()]);
    prop_oneof![8 => framed(message, 0), 1 => framed(Just(Message::Ack), 1)]
}
