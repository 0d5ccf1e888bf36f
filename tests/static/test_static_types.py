# SPDX-License-Identifier: Apache-2.0
"""Check the types that users of the package see: with pyright and mypy in strict mode, and with stubtest."""

import importlib
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import zenlake
import zenlake.aio
import zenlake.api._options as options

HERE = Path(__file__).parent
PROGRAMS = ["blocking_program.py", "asyncio_program.py"]
STUBS = sorted(path.stem for path in (HERE.parents[1] / "src/zenlake/api").glob("*.pyi"))


def run(*arguments: str) -> None:
    done = subprocess.run([sys.executable, "-m", *arguments], capture_output=True, text=True, cwd=HERE, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.timeout(330)
def test_pyright_infers_every_type_in_user_programs() -> None:
    run("pyright", "--pythonpath", sys.executable, "-p", ".")


@pytest.mark.timeout(330)
def test_mypy_accepts_programs_of_users() -> None:
    run("mypy", "--config-file", "", "--strict", "--follow-imports", "silent", *PROGRAMS)


@pytest.mark.timeout(330)
def test_stubs_agree_with_the_modules() -> None:
    modules = [f"zenlake.api.{name}" for name in STUBS]
    run("mypy.stubtest", "--allowlist", "stubtest_allowlist.txt", "--ignore-unused-allowlist", *modules)


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        (zenlake.Session.put, options.PutOptions),
        (zenlake.Session.try_put, options.PutOptions),
        (zenlake.Session.delete, options.DeleteOptions),
        (zenlake.Publisher.put, options.PublisherPutOptions),
        (zenlake.Publisher.try_put, options.PublisherPutOptions),
        (zenlake.Publisher.delete, options.PublisherDeleteOptions),
        (zenlake.Session.declare_publisher, options.PublisherOptions),
        (zenlake.Session.declare_querier, options.QuerierOptions),
        (zenlake.Session.get, options.GetOptions),
        (zenlake.Querier.get, options.QuerierGetOptions),
        (zenlake.Session.declare_subscriber, options.SubscriberOptions),
        (zenlake.Session.declare_queryable, options.QueryableOptions),
        (zenlake.Liveliness.get, options.LivelinessGetOptions),
        (zenlake.Query.reply, options.ReplyOptions),
        (zenlake.Query.reply_del, options.ReplyDelOptions),
        (zenlake.ext.AdvancedPublisher.put, options.AdvancedPutOptions),
        (zenlake.ext.AdvancedPublisher.delete, options.AdvancedDeleteOptions),
        (zenlake.ext.declare_advanced_publisher, options.AdvancedPublisherOptions),
        (zenlake.ext.declare_advanced_subscriber, options.AdvancedSubscriberOptions),
    ],
    ids=lambda value: getattr(value, "__qualname__", ""),
)
def test_typed_options_are_the_keywords_of_the_method(method: object, expected: type) -> None:
    keywords = {name for name, each in inspect.signature(method).parameters.items() if each.kind is each.KEYWORD_ONLY}
    assert set(expected.__annotations__) == keywords


@pytest.mark.parametrize(
    "name", ["zenlake", "zenlake.aio", "zenlake.aio.ext", "zenlake.ext", "zenlake.handlers", "zenlake.shm"]
)
def test_dir_lists_exactly_the_public_names(name: str) -> None:
    module = importlib.import_module(name)
    public = {each for each in dir(module) if not each.startswith("_")}
    assert public == set(module.__all__)


def test_help_documents_every_attribute_of_a_sample() -> None:
    text = inspect.getdoc(zenlake.Sample) or ""
    attributes = [name for name in dir(zenlake.Sample) if not name.startswith("_")]
    missing = [
        name for name in attributes if f"{name}:" not in text and not inspect.getdoc(getattr(zenlake.Sample, name))
    ]
    assert attributes
    assert missing == []


@pytest.mark.parametrize("name", ["get", "put", "try_put", "delete", "declare_publisher", "declare_querier"])
def test_errors_about_arguments_name_the_public_method(name: str) -> None:
    with pytest.raises(TypeError) as caught:
        getattr(zenlake.Session, name)(None, unknown=1)
    assert str(caught.value).startswith((f"Session.{name}()", f"{name}()"))


def test_the_sources_override_the_type_checker_rarely() -> None:
    sources = (HERE.parents[1] / "src").rglob("*.py")
    lines = [line for path in sources for line in path.read_text().splitlines() if "# type: ignore" in line]
    assert len(lines) < 20
    assert all("# type: ignore[" in line for line in lines)
