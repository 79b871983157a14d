# What Snakemake's report says of the figures.
import ast

from rlvr.config.runs import decimal
from rlvr.figures.shown import source_of


def about(figure):
    """A figure's title, and what it shows: the first line of its module's docstring, and the rest."""
    docstring = ast.get_docstring(source_of(figure)) or figure
    title, _, shows = docstring.partition("\n\n")
    return " ".join(title.split()).removesuffix("."), " ".join(shows.split())


def runs_behind(figure):
    """Each study of a figure, with the recipes, teachers, betas and seeds that it combines."""
    described = {}
    for name in settings.figure(figure).studies:
        study = settings.study(name)
        lists = study.model_dump() | {"betas": map(decimal, study.betas)}
        described[name] = "; ".join(f"{key} {', '.join(map(str, lists[key]))}" for key in lists)
    return described
