#!/bin/sh
# A script: rates in bits and in bytes.
tc qdisc del dev eth1 root
tc qdisc add dev eth1 root handle 1: htb default 20
tc class add dev eth1 parent 1: classid 1:1 htb rate 4mbps
tc class add dev eth1 parent 1:1 classid 1:10 htb rate 1mbps ceil 2mbps
tc class add dev eth1 parent 1:1 classid 1:20 htb rate 24mbit ceil 32mbit
tc qdisc add dev eth1 parent 1:10 fq_codel limit 600 target 3ms noecn
tc filter add dev eth1 parent 1: protocol ip prio 1 u32 match ip dport 5060 0xffff match ip protocol 17 0xff flowid 1:10
tc filter add dev eth1 parent 1: protocol ipv6 prio 2 u32 match ip6 dst 2001:db8:7::/48 flowid 1:10
tc filter add dev eth1 parent 1: protocol ip prio 3 flower ip_proto tcp src_ip 192.168.7.0/24 dst_port 22 classid 1:10
