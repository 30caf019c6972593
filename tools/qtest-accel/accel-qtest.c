/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The "qtest" accelerator of QEMU 7.2, as a module of our own.
 *
 * What it is.  Under this accelerator no guest instruction ever runs: a test
 * program makes every register access over a socket, and virtual time moves
 * only when that program says so (`clock_step`).  QEMU builds it as a loadable
 * module, and Debian leaves the module out of its packages.  All the parts that
 * matter are inside the QEMU binary; the module only registers two classes
 * that point at them, so this file registers the same two.
 *
 * What it relies on.  No QEMU header is installed, so the pieces of QEMU's ABI
 * that are used are written down here: the fields of three structures, in the
 * order QEMU 7.2 has them, up to the last one we set.  The sources are
 * include/qom/object.h, include/qemu/accel.h and include/sysemu/accel-ops.h of
 * that release.  Fields that are not ours are `void *`: a pointer is all we need
 * to know of them.  QEMU loads a module only if it exports a symbol with the
 * build's own stamp, which build.sh reads from the installed binary, so a
 * module for another build is refused and not misread.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifndef QEMU_STAMP
#error "define QEMU_STAMP as the qemu_stamp_... symbol of the installed QEMU (see build.sh)"
#endif

/* ---- QEMU 7.2's structures ---- */

/* struct ObjectClass */
struct object_class {
    void *type;
    void *interfaces;
    const char *object_casts[4];
    const char *class_casts[4];
    void *unparent;
    void *properties;
};

/* struct TypeInfo */
struct type_info {
    const char *name;
    const char *parent;
    size_t instance_size;
    size_t instance_align;
    void *instance_init;
    void *instance_post_init;
    void *instance_finalize;
    bool is_abstract;
    size_t class_size; /* 0: as large as the parent's */
    void (*class_init)(void *class, void *data);
    void *class_base_init;
    void *class_data;
    void *interfaces;
};

/* struct AccelClass */
struct accel_class {
    struct object_class parent;
    const char *name;
    int (*init_machine)(void *machine);
    void *setup_post;
    void *has_memory;
    void *sstep_flags;
    bool *allowed;
};

/* struct AccelOpsClass, up to the clock */
struct accel_ops_class {
    struct object_class parent;
    void *ops_init;
    void *cpus_are_resettable;
    void (*create_vcpu_thread)(void *cpu);
    void *kick_vcpu_thread;
    void *cpu_thread_is_idle;
    void *synchronize_post_reset;
    void *synchronize_post_init;
    void *synchronize_state;
    void *synchronize_pre_loadvm;
    void *synchronize_pre_resume;
    void *handle_interrupt;
    int64_t (*get_virtual_clock)(void);
};

/* enum module_init_type: the step in which object types are registered */
#define MODULE_INIT_QOM 3

/* ---- what the QEMU binary exports ---- */

extern bool qtest_allowed;
extern int64_t qtest_get_virtual_clock(void);
extern void dummy_start_vcpu_thread(void *cpu);
extern void *type_register_static(const struct type_info *info);
extern void register_dso_module_init(void (*init)(void), int type);

/* ---- the accelerator ---- */

static int nothing_to_set_up(void *machine)
{
    (void)machine;
    return 0;
}

static void accel_class_init(void *class, void *data)
{
    struct accel_class *accel = class;

    (void)data;
    accel->name = "QTest";
    accel->init_machine = nothing_to_set_up;
    /* QEMU sets this flag for the accelerator it chose, and asks qtest_enabled() by it. */
    accel->allowed = &qtest_allowed;
}

static void accel_ops_class_init(void *class, void *data)
{
    struct accel_ops_class *ops = class;

    (void)data;
    /* A CPU thread that sleeps until it is told to go. */
    ops->create_vcpu_thread = dummy_start_vcpu_thread;
    /* The clock that clock_step moves. */
    ops->get_virtual_clock = qtest_get_virtual_clock;
}

/* QEMU finds both by name: the accelerator's name and the suffixes are its own convention. */
static const struct type_info accel_type = {
    .name = "qtest-accel",
    .parent = "accel",
    .class_init = accel_class_init,
};
static const struct type_info accel_ops_type = {
    .name = "qtest-accel-ops",
    .parent = "accel-ops",
    .is_abstract = true,
    .class_init = accel_ops_class_init,
};

static void register_types(void)
{
    type_register_static(&accel_type);
    type_register_static(&accel_ops_type);
}

/* ---- what makes a shared object a module of this build ---- */

void QEMU_STAMP(void)
{
}

void qemu_module_dummy(void)
{
}

__attribute__((constructor)) static void on_load(void)
{
    register_dso_module_init(register_types, MODULE_INIT_QOM);
}
