# Runs DPDK's driver of the e1000 in place of the kernel's: testpmd sends, receives, or sends back
# shellcheck shell=dash disable=SC2034,SC2154 # the variables are the workload's, or init's
#: modules uio_pci_generic
#: replaces driver
#: package dpdk-dev dpdk-testpmd librte_net_e1000.so.25 librte_mempool_ring.so.25
#: mode=txonly    What testpmd does: txonly, rxonly, io, macswap
#: seconds=2      Time in which txonly sends as much as the device takes
#: size=60        Bytes of a frame, without FCS
#: burst=16       Frames of a burst that the host sends
#: packets=3200   Frames that the host sends
#: gap=4000       Microseconds from one burst to the next, at least
# DPDK wants a root directory that others cannot write, and memory that stays where it is.
chmod 755 /
mkdir -p /var/run /huge
echo 32 >/proc/sys/vm/nr_hugepages
mount -t hugetlbfs none /huge
# Debian's kernels have no VFIO without an IOMMU. The interface is gone with its driver, so that no
# other workload can follow.
device=$(readlink -f "/sys/class/net/$NIC/device")
pci=${device##*/}
echo "$pci" >"$device/driver/unbind"
echo uio_pci_generic >"$device/driver_override"
echo "$pci" >/sys/bus/pci/drivers_probe

# Two threads on one CPU: one prints the counters each second, the other forwards.
testpmd() {
    dpdk-testpmd --lcores '(0,1)@0' -a "$pci" --iova-mode pa --huge-dir /huge --no-telemetry \
        -d /lib/librte_net_e1000.so.25 -d /lib/librte_mempool_ring.so.25 -- \
        --total-num-mbufs=2048 --forward-mode="$mode" --txpkts="$size" --stats-period=1 \
        </dev/null >/tmp/said 2>&1 &
    until grep -q 'RX-packets' /tmp/said; do
        if grep -q 'No probed' /tmp/said || ! kill -0 $!; then
            cat /tmp/said
            exit 1
        fi
        usleep 50000
    done
}
passed() { passed=$(sed -n 's/.*RX-packets: \([0-9]*\) .*/\1/p' /tmp/said | tail -n 1); }
if [ "$mode" = txonly ]; then
    # A driver that sends without end is never at rest: its start is in the window.
    begin
    testpmd
    sleep "$seconds"
    kill -INT $!
    wait $!
    cat /tmp/said
    end
else
    testpmd
    frames $((burst * 20)) "$size" "$burst" "$gap" || exit 1
    begin
    frames "$packets" "$size" "$burst" "$gap" || exit 1
    if [ "$mode" = rxonly ]; then
        end "$packets"
    else
        # Each frame is sent back.
        end "$packets" $((2 * packets))
    fi
    kill -INT $!
    wait $!
fi
