/* store_test.h - shared by the tests of the store: a temporary directory, a store in it with one of
 * the drivers, short forms of the calls, and snapshots of the files.
 *
 * Every test function gets a struct fixture: a private directory, removed afterwards, with
 *   data/      the data directory of a file store
 *   outside/   a few files that must never change; the end of a test checks this
 * Helpers that must succeed assert it; they must not be called from another thread, because a
 * failed assertion jumps. */
#ifndef STORE_TEST_H
#define STORE_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <jansson.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "os/os.h"
#include "os_fault.h"
#include "quipu.h"

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))
#define PATH_LEN 1024

/* ---- expecting ---- */

/* The error of the last call: OK(qp_store_check(…, &failure)). */
extern _Thread_local struct qp_err failure;

#define OK(call) (clear_failure(), expect_rc((call), QP_OK, #call, __FILE__, __LINE__))
/* Also checks that there is one message without a line break. */
#define FAILS(call, rc) (clear_failure(), expect_rc((call), (rc), #call, __FILE__, __LINE__))

void clear_failure(void);
void expect_rc(enum qp_rc got, enum qp_rc want, const char *call, const char *file, int line);
/* The message of the last failure contains this text. */
void expect_sentence(const char *part);
void expect_id(const struct qp_uuid *got, const struct qp_uuid *want);

/* ---- the fixture ---- */

struct qp__driver;

struct driver {
  const char *name;
  const struct qp__driver *driver;
  bool durable;   /* a closed store can be opened again */
  unsigned flags; /* enum qp_store_flags */
};

/* What a test needs beyond the core of a driver (store/driver.h). A test that needs nothing is
 * listed as cmocka_unit_test(f), any other one as needs(f, NEEDS_GC | NEEDS_PACK). Where a driver
 * lacks something, the test is skipped, and its output names what is missing. */
enum needs {
  NEEDS_REOPEN = 1, /* a store that is closed can be opened again */
  NEEDS_DIRECTORY = 2,
  NEEDS_BUILD = 4,
  NEEDS_PACK = 8,
  NEEDS_GC = 16,
  NEEDS_OLD = 32,
  NEEDS_ERASE = 64,
  NEEDS_BACKUP = 128,
  NEEDS_PROCESS = 256,
};
#define needs(f, what)                           \
  {                                              \
#f, f, NULL, NULL, (void *)(uintptr_t)(what) \
  }

struct fixture {
  const struct driver *driver;
  char dir[PATH_LEN];
  char data[PATH_LEN];
  struct qp_store_options options; /* for the next open */
  const struct qp__os *os;         /* likewise */
  struct qp__os_fault *fault;      /* created by watch_calls(), or NULL */
  struct qp_store *store;
  char *outside; /* a snapshot of outside/ at the start */
  pthread_mutex_t lock;
  unsigned warnings; /* log lines of level warning or error, guarded by `lock` */
  char *log;         /* those lines */
  size_t log_len;
};

/* Run every test once on each driver that has what it needs (run_on_all), or on the file driver
 * without threads, which makes every run the same (run_on_files). The names of the tests show the
 * driver. Returns what main returns. */
int run_on_all(const char *suite, const struct CMUnitTest *tests, size_t n);
int run_on_files(const char *suite, const struct CMUnitTest *tests, size_t n);

/* Whether the driver of the fixture has all of this (enum needs). */
bool has(const struct fixture *f, unsigned what);

void open_store(struct fixture *f);
void close_store(struct fixture *f);
/* Removes everything from memory, so that the next open of a context reads it from the driver. */
void reload(struct fixture *f);
/* Opens the store again with a struct qp__os that counts its calls and can make them fail
 * (f->fault); os_gate.h before it counts the bytes. */
void watch_calls(struct fixture *f);
/* Calls since the last reset about a path that contains `part` (NULL: all); of one function, or of
 * all (QP__SLOT__MAX). After count_calls_to() only those are counted, until the next call of it. */
void count_calls_to(struct fixture *f, const char *part);
uint64_t calls_of(struct fixture *f, enum qp__os_slot slot);
/* Resets the warnings. */
void forget_warnings(struct fixture *f);
void expect_warning(struct fixture *f, const char *part);
void expect_outside_untouched(struct fixture *f);

/* ---- short forms ---- */

struct qp_context *new_context(struct fixture *f);
struct qp_context *open_context(struct fixture *f, const struct qp_uuid *id);
struct qp_store_stats stats(struct fixture *f);
/* Commits that the journal has been given since the store was created. For the file driver only. */
uint64_t staged_commits(const struct fixture *f);

struct qp_bytes bytes_of(const char *text);
struct qp_uuid id_of(const char *text);
struct qp_message *new_text(enum qp_role role, const char *text);
/* Saves a user message. */
struct qp_uuid say(struct qp_context *c, const char *branch, const char *text);
/* Saves n messages "<word>0", "<word>1", … in one batch; ids (may be NULL) receives theirs. */
void say_many(struct qp_context *c, const char *branch, const char *word, size_t n,
              struct qp_uuid *ids);
/* The texts of the branch's messages, separated by spaces. */
void expect_texts(struct qp_context *c, const char *branch, const char *want);
/* The stored bytes of a message; the caller frees them. */
char *stored(struct qp_context *c, const struct qp_uuid *id);
/* The caller decrefs. */
json_t *metadata_of(struct qp_context *c);
/* Pointers in it are invalid, except the id of a prompt, which is in a static buffer. */
struct qp_branch_info branch_of(struct qp_context *c, const char *name);
/* The names of all branches in order, the active one with a star, separated by spaces. */
void expect_branches(struct qp_context *c, const char *want);
void set_prompt(struct fixture *f, const char *id, const char *content);

/* ---- findings of a check ---- */

#define FINDINGS_MAX 64

struct findings {
  struct qp_check_summary summary;
  size_t count;
  struct {
    enum qp_problem_kind kind;
    struct qp_uuid context;
    char path[PATH_LEN];
    char detail[400];
    bool repaired;
    bool harmless;
  } list[FINDINGS_MAX];
};

/* Checks the whole store. Asserts what every check must fulfil: paths are relative to the data
 * directory, details are sentences, and the summary counts what was visited. */
void check_store(struct fixture *f, unsigned flags, struct findings *out);
/* Exactly one finding of this kind, whose path ends like this; returns its index. */
size_t expect_finding(const struct findings *found, enum qp_problem_kind kind,
                      const char *path_end);
/* No finding at all, not even a harmless one. */
void expect_no_findings(struct fixture *f);
/* No problems; harmless findings are allowed. */
void expect_sound(struct fixture *f);

/* ---- files ---- */

/* Formats a path into one of several buffers that are used in rotation. */
const char *pathf(const char *fmt, ...) QP_PRINTF(1, 2);
const char *context_path(struct fixture *f, const struct qp_uuid *id, const char *rest);
const char *message_path(struct fixture *f, const struct qp_uuid *context, const char *dir,
                         const struct qp_uuid *id);

bool file_exists(const char *path); /* of any type; a link is not followed */
size_t file_size(const char *path);
char *read_file(const char *path, size_t *len);
json_t *read_json(const char *path);
void write_file(const char *path, const char *data, size_t len);
void write_text(const char *path, const char *text);
void cut_file(const char *path, size_t len);
void flip_bit(const char *path, size_t at);
void copy_file(const char *from, const char *to);
void copy_tree(const char *from, const char *to);
void move_file(const char *from, const char *to);
void remove_file(const char *path);
void remove_tree(const char *path);
void make_directory(const char *path);
/* For `path` and everything below it: changes the owner, removes or restores the permission to
 * write. */
void give_tree(const char *path, unsigned user);
void set_writable(const char *path, bool writable);
/* Files (not directories) below `dir` whose path ends like this. */
size_t count_files(const char *dir, const char *end);

/* One line for everything below `dir`, sorted by path: type, path and, except for directories,
 * inode, modification time to the nanosecond, size and a hash of the content. The caller frees
 * it. */
char *take_picture(const char *dir);
/* The lines "+path", "-path" and "~path" of what is new, removed and changed in `after`, sorted by
 * path. The caller frees it. */
char *compare_pictures(const char *before, const char *after);
/* compare_pictures() gives exactly these lines. */
void expect_difference(const char *before, const char *after, const char *want);
/* The same for the changes of a commit in the data directory, except one segment of the journal and
 * an empty directory in tmp/. */
void expect_changes(const char *before, const char *after, const char *want);

#endif
