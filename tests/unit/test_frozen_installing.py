"""How frozen servers are installed: what may have a say in it, and what must not come of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcpagg_runtime.frozen import uv_settings
from mcpagg_runtime.frozen.environment import drop_foreign_code, split_node_options
from mcpagg_runtime.frozen.npm import install_modules
from mcpagg_runtime.frozen.programs import Programs
from mcpagg_runtime.frozen.pypi import hash_text, install_environment
from mcpagg_runtime.frozen.records import files_below, refuse_others
from mcpagg_runtime.frozen.table import FrozenError, NpmPackage, NpmTree, PypiPackage, PypiTree
from mcpagg_runtime.frozen.uv_settings import keep_settings_out

HASH = hash_text("ab" * 32)


def written(place: str | Path, text: str = "") -> Path:
    """Write a file, and the folders that it is in."""
    file = Path(place)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


# Variables


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        ("--max-old-space-size=512 --use-system-ca", "--max-old-space-size=512 --use-system-ca"),
        ("--no_warnings --max_old_space_size=512", "--no_warnings --max_old_space_size=512"),
        ("--unhandled-rejections warn", "--unhandled-rejections=warn"),
        ('--disable-warning="a b"', '"--disable-warning=a b"'),
        ('"--tls-cipher-list=a\\"\\\\b"', '"--tls-cipher-list=a\\"\\\\b"'),
        ("--tls-cipher-list=a\\b", "--tls-cipher-list=a\\b"),
        ('--no-warnings "--require" /x', "--no-warnings"),
        ('--re"quire"=/x --no-warnings', "--no-warnings"),
        ('"-r" /x', ""),
        ("-r /x --import=/x --experimental_loader=/x --loader /x", ""),
        ('"\\-\\-require" /x', ""),
        ("--disable-warning --require /x", ""),
        ("--no-warnings=--require", ""),
        ("__no_warnings", ""),
        ("--no-warnings\t--require", ""),
        ('"--no-warnings --require /x', ""),
    ],
)
def test_node_options_that_load_code_are_left_out_however_they_are_written(
    written: str, kept: str
) -> None:
    env = {"NODE_OPTIONS": written, "NODE_PATH": "/x", "HOME": "/home"}
    drop_foreign_code(env)
    assert env == {"NODE_OPTIONS": kept, "HOME": "/home"}
    assert split_node_options(kept)[1] == []
    assert split_node_options(kept)[0] == split_node_options(written)[0]


# Installing


class Recorded(Programs):
    """Programs that install empty packages, and write down what they keep locked."""

    def __init__(self, folder: Path) -> None:
        super().__init__({}, str(folder), "", lambda: None)
        self.held = (3,)
        self.ran: list[tuple[str, tuple[int, ...]]] = []

    def find(self, name: str) -> str | None:
        return name

    def run(self, command: list[str], folder: str) -> tuple[int, str]:
        self.ran.append((" ".join(command[:2]), tuple(self.held)))
        for package in ("built", "plain") if command[1] == "ci" else ():
            written(f"{folder}/node_modules/{package}/package.json")
        return 0, "v20.1.2\nlinux-x64\n" if "uv" not in command[0] else "uv 0.13.9"


def test_what_runs_code_of_packages_holds_no_lock(tmp_path: Path) -> None:
    plain = NpmPackage(["plain"], "1.0.0", "sha512-AA==")
    built = NpmPackage(["built"], "1.0.0", "sha512-AA==", marks=["scripts"])
    programs = Recorded(tmp_path)
    install_modules(programs, NpmTree("a", "1.0.0", "a/index.js", 0, [plain, built]), str(tmp_path))
    assert programs.ran[-2:] == [("npm ci", (3,)), ("npm rebuild", ())]
    for marks, held in (([], (3,)), (["source"], ())):
        packages = [PypiPackage("dep", "1.0", [HASH], marks=marks)]
        programs = Recorded(tmp_path)
        environment = PypiTree("dep", "1.0", "a=a", ">=3.9", 0, packages)
        with pytest.raises(FrozenError, match="left out dep"):
            install_environment(programs, environment, str(tmp_path))
        assert programs.ran[-1] == ("uv pip", held)


# What was installed


def recorded(folder: Path, name: str, *lines: str) -> None:
    """Have a package record its files, PATH,HASH,SIZE each."""
    about = f"{name}-1.0.dist-info/RECORD"
    written(folder / "env/lib/python3.9/site-packages" / about, "\n".join([f"{about},,", *lines]))


def test_two_packages_have_one_file_only_if_its_bytes_are_the_same(tmp_path: Path) -> None:
    packages = [PypiPackage(name, "1.0", [HASH]) for name in ("a", "b.c")]
    wanted = PypiTree("a", "1.0", "a=a", ">=3.9", 0, packages)
    environment = str(tmp_path / "env")
    own = files_below(environment) | {str(tmp_path / "env/pyvenv.cfg")}

    def refuse() -> None:
        refuse_others(wanted, environment, own)

    recorded(tmp_path, "a", "x/__init__.py,sha256=A,1", '"x/a,1.py",sha256=A,1', "x/y.pyc,,")
    with pytest.raises(FrozenError, match="left out b-c"):
        refuse()
    recorded(tmp_path, "b_c", "x/__init__.py,sha256=A,1", "x/b.py,sha256=B,1", "x/y.pyc,,")
    refuse()
    (tmp_path / "env/lib64").symlink_to("lib")
    refuse()
    recorded(tmp_path, "b_c", "x/../x/__init__.py,sha256=B,1")
    with pytest.raises(FrozenError, match=r"a and b-c both have a file lib/.*/x/__init__.py"):
        refuse()
    recorded(tmp_path, "b_c", "../../../pyvenv.cfg,,")
    with pytest.raises(FrozenError, match=r"the environment itself and b-c .* pyvenv.cfg"):
        refuse()
    recorded(tmp_path, "b_c", "x/b.py")
    with pytest.raises(FrozenError, match="b-c has a record that cannot be read"):
        refuse()


# Settings of uv


@pytest.mark.parametrize(
    ("text", "refused"),
    [
        ('[pip]\ntarget = "/x"\n', "target"),
        ('pip.prefix="/x"\n', "prefix"),
        ('pip = {strict = true, "target" = "/x"}\n', "target"),
        ('[pip]\n  no-emit-package = ["a"]\n', "no-emit-package"),
        ('[[index]]\nname = "target"\nurl = "https://h.example/simple"\n', ""),
        ('# target = "/x"\n[pip]\nno-binary = ["prefix"]\nindex-url = "https://h.example"\n', ""),
    ],
)
def test_settings_of_uv_that_say_what_is_installed_where_are_refused(
    text: str, refused: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, named = written(tmp_path / "own/uv/uv.toml", text), written(tmp_path / "named.toml")
    found = {"XDG_CONFIG_HOME": str(own.parents[1])}
    keep_settings_out({**found, "UV_NO_CONFIG": "1"}, str(tmp_path))
    for env in (found, {"UV_CONFIG_FILE": str(own)}):
        if refused:
            with pytest.raises(FrozenError, match=f"{own} says `{refused}`"):
                keep_settings_out(env, str(tmp_path))
        else:
            keep_settings_out(env, str(tmp_path))
    keep_settings_out({**env, "UV_CONFIG_FILE": str(named)}, str(tmp_path))
    assert (tmp_path / "uv.toml").read_text() == ""
    monkeypatch.setattr(uv_settings, "WINDOWS", True)
    keep_settings_out({"APPDATA": str(tmp_path / "none")}, str(tmp_path))
