"""A checkpointer of LangGraph that is stored in quipu: one context per thread.

    from quipu.langgraph import QuipuSaver
    graph = builder.compile(checkpointer=QuipuSaver(Client()))

A checkpoint and the writes of a task are a message each; values are kept as the typed bytes that the
serializer of LangGraph makes. The newest messages are read first, so the usual question, for the
newest checkpoint, reads the last two runs and not the whole thread. LangGraph saves in the background:
the writes of a task may be stored before their checkpoint, but never before the run began.
"""

import asyncio
import base64
import uuid

from . import Client, Context, QuipuError

try:
    from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple
except ImportError:  # the adapter works with every object that has dumps_typed and loads_typed
    from collections import namedtuple

    CheckpointTuple = namedtuple("CheckpointTuple", "config checkpoint metadata parent_config pending_writes")

    class BaseCheckpointSaver:
        def __init__(self, *, serde=None):
            self.serde = serde


_SPACE = uuid.UUID("0f9a3a55-6a35-5a0e-bb07-8f8f9d6c2b11")
_SPECIAL = {"__error__": -1, "__scheduled__": -2, "__interrupt__": -3, "__resume__": -4}


class QuipuSaver(BaseCheckpointSaver):
    def __init__(self, client=None, *, serde=None):
        super().__init__(serde=serde)
        self.client = client or Client()

    # ---- messages ----

    def _context(self, thread):
        return Context(self.client, str(uuid.uuid5(_SPACE, thread)))

    def _pack(self, value):
        kind, data = self.serde.dumps_typed(value)
        return [kind, base64.b64encode(data).decode()]

    def _unpack(self, packed):
        return self.serde.loads_typed((packed[0], base64.b64decode(packed[1])))

    def _append(self, thread, text, record):
        context = self._context(thread)
        message = {"role": "system", "text": text, "metadata": {"langgraph": record}}
        try:
            context.append(message)
        except QuipuError as error:
            if error.status != 404:
                raise
            try:
                self.client.create(id=context.id, title=f"LangGraph thread {thread}")
            except QuipuError as twice:
                if twice.status != 409:
                    raise
            context.append(message)

    def _records(self, thread):
        """All records, the newest first."""
        try:
            for message in self._context(thread).messages(order="newest"):
                record = (message.get("metadata") or {}).get("langgraph")
                if record:
                    yield record
        except QuipuError as error:
            if error.status != 404:
                raise

    # ---- writing ----

    def put(self, config, checkpoint, metadata, new_versions):
        at = config["configurable"]
        thread, space = at["thread_id"], at.get("checkpoint_ns", "")
        record = {
            "kind": "checkpoint", "ns": space, "id": checkpoint["id"], "parent": at.get("checkpoint_id"), "source": metadata.get("source"),
            "checkpoint": self._pack(checkpoint), "metadata": self._pack(metadata),
        }
        self._append(thread, f"checkpoint {checkpoint['id']}", record)
        return {"configurable": {"thread_id": thread, "checkpoint_ns": space, "checkpoint_id": checkpoint["id"]}}

    def put_writes(self, config, writes, task_id, task_path=""):
        at = config["configurable"]
        rows = [[_SPECIAL.get(channel, index), channel, self._pack(value)] for index, (channel, value) in enumerate(writes)]
        record = {"kind": "writes", "ns": at.get("checkpoint_ns", ""), "id": at["checkpoint_id"], "task": task_id, "path": task_path, "writes": rows}
        self._append(at["thread_id"], f"writes of {task_id}", record)

    # ---- reading ----

    def _tuple(self, thread, record, writes):
        space = record["ns"]
        place = lambda id: {"configurable": {"thread_id": thread, "checkpoint_ns": space, "checkpoint_id": id}}
        rows = {}
        for one in reversed(writes):  # oldest first: the first write wins, a special one is replaced
            if (one["ns"], one["id"]) == (space, record["id"]):
                for index, channel, value in one["writes"]:
                    key = (one["path"], one["task"], index)
                    if index < 0 or key not in rows:
                        rows[key] = (one["task"], channel, self._unpack(value))
        pending = [rows[key] for key in sorted(rows)]
        parent = place(record["parent"]) if record["parent"] else None
        return CheckpointTuple(place(record["id"]), self._unpack(record["checkpoint"]), self._unpack(record["metadata"]), parent, pending)

    def get_tuple(self, config):
        at = config["configurable"]
        wanted, space, writes = at.get("checkpoint_id"), at.get("checkpoint_ns", ""), []
        found, begins = None, 0
        for record in self._records(at["thread_id"]):
            if record["ns"] != space:
                continue
            if record["kind"] == "writes":
                writes.append(record)
            elif not found and wanted not in (None, record["id"]):
                continue
            else:
                found = found or record
                begins += record["source"] != "loop"  # a run begins with this checkpoint
                if begins == 2:
                    break  # it is the run before: see the comment at the top
        return self._tuple(at["thread_id"], found, writes) if found else None

    def list(self, config, *, filter=None, before=None, limit=None):
        threads = [config["configurable"]["thread_id"]] if config else self._threads()
        last = before["configurable"].get("checkpoint_id") if before else None
        found = []
        for thread in threads:
            records = [*self._records(thread)]
            writes = [record for record in records if record["kind"] == "writes"]
            for record in records:
                at = config["configurable"] if config else {}
                if record["kind"] == "writes":
                    continue
                if "checkpoint_ns" in at and record["ns"] != at["checkpoint_ns"]:
                    continue
                if at.get("checkpoint_id") not in (None, record["id"]) or (last and record["id"] >= last):
                    continue
                one = self._tuple(thread, record, writes)
                if all(one.metadata.get(key) == value for key, value in (filter or {}).items()):
                    found.append(one)
        found.sort(key=lambda one: one.config["configurable"]["checkpoint_id"], reverse=True)
        yield from found if limit is None else found[:limit]

    def _threads(self):
        head = "LangGraph thread "
        return [one["title"][len(head) :] for one in self.client.contexts() if (one.get("title") or "").startswith(head)]

    def delete_thread(self, thread_id):
        try:
            self._context(thread_id).delete()
        except QuipuError as error:
            if error.status != 404:
                raise

    # ---- asyncio ----

    async def aput(self, *args):
        return await asyncio.to_thread(self.put, *args)

    async def aput_writes(self, *args):
        return await asyncio.to_thread(self.put_writes, *args)

    async def aget_tuple(self, config):
        return await asyncio.to_thread(self.get_tuple, config)

    async def alist(self, config, **more):
        for one in await asyncio.to_thread(lambda: list(self.list(config, **more))):
            yield one

    async def adelete_thread(self, thread_id):
        await asyncio.to_thread(self.delete_thread, thread_id)
