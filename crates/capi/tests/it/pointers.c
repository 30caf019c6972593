/*
 * The example's driver as one that knows only pointers. By the environment variable CASE it lacks
 * its barrier, or makes accesses of odd kinds.
 */
#include <doorbell.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int is(const char *name)
{
	return getenv("CASE") && strcmp(getenv("CASE"), name) == 0;
}

static void barrier(void)
{
	if (!is("no barrier"))
		db_wmb(db_current());
}

#define AT(m, type, area, at) (*(volatile type *)((char *)db_pointer(m, area) + (at)))
#define REG(m, reg) (*(volatile uint32_t *)((char *)db_window(m) + (reg)))
#define db_read32(m, reg) REG(m, reg)
#define db_write32(m, reg, value) (REG(m, reg) = (value))
#define db_load8(m, area, at) AT(m, uint8_t, area, at)
#define db_load64(m, area, at) AT(m, uint64_t, area, at)
#define db_store64(m, area, at, value) (AT(m, uint64_t, area, at) = (value))
#define db_iova(m, mem) ((uint64_t)(uintptr_t)db_pointer(m, mem))
#define db_wmb(m) barrier()

#include "../../../../examples/c/mynic.c"
#undef db_wmb

#define EXPECT(is, wanted) \
	do { \
		uint64_t got = (uint64_t)(is); \
		if (got != (uint64_t)(wanted)) \
			fprintf(stderr, "%s: expected %s, got %#llx\n", #is, #wanted, \
				(unsigned long long)got); \
	} while (0)

/* A call that the compiler knows nothing of. */
static void *(*volatile copy)(void *, const void *, size_t) = memcpy;
static void *(*volatile fill)(void *, int, size_t) = memset;

struct bits {
	uint32_t low : 7, middle : 9, high : 16;
};

static void odd_accesses(db *m)
{
	db_mem area = db_coherent(m, 256, 64), other = db_coherent(m, 8192, 64);
	volatile uint32_t *words = db_pointer(m, area);
	volatile struct bits *bits = (volatile struct bits *)(words + 8);
	char bytes[200], back[200];
	uint32_t before;

	/* Read, change, write; bits; an exchange that the processor locks. */
	words[0] = 5;
	words[0] |= 0x30;
	words[0]++;
	EXPECT(words[0], 0x36);
	bits->middle = 0x155;
	bits->high = 0xabcd;
	EXPECT(words[8], 0xabcdaa80);
	EXPECT(__sync_fetch_and_add(&words[1], 7), 0);
	EXPECT(__sync_val_compare_and_swap(&words[1], 7, 9), 7);
	EXPECT(__sync_val_compare_and_swap(&words[1], 7, 1), 9);
	EXPECT(words[1], 9);
	/* Narrow ones, and those across a word. */
	((volatile uint8_t *)words)[17] = 0xfe;
	((volatile int16_t *)words)[10] = -2;
	EXPECT(((volatile int8_t *)words)[17], (int8_t)0xfe);
	EXPECT(((volatile int16_t *)words)[10], (int16_t)-2);
	EXPECT(words[4], 0xfe00);
	*(volatile uint64_t *)((char *)words + 61) = 0x1122334455667788;
	EXPECT(*(volatile uint32_t *)((char *)words + 64), 0x22334455);
	/* What a library does with vectors or strings, from one area to another, too. */
	for (int i = 0; i < 200; i++)
		bytes[i] = (char)(i * 7);
	copy((char *)words + 8, bytes, 200);
	copy((char *)db_pointer(m, other) + 4000, (char *)words + 8, 200);
	copy(back, (char *)db_pointer(m, other) + 4000, 200);
	EXPECT(memcmp(bytes, back, 200), 0);
	fill(db_pointer(m, other), 0x5a, 4000);
	EXPECT(AT(m, uint32_t, other, 3996), 0x5a5a5a5a);
	EXPECT(AT(m, uint64_t, area, 8), 0x312a231c150e0700);
	/* Registers: changed in place; parts are read, and cannot be written. */
	REG(m, CTRL) |= CTRL_SLU;
	EXPECT(REG(m, CTRL) & CTRL_SLU, CTRL_SLU);
	before = REG(m, CTRL);
	EXPECT(((volatile uint8_t *)db_window(m))[CTRL + 1], (before >> 8) & 0xff);
	((volatile uint8_t *)db_window(m))[CTRL + 1] = 0xff;
	EXPECT(REG(m, CTRL), before);
	/* A buffer is memory. */
	before = (uint32_t)db_buffer(m, 64, 64);
	copy(db_pointer(m, before), bytes, 64);
	EXPECT(db_get(m, before, 0, back, 64), DB_OK);
	EXPECT(memcmp(bytes, back, 64), 0);
	db_release(m, before);
	db_release(m, area);
	db_release(m, other);
}

static void *open_(db *m)
{
	if (is("odd"))
		odd_accesses(m);
	if (is("wild"))
		EXPECT(*(volatile uint32_t *)8, 0);
	return mynic_open(m);
}

int main(int argc, char **argv)
{
	struct db_driver own = db_driver;

	own.flags = DB_POINTERS;
	own.open = open_;
	return db_main(argc, argv, &own);
}
