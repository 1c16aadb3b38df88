"""Who has built packages, as their registries say: the repositories that attestations name.

A registry is asked for the attestations of a version without credentials, so nothing of `.npmrc` or
of the settings of uv is read here; npm and uv name the registries. All requests of a tree are made
side by side, within SECONDS. What is not answered is not recorded. A registry has verified an
attestation when it took it; the signature is not verified again, but what it names has to be the
archive that is frozen.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from base64 import b64decode
from collections.abc import Collection
from concurrent.futures import CancelledError, Future, InvalidStateError, ThreadPoolExecutor
from contextlib import suppress
from threading import Thread
from time import monotonic
from typing import TYPE_CHECKING
from urllib.parse import quote, urljoin, urlsplit, urlunsplit

import httpx2
from packaging.utils import canonicalize_name

from mcpagg import __version__
from mcpagg.jsontext import members_of
from mcpagg.options import PROGRAM
from mcpagg.passes.freezing.attestations import (
    Document,
    Unanswered,
    npm_builder,
    objects,
    pypi_builder,
)
from mcpagg.passes.freezing.npm import NEEDED as NPM_NEEDED
from mcpagg.passes.freezing.pypi import NEEDED as UV_NEEDED
from mcpagg.passes.freezing.running import Tool, Unresolved, ended_with_tools
from mcpagg.passes.freezing.trees import Version, hashes_of, oldest_python, pins
from mcpagg.problems import count
from mcpagg_runtime.frozen.table import UNATTESTED, NpmTree, PypiTree

if TYPE_CHECKING:
    from pathlib import Path

    from mcpagg_runtime.launch.launch import Launch

SECONDS, REQUEST_SECONDS = 10.0, 5.0
"""How long the requests of a tree may take, and each of them."""
AT_A_TIME = 16
LARGEST = 1 << 25
"""Bytes of an answer: a package may have thousands of files."""
SIMPLE = "application/vnd.pypi.simple.v1+json"
WITH_PROVENANCE = (1, 3)
"""The version of the simple API that says which files have attestations."""
ODD = (Unanswered, ValueError, LookupError, TypeError, AttributeError)
"""What comes of an answer that is no answer, whatever a registry has sent."""
_NOTHING = (404, 410)
_REFUSED = (400, 401, 403, 405, 406)
_ANNOTATED = re.compile(r"^([^\s=]+)==.*\n\s+# from (\S+)", re.MULTILINE)


def record_builders(
    tree: NpmTree | PypiTree, versions: Collection[Version], launch: Launch, folder: Path
) -> int:
    """Say of these versions in a tree who has built them; return of how many that is not known.

    Those are not counted whose registry has no attestations at all. `folder` is empty.
    """
    hashes = {version: found for version, found in hashes_of(tree).items() if version in versions}
    kind = NpmRegistry if isinstance(tree, NpmTree) else SimpleIndex
    try:
        if isinstance(tree, NpmTree):
            places = _npm_registries(tree, hashes, launch, folder)
        else:
            places = _indexes(tree, hashes, launch, folder)
    except (Unresolved, ValueError, KeyError):
        return len(hashes)
    versions = [version for version in hashes if version[0] in places]
    requests = Requests()
    with requests, ended_with_tools(requests.end), ThreadPoolExecutor(AT_A_TIME) as pool:
        names = {places[name]: name for name, _ in versions}
        registries = {url: kind(url, requests) for url in names}
        probes = pool.map(_attests, registries.values(), names.values())
        attests = dict(zip(registries, probes, strict=True))

        def builder(version: Version) -> str | None:
            url = places[version[0]]
            if attests[url]:
                return _builder(registries[url], version, hashes[version])
            return None if attests[url] is False else ""

        found = dict(zip(versions, pool.map(builder, versions), strict=True))
    for package in tree.packages:
        package.builder = found.get((package.name, package.version)) or ""
    return [*found.values()].count("")


def unknown_builders(number: int) -> str:
    """Say of how many packages it is not known who has built them."""
    return f"who has built {count(number, 'package')} could not be learnt, and is not recorded"


def _attests(registry: Registry, name: str) -> bool | None:
    """Return whether a registry has attestations at all, None if that is not known."""
    try:
        return registry.attests(name)
    except Refused:  # it wants credentials, or knows of no such thing
        return False
    except ODD:
        return None


def _builder(registry: Registry, version: Version, hashes: frozenset[str]) -> str:
    """Return who has built a version, "" if that is not known."""
    try:
        return registry.builder(*version, hashes)
    except ODD:
        return ""


def _npm_registries(
    tree: NpmTree, versions: Collection[Version], launch: Launch, folder: Path
) -> dict[str, str]:
    """Return {package: the URL of its registry}; a package with a URL of its own has none.

    Raises:
        Unresolved, ValueError, KeyError: npm does not say.
    """
    output = Tool("npm", launch, NPM_NEEDED).run(["config", "list", "--json"], folder)
    settings = members_of(json.loads(output))
    others = {package.name for package in tree.packages if package.url}
    scoped = {name: f"{name.partition('/')[0]}:registry" for name, _ in versions}
    return {
        name: _without_password(settings.get(scope) or settings["registry"])
        for name, scope in scoped.items()
        if name not in others
    }


def _indexes(
    tree: PypiTree, versions: Collection[Version], launch: Launch, folder: Path
) -> dict[str, str]:
    """Return {package: the URL of the index that uv takes it from}.

    Raises:
        Unresolved: uv does not say.
    """
    lines = "\n".join(pins(tree, versions).values())
    folder.joinpath("pins.txt").write_text(f"{lines}\n", "utf-8")
    flags = ["--universal", "--no-deps", "--no-header", "--no-annotate", "--quiet"]
    flags += ["--emit-index-annotation", f"--python-version=3.{oldest_python(tree)}"]
    command, uv = ["pip", "compile", *flags, "pins.txt"], Tool("uv", launch, UV_NEEDED)
    try:
        output = uv.run([*command, "--offline"], folder)  # it has just resolved them
    except Unresolved:
        output = uv.run(command, folder)
    return {match[1]: _without_password(match[2]) for match in _ANNOTATED.finditer(output)}


def _without_password(url: str) -> str:
    parts = urlsplit(str(url))
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2])).rstrip("/")


class Refused(Unanswered):
    """Raised when a registry refuses a request as such."""


class Requests:
    """Asks for JSON documents, all of them within the time of a tree.

    Each is read by a thread of its own, which nobody waits for when its time is over: a server that
    sends a byte now and then keeps it for ever.
    """

    def __init__(self) -> None:
        self._client = httpx2.Client(
            headers={"User-Agent": f"{PROGRAM}/{__version__}"},
            timeout=REQUEST_SECONDS,
            follow_redirects=True,
        )
        self._deadline = monotonic() + SECONDS
        self._awaited: set[Future[Document | None]] = set()
        self._is_ended = False

    def end(self) -> None:
        """Give up what is awaited, and all that is asked for from now on; waits for nothing."""
        self._is_ended = True
        for answer in list(self._awaited):
            answer.cancel()

    def __enter__(self) -> Requests:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def document(self, url: str, accept: str = "application/json") -> Document | None:
        """Return the document at a URL, None for none, or one that is no JSON.

        Raises:
            Refused, Unanswered: there is another answer, or none in time.
        """
        answer: Future[Document | None] = Future()
        self._awaited.add(answer)
        try:
            left = self._deadline - monotonic()
            if left <= 0 or self._is_ended:
                raise Unanswered
            Thread(target=self._answer, args=(answer, url, accept), daemon=True).start()
            return answer.result(left)
        except (TimeoutError, CancelledError):
            raise Unanswered from None
        finally:
            self._awaited.discard(answer)

    def _answer(self, answer: Future[Document | None], url: str, accept: str) -> None:
        """Give an answer, unless it is given up."""
        try:
            answer.set_result(self._fetched(url, accept))
        except Exception as fault:
            with suppress(InvalidStateError):
                answer.set_exception(fault if isinstance(fault, Unanswered) else Unanswered())

    def _fetched(self, url: str, accept: str) -> Document | None:
        """Return the same, however long that takes.

        Raises:
            Refused, Unanswered: there is another answer.
        """
        try:
            with self._client.stream("GET", url, headers={"Accept": accept}) as response:
                if response.status_code in _NOTHING or not _is_json(response):
                    return None
                if response.status_code != 200:
                    raise Refused if response.status_code in _REFUSED else Unanswered
                content = bytearray()
                for chunk in response.iter_bytes():
                    content += chunk
                    if len(content) > LARGEST or monotonic() > self._deadline:
                        raise Unanswered
            return members_of(json.loads(content))
        except (httpx2.HTTPError, httpx2.InvalidURL, ValueError, RecursionError):
            raise Unanswered from None


def _is_json(response: httpx2.Response) -> bool:
    return response.status_code != 200 or "json" in response.headers.get("Content-Type", "")


class Registry(ABC):
    """A registry at a URL, and what it says of who has built packages."""

    def __init__(self, url: str, requests: Requests) -> None:
        self._url = url
        self._requests = requests

    @abstractmethod
    def attests(self, name: str) -> bool:
        """Whether there are attestations at all; `name` is a package that it has.

        Raises:
            Unanswered: it does not say.
        """

    @abstractmethod
    def builder(self, name: str, version: str, hashes: frozenset[str]) -> str:
        """Return who has built a version, UNATTESTED if it names nobody.

        Raises:
            Unanswered: it does not say.
        """


class NpmRegistry(Registry):
    """A registry of npm: what `npm audit signatures` asks it."""

    def attests(self, name: str) -> bool:
        """See the base: it has keys then."""
        return bool((self._requests.document(f"{self._url}/-/npm/v1/keys") or {}).get("keys"))

    def builder(self, name: str, version: str, hashes: frozenset[str]) -> str:
        """See the base: what a statement of SLSA says, that is of this very archive."""
        spec = quote(f"{name}@{version}", safe="@")
        found = self._requests.document(f"{self._url}/-/npm/v1/attestations/{spec}") or {}
        return npm_builder(found, {b64decode(text.partition("-")[2]).hex() for text in hashes})


class SimpleIndex(Registry):
    """An index of Python packages that speaks JSON: PEP 691, and PEP 740 for attestations."""

    def __init__(self, url: str, requests: Requests) -> None:
        super().__init__(url, requests)
        self._projects: dict[str, Document] = {}

    def attests(self, name: str) -> bool:
        """See the base: by the version of its interface."""
        version = str(members_of(self._project(name).get("meta")).get("api-version", ""))
        numbers = [int(part) for part in version.split(".") if part.isdecimal()]
        return tuple(numbers) >= WITH_PROVENANCE

    def _project(self, name: str) -> Document:
        """Return what there is of a package.

        Raises:
            Unanswered: it does not say.
        """
        if name not in self._projects:
            url = f"{self._url}/{canonicalize_name(name)}/"
            self._projects[name] = self._requests.document(url, SIMPLE) or {}
        return self._projects[name]

    def builder(self, name: str, version: str, hashes: frozenset[str]) -> str:
        """See the base: all wheels have to be attested, and the first one is asked about.

        One that is added later with a stolen token has no attestation.
        """
        digests = {b64decode(f"{text}=", altchars=b"-_").hex() for text in hashes}
        wheels = {
            digest: file
            for file in objects(self._project(name).get("files"))
            if (digest := str(members_of(file.get("hashes")).get("sha256"))) in digests
        }
        if len(wheels) < len(digests):
            raise Unanswered
        if not all(file.get("provenance") for file in wheels.values()):
            return UNATTESTED
        digest, file = min(wheels.items(), key=lambda item: str(item[1].get("filename")))
        found = self._requests.document(urljoin(self._url, str(file["provenance"])))
        if found is None:
            raise Unanswered
        return pypi_builder(found, digest)
