/* llm_fuzz.h - shared by the fuzzers of the model protocols. */
#ifndef LLM_FUZZ_H
#define LLM_FUZZ_H

#include <stddef.h>
#include <stdint.h>

#include "llm/codec.h"

/* Reads the input as an answer, whole and in pieces as its first byte says: the events must be
 * the same and valid, and the message can be stored and sent back. Reading it as an answer
 * without streaming and as an error must be safe too. Aborts otherwise. */
void llm_fuzz_answer(const struct qp__llm_codec *codec, const uint8_t *data, size_t size);

#endif
