"""Package registries on loopback: npm and PyPI, with packages that a test publishes.

They speak as much of their protocols as npm, uv and pip ask for:
https://github.com/npm/registry/blob/main/docs/REGISTRY-API.md, and the simple index of PEP 503.
What is published is made of texts, so that the same texts are the same bytes.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import json
import os
import sys
import tarfile
import threading
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from wire import TIMEOUT

from mcpagg_runtime.frozen.pypi import hash_text
from mcpagg_runtime.frozen.table import NpmPackage, NpmTree, PypiPackage, PypiTree

JSON, HTML, BYTES = "application/json", "text/html", "application/octet-stream"

Answer = tuple[str, bytes]
"""The type of its content, and that."""


class Registry:
    """A server of files by their paths; what is asked for is written down."""

    def __init__(self) -> None:
        self.requests: list[str] = []
        """The paths that were asked for."""
        self.is_off = False
        """Whether every request is refused."""
        self.held = ""
        """A path whose answer waits until `release`."""
        self.asked_for_held = threading.Event()
        self.release = threading.Event()
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                path = unquote(self.path)
                registry.requests.append(path)
                if path == registry.held:
                    registry.asked_for_held.set()
                    registry.release.wait(TIMEOUT)
                found = None if registry.is_off else registry.answer(path)
                kind, content = found or (JSON, b"{}")
                self.send_response(503 if registry.is_off else 404 if found is None else 200)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                with suppress(OSError):  # who asked is gone
                    self.wfile.write(content)

            def do_HEAD(self) -> None:
                self.send_response(405)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def answer(self, path: str) -> Answer | None:
        """Return what there is at a path, None for nothing."""
        raise NotImplementedError

    def close(self) -> None:
        """Serve no more."""
        self.release.set()
        self._server.shutdown()
        self._server.server_close()


class NpmRegistry(Registry):
    """A registry of npm."""

    def __init__(self) -> None:
        self._manifests: dict[str, dict[str, dict[str, Any]]] = {}
        self._archives: dict[str, bytes] = {}
        super().__init__()

    def publish(self, name: str, version: str, files: Mapping[str, str], **manifest: Any) -> None:
        """Publish a version of a package, or replace its bytes."""
        manifest = {"name": name, "version": version, **manifest}
        archive = _tar({"package.json": json.dumps(manifest), **files})
        path = f"/{name}/-/{name.rpartition('/')[2]}-{version}.tgz"
        digest = base64.b64encode(hashlib.sha512(archive).digest()).decode()
        dist = {"tarball": self.url + path, "integrity": f"sha512-{digest}"}
        self._archives[path] = archive
        self._manifests.setdefault(name, {})[version] = {**manifest, "dist": dist}

    def withdraw(self, name: str, version: str) -> None:
        """Have a version no more."""
        del self._manifests[name][version]
        if not self._manifests[name]:
            del self._manifests[name]

    def integrity(self, name: str, version: str) -> str:
        """Return what a lock says of the bytes of a version."""
        return str(self._manifests[name][version]["dist"]["integrity"])

    def answer(self, path: str) -> Answer | None:
        if path in self._archives:
            return BYTES, self._archives[path]
        name = path.strip("/")
        versions = self._manifests.get(name)
        if versions is None:
            return None
        latest = max(versions, key=lambda version: [int(part) for part in version.split(".")])
        document = {"name": name, "dist-tags": {"latest": latest}, "versions": versions}
        return JSON, json.dumps(document).encode()


class PypiIndex(Registry):
    """A simple index of Python packages."""

    def __init__(self) -> None:
        self._wheels: dict[str, bytes] = {}
        super().__init__()
        self.simple = f"{self.url}/simple"

    def publish(
        self,
        name: str,
        version: str,
        files: Mapping[str, str],
        *,
        requires: Sequence[str] = (),
        scripts: Mapping[str, str] | None = None,
        tag: str = "py3-none-any",
    ) -> None:
        """Publish a wheel, or replace its bytes."""
        plain = name.replace("-", "_")
        wheel = _wheel(plain, version, files, requires, scripts or {}, tag)
        self._wheels[f"/files/{plain}-{version}-{tag}.whl"] = wheel

    def withdraw(self, name: str, version: str) -> None:
        """Have a version no more."""
        start = f"/files/{name.replace('-', '_')}-{version}-"
        self._wheels = {k: v for k, v in self._wheels.items() if not k.startswith(start)}

    def digest(self, name: str, version: str, tag: str = "py3-none-any") -> str:
        """Return the SHA-256 of a wheel in hexadecimal digits."""
        wheel = self._wheels[f"/files/{name.replace('-', '_')}-{version}-{tag}.whl"]
        return hashlib.sha256(wheel).hexdigest()

    def answer(self, path: str) -> Answer | None:
        if path in self._wheels:
            return BYTES, self._wheels[path]
        name = path.removeprefix("/simple/").strip("/").replace("-", "_")
        links = [
            f'<a href="{place}#sha256={hashlib.sha256(wheel).hexdigest()}">{place[7:]}</a><br>'
            for place, wheel in self._wheels.items()
            if place.startswith(f"/files/{name}-")
        ]
        return (HTML, f"<!DOCTYPE html><body>{''.join(links)}</body>".encode()) if links else None


def _tar(files: Mapping[str, str]) -> bytes:
    """Return an archive as npm has them: all files below `package/`."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        for name, text in files.items():
            member = tarfile.TarInfo(f"package/{name}")
            member.size, member.mode = len(text.encode()), 0o755
            archive.addfile(member, io.BytesIO(text.encode()))
    return gzip.compress(content.getvalue(), mtime=0)


def _wheel(
    name: str,
    version: str,
    files: Mapping[str, str],
    requires: Sequence[str],
    scripts: Mapping[str, str],
    tag: str,
) -> bytes:
    """Return a wheel (PEP 427)."""
    about = f"{name}-{version}.dist-info"
    metadata = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
    metadata += [f"Requires-Dist: {requirement}" for requirement in requires]
    entries = "".join(f"{script} = {place}\n" for script, place in scripts.items())
    texts = {
        **files,
        f"{about}/METADATA": "\n".join(metadata) + "\n",
        f"{about}/WHEEL": f"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: {tag}\n",
        f"{about}/entry_points.txt": f"[console_scripts]\n{entries}",
    }
    record = "".join(f"{path},{_recorded(text)}\n" for path, text in texts.items())
    texts[f"{about}/RECORD"] = f"{record}{about}/RECORD,,\n"
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for path, text in texts.items():
            archive.writestr(zipfile.ZipInfo(path, (2020, 1, 1, 0, 0, 0)), text)
    return content.getvalue()


def _recorded(text: str) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).decode().rstrip("=")
    return f"sha256={digest},{len(text.encode())}"


# Both, with a server in each whose answer says which versions of what it depends on it has

GOOD, BAD = "good", "bad"
PACKAGES = ("deep-dep", "helper-dep", "toy-server")


class Registries:
    """A registry of npm and an index of Python packages, with one server in each.

    `toy-server` depends on `helper-dep` and that on `deep-dep`, each in any version of 1.x. It has
    one tool, `t`, whose answer is what `deep-dep` says: `good` in version 1.0.0.
    """

    def __init__(self, folder: Path) -> None:
        """`folder` has the caches of the tools, so that they know of nothing else."""
        self.npm, self.pypi = NpmRegistry(), PypiIndex()
        self.folder = folder
        self.publish("deep-dep", "1.0.0", GOOD)
        self._publish_servers()

    def publish(self, name: str, version: str, says: str) -> None:
        """Publish a version of `deep-dep` in both, or replace its bytes."""
        self.npm.publish(name, version, {"index.js": f"module.exports = {json.dumps(says)}\n"})
        self.pypi.publish(name, version, {f"{name.replace('-', '_')}.py": f"SAYS = {says!r}\n"})

    def withdraw(self, name: str, version: str) -> None:
        """Have a version of a package in neither any more."""
        self.npm.withdraw(name, version)
        self.pypi.withdraw(name, version)

    def _publish_servers(self) -> None:
        self.npm.publish(
            "helper-dep",
            "1.0.0",
            {"index.js": "module.exports = require('deep-dep')\n"},
            dependencies={"deep-dep": "^1.0.0"},
        )
        self.npm.publish(
            "toy-server",
            "1.0.0",
            {"server.js": NODE_SERVER},
            dependencies={"helper-dep": "^1.0.0"},
            bin={"toy-server": "server.js"},
        )
        self.pypi.publish(
            "helper-dep",
            "1.0.0",
            {"helper_dep.py": "from deep_dep import SAYS\n"},
            requires=["deep-dep>=1,<2"],
        )
        self.pypi.publish(
            "toy-server",
            "1.0.0",
            {"toy_server.py": PYTHON_SERVER},
            requires=["helper-dep>=1,<2"],
            scripts={"toy-server": "toy_server:main"},
        )

    def npm_tree(self, args: int = 0) -> NpmTree:
        """Return the server of the registry of npm as it is frozen now, with 1.0.0 of all."""
        packages = [
            NpmPackage([name], "1.0.0", self.npm.integrity(name, "1.0.0")) for name in PACKAGES
        ]
        return NpmTree("toy-server", "1.0.0", "toy-server/server.js", args, packages)

    def pypi_tree(self, args: int = 0) -> PypiTree:
        """Return the server of the index of Python packages in the same way."""
        packages = [
            PypiPackage(name, "1.0.0", [hash_text(self.pypi.digest(name, "1.0.0"))])
            for name in PACKAGES
        ]
        entry = "toy-server=toy_server:main"
        return PypiTree("toy-server", "1.0.0", entry, ">=3.9", args, packages)

    def environment(self, machine: str = "machine") -> dict[str, str]:
        """Return the environment of a machine that installs from here, with caches of its own."""
        own = self.folder / machine
        own.mkdir(parents=True, exist_ok=True)
        (own / "npmrc").touch()
        foreign = ("npm_", "NPM_", "UV_", "PIP_", "VIRTUAL_ENV", "XDG_CACHE_HOME", "PYTHON")
        kept = {k: v for k, v in os.environ.items() if not k.startswith(foreign)}
        return {
            **kept,
            # Where the tests have their own uv.
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), kept["PATH"]]),
            "XDG_CACHE_HOME": str(own),
            "npm_config_registry": f"{self.npm.url}/",
            "npm_config_cache": str(own / "npm"),
            "npm_config_userconfig": str(own / "npmrc"),
            "UV_DEFAULT_INDEX": self.pypi.simple,
            "UV_INDEX_URL": self.pypi.simple,
            "UV_CACHE_DIR": str(own / "uv"),
            "UV_NO_CONFIG": "1",
            "UV_PYTHON_DOWNLOADS": "never",
            "UV_HTTP_RETRIES": "0",
            "PIP_INDEX_URL": self.pypi.simple,
            "PIP_CONFIG_FILE": os.devnull,
            "PIP_CACHE_DIR": str(own / "pip"),
            "NO_PROXY": "127.0.0.1",
            "no_proxy": "127.0.0.1",
        }

    def close(self) -> None:
        self.npm.close()
        self.pypi.close()


@contextmanager
def registries(folder: Path) -> Iterator[Registries]:
    """Serve both registries."""
    both = Registries(folder)
    try:
        yield both
    finally:
        both.close()


NODE_SERVER = """\
#!/usr/bin/env node
const says = require("helper-dep")
const tools = [{name: "t", inputSchema: {type: "object"}}]
const results = {
  initialize: {
    protocolVersion: "2025-11-25", capabilities: {tools: {}},
    serverInfo: {name: "toy", version: "1"},
  },
  "tools/list": {tools},
  "tools/call": {content: [{type: "text", text: [says, ...process.argv.slice(2)].join(" ")}]},
}
require("readline").createInterface({input: process.stdin}).on("line", (line) => {
  const {id, method} = JSON.parse(line)
  if (id === undefined) return
  const answer = results[method]
    ? {result: results[method]} : {error: {code: -32601, message: method}}
  console.log(JSON.stringify({jsonrpc: "2.0", id, ...answer}))
})
"""

PYTHON_SERVER = """\
import json, sys
from helper_dep import SAYS

def main():
    text = " ".join([SAYS, *sys.argv[1:]])
    results = {
        "initialize": {
            "protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
            "serverInfo": {"name": "toy", "version": "1"},
        },
        "tools/list": {"tools": [{"name": "t", "inputSchema": {"type": "object"}}]},
        "tools/call": {"content": [{"type": "text", "text": text}]},
    }
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message:
            known = {"result": results.get(message["method"])}
            answer = known if known["result"] else {"error": {"code": -32601, "message": "no"}}
            print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer}), flush=True)
"""
