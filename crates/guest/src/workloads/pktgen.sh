# Sends frames from the kernel's own generator, in bursts that the driver gets at once
# shellcheck shell=dash disable=SC2154 # the variables are the workload's
#: modules pktgen
#: size=60        Bytes of a frame, without FCS
#: burst=32       Frames of a burst
#: packets=6400   Frames
#: gap=2000       Microseconds from one burst to the next; 0 is as fast as the queue takes them
pg=/proc/net/pktgen
file=$pg/$NIC
echo rem_device_all >$pg/kpktgend_0
echo "add_device $NIC" >$pg/kpktgend_0
# An address that nobody has, so that nobody answers.
for setting in "burst $burst" "pkt_size $size" "delay $((gap * 1000))" "dst 10.9.9.9" \
    "dst_mac $HOST_MAC" "flag !UDPCSUM"; do
    echo "$setting" >"$file" || exit 1
done
# The first packets meet a driver that has not got all of its memory yet.
echo "count $((burst * 20))" >"$file"
echo start >$pg/pgctrl
sleep 0.2
echo "count $packets" >"$file"
begin
echo start >$pg/pgctrl
sleep 0.2
end "$(sed -n 's/.*pkts-sofar: *\([0-9]*\).*/\1/p' "$file")"
echo rem_device_all >$pg/kpktgend_0
