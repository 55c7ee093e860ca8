"""Arguments that several commands share, how they are read, and the exit codes."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, TypeVar

from fadiff_mapper import api
from fadiff_mapper.base.errors import FadiffError
from fadiff_mapper.inputs.energy.source_names import CHOICES
from fadiff_mapper.search.options import MODELS, MOST_THREADS

if TYPE_CHECKING:
    from fadiff_mapper.api import Calibration, Spec

DONE, CHECK_FAILED, BAD_INPUT = 0, 1, 2
"""Exit codes: done; a check failed (constraints contradict each other, or real Timeloop disagrees); the input or the
arguments are wrong, and the error lines say what is accepted. `base.program_start.INTERRUPTED` is that of Ctrl-C."""

T = TypeVar("T")


class Parser(argparse.ArgumentParser):
    """A parser that reports wrong arguments in one line, as all errors are reported."""

    commands: Mapping[str, argparse.ArgumentParser] = {}
    """Name -> the parser of a command, of the program's own parser."""

    def error(self, message: str) -> NoReturn:
        """Prints the error line and ends the program."""
        from fadiff_mapper.inputs.yaml.place import shortened
        self.exit(BAD_INPUT, f"error: {shortened(message)}; see {self.prog} --help\n")


class Named(argparse.Action):
    """Collects NAME=VALUE in a dict; the same name twice is an error, as one of the values would do nothing."""

    def __call__(self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any,
                 option_string: str | None = None) -> None:
        """Adds a name with its value."""
        name, value = values
        known = getattr(namespace, self.dest)
        if name in known:
            raise argparse.ArgumentError(self, f'found "{name}" twice; accepted: each name once')
        setattr(namespace, self.dest, {**known, name: value})


def typed(accepted: str, read: Callable[[str], T | None], text: str) -> T:
    """The value that `read` gives for the text of an argument; refused where that is None, or `read` raises ValueError.

    `accepted`: the accepted texts in words.
    """
    value = None
    with suppress(ValueError):
        value = read(text)
    if value is None:
        raise argparse.ArgumentTypeError(f'found "{text}"; accepted: {accepted}')
    return value


def _whole(text: str, most: int = 1 << 63) -> int | None:
    return int(text) if WHOLE.fullmatch(text) and 1 <= int(text) <= most else None


def _pair(text: str, read: Callable[[str], T]) -> tuple[str, T] | None:
    """NAME=..., with any name."""
    name, _, value = text.rpartition("=")
    return (name, read(value)) if name else None


def _variable(text: str) -> tuple[str, str] | None:
    name, value = text.split("=", 1)
    return (name, value) if name.isidentifier() else None


def _number(text: str) -> tuple[str, int] | None:
    pair = _pair(text, str)
    return (pair[0], int(pair[1])) if pair and WHOLE.fullmatch(pair[1].removeprefix("-")) else None


def _limit(text: str) -> tuple[str, float] | None:
    name, _, value = text.rpartition("=")
    return (name.strip(), float(value)) if name.strip() else None


def _weights(text: str) -> tuple[float, ...] | None:
    values = tuple(map(float, text.split(",")))
    return values if all(0 < value < inf for value in values) else None


def _bits(text: str) -> dict[str, float] | str | None:
    if text == "auto":
        return text
    pairs = [part.split("=") for part in text.split(",")]
    found = {name: float(value) for name, value in pairs}
    return found if len(found) == len(pairs) else None


def _numbers(text: str) -> tuple[int, ...] | None:
    values = tuple(int(part) if part.strip().isdecimal() else 0 for part in text.split(","))
    return values if all(values) else None


def _shard(text: str) -> tuple[int, int] | None:
    own, _, shards = text.partition("/")
    return (int(own), int(shards)) if own.isdigit() and shards.isdigit() and 1 <= int(own) <= int(shards) else None


WHOLE = re.compile("[0-9]{1,18}")
"""A whole number that fits 64 bits."""
decimal = partial(typed, "a number", float)
positive = partial(typed, "a whole number >= 1", _whole)
jobs = partial(typed, f"a whole number from 1 to {MOST_THREADS}", lambda text: _whole(text, MOST_THREADS))
variable = partial(typed, "NAME=VALUE", _variable)
dimension = partial(typed, "NAME=N", lambda text: _pair(text, positive))
shape = partial(typed, "NAME=NxNxN", lambda text: _pair(text, lambda value: tuple(map(positive, value.split("x")))))
number = partial(typed, "NAME=N with a whole number", _number)
limit = partial(typed, "NAME=VALUE with a number", _limit)
weights = partial(typed, "numbers above 0 separated by commas", _weights)
numbers = partial(typed, "whole numbers >= 1 separated by commas", _numbers)
shard = partial(typed, "I/N with I from 1 to N", _shard)
bits = partial(typed, "NAME=N,... with bits from 1 to 256, each name once", _bits)
folder = partial(typed, "the name of a folder", lambda text: text if text and "\0" not in text else None)


class Argument(NamedTuple):
    """An argument of a command."""

    names: str  # its spellings, between blanks
    help: str
    settings: Mapping[str, Any] = {}  # further ones of `ArgumentParser.add_argument`
    group: str = ""  # arguments of one group exclude each other


class Command(NamedTuple):
    """A command of the program."""

    run: Callable[[argparse.Namespace], int | None]  # returns the exit code; None: `DONE`
    help: str
    arguments: tuple[Argument, ...]
    description: str | None = None  # longer than `help`
    defaults: Mapping[str, Any] = {}  # in place of those of shared arguments


FLAG = {"action": "store_true"}
READING = (
    Argument("-D", "a variable of the files' Jinja2 templates",
             {"dest": "variables", "action": Named, "default": {}, "type": variable, "metavar": "NAME=VALUE"}),
    Argument("--energy", "where energies come from that no ERT in the input gives: auto (default; Accelergy where it "
                         "is installed, else bundled tables, else an estimate), accelergy, bundled (else built-in), "
                         "estimate, built-in (Timeloop's values); the last two also fill in what an ERT lacks",
             {"choices": CHOICES, "default": "auto", "metavar": "SOURCE"}, "energy"),
    Argument("--lenient", "warn, instead of refusing, where Timeloop ignores input or puts up with it, such as "
                          "misspelt attributes; the numbers are then Timeloop's", FLAG),
    Argument("--built-in-energies", "the same as --energy built-in",
             {"action": "store_const", "dest": "energy", "const": "built-in"}, "energy"))
"""How Timeloop files are read."""
BITS = Argument("--bits", "bits of an element of each tensor, such as Weights=4,Inputs=8, in place of the input's; of "
                          "a network of PyTorch or ONNX also auto, as its types say; a word of each level by default",
                {"type": bits, "metavar": "NAME=N,..."})
INPUTS = (Argument("files", "", {"nargs": "+", "metavar": "FILES"}), *READING, BITS)
VERIFY = Argument("--verify", "have the real timeloop-model on the PATH compute the same and compare every number",
                  FLAG)
OUTPUT = Argument("-o --output", "folder for the results", {"required": True, "type": folder, "metavar": "DIR"})
SEED = Argument("--seed", "same seed, same answer (default 0)", {"type": int, "default": 0})
JOBS = Argument("--jobs", "threads (default: all cores)", {"type": jobs, "metavar": "N"})
SEARCH = (
    OUTPUT, SEED,
    Argument("--time-limit", "stop with the best so far", {"type": decimal, "metavar": "SECONDS"}),
    JOBS,
    Argument("--quiet", "print errors only", FLAG),
    VERIFY,
    Argument("--calibration", "correct cycles to measured hardware, by a file of the command calibrate; mappings are "
                              "chosen by corrected cycles, and nothing is fused", {"metavar": "MODEL"}),
    Argument("--force", "use the calibration even where it does not beat the exact model", FLAG))
"""Searches of layers, networks and designs."""
MODEL = Argument("--model", "the model that the method gradient descends on: refined (default), or paper for FADiff's "
                            "equations as printed", {"choices": MODELS, "default": MODELS[0]})
FOLDING = Argument("--no-folding", "every transpose, slice, concatenation, repetition and padding is a copy of its "
                                   "own, in place of another order in which the operators around it read and write",
                   FLAG)
NETWORKS = (
    Argument("--dim", "a number for a named dimension of an ONNX model's inputs, such as batch=1",
             {"dest": "dims", "action": Named, "default": {}, "type": dimension, "metavar": "NAME=N"}),
    Argument("--shape", "the whole shape of an ONNX model's input, such as x=1x3x48x320",
             {"dest": "shapes", "action": Named, "default": {}, "type": shape, "metavar": "NAME=NxNxN"}),
    Argument("--value", "the number that an ONNX model's input is, where conditions or shapes hang on it, such as "
                        "rate=16000",
             {"dest": "values", "action": Named, "default": {}, "type": number, "metavar": "NAME=N"}),
    Argument("--busy-experts", "spread the rows of mixtures of experts evenly over N experts; by default over those "
                               "that the file says", {"type": int, "metavar": "N"}),
    FOLDING)
"""How network files are read."""
VARY = Argument("--vary", "a variable of the files' Jinja2 templates is a parameter of the space of designs: 8,16,32 "
                          "or 1024:8192:512 or 8:64:x2 (powers of two)",
                {"action": "append", "default": [], "metavar": "NAME=RANGE"})


def calibration(options: argparse.Namespace) -> Calibration | None:
    """The calibration that --calibration names, if any. Raises FadiffError."""
    if options.calibration is None:
        if options.force:
            raise FadiffError("--force: found without --calibration; accepted: both, or neither")
        return None
    return api.read_calibration(options.calibration, force=options.force)


def sizes(options: argparse.Namespace) -> dict[str, Any]:
    """The arguments of `load_network` that `NETWORKS` and `BITS` give."""
    return {"dims": options.dims, "shapes": options.shapes, "values": options.values,
            "busy_experts": options.busy_experts, "bits": options.bits, "fold": not options.no_folding}


def load_input(options: argparse.Namespace) -> Spec:
    """Reads the input that `INPUTS` describe, as one spec. Raises SpecError."""
    spec = api.load(*api.files_of(options.files), jinja_data=options.variables, energy=options.energy,
                    strict=not options.lenient, bits=options.bits)
    api.refuse_missing_energies(spec, options.energy)
    return spec
