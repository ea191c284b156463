/* uuid.h - UUIDv7: 48 bits of milliseconds, then a counter and random bits. The ids of one
 * generator always increase, also within a millisecond and when the clock is set back. */
#ifndef QP_BASE_UUID_H
#define QP_BASE_UUID_H

#include <stdbool.h>

#include "base/mutex.h"
#include "quipu.h"

#define QP__UUID_LEN 36

struct qp__uuid_gen {
  struct qp__mutex lock;
  uint64_t last_ms; /* highest time used so far */
  uint32_t counter; /* 18 bits: rand_a and the top of rand_b, as RFC 9562 section 6.2 allows */
};

void qp__uuid_gen_init(struct qp__uuid_gen *gen);
void qp__uuid_gen_release(struct qp__uuid_gen *gen);

/* `entropy` is 10 fresh random bytes. */
struct qp_uuid qp__uuid_next(struct qp__uuid_gen *gen, int64_t now_ms, const uint8_t entropy[10]);

/* Exactly 36 characters, without a NUL. Decoding accepts both cases. */
void qp__uuid_encode(char out[QP__UUID_LEN], const struct qp_uuid *id);
bool qp__uuid_decode(const char in[QP__UUID_LEN], struct qp_uuid *out);

/* The id of a file or directory that is named by one: "<uuid>" and `end`, in the one spelling that
 * encode writes. False: it has another name. */
bool qp__uuid_of_name(const char *name, const char *end, struct qp_uuid *out);

/* A list of ids. All zero is empty; `at` is released with qp__free(). */
struct qp__ids {
  struct qp_uuid *at;
  size_t count, cap;
};

/* Appends an id to the list `ids`; has the form of a visitor. QP_NOMEM. */
enum qp_rc qp__ids_add(void *ids, const struct qp_uuid *id);

/* For qsort and bsearch over ids. */
int qp__uuid_compare(const void *a, const void *b);

#endif
