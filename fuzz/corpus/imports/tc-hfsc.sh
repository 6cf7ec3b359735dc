#!/bin/sh
# Guaranteed delay and rate, decoupled.
tc qdisc add dev eth2 root handle 1: hfsc default 20
tc class add dev eth2 parent 1: classid 1:1 hfsc ls m2 10mbit ul m2 10mbit
tc class add dev eth2 parent 1:1 classid 1:10 hfsc rt m1 4mbit d 10ms m2 1mbit ls m2 1mbit
tc class add dev eth2 parent 1:1 classid 1:20 hfsc ls m2 6mbit
tc class add dev eth2 parent 1:1 classid 1:30 hfsc sc rate 2mbit ul rate 3mbit
tc filter add dev eth2 parent 1: protocol ip prio 1 u32 match ip dport 5004 0xffff flowid 1:10
tc filter add dev eth2 parent 1: protocol ip prio 1 u32 match ip dport 873 0xffff flowid 1:30
