#!/bin/sh
# What cargo cannot bring, read by ./suimon and ./test; installs it on Debian and its kin. To run there must be a C
# linker. To test (`FOR_TESTS=1`) there should be tshark, which reads our RSVP messages, valgrind, which counts
# instructions, curl, wget, python3, rsync and git, which download under nine, openssl, which serves https there,
# python3-venv, in which a wheel is tried, slirp4netns, which is the lab's way out, GNU parallel, which runs the shards
# of a sweep, nft, by which a router translates addresses, ssh-keygen, which signs a release, chromium, which opens the
# page of `suimon web`, and promtool, which checks its metrics and the alert rules: without one the tests that use it
# say so, and test the rest.
missing=
if [ "$(id -u)" = 0 ]; then sudo=; else sudo=sudo; fi
command -v cc >/dev/null 2>&1 || missing="gcc libc6-dev"
if [ "${FOR_TESTS:-}" = 1 ]; then
    for program in tshark valgrind curl wget python3 slirp4netns chromium parallel rsync openssl git; do
        command -v "$program" >/dev/null 2>&1 || missing="$missing $program"
    done
    command -v nft >/dev/null 2>&1 || [ -x /usr/sbin/nft ] || missing="$missing nftables"
    python3 -c "import ensurepip, venv" >/dev/null 2>&1 || missing="$missing python3-venv"
    command -v ping >/dev/null 2>&1 || missing="$missing iputils-ping"
    command -v ssh-keygen >/dev/null 2>&1 || missing="$missing openssh-client"
fi
# The simulator is compiled for browsers too.
if [ "${FOR_TESTS:-}" = 1 ] && command -v rustup >/dev/null 2>&1; then
    rustup target add wasm32-unknown-unknown >/dev/null 2>&1 ||
        echo "Could not install Rust's target wasm32-unknown-unknown" >&2
fi
if [ -n "$missing" ]; then
    if command -v apt-get >/dev/null 2>&1; then
        echo "Installing what is missing: $missing" >&2
        $sudo apt-get update -qq
        # One by one: a distribution may lack one. tshark asks who may capture; nobody has to.
        for package in $missing; do
            $sudo env DEBIAN_FRONTEND=noninteractive \
                apt-get install -y -qq --no-install-recommends "$package" >/dev/null ||
                echo "Could not install $package" >&2
        done
    fi
    if ! command -v cc >/dev/null 2>&1; then
        echo "Rust needs a C linker, and there is none: install a C compiler by your package manager, then try again." >&2
        exit 1
    fi
fi
# Of Prometheus only the tool: the package would start a server.
if [ "${FOR_TESTS:-}" = 1 ] && command -v apt-get >/dev/null 2>&1 && command -v dpkg-deb >/dev/null 2>&1 &&
    ! command -v promtool >/dev/null 2>&1 && [ ! -x target/tools/promtool ]; then
    echo "Fetching promtool" >&2
    mkdir -p target/tools/prometheus
    if (
        cd target/tools/prometheus
        apt-get download -qq prometheus 2>/dev/null ||
            { $sudo apt-get update -qq && apt-get download -qq prometheus 2>/dev/null; }
        dpkg-deb -x prometheus_*.deb .
    ); then
        mv target/tools/prometheus/usr/bin/promtool target/tools/
    else
        echo "Could not fetch promtool" >&2
    fi
    rm -rf target/tools/prometheus
fi
