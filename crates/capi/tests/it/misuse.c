/* The example's driver, and what it should not do, by the environment variable CASE. */
#include <stdio.h>
#include <string.h>

#include "../../../../examples/c/mynic.c"

static const char *mode;
static db *kept;
static db_mem done;

static int is(const char *name)
{
	return strcmp(mode, name) == 0;
}

#define EXPECT(call, result) \
	do { \
		if ((int64_t)(call) != (int64_t)(result)) \
			fprintf(stderr, "%s: expected %s\n", #call, #result); \
	} while (0)

static void wrong_calls(db *m)
{
	db_mem area = db_coherent(m, 64, 64), buffer = db_buffer(m, 64, 64);
	struct db_frame frame = {buffer, 0, 64, DB_CHECKSUM, 60, 16};
	char bytes[128] = {0};

	/* No handle. */
	EXPECT(db_release(m, 0), DB_EINVAL);
	EXPECT(db_release(m, 12345), DB_EINVAL);
	EXPECT(db_release(m, ~0u), DB_EINVAL);
	EXPECT(db_iova(m, 0), 0);
	EXPECT(db_load32(m, 77, 0), 0);
	db_store32(m, 77, 0, 1);
	/* Not in this state. */
	EXPECT(db_iova(m, buffer), 0);
	EXPECT(db_load32(m, buffer, 0), 0);
	EXPECT(db_unmap(m, buffer), DB_EINVAL);
	EXPECT(db_unmap(m, area), DB_EINVAL);
	EXPECT(db_map(m, area, 0, 64, DB_TO_DEVICE), DB_EINVAL);
	EXPECT(db_sent(m, buffer), DB_EINVAL);
	EXPECT(db_sent(m, area), DB_EINVAL);
	/* Out of range. */
	EXPECT(db_map(m, buffer, 0, 65, DB_TO_DEVICE), DB_EINVAL);
	EXPECT(db_map(m, buffer, ~0u, 2, DB_TO_DEVICE), DB_EINVAL);
	EXPECT(db_map(m, buffer, 0, 0, DB_TO_DEVICE), DB_EINVAL);
	EXPECT(db_map(m, buffer, 0, 64, 2), DB_EINVAL);
	EXPECT(db_get(m, buffer, 1, bytes, 64), DB_EINVAL);
	EXPECT(db_put(m, buffer, ~0u, bytes, 64), DB_EINVAL);
	EXPECT(db_put(m, area, 60, bytes, 5), DB_EINVAL);
	EXPECT(db_get(m, area, 0, bytes, 65), DB_EINVAL);
	EXPECT(db_get(m, area, 0, NULL, 4), DB_EINVAL);
	EXPECT(db_received(m, buffer, 32, 33, 0), DB_EINVAL);
	EXPECT(db_received(m, buffer, 0, 0, 0), DB_EINVAL);
	EXPECT(db_checksum(m, &frame), DB_EINVAL);
	EXPECT(db_checksum(m, NULL), DB_EINVAL);
	EXPECT(db_buffer(m, 0, 64), 0);
	EXPECT(db_buffer(m, 64, 3), 0);
	EXPECT(db_coherent(m, ~0u, 64), 0);
	db_charge(m, 18, 1);
	db_charge(m, -1, 1);
	/* The device has it. */
	EXPECT(db_map(m, buffer, 8, 48, DB_FROM_DEVICE), DB_OK);
	EXPECT(db_put(m, buffer, 8, bytes, 8), DB_EINVAL);
	EXPECT(db_get(m, buffer, 0, bytes, 16), DB_EINVAL);
	EXPECT(db_get(m, buffer, 8, bytes, 48), DB_OK);
	EXPECT(db_release(m, buffer), DB_EINVAL);
	EXPECT(db_unmap(m, buffer), DB_OK);
	/* Released. */
	EXPECT(db_put(m, area, 8, "abcdefgh", 8), DB_OK);
	EXPECT(db_load64(m, area, 8), 0x6867666564636261);
	EXPECT(db_get(m, area, 9, bytes, 3), DB_OK);
	EXPECT(memcmp(bytes, "bcd", 3), 0);
	EXPECT(db_release(m, area), DB_OK);
	EXPECT(db_release(m, buffer), DB_OK);
	EXPECT(db_release(m, buffer), DB_EINVAL);
	/* No machine. */
	EXPECT(db_read32(NULL, STATUS), 0);
}

static void *open_(db *m)
{
	if (is("open"))
		return NULL;
	if (is("leak"))
		EXPECT(db_buffer(m, 64, 64) != 0, 1);
	if (is("calls"))
		wrong_calls(m);
	kept = m;
	return mynic_open(m);
}

static int stopped(const void *self)
{
	/* Not in a call that has the machine. */
	if (is("calls") && kept) {
		EXPECT(db_read32(kept, STATUS), 0);
		kept = NULL;
	}
	return mynic_stopped(self);
}

static int send_(void *self, db *m, const struct db_frame *f, int more)
{
	if (is("mapped and dropped")) {
		EXPECT(db_map(m, f->mem, f->start, f->len, DB_TO_DEVICE), DB_OK);
		return DB_DROPPED;
	}
	if (is("sent twice")) {
		EXPECT(db_sent(m, f->mem), DB_OK);
		EXPECT(db_sent(m, f->mem), DB_EINVAL);
		done = f->mem;
		return DB_DROPPED;
	}
	return mynic_send(self, m, f, more);
}

int main(int argc, char **argv)
{
	struct db_driver d = {
		sizeof(d), DB_VERSION, "mynic", "82545em", RING - 1, 0, open_, mynic_close, send_, mynic_poll,
		mynic_irq, stopped, mynic_alarm,
	};

	mode = getenv("CASE") ? getenv("CASE") : "";
	(void)done;
	if (is("none"))
		return db_main(argc, argv, NULL);
	if (is("size"))
		d.size--;
	if (is("version"))
		d.version = 1;
	if (is("name"))
		d.name = "My NIC";
	if (is("card"))
		d.card = "82599";
	if (is("send"))
		d.send = NULL;
	if (is("in_flight"))
		d.in_flight = 0;
	if (is("again"))
		db_main(argc, argv, &d);
	return db_main(argc, argv, &d);
}
