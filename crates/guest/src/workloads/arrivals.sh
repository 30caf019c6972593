# Receives frames in a pattern, as many as come, in virtual time alone
# shellcheck shell=dash disable=SC2154 # the variables are the workload's
#: size=60        Bytes of a frame, without FCS; or sizes with weights: 60:7,590:4,1514:1
#: packets=3200   Frames
#: pattern=poisson  Their distribution in time: even, poisson, bursts, on_off, capture (--pcap)
#: interval=20000  Nanoseconds from one frame to the next in the mean, or from one burst to the next
#: burst=16       Frames of a burst
#: hold=2000      on_off: microseconds of poisson, and of silence
#: flows=0        UDP flows in turn; with 0, frames of a type that nobody answers
[ "$pattern" != on_off ] || burst=$hold
arrivals "$pattern" 320 "$size" "$interval" "$burst" "$flows" || exit 1
begin
arrivals "$pattern" "$packets" "$size" "$interval" "$burst" "$flows" || exit 1
end "$packets"
