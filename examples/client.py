"""clients/python: a conversation with a tool of this program.

    quipu serve &
    PYTHONPATH=clients/python python3 examples/client.py http://127.0.0.1:7878
"""

import sys

from quipu import Client

chat = Client(sys.argv[1]).create(title="Knots of client.py")
print("answered:", len(chat.send("What is a quipu?").text) > 0)
count = {"name": "count_knots", "description": "Counts the knots of a cord", "parameters": {"type": "object", "properties": {"cord": {"type": "string"}}}}
answer = chat.run("How many knots has the red cord?", {"count_knots": lambda cord: len(cord)}, tools=[count])
print("state:", answer["state"], "messages:", len(list(chat.messages())))
