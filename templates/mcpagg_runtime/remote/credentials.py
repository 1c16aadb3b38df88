"""Who requests to a remote server say they are: as the config has it, else by a login."""

from __future__ import annotations

from shlex import quote as quote_word
from typing import TYPE_CHECKING

from mcpagg_runtime.remote.faults import NotSent, RemoteFault
from mcpagg_runtime.remote.tokens import Login, LoginNeeded

if TYPE_CHECKING:
    from mcpagg_runtime.spawn.launch import Launch

UNAUTHORIZED = 401
# What a token is called where a server's words are shown, in which it may stand.
TOKEN_NAME = "LOGIN"  # noqa: S105 no secret


class Credentials:
    """The login at the server of a launch, if there is one."""

    def __init__(self, launch: Launch, config: str) -> None:
        """`config` is the path of the config that has the server."""
        self._launch = launch
        self._login = Login(launch.url)
        self._config = config

    def token(self, where: str) -> str | None:
        """Return a token that should be good, None without a login.

        `where` is the URL, to be shown.

        Raises:
            NotSent: the login has ended, or cannot be read.
        """
        try:
            return self._hidden(self._login.bearer())
        except (LoginNeeded, OSError) as problem:
            what = f"was not asked at {where}: {self._explained(problem)}"
            raise NotSent(what, UNAUTHORIZED) from None

    def renewed(self, refused: str | None, where: str) -> str | None:
        """Return another token than the one that was refused.

        Raises:
            RemoteFault: there is none, and what to do.
        """
        try:
            return self._hidden(self._login.refreshed(refused))
        except (LoginNeeded, OSError) as problem:
            what = f"answered with 401 Unauthorized at {where}: {self._explained(problem)}"
            raise RemoteFault(what, UNAUTHORIZED) from None

    def _explained(self, problem: Exception) -> str:
        if not isinstance(problem, LoginNeeded):
            return f"its login cannot be refreshed now: {problem}"
        words = ["mcpagg-compile", "--login", self._launch.name, self._config]
        command = " ".join([quote_word(word) for word in words])
        return f"{problem}; to log in, run `{command}`"

    def _hidden(self, token: str | None) -> str | None:
        if token is not None:
            self._launch.hide(token, TOKEN_NAME)
        return token
