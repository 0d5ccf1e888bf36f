# SPDX-License-Identifier: Apache-2.0
"""The `zenlake` command: thin. Each command lies in a file beside this one that parses, calls and prints.

A command that fails says why in one line, with a hint; `--debug` shows the traceback instead. Exit codes: 0 well,
1 it could not be done, 2 it was not asked properly, 130 it was interrupted before it had begun. Where nobody reads the
output any more (`| head`) a command ends, and well.
"""

import errno
import io
import os
import sys
from typing import Annotated

import typer

from zenlake import __version__
from zenlake.cli.lazy import Unread, group
from zenlake.errors import ConfigError, EndpointError, KeyExprError, ZenlakeError

__all__ = ["app", "main"]

PANELS = {
    "Look": "report decode sql explain",
    "Record": "tap router land lake log replay",
    "Network": "scout info put pub sub echo get queryable liveliness ping hz bw",
    "Set up": "demo doctor bench",
}
FILES = {  # where the file has not the command's name
    "scout": "nodes", "info": "nodes", "put": "publish", "pub": "publish", "sub": "subscribe", "echo": "subscribe",
    "get": "query", "queryable": "query", "hz": "rates", "bw": "rates",
}  # fmt: skip
COMMANDS = {
    name: (f"zenlake.cli.{FILES.get(name, name)}", panel) for panel, names in PANELS.items() for name in names.split()
}
_ELSEWHERE = "choose a folder that you may write to"
HINTS = {
    errno.EACCES: _ELSEWHERE,
    errno.EPERM: _ELSEWHERE,
    errno.EROFS: _ELSEWHERE,
    errno.ENOSPC: "make room, or choose another place",
    errno.EDQUOT: "make room, or choose another place",
    errno.ENOTDIR: "a part of that path is a file",
    errno.EMFILE: "raise the limit: ulimit -n 4096",
}
INTERRUPTED = 130  # what a shell makes of SIGINT

app = typer.Typer(
    name="zenlake",
    help="Every Zenoh message, as a table.",
    epilog="Exit codes: 0 well, 1 it could not be done, 2 it was not asked properly, 130 interrupted before it had begun.",
    cls=group(COMMANDS),
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(asked: bool) -> None:
    if asked:
        from zenlake.wire.memory import COMPILED

        typer.echo(f"zenlake {__version__} (compiled: {'yes' if COMPILED else 'no'})")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and leave.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    pass


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit."""
    from zenlake.cli.lines import complain

    arguments = sys.argv[1:] if arguments is None else arguments
    _protect_output()
    try:
        status = app(args=arguments, prog_name="zenlake", standalone_mode=False)
        sys.stdout.flush()
    except (Unread, BrokenPipeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is still in the buffer goes nowhere
        sys.exit(0)
    except (typer.Abort, KeyboardInterrupt):
        sys.exit(INTERRUPTED)
    except typer.TyperException as error:
        if "--debug" in arguments:
            raise
        told = error.format_message().replace("Value error, ", "").rstrip(".")
        if told:  # else somebody typed nothing, and was shown the help
            context = getattr(error, "ctx", None)
            complain(f"{told} (`{context.command_path if context else 'zenlake'} --help` tells more)")
        sys.exit(error.exit_code)
    except Exception as error:
        # Also what Spark, DuckDB or a mistake of ours says: a traceback helps only who asks for it.
        if "--debug" in arguments:
            raise
        unforeseen = not isinstance(error, ZenlakeError | OSError | ImportError)
        complain(_plain(error) + (" (`zenlake --debug ...` shows where)" if unforeseen else ""))
        sys.exit(2 if isinstance(error, KeyExprError | EndpointError | ConfigError) else 1)
    sys.exit(status if isinstance(status, int) else 0)


def _protect_output() -> None:
    """Make output safe where no command can: characters that the terminal's encoding lacks, and lines of the log."""
    import codecs
    import logging

    from zenlake.cli.lines import escaped, json_escape
    from zenlake.redact import redact

    def replace(error: UnicodeError) -> tuple[str, int]:
        assert isinstance(error, UnicodeEncodeError)
        return "".join(map(json_escape, error.object[error.start : error.end])), error.end

    codecs.register_error("zenlake", replace)  # valid also inside JSON
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="zenlake")

    class SafeFormatter(logging.Formatter):
        def formatMessage(self, record: logging.LogRecord) -> str:
            return escaped(redact(super().formatMessage(record)))

    if logging.lastResort is not None:
        logging.lastResort.setFormatter(SafeFormatter())


def _plain(error: Exception) -> str:
    """An error in words; what the system says of a file comes with the file, and with what to do."""
    if not isinstance(error, ZenlakeError | OSError | ImportError):
        first = next((line for line in str(error).splitlines() if line.strip()), "")
        return f"{type(error).__name__}: {first}"
    if not isinstance(error, OSError) or error.strerror is None:
        return str(error)
    where = f"{error.filename}: " if error.filename is not None else ""
    hint = HINTS.get(error.errno or 0, "")
    return f"{where}{error.strerror[0].lower()}{error.strerror[1:]}{hint and '; '}{hint}"
