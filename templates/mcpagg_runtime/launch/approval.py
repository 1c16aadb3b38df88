"""Approval: whether an allowed signer has signed the data of this file.

The digest of all tables is signed, not the runtime: a new runtime with the same data needs no new
approval. `ssh-keygen` makes and verifies the signature, of the format SSHSIG
(https://github.com/openssh/openssh-portable, PROTOCOL.sshsig).
"""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

from mcpagg_runtime.start.digest import data_digest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcpagg_runtime.plan.plan import Plan

# If set, it names a file of allowed signers, one of whom must have signed this proxy's data.
ALLOWED_SIGNERS = "MCPAGG_ALLOWED_SIGNERS"
NAMESPACE = "mcpagg"
"""The namespace of the signature: one that was made for another does not count."""

TIMEOUT_SECONDS = 30.0


class NotApproved(Exception):
    """Raised for data that no allowed signer has signed; `str()` says why."""


def signed_text(digest: str) -> bytes:
    """Return the text that is signed for data with this digest."""
    return f"{digest}\n".encode("ascii")


def check_unchanged(plan: Plan) -> str:
    """Return the digest of the data.

    Raises:
        NotApproved: it is not signed, or has changed since.
    """
    if not plan.approval:
        raise NotApproved("its data is not signed")
    digest = data_digest(plan.tables)
    if digest != plan.approval["data"]:
        raise NotApproved(f"its data has changed since it was signed: it has {digest} now")
    return digest


def signer_of(plan: Plan, allowed: str) -> str:
    """Return which signer of the file `allowed` has signed the data.

    `allowed` has the format that ssh-keygen(1) describes under ALLOWED SIGNERS.

    Raises:
        NotApproved: none of them.
    """
    import tempfile  # 1 MB of memory, which no proxy needs that checks no approval

    digest = check_unchanged(plan)
    if not os.path.isfile(allowed):
        raise NotApproved(f"there is no file of allowed signers {allowed}")
    with tempfile.TemporaryDirectory(prefix="mcpagg.") as folder:
        signature = os.path.join(folder, "signature")
        with open(signature, "w", encoding="ascii") as file:
            file.write(plan.approval["signature"])
        reasons = []
        for signers in _alternatives(allowed, os.path.join(folder, "signers")):
            where = ["-f", signers, "-s", signature]
            found, _ = _ssh_keygen(["find-principals", *where], b"")
            for who in found.splitlines():
                if who.startswith("!"):  # a pattern that excludes
                    continue
                command = ["verify", "-n", NAMESPACE, "-I", who, *where]
                verified, why = _ssh_keygen(command, signed_text(digest))
                if verified:
                    return who
                reasons.append(why)
            if not found and signers == allowed:
                break
    if not reasons:
        raise NotApproved(f"its data is signed by nobody in {allowed}")
    raise NotApproved(f"its signature does not hold: {reasons[0]}")


def _alternatives(allowed: str, line_alone: str) -> Iterator[str]:
    """Yield the file of signers, and then a file with each of its lines alone.

    Of several lines for one key, ssh-keygen finds the principals of the first alone.
    """
    yield allowed
    with open(allowed, "rb") as file:
        lines = file.read().splitlines()
    for line in lines:
        if line.strip() and not line.startswith(b"#"):
            with open(line_alone, "wb") as alone:
                alone.write(line + b"\n")
            yield line_alone


def refusal(plan: Plan) -> str:
    """Say why no server may be started, "" if they may.

    If ALLOWED_SIGNERS names a file, one of its signers must have signed the data. Else signed data
    must be unchanged if the option is `refuse`.
    """
    allowed = os.environ.get(ALLOWED_SIGNERS, "")
    try:
        if allowed:
            signer_of(plan, allowed)
        elif plan.approval and plan.options.is_guarded:
            check_unchanged(plan)
    except NotApproved as problem:
        return str(problem)
    return ""


def _ssh_keygen(command: list[str], text: bytes) -> tuple[str, str]:
    """Return what `ssh-keygen -Y` prints, "" if it fails, and why it does.

    Raises:
        NotApproved: it cannot be started.
    """
    try:
        done = subprocess.run(
            ["ssh-keygen", "-Y", *command],  # noqa: S607 - wherever the system has it
            input=text,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            timeout=TIMEOUT_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as problem:
        raise NotApproved(f"ssh-keygen cannot be asked about its signature: {problem}") from None
    output, why = (text.decode("utf-8", "replace").strip() for text in (done.stdout, done.stderr))
    return ("" if done.returncode else output), " ".join((why or output).split())
