# SPDX-License-Identifier: Apache-2.0
"""Keep names and prose in the vocabulary of the field.

`docs/glossary.md` defines the terms. CONTRIBUTING.md has the rules.
"""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.main import get_command

from zenlake.cli import app

ROOT = Path(__file__).parent.parent
SRC = ROOT / "src"
MAX_WORDS = 30

BANNED = re.compile(
    r"\b(whoever|nobody|somebody|everybody|told|tells?|(?-i:is none|are none)|so many|at one go|anew|mend(?:s|ed|ing)?|chapters?"
    r"|for ever|(?<!there )is no (?!longer|more|t)\w+|what (?:waits|lies|came|comes|follows)"
    r"|who (?:asks|reads|sends|listens|writes|takes))\b",
    re.IGNORECASE,
)
TEXTS = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"]
FOLDERS = ["src", "docs", "examples", "tests", "bench", "fuzz", "release", ".github", ".ci"]
SUFFIXES = {".md", ".py", ".pyx", ".pxd", ".pyi", ".sql", ".js", ".html", ".toml", ".txt", ".yml", ".yaml", ".sh", ""}
EXCLUDED_FOLDERS = (
    "src/zenlake/report/vendor", "docs/javascripts",  # third-party code
    "tests/test_vocabulary.py",  # the banned words
)  # fmt: skip
EXCLUDED_LINES = {
    "file.tell()": "the method of Python's files",
    'DEPRECATED_FIX = "mend"': "a deprecated field of `zenlake doctor --json`, which is public",
    "`zenlake doctor --json` | `mend`": "the list of deprecated names",
}

TEST_NAME = re.compile(r"\btest_\w+")  # its words are prose

# Two modules define a class of the same name on purpose: threads and asyncio, or the wire and the API.
MIRRORED_CLASSES = {
    "Declared", "Keyed", "Handler", "LinkEventsListener", "Liveliness", "LivelinessToken", "Matching", "MatchingListener",
    "Publisher", "Querier", "Queryable", "Receiving", "Session", "SessionInfo", "Subscriber", "TransportEventsListener",
    "Hello", "Query", "Reply", "Scout", "TimestampStack", "AdvancedPublisher", "AdvancedSubscriber", "SampleMissListener",
}  # fmt: skip

FOREIGN_NAMES = {"Auto", "Latest", "Timeout"}  # Zenoh: consolidation modes, and the payload of an error

GERUND_NOUNS = {
    "batching", "encoding", "formatting", "forwarding", "framing", "logging", "mapping", "ping", "ring", "routing", "scouting",
    "staging", "string", "timing",
    "derived",  # the folder of the derived tables
}  # fmt: skip
PARTICIPLE = re.compile(
    r"(?:ing|ed)$|^(?:told|said|sent|kept|chosen|known|written|given|held|begun|drawn|shown|seen|made|done|found|lost|left|taken"
    r"|bound|built|heard|gone|spent|met|led)$"
)
FUNCTIONS = {
    "feed": "a verb", "need": "a verb", "shed": "a verb", "embed": "a verb", "ping": "a verb", "bring": "a verb",
    "locked": "the method of Python's locks",
    "_missing_": "the method of Python's enums",
    "changed": "`Config.changed` is public",
    "kept": "`zenlake.spark.kept` is public",
}  # fmt: skip


def sources() -> list[Path]:
    return sorted(SRC.rglob("*.py"))


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def prose() -> Iterator[Path]:
    """Return every file with text for readers, including tests and tools."""
    yield from (ROOT / name for name in TEXTS if (ROOT / name).exists())
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.is_file() and path.suffix in SUFFIXES and not name_of(path).startswith(EXCLUDED_FOLDERS):
                yield path


def test_no_text_uses_a_banned_word() -> None:
    found = [
        f"{name_of(path)}:{number}: [{match[0]}] {line.strip()[:100]}"
        for path in prose()
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1)
        if (match := BANNED.search(TEST_NAME.sub(lambda name: name[0].replace("_", " "), line)))
        and not any(part in line for part in EXCLUDED_LINES)
    ]
    assert found == []


def sentences(text: str) -> list[str]:
    return [part for part in re.split(r"(?<=[.!?:;])\s+", " ".join(text.split())) if part]


def is_long(sentence: str) -> bool:
    return len(sentence.split()) > MAX_WORDS


def commands(command: object, path: str = "zenlake") -> Iterator[tuple[str, object]]:
    yield path, command
    for name, child in getattr(command, "commands", {}).items():
        yield from commands(child, f"{path} {name}")


def test_command_line_help_has_short_sentences() -> None:
    found = []
    for path, command in commands(get_command(app)):
        texts = [getattr(command, "help", None)]
        texts += [getattr(option, "help", None) for option in getattr(command, "params", [])]
        found += [f"{path}: {each}" for text in texts if text for each in sentences(text) if is_long(each)]
    assert found == []


def docstring_heads(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Return the first line of each docstring, with its line number."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text:
                yield getattr(node, "lineno", 1), text.split("\n\n")[0].split("\n", 1)[0]


def error_texts(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Return the literal parts of messages of raised errors, with their line numbers."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            for argument in node.exc.args:
                parts = [each.value for each in ast.walk(argument) if isinstance(each, ast.Constant)]
                yield node.lineno, " ".join(part for part in parts if isinstance(part, str))


@pytest.mark.parametrize("texts", [docstring_heads, error_texts])
def test_docstrings_and_errors_have_short_sentences(texts) -> None:
    found = [
        f"{name_of(path)}:{line}: {sentence}"
        for path in sources()
        for line, text in texts(ast.parse(path.read_text()))
        for sentence in sentences(text)
        if is_long(sentence)
    ]
    assert found == []


def test_no_class_name_is_defined_twice() -> None:
    modules = defaultdict(set)
    for path in sources():
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                modules[node.name].add(name_of(path))
    twice = {name: sorted(paths) for name, paths in modules.items() if len(paths) > 1 and name not in MIRRORED_CLASSES}
    assert twice == {}


def test_design_pages_name_existing_modules_and_classes() -> None:
    known = {part for path in sources() for part in path.relative_to(SRC).with_suffix("").parts}
    for path in sources():
        for node in ast.walk(ast.parse(path.read_text())):
            known |= {
                getattr(node, "name", ""),
                getattr(node, "id", ""),
                getattr(node, "attr", ""),
                getattr(node, "arg", ""),
            }
    unknown = []
    for page in (ROOT / "docs" / "design").glob("*.md"):
        text = page.read_text()
        names = re.findall(r"`((?:\w+\.)*[A-Z][a-z]\w+)", text)  # classes
        if (table := re.search(r"^\| module \|.*?\n\n", text, re.MULTILINE | re.DOTALL)) is not None:
            names += [
                name
                for row in re.findall(r"^\|.*", table[0], re.M)[2:]
                for name in re.findall(r"`(\w+)`", row.split("|")[1])
            ]
        unknown += [f"{page.name}: {name}" for name in names if name.split(".")[-1] not in known | FOREIGN_NAMES]
    assert unknown == []


def test_module_names_are_nouns() -> None:
    parts = {part for path in sources() for part in path.relative_to(SRC).with_suffix("").parts}
    heads = {part.strip("_").split("_")[-1] for part in parts}  # `landed_intervals` are intervals
    assert {word for word in heads if PARTICIPLE.search(word) and word not in GERUND_NOUNS} == set()


def functions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Return functions and methods without properties and predicates, which may be adjectives."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            is_property = any("property" in ast.unparse(each) for each in node.decorator_list)
            is_predicate = isinstance(node.returns, ast.Name) and node.returns.id == "bool"
            if not is_property and not is_predicate:
                yield node


def test_function_names_are_no_participles() -> None:
    found = [
        f"{name_of(path)}:{node.lineno}: {node.name}"
        for path in sources()
        for node in functions(ast.parse(path.read_text()))
        if PARTICIPLE.search(node.name.strip("_").removesuffix("_of"))
        and "_" not in node.name.strip("_").removesuffix("_of")
        and node.name not in FUNCTIONS
        and node.name.strip("_") not in FUNCTIONS
    ]
    assert found == []
