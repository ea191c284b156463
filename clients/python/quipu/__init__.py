"""A client of a quipu server: conversations that are stored, and the turns that run in them.

Only the standard library is used. ``Client`` waits, ``AsyncClient`` has the same methods for asyncio.

    from quipu import Client
    chat = Client("http://127.0.0.1:7878").create(title="Knots")
    print(chat.send("How many knots?").text)
"""

import asyncio
import functools
import json
import queue
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
import uuid

__all__ = ["Answer", "AsyncClient", "AsyncContext", "Client", "Context", "QuipuError"]

_RETRIES = 3
_PAUSE = 0.2


class QuipuError(Exception):
    """A request that the server has refused. ``code`` and ``status`` are in docs/errors.md."""

    def __init__(self, status, code, message, state=None):
        super().__init__(message)
        self.status, self.code, self.state = status, code, state


def _error(answer):
    text = answer.read().decode("utf-8", "replace")
    try:
        error = json.loads(text)["error"]
        return QuipuError(answer.status, error["code"], error["message"], error.get("state"))
    except (ValueError, KeyError, TypeError):
        return QuipuError(answer.status, "HTTP", text or f"HTTP status {answer.status}")


def _events(answer):
    """The events of a stream of server-sent events."""
    data = []
    with answer:
        for line in answer:
            line = line.decode("utf-8").rstrip("\r\n")
            if line.startswith("data:"):
                data.append(line[5:].lstrip(" "))
            elif not line and data:
                yield json.loads("\n".join(data))
                data = []


class Answer(dict):
    """The state of a context after an action: ``state``, ``messages`` of the turn and so on."""

    @property
    def text(self):
        """The text of the last answer of the model."""
        said = [m for m in self["messages"] if m["role"] == "assistant"]
        return said[-1]["text"] if said else ""

    @property
    def calls(self):
        """The calls that wait: for a person, or with ``"kind": "client"`` for their results."""
        return (self.get("state_detail") or {}).get("pending") or self.get("pending_tool_calls") or []


class Client:
    """A server. Requests that were lost on the way are sent again; each is executed once."""

    def __init__(self, url="http://127.0.0.1:7878", key=None, timeout=600):
        self.url, self.key, self.timeout = url.rstrip("/"), key, timeout
        # A server on this machine is asked without a proxy.
        host = urllib.parse.urlsplit(self.url).hostname or ""
        local = host == "localhost" or host.startswith("127.") or host == "::1"
        self._opener = urllib.request.build_opener(*([urllib.request.ProxyHandler({})] if local else []))

    def _open(self, method, path, body, headers):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data=data, method=method)
        for name, value in headers.items():
            request.add_header(name, value)
        if data is not None:
            request.add_header("Content-Type", "application/json")
        if self.key:
            request.add_header("Authorization", f"Bearer {self.key}")
        try:
            return self._opener.open(request, timeout=self.timeout)
        except urllib.error.HTTPError as error:
            raise _error(error) from None

    def open(self, method, path, body=None, query=None, headers=None):
        """Sends a request and returns the open response."""
        headers = dict(headers or {})
        if method != "GET":
            headers.setdefault("Idempotency-Key", str(uuid.uuid4()))
        given = {name: value for name, value in (query or {}).items() if value is not None}
        if given:
            path += "?" + urllib.parse.urlencode(given)
        for attempt in range(_RETRIES + 1):
            try:
                return self._open(method, path, body, headers)
            except (QuipuError, OSError) as error:
                status = getattr(error, "status", 503)
                if attempt == _RETRIES or status != 503 or getattr(error, "code", "") == "NO_ENGINE":
                    raise
                time.sleep(_PAUSE * 2**attempt)
        raise AssertionError("unreachable")

    def request(self, method, path, body=None, query=None, headers=None):
        """Sends a request and returns the decoded body, None when there is none."""
        with self.open(method, path, body, query, headers) as answer:
            text = answer.read()
        return json.loads(text) if text else None

    def create(self, **fields):
        """Makes a context: ``title``, ``model_id``, ``system_prompt_id``, ``tools``, ``id`` …"""
        return Context(self, self.request("POST", "/v1/contexts", fields)["id"])

    def context(self, id):
        """A context by its id; nothing is asked."""
        return Context(self, id)

    def contexts(self, limit=None):
        """Visits all contexts, the newest first."""
        cursor = None
        while True:
            page = self.request("GET", "/v1/contexts", query={"limit": limit, "cursor": cursor})
            yield from page["contexts"]
            cursor = page.get("next_cursor")
            if not cursor:
                return

    def search(self, text, limit=20):
        return self.request("GET", "/v1/search", query={"q": text, "limit": limit})

    def models(self):
        return self.request("GET", "/v1/models")["models"]


class Context:
    """A conversation."""

    def __init__(self, client, id):
        self.client, self.id = client, id
        self._path = f"/v1/contexts/{urllib.parse.quote(id)}"

    def info(self):
        return self.client.request("GET", self._path)

    def state(self, last=None):
        return Answer(self.client.request("GET", f"{self._path}/state", query={"last": last}))

    def update(self, **fields):
        return self.client.request("PATCH", self._path, fields)

    def delete(self):
        self.client.request("DELETE", self._path)

    def messages(self, branch=None, limit=100, order="oldest"):
        """Visits the messages of a branch."""
        cursor = None
        while True:
            query = {"branch": branch, "limit": limit, "order": order, "cursor": cursor}
            page = self.client.request("GET", f"{self._path}/messages", query=query)
            yield from page["messages"]
            cursor = page.get("next_cursor")
            if not cursor:
                return

    def append(self, message, branch=None):
        """Stores a message as it is, or a list of them at once; no model is called."""
        return self.client.request("POST", f"{self._path}/messages", message, {"branch": branch})

    def branches(self):
        return self.client.request("GET", f"{self._path}/branches")["branches"]

    def fork(self, name, at=None, source=None):
        body = {"name": name, **({"at": at} if at else {}), **({"from": source} if source else {})}
        return self.client.request("POST", f"{self._path}/branches", body)

    def act(self, action, body=None, query=None, headers=None):
        """Does an action and waits until the turn stops."""
        path = f"{self._path}/actions/{action}"
        return Answer(self.client.request("POST", path, body or {}, query, headers))

    def send(self, content, tools=None, branch=None, key=None):
        """Sends a message and waits for the answer."""
        return self.act("send_message", _send(content, tools, branch), headers=_key(key))

    def stream(self, content, tools=None, branch=None, key=None):
        """Sends a message and visits the events of the turn (docs/turns.md)."""
        headers = {"Accept": "text/event-stream", **(_key(key) or {})}
        path = f"{self._path}/actions/send_message"
        yield from _events(self.client.open("POST", path, _send(content, tools, branch), headers=headers))

    def events(self, after=None):
        """Visits the events of the context, from the next one or after a number, without end."""
        headers = {"Accept": "text/event-stream"}
        yield from _events(self.client.open("GET", f"{self._path}/events", query={"after": after}, headers=headers))

    def approve(self, approved=(), denied=(), reason=None, always=False):
        body = {"approved": list(approved), "denied": list(denied), "always": always}
        return self.act("approve_tools", {**body, **({"reason": reason} if reason else {})})

    def submit(self, results):
        """Brings results of tools that this program runs: {call id: value, or an exception}."""
        rows = []
        for call, value in results.items():
            kind, value = ("error", str(value)) if isinstance(value, Exception) else ("result", value)
            rows.append({"tool_call_id": call, kind: value})
        return self.act("submit_tool_results", {"results": rows})

    def run(self, content, functions, tools, branch=None):
        """Sends a message and runs the functions that the model calls, until it is done.

        ``functions``: by name, called with the arguments by keyword. ``tools``: their descriptions,
        {"name", "description", "parameters"}. Calls that wait for a person end it too.
        """
        answer = self.send(content, tools=tools, branch=branch)
        while answer["state"] == "AwaitingToolApproval":
            results = {}
            for call in answer.calls:
                if call.get("kind") == "client":
                    try:
                        results[call["id"]] = functions[call["tool_name"]](**call["arguments"])
                    except Exception as error:  # the model is told
                        results[call["id"]] = error
            if not results:
                break
            answer = self.submit(results)
        return answer

    def cancel(self):
        return self.act("cancel")

    def retry(self):
        return self.act("retry")

    def regenerate(self, message_id=None):
        return self.act("regenerate", {"message_id": message_id} if message_id else {})

    def edit(self, message_id, content):
        return self.act("edit_message", {"message_id": message_id, "content": content})

    def switch(self, branch):
        return self.act("switch_branch", {"branch": branch})


def _send(content, tools, branch):
    body = {"content": content}
    if tools is not None:
        body["tools"] = tools
    if branch is not None:
        body["branch"] = branch
    return body


def _key(key):
    return {"Idempotency-Key": key} if key else None


# ---- asyncio ----


def _later(method):
    """The same method in a thread, so that the loop goes on."""

    @functools.wraps(method)
    async def call(self, *args, **kwargs):
        result = await asyncio.to_thread(method, self._sync, *args, **kwargs)
        return AsyncContext(result) if isinstance(result, Context) else result

    return call


def _visit(method):
    """The same generator in a thread: one item at a time is handed over."""

    @functools.wraps(method)
    async def call(self, *args, **kwargs):
        loop, items, gone = asyncio.get_running_loop(), queue.Queue(1), threading.Event()
        end = object()

        def put(item):
            while not gone.is_set():
                try:
                    return items.put(item, timeout=0.2)
                except queue.Full:
                    continue

        def work():
            try:
                for item in method(self._sync, *args, **kwargs):
                    if gone.is_set():
                        return
                    put(item)
                put(end)
            except BaseException as error:  # is raised where it is awaited
                put(error)

        threading.Thread(target=work, daemon=True).start()
        try:
            while True:
                item = await loop.run_in_executor(None, items.get)
                if item is end:
                    return
                if isinstance(item, BaseException):
                    raise item
                yield item
        finally:
            gone.set()

    return call


def _twin(source, name, plain, visiting):
    members = {method: _later(getattr(source, method)) for method in plain}
    members.update({method: _visit(getattr(source, method)) for method in visiting})
    members["__doc__"] = f"The methods of {source.__name__} for asyncio."
    return type(name, (), members)


_CONTEXT = ["info", "state", "update", "delete", "append", "branches", "fork", "act", "send", "approve", "submit", "run", "cancel", "retry", "regenerate", "edit", "switch"]


class AsyncContext(_twin(Context, "_AsyncContext", _CONTEXT, ["messages", "stream", "events"])):
    def __init__(self, context):
        self._sync, self.id = context, context.id


class AsyncClient(_twin(Client, "_AsyncClient", ["request", "create", "search", "models"], ["contexts"])):
    def __init__(self, *args, **kwargs):
        self._sync = Client(*args, **kwargs)

    def context(self, id):
        return AsyncContext(self._sync.context(id))
