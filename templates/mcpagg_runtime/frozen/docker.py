"""Images: the digest that was frozen takes the place of the tag. Docker itself verifies it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcpagg_runtime.frozen.table import FrozenError

if TYPE_CHECKING:
    from mcpagg_runtime.frozen.programs import Programs
    from mcpagg_runtime.frozen.table import DockerImage


def pinned(word: str, frozen: DockerImage) -> str:
    """Return the image that was frozen in place of the one that a command names.

    Raises:
        FrozenError: the command names another one.
    """
    tagged = f"{frozen.image}:{frozen.tag}" if frozen.tag else frozen.image
    if word not in (tagged, frozen.image, f"{tagged}@{frozen.digest}"):
        raise FrozenError(f"its command names the image {word}, and {tagged} was frozen")
    return f"{frozen.image}@{frozen.digest}"


def pull(programs: Programs, frozen: DockerImage, docker: str, folder: str) -> None:
    """Have an image on this machine; `docker` is the program that the command names.

    Raises:
        FrozenError: it cannot be had.
    """
    image = f"{frozen.image}@{frozen.digest}"
    if not is_here(programs, frozen, docker, folder):
        status, output = programs.run([docker, "pull", image], folder)
        if status:
            raise FrozenError(f"{docker} pull {image}: {output.strip()[-300:]}")


def is_here(programs: Programs, frozen: DockerImage, docker: str, folder: str) -> bool:
    """Whether an image is on this machine."""
    image = f"{frozen.image}@{frozen.digest}"
    status, _ = programs.run([docker, "image", "inspect", "--format", "{{.Id}}", image], folder)
    return status == 0
