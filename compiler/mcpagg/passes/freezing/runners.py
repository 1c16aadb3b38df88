"""Which commands run another program, or code: their own bytes do not say what runs in the end."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from mcpagg.passes.environment.programs import program_name

INTERPRETERS = frozenset(
    "sh bash zsh fish dash ksh mksh ash csh tcsh nu elvish xonsh cmd powershell pwsh wsl busybox"  # noqa: SIM905 - a word a line
    " python pythonw py pypy graalpy jython ipython micropython node nodejs npx npm pnpx pnpm yarn"
    " bun bunx deno tsx ts-node uv uvx pipx pip poetry pdm hatch rye conda mamba micromamba pixi"
    " docker podman nerdctl java javaw jbang kotlin scala groovy dotnet dnx mono go cargo ruby"
    " bundle php perl lua luajit rscript julia elixir erl escript clojure bb racket guile tclsh"
    " wasmtime wasmer make just nix nix-shell guix".split()
)
"""Programs that run code or packages, without a version in their names."""
WRAPPERS = frozenset(
    "env sudo doas su runuser ssh nice ionice chrt taskset numactl timeout gtimeout stdbuf"  # noqa: SIM905 - a word a line
    " unbuffer nohup setsid time watch xargs parallel flock script exec start command"
    " tini dumb-init catatonit systemd-run systemd-inhibit caffeinate arch prlimit setarch"
    " setpriv capsh chroot unshare nsenter bwrap firejail sandbox-exec fakeroot faketime proot"
    " strace ltrace gdb lldb valgrind perf rr xvfb-run dbus-run-session torsocks proxychains"
    " direnv dotenv dotenvx op doppler infisical vault aws-vault aws-okta chamber envchain sops"
    " teller berglas envconsul mise asdf volta fnm nvm nodenv pyenv rbenv nodemon pm2 forever"
    " supervisord watchexec entr reflex devbox flox distrobox toolbox flatpak snap wine box64"
    " qemu-x86_64 qemu-aarch64 rosetta kubectl oc lxc incus multipass vagrant".split()
)
"""Programs that run the program that their arguments name."""
CODE = tuple(
    ".py .pyw .pyc .pyz .pyzw .js .mjs .cjs .jsx .ts .mts .cts .tsx .sh .bash .zsh .fish .ps1 .bat"  # noqa: SIM905 - a word a line
    " .cmd .vbs .rb .php .phar .pl .lua .luac .jar .war .class .dll .exe .r .jl .ex .exs .beam"
    " .clj .groovy .kts .csx .fsx .tcl .rkt .scm .wasm .go .rs .swift .nix".split()
)
"""How files of code are called."""
_PARTS = re.compile(r"[\s=,;|&()'\"`]+")
_VERSION = re.compile(r"(?<=[a-z])-?\d[\d.]*[a-z]?$")


def other_program(argv: Sequence[str]) -> str:
    """Return why a command does not start its own program alone, as a clause; "" if it does."""
    name = program_name(argv[0])
    if {name, _plain(name)} & (INTERPRETERS | WRAPPERS):
        return f"is started by `{name}`, which runs another program"
    for part in _parts(argv[1:]):
        if _plain(program_name(part)) in INTERPRETERS or part.lower().endswith(CODE):
            return f"is started by `{name}`, which is given {part} to run"
    return ""


def _plain(name: str) -> str:
    """Return a name without the version at its end: pypy of `pypy3.10`."""
    return _VERSION.sub("", name)


def _parts(words: Sequence[str]) -> Iterator[str]:
    """Yield words, and what stands in them: behind `=`, or in a command line of its own.

    Of a URL its path: hosts end like files of code.
    """
    for word in words:
        for part in filter(None, _PARTS.split(word)):
            scheme, is_url, place = part.partition("://")
            yield place.partition("/")[2] if is_url else scheme
