# Answers echo requests (ICMP), each after the answer to the last
# shellcheck shell=dash disable=SC2154 # the variables are the workload's
#: size=98        Bytes of a frame, without FCS
#: packets=400    Requests; frames are twice as many
ask icmp 20 "$size" || exit 1
begin
ask icmp "$packets" "$size" || exit 1
end $((2 * packets))
