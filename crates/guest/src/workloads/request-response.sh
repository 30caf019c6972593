# Answers requests of one TCP connection, each after the answer to the last
# shellcheck shell=dash disable=SC2154 # the variables are the workload's
#: size=64        Bytes of a request and of its answer
#: packets=400    Requests
nc -ll -p 7 -e cat &
server=$!
ask tcp 20 "$size" || exit 1
begin
ask tcp "$packets" "$size" || exit 1
end "$packets"
kill $server
