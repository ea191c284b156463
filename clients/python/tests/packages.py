"""The adapters and the openai package with the real packages and a real server (QUIPU_URL): see
tests/e2e/client_packages.test.mjs. The demo model plays what that test says."""

import asyncio
import operator
import os
import unittest
import uuid
from typing import Annotated, TypedDict

import agents
import openai
from agents import Agent, ModelSettings, RunConfig, Runner, function_tool
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, interrupt

from quipu import Client
from quipu.agents import QuipuSession
from quipu.langgraph import QuipuSaver

URL = os.environ["QUIPU_URL"]
BASE = URL + "/openai/v1"
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


class OpenAI(unittest.TestCase):
    def setUp(self):
        self.client = openai.OpenAI(base_url=BASE, api_key="none", max_retries=0)

    def test_chat_completions(self):
        ask = lambda text, **more: self.client.chat.completions.create(model="demo", messages=[{"role": "user", "content": text}], **more)
        self.assertEqual(ask("hello").choices[0].message.content, "Knots, and knots.")
        chunks = list(ask("hello", stream=True, stream_options={"include_usage": True}))
        self.assertEqual("".join(c.choices[0].delta.content or "" for c in chunks if c.choices), "Knots, and knots.")
        self.assertIsNotNone(chunks[-1].usage)
        tools = [{"type": "function", "function": {"name": "get_weather", "parameters": SCHEMA}}]
        calls = ask("weather", tools=tools).choices[0].message.tool_calls
        self.assertEqual([call.function.name for call in calls], ["get_weather"] * 2)
        with self.client.chat.completions.stream(model="demo", messages=[{"role": "user", "content": "weather"}], tools=tools) as stream:
            done = [event for event in stream if event.type == "tool_calls.function.arguments.done"]
        self.assertEqual([event.arguments for event in done], [call.function.arguments for call in calls])
        with self.assertRaises(openai.APIStatusError) as caught:
            ask("overloaded")
        self.assertEqual(caught.exception.status_code, 503)
        with self.assertRaises(openai.APIError):
            list(ask("break", stream=True))
        self.assertIn("demo/demo", [model.id for model in self.client.models.list()])

    def test_stored_by_its_name(self):
        headers = {"X-Quipu-Context": f"python {uuid.uuid4()}"}
        history = [{"role": "user", "content": "hello"}]
        for count in (2, 4):
            raw = self.client.chat.completions.with_raw_response.create(model="demo", messages=history, extra_headers=headers)
            history.append({"role": "assistant", "content": raw.parse().choices[0].message.content})
            history.append({"role": "user", "content": "again"})
            self.assertEqual(len(list(Client(URL).context(raw.headers["x-quipu-context"]).messages())), count)

    def test_responses(self):
        first = self.client.responses.create(model="demo", input="one", metadata={"a": "b"})
        self.assertEqual((first.output_text, first.metadata), ("Knots, and knots.", {"a": "b"}))
        with self.client.responses.stream(model="demo", input="think", previous_response_id=first.id) as stream:
            types = [event.type for event in stream]
            final = stream.get_final_response()
        self.assertEqual((types[0], types[-1], final.output_text), ("response.created", "response.completed", "I have thought."))
        again = list(self.client.responses.retrieve(final.id, stream=True, starting_after=1))
        self.assertEqual(again[0].sequence_number, 2)
        tools = [{"type": "function", "name": "get_weather", "parameters": SCHEMA, "strict": False}]
        asks = self.client.responses.create(model="demo", input="weather", tools=tools)
        results = [{"type": "function_call_output", "call_id": one.call_id, "output": "sun"} for one in asks.output if one.type == "function_call"]
        told = self.client.responses.create(model="demo", input=results, tools=tools, previous_response_id=asks.id)
        self.assertEqual((len(results), told.output_text), (2, "It is sunny in both."))
        compacted = self.client.responses.compact(model="demo", previous_response_id=told.id)
        after = self.client.responses.create(model="demo", input=[*[one.to_dict(warnings=False) for one in compacted.output], {"role": "user", "content": "x"}])
        self.assertEqual(after.output_text, "Knots, and knots.")
        background = self.client.responses.create(model="demo", input="one", background=True)
        while background.status in ("queued", "in_progress"):
            background = self.client.responses.retrieve(background.id)
        self.assertEqual(background.output_text, "Knots, and knots.")
        conversation = self.client.conversations.create(items=[{"type": "message", "role": "user", "content": "kept"}])
        self.client.responses.create(model="demo", input="one", conversation=conversation.id)
        self.assertEqual(len(list(self.client.conversations.items.list(conversation.id, limit=1))), 3)
        with self.assertRaises(openai.BadRequestError) as caught:
            self.client.responses.create(model="demo", input="x", previous_response_id="resp_1")
        self.assertEqual(caught.exception.code, "previous_response_not_found")


class Agents(unittest.TestCase):
    def test_a_run_with_a_session(self):
        asked = []

        @function_tool
        def get_weather(city: str) -> str:
            asked.append(city)
            return "sun"

        async def main():
            client = openai.AsyncOpenAI(base_url=BASE, api_key="none")
            agent = Agent(name="Helper", instructions="Be brief.", tools=[get_weather], model=agents.OpenAIResponsesModel("demo", client))
            config = RunConfig(tracing_disabled=True)
            self.assertIsInstance(QuipuSession("x", Client(URL)), agents.memory.Session)
            for session in (QuipuSession("of python", Client(URL)), agents.OpenAIConversationsSession(openai_client=client)):
                await session.clear_session()
                first = await Runner.run(agent, "weather please", session=session, run_config=config)
                self.assertEqual((first.final_output, sorted(asked)), ("It is sunny in both.", ["Paris", "Rome"]))
                asked.clear()
                streamed = Runner.run_streamed(agent, "hello", session=session, run_config=config)
                kinds = {event.type async for event in streamed.stream_events()}
                self.assertIn("raw_response_event", kinds)
                self.assertEqual(streamed.final_output, "Knots, and knots.")
                items = await session.get_items()
                self.assertEqual([one.get("type", one.get("role")) for one in items].count("function_call_output"), 2)
                self.assertEqual((await session.get_items(1))[0]["role"], "assistant")
                self.assertEqual((await session.pop_item())["role"], "assistant")
                self.assertEqual(len(await session.get_items()), len(items) - 1)
            stateless = ModelSettings(store=False)
            alone = await Runner.run(agent, "hello", run_config=RunConfig(tracing_disabled=True, model_settings=stateless))
            self.assertEqual(alone.final_output, "Knots, and knots.")

        asyncio.run(main())


class State(TypedDict):
    log: Annotated[list, operator.add]
    raw: bytes


def build(saver):
    def ask(state):
        return {"log": [f"answer {interrupt('which?')}"], "raw": b"\x00\xff"}

    builder = StateGraph(State)
    builder.add_node("first", lambda state: {"log": ["first"]})
    builder.add_node("left", lambda state: {"log": ["left"]})
    builder.add_node("ask", ask)
    builder.add_node("last", lambda state: {"log": ["last"]})
    builder.add_edge(START, "first")
    builder.add_edge("first", "left")
    builder.add_edge("first", "ask")
    builder.add_edge(["left", "ask"], "last")
    builder.add_edge("last", END)
    return builder.compile(checkpointer=saver)


def seen(one):
    """A state without ids and times, which differ from run to run."""
    tasks = [(task.name, task.error, [each.value for each in task.interrupts], task.result) for task in one.tasks]
    return one.values, one.next, one.metadata["source"], one.metadata["step"], tasks


class LangGraph(unittest.TestCase):
    """The same graph with LangGraph's own checkpointer in memory says what is right."""

    CONFIG = {"configurable": {"thread_id": "of python"}}

    def steps(self, fresh):
        """Interrupt, resume, time travel and a fork, as a list of what a program sees."""
        graph = fresh()
        told = [graph.invoke({"log": ["in"]}, self.CONFIG)["__interrupt__"][0].value, seen(graph.get_state(self.CONFIG))]
        graph = fresh()
        told += [graph.invoke(Command(resume="red"), self.CONFIG), [seen(one) for one in graph.get_state_history(self.CONFIG)]]
        old = [one for one in graph.get_state_history(self.CONFIG) if one.metadata["step"] == 1][0]
        told.append(seen(graph.get_state(old.config)))
        graph.invoke(None, old.config)
        fork = graph.update_state(old.config, {"log": ["edited"]}, as_node="first")
        told += [seen(graph.get_state(fork)), [seen(one) for one in graph.get_state_history(self.CONFIG)]]
        told.append([seen(one) for one in graph.get_state_history(self.CONFIG, filter={"source": "fork"})])
        told.append([seen(one) for one in graph.get_state_history(self.CONFIG, before=old.config, limit=1)])
        return told

    def test_interrupt_resume_and_time_travel(self):
        memory = InMemorySaver()
        expected = self.steps(lambda: build(memory))
        QuipuSaver(Client(URL)).delete_thread("of python")
        self.assertIsInstance(QuipuSaver(Client(URL)), BaseCheckpointSaver)
        for one, right in zip(self.steps(lambda: build(QuipuSaver(Client(URL)))), expected, strict=True):
            self.assertEqual(one, right)
        saver = QuipuSaver(Client(URL))
        self.assertEqual(len(list(saver.list(None, limit=3))), 3)
        saver.delete_thread("of python")
        self.assertEqual(list(saver.list(self.CONFIG)), [])

    def test_asyncio(self):
        async def steps(saver):
            graph = build(saver)
            await graph.ainvoke({"log": ["in"]}, self.CONFIG)
            await graph.ainvoke(Command(resume="blue"), self.CONFIG)
            return [seen(one) async for one in graph.aget_state_history(self.CONFIG)]

        async def main():
            saver = QuipuSaver(Client(URL))
            await saver.adelete_thread("of python")
            self.assertEqual(await steps(saver), await steps(InMemorySaver()))
            await saver.adelete_thread("of python")

        asyncio.run(main())


if __name__ == "__main__":
    unittest.main()
