"""What the machine lacks is said before anything is started."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from mcpagg.passes.environment.environment import check_environment, settle_folders
from mcpagg.problems import EnvironmentFault
from mcpagg.spec import ProxySpec, ServerSpec
from mcpagg_runtime.launch.launch import mentioned

if TYPE_CHECKING:
    from mcpagg_runtime.launch.launch import Row

ENVIRON = {"PATH": "/usr/bin:/bin", "SECRET": "s3cret-value"}


def check(folder: Path, *, environ: dict[str, str] = ENVIRON, **fields: Any) -> ServerSpec:
    server = ServerSpec(name="a", path="mcpServers.a", **{"command": "sh", **fields})
    spec = ProxySpec(source="mcp.json", folder=folder, servers=(server,))
    return check_environment(spec, environ)[0].servers[0]


def fault(folder: Path, **fields: Any) -> str:
    with pytest.raises(EnvironmentFault) as caught:
        check(folder, **fields)
    assert "s3cret-value" not in str(caught.value)
    return str(caught.value).removeprefix("mcp.json: ")


def script(path: Path, text: str = "#!/bin/sh\n", mode: int = 0o755) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="")
    path.chmod(mode)
    return path


def test_what_is_there_is_no_fault(tmp_path: Path) -> None:
    tool = script(tmp_path / "my dir" / "tool")
    assert check(tmp_path, command=str(tool), cwd="my dir").cwd == "my dir"


def test_a_missing_variable_is_named_with_its_place_its_server_and_what_to_do(
    tmp_path: Path,
) -> None:
    assert fault(tmp_path, env={"TOKEN": "${GITHUB_TOKEN}"}) == (
        "mcpServers.a.env.TOKEN: server 'a' needs the variable GITHUB_TOKEN, which is not set;"
        " export GITHUB_TOKEN, write ${GITHUB_TOKEN:-default}, or $$ if a dollar was meant"
    )


def test_every_missing_variable_of_every_server_is_reported() -> None:
    servers = tuple(
        ServerSpec(name=name, path=f"servers.{name}", command="sh", args=(f"${name}", "$SECRET"))
        for name in ("A", "B")
    )
    spec = ProxySpec(source="mcp.json", folder=Path("/"), servers=servers)
    with pytest.raises(EnvironmentFault) as caught:
        check_environment(spec, ENVIRON)
    assert [problem.where for problem in caught.value.problems] == [
        "servers.A.args[0]",
        "servers.B.args[0]",
    ]
    assert caught.value.exit_code == 3


def test_all_that_a_server_lacks_is_reported_at_once(tmp_path: Path) -> None:
    message = fault(
        tmp_path,
        command="no-such-tool",
        args=("${AA} ${BB:-b} ${CC}", "$AA"),
        env={"K": "${DD}:${EE}"},
    )
    assert [line.split(": ")[-2 if "PATH" in line else 1] for line in message.splitlines()] == [
        "server 'a' needs the variable AA, which is not set; export AA, write ${AA:-default}, or $$"
        " if a dollar was meant",
        "mcpServers.a.args[0]",
        "mcpServers.a.args[1]",
        "mcpServers.a.env.K",
        "mcpServers.a.env.K",
        "no-such-tool is not on the PATH",
    ]


def test_a_missing_env_file_hides_no_missing_program_and_blames_no_variable(
    tmp_path: Path,
) -> None:
    message = fault(
        tmp_path, env_file="none.env", command="no-such-tool", args=("${MAY_BE_THERE}",)
    )
    assert "none.env cannot be read" in message
    assert "no-such-tool is not on the PATH" in message
    assert "IN_IT" not in message


@pytest.mark.parametrize(
    "fields", [{"command": "$TOOL"}, {"cwd": "$HERE"}, {"env": {"PATH": "$BINARIES"}}]
)
def test_what_a_missing_variable_makes_unknown_is_not_guessed_at(
    tmp_path: Path, fields: dict[str, Any]
) -> None:
    message = fault(tmp_path, **{"command": "no-such-tool", **fields})
    assert len(message.splitlines()) == 1


def test_a_variable_that_is_empty_is_set(tmp_path: Path) -> None:
    check(tmp_path, environ={"PATH": "/bin", "X": ""}, args=("${X}",))


def test_a_program_that_is_not_on_the_path_is_named_with_what_was_searched(tmp_path: Path) -> None:
    assert fault(tmp_path, command="no-such-tool") == (
        "mcpServers.a.command: no-such-tool is not on the PATH: searched /usr/bin:/bin;"
        " install it, or write its absolute path"
    )


def test_of_a_long_path_the_first_folders_are_shown(tmp_path: Path) -> None:
    folders = [f"/folder{n}" for n in range(30)]
    message = fault(tmp_path, command="no-such-tool", env={"PATH": ":".join(folders)})
    assert f"searched {':'.join(folders[:5])} and 25 more folders; install" in message


def test_the_path_that_is_searched_is_the_childs_own(tmp_path: Path) -> None:
    script(tmp_path / "bin" / "tool")
    path = {"PATH": f"{tmp_path}/bin:${{PATH}}"}
    assert check(tmp_path, command="tool", env=path).command == "tool"
    assert "searched /nowhere" in fault(tmp_path, command="sh", env={"PATH": "/nowhere"})


@pytest.mark.parametrize("folder", ["C:\\work\\srv", "C:/work", "\\\\host\\share"])
def test_a_folder_of_windows_is_told_from_one_that_is_missing(tmp_path: Path, folder: str) -> None:
    message = fault(tmp_path, command="sh", cwd=folder)
    assert f"{folder} is a folder of Windows, and this is another system" in message
    assert "create it" not in message


def test_a_missing_folder_hides_no_missing_program(tmp_path: Path) -> None:
    message = fault(tmp_path, command="no-such-tool", cwd="none")
    assert "the folder" in message
    assert "no-such-tool is not on the PATH" in message
    assert len(fault(tmp_path, command="./x", cwd="none").splitlines()) == 1


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("./none", "{folder}/none does not exist; correct the path"),
        ("./folder", "{folder}/folder is a directory"),
        ("./plain", "{folder}/plain is not executable; run chmod +x"),
        ("./node-tool", "is run by no-such-node, which is not found on the PATH: searched /usr"),
        ("./old-tool", "is run by /no/such/perl, which is not found; install perl"),
        ("./bare-tool", "has a `#!` line without a program; complete it"),
        ("./crlf-tool", "ends in a carriage return"),
        (
            "./plain none",
            "./plain none is a whole command line; `command` is one program: move what follows it",
        ),
        ("./my tools/x", "{folder}/my tools/x does not exist; correct the path"),
        ("C:\\Program Files\\nodejs\\npx.cmd", "is a path or a program of Windows, and this is"),
        ("cmd", "write what starts the server here: what follows `cmd /c`"),
        ("wsl.exe", "is a path or a program of Windows, and this is another system"),
        ("sh -c x", "`command` is one program: move what follows it to `args`"),
        ("npx -y @acme/x", "npx -y @acme/x is a whole command line; `command` is one program"),
        ("C:/x/run.exe", "C:/x/run.exe is a path or a program of Windows, and this is"),
    ],
)
def test_reasons_why_a_program_cannot_start_are_told_apart(
    tmp_path: Path, command: str, says: str
) -> None:
    (tmp_path / "folder").mkdir()
    script(tmp_path / "plain", mode=0o644)
    script(tmp_path / "node-tool", "#!/usr/bin/env -S no-such-node --flag\n")
    script(tmp_path / "old-tool", "#!/no/such/perl -w\n")
    script(tmp_path / "bare-tool", "#! \n")
    script(tmp_path / "crlf-tool", "#!/bin/sh\r\n")
    message = fault(tmp_path, command=command)
    assert says.format(folder=tmp_path) in message
    assert message.startswith("mcpServers.a.command: ")


def test_a_program_on_the_path_without_permission_is_told_apart(tmp_path: Path) -> None:
    script(tmp_path / "tool", mode=0o644)
    message = fault(tmp_path, command="tool", env={"PATH": str(tmp_path)})
    assert f"{tmp_path}/tool is not executable" in message


def test_a_missing_folder_is_not_taken_for_a_missing_program(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert "mcpServers.a.cwd: the folder /no/such does not exist" in fault(tmp_path, cwd="/no/such")
    assert "is not a directory" in fault(tmp_path, cwd="file")


def test_values_of_variables_are_not_shown(tmp_path: Path) -> None:
    assert "/${SECRET}/tool does not exist" in fault(tmp_path, command="/$SECRET/tool")
    assert "the folder /${SECRET} does not" in fault(tmp_path, cwd="/${SECRET}")


def test_a_missing_env_file_is_named(tmp_path: Path) -> None:
    message = fault(tmp_path, env_file="${SECRET}.env")
    what = f"{tmp_path}/${{SECRET}}.env cannot be read: No such file"
    assert message.startswith(f"mcpServers.a.env_file: {what}")
    assert f"{tmp_path}/x.env cannot" in fault(tmp_path, env_file="${workspaceFolder}/x.env")


@pytest.mark.parametrize(
    ("fields", "cwd"),
    [
        ({"args": ("server.py",)}, "."),
        ({"args": ("--config=server.py",)}, "."),
        ({"command": "./tool"}, "."),
        # As Windows reads it, on every system.
        ({"args": (".\\server.py",)}, "."),
        ({"args": (r"--config=.\sub\file",)}, "."),
        ({"args": ("\\server.py", "c:server.py", r"\\host\share")}, None),
        ({"args": ("/bin/sh", "none.py", "", "-")}, None),
        ({"args": ("server.py",), "cwd": "/"}, "/"),
    ],
)
def test_a_server_that_names_a_file_of_the_configs_folder_starts_there(
    tmp_path: Path, fields: dict[str, Any], cwd: str | None
) -> None:
    script(tmp_path / "tool")
    script(tmp_path / "server.py")
    (tmp_path / "sub").mkdir()
    script(tmp_path / "sub/file")
    assert check(tmp_path, **fields).cwd == cwd


@pytest.mark.parametrize("command", ["./run", ".\\run", ".\\run.cmd", "run", "../run"])
def test_a_program_of_windows_is_found_in_the_configs_folder_without_its_suffix(
    tmp_path: Path, command: str
) -> None:
    script(tmp_path / "run.cmd")
    server = ServerSpec(name="a", path="a", command=command)
    spec = ProxySpec(source="mcp.json", folder=tmp_path, servers=(server,))
    [settled] = settle_folders(spec).servers
    assert settled.cwd == ("." if command[:2] in ("./", ".\\") else None)


def test_a_remote_server_needs_its_variables_only(tmp_path: Path) -> None:
    remote = {"transport": "sse", "command": "", "url": "http://h/${X}"}
    assert "mcpServers.a.url: server 'a' needs the variable X" in fault(tmp_path, **remote)
    check(tmp_path, environ={"X": "1"}, **remote)


def test_servers_that_lack_something_can_be_left_out(tmp_path: Path) -> None:
    lacking: dict[str, dict[str, Any]] = {
        "variable": {"args": ("$NOT_SET",)},
        "program": {"command": "no-such-tool"},
        "file": {"env_file": "none.env"},
        "folder": {"cwd": "none"},
    }
    servers = tuple(
        ServerSpec(name=name, path=f"s.{name}", **{"command": "sh", **fields})
        for name, fields in [*lacking.items(), ("good", {})]
    )
    spec = ProxySpec(source="mcp.json", folder=tmp_path, servers=servers)
    ready, warnings = check_environment(spec, ENVIRON, allow_failed=True)
    assert [server.name for server in ready.servers] == ["good"]
    assert [one.name for one in ready.left_out] == [*lacking]
    assert [warning.where.split(".")[1] for warning in warnings] == [*lacking]
    with pytest.raises(EnvironmentFault) as caught:
        check_environment(spec, ENVIRON)
    assert caught.value.advice.startswith("--skip NAME leaves a server out, --allow-failed ")
    none = replace(spec, servers=servers[:1])
    with pytest.raises(EnvironmentFault):
        check_environment(none, ENVIRON, allow_failed=True)


def test_what_many_servers_mention_is_worked_out_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_at: list[object] = []

    def noted(row: Row) -> set[str]:
        looked_at.append(row)
        return mentioned(row)

    monkeypatch.setattr("mcpagg_runtime.launch.launch.mentioned", noted)
    servers = tuple(
        ServerSpec(name=name, path=name, command="sh", env={name: "1"}) for name in "abcdefgh"
    )
    check_environment(ProxySpec(source="mcp.json", folder=tmp_path, servers=servers), ENVIRON)
    assert len(looked_at) == 2 * len(servers)
