#!/bin/sh
# Bad lines of a test bench.
sudo tc qdisc add dev eth0 root netem delay 100ms 10ms 25% distribution normal loss gemodel 1% 25% 80% 0.1%
tc qdisc add dev eth1 root handle 1: tbf rate 5mbit burst 32kbit latency 400ms
tc qdisc add dev eth1 parent 1:1 handle 10: netem delay 40ms loss 0.3% 25% corrupt 0.1% duplicate 1% limit 200
tc qdisc add dev wlan0 root netem delay 10ms reorder 25% 50%
tc qdisc add dev wlan0 parent 1:1 sfq
tc qdisc add dev sat0 root netem rate 19mbit 20 delay 372ms 30ms distribution pareto loss random 1%
tc qdisc add dev old0 root netem delay 1ms
tc qdisc del dev old0 root
tc filter add dev wlan0 parent 1:0 protocol ip u32 match ip dst 10.0.0.2 flowid 1:1
