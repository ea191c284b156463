"""Appends to a history by LangGraph's PostgresSaver, for bench/postgres.mjs.

    langgraph_postgres.py URL LENGTH ROUNDS

Prints the milliseconds that storing one more message takes, at a history of LENGTH messages.
"""

import sys
import time
from typing import Annotated, TypedDict

from langchain_core.messages import HumanMessage
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages

url, length, rounds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
text = ("A quipu is a record kept in knotted cords. " * 5)[:200]


class State(TypedDict):
    messages: Annotated[list, add_messages]


with PostgresSaver.from_conn_string(url) as saver:
    saver.setup()
    graph = StateGraph(State)
    graph.add_node("keep", lambda state: {})
    graph.add_edge(START, "keep")
    app = graph.compile(checkpointer=saver)
    config = {"configurable": {"thread_id": f"bench {length}"}}
    app.update_state(config, {"messages": [HumanMessage(text) for _ in range(length)]})
    begun = time.perf_counter()
    for _ in range(rounds):
        app.update_state(config, {"messages": [HumanMessage(text)]})
    print((time.perf_counter() - begun) * 1000 / rounds)
