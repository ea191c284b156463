/* os_gate.h - a wrapper of another struct qp__os in which chosen calls wait at a gate until it is
 * opened: for tests that hold one thread in the middle of a call and check what other threads can
 * do. It also counts the bytes that pass.
 *
 * There is one gate for the whole process, initially open. */
#ifndef OS_GATE_H
#define OS_GATE_H

#include <stdbool.h>

#include "os/os.h"
#include "os_fault.h"

/* `inner` must outlive its use. */
const struct qp__os *os_gate_over(const struct qp__os *inner);

/* From now on calls of this function wait: QP__SLOT_OPENAT with a path that contains `part`,
 * QP__SLOT_FDATASYNC, QP__SLOT_SYNCFS or QP__SLOT_RANDOM. */
void os_gate_shut(enum qp__os_slot slot, const char *part);
/* From now on syncs of every kind wait. */
void os_gate_shut_syncs(void);
/* From now on opens that create a new file (O_EXCL) wait. */
void os_gate_shut_creation(void);
/* Waits until n calls wait at the gate. False: this did not happen within a minute. */
bool os_gate_await(unsigned n);
/* Releases all waiting and later calls. */
void os_gate_open(void);

/* From now on calls that create or change a file return -error, and with EMFILE all opens; 0: none.
 * Excluded are the journal, which already has its full size, and open files. */
void os_gate_refuse(int error);

/* Bytes read and written since the last reset. */
uint64_t os_gate_bytes_read(void);
uint64_t os_gate_bytes_written(void);
void os_gate_reset(void);

#endif
