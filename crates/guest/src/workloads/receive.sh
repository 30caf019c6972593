# Receives frames of a type that nobody answers, in bursts
# shellcheck shell=dash disable=SC2154 # the variables are the workload's
#: size=60        Bytes of a frame, without FCS
#: burst=16       Frames of a burst
#: packets=3200   Frames
#: gap=4000       Microseconds from one burst to the next, at least
frames $((burst * 20)) "$size" "$burst" "$gap" || exit 1
begin
frames "$packets" "$size" "$burst" "$gap" || exit 1
end "$packets"
