"""Arguments that several commands share, and how they are read."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias, TypeVar

from fadiff_mapper.base.errors import FadiffError, listed, nearest

if TYPE_CHECKING:
    from fadiff_mapper.network.layers.options import NetworkOptions
    from fadiff_mapper.search.options import SearchOptions
    from fadiff_mapper.spec.spec import Spec

ENERGIES = ("auto", "accelergy", "bundled", "estimate", "built-in")
"""As `CHOICES`, which are not imported here so that `--help` stays instant."""

AnyOptions = TypeVar("AnyOptions", bound="SearchOptions | NetworkOptions")

Commands: TypeAlias = Any
"""What `ArgumentParser.add_subparsers` returns."""


class Parser(argparse.ArgumentParser):
    """Says what is wrong with the arguments in one line, as all errors are said."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"error: {message}; see {self.prog} --help\n")


def inputs() -> argparse.ArgumentParser:
    """The parent parser of every command that reads Timeloop files."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("files", nargs="+", metavar="FILES")
    parser.add_argument("-D", dest="variables", action="append", default=[], type=variable, metavar="NAME=VALUE",
                        help="a variable of the files' Jinja2 templates")
    parser.add_argument("--energy", choices=ENERGIES, default="auto", metavar="SOURCE",
                        help="where energies come from that no ERT in the input gives: auto (default; Accelergy where "
                             "it is installed, else bundled tables, else an estimate), accelergy, bundled (else "
                             "built-in), estimate, built-in (Timeloop's values); the last two also fill in what an "
                             "ERT lacks")
    parser.add_argument("--built-in-energies", action="store_const", dest="energy", const="built-in",
                        help="the same as --energy built-in")
    return parser


def add_verify(parser: argparse.ArgumentParser) -> None:
    """--verify, for commands that end in the numbers of one mapping."""
    parser.add_argument("--verify", action="store_true",
                        help="have the real timeloop-model on the PATH compute the same and compare every number")


def add_options(parser: argparse.ArgumentParser, examples: str) -> None:
    """--option NAME=VALUE, for the options that few users turn."""
    parser.add_argument("--option", action="append", default=[], metavar="NAME=VALUE",
                        help=f"any other option of the search, such as {examples}; may be repeated")


def read_options(texts: Sequence[str], options: AnyOptions) -> AnyOptions:
    """The options with those of `--option NAME=VALUE` in place; each value is read as its field's type.

    Raises FadiffError for an unknown name and for a value of another type.
    """
    known = {name: str(field.type) for name, field in options.__dataclass_fields__.items()}
    for text in texts:
        name, sign, value = text.partition("=")
        if not sign or name not in known:
            raise FadiffError(f"--option {text}: unknown option{nearest(name, list(known))}; accepted: NAME=VALUE with "
                              f"{listed(sorted(known))}")
        options = replace(options, **{name: _option_value(text, value, known[name])})
    return options


def _option_value(text: str, value: str, kind: str) -> Any:
    words = {"yes": True, "true": True, "no": False, "false": False}
    kind = kind.removesuffix(" | None")
    try:
        if kind == "bool":
            return words[value.lower()]
        if kind == "tuple[str, ...]":
            return tuple(value.split(","))
        return {"int": int, "float": float, "str": str}[kind](value)
    except (KeyError, ValueError):
        accepted = {"bool": "yes or no", "int": "a whole number", "float": "a number"}[kind]
        raise FadiffError(f"--option {text}: found {value!r}; accepted: {accepted}") from None


def positive(text: str) -> int:
    """A whole number from 1 on."""
    value = int(text) if text.isdigit() else 0
    if value < 1:
        raise argparse.ArgumentTypeError(f'found "{text}"; accepted: a whole number >= 1')
    return value


def folder(text: str) -> str:
    """The name of a folder, which need not exist."""
    if not text or "\0" in text:
        raise argparse.ArgumentTypeError(f"found {text!r}; accepted: the name of a folder")
    return text


def variable(text: str) -> tuple[str, str]:
    """NAME=VALUE."""
    name, sign, value = text.partition("=")
    if not sign or not name.isidentifier():
        raise argparse.ArgumentTypeError(f'found "{text}"; accepted: NAME=VALUE')
    return name, value


def load_input(options: argparse.Namespace) -> Spec:
    """The input that `inputs` describes, as one spec. Raises SpecError."""
    from fadiff_mapper.inputs.load import load
    from fadiff_mapper.inputs.load_layers import files_of
    return priced(options, load(*files_of(options.files), jinja_data=dict(options.variables), energy=options.energy))


def load_inputs(options: argparse.Namespace) -> dict[str, Spec]:
    """One spec for every problem in the input, by name. Raises SpecError."""
    from fadiff_mapper.inputs.load_layers import files_of, load_layers
    specs = load_layers(files_of(options.files), jinja_data=dict(options.variables), energy=options.energy)
    return {name: priced(options, spec) for name, spec in specs.items()}


def priced(options: argparse.Namespace, spec: Spec) -> Spec:
    """The spec, once its energies are what the options accept. Raises SpecError."""
    from fadiff_mapper.energy.source_names import COMPLETES
    from fadiff_mapper.inputs.load import refuse_missing_energies
    if options.energy not in COMPLETES:
        refuse_missing_energies(spec)
    return spec
