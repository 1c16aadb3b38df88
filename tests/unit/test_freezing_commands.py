"""Which commands can be frozen: what they ask for, and why others cannot be."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpagg.passes.freezing.commands import (
    ImageRequest,
    NotFreezable,
    NpmRequest,
    ProgramRequest,
    PypiRequest,
    Request,
    ScriptRequest,
    read_command,
)
from mcpagg.passes.freezing.local import freeze_program
from mcpagg_runtime.launch.launch import Launch

DIGEST = "sha256:" + "0" * 64


def request(line: str, **env: str) -> Request:
    command, *args = line.split()
    return read_command(command, args, env)


def npm(*specs: str, program: str = "", project: bool = True) -> NpmRequest:
    pairs = (spec.rpartition("@") for spec in specs)
    return NpmRequest(tuple((name, wanted) for name, _, wanted in pairs), program, project)


def pypi(*requirements: str, program: str, python: str = "") -> PypiRequest:
    return PypiRequest(requirements, program, python)


@pytest.mark.parametrize(
    ("line", "asked", "args"),
    [
        ("npx -y some-server", npm("some-server@latest"), 0),
        ("npx --yes @scope/server@1.2.3 /data --flag", npm("@scope/server@1.2.3"), 2),
        ("npx a -y", npm("a@latest"), 1),
        ("npx.cmd -q a@^1", npm("a@^1"), 0),
        ("cmd /c npx -y a@next x", npm("a@next"), 1),
        ("C:\\Windows\\System32\\CMD.EXE /C npx a", npm("a@latest"), 0),
        ("/opt/bin/npx -- a x", npm("a@latest"), 1),
        ("npx -y a@npm:@s/b@2", NpmRequest((("a", "npm:@s/b@2"),)), 0),
        ("npx -y -p a@1 run x", npm("a@1", program="run"), 1),
        ("npx --package=a@1 --package b run", npm("a@1", "b@latest", program="run"), 0),
        ("npm exec -y -- a@1 --flag", npm("a@1"), 1),
        ("npm exec a x", npm("a@latest"), 1),
        ("bunx a@1", npm("a@1"), 0),
        ("bun x a@1", npm("a@1"), 0),
        ("pnpx a", npm("a@latest", project=False), 0),
        ("pnpm dlx @s/a", npm("@s/a@latest", project=False), 0),
        ("yarn dlx -q a", npm("a@latest", project=False), 0),
        ("uvx mcp-server-time --zone UTC", pypi("mcp-server-time", program="mcp-server-time"), 2),
        ("uvx a@1.2", pypi("a==1.2", program="a"), 0),
        ("uvx a@latest", pypi("a", program="a"), 0),
        ("uvx --from a[cli]>=1,<2 run", pypi("a[cli]<2,>=1", program="run"), 0),
        (
            "uvx --python 3.12 --with b,c>=1 a",
            pypi("a", "b", "c>=1", program="a", python="3.12"),
            0,
        ),
        ("uv tool run --from=a run x y", pypi("a", program="run"), 2),
        ("uv run --no-project --with a --with b run", pypi("a", "b", program="run"), 0),
        ("uv run --with a run", PypiRequest(("a",), "run", project=True), 0),
        ("pipx run --spec a==1 run", pypi("a==1", program="run"), 0),
        ("pipx run a==1", pypi("a==1", program="a"), 0),
        ("docker run -i --rm -e T o/s:1 --x", ImageRequest("docker", "o/s:1"), 1),
        (f"podman run o/s@{DIGEST}", ImageRequest("podman", f"o/s@{DIGEST}"), 0),
        ("node server.js x", ScriptRequest("node", "server.js"), 1),
        ("node --no-warnings --max-old-space-size=64 a.mjs", ScriptRequest("node", "a.mjs"), 0),
        ("/usr/bin/python3.12 -u -X utf8 server.py", ScriptRequest("python", "server.py"), 0),
        ("/opt/server --stdio", ProgramRequest("/opt/server"), 1),
        ("github-mcp-server stdio", ProgramRequest("github-mcp-server"), 1),
        ("server --url=https://api.example.rs", ProgramRequest("server"), 1),
    ],
)
def test_what_a_command_asks_for(line: str, asked: Request, args: int) -> None:
    found = request(line)
    assert found == asked
    if not isinstance(found, ProgramRequest):
        assert found.args == args


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("npx", "nothing to run"),
        ("npx -y", "nothing to run"),
        ("npx -c a", "the option -c"),
        ("npx --registry https://r a", "the option --registry"),
        ("npx github:o/r", "no package of a registry"),
        ("npx o/r", "no package of a registry"),
        ("npx ./server", "no package of a registry"),
        ("npx .", "no package of a registry"),
        ("npx a@git+https://h/r", "no package of a registry"),
        ("npx a@file:../b", "no package of a registry"),
        ("npx a@${V}", "is what variables say: a@${V}"),
        ("npx -p a -p a@1 run", "one package twice"),
        ("npm exec a --flag", "options behind the package"),
        ("npm start", "`npm`"),
        ("bunx --bun a", "the option --bun"),
        ("uvx", "nothing to run"),
        ("uvx --index https://h a", "the option --index"),
        ("uvx --with-requirements r.txt a", "the option --with-requirements"),
        ("uvx --from git+https://h/r a", "no package of an index"),
        ("uvx ./a", "no package of an index"),
        ("uvx a.py", "a script and no package"),
        ("pipx run a.py", "a script and no package"),
        ("uvx --python pypy a", "asks for Python pypy"),
        ("uv run server.py", "a project or a script"),
        ("uv run --with a server.py", "no program of its packages"),
        ("uv run --with a python -m b", "no program of its packages"),
        ("uv --directory /d run a", "`uv`"),
        ("docker run -i", "no image"),
        ("docker compose up", "`docker`"),
        ("docker run o/s:$TAG", "is what variables say"),
        ("python3 -m server", "`python3 -m`"),
        ("python3 -X pycache_prefix=/x server.py", "the option -X pycache_prefix=/x"),
        ("python3 -Xdev server.py", "the option -Xdev"),
        ("node -e 1", "`node -e`"),
        ("node -r ./hook.js server.js", "the option -r"),
        ("node --env-file=.env server.js", "the option --env-file"),
        ("sh -c npx", "`sh`"),
        ("cmd /c server.exe", "`cmd`"),
        ("deno run a.ts", "by `deno`, which runs another program"),
        ("nice npx -y a", "by `nice`, which runs another program"),
        ("/usr/bin/timeout 60 npx -y a", "by `timeout`"),
        ("stdbuf -oL npx a", "by `stdbuf`"),
        ("/x/pypy3 server.py", "by `pypy3`"),
        ("ruby3.2 x", "by `ruby3.2`"),
        ("java -jar x.jar", "by `java`"),
        ("/opt/unknown -- npx -y a", "by `unknown`, which is given npx to run"),
        ("/opt/unknown --runner=/bin/python3.12", "is given /bin/python3.12 to run"),
        ("/opt/unknown server.rb", "is given server.rb to run"),
        ("/opt/unknown https://h.example/a.ts", "is given a.ts to run"),
        ("$HOME/server", "is what variables say"),
    ],
)
def test_what_cannot_be_frozen_says_why(line: str, why: str) -> None:
    with pytest.raises(NotFreezable) as caught:
        request(line)
    assert why in caught.value.why


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PYTHONPATH", "/lib"),
        ("NODE_PATH", "/lib"),
        ("NODE_OPTIONS", "--require ./hook.js"),
        ("NODE_OPTIONS", '"--import" ./hook.js'),
        ("NODE_OPTIONS", "${NODE_OPTIONS} --no-warnings"),
    ],
)
def test_variables_that_load_other_code_are_refused(name: str, value: str) -> None:
    with pytest.raises(NotFreezable, match=name):
        request("npx a", **{name: value})


WORDS = """
npx npm exec bunx pnpm dlx uvx uv tool run pipx docker podman node python3 cmd /c sh -- -y -p
--package --package= --from --with --with=a,b --python --python=3.12 --no-project -e -m
a a@1 @s/a @s @ a@ a@npm:b a@npm: ==1 a[b]>=1,<2 a@@1 ./a a.py $A ${ x:y a/b 1
"""


@given(
    st.lists(st.one_of(st.sampled_from(WORDS.split()), st.text(max_size=4)), min_size=1, max_size=7)
)
def test_every_command_can_be_frozen_or_says_why_not(words: list[str]) -> None:
    command, *args = words
    try:
        found = read_command(command, args, {})
    except NotFreezable:
        return
    if not isinstance(found, ProgramRequest) and found.args:
        # What the server is given is no part of what is asked for.
        assert found.args <= len(args)
        assert read_command(command, [*args[:-1], "other"], {}) == found


def test_other_variables_are_not() -> None:
    found = request("npx a", NODE_OPTIONS="--max_old_space_size=64 --no-warnings", REGION="${R}")
    assert found == npm("a@latest")


@pytest.mark.parametrize("words", [["{}"], ["--run={}"], ["--", "other"], ["folder"]])
def test_a_program_that_is_given_another_to_run_is_not_frozen(
    tmp_path: Path, words: list[str]
) -> None:
    own, other = tmp_path / "own", tmp_path / "other"
    for program in (own, other):
        program.write_bytes(b"\x7fELF")
        program.chmod(0o755)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "__main__.py").write_text("")
    (tmp_path / "data").write_text("")
    env = {"PATH": str(tmp_path)}
    argv = [str(own), *(word.format(other) for word in words)]
    with pytest.raises(NotFreezable, match="is started by `own`, which is given"):
        freeze_program(Launch(argv, env, str(tmp_path), {}))
    assert freeze_program(Launch([str(own), "serve", "data"], env, str(tmp_path), {})).digest
