# SPDX-License-Identifier: Apache-2.0
"""The `zenlake` command line.

Each command is a module of this package that parses options, calls the library and prints the result. A failing command
prints one line with a hint. `--debug` shows the traceback instead. Exit codes: 0 success, 1 failure, 2 usage error,
130 ended by Ctrl-C, also after an orderly shutdown. A closed output pipe (`| head`) ends a command with exit code 0.
"""

import errno
import io
import os
import sys
from typing import Annotated

import typer

from zenlake import __version__
from zenlake.cli.lazy_group import OutputClosed, group
from zenlake.cli.uncompiled_notice import print_uncompiled_notice
from zenlake.errors import ConfigError, EndpointError, KeyExprError, ZenlakeError

__all__ = ["app", "main"]

PANELS = {
    "Analyse recordings": "report decode sql explain",
    "Record, land and replay": "tap router land lake log replay",
    "Use a network": "run scout info put pub sub echo get queryable liveliness ping hz bw",
    "Set up": "demo doctor bench",
}
FILES = {  # commands whose module has another name
    "info": "scout", "put": "publish", "pub": "publish", "sub": "subscribe", "echo": "subscribe",
    "get": "get_queryable", "queryable": "get_queryable", "hz": "hz_bw", "bw": "hz_bw",
    "run": "run_program", "demo": "demo.command",
}  # fmt: skip
COMMANDS = {
    name: (f"zenlake.cli.{FILES.get(name, name)}", panel) for panel, names in PANELS.items() for name in names.split()
}
_ELSEWHERE = "choose a writable folder"
HINTS = {
    errno.EACCES: _ELSEWHERE,
    errno.EPERM: _ELSEWHERE,
    errno.EROFS: _ELSEWHERE,
    errno.ENOSPC: "free some disk space, or choose another disk",
    errno.EDQUOT: "free some disk space, or choose another disk",
    errno.ENOTDIR: "a part of that path is a file",
    errno.EISDIR: "expected the name of a file",
    errno.EMFILE: "raise the limit: ulimit -n 4096",
}

app = typer.Typer(
    name="zenlake",
    help="""Every Zenoh message, as a table.

    Recordings are captures (.pcap, .pcapng), wire logs and lakes.
    `tap` and `router --log` write wire logs. `land` turns a wire log into a lake of Delta or Iceberg tables.

    $ zenlake report sample.pcap
    $ zenlake sql "select key, count(*) from publications group by key" sample.pcap
    """,
    epilog="Exit codes: 0 success, 1 failure, 2 usage error, 130 ended by Ctrl-C.",
    cls=group(COMMANDS),
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(asked: bool) -> None:
    if asked:
        from zenlake.wire.raw_memory import COMPILED

        typer.echo(f"zenlake {__version__} (compiled: {'yes' if COMPILED else 'no'})")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show the traceback of an error. Place it before COMMAND.")
    ] = False,
) -> None:
    print_uncompiled_notice()


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit."""
    from zenlake.cli.formatting import INTERRUPTED, complain

    arguments = sys.argv[1:] if arguments is None else arguments
    _protect_output()
    try:
        status = app(args=arguments, prog_name="zenlake", standalone_mode=False)
        network = sys.modules.get("zenlake.cli.network_options")  # only some commands load it
        if network is not None and network.StopRequest.by_ctrl_c:
            status = INTERRUPTED
        sys.stdout.flush()
    except (OutputClosed, BrokenPipeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # discard the remaining buffered output
        sys.exit(0)
    except (typer.Abort, KeyboardInterrupt):
        sys.exit(INTERRUPTED)
    except typer.TyperException as error:
        if "--debug" in arguments:
            raise
        message = (
            error.format_message()
            .replace("Value error, ", "")
            .replace("Input should be", "expected a value")
            .rstrip(".")
        )
        if message:  # empty when the help was shown because there were no arguments
            context = getattr(error, "ctx", None)
            complain(f"{message} (see `{context.command_path if context else 'zenlake'} --help`)")
        sys.exit(error.exit_code)
    except Exception as error:
        # Includes errors of Spark and DuckDB and internal errors. The traceback is shown only with --debug.
        if "--debug" in arguments:
            raise
        unforeseen = not isinstance(error, ZenlakeError | OSError | ImportError)
        complain(_plain(error) + (" (`zenlake --debug ...` shows the traceback)" if unforeseen else ""))
        sys.exit(2 if isinstance(error, KeyExprError | EndpointError | ConfigError) else 1)
    sys.exit(status if isinstance(status, int) else 0)


def _protect_output() -> None:
    """Escape log lines, and characters that the encoding of the terminal lacks, for all commands."""
    import codecs
    import logging

    from zenlake.cli.formatting import escape, json_escape
    from zenlake.core.secret_redaction import redact

    def replace(error: UnicodeError) -> tuple[str, int]:
        assert isinstance(error, UnicodeEncodeError)
        return "".join(map(json_escape, error.object[error.start : error.end])), error.end

    codecs.register_error("zenlake", replace)  # valid also inside JSON
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="zenlake")

    class SafeFormatter(logging.Formatter):
        def formatMessage(self, record: logging.LogRecord) -> str:
            return escape(redact(super().formatMessage(record)))

    if logging.lastResort is not None:
        logging.lastResort.setFormatter(SafeFormatter())


def _plain(error: Exception) -> str:
    """Return the message of an error. Errors of the system include the file name and a hint."""
    if not isinstance(error, ZenlakeError | OSError | ImportError):
        first = next((line for line in str(error).splitlines() if line.strip()), "")
        return f"{type(error).__name__}: {first}"
    if isinstance(error, ModuleNotFoundError) and error.name is not None:  # an installation with `pip --no-deps`
        package = error.name.partition(".")[0]
        return f"this command needs {package}, which is not installed: pip install {package}"
    if not isinstance(error, OSError) or error.strerror is None:
        return str(error)
    where = f"{error.filename}: " if error.filename is not None else ""
    hint = HINTS.get(error.errno or 0, "")
    return f"{where}{error.strerror[0].lower()}{error.strerror[1:]}{hint and '; '}{hint}"
