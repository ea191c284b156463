/* os_sim.h - a file system in memory that loses data like a real one when its power is cut.
 *
 * Every later call sees a change at once, but the change is only cached. It becomes durable
 *   - content and length of a file: by fdatasync or fsync of a descriptor of it,
 *   - the entries of a directory: by fsync of that directory; a rename by fsync of either side,
 *   - everything: by syncfs.
 * The entry of a file and its content are independent, and making a directory durable does not make
 * its own entry in the parent durable. Only open_root with `create` also makes the directory's own
 * entry durable, like the real implementation.
 *
 * Its clock starts at a fixed time and advances by a millisecond with every call; its random bytes
 * and all choices at a power cut depend on the seed: the same calls from one thread give the same
 * results. Names are listed in no particular order. There are no links, no permissions and no
 * users. open_root resolves its path from the top of the simulated tree, which initially has only
 * "/". Descriptor numbers are never reused. All functions may be called from any thread. */
#ifndef QP_OS_SIM_H
#define QP_OS_SIM_H

#include <stdbool.h>
#include <stdint.h>

#include "os/os.h"

struct qp__os_sim;

/* NULL: out of memory. */
struct qp__os_sim *qp__os_sim_new(uint64_t seed);
void qp__os_sim_free(struct qp__os_sim *s); /* NULL is allowed */

/* Borrowed; valid until free. */
const struct qp__os *qp__os_sim_os(struct qp__os_sim *s);

/* Cuts the power and restarts: all descriptors and locks are lost, durable data is kept, and of
 * cached data a random part: each write is dropped, kept or torn, each truncation is dropped or
 * kept. Directory changes are kept from the first up to some point, usually one point for the whole
 * tree, otherwise one per directory; a file that moves between two directories is then in exactly
 * one of them. -ENOMEM: the machine stays off; call it again. */
int qp__os_sim_power_cut(struct qp__os_sim *s);

/* After n more mutations (0: at once) the machine is off: every function that can fail returns -EIO
 * until qp__os_sim_power_cut(). close still releases the descriptor. */
void qp__os_sim_cut_after(struct qp__os_sim *s, uint64_t n);
bool qp__os_sim_is_off(struct qp__os_sim *s);

/* The number of successful calls that changed something, cached or durable: creating and truncating
 * opens, pwrite, ftruncate, set_mtime, the syncs, mkdirat, unlinkat, renameat. */
uint64_t qp__os_sim_mutations(struct qp__os_sim *s);

/* The total length of all files is at most `bytes`: a write beyond that is short, and -ENOSPC if
 * not a single byte fits. 0: no limit. */
void qp__os_sim_set_capacity(struct qp__os_sim *s, uint64_t bytes);
/* There are at most n files and directories, including those that are removed and still open:
 * creating one more returns -ENOSPC. 0: no limit. */
void qp__os_sim_set_inodes(struct qp__os_sim *s, uint64_t n);
/* The current values for these two limits. */
uint64_t qp__os_sim_bytes(struct qp__os_sim *s);
uint64_t qp__os_sim_inodes(struct qp__os_sim *s);

#endif
