/*
 * A driver in C for an Intel 8254x with legacy descriptors, one ring each way. It makes the same
 * crossings as examples/driver, which is in Rust. docs/writing-a-driver.md shows how to build it.
 *
 * Source: Intel, "PCI/PCI-X Family of Gigabit Ethernet Controllers Software Developer's Manual"
 * (317453), chapters 3 and 13.
 */
#include <doorbell.h>
#include <stdlib.h>

enum {
	CTRL = 0x0000, STATUS = 0x0008, ICR = 0x00c0, IMS = 0x00d0, IMC = 0x00d8, RCTL = 0x0100,
	TCTL = 0x0400, RDBAL = 0x2800, RDBAH = 0x2804, RDLEN = 0x2808, RDH = 0x2810, RDT = 0x2818,
	TDBAL = 0x3800, TDBAH = 0x3804, TDLEN = 0x3808, TDH = 0x3810, TDT = 0x3818, RXCSUM = 0x5000
};

#define CTRL_FD (1u << 0)
#define CTRL_SLU (1u << 6)
#define CTRL_RST (1u << 26)
#define STATUS_LU (1u << 1)
#define TCTL_EN (1u << 1)
#define TCTL_PSP (1u << 3)
#define RCTL_EN (1u << 1)
#define RCTL_BAM (1u << 15)
#define RCTL_SECRC (1u << 26)
#define RXCSUM_IPOFL (1u << 8)
#define RXCSUM_TUOFL (1u << 9)

/* Interrupts: a descriptor was sent, a frame was received, the receiver overran. */
#define CAUSES (1u << 0 | 1u << 7 | 1u << 6)

/* A descriptor: 64 bits of address, then a word of length, command and status. */
#define DESCRIPTOR 16
#define TX_EOP ((uint64_t)1 << 24)
#define TX_IFCS ((uint64_t)1 << 25)
#define TX_IC ((uint64_t)1 << 26)
#define TX_RS ((uint64_t)1 << 27)
#define TX_CSO(at) ((uint64_t)(at) << 16)
#define TX_CSS(at) ((uint64_t)(at) << 40)
#define TX_MAX 16288
#define RX_EOP ((uint64_t)1 << 33)
#define RX_IXSM ((uint64_t)1 << 34)
#define RX_TCPCS ((uint64_t)1 << 37)
#define RX_TCPE ((uint64_t)1 << 45)
#define RX_ERRORS ((uint64_t)0x97 << 40)

#define RING 256
#define BUFFER 2048

/* A ring, and the buffer that each of its descriptors has from head to tail. */
struct ring {
	db_mem area;
	db_mem buffers[RING];
	uint32_t head, tail;
};

struct mynic {
	struct ring tx, rx;
	int hung; /* the card has to be started again, at the next poll */
};

/* One slot stays empty, so that head and tail of a full ring differ. */
static int is_full(const struct ring *r)
{
	return (r->tail + 1) % RING == r->head;
}

static void describe(db *m, struct ring *r, db_mem buffer, uint64_t word)
{
	db_store64(m, r->area, r->tail * DESCRIPTOR, db_iova(m, buffer));
	db_store64(m, r->area, r->tail * DESCRIPTOR + 8, word);
	r->buffers[r->tail] = buffer;
	r->tail = (r->tail + 1) % RING;
}

/* Takes back the oldest buffer. */
static db_mem retire(db *m, struct ring *r)
{
	db_mem buffer = r->buffers[r->head];

	r->head = (r->head + 1) % RING;
	db_unmap(m, buffer);
	return buffer;
}

static void empty(db *m, struct ring *r)
{
	while (r->head != r->tail)
		db_release(m, retire(m, r));
	db_release(m, r->area);
}

static void refill(struct mynic *n, db *m)
{
	struct ring *rx = &n->rx;
	uint32_t before = rx->tail;

	while (!is_full(rx)) {
		db_mem buffer = db_buffer(m, BUFFER, 64);

		if (!buffer)
			break;
		if (db_map(m, buffer, 0, BUFFER, DB_FROM_DEVICE) != DB_OK) {
			db_release(m, buffer);
			break;
		}
		db_charge(m, DB_RX_POST, 1);
		describe(m, rx, buffer, 0);
	}
	if (rx->tail != before) {
		db_wmb(m);
		db_write32(m, RDT, rx->tail);
	}
}

/* Resets the card, which then reads the station address from its EEPROM, and sets the link up. */
static void reset(db *m)
{
	db_write32(m, IMC, ~0u);
	db_write32(m, CTRL, CTRL_RST);
	db_delay_ns(m, 10000000);
	db_write32(m, CTRL, CTRL_SLU | CTRL_FD);
}

/* Tells a card after its reset where the rings are, and enables both ways. */
static void start(struct mynic *n, db *m)
{
	uint64_t tx = db_iova(m, n->tx.area), rx = db_iova(m, n->rx.area);

	db_write32(m, TDBAL, (uint32_t)tx);
	db_write32(m, TDBAH, (uint32_t)(tx >> 32));
	db_write32(m, TDLEN, RING * DESCRIPTOR);
	db_write32(m, TDH, n->tx.tail);
	db_write32(m, TDT, n->tx.tail);
	db_write32(m, TCTL, TCTL_EN | TCTL_PSP);
	db_write32(m, RDBAL, (uint32_t)rx);
	db_write32(m, RDBAH, (uint32_t)(rx >> 32));
	db_write32(m, RDLEN, RING * DESCRIPTOR);
	db_write32(m, RDH, n->rx.head);
	db_write32(m, RDT, n->rx.tail);
	db_write32(m, RXCSUM, RXCSUM_IPOFL | RXCSUM_TUOFL);
	db_write32(m, RCTL, RCTL_EN | RCTL_BAM | RCTL_SECRC);
	refill(n, m);
}

static void *mynic_open(db *m)
{
	struct mynic *n = calloc(1, sizeof(*n));
	int turns = 0;

	if (!n)
		return NULL;
	reset(m);
	while (!(db_read32(m, STATUS) & STATUS_LU)) {
		if (++turns == 5000)
			goto failed;
		db_delay_ns(m, 1000000);
	}
	n->tx.area = db_coherent(m, RING * DESCRIPTOR, 4096);
	n->rx.area = db_coherent(m, RING * DESCRIPTOR, 4096);
	if (!n->tx.area || !n->rx.area)
		goto failed;
	start(n, m);
	db_write32(m, IMS, CAUSES);
	return n;

failed:
	if (n->tx.area)
		db_release(m, n->tx.area);
	if (n->rx.area)
		db_release(m, n->rx.area);
	free(n);
	return NULL;
}

static void mynic_close(void *self, db *m)
{
	struct mynic *n = self;

	reset(m);
	empty(m, &n->tx);
	empty(m, &n->rx);
	free(n);
}

static int queue(struct ring *tx, db *m, const struct db_frame *f)
{
	uint64_t word = f->len | TX_EOP | TX_IFCS | TX_RS;
	uint32_t field = (uint32_t)f->checksum_start + f->checksum_offset;

	if (f->len > TX_MAX || (f->flags & DB_CHECKSUM && field > 255))
		return DB_DROPPED;
	if (is_full(tx))
		return DB_BUSY;
	if (f->flags & DB_CHECKSUM)
		word |= TX_IC | TX_CSS(f->checksum_start) | TX_CSO(field);
	if (db_map(m, f->mem, f->start, f->len, DB_TO_DEVICE) != DB_OK)
		return DB_DROPPED;
	describe(m, tx, f->mem, word);
	return DB_QUEUED;
}

static int mynic_send(void *self, db *m, const struct db_frame *f, int more)
{
	struct ring *tx = &((struct mynic *)self)->tx;
	int queued;

	db_charge(m, DB_TX_DESCRIPTOR, 1);
	queued = queue(tx, m, f);
	if (!more || is_full(tx)) {
		db_wmb(m);
		db_write32(m, TDT, tx->tail);
	}
	return queued;
}

/* Hands up the next frame. Returns 0 if there is none. */
static int receive(struct mynic *n, db *m)
{
	uint32_t at = n->rx.head * DESCRIPTOR + 8, len;
	uint64_t word;
	db_mem buffer;

	if (n->rx.head == n->rx.tail || !(db_load8(m, n->rx.area, at + 4) & 1))
		return 0;
	db_dma_rmb(m);
	word = db_load64(m, n->rx.area, at);
	len = word & 0xffff;
	buffer = retire(m, &n->rx);
	if (!(word & RX_EOP) || word & RX_ERRORS || len == 0 || len > BUFFER) {
		db_release(m, buffer);
		return 1;
	}
	db_charge(m, DB_RX_PACKET, 1);
	db_received(m, buffer, 0, len,
		    (word & (RX_IXSM | RX_TCPCS)) == RX_TCPCS && !(word & RX_TCPE));
	return 1;
}

static int mynic_poll(void *self, db *m, uint32_t budget)
{
	struct mynic *n = self;
	struct ring *tx = &n->tx;
	uint32_t sent = 0, received = 0;

	db_charge(m, DB_POLLED, 1);
	for (; tx->head != tx->tail; sent++) {
		if (!(db_load8(m, tx->area, tx->head * DESCRIPTOR + 12) & 1))
			break;
		db_sent(m, retire(m, tx));
	}
	db_charge(m, DB_TX_DONE, sent);
	while (received < budget && receive(n, m))
		received++;
	if (n->hung && received < budget) {
		n->hung = 0;
		reset(m);
		while (tx->head != tx->tail)
			db_sent(m, retire(m, tx));
		start(n, m);
	} else if (received > 0) {
		refill(n, m);
	}
	if (received == budget)
		return DB_AGAIN;
	db_write32(m, IMS, CAUSES);
	return DB_IDLE;
}

static int mynic_irq(void *self, db *m, uint32_t vector)
{
	(void)self;
	(void)vector;
	db_charge(m, DB_INTERRUPT, 1);
	if (!db_read32(m, ICR))
		return DB_NONE;
	db_write32(m, IMC, ~0u);
	return DB_POLL;
}

static int mynic_stopped(const void *self)
{
	return is_full(&((const struct mynic *)self)->tx);
}

static int mynic_alarm(void *self, db *m, int why)
{
	struct mynic *n = self;

	if (why != DB_TICK)
		n->hung = 1;
	else if (!is_full(&n->rx)) /* there was no memory for buffers */
		refill(n, m);
	return n->hung ? DB_POLL : DB_NONE;
}

const struct db_driver db_driver = {
	.size = sizeof(db_driver),
	.version = DB_VERSION,
	.name = "mynic",
	.card = "82545em",
	.in_flight = RING - 1,
	.open = mynic_open,
	.close = mynic_close,
	.send = mynic_send,
	.poll = mynic_poll,
	.irq = mynic_irq,
	.stopped = mynic_stopped,
	.alarm = mynic_alarm,
};
