"""A Session of the OpenAI Agents SDK that is stored in quipu: one context per session.

    from quipu import Client
    from quipu.agents import QuipuSession
    result = await Runner.run(agent, "Hello", session=QuipuSession("user-17", Client()))

Each item is a message with the item itself in its metadata, so every item comes back as it was, and
the session can be read, searched and continued like every other conversation.
"""

import asyncio
import json
import uuid

from . import Client, Context, QuipuError

_BATCH = 50
_SPACE = uuid.UUID("6f2d1c3e-9d1b-5b5e-8f43-71c7a5b0d7aa")


def _message(item):
    """How an item is shown elsewhere."""
    message = {"metadata": {"item": item}}
    kind = item.get("type", "message")
    if kind == "function_call":
        call = {"id": item["call_id"], "type": "function", "function": {"name": item["name"], "arguments": item["arguments"]}}
        return {"role": "assistant", "tool_calls": [call], **message}
    if kind == "function_call_output":
        output = item["output"]
        return {"role": "tool", "tool_call_id": item["call_id"], "content": output if isinstance(output, str) else json.dumps(output), **message}
    content = item.get("content")
    if isinstance(content, list):
        content = "\n".join(part.get("text") or f"[{part.get('type', 'part')}]" for part in content)
    role = item.get("role", "assistant")
    return {"role": "system" if role == "developer" else role, "text": content or f"[{kind}]", **message}


class QuipuSession:
    session_settings = None

    def __init__(self, session_id, client=None):
        self.session_id = session_id
        self.client = client or Client()
        self.context = Context(self.client, str(uuid.uuid5(_SPACE, session_id)))

    def _create(self):
        try:
            self.client.create(id=self.context.id, title=self.session_id)
        except QuipuError as error:
            if error.status != 409:
                raise

    def _get(self, limit):
        order = "oldest" if limit is None else "newest"
        items = []
        try:
            for message in self.context.messages(order=order, limit=100 if limit is None else max(1, min(limit, 100))):
                if limit is not None and len(items) >= limit:
                    break
                item = (message.get("metadata") or {}).get("item")
                items.append((message, item if item is not None else {"role": message["role"], "content": message["text"]}))
        except QuipuError as error:
            if error.status != 404:
                raise
        return items if limit is None else items[::-1]

    def _add(self, items):
        self._create()
        for start in range(0, len(items), _BATCH):
            self.context.append([_message(item) for item in items[start : start + _BATCH]])

    def _pop(self):
        last = self._get(1)
        if not last:
            return None
        message, item = last[0]
        kind = "fc" if message["tool_calls"] else "fco" if message["tool_result"] else "msg"
        digits = self.context.id.replace("-", ""), message["id"].replace("-", "")
        self.client.request("DELETE", f"/openai/v1/conversations/conv_{digits[0]}/items/{kind}_{digits[1]}")
        return item

    def _clear(self):
        try:
            self.context.delete()
        except QuipuError as error:
            if error.status != 404:
                raise

    async def get_items(self, limit=None):
        return [item for _, item in await asyncio.to_thread(self._get, limit)]

    async def add_items(self, items):
        if items:
            await asyncio.to_thread(self._add, list(items))

    async def pop_item(self):
        return await asyncio.to_thread(self._pop)

    async def clear_session(self):
        await asyncio.to_thread(self._clear)
