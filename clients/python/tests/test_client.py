"""The client and its adapters with a real server, whose address is in QUIPU_URL. Its demo model plays
what tests/e2e/client_packages.test.mjs says."""

import asyncio
import os
import pickle
import unittest

from quipu import AsyncClient, Client, QuipuError
from quipu.agents import QuipuSession
from quipu.langgraph import QuipuSaver

URL = os.environ["QUIPU_URL"]
WEATHER = {"name": "get_weather", "description": "weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}


class Plain(unittest.TestCase):
    def test_a_conversation(self):
        client = Client(URL)
        chat = client.create(title="Knots of Python")
        self.assertEqual(chat.send("hello", key="once").text, "Knots, and knots.")
        self.assertTrue(chat.send("hello", key="once")["replayed"])
        said = "".join(event["text"] for event in chat.stream("again") if event["type"] == "text")
        self.assertEqual(said, "Knots, and knots.")
        chat.append([{"role": "user", "text": "one"}, {"role": "assistant", "text": "two"}])
        self.assertEqual([m["role"] for m in chat.messages(limit=2)], ["user", "assistant"] * 3)
        first = next(chat.messages())
        chat.fork("other", at=first["id"])
        self.assertEqual({b["name"]: b["messages"] for b in chat.branches()}, {"main": 6, "other": 1})
        self.assertIn(chat.id, [one["id"] for one in client.contexts(limit=1)])
        self.assertEqual(client.models()[0]["id"], "demo")
        self.assertTrue(chat.update(title="New")["title"] == "New" and chat.info()["title"] == "New")
        chat.delete()
        with self.assertRaises(QuipuError) as caught:
            chat.info()
        self.assertEqual((caught.exception.status, caught.exception.code), (404, "NOTFOUND"))

    def test_tools_of_this_program(self):
        asked = []

        def get_weather(city):
            asked.append(city)
            if city == "Rome":
                raise ValueError("no weather there")
            return {"sky": "blue"}

        chat = Client(URL).create()
        answer = chat.run("weather", {"get_weather": get_weather}, [WEATHER])
        self.assertEqual((answer.text, asked), ("It is sunny in both.", ["Paris", "Rome"]))
        results = [m["tool_result"] for m in chat.messages() if m["tool_result"]]
        self.assertEqual([(r["result"] == {"sky": "blue"}, r["is_error"]) for r in results], [(True, False), (False, True)])

    def test_asyncio(self):
        async def main():
            client = AsyncClient(URL)
            chats = await asyncio.gather(*(client.create() for _ in range(4)))
            answers = await asyncio.gather(*(chat.send("hello") for chat in chats))
            self.assertEqual([answer.text for answer in answers], ["Knots, and knots."] * 4)
            types = [event["type"] async for event in chats[0].stream("again")]
            self.assertIn("text", types)
            async for event in chats[0].stream("again"):
                break  # the rest is not wanted
            self.assertTrue([one async for one in client.contexts()])

        asyncio.run(main())


class Adapters(unittest.TestCase):
    def test_session_of_the_agents_sdk(self):
        async def main():
            session = QuipuSession("user 17", Client(URL))
            await session.clear_session()
            self.assertEqual(await session.get_items(), [])
            self.assertIsNone(await session.pop_item())
            items = [
                {"role": "user", "content": "hello"},
                {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"},
                {"type": "function_call", "call_id": "c1", "name": "f", "arguments": '{"a": 1}'},
                {"type": "function_call_output", "call_id": "c1", "output": "done"},
                {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Yes.", "annotations": []}]},
            ]
            await session.add_items(items)
            await session.add_items([{"role": "user", "content": str(i)} for i in range(70)])
            self.assertEqual((await session.get_items())[:5], items)
            self.assertEqual([i["content"] for i in await session.get_items(2)], ["68", "69"])
            for i in range(69, -1, -1):
                self.assertEqual((await session.pop_item())["content"], str(i))
            for item in reversed(items):
                self.assertEqual(await session.pop_item(), item)
            self.assertEqual(await session.get_items(), [])
            await session.add_items(items[:1])
            await session.clear_session()
            self.assertEqual(await session.get_items(), [])

        asyncio.run(main())

    def test_checkpointer_of_langgraph(self):
        class Serde:
            dumps_typed = staticmethod(lambda value: ("pickle", pickle.dumps(value)))
            loads_typed = staticmethod(lambda typed: pickle.loads(typed[1]))

        saver = QuipuSaver(Client(URL), serde=Serde())
        saver.delete_thread("t")
        self.assertIsNone(saver.get_tuple({"configurable": {"thread_id": "t"}}))
        config = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
        for step, id in enumerate(["1a", "1b", "1c"]):
            checkpoint = {"v": 4, "id": id, "channel_values": {"n": step, "raw": b"\x00\xff"}}
            config = saver.put(config, checkpoint, {"source": "loop", "step": step}, {})
        saver.put_writes(config, [("n", 7), ("m", 8)], "task")
        saver.put_writes(config, [("n", 9)], "task")
        saver.put_writes(config, [("__error__", "a"), ("__interrupt__", "b")], "task")
        saver.put_writes(config, [("__error__", "c")], "task")
        newest = saver.get_tuple({"configurable": {"thread_id": "t"}})
        self.assertEqual(newest.checkpoint["channel_values"], {"n": 2, "raw": b"\x00\xff"})
        self.assertEqual(newest.parent_config["configurable"]["checkpoint_id"], "1b")
        self.assertEqual(newest.pending_writes, [("task", "__interrupt__", "b"), ("task", "__error__", "c"), ("task", "n", 7), ("task", "m", 8)])
        older = {"configurable": {"thread_id": "t", "checkpoint_ns": "", "checkpoint_id": "1a"}}
        self.assertEqual(saver.get_tuple(older).metadata["step"], 0)
        ids = lambda **more: [one.checkpoint["id"] for one in saver.list({"configurable": {"thread_id": "t"}}, **more)]
        self.assertEqual((ids(), ids(limit=1), ids(before=newest.config), ids(filter={"step": 1})), (["1c", "1b", "1a"], ["1c"], ["1b", "1a"], ["1b"]))
        self.assertEqual(len(list(saver.list(None, limit=2))), 2)
        saver.delete_thread("t")
        self.assertIsNone(saver.get_tuple(older))


if __name__ == "__main__":
    unittest.main()
