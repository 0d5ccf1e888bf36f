# SPDX-License-Identifier: Apache-2.0
"""Check that the files of the forge agree with the commands of the project."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import yaml
from release.wheels import MACHINES, VERSIONS

ROOT = Path(__file__).parent.parent


def commands_of(target: str) -> list[str]:
    """Return the recipe lines of a Makefile target, without its prerequisites."""
    rule = re.search(rf"^{target}:[^\n]*\n((?:\t[^\n]*\n)+)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert rule is not None, f"the Makefile has no target {target}"
    return [line.strip() for line in rule[1].splitlines()]


def test_the_workflow_of_the_forge_runs_the_ci_script() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "test.yml").read_text())
    steps = workflow["jobs"]["test"]["steps"]
    assert [step["run"] for step in steps if "run" in step] == ["bash .ci/run"]
    script = (ROOT / ".ci" / "run").read_text().splitlines()
    assert script[-1] == "make test"


def test_the_forge_builds_the_wheels_that_the_project_file_lists() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "wheels.yml").read_text())
    job = workflow["jobs"]["wheels"]
    assert any(step.get("uses", "").startswith("pypa/cibuildwheel@") for step in job["steps"])
    configured = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["cibuildwheel"]
    assert configured["build"].split() == [f"cp{version.replace('.', '')}-*" for version in VERSIONS]
    assert tuple(configured["archs"]) == MACHINES


def test_pre_commit_runs_the_linters_of_make_lint() -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"][0]["hooks"]
    names = [hook["name"] for hook in hooks]
    linters = [line.replace("$(BIN)/", "").replace(" --check", "").removesuffix(" .") for line in commands_of("lint")]
    assert names == linters


def test_issue_templates_are_valid_forms() -> None:
    for path in (ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"):
        form = yaml.safe_load(path.read_text())
        if path.name != "config.yml":
            assert {"name", "description", "body"} <= form.keys(), path.name


def test_a_short_step_shows_its_messages_for_the_user(tmp_path: Path) -> None:
    command = [sys.executable, ROOT / ".ci" / "step.py", "compile", "echo", "zenlake is installed uncompiled"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "zenlake is installed uncompiled\n"
