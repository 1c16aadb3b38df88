"""What attestations say: which repository has built an archive.

Those of npm are statements of SLSA (https://slsa.dev/provenance/v1, or 0.2), those of an index of
Python packages name a publisher (PEP 740). Their signatures are not verified here: a registry does
that when it takes them. What an attestation is about has to be the archive that is frozen.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Collection, Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit

from mcpagg.jsontext import members_of
from mcpagg_runtime.frozen.shapes import SHAPES
from mcpagg_runtime.frozen.table import UNATTESTED

Document = Mapping[str, Any]
SLSA = "https://slsa.dev/provenance/"
FORGES = {"GitHub": "github.com", "GitLab": "gitlab.com"}
"""The hosts of publishers, by their kinds in PEP 740."""


class Unanswered(Exception):
    """Raised when a registry could not be asked, or its answer could not be read."""


def npm_builder(document: Document, digests: Collection[str]) -> str:
    """Return who has built a package of npm, by all attestations of a version.

    `digests` are those of its archive, SHA-512 in hexadecimal digits.

    Raises:
        Unanswered: that cannot be read.
    """
    statements = [
        _statement(members_of(one.get("bundle")), "dsseEnvelope", "payload")
        for one in objects(document.get("attestations"))
        if str(one.get("predicateType")).startswith(SLSA)
    ]
    return _one_of([_source(one) for one in statements if _is_of(one, "sha512", digests)])


def pypi_builder(document: Document, digest: str) -> str:
    """Return who has built a wheel, by its provenance; `digest` is its SHA-256 in the same way.

    Raises:
        Unanswered: that cannot be read.
    """
    return _one_of(
        [
            _publisher(members_of(bundle.get("publisher")))
            for bundle in objects(document.get("attestation_bundles"))
            for one in objects(bundle.get("attestations"))
            if _is_of(_statement(one, "envelope", "statement"), "sha256", {digest})
        ]
    )


def _one_of(builders: Collection[str]) -> str:
    """Return one of several builders, UNATTESTED of none.

    Raises:
        Unanswered: none of them can stand in a line.
    """
    if not builders:
        return UNATTESTED
    readable = sorted(filter(_is_readable, builders))
    if not readable:
        raise Unanswered
    return readable[0]


def _is_readable(builder: str) -> bool:
    """Whether a builder can stand in a line, and is one place however its path is resolved."""
    return bool(SHAPES["builder"].fullmatch(builder)) and not {".", ".."} & {*builder.split("/")}


def _statement(holder: Document, envelope: str, member: str) -> Document:
    """Return the statement of in-toto in a member of an envelope.

    Raises:
        Unanswered: there is none.
    """
    try:
        text = base64.b64decode(str(members_of(holder.get(envelope))[member]))
        return members_of(json.loads(text))
    except (KeyError, ValueError, RecursionError):
        raise Unanswered from None


def _is_of(statement: Document, algorithm: str, digests: Collection[str]) -> bool:
    """Whether a statement is about an archive with one of these digests."""
    subjects = objects(statement.get("subject"))
    return any(str(members_of(one.get("digest")).get(algorithm)) in digests for one in subjects)


def _source(statement: Document) -> str:
    """Return the repository in a statement of SLSA, 1.0 or 0.2, "" for none."""
    predicate = members_of(statement.get("predicate"))
    parameters = members_of(members_of(predicate.get("buildDefinition")).get("externalParameters"))
    config = members_of(members_of(predicate.get("invocation")).get("configSource"))
    workflow = members_of(parameters.get("workflow"))
    url = workflow.get("repository") or parameters.get("source") or config.get("uri") or ""
    if not str(url).isprintable():  # of which urlsplit leaves some out
        return "?"
    parts = urlsplit(str(url).removeprefix("git+"))
    path = parts.path.partition("@")[0].strip("/").removesuffix(".git")
    return f"{parts.hostname}/{path}".lower() if parts.hostname and path else ""


def _publisher(publisher: Document) -> str:
    """Return who is a publisher of PEP 740: a repository, or who else its kind names."""
    kind, repository = str(publisher.get("kind")), publisher.get("repository")
    who = repository or publisher.get("email") or publisher.get("project")
    return f"{FORGES.get(kind, kind)}/{who}".lower() if who else kind.lower()


def objects(value: object) -> Iterable[Document]:
    """Return the objects of a list, () of what is none."""
    return [members_of(one) for one in value] if isinstance(value, list) else ()
