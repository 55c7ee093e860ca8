"""Which run makes which data, how long it takes, and the pages with the questions that they answer."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Run:
    """A run of a script.

    Attributes:
        command: Arguments of Python, below the root of the checkout; `{NAME}` is a folder NAME of `--inputs`, and
            `{WORK}` one for what the script keeps. The file for the tables comes last.
        minutes: Processor time of the whole run on one core of 2026.
        quick: Further arguments of a shorter run, as `--quick` makes it; None: left out.
        quick_minutes: Its processor time.
        programs: Programs that must be on the PATH.
        output: The option that takes the file for the tables; empty: the record is made by hand.
        alone: Whether the run measures time, or takes all cores: no other run goes on beside it.
    """

    command: str
    minutes: float
    quick: str | None = None
    quick_minutes: float = 0
    programs: tuple[str, ...] = ()
    output: str = "-o"
    alone: bool = False


RUNS = {
    "commands": Run("benchmarks/speed_gate.py .", 1, "--rounds 1", 0.3, alone=True),
    "layer_quality": Run("benchmarks/layer_quality.py --alone", 0.5, "--every 4", 0.2, alone=True),
    "edp_over_time": Run("benchmarks/layer_quality.py --over-time", 0.5, "--every 4", 0.2, alone=True),
    "seeds": Run("benchmarks/layer_seeds.py --first-seed 701 --seeds 3 --known benchmarks/best_known_layers.json", 1.5,
                 "--seeds 1", 0.5),
    "throughput": Run("benchmarks/evaluation_throughput.py --legal --batch 64 4096 --threads 1 --repeats 6", 1,
                      "--repeats 1", 0.3, alone=True),
    "proofs": Run("benchmarks/proofs.py", 6, "--every 7 --seconds 5", 1),
    "certificates": Run("benchmarks/proofs.py --mutations 1000", 1, "--mutations 100", 0.2),
    "network_fusion": Run("benchmarks/network_fusion.py", 2, "mobilenet_v1 resnet18 gpt3_6b7_block", 0.5),
    "network_scaling": Run("benchmarks/network_scaling.py --threads 1 --same 10 200 1000", 4,
                           "--same 10 --distinct 10 50", 0.4, alone=True),
    "design_proofs": Run("benchmarks/design_proofs.py", 30, "layers", 1),
    "design_front": Run("benchmarks/design_front.py", 5, "--evaluations 20", 1),
    "design_speed": Run("benchmarks/design_speed.py --network bundled:networks/resnet18", 2, "--designs 12", 0.5,
                        alone=True),
    "design_memory": Run("benchmarks/design_memory.py", 2, "--designs 1000", 0.3, alone=True),
    "designs_on_dask": Run("benchmarks/design_scale.py --backend dask", 12, "--designs 2000", 1.5, alone=True),
    "designs_on_ray": Run("benchmarks/design_scale.py --backend ray", 12, "--designs 2000", 1.5, alone=True),
    "designs_on_many": Run("benchmarks/design_scale.py --many", 0.5, "", 0.5, alone=True),
    "accelforge_optima": Run("benchmarks/accelforge_optima.py", 0.5, "", 0.5),
    "accelforge_traffic": Run("benchmarks/accelforge_optima.py --traffic", 0.1, "", 0.1),
    "accelforge_products": Run("benchmarks/accelforge_optima.py --products", 0.3, "", 0.3),
    "fusemax": Run("benchmarks/fusemax.py", 2, "", 2),
    "fusemax_plans": Run("benchmarks/fusemax.py --search", 5),
}
"""The figures of a version, all made at one commit on one machine."""

PAPERS = "-m benchmarks.papers -o {WORK}/papers"
STUDIES = {
    "ablations": Run(f"{PAPERS} ablations --quick", 13, output="--docs"),
    "schedules": Run("benchmarks/layer_seeds.py and benchmarks/layer_quality.py with one constant changed", 60,
                     output=""),
    "papers": Run(f"{PAPERS} table1 figure4 figure3 accelforge --quick", 31, output="--docs"),
    "network_baselines": Run("benchmarks/network_baselines.py", 30, "mobilenet_v1 --design large", 2),
    "agatf": Run(f"{PAPERS} agatf --quick", 9, output="--docs"),
    "real_networks": Run("benchmarks/real_networks.py", 30),
    "links": Run("benchmarks/links.py", 10, "resnet18 vgg16 mobilenet_v1 gpt3_6b7_block", 0.2),
    "design_methods": Run("benchmarks/design_methods.py --seeds 3 --records {WORK}/design_methods.jsonl", 75,
                          "--network bert --seeds 1 --evaluations 5", 3),
    "design_fusion": Run("benchmarks/design_fusion.py --evaluations 8 --seeds 0 1 2 --jobs 1", 24,
                         "--network resnet18 --seeds 0 --evaluations 4", 2),
    "design_fusion_limits": Run("benchmarks/design_fusion.py --around gemmini_small --network gpt3_6b7_block "
                                "--every-limit", 10),
    "calibration": Run("benchmarks/calibration.py {gemmini_rtl.csv} --seeds 3", 15, "--seeds 1 --evaluations 0", 4),
    "imperfect_factors": Run("benchmarks/imperfect_factors.py", 10, "--design eyeriss_like", 2,
                             programs=("timeloop-model",)),
    "sparse": Run("benchmarks/sparse_quality.py --exercises {timeloop-accelergy-exercises}", 10,
                  programs=("timeloop-mapper",)),
    "validation": Run("fadiff-validate --suite full -o report", 60, programs=("timeloop-model",), output=""),
    "corners": Run("fadiff-validate --suite corners --mappings 16880 --seed 100 -o corners", 120,
                   programs=("timeloop-model",), output=""),
    "design_timeloop": Run("fadiff-mapper design ... --verify", 10, output=""),
    "public_files": Run("benchmarks/public_files.py --exercises {timeloop-accelergy-exercises} --baseline "
                        "{baseline-designs} --dosa {dosa} --cosa {cosa} --frontend {timeloop-python} --seconds 1", 10),
    "public_runs": Run("benchmarks/public_files.py --sparseloop {micro22-sparseloop-artifact} --sparsenaas "
                       "{maestro_timeloop_naas_test} --at-most 100 --cimloop {cimloop} --timeloop --seconds 3", 25,
                       programs=("timeloop-model",)),
}
"""Comparisons of methods, and runs beside programs and files of others: each record keeps its commit."""

PAGES = {
    "layers": "How good are mappings of single layers, how long do they take, and how many are evaluated a second?",
    "proofs": "How many mappings are proved to be the best, and how soon?",
    "networks": "What does fusion save, how close is a plan to the best one, and how long does it take?",
    "designs": "Which design of a space is the best, and what does a proof of it take?",
    "scaling": "How do time and memory grow with a network, and what do 100,000 designs take on a cluster?",
    "accelforge_optima": "How do plans compare with the recorded optima of AccelForge?",
    "fusemax": "Are the published figures of a fused attention those of this model, and are its own plans as good?",
}
"""Pages of `RUNS`, with their questions."""

STUDY_PAGES = {
    "ablations": "What does each part of the search bring?",
    "schedules": "Why has the annealing the constants that it has?",
    "papers": "How do the methods of FADiff and DOSA, Bayesian and genetic search compare on one exact model?",
    "agatf": "Does an agent that learns to fuse save exact evaluations?",
    "design_methods": "Which method finds good designs with few evaluations, and does fusion in the search help?",
    "real_networks": "Which networks of others are read completely, and how many of their links pass tiles?",
    "links": "Between how many layers of real networks do tiles pass?",
    "calibration": "How well are measured cycles predicted, and what does that change?",
    "validation": "Are the numbers those of Timeloop, LoopTree and DeFiNES?",
    "public_files": "Which public designs, layers and tutorials load and run, and with which numbers?",
    "sparse": "How fast and how good is the search of the official sparse designs?",
    "imperfect_factors": "What do factors that do not divide their dimensions save?",
}
"""Pages of `STUDIES`, with their questions."""
