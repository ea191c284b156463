#!/bin/sh
# A conversation with curl alone, through Chat Completions; the header names it.
#
#   quipu serve &
#   ./curl.sh http://127.0.0.1:7878
set -eu
say() {
  curl -sf "$1/openai/v1/chat/completions" -H 'Content-Type: application/json' -H 'X-Quipu-Context: knots of curl' \
    -d "{\"model\":\"demo\",\"messages\":[{\"role\":\"user\",\"content\":\"$2\"}]}" | jq -r '.choices[0].finish_reason'
}
say "$1" 'What is a quipu?'
say "$1" 'And who read them?'
curl -sf "$1/v1/contexts" | jq -r '.contexts[0].title'
