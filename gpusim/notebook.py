"""The notebook extension: ``%load_ext gpusim``, then ``%%gpusim`` above a cell that launches kernels.

Mental model: the cell runs as it stands, with its launches on the emulator; what they cost on the described GPU is the
cell's value, which the notebook shows as a table (:class:`~gpusim.engine.result.Result`) and keeps as ``_``.
"""

from __future__ import annotations

from IPython.core.error import UsageError as MagicUsageError
from IPython.core.interactiveshell import InteractiveShell
from IPython.core.magic import Magics, cell_magic, magics_class
from IPython.core.magic_arguments import argument, magic_arguments, parse_argstring

from gpusim.benchmarking import run_and_simulate
from gpusim.engine.result import Result
from gpusim.errors import GpusimError
from gpusim.why.explain import explain


@magics_class
class GpusimMagics(Magics):
    """The magics that gpusim adds."""

    @magic_arguments()
    @argument("--gpu", default="h200", help="GPU that the launches are simulated on (default: h200)")
    @argument("--sample", action="store_true", help="leave out the middle of large launches and extrapolate")
    @argument("--why", action="store_true", help="say what limits them; costs some more simulations")
    @cell_magic
    def gpusim(self, line: str, cell: str) -> Result:
        """Run the cell with its launches on the emulator and show their predicted time.

        Example: ``%%gpusim --gpu a100_80gb`` above a cell that says ``saxpy[391, 256](a, x, y)``.
        """
        options = parse_argstring(self.gpusim, line)
        shell = self.shell
        assert shell is not None
        try:
            benched = run_and_simulate(lambda: shell.ex(shell.transform_cell(cell)), options.gpu, sample=options.sample)
            if options.why:
                print(explain(list(benched.traces), benched.result.spec, benched.result).sentence)
        except GpusimError as error:
            raise MagicUsageError(str(error)) from None  # one line in the notebook, without our frames
        return benched.result


def load(shell: InteractiveShell) -> None:
    """Register the magics with ``shell``."""
    shell.register_magics(GpusimMagics)
