/* sessions.h - short forms for tests of sessions. As in store_test.h, helpers that must succeed
 * assert it. They work with every driver: files are accessed through it. */
#ifndef SESSIONS_H
#define SESSIONS_H

#include "store_test.h"

void new_session(struct fixture *f, const char *id, uint32_t chunk_size);
/* Appends {"role": …, "content": …}. */
void tell(struct fixture *f, const char *id, const char *role, const char *content);
/* Appends n messages of the user: "<word>1", "<word>2", … */
void tell_many(struct fixture *f, const char *id, const char *word, size_t n);
/* Appends this JSON. */
enum qp_rc append_json(struct fixture *f, const char *id, const char *json);

/* The contents of the last n messages, with a space after each but the last. */
void expect_window(struct fixture *f, const char *id, uint64_t n, const char *want);
/* Asserts the number of invalid lines that reading reports. */
void expect_bad_lines(struct fixture *f, const char *id, uint64_t n, uint64_t want);
/* The stored lines, each with a newline; the caller frees it. */
char *lines_of(struct fixture *f, const char *id, uint64_t n);

/* The result of qp_session_get; strings are in static buffers. */
struct qp_session_info session_info(struct fixture *f, const char *id);
/* The ids in the order of the list, with a space after each but the last. */
void expect_sessions(struct fixture *f, const char *want);

/* The chunks of the session with the number of their lines: "1:3 2:1"; a file without a number
 * is 0. */
void expect_chunks(struct fixture *f, const char *id, const char *want);

/* Files below sessions/, by name, through the driver. NULL removes a file. The store must not
 * have read its sessions yet: call forget_sessions() before. */
void plant(struct fixture *f, const char *name, const char *text);
/* The file's text, or NULL; the caller frees it. */
char *dig(struct fixture *f, const char *name);
void forget_sessions(struct fixture *f);

#endif
