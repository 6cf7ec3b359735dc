#!/bin/sh
# One measurement, inside `suimon lab -- sh`: a stream of datagrams from behind a link to this host.
# Of the environment: EMULATOR, SUIMON, RATTAN, RATE (bit/s), DELAY (ms), BUFFER (B), OFFERED (bit/s), TIME (s), PAYLOAD (B).
# Prints what the receiver counted, as JSON.
set -e
cd "$(mktemp -d)"
: > listening
"$SUIMON" traffic receive 0.0.0.0:9000 --streams 1 --for 90s --idle 3s --json > received.json 2> listening &
receiver=$!
until grep -q listening listening; do sleep 0.05; done
cat > send.sh <<'END'
exec "$SUIMON" traffic send "$1:9000" --size "${PAYLOAD}B" --rate "${OFFERED}bit/s" --for "${TIME}s" --json
END
case $EMULATOR in
suimon)
    "$SUIMON" lab --rate "${RATE}bit/s" --delay "${DELAY}ms" --buffer "${BUFFER}B" -- sh -c 'sh send.sh "$SUIMON_OUTSIDE"'
    ;;
rattan)
    # It keeps its namespaces in /run/netns, and its addresses' locks in /tmp/rattan: both its own here.
    cat > link.sh <<'END'
mkdir -p /tmp/rattan
for place in /run /tmp/rattan; do mount -t tmpfs tmpfs "$place" || exit; done
mkdir /run/netns /tmp/rattan/ip_lock
queue="{\"byte_limit\":$BUFFER}"
"$RATTAN" link \
    --uplink-bandwidth "${RATE}bps" --uplink-delay "${DELAY}ms" --uplink-queue droptail --uplink-queue-args "$queue" \
    --downlink-bandwidth "${RATE}bps" --downlink-delay "${DELAY}ms" -- sh -c 'sh send.sh "$RATTAN_BASE"'
END
    unshare --mount sh link.sh
    ;;
tbf)
    unshare --net sh -c 'echo begun; exec sleep 90' > begun &
    far=$!
    until grep -q begun begun; do sleep 0.05; done
    ip link add near type veth peer name far netns "$far"
    ip address add 10.9.0.1/24 dev near
    ip link set near up
    # Tokens for two milliseconds, and two frames: with fewer it loses those for which it wakes too late.
    BURST=$((RATE / 4000))
    if [ "$BURST" -lt $((2 * PAYLOAD + 84)) ]; then BURST=$((2 * PAYLOAD + 84)); fi
    export BURST
    cat > far.sh <<'END'
ip address add 10.9.0.2/24 dev far
ip link set far up
tc qdisc add dev far root tbf rate "${RATE}bit" burst "$BURST" limit "$BUFFER"
END
    nsenter --target "$far" --net sh far.sh
    nsenter --target "$far" --net sh send.sh 10.9.0.1
    kill "$far"
    ;;
esac > sent.json
wait "$receiver"
cat received.json
