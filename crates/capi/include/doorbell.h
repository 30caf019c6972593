/*
 * A NIC driver in C, without the NIC: db_main() makes a program the command of Doorbell on a modelled
 * card. docs/writing-a-driver.md has a chapter about it, examples/c/mynic.c is a driver.
 *
 * The machine is simulated, and each access to it is counted. Memory that the device can reach is
 * therefore no pointer but a handle, a db_mem; functions load, store and copy. A buffer that is
 * mapped is the device's until db_unmap().
 *
 * A db is the machine as one call of the driver sees it. It is the same from open() to close(), and
 * valid inside of the driver's functions only, on the thread that called them. Several runs can be
 * under way at a time, each with a db and a driver of its own, on threads of their own: keep what a
 * driver knows in what open() returns, not in global variables.
 *
 * A call with a handle, a range or a moment that is none has no effect and returns zero or
 * DB_EINVAL. It is counted, and the audit of the run names the first.
 */
#ifndef DOORBELL_H
#define DOORBELL_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of this file. It changes if a program has to change. */
#define DB_VERSION 2

typedef struct db db;

/* Memory of the machine. 0 is none. */
typedef uint32_t db_mem;

/* What functions return. */
enum {
	DB_OK = 0,
	DB_EINVAL = -1,   /* no such handle, or not in this state; out of range */
	DB_ENOMEM = -2    /* no memory, or no translation entries left */
};

/* What send() returns. */
enum {
	DB_QUEUED = 0,    /* the buffer is the driver's until db_sent() */
	DB_BUSY = 1,      /* no room; the buffer is untouched */
	DB_DROPPED = 2    /* cannot be sent; the buffer is untouched */
};

/* What poll() returns. */
enum {
	DB_IDLE = 0,      /* all done; interrupts are enabled again */
	DB_AGAIN = 1      /* the budget was used up: poll again */
};

/* What irq() and alarm() return. */
enum {
	DB_NONE = 0,      /* not from this device; nothing to do */
	DB_HANDLED = 1,   /* handled, nothing more to do */
	DB_POLL = 2       /* a poll is needed */
};

/* Why alarm() is called. */
enum {
	DB_TICK = 0,       /* periodic work is due: every two seconds or so */
	DB_TX_TIMEOUT = 1, /* the transmit queue has been stopped for too long */
	DB_IO_ERROR = 2    /* the platform saw accesses of the device fail */
};

/* Directions of db_map(). */
enum {
	DB_TO_DEVICE = 0,
	DB_FROM_DEVICE = 1
};

/* CPU work for db_charge(). The profile has the prices. */
enum {
	DB_STACK = 0,         /* a packet handed to the driver; the lab declares it */
	DB_COPY = 1,          /* bytes copied */
	DB_SUM = 2,           /* bytes summed for a checksum */
	DB_TX_DESCRIPTOR = 3, /* address entries of a transmit descriptor */
	DB_TX_SHARED = 4,     /* a packet added to a descriptor that others share */
	DB_TX_SESSION = 5,    /* a shared descriptor opened and closed */
	DB_TX_PAD = 6,        /* ring entries filled up */
	DB_TX_NOTIFY = 7,     /* descriptors announced, less the register write */
	DB_TX_DONE = 8,       /* packets found sent */
	DB_COMPLETION = 9,    /* a completion examined */
	DB_RX_POST = 10,      /* a receive buffer posted */
	DB_RX_PACKET = 11,    /* a received packet passed up */
	DB_INTERRUPT = 12,    /* an interrupt handler entered */
	DB_POLLED = 13,       /* a poll routine entered */
	DB_WAKE = 14,         /* a stopped queue started again */
	DB_MAP = 15,          /* a buffer mapped or unmapped */
	DB_UNWRITTEN = 16,    /* the place of a completion in a block, marked as taken */
	DB_REDIRECT = 17      /* a received frame handed to another port */
};

/* Flags of a db_frame. */
enum {
	DB_CHECKSUM = 1 /* the sender left the transport checksum undone */
};

/* A frame to be sent, without FCS. */
struct db_frame {
	db_mem mem;               /* its buffer */
	uint32_t start;           /* the first byte in it */
	uint32_t len;
	uint32_t flags;
	uint16_t checksum_start;  /* with DB_CHECKSUM: sum from here to the end of the frame, */
	uint16_t checksum_offset; /* to be stored so far behind that */
};

/* Flags of a db_driver. */
enum {
	DB_POINTERS = 1 /* db_window() and db_pointer() work; device addresses are pointers */
};

/* A driver. What open() returned is the first argument of the others. */
struct db_driver {
	size_t size;        /* of this struct */
	uint32_t version;   /* DB_VERSION */
	const char *name;   /* of the system: small letters, digits and dashes */
	const char *card;   /* "82540em", "82544gc" or "82545em" */
	uint32_t in_flight; /* most frames between driver and device */
	uint32_t flags;     /* 0, or DB_POINTERS */

	/* Brings the card up. NULL: failed. */
	void *(*open)(db *);
	/* Takes it down, and releases all memory. */
	void (*close)(void *, db *);
	/* Queues a frame. With `more`, another follows at once and the doorbell may wait. */
	int (*send)(void *, db *, const struct db_frame *, int more);
	/* Calls db_sent() for frames that are done, and db_received() for at most `budget`. */
	int (*poll)(void *, db *, uint32_t budget);
	/* Handles the interrupt: vector 0 is the line. */
	int (*irq)(void *, db *, uint32_t vector);
	/* Returns whether send() must not be called until a poll. */
	int (*stopped)(const void *);
	/* Checks the queue: DB_TICK, ... May be NULL. */
	int (*alarm)(void *, db *, int why);
};

/* Returns the version of the library. */
uint32_t db_version(void);

/*
 * A shared object exports its driver under this name, for `doorbell run --driver FILE`. It is built
 * with this header alone: the command has the functions.
 */
extern const struct db_driver db_driver;

/*
 * Runs the command that the arguments name on this driver, in a program that is linked with
 * libdoorbell_capi. Returns its exit code: 0 done, 1 an audit failed or a budget is broken, 2 wrong
 * input. One driver a process.
 */
int db_main(int argc, char **argv, const struct db_driver *driver);

/* Registers. A read waits for a round trip; a write is posted. */
uint32_t db_read32(db *, uint32_t reg);
void db_write32(db *, uint32_t reg, uint32_t value);
void db_write64(db *, uint32_t reg, uint64_t value);

/*
 * Memory. db_coherent() returns zeroed memory that CPU and device share; its device address is
 * db_iova(). db_buffer() returns a buffer with any content, which has a device address while it is
 * mapped: that of its first mapped byte. `align` is a power of two. 0: there is no memory.
 */
db_mem db_coherent(db *, uint32_t len, uint32_t align);
db_mem db_buffer(db *, uint32_t len, uint32_t align);
int db_release(db *, db_mem);
int db_map(db *, db_mem, uint32_t start, uint32_t len, int direction);
int db_unmap(db *, db_mem);
uint64_t db_iova(db *, db_mem);

/*
 * For drivers that know only pointers, with DB_POINTERS (Linux on x86-64). Each access through a
 * pointer to registers or to coherent memory is one of the machine, as if it were a call. A pointer
 * to a buffer is plain memory. The device's address of memory is its pointer, below 4 GiB, unless
 * addresses are translated (`iommu.kind`).
 *
 * A store to coherent memory that no barrier of this header follows stays unseen for 10 us, also if
 * a register write follows, as with `--order late`. A compiler's or a processor's
 * barrier does not count, so define yours as db_wmb(db_current()). Coherent areas are whole pages.
 * Registers are written by words of 4 or 8 bytes.
 */
void *db_window(db *);              /* the registers */
void *db_pointer(db *, db_mem);     /* an area's or a buffer's first byte */
db *db_current(void);               /* the machine of the call that this thread is in */

/* Coherent memory. An access outside of it is counted; loads are 0 there. */
uint8_t db_load8(db *, db_mem, uint32_t at);
uint16_t db_load16(db *, db_mem, uint32_t at);
uint32_t db_load32(db *, db_mem, uint32_t at);
uint64_t db_load64(db *, db_mem, uint32_t at);
void db_store8(db *, db_mem, uint32_t at, uint8_t value);
void db_store16(db *, db_mem, uint32_t at, uint16_t value);
void db_store32(db *, db_mem, uint32_t at, uint32_t value);
void db_store64(db *, db_mem, uint32_t at, uint64_t value);

/*
 * Copies bytes out of memory and into it. Of a mapped buffer, only db_get() of what the device has
 * written. Declares no work.
 */
int db_get(db *, db_mem from, uint32_t at, void *to, uint32_t len);
int db_put(db *, db_mem to, uint32_t at, const void *from, uint32_t len);

/* Orders accesses as Linux's wmb(), dma_wmb() and dma_rmb() do. */
void db_wmb(db *);
void db_dma_wmb(db *);
void db_dma_rmb(db *);

/* Declares CPU work. `amount` counts where the work has a unit. */
void db_charge(db *, int work, uint32_t amount);
/* Returns this CPU's time. */
uint64_t db_now_ns(db *);
/* Waits. */
void db_delay_ns(db *, uint64_t ns);
/* Takes the time of one turn of a polling loop. */
void db_relax(db *);

/* Completes the checksum of a frame that is not mapped, by the CPU, and declares the work. */
int db_checksum(db *, const struct db_frame *);

/* Gives the buffer of a sent frame back, unmapped. Outside of poll() it goes with the next. */
int db_sent(db *, db_mem);
/*
 * Passes a received frame up with its buffer, unmapped. `verified`: the device found its checksum
 * good. Outside of poll() it goes with the next.
 */
int db_received(db *, db_mem, uint32_t start, uint32_t len, int verified);

#ifdef __cplusplus
}
#endif

#endif
