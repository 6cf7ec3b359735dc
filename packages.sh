#!/bin/sh
# What cargo cannot bring, read by ./suimon and ./test; installs it on Debian and its kin. To run there must be a C
# linker. To test (`FOR_TESTS=1`) there should be tshark, which reads our RSVP messages, valgrind, which counts
# instructions, curl, wget and python3, which download under nine, and for which a wheel is built (python3-venv),
# slirp4netns, which is the lab's way out, and chromium, which opens the page of `suimon web`: without one the tests
# that use it say so, and test the rest.
missing=
command -v cc >/dev/null 2>&1 || missing="gcc libc6-dev"
if [ "${FOR_TESTS:-}" = 1 ]; then
    for program in tshark valgrind curl wget python3 slirp4netns chromium; do
        command -v "$program" >/dev/null 2>&1 || missing="$missing $program"
    done
    python3 -c "import ensurepip, venv" >/dev/null 2>&1 || missing="$missing python3-venv"
    command -v ping >/dev/null 2>&1 || missing="$missing iputils-ping"
fi
# The simulator is compiled for browsers too.
if [ "${FOR_TESTS:-}" = 1 ] && command -v rustup >/dev/null 2>&1; then
    rustup target add wasm32-unknown-unknown >/dev/null 2>&1 ||
        echo "Could not install Rust's target wasm32-unknown-unknown" >&2
fi
if [ -n "$missing" ]; then
    if [ "$(id -u)" = 0 ]; then sudo=; else sudo=sudo; fi
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
