/* segment.h - one file of the journal: a header and frames.
 *
 *   offset 0     magic[8] "QUIPUJ01"  version:u32 = 1  header_len:u32 = 64  size:u64
 *                key[16]  session:u64  base:u64  mac:u64
 *   offset 4096  frames, each at a multiple of 8:
 *                mac:u64  magic:u32 "QPF1"  len:u32  seq:u64  body[len]
 *   All integers are little-endian. The header's mac is SipHash-2-4 of its first 56 bytes under the
 *   key "quipu journal 01". A frame's mac is SipHash-2-4 of everything after it in the frame, under
 *   the segment's own random key.
 *
 * (1) The file has its full size, written with zeros, and is durable together with its name before
 *     the first frame is written: so a sync writes no file metadata.
 * (2) A segment is used again: first it gets a new key, so that its old frames do not match any
 *     more, then a new name. Their bytes stay until new frames cover them, or qp__segment_wipe is
 *     called.
 * (3) The first frame that does not match ends the segment.
 * (4) session and base are 0, or written when a running journal empties its last segment in place:
 *     the random number of that journal, and the number of its last commit. By these a reader that
 *     follows the journal (journal_tail.h) detects a missed commit. */
#ifndef QP_STORE_FILES_JOURNAL_SEGMENT_H
#define QP_STORE_FILES_JOURNAL_SEGMENT_H

#include "base/buf.h"
#include "os/os.h"

#define QP__SEGMENT_START 4096
#define QP__FRAME_HEADER_LEN 24
#define QP__SEGMENT_NAME_LEN 32

struct qp__segment {
  uint64_t number;
  uint64_t size;
  uint64_t end;      /* the offset of the next frame */
  uint64_t last_seq; /* of its last frame, 0: none */
  uint64_t stale;    /* between `end` and here there may be bytes of frames that were forgotten */
  uint64_t session;  /* rule (4) */
  uint64_t base;
  uint8_t key[16];
  int fd; /* -1: not open */
};

void qp__segment_name(char out[QP__SEGMENT_NAME_LEN], uint64_t number);
/* False: not the name of a segment. */
bool qp__segment_parse_name(const char *name, uint64_t *number);

/* The bytes that a frame with this body needs in a segment. */
uint64_t qp__frame_space(size_t body_len);

/* Creates a new segment; on failure it does not exist. */
enum qp_rc qp__segment_create(const struct qp__os *os, int dir, uint64_t number, uint64_t size,
                              struct qp__segment *out, struct qp_err *err);
/* Gives a segment a new number, durably. -errno; its state does not change then. */
int qp__segment_rename(const struct qp__os *os, int dir, struct qp__segment *s, uint64_t number);
/* A new key in place, durably: all its frames are forgotten. */
enum qp_rc qp__segment_reset(const struct qp__os *os, struct qp__segment *s, struct qp_err *err);

/* Overwrites the bytes from its last frame up to `to` with zeros; not synced. -errno. */
int qp__segment_wipe(const struct qp__os *os, struct qp__segment *s, uint64_t to);

/* Opens and reads the header. QP_CORRUPT: no valid one (a segment that was never used, or torn). */
enum qp_rc qp__segment_open(const struct qp__os *os, int dir, uint64_t number, bool writable,
                            struct qp__segment *out, struct qp_err *err);
void qp__segment_close(const struct qp__os *os, struct qp__segment *s);
/* Reads the header of an open segment again: another process may have given it a new key. */
enum qp_rc qp__segment_reload(const struct qp__os *os, struct qp__segment *s, struct qp_err *err);

/* Fills in the frame header in the first QP__FRAME_HEADER_LEN bytes of `frame`, whose body
 * follows. */
void qp__frame_seal(const struct qp__segment *s, char *frame, size_t body_len, uint64_t seq);

/* The hash of a sealed frame, which identifies it. */
uint64_t qp__frame_key(const char *frame);

/* Reads the frame at *pos into *buf and moves *pos after it. *seq and *body describe it; *body is
 * empty (data NULL) when the segment ends here. */
enum qp_rc qp__frame_read(const struct qp__os *os, const struct qp__segment *s, uint64_t *pos,
                          struct qp__buf *buf, uint64_t *seq, struct qp_bytes *body,
                          struct qp_err *err);

#endif
