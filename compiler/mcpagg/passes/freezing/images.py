"""Resolves images of Docker: the digest of an image, for all its platforms."""

from __future__ import annotations

import json
import re
from pathlib import Path

from mcpagg.passes.environment.programs import DIGEST
from mcpagg.passes.freezing.commands import ImageRequest
from mcpagg.passes.freezing.running import Tool, Unresolved
from mcpagg_runtime.frozen.table import DockerImage
from mcpagg_runtime.launch.launch import Launch

_REFERENCE = re.compile(
    rf"(?P<image>.+?)(?::(?P<tag>[^:/@]+))?(?:@(?P<digest>{DIGEST}[0-9a-f]{{64}}))?"
)
_DIGEST = re.compile(rf"{DIGEST}[0-9a-f]{{64}}")
_NO_IMAGE = re.compile("no such image|image not known", re.IGNORECASE)
_USAGE = re.compile(
    "usage:|unknown (?:flag|command)|not a docker command|unrecognized command", re.I
)
"""What a docker without it prints is how docker itself is used."""
NEEDED = "install Docker, or leave the server out of --freeze"


def resolve_image(request: ImageRequest, launch: Launch, folder: Path) -> DockerImage:
    """Return an image by its digest: that in the config, of the image at hand, or its registry's.

    Raises:
        Unresolved: none of them is known.
    """
    match = _REFERENCE.fullmatch(request.written)
    if match is None:
        raise Unresolved(f"{request.written} is no name of an image")
    image, tag, digest = match["image"], match["tag"] or "", match["digest"]
    if not digest:
        docker = Tool(request.program, launch, NEEDED)
        digest, why = _at_hand(docker, request, image, folder)
        digest = digest or _published(docker, request, folder, why)
    return DockerImage(image, digest, request.args, tag)


def _at_hand(docker: Tool, request: ImageRequest, image: str, folder: Path) -> tuple[str, str]:
    """Return the digest by which an image was pulled, "" if it was not, and why that is not known.

    https://docs.docker.com/reference/cli/docker/image/inspect
    """
    form = "{{json .RepoDigests}}"
    try:
        names = json.loads(
            docker.run(["image", "inspect", "--format", form, request.written], folder)
        )
    except ValueError:
        return "", ""
    except Unresolved as fault:
        return "", "" if _NO_IMAGE.search(str(fault)) else str(fault)
    # It may have been pulled under several names, and have several spellings of one.
    plain = image.removeprefix("docker.io/").removeprefix("library/")
    spellings = {image, *(f"{host}{plain}" for host in ("", "docker.io/", "docker.io/library/"))}
    digests = [name.rpartition("@") for name in names or () if isinstance(name, str)]
    own = [digest for name, _, digest in digests if name in spellings]
    return own[0] if own and _DIGEST.fullmatch(own[0]) else "", ""


def _published(docker: Tool, request: ImageRequest, folder: Path, before: str) -> str:
    """Return the digest of the index that a registry has of an image.

    `before` is why it is not known whether the image is on this machine, "" if it is not there.

    https://docs.docker.com/reference/cli/docker/buildx/imagetools/inspect
    """
    form = "{{json .Manifest.Digest}}"
    inspection = ["buildx", "imagetools", "inspect", "--format", form, request.written]
    try:
        found = _DIGEST.search(docker.run(inspection, folder))
    except Unresolved as fault:
        here = f"{request.written} is not on this machine, where {request.program} pull brings it"
        no_buildx = f"{request.program} has no buildx, which would ask the registry"
        why = no_buildx if _USAGE.search(str(fault)) else fault
        raise Unresolved(f"{before or here}; {why}") from None
    if found is None:
        raise Unresolved(f"{request.program} names no digest of {request.written}")
    return found[0]
