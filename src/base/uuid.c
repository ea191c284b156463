/* uuid.c - see uuid.h. */
#include "base/uuid.h"

#include <string.h>

#include "base/err.h"
#include "base/str.h"
#include "base/vec.h"

#define COUNTER_MAX 0x3ffffu

void
qp__uuid_gen_init(struct qp__uuid_gen *gen)
{
  memset(gen, 0, sizeof(*gen));
  qp__mutex_init(&gen->lock, QP__RANK_UUID);
}

void
qp__uuid_gen_release(struct qp__uuid_gen *gen)
{
  qp__mutex_release(&gen->lock);
}

struct qp_uuid
qp__uuid_next(struct qp__uuid_gen *gen, int64_t now_ms, const uint8_t entropy[10])
{
  struct qp_uuid id;
  uint64_t ms = now_ms > 0 ? (uint64_t)now_ms : 0;
  uint32_t counter;

  qp__mutex_lock(&gen->lock);
  if (ms > gen->last_ms) {
    gen->last_ms = ms;
    gen->counter =
        ((uint32_t)entropy[0] << 8 | entropy[1]) & 0xffff; /* leaves space for increments */
  } else if (++gen->counter > COUNTER_MAX) {
    gen->last_ms++; /* uses a time in the future; the clock soon catches up */
    gen->counter = 0;
  }
  ms = gen->last_ms;
  counter = gen->counter;
  qp__mutex_unlock(&gen->lock);

  for (int i = 0; i < 6; i++)
    id.b[i] = (uint8_t)(ms >> (40 - 8 * i));
  id.b[6] = (uint8_t)(0x70 | (counter >> 14));
  id.b[7] = (uint8_t)(counter >> 6);
  id.b[8] = (uint8_t)(0x80 | (counter & 0x3f));
  memcpy(id.b + 9, entropy + 2, 7);
  return id;
}

void
qp__uuid_encode(char out[QP__UUID_LEN], const struct qp_uuid *id)
{
  qp__hex_encode(out, id->b, 4);
  out[8] = '-';
  qp__hex_encode(out + 9, id->b + 4, 2);
  out[13] = '-';
  qp__hex_encode(out + 14, id->b + 6, 2);
  out[18] = '-';
  qp__hex_encode(out + 19, id->b + 8, 2);
  out[23] = '-';
  qp__hex_encode(out + 24, id->b + 10, 6);
}

/* The characters at two positions, one after the other as in a text. */
static inline uint64_t
join4(const char *first, const char *second)
{
  char text[8];
  uint64_t word;

  memcpy(text, first, 4);
  memcpy(text + 4, second, 4);
  memcpy(&word, text, sizeof(word));
  return word;
}

bool
qp__uuid_decode(const char in[QP__UUID_LEN], struct qp_uuid *out)
{
  struct qp_uuid id;

  if (in[8] != '-' || in[13] != '-' || in[18] != '-' || in[23] != '-' ||
      !qp__hex_decode16(join4(in, in + 4), join4(in + 9, in + 14), id.b) ||
      !qp__hex_decode16(join4(in + 19, in + 24), join4(in + 28, in + 32), id.b + 8))
    return false;
  *out = id;
  return true;
}

bool
qp__uuid_of_name(const char *name, const char *end, struct qp_uuid *out)
{
  char text[QP__UUID_LEN];
  struct qp_uuid id;

  if (strlen(name) != QP__UUID_LEN + strlen(end) || strcmp(name + QP__UUID_LEN, end) != 0 ||
      !qp__uuid_decode(name, &id))
    return false;
  qp__uuid_encode(text, &id);
  if (memcmp(text, name, sizeof(text)) != 0)
    return false;
  *out = id;
  return true;
}

enum qp_rc
qp_uuid_parse(const char *text, struct qp_uuid *out, struct qp_err *err)
{
  struct qp_uuid id;

  if (!text || strlen(text) != QP__UUID_LEN || !qp__uuid_decode(text, &id))
    return qp__fail(err, QP_INVALID, "'%.60s' is not a UUID", text ? text : "");
  *out = id;
  return QP_OK;
}

const char *
qp_uuid_text(const struct qp_uuid *id, char out[QP_UUID_TEXT])
{
  qp__uuid_encode(out, id);
  out[QP__UUID_LEN] = 0;
  return out;
}

bool
qp_uuid_is_none(const struct qp_uuid *id)
{
  static const struct qp_uuid none;

  return memcmp(id, &none, sizeof(none)) == 0;
}

bool
qp_uuid_equal(const struct qp_uuid *a, const struct qp_uuid *b)
{
  return memcmp(a, b, sizeof(*a)) == 0;
}

enum qp_rc
qp__ids_add(void *ids, const struct qp_uuid *id)
{
  struct qp__ids *list = ids;

  return qp__vec_push(list->at, list->count, list->cap, *id) ? QP_OK : QP_NOMEM;
}

int
qp__uuid_compare(const void *a, const void *b)
{
  return memcmp(a, b, sizeof(struct qp_uuid));
}
