#!/bin/sh
# What cargo cannot bring: a C linker. Read by ./suimon and ./test; installs it on Debian and its kin.
if ! command -v cc >/dev/null 2>&1; then
    echo "Rust needs a C linker, and there is none: installing gcc and libc6-dev." >&2
    if [ "$(id -u)" = 0 ]; then sudo=; else sudo=sudo; fi
    if ! command -v apt-get >/dev/null 2>&1; then
        echo "This is not a Debian system: install a C compiler by your package manager, then try again." >&2
        exit 1
    fi
    $sudo apt-get update -qq && $sudo apt-get install -y -qq gcc libc6-dev >/dev/null
fi
