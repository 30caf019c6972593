//! Steps of a packet in Linux's drivers, by the names of their functions from Linux 5.10 to 7.3.
//!
//! A compiler inlines functions into their callers, so that a build has some of the names. Helpers
//! that several steps call, and names that are not listed, are [`Step::Other`].

use Step::{Completion, Receive, Transmit};

/// A step of a packet in its driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Step {
    /// Passes a packet to the device.
    Transmit,
    /// Takes back transmitted packets.
    Completion,
    /// Handles interrupts and NAPI's poll, takes received packets, and supplies buffers.
    Receive,
    /// All else of the driver.
    Other,
}

impl Step {
    /// All steps.
    pub const ALL: [Step; 4] = [Transmit, Completion, Receive, Step::Other];

    /// Returns the step that a function of a driver's module belongs to.
    pub fn of(module: &str, function: &str) -> Step {
        let all = DRIVERS.iter().filter(|(m, ..)| *m == module).flat_map(|(.., steps)| *steps);
        let mut found = all.filter(|(_, names)| is_among(names, function));
        found.next().map_or(Step::Other, |(step, _)| *step)
    }

    /// Returns its name in results.
    pub fn name(self) -> &'static str {
        match self {
            Transmit => "transmit",
            Completion => "completion",
            Receive => "receive",
            Step::Other => "other",
        }
    }
}

/// Returns true if a function is among names with blanks between them. One that ends in `*` is the
/// beginning of several names.
pub(super) fn is_among(names: &str, function: &str) -> bool {
    names.split_ascii_whitespace().any(|name| match name.strip_suffix('*') {
        Some(prefix) => function.starts_with(prefix),
        None => function == name,
    })
}

/// Names of a step's functions. One that ends in `*` is the beginning of several names. The first
/// step with the name counts.
type Names = (Step, &'static str);

const DRIVERS: &[(&str, &[Names])] = &[
    (
        "mlx5_core",
        &[
            (
                Transmit,
                "mlx5e_xmit mlx5e_select_queue mlx5e_select_ptpsq mlx5e_select_htb_queue \
                 mlx5e_features_check mlx5e_sq_xmit* mlx5e_sq_calc_wqe_attr \
                 mlx5e_calc_min_inline mlx5e_tx_wqe_inline_mode mlx5e_tx_get_gso_ihs \
                 mlx5e_txwqe_* mlx5e_tx_mpwqe_* mlx5e_txqsq_get_next_pi mlx5e_tx_skb_* \
                 mlx5e_tx_tunnel_accel mlx5e_accel_tx_* mlx5e_tls_handle_tx_skb \
                 mlx5e_ktls_handle_tx_skb mlx5e_ipsec_handle_tx_skb \
                 mlx5e_macsec_handle_tx_skb mlx5e_tx_check_stop mlx5e_tx_flush \
                 mlx5e_insert_vlan netdev_tx_sent_queue mlx5e_xmit_xdp_* mlx5e_xdp_xmit \
                 mlx5e_xdp_mpwqe_* mlx5e_xdpsq_get_next_pi mlx5e_xsk_tx \
                 mlx5e_xsk_request_checksum mlx5i_xmit mlx5i_sq_xmit",
            ),
            (
                Completion,
                "mlx5e_poll_tx_cq mlx5e_tx_wi_* mlx5e_consume_skb mlx5e_txqsq_wake \
                 mlx5e_handle_tx_dim mlx5e_dump_error_cqe mlx5e_poll_xdpsq_cq \
                 mlx5e_free_xdpsq_desc mlx5e_ptpsq_* mlx5e_skb_cb_hwtstamp_handler",
            ),
            (
                Receive,
                "mlx5e_napi_poll mlx5e_poll_rx_cq mlx5e_poll_ico_cq mlx5e_handle_rx_* \
                 mlx5e_skb_from_cqe_* mlx5e_build_rx_skb mlx5e_build_linear_skb \
                 mlx5e_complete_rx_cqe mlx5e_handle_csum mlx5e_post_rx_* mlx5e_alloc_rx_* \
                 mlx5e_free_rx_wqe* mlx5e_dealloc_rx_* mlx5e_page_* mlx5e_put_rx_frag \
                 mlx5e_get_rx_frag mlx5e_add_skb_frag mlx5e_add_skb_shared_info_frag \
                 mlx5e_copy_skb_header mlx5e_read_cqe_slot mlx5e_decompress_cqe* \
                 mlx5e_shampo_* mlx5e_xdp_handle mlx5e_xdp_rx_* mlx5e_xsk_skb_* \
                 mlx5e_xsk_alloc_rx_* mlx5e_xsk_construct_skb mlx5e_lro_update_* \
                 mlx5e_completion_event mlx5e_trigger_* mlx5e_icosq_get_next_pi \
                 mlx5i_handle_rx_cqe mlx5_eq_comp_int mlx5_cq_tasklet_cb mlx5_add_cq_to_tasklet \
                 mlx5_irq_int_handler",
            ),
        ],
    ),
    (
        "e1000",
        &[
            (
                Transmit,
                "e1000_xmit_frame e1000_maybe_stop_tx __e1000_maybe_stop_tx e1000_tso \
                 e1000_tx_csum e1000_tx_map e1000_tx_queue e1000_82547_fifo_workaround \
                 e1000_transfer_dhcp_info",
            ),
            (Completion, "e1000_clean_tx_irq e1000_unmap_and_free_tx_resource"),
            (
                Receive,
                "e1000_intr e1000_clean e1000_clean_rx_irq e1000_clean_jumbo_rx_irq \
                 e1000_alloc_rx_buffers e1000_alloc_jumbo_rx_buffers \
                 e1000_alloc_dummy_rx_buffers e1000_alloc_frag e1000_copybreak \
                 e1000_receive_skb e1000_rx_checksum e1000_consume_page \
                 e1000_tbi_should_accept e1000_set_itr e1000_update_itr e1000_irq_enable",
            ),
        ],
    ),
    (
        "e1000e",
        &[
            (
                Transmit,
                "e1000_xmit_frame e1000_maybe_stop_tx __e1000_maybe_stop_tx e1000_tso \
                 e1000_tx_csum e1000_tx_map e1000_tx_queue e1000e_update_tdt_wa \
                 e1000_transfer_dhcp_info",
            ),
            (Completion, "e1000_clean_tx_irq e1000_put_txbuf e1000_intr_msix_tx"),
            (
                Receive,
                "e1000_intr e1000_intr_msi e1000_intr_msix_rx e1000e_poll e1000_clean_rx_irq \
                 e1000_clean_rx_irq_ps e1000_clean_jumbo_rx_irq e1000_alloc_rx_buffers \
                 e1000_alloc_rx_buffers_ps e1000_alloc_jumbo_rx_buffers e1000_receive_skb \
                 e1000_rx_checksum e1000_rx_hash e1000_consume_page e1000e_update_rdt_wa \
                 e1000_set_itr e1000_update_itr e1000_irq_enable",
            ),
        ],
    ),
    (
        "igb",
        &[
            (
                Transmit,
                "igb_xmit_frame igb_xmit_frame_ring igb_tx_queue_mapping igb_tx_map igb_tso \
                 igb_tx_csum igb_tx_ctxtdesc igb_tx_olinfo_status igb_maybe_stop_tx \
                 __igb_maybe_stop_tx igb_xmit_xdp_ring igb_xdp_tx_queue_mapping \
                 igb_xdp_ring_update_tail igb_xdp_xmit igb_xdp_xmit_back igb_xmit_zc \
                 igb_features_check",
            ),
            (Completion, "igb_clean_tx_irq igb_unmap_and_free_tx_resource"),
            (
                Receive,
                "igb_intr igb_intr_msi igb_msix_ring igb_write_itr igb_poll igb_clean_rx_irq* \
                 igb_alloc_rx_buffers* igb_alloc_mapped_page igb_fetch_rx_buffer igb_get_rx_buffer \
                 igb_put_rx_buffer igb_add_rx_frag igb_construct_skb* igb_build_skb \
                 igb_process_skb_fields igb_rx_checksum igb_rx_hash igb_cleanup_headers \
                 igb_is_non_eop igb_reuse_rx_page igb_update_rx_stats igb_finalize_xdp \
                 igb_run_xdp* igb_ptp_rx_pktstamp igb_ptp_rx_rgtstamp igb_set_itr igb_update_itr \
                 igb_update_ring_itr igb_ring_irq_enable",
            ),
        ],
    ),
    (
        "virtio_net",
        &[
            (
                Transmit,
                "start_xmit xmit_skb virtio_net_hdr_from_skb check_sq_full_and_disable \
                 tx_may_stop virtnet_xdp_xmit __virtnet_xdp_xmit_one virtnet_xsk_xmit* \
                 virtnet_features_check",
            ),
            (
                Completion,
                "free_old_xmit free_old_xmit_skbs __free_old_xmit virtnet_poll_tx \
                 virtnet_poll_cleantx skb_xmit_done virtnet_tx_wake_queue",
            ),
            (
                Receive,
                "virtnet_poll virtnet_receive virtnet_receive_done virtnet_receive_packets \
                 receive_buf receive_small* receive_big receive_mergeable* page_to_skb buf_to_xdp \
                 virtnet_build_skb virtnet_skb_append_frag check_mergeable_len try_fill_recv \
                 add_recvbuf_* get_mergeable_buf_len virtnet_rq_* mergeable_buf_free \
                 put_xdp_frags virtnet_xdp_handler virtnet_build_xdp_buff_mrg xdp_linearize_page \
                 skb_recv_done virtqueue_napi_schedule virtqueue_napi_complete \
                 virtnet_update_rx_dim __virtio_net_hdr_to_skb virtio_net_hdr_to_skb \
                 virtio_skb_set_hash xsk_construct_skb",
            ),
        ],
    ),
    (
        "ibmveth",
        // The hypervisor takes a frame within the call: there is no completion.
        &[
            (
                Transmit,
                "ibmveth_start_xmit ibmveth_send ibmveth_is_packet_unsupported \
                        ibmveth_features_check",
            ),
            (
                Receive,
                "ibmveth_interrupt ibmveth_poll ibmveth_replenish_* ibmveth_rxq_* \
                 ibmveth_rx_* ibmveth_remove_buffer_from_pool ibmveth_update_rx_no_buffer",
            ),
        ],
    ),
    (
        "ibmvnic",
        &[
            (
                Transmit,
                "ibmvnic_xmit ibmvnic_xmit_workarounds ibmvnic_tx_scrq_flush send_subcrq \
                 send_subcrq_direct send_subcrq_indirect build_hdr_* create_hdr_descs \
                 map_txpool_buf_to_ltb ibmvnic_features_check",
            ),
            (Completion, "ibmvnic_interrupt_tx ibmvnic_complete_tx ibmvnic_tx_scrq_clean_buffer"),
            (
                Receive,
                "ibmvnic_interrupt_rx ibmvnic_poll replenish_rx_pool replenish_pools \
                 map_rxpool_buf_to_ltb remove_buff_from_pool",
            ),
        ],
    ),
    (
        "xilinx_emac",
        &[
            (Transmit, "axienet_start_xmit axienet_start_xmit_dmaengine axienet_check_tx_bd_space"),
            (
                Completion,
                "axienet_tx_poll axienet_tx_irq axienet_free_tx_chain axienet_start_xmit_done \
                 axienet_dma_tx_cb",
            ),
            (
                Receive,
                "axienet_rx_poll axienet_rx_irq axienet_recv axienet_poll axienet_dma_rx_cb \
                 axienet_rx_submit_desc axienet_rx_dim_work axienet_update_coalesce_rx",
            ),
        ],
    ),
];
