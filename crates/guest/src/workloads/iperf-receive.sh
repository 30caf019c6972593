# Receives a TCP stream (iperf3); a packet is a frame in either direction
# shellcheck shell=dash disable=SC2154 # the variables are the workload's
#: megabytes=32   Bytes that are received, in MB
start iperf3 -s
until nc -w 1 "$HOST" 5201 </dev/null >/dev/null 2>&1; do usleep 50000; done
iperf3 -R -c "$HOST" -n 1M >/dev/null || exit 1
begin
iperf3 -R -c "$HOST" -n "${megabytes}M" || exit 1
end
