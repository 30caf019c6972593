# Sends a TCP stream (iperf3); a packet is a frame in either direction
# shellcheck shell=dash disable=SC2154 # the variables are the workload's
#: megabytes=32   Bytes that are sent, in MB
listen
iperf3 -c "$HOST" -n 1M >/dev/null || exit 1
begin
# It looks every 0.1 s whether it is done.
iperf3 -i 0.1 -c "$HOST" -n "${megabytes}M" || exit 1
end
