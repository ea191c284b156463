/* fuzz_json_scan.c - base/json_scan.h: text in one piece, text in pieces of any size and the parser
 * of values agree, and nothing outside of the text is read. The first byte of the input is the size
 * of the pieces. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/str.h"

#define CHECK(cond) ((cond) ? (void)0 : (fprintf(stderr, "%s\n", #cond), abort()))

struct pieces {
  struct qp__json_scan json; /* first */
  struct qp_bytes text;      /* what was not handed out yet */
  size_t size;
  char *piece; /* a copy of exactly its size, so that ASan sees every byte too many */
};

static bool
next_piece(struct qp__json_scan *json)
{
  struct pieces *p = (struct pieces *)json;
  size_t n = p->text.len < p->size ? p->text.len : p->size;

  free(p->piece);
  p->piece = NULL;
  json->at = json->end = NULL;
  if (!n)
    return false;
  p->piece = malloc(n);
  CHECK(p->piece != NULL);
  memcpy(p->piece, p->text.data, n);
  json->at = p->piece;
  json->end = p->piece + n;
  p->text.data += n;
  p->text.len -= n;
  return true;
}

static bool
accepts(struct qp__json_scan *s)
{
  return qp__json_scan_skip(s) && qp__json_scan_peek(s) < 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  struct qp_bytes text = { (const char *)data + 1, size - 1 };
  struct qp__json_scan whole;
  struct pieces pieces;
  json_t *value = NULL;
  bool good;

  if (size < 2 || !qp__utf8_ok(text.data, text.len))
    return 0;
  whole = (struct qp__json_scan){ .at = text.data, .end = text.data + text.len };
  pieces = (struct pieces){ .json = { .refill = next_piece },
                            .text = text,
                            .size = (size_t)(data[0] & 15) + 1 };
  good = accepts(&whole);
  CHECK(accepts(&pieces.json) == good);
  free(pieces.piece);
  /* The parser refuses more: duplicate keys, large numbers, too many values. */
  if (qp__json_parse("text", text, &value, NULL) == QP_OK)
    CHECK(good);
  json_decref(value);
  return 0;
}
