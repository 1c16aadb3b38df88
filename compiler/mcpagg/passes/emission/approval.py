"""Approvals: signatures of the data of a file, made here, and kept until the data change.

See the runtime's module of this name for what is signed and how that is verified.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from mcpagg.problems import ConfigError, Problem
from mcpagg_runtime.launch.approval import NAMESPACE, signed_text

Approval = Mapping[str, str]
"""{"data": the digest that is signed, "signature": in the armour of ssh-keygen}; {} for none."""


def approving(key: str | None, before: Approval) -> Callable[[str], Approval]:
    """Return what gives data with a digest its approval.

    With a key, that is a new one; else `before`, if it was given to the same data.
    """

    def approve(digest: str) -> Approval:
        if key is not None:
            return {"data": digest, "signature": _signature(digest, key)}
        return before if before.get("data") == digest else {}

    return approve


def _signature(digest: str, key: str) -> str:
    """Return a signature by the key in a file, or by an agent that has that of a `.pub` file.

    Raises:
        ConfigError: there is none to be had; says why.
    """
    import subprocess  # most files are not signed, and this takes long to import

    command = ["ssh-keygen", "-q", "-Y", "sign", "-n", NAMESPACE, "-f", key]
    try:
        done = subprocess.run(  # noqa: S603 - the key's path is its user's
            command, input=signed_text(digest), capture_output=True, check=False
        )
    except OSError as problem:
        what = f"ssh-keygen, which signs, cannot be started: {problem.strerror}"
        raise ConfigError(f"--sign {key}", [Problem("", what, "install OpenSSH")]) from None
    if done.returncode:
        why = " ".join(done.stderr.decode("utf-8", "replace").split())
        raise ConfigError(f"--sign {key}", [Problem("", f"ssh-keygen does not sign: {why}")])
    return done.stdout.decode("ascii")
