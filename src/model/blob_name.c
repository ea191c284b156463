/* blob_name.c - see blob_name.h. */
#include "model/blob_name.h"

#include <sodium.h>
#include <string.h>

#include "base/str.h"

#define HASH_LEN ((QP_BLOB_ID - 1) / 2)

void
qp__blob_name(struct qp_bytes bytes, char out[QP_BLOB_ID])
{
  uint8_t hash[HASH_LEN];

  (void)crypto_generichash(hash, sizeof(hash), (const uint8_t *)(bytes.len ? bytes.data : ""),
                           bytes.len, NULL, 0);
  qp__hex_encode(out, hash, sizeof(hash));
  out[QP_BLOB_ID - 1] = 0;
}

bool
qp__blob_name_ok(const char *id)
{
  return id && strlen(id) == QP_BLOB_ID - 1 && strspn(id, "0123456789abcdef") == QP_BLOB_ID - 1;
}
