# Receives a TCP stream (iperf3); a packet is a frame in either direction
# shellcheck shell=dash disable=SC2154 # the variables are the workload's
#: megabytes=32   Bytes that are received, in MB
start iperf3 -s
# It listens: port 5201 in state LISTEN.
host "until grep -q ':1451 .* 0A ' /proc/net/tcp /proc/net/tcp6 2>&1; do sleep 0.05; done"
iperf3 -R -c "$HOST" -n 1M >/dev/null || exit 1
begin
iperf3 -R -c "$HOST" -n "${megabytes}M" || exit 1
end
