# SPDX-License-Identifier: Apache-2.0
"""`zenlake run`: programs that import `zenoh` run on Zenlake."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import pickle, subprocess, sys
import zenoh, zenoh.ext
from zenoh.handlers import FifoChannel
from zenoh.zenoh import KeyExpr
import zenlake, zenlake.ext

assert zenoh is zenlake and zenoh.zenoh is zenlake
assert zenoh.ext is zenlake.ext and sys.modules["zenoh.ext"] is zenlake.ext
assert zenlake.handlers.__name__ == zenlake.handlers.__spec__.name == "zenlake.handlers"
assert type(pickle.loads(pickle.dumps(KeyExpr("a/b")))) is zenlake.KeyExpr
try:
    import zenoh.no_such_module
except ModuleNotFoundError as error:
    print(error)
print(sys.argv[1:])
if "child" not in sys.argv:
    subprocess.run([sys.executable, __file__, "child"], check=True)
"""


def run_command(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).with_name("zenlake")), "run", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=cwd)


def test_a_program_and_its_child_processes_get_the_alias(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    result = run_command(str(program), "--key", "a/**", "-q")
    missing = "No module named 'zenlake.no_such_module'"
    lines = result.stdout.splitlines()
    assert sorted(lines) == sorted([missing, "['--key', 'a/**', '-q']", missing, "['child']"])
    assert result.stderr.startswith("zenlake ")
    assert result.stderr.endswith(f"provides the module zenoh to {program}\n")


def test_a_module_runs_without_the_line(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text("import zenoh; print(zenoh.KeyExpr('a/*')); raise SystemExit(3)")
    result = run_command("-q", "-m", "program", cwd=tmp_path)
    assert (result.stdout, result.stderr, result.returncode) == ("a/*\n", "", 3)


def test_a_command_of_the_path_runs() -> None:
    (value,) = [line for line in run_command("env").stdout.splitlines() if line.startswith("PYTHONPATH=")]
    assert value.removeprefix("PYTHONPATH=").split(os.pathsep)[0].endswith("zenoh_alias")


@pytest.mark.parametrize("arguments", [["no-such-program"], ["no/such/file.py"]])
def test_a_missing_program_is_one_line(arguments: list[str]) -> None:
    result = run_command(*arguments)
    assert result.stderr == (
        f"zenlake: no program {arguments[0]!r}; expected a Python file, a command on PATH, or -m MODULE\n"
    )
    assert result.returncode == 1
