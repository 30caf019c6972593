# Pings the host
# shellcheck shell=dash disable=SC2154 # the variables are the workload's
#: size=98        Bytes of a frame, without FCS
#: packets=400    Requests; frames are twice as many
ping -q -c 20 -i 0.005 -s $((size - 42)) "$HOST" || exit 1
begin
ping -q -c "$packets" -i 0.005 -s $((size - 42)) "$HOST" || exit 1
end $((2 * packets))
