#!/usr/bin/env bash
# A Ray cluster of machines that you reach by SSH: the first starts the cluster, the others join it.
#
#   ./machines.sh start head.example.com worker-1.example.com worker-2.example.com
#   ./machines.sh stop  head.example.com worker-1.example.com worker-2.example.com
#
# Each machine needs a container engine, and the same versions of Python, Ray and reprokit: `ray` has to be on the PATH of
# a login shell. Ray trusts whoever reaches its ports: use a private network.
set -euo pipefail

what=${1:?start or stop}
head=${2:?the machine that starts the cluster}
shift 2

on() { ssh -o BatchMode=yes "$1" bash -lc "$(printf '%q' "$2")"; }

case $what in
start)
    # --num-cpus=0 keeps cells off the head; leave it out where the head has an engine.
    on "$head" "ray start --head --port=6379 --ray-client-server-port=10001 --num-cpus=0 --disable-usage-stats"
    for machine in "$@"; do
        on "$machine" "ray start --address=$head:6379 --disable-usage-stats"
    done
    echo "reprokit run cases/ --on ray://$head:10001"
    ;;
stop)
    for machine in "$@" "$head"; do
        on "$machine" "ray stop" || echo "$machine: not stopped" >&2
    done
    ;;
*)
    echo "start or stop, not $what" >&2
    exit 2
    ;;
esac
