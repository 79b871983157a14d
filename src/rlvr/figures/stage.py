"""The command line that every figure's module has: tables in, a PDF and a PNG out."""

import io
from collections.abc import Callable
from pathlib import Path

from matplotlib.figure import Figure
from pydantic_settings import CliPositionalArg

from rlvr.config.values import Count
from rlvr.figures import style
from rlvr.jobs import command_line
from rlvr.jobs.records import replacing
from rlvr.results.studies import Studies, read_studies


def run(draw: Callable[[Studies, int], Figure]) -> None:
    """Read the command line and draw; `draw` gets the studies and the last iteration to show."""

    class FigureStage(command_line.Stage):
        """Draw one figure from its studies' tables."""

        tables: CliPositionalArg[list[Path]]
        """The studies' tables (Parquet)."""
        iterations: Count
        """The last GRPO iteration to show."""
        pdf_out: Path
        """The figure to write (PDF)."""
        png_out: Path
        """The same as a picture (PNG)."""

        def cli_cmd(self) -> None:
            """Draw and write; no dates in the files, so that equal data give equal bytes."""
            style.use()
            figure = draw(read_studies(self.tables), self.iterations)
            pdf, png = io.BytesIO(), io.BytesIO()  # Matplotlib stumbles where a disk is full
            figure.savefig(pdf, format="pdf", metadata={"CreationDate": None})
            figure.savefig(png, format="png")
            with replacing(self.pdf_out) as partial:
                partial.write_bytes(pdf.getvalue())
                with replacing(self.png_out) as other:
                    other.write_bytes(png.getvalue())

    command_line.run(FigureStage)
