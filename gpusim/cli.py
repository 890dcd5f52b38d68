"""The ``gpusim`` shell command: a thin table of commands, and what an error looks like outside.

Mental model: data goes to stdout, progress to stderr, and every failure is one line
``error: <what, where, remedy>`` with the exit code of its class (see :mod:`gpusim.errors`). Commands
live in :mod:`gpusim.commands` and are imported when called, so that ``--help`` is instant.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import sys
from collections.abc import Sequence

import click

from gpusim import __version__
from gpusim.errors import GpusimError, ToolchainError, UsageError
from gpusim.io.garbage import ending, starting
from gpusim.io.nearest import hint
from gpusim.io.progress import shown
from gpusim.io.signalled import Terminated, ended_by, listen
from gpusim.io.stdout import AS_ESCAPE, open_closed_streams, patient

#: Command -> (module in gpusim.commands that defines it under this name, one line of help).
COMMANDS = {
    "compare": ("compare", "Simulate what real GPUs have run, beside the measurements, with a verdict."),
    "simulate": ("simulate", "Predict the cycles of a kernel or of captured trace files."),
    "tune": ("tune", "Find the fastest configuration of a kernel on a described GPU."),
    "measure": ("measure", "Measure kernels on the GPU of this machine, by events or Nsight Compute."),
    "regress": ("regress", "Lay a new build, GPU or gpusim beside an old one, and say where they differ."),
    "watch": ("watch", "Find what changed in a history of simulations, when, and to whom it belongs."),
    "bisect": ("bisect", "Find which commit, compiler version or figure of a GPU changed what a case costs."),
    "check-claim": (
        "check_claim",
        "Say whether a claimed time of a kernel is possible, and whether it does all its work.",
    ),
    "alerts": ("alerts", "What got slower in those histories, whose it is, and what became of it."),
    "serve": ("serve", "Serve a dashboard of what the store holds: changes, alerts, histories, coverage."),
    "runs": ("runs", "List, show, export and delete the stored runs."),
    "report": ("report", "Write one HTML page about a result that simulate --save has kept."),
    "capture": ("capture", "Run a kernel's machine code on the CPU and write its trace."),
    "trace": ("trace", "Show what trace files hold: launch, warp instructions, bytes."),
    "run": ("run", "Run an unmodified Numba CUDA program on an emulated GPU."),
    "record": ("record", "Run a program and count what it launches, in a library that is loaded into it."),
    "collect": ("collect", "Add up what recorded processes launch: one daemon a node."),
    "production": (
        "production",
        "What production launches: where its time goes, how days differ, what the suite lacks.",
    ),
    "cover": ("cover", "Which behaviours a set of workloads has exercised, and which it has not."),
    "gpus": ("gpus", "List the described GPUs; show every value with its source."),
    "doctor": ("doctor", "Say what works on this machine, what does not, and what would mend it."),
    "kernels": ("kernels", "List the kernel suite; show an entry and its shape axes."),
    "explore": ("explore", "Let Hypothesis make workloads and look for divergences; keep each as a small case."),
    "replay": ("explore", "Run a finding of explore again, to the digit."),
    "suite": ("suite", "Pick few pinned shapes that keep the coverage of many; show a suite."),
    "workloads": ("workloads", "What real networks launch: kernels of the suite with their shapes."),
    "project": (
        "project",
        "Project library kernels, communication and whole models on described GPUs, with intervals.",
    ),
    "sass": ("sass", "A kernel's machine code with its control fields; survey its instruction forms."),
}
INTERNAL_ERROR = 70
#: As a shell says it: 128 and the signal's number.
INTERRUPTED, TERMINATED = 130, 143
RUN = "run"
#: Characters of an error.
MOST_MESSAGE = 4000
COULD_NOT_RUN = ToolchainError.exit_code
DEBUG_VARIABLE = "GPUSIM_DEBUG"


class LazyGroup(click.Group):
    """A group whose commands are imported when they are called, not when they are listed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"gpusim.commands.{COMMANDS[cmd_name][0]}")
        return getattr(module, cmd_name.replace("-", "_"))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in COMMANDS and not args[0].startswith("-"):
            raise UsageError(f"there is no command {args[0]!r}; {hint(args[0], COMMANDS, 'gpusim --help names them')}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="gpusim")
def gpusim() -> None:
    """Run a CUDA kernel's own machine code on the CPU and predict its cycles on a described GPU.

    \b
    Examples:
      gpusim compare --gpu gh200 --against published
      gpusim simulate saxpy:n=100000 --gpu h200
      gpusim capture stream_triad -o triad.trace && gpusim simulate triad.trace
      gpusim gpus show h200

    \b
    Exit codes: 0 clean; 1 a confirmed divergence; 2 usage or configuration;
    3 could not measure or run; 4 ambiguous under --strict; 5 unsupported opcode
    or GPU; 6 a wrong result; 70 internal error.
    """


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point of the console script: runs a command and exits with its code."""
    open_closed_streams()
    given = sys.argv[1:] if arguments is None else list(arguments)
    if given[:1] != [RUN]:  # its stdout is that of the user's program
        if not sys.stdout.isatty():
            sys.stdout = patient(sys.stdout, "standard output")
        elif isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors=AS_ESCAPE)
    listen(interrupts=given[:1] != [RUN])  # gpusim run: until the program begins
    starting()
    code = run(given)
    if given[:1] != [RUN]:  # the objects of the user's program end as Python ends them
        ending()
    sys.exit(code)


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code; no exception leaves it but SystemExit."""
    try:
        try:
            with shown():
                code = gpusim.main(args=arguments, prog_name="gpusim", standalone_mode=False)
            sys.stdout.flush()
            return code if isinstance(code, int) else 0
        except Exception as error:
            if (signalled := ended_by()) is not None:  # whatever it has led to
                raise signalled from error
            return _explained(error)
    except (KeyboardInterrupt, click.Abort):
        return _fail("interrupted", INTERRUPTED)
    except Terminated:
        return _fail("terminated", TERMINATED)


def _explained(error: Exception) -> int:
    """The exit code of a command that ended with an error, of which a line is told."""
    try:
        raise error
    except click.Abort:
        raise
    except BrokenPipeError:
        # The reader has gone (`gpusim ... | head`). Python would complain once more at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except click.exceptions.Exit as exit_:
        return exit_.exit_code
    except click.exceptions.NoArgsIsHelpError as error:
        print(error.format_message(), file=sys.stderr)
        return UsageError.exit_code
    except click.ClickException as error:
        context = getattr(error, "ctx", None)
        hint = f" (see {context.command_path} --help)" if context else ""
        return _fail(error.format_message() + hint, UsageError.exit_code)
    except GpusimError as error:
        return _fail(str(error), error.exit_code)
    except ImportError as error:
        _reraise_for_debugging()
        ours = (error.name or "").split(".")[0] == "gpusim"
        what = "internal error" if ours else "a Python package that this needs is not installed"
        return _fail(f"{what}: {error.msg}", INTERNAL_ERROR if ours else COULD_NOT_RUN)
    except OSError as error:
        _reraise_for_debugging()
        return _fail(f"{error.filename or 'system'}: {error.strerror or error}", COULD_NOT_RUN)
    except MemoryError:
        return _fail("out of memory", COULD_NOT_RUN)
    except Exception as error:  # the last line of defence: one line, not a traceback
        _reraise_for_debugging()
        what = f"internal error: {type(error).__name__}: {error}"
        return _fail(f"{what} ({DEBUG_VARIABLE}=1 shows the traceback)", INTERNAL_ERROR)


def _fail(message: str, code: int) -> int:
    """Say what is wrong, in one line; of what a file holds instead of a word, the two ends."""
    line = " ".join(message.split())
    if len(line) > MOST_MESSAGE:
        line = f"{line[: MOST_MESSAGE // 2]} ... {line[-MOST_MESSAGE // 2 :]}"
    with contextlib.suppress(OSError):  # a full disk under the log hides the line, not the code
        print(f"error: {line}", file=sys.stderr, flush=True)
    return code


def _reraise_for_debugging() -> None:
    if os.environ.get(DEBUG_VARIABLE):
        raise


if __name__ == "__main__":
    main()
