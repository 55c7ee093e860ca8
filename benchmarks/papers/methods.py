"""The methods of FADiff's Table 1 and Figure 4 by name, each as a function of a module that runs it on a network."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module

from .course import LayerCourse, NetworkCourse
from .encoded_search import Budget, LayerObjective
from .encoding import Encoding
from .networks import NetworkQuestion, network_question
from .part import Record

LAYER_SEARCHES = {"Bayesian": "bayesian", "genetic": "genetic", "random": "random_search"}
"""Modules whose `search` maps a layer by itself through the encoding."""

DOSA, ONE_TILING = "gradient, DOSA's settings", "genetic, one tiling for all layers"
UNFUSED, FUSED = "ours without fusion", "ours"

TO_THEIR_END = (DOSA, UNFUSED, FUSED)
"""Methods that end by themselves, whatever the effort."""

METHODS = (DOSA, *LAYER_SEARCHES, UNFUSED, FUSED, ONE_TILING)
"""In the order of the tables' columns."""

WARM_UP = 25
"""Evaluations of a search before the first one that is measured: libraries load parts of themselves on first use."""


@dataclass(frozen=True)
class Effort:
    """Budgets of one layer, smaller first; a network has as many times as much as it has distinct layers.

    Attributes:
        cpu_s: Two budgets of processor time in s.
        evaluations: Two budgets of legal mappings evaluated.
    """

    cpu_s: tuple[float, float]
    evaluations: tuple[int, int]

    @property
    def whole(self) -> Budget:
        """When a search ends: after the larger budget of time, once the smaller one of evaluations is reached, too.

        The larger one is left to methods that reach it in that time: 1,000 trials of the Parzen estimator on a layer
        take half a minute, 1,000 mappings of the genetic search 0.3 s.
        """
        return Budget(self.cpu_s[1], self.evaluations[0])

    @property
    def name(self) -> str:
        """The effort in a key."""
        return f"{self.cpu_s[1]:g} s, {self.evaluations[0]} evaluations"


QUICK = Effort((0.1, 0.4), (100, 1000))
FULL = Effort((1.0, 10.0), (1000, 10000))


def run_method(method: str, network: str, design: str, seed: int, effort: Effort) -> Record:
    """Runs a method on a network and returns its course as a record.

    Args:
        method: One of `METHODS`.
        network: Name of a bundled network.
        design: Name of a bundled design.
        seed: Seed of every random number.
        effort: Budgets; methods that end by themselves (ours, DOSA's) run to their end whatever they are.
    """
    return searcher(method, effort)(network_question(network, design), seed).as_record()


def searcher(method: str, effort: Effort) -> Callable[[NetworkQuestion, int], NetworkCourse]:
    """A method as a function of a network and a seed."""
    if method in LAYER_SEARCHES:
        return lambda question, seed: search_layers(LAYER_SEARCHES[method], question, effort.whole, seed)
    if method == ONE_TILING:
        module = import_module(f"{__package__}.one_tiling")
        return lambda question, seed: module.search(question, effort.whole, seed)
    if method == DOSA:
        module = import_module(f"{__package__}.dosa_descent")
        return lambda question, seed: module.search(question, seed)
    module = import_module(f"{__package__}.our_plan")
    return lambda question, seed: module.search(question, method == FUSED, seed)


def search_layers(module: str, question: NetworkQuestion, budget: Budget, seed: int) -> NetworkCourse:
    """Maps every distinct layer of a network by itself with an optimiser of vectors.

    Args:
        module: A value of `LAYER_SEARCHES`.
        question: The network on its design.
        budget: The budget of each layer.
        seed: Seed of every random number.
    """
    search, tasks = import_module(f"{__package__}.{module}").search, question.tasks()
    courses, joined = [LayerCourse(times) for times in question.times], question.joined
    search(LayerObjective(Encoding(tasks[0]), Budget(0.0, WARM_UP), LayerCourse(1)), seed)
    for task, course in zip(tasks, courses, strict=True):
        search(LayerObjective(Encoding(task), budget, course), seed)
    return NetworkCourse(courses, (joined.energy_pj, joined.cycles), len(courses))
