# Answers requests of one TCP connection, each after the answer to the last
# shellcheck shell=dash disable=SC2154 # the variables are the workload's
#: size=64        Bytes of a request and of its answer
#: packets=400    Requests
nc -ll -p 7 -e cat &
server=$!
until nc -w 1 127.0.0.1 7 </dev/null >/dev/null 2>&1; do usleep 20000; done
ask tcp 20 "$size" || exit 1
begin
ask tcp "$packets" "$size" || exit 1
# TCP may acknowledge apart from an answer.
end "$packets" $((2 * packets))-$((6 * packets))
kill $server
