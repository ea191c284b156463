"""The openai package of Python with quipu behind it.

    pip install openai
    quipu serve &
    python3 openai_chat.py http://127.0.0.1:7878
"""

import os
import sys

from openai import OpenAI

client = OpenAI(base_url=sys.argv[1] + "/openai/v1", api_key=os.environ.get("QUIPU_KEY", "none"))

first = client.responses.create(model="demo", input="Remember seven knots.")
again = client.responses.create(model="demo", input="How many?", previous_response_id=first.id)
print("stored:", first.status, again.status)

answer = client.chat.completions.create(
    model="demo",
    messages=[{"role": "user", "content": "What is a quipu?"}],
    extra_headers={"X-Quipu-Context": "knots of openai_chat.py"},
)
print(len(answer.choices[0].message.content), "characters")
