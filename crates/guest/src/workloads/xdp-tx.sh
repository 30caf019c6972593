# Receives frames in bursts, of which an XDP program sends each back
# shellcheck shell=dash disable=SC2154 # the variables are the workload's
#: size=60        Bytes of a frame, without FCS
#: burst=16       Frames of a burst
#: packets=3200   Frames
#: gap=4000       Microseconds from one burst to the next, at least
xdp tx || exit 1
frames $((burst * 20)) "$size" "$burst" "$gap" || exit 1
begin
frames "$packets" "$size" "$burst" "$gap" || exit 1
end "$packets" $((2 * packets))
ip link set dev "$NIC" xdp off
