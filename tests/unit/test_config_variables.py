"""What only a client can fill in becomes a plain reference."""

from __future__ import annotations

from typing import Any

import pytest
from configs import FOLDER, entry, entry_refusal, read, warnings_of

from mcpagg.problems import ConfigError


def test_an_input_becomes_a_variable() -> None:
    config = {"servers": {"a": {"command": "x", "env": {"R": "${input:region}"}}}}
    spec, warnings = read(config)
    assert spec.servers[0].env == {"R": "${REGION}"}
    assert warnings == [
        "servers.a.env.R: ${input:region} is asked for by the editor; here it is the variable"
        " REGION; export it, or pass --define region=VALUE"
    ]


@pytest.mark.parametrize(
    ("asked", "key"), [("secret_region", "R"), ("github_pat", "R"), ("region", "MY_TOKEN")]
)
def test_nobody_is_advised_to_write_a_secret_on_the_command_line(asked: str, key: str) -> None:
    inputs = [{"id": "secret_region", "type": "promptString", "password": True}]
    env = {key: f"${{input:{asked}}}"}
    _, warnings = read({"inputs": inputs, "servers": {"a": {"command": "x", "env": env}}})
    assert len(warnings) == 1
    assert warnings[0].endswith("; export it")


@pytest.mark.parametrize(
    ("holder", "written", "name", "variable"),
    [
        ({"inputs": [{"id": "x", "password": True}]}, "${input:x}", "x", "X"),
        ({"mcp": {"inputs": [{"id": "x", "password": True}]}}, "${input:x}", "input:x", "X"),
        ({}, "${keyring:me/x}", "me/x", "ME_X"),
        ({}, "${cmd:pass show x}", "cmd:pass show x", "PASS_SHOW_X"),
        ({}, "${X}", "X", "X"),
        ({}, "$X", "X", "X"),
        ({}, "${X:-d}", "X", "X"),
        ({}, "{env:X}", "X", "X"),
        ({}, "${user_config.api_key}", "api_key", "API_KEY"),
    ],
)
def test_no_value_is_taken_for_a_secret_or_for_a_variable(
    holder: dict[str, Any], written: str, name: str, variable: str
) -> None:
    config = {**holder, "mcpServers": {"a": {"command": "x", "args": [written]}}}
    with pytest.raises(ConfigError) as caught:
        read(config, defines={name: "sentinel"})
    message = str(caught.value)
    assert f"mcpServers.a.args[0]: --define {name} would write its value into the file" in message
    assert f"export {variable} instead" in message
    assert "sentinel" not in message


def test_a_value_that_nothing_asks_for_is_refused() -> None:
    with pytest.raises(ConfigError, match="nothing asks for --define other; leave it out"):
        read({"mcpServers": {"a": {"command": "x"}}}, defines={"other": "1"})


def test_inputs_neither_share_a_variable_nor_take_one_of_the_system() -> None:
    values = ["${input:a-b}", "${input:a_b}", "${input:path}", "${input:1}", "${input:a-b}"]
    assert entry(command="x", args=values).args == (
        "${A_B}",
        "${A_B_2}",
        "${INPUT_PATH}",
        "${INPUT_1}",
        "${A_B}",
    )


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("${workspaceFolder}/x", "${workspaceFolder}/x"),
        ("${workspaceFolder:one}/x", "${workspaceFolder}/x"),
        ("${CLAUDE_PLUGIN_ROOT}/x", "${workspaceFolder}/x"),
        ("${extensionPath}${/}x", "${workspaceFolder}/x"),
        ("${userHome}${pathSeparator}x", "${HOME}/x"),
        ("{env:X}", "${X}"),
        ("${env:X}", "${env:X}"),
        ("${X}$$${Y:-z}", "${X}$$${Y:-z}"),
        ("Pa$1$", "Pa$1$"),
        ("${X-def}", "${X-def}"),
        ("{workspaceFolder}/x", "{workspaceFolder}/x"),
        ("${cmd: pass show it}", "${PASS_SHOW_IT}"),
        ("${{ secrets.TOKEN }}", "${TOKEN}"),
    ],
)
def test_what_only_a_client_knows_becomes_a_plain_reference(written: str, meant: str) -> None:
    assert entry(command="x", args=[written]).args == (meant,)


@pytest.mark.parametrize("name", ["workspaceFolderBasename", "file", "selectedText"])
def test_a_variable_of_the_editor_alone_is_an_error_that_says_so(name: str) -> None:
    message = entry_refusal(command="x", args=[f"${{{name}}}"])
    assert f"only an editor knows ${{{name}}}; pass --define {name}=VALUE" in message


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("${input:X}", "X"),
        ("${input:X}", "input:X"),
        ("${config:X}", "X"),
        ("${file}", "file"),
        ("${workspaceFolder}", "workspaceFolder"),
    ],
)
def test_defined_values_are_put_in(written: str, name: str) -> None:
    config = {"mcpServers": {"a": {"command": "x", "args": [f"<{written}>"]}}}
    spec, _ = read(config, defines={name: "1"})
    assert spec.servers[0].args == ("<1>",)


@pytest.mark.parametrize(
    "text",
    ["%USERPROFILE%", "{{X}}", "<API_KEY>", "YOUR_API_KEY", "~/d", "${X-def}", "${X", "{name}"],
)
def test_what_only_looks_like_a_reference_stays_with_a_warning(text: str) -> None:
    spec, warnings = read({"mcpServers": {"a": {"command": "x", "env": {"A": text}}}})
    assert spec.servers[0].env == {"A": text}
    assert [warning.split(":")[0] for warning in warnings] == ["mcpServers.a.env.A"]


def test_a_bare_reference_is_pointed_out_because_clients_disagree() -> None:
    [warning] = warnings_of(env={"PACKAGES": "Z*,$TMP,$LOCAL"})
    assert "$TMP, $LOCAL; write ${TMP}, or $$TMP for a dollar" in warning


def test_a_default_that_holds_a_reference_is_an_error() -> None:
    assert "cannot hold another reference" in entry_refusal(command="x", args=["${A:-${B}}"])


def test_the_folder_that_a_clients_variable_means_is_called_what_it_is() -> None:
    config = {"servers": {"a": {"command": "x", "args": ["${workspaceFolder}"]}}}
    assert read(config)[1][0].endswith("here it means the folder of the config")
    [warning] = read(config, folder=FOLDER / ".vscode")[1]
    assert warning.endswith("here it means the folder that holds `.vscode`")


@pytest.mark.parametrize("path", ["C:\temp\new", "c:\\Users\new", ".\tools", "\\srv\new"])
def test_a_path_whose_backslashes_were_taken_for_escapes_is_told(path: str) -> None:
    [warning] = warnings_of(args=[path])
    assert (
        "a path with backslashes taken for escapes; it stays as it is; write `\\\\` or `/`"
        in warning
    )


@pytest.mark.parametrize("text", ["C:\\temp", "a\tb", "a:\n  b", "two\nlines", ". \n"])
def test_other_texts_with_control_characters_are_left_alone(text: str) -> None:
    assert warnings_of(args=[text]) == []


@pytest.mark.parametrize("text", ["%APPDATA%", "%AppData%\\x", "%UserProfile%"])
def test_a_variable_as_windows_writes_it_is_told_with_what_to_write(text: str) -> None:
    [warning] = warnings_of(args=[text])
    assert "`%NAME%`; it stays as it is; write ${NAME}" in warning


def test_a_reference_to_1password_names_the_remedy() -> None:
    [warning] = warnings_of(env={"TOKEN": "op://vault/item/field"})
    assert "looks like a reference to 1Password; it stays as it is; write a reference" in warning
    assert "op run --" in warning


def test_what_is_no_reference_is_warned_of_once() -> None:
    assert len(warnings_of(env={"AUTH": "${TOKEN:bearer:x}"})) == 1


@pytest.mark.parametrize(
    ("config", "path", "written"),
    [
        (
            {"mcp": {"a": {"command": "x", "env": {"MODE": "$(cat mode)"}}}},
            "crush.json",
            {"MODE": "${MODE}"},
        ),
        (
            {"mcp": {"a": {"url": "https://h/m", "headers": {"A": "Bearer $(f $(g) h)"}}}},
            "crush.json",
            {"A": "Bearer ${F_G_H}"},
        ),
        (
            {"mcp": {"a": {"command": ["x"], "environment": {"K": "{file:./k.txt}"}}}},
            "opencode.json",
            {"K": "${K}"},
        ),
        (
            {"mcp": {"a": {"url": "https://h/m", "headers": {"A": "Bearer {file:~/.tok}"}}}},
            "opencode.json",
            {"A": "Bearer ${TOK}"},
        ),
        (
            {"mcpServers": {"a": {"url": "https://h/m", "headers": {"A": "Bearer $env:TOK"}}}},
            "config/mcporter.json",
            {"A": "Bearer ${TOK}"},
        ),
        (
            {"mcpServers": {"a": {"command": "x", "env": {"DAY": "$: date +%F"}}}},
            ".config/mcphub/servers.json",
            {"DAY": "${DAY}"},
        ),
        (
            {"mcpServers": {"a": {"url": "https://h/m", "headers": {"X-U": "{{USER_ID}}"}}}},
            "librechat.yaml",
            {"X-U": "${USER_ID}"},
        ),
    ],
)
def test_what_only_one_client_fills_in_is_a_variable_for_that_client(
    config: dict[str, Any], path: str, written: dict[str, str]
) -> None:
    file = FOLDER / path
    [server] = read(config, file.name, folder=file.parent)[0].servers
    assert (server.env or server.headers) == written


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        ({"args": ["-c", "echo $(date)"]}, ("-c", "echo $(date)")),
        ({"args": ["{file:x}", "$: date", "{{name}}"]}, ("{file:x}", "$: date", "{{name}}")),
        ({"args": ["-Command", "$env:X; run"]}, ("-Command", "$$env:X; run")),
    ],
)
def test_what_another_client_would_fill_in_stays(written: dict[str, Any], kept: Any) -> None:
    assert entry(command="x", **written).args == kept


def test_a_variable_of_powershell_is_one_where_no_script_can_stand() -> None:
    assert entry(command="x", env={"K": "$env:TOK"}).env == {"K": "${TOK}"}


def test_a_variable_of_litellm_is_the_whole_string() -> None:
    env = {"K": "os.environ/TOK", "P": "lib/os.environ/TOK"}
    assert entry(command="x", env=env).env == {"K": "${TOK}", "P": "lib/os.environ/TOK"}


def test_what_the_user_of_a_plugin_is_asked_for_is_a_variable() -> None:
    env = {"K": "${user_config.api_key}"}
    assert entry(command="x", env=env).env == {"K": "${API_KEY}"}
    assert warnings_of(env=env) == [
        "mcpServers.a.env.K: ${user_config.…} is asked for by the client; here it is the variable"
        " API_KEY; export it"
    ]


def test_a_variable_may_be_written_as_javascript_does() -> None:
    env = {"A": "${process.env.TOKEN}", "B": "${process.env.MODE:-x}"}
    assert entry(command="x", env=env).env == {"A": "${TOKEN}", "B": "${MODE:-x}"}


def test_a_default_holds_no_reference_of_the_client() -> None:
    env = {"K": "${K:-$(pass k)}"}
    with pytest.raises(ConfigError, match="a default cannot hold another reference"):
        read({"mcp": {"a": {"command": "x", "env": env}}}, "crush.json")
