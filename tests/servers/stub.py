#!/usr/bin/env python3
"""One MCP server over stdio that misbehaves on demand, for tests.

    python3 stub.py OPTIONS [ignored arguments, reported by the tool `where`]

OPTIONS is a JSON object, or `@FILE` with one: nothing in a file is taken for a `$VARIABLE` by the
config that names it, and a test can rewrite it between compiling and running. Without OPTIONS the
stub is a well-behaved server with one tool, `echo`. Standard library only, Python 3.9 and newer.

What it says about itself
    tools         names, raw tool objects, or JSON texts ("{…}") that are sent exactly as written;
                  "all" is one tool for each behaviour
    does          {tool: behaviour}, {tool: {"do": behaviour, …default arguments}}, or {tool:
                  [steps]}, which echoes after them; other tools do what their name says, or echo
    needs         {tool: client capability}: listed after `initialized`, to a client that has it
    instructions, capabilities, server_info   as in the initialize result
    page          tools a page; `cursors` names the cursors in order (default: "1", "2", …)
    endless       a value that every page of tools gives as nextCursor
    answers       {method: {"result": …} | {"error": …} | JSON text of a result | null: no answer}

How it negotiates
    version       the protocol version it answers (default: the one asked for)
    newest        the newest version that it knows; a newer one is refused as `refuse` says:
                  "error" (default), "exit", "hang" or "answer" (with `newest`)
    strict        "error": requests before `initialized` fail; "exit": exits 1 unless `initialize`
                  comes first

How it writes
    envelope      order and spacing of a response: a key of ENVELOPES ("python" is the default)
    newline       what ends a line; chunk: bytes a write; duplicate: every response twice
    reorder       holds back N responses to calls, then sends them, last one first
    batch         every response is wrapped in an array, after a log notification
    ask_id        the id of its first own request (default 0)

How it runs
    log           a file that gets a JSON line for each event: {"pid", "event": "start" | "line" |
                  "spawn" | "eof", "line": text received, "child": pid spawned}
    sigterm       "ignore"
    serial        true: no call runs beside another
    at            {moment: [steps]}, run by the thread that reads: no input is read meanwhile.
                  Moments: "start", "eof", "unknown" (method), each received method ("tools/list",
                  "notifications/cancelled"), "call TOOL", and "after METHOD", when it is answered

A step is an object with one key of STEPS, and
    times, every  how often, and the seconds between
    once          a path: only the first time, over all processes
    if_file       a path: only if it exists
    fill          repeats the text of `stdout` and `stderr` to so many characters

Behaviours, and the arguments that they know
    echo, raw     the arguments as JSON text; the line as received
    env           the variable `name`, isError if unset; without `name` all of them, as JSON text
    where, count  cwd, argv, fds and process ids, as JSON text; calls received by this process
    sleep         answers after `seconds`, unless cancelled before
    late          waits to be cancelled, then answers after `seconds` all the same (as error does,
                  if there is a `code`)
    progress      `count` notifications, `every` seconds, then the answer
    ask           sends the client the request `method` with `params`; its whole answer as JSON text
    steps         runs `steps`, then echoes
    die           writes `stderr`, then `exit`s with a status or dies of `signal` (9)
    error         fails with the arguments as the error object, or with the JSON text `json`
    raw_result    the JSON text `json` as the result; raw_line: the whole `line`, ID being the id
    big           `bytes` bytes of text
    stop_reading  answers, and reads nothing more
    spawn         starts a grandchild that ignores EOF and SIGTERM, and answers its process id
    grow, shrink  adds the tool `name`, removes the last one; both tell the client
"""

from __future__ import annotations

import json
import os
import sys
import time
from _thread import allocate_lock, start_new_thread

TYPE_CHECKING = False  # `typing` costs more to import than everything else here
if TYPE_CHECKING:
    from _thread import LockType
    from collections.abc import Callable
    from typing import Any

    Json = dict[str, Any]

FOREVER = 3600.0
INVALID_PARAMS = -32602
METHOD_NOT_FOUND = -32601
TOOLS_CHANGED = "notifications/tools/list_changed"

ENVELOPES = {
    "python": '{"jsonrpc":"2.0","id":%(id)s,"%(kind)s":%(body)s}',
    "typescript": '{"%(kind)s":%(body)s,"jsonrpc":"2.0","id":%(id)s}',
    "id first": '{"id":%(id)s,"jsonrpc":"2.0","%(kind)s":%(body)s}',
    "spaced": '{ "jsonrpc" : "2.0", "id" : %(id)s, "%(kind)s" : %(body)s, "vendor" : {"id": 0} }',
    "bare": '{"id":%(id)s,"%(kind)s":%(body)s}',
}


def dumps(value: object) -> str:
    """Compact JSON."""
    return json.dumps(value, separators=(",", ":"))


def write_all(fd: int, data: bytes) -> None:
    """Write all of `data`, however long the reader takes; a reader that is gone is no error."""
    view = memoryview(data)
    try:
        while view:
            view = view[os.write(fd, view) :]
    except OSError:
        pass


def filled(text: str, step: Json) -> str:
    """The text of a step, repeated to the number of characters that `fill` asks for."""
    length = step.get("fill", len(text))
    return (text * (length // len(text) + 1))[:length] if text else text


def described(tool: Json | str) -> str:
    """The JSON text of a tool that is given by its name, as an object, or as a JSON text."""
    if isinstance(tool, str):
        bare = {"name": tool, "description": f"Does {tool}.", "inputSchema": {"type": "object"}}
        return tool if tool.startswith("{") else dumps(bare)
    return dumps(tool)


class Call:
    """One `tools/call`; the lock `cancelled` can be acquired once the client has withdrawn it."""

    def __init__(self, message: Json, line: str, defaults: Json) -> None:
        params = message.get("params") or {}
        self.id = message["id"]
        self.line = line
        self.given = params.get("arguments")
        self.arguments: Json = {**defaults, **(self.given or {})}
        self.token = (params.get("_meta") or {}).get("progressToken")
        self.cancelled = allocate_lock()
        self.cancelled.acquire()


class Stub:
    """The server: reads lines, runs the steps of the moment, answers."""

    def __init__(self, options: Json) -> None:
        self.options = options
        self.reading = True
        self.calls = 0
        self.ready = False  # `initialized` was received
        self.client: Json | None = None  # the client's capabilities, once it has said hello
        self.next_ask = options.get("ask_id", 0)
        self.open: dict[str, Call] = {}  # by the JSON text of their id
        self.asked: dict[str, tuple[LockType, Json]] = {}
        self.held: list[str] = []
        self.writing = allocate_lock()
        self.tools: list[str] = []
        self.set_tools(options.get("tools", ["echo"]))

    # What it writes

    def write(self, line: str) -> None:
        """Send one line."""
        data = (line + self.options.get("newline", "\n")).encode("utf-8", "surrogatepass")
        size = self.options.get("chunk", len(data))
        with self.writing:
            for start in range(0, len(data), size):
                write_all(1, data[start : start + size])

    def notify(self, method: str, params: Json | None = None, **request: int) -> None:
        """Send a notification, or with an `id` a request."""
        extra = {} if params is None else {"params": params}
        self.write(dumps({"jsonrpc": "2.0", **request, "method": method, **extra}))

    def ask(self, method: str, params: Json | None = None) -> tuple[LockType, Json]:
        """Send a request; the lock can be acquired once the answer is in the object."""
        pending: tuple[LockType, Json] = (allocate_lock(), {})
        pending[0].acquire()
        self.asked[dumps(self.next_ask)] = pending
        self.next_ask += 1
        self.notify(method, params, id=self.next_ask - 1)
        return pending

    def reply(self, request_id: object, kind: str, body: str) -> None:
        """Send the JSON text `body` as the `result` or `error` of a request."""
        shape = ENVELOPES[self.options.get("envelope", "python")]
        line = shape % {"id": dumps(request_id), "kind": kind, "body": body}
        if self.options.get("batch"):
            line = f'[{{"jsonrpc":"2.0","method":"notifications/message","params":{{}}}},{line}]'
        if dumps(request_id) in self.open and "reorder" in self.options:
            self.held.append(line)
            if len(self.held) < self.options["reorder"]:
                return
            lines, self.held = self.held[::-1], []
        else:
            lines = [line]
        for each in lines * (2 if self.options.get("duplicate") else 1):
            self.write(each)

    def fail(self, request_id: object, code: int, message: str, data: object = None) -> None:
        """Answer with an error."""
        extra = {} if data is None else {"data": data}
        self.reply(request_id, "error", dumps({"code": code, "message": message, **extra}))

    def log(self, event: str, **more: object) -> None:
        """Note an event in the file that the test reads."""
        if "log" in self.options:
            fd = os.open(self.options["log"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            write_all(fd, f"{dumps({'pid': os.getpid(), 'event': event, **more})}\n".encode())
            os.close(fd)

    # What it reads

    def run(self) -> None:
        """Serve until the end of input."""
        self.log("start")
        self.at("start")
        for line in iter(sys.stdin.buffer.readline, b""):
            text = line.decode("utf-8", "backslashreplace").rstrip("\r\n")
            self.log("line", line=text)
            self.receive(text)
            while not self.reading:
                time.sleep(FOREVER)
        self.log("eof")
        self.at("eof")

    def receive(self, line: str) -> None:
        """Handle one line of input."""
        try:
            message = json.loads(line)
        except ValueError:
            return
        if not isinstance(message, dict):
            return
        method = message.get("method")
        if method is None:
            arrived, answer = self.asked.pop(dumps(message.get("id")), (None, {}))
            answer.update(message)
            if arrived:
                arrived.release()
            return
        if method == "initialize":
            self.client = (message.get("params") or {}).get("capabilities") or {}
        if self.client is None and self.options.get("strict") == "exit":
            os._exit(1)
        self.at(method)
        if "id" in message:
            self.answer(method, message, line)
        elif method == "notifications/initialized":
            self.initialized()
        elif method == "notifications/cancelled":
            call = self.open.pop(dumps((message.get("params") or {}).get("requestId")), None)
            if call:
                call.cancelled.release()
        self.at(f"after {method}")

    def answer(self, method: str, message: Json, line: str) -> None:
        """Answer a request as the options say, or as a server should."""
        canned = self.options.get("answers", {})
        if method in canned:
            answer = canned[method]
            if isinstance(answer, str):
                self.reply(message["id"], "result", answer)
            elif answer is not None:
                ((kind, body),) = answer.items()
                self.reply(message["id"], kind, dumps(body))
        elif self.options.get("strict") and not self.ready and method not in ("initialize", "ping"):
            self.fail(message["id"], INVALID_PARAMS, "Not initialized")
        elif method == "initialize":
            self.initialize(message["id"], message.get("params") or {})
        elif method == "ping":
            self.reply(message["id"], "result", "{}")
        elif method == "tools/list":
            self.list_tools(message["id"], message.get("params") or {})
        elif method == "tools/call":
            self.call(message, line)
        else:
            self.at("unknown")
            self.fail(message["id"], METHOD_NOT_FOUND, "Method not found", method)

    def initialize(self, request_id: object, params: Json) -> None:
        """Shake hands, or refuse a version that is too new."""
        options = self.options
        version = params.get("protocolVersion", "")
        if version > options.get("newest", version):
            how = options.get("refuse", "error")
            if how == "exit":
                os._exit(1)
            if how == "error":
                data = {"supported": [options["newest"]], "requested": version}
                self.fail(request_id, INVALID_PARAMS, "Unsupported protocol version", data)
            if how != "answer":
                return
            version = options["newest"]
        result = {
            "protocolVersion": options.get("version", version),
            "capabilities": options.get("capabilities", {"tools": {"listChanged": True}}),
            "serverInfo": options.get("server_info", {"name": "stub", "version": "1"}),
        }
        if "instructions" in options:
            result["instructions"] = options["instructions"]
        self.reply(request_id, "result", dumps(result))

    def initialized(self) -> None:
        """Show the tools that this client is able to use, as server-everything does."""
        self.ready = True
        if set(self.client or ()) & set(self.options.get("needs", {}).values()):
            self.notify(TOOLS_CHANGED)

    # Tools

    def set_tools(self, tools: Any) -> None:
        """Take a new list of tools: names, objects and JSON texts."""
        self.tools = [described(tool) for tool in (BEHAVIOURS if tools == "all" else tools)]

    def listed(self) -> list[tuple[str, str]]:
        """The name and JSON text of each tool that the client may see now."""
        needs = self.options.get("needs", {})
        shown = set(self.client or ()) if self.ready else set()
        named = [(str(json.loads(text).get("name")), text) for text in self.tools]
        return [(name, text) for name, text in named if needs.get(name) in {None, *shown}]

    def list_tools(self, request_id: object, params: Json) -> None:
        """Answer `tools/list`, in pages if asked for."""
        texts = [text for _, text in self.listed()]
        size = self.options.get("page") or max(len(texts), 1)
        last = max(0, (len(texts) - 1) // size)
        cursors = self.options.get("cursors") or [str(page) for page in range(1, last + 1)]
        cursor = params.get("cursor")
        if "endless" in self.options:
            page, after = 0, self.options["endless"]
        elif cursor is not None and cursor not in cursors:
            return self.fail(request_id, INVALID_PARAMS, "Unknown cursor")
        else:
            page = 0 if cursor is None else cursors.index(cursor) + 1
            after = cursors[page] if page < len(cursors) else None
        body = f'"tools":[{",".join(texts[page * size : (page + 1) * size])}]'
        if after is not None or "endless" in self.options:
            body += f',"nextCursor":{dumps(after)}'
        return self.reply(request_id, "result", f"{{{body}}}")

    def call(self, message: Json, line: str) -> None:
        """Answer `tools/call`, in a thread of its own if it takes time."""
        self.calls += 1
        name = (message.get("params") or {}).get("name")
        self.at(f"call {name}")
        if name not in dict(self.listed()):
            return self.fail(message["id"], INVALID_PARAMS, f"Unknown tool: {name}")
        does = self.options.get("does", {}).get(name, name)
        if isinstance(does, list):
            does = {"do": "steps", "steps": does}
        defaults = dict(does) if isinstance(does, dict) else {"do": does}
        behaviour = defaults.pop("do")
        call = self.open[dumps(message["id"])] = Call(message, line, defaults)
        if behaviour in SLOW and not self.options.get("serial"):
            start_new_thread(self.work, (call, behaviour))
        else:
            self.work(call, behaviour)
        return None

    def work(self, call: Call, behaviour: str) -> None:
        """Work on one call and answer it."""
        result = BEHAVIOURS.get(behaviour, BEHAVIOURS["echo"])(self, call)
        if isinstance(result, str):
            result = {"content": [{"type": "text", "text": result}]}
        if result is not None:
            self.reply(call.id, "result", dumps(result))
        self.open.pop(dumps(call.id), None)

    # Steps

    def at(self, moment: str) -> None:
        """Run the steps that the options have for a moment."""
        self.perform(self.options.get("at", {}).get(moment, ()))

    def perform(self, steps: Any) -> None:
        """Run steps, one after another."""
        for step in steps:
            if "if_file" in step and not os.path.exists(step["if_file"]):
                continue
            if "once" in step:
                try:
                    os.close(os.open(step["once"], os.O_CREAT | os.O_EXCL))
                except FileExistsError:
                    continue
            (name,) = (key for key in step if key in STEPS)
            for turn in range(step.get("times", 1)):
                if turn:
                    time.sleep(step.get("every", 0))
                STEPS[name](self, step[name], step)

    def ask_step(self, method: str, step: Json) -> None:
        """Send a request; with `within`, exit 9 unless a result comes in so many seconds."""
        arrived, answer = self.ask(method, step.get("params"))
        if "within" in step:
            arrived.acquire(timeout=step["within"])
            if "result" not in answer:
                os._exit(9)

    def spawn(self) -> int:
        """Start a process in our group that keeps our pipes open and ignores EOF and SIGTERM."""
        import subprocess

        argv = ["/bin/sh", "-c", "trap '' TERM; exec sleep 600"]
        if sys.platform == "win32":
            argv = [sys.executable, "-I", "-S", "-c", "import time; time.sleep(600)"]
            argv.append(self.options.get("log", ""))  # so that a test finds it
        pid = subprocess.Popen(argv, close_fds=False).pid
        self.log("spawn", child=pid)
        return pid

    def drain(self) -> None:
        """Wait until no call is being worked on."""
        while self.open:
            time.sleep(0.005)


def wait_for_file(path: str) -> None:
    """Wait until a file is there."""
    while not os.path.exists(path):
        time.sleep(0.01)


# Each is called with the stub, the value of its key, and the whole step.
STEPS: dict[str, Callable[[Stub, Any, Json], object]] = {
    "sleep": lambda stub, seconds, step: time.sleep(seconds),
    "hang": lambda stub, _, step: time.sleep(FOREVER),
    "exit": lambda stub, status, step: os._exit(status),
    "kill": lambda stub, number, step: os.kill(os.getpid(), number),
    "close": lambda stub, fd, step: os.close(fd),
    "stdout": lambda stub, text, step: write_all(1, filled(text, step).encode()),
    "bytes": lambda stub, text, step: write_all(1, text.encode("latin-1")),  # "\u00ff" is byte FF
    "stderr": lambda stub, text, step: write_all(2, filled(text, step).encode()),
    "send": lambda stub, message, step: stub.write(dumps(message)),
    "notify": lambda stub, method, step: stub.notify(method, step.get("params")),
    "ask": lambda stub, method, step: stub.ask_step(method, step),
    "tools": lambda stub, tools, step: stub.set_tools(tools),
    "spawn": lambda stub, _, step: stub.spawn(),
    "wait_file": lambda stub, path, step: wait_for_file(path),
    "drain": lambda stub, _, step: stub.drain(),
    "background": lambda stub, steps, step: start_new_thread(stub.perform, (steps,)),
}


# Behaviours of tools: what a call answers. A text becomes a result; None sends nothing.


def sleep(stub: Stub, call: Call) -> str | None:
    seconds = call.arguments.get("seconds", FOREVER)
    return None if call.cancelled.acquire(timeout=seconds) else f"slept {seconds} s"


def late(stub: Stub, call: Call) -> str | None:
    call.cancelled.acquire()
    time.sleep(call.arguments.get("seconds", 0))
    if "code" not in call.arguments:
        return "too late"
    error(stub, call)
    return None


def env(stub: Stub, call: Call) -> Json | str:
    if "name" not in call.arguments:
        return dumps(dict(os.environ))
    value = os.environ.get(call.arguments["name"])
    return {"content": [], "isError": True} if value is None else value


def die(stub: Stub, call: Call) -> None:
    write_all(2, str(call.arguments.get("stderr", "")).encode())
    if "exit" in call.arguments:
        os._exit(call.arguments["exit"])
    os.kill(os.getpid(), call.arguments.get("signal", 9))


def error(stub: Stub, call: Call) -> None:
    stub.reply(call.id, "error", call.arguments.get("json", dumps(call.arguments)))


def progress(stub: Stub, call: Call) -> str:
    count = call.arguments.get("count", 3)
    for step in range(1, count + 1):
        params = {"progressToken": call.token, "progress": step, "total": count}
        stub.notify("notifications/progress", params)
        time.sleep(call.arguments.get("every", 0))
    return f"{count} steps"


def ask(stub: Stub, call: Call) -> str:
    arrived, answer = stub.ask(call.arguments.get("method", "ping"), call.arguments.get("params"))
    arrived.acquire()
    return dumps(answer)


def steps(stub: Stub, call: Call) -> str:
    stub.perform(call.arguments["steps"])
    return dumps(call.given)


def stop_reading(stub: Stub, call: Call) -> str:
    stub.reading = False
    return "deaf"


def where(stub: Stub, call: Call) -> str:
    about = {"cwd": os.getcwd(), "argv": sys.argv[1:], "pid": os.getpid(), "ppid": os.getppid()}
    if sys.platform != "win32":
        links = {fd: f"/dev/fd/{fd}" for fd in os.listdir("/dev/fd")}
        fds = {fd: os.path.realpath(link) for fd, link in links.items() if os.path.exists(link)}
        about |= {"fds": fds, "pgid": os.getpgid(0), "sid": os.getsid(0)}
    return dumps(about)


def grow(stub: Stub, call: Call) -> str:
    stub.tools.append(described(call.arguments.get("name", "grown")))
    stub.notify(TOOLS_CHANGED)
    return f"{len(stub.tools)} tools"


def shrink(stub: Stub, call: Call) -> str:
    stub.tools.pop()
    stub.notify(TOOLS_CHANGED)
    return f"{len(stub.tools)} tools"


if TYPE_CHECKING:
    Behaviour = Callable[[Stub, Call], "Json | str | None"]

BEHAVIOURS: dict[str, Behaviour] = {
    "echo": lambda stub, call: dumps(call.given),
    "raw": lambda stub, call: call.line,
    "big": lambda stub, call: "x" * call.arguments["bytes"],
    "count": lambda stub, call: str(stub.calls),
    "spawn": lambda stub, call: str(stub.spawn()),
    "raw_result": lambda stub, call: stub.reply(call.id, "result", call.arguments["json"]),
    "raw_line": lambda stub, call: stub.write(call.arguments["line"].replace("ID", dumps(call.id))),
    **{tool.__name__: tool for tool in (env, where, sleep, late, progress, ask, steps)},
    **{tool.__name__: tool for tool in (die, error, stop_reading, grow, shrink)},
}
SLOW = {"sleep", "late", "progress", "ask", "steps"}  # others must go on beside them


def main(kind: type[Stub] = Stub) -> None:
    """Read the options and serve."""
    given = sys.argv[1] if sys.argv[1:] else "{}"
    if given.startswith("@"):
        with open(given[1:], encoding="utf-8") as file:
            given = file.read()
    options = json.loads(given)
    if hasattr(sys, "set_int_max_str_digits"):
        sys.set_int_max_str_digits(0)  # JSON numbers have no limit
    if options.get("sigterm") == "ignore":
        import signal

        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    kind(options).run()


if __name__ == "__main__":
    main()
