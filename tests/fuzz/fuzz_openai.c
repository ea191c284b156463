/* fuzz_openai.c - arbitrary bytes as a response of Chat Completions and of Ollama; see
 * lib/llm_fuzz.h. */
#include <stdint.h>

#include "llm_fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  llm_fuzz_answer(&qp__codec_openai, data, size);
  llm_fuzz_answer(&qp__codec_ollama, data, size);
  return 0;
}
