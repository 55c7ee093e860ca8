"""Which run makes which data, how long it takes, and the pages with the questions that they answer."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Run:
    """A run of a script.

    Attributes:
        command: Arguments of Python, below the root of the checkout; `{NAME}` is a folder or file NAME of `--inputs`,
            and `{WORK}` a folder for what the script keeps. The file for the tables comes last.
        minutes: Processor time of the whole run on one core of 2026.
        quick: Further arguments of a shorter run, as `--quick` makes it; None: left out.
        quick_minutes: Its processor time.
        output: The option that takes the file for the tables.
        alone: Whether the run measures time, or takes all cores: no other run goes on beside it.
    """

    command: str
    minutes: float
    quick: str | None = None
    quick_minutes: float = 0
    output: str = "-o"
    alone: bool = False


PAPERS = "-m benchmarks.papers -o {WORK}/papers"
RUNS = {
    "commands": Run("benchmarks/speed_gate.py .", 1, "--rounds 1", 0.3, alone=True),
    "layer_quality": Run("benchmarks/layer_quality.py --alone", 0.5, "--every 4", 0.2, alone=True),
    "edp_over_time": Run("benchmarks/layer_quality.py --over-time", 0.5, "--every 4", 0.2, alone=True),
    "seeds": Run("benchmarks/layer_seeds.py --first-seed 701 --seeds 3 --known benchmarks/best_known_layers.json", 1.5,
                 "--seeds 1", 0.5),
    "throughput": Run("benchmarks/evaluation_throughput.py --legal --batch 64 4096 --threads 1 --repeats 6", 1,
                      "--repeats 1", 0.3, alone=True),
    "sparse": Run("benchmarks/sparse_quality.py --exercises {timeloop-accelergy-exercises}", 0.1, "--seeds 1", 0.1,
                  alone=True),
    "imperfect_factors": Run("benchmarks/imperfect_factors.py", 4, "--every 8", 0.6),
    "proofs": Run("benchmarks/proofs.py", 6, "--every 7 --seconds 5", 1),
    "certificates": Run("benchmarks/proofs.py --mutations 1000", 1, "--mutations 100", 0.2),
    "plan_certificates": Run("benchmarks/plan_certificates.py", 6, "gpt3_6b7_block/gemmini_large", 0.3),
    "changed_plans": Run("benchmarks/plan_certificates.py --mutations 1000", 6, "--mutations 60", 0.5),
    "network_proofs": Run("benchmarks/network_proofs.py", 6, "resnet18 mobilenet_v1 --seconds 10", 0.7),
    "network_fusion": Run("benchmarks/network_fusion.py", 2, "mobilenet_v1 resnet18 gpt3_6b7_block", 0.5),
    "gaps_asked": Run("benchmarks/network_fusion.py resnet18 vgg16 vgg19 mobilenet_v1 gpt3_6b7_block --gap 0.01", 0.5,
                      "", 0.5),
    "long_attention": Run("benchmarks/long_attention.py", 0.5, "--tokens 2048 131072", 0.2),
    "ablations": Run(f"{PAPERS} ablations --quick", 3.5, "--time-limit 20", 0.5, output="--docs"),
    "network_scaling": Run("benchmarks/network_scaling.py --threads 1 --same 10 200 1000", 4,
                           "--same 10 --distinct 10 50", 0.4, alone=True),
    "design_proofs": Run("benchmarks/design_proofs.py --jobs 2", 20, "layers", 6, alone=True),
    "changed_designs": Run("benchmarks/design_proofs.py --mutations 1000", 6, "--mutations 60", 0.5),
    "design_front": Run("benchmarks/design_front.py", 5, "--evaluations 20", 1),
    "design_speed": Run("benchmarks/design_speed.py --network bundled:networks/resnet18", 2, "--designs 12", 0.5,
                        alone=True),
    "design_memory": Run("benchmarks/design_memory.py", 2, "--designs 1000", 0.3, alone=True),
    "design_methods": Run("benchmarks/design_methods.py --network bert resnet50 --seeds 3 --records "
                          "{WORK}/design_methods.jsonl", 9, "--network bert --seeds 1", 1),
    "design_fusion": Run("benchmarks/design_fusion.py --seeds 0 1 2 --jobs 1", 4,
                         "--network resnet18 --seeds 0 --evaluations 4", 0.5),
    "designs_on_dask": Run("benchmarks/design_scale.py --backend dask", 7, "--designs 2000", 1.5,
                           alone=True),
    "designs_on_ray": Run("benchmarks/design_scale.py --backend ray", 5, "--designs 2000", 1.5,
                          alone=True),
    "designs_on_many": Run("benchmarks/design_scale.py --many", 0.5, "", 0.5, alone=True),
    "papers": Run(f"{PAPERS} table1 --quick", 12, output="--docs"),
    "agatf": Run(f"{PAPERS} agatf --quick", 4, output="--docs"),
    "accelforge_optima": Run("benchmarks/accelforge_optima.py", 0.5, "", 0.5),
    "accelforge_traffic": Run("benchmarks/accelforge_optima.py --traffic", 0.1, "", 0.1),
    "accelforge_products": Run("benchmarks/accelforge_optima.py --products", 0.3, "", 0.3),
    "fusemax": Run("benchmarks/fusemax.py", 2, "", 2),
    "fusemax_plans": Run("benchmarks/fusemax.py --search", 3),
    "validation": Run("benchmarks/recorded_answers.py", 0.3, "", 0.3),
    "public_files": Run("benchmarks/public_files.py --exercises {timeloop-accelergy-exercises} --baseline "
                        "{baseline-designs} --dosa {dosa} --cosa {cosa} --frontend {timeloop-python} --sparseloop "
                        "{micro22-sparseloop-artifact} --sparsenaas {maestro_timeloop_naas_test} --at-most 300 "
                        "--seconds 1", 4, "--at-most 10 --seconds 0.1", 1),
    "real_networks": Run("benchmarks/real_networks.py --every 4", 3, "--every 24", 1),
    "calibration": Run("benchmarks/calibration.py {dosa_reference/rtl_cycles.csv} --seeds 5", 2,
                       "--seeds 1 --network bert", 0.2),
}
"""All runs. Together they make the figures of a version, at one commit on one machine."""

PAGES = {
    "layers": "How good are mappings of single layers, how long do they take, and how many are evaluated a second?",
    "proofs": "How many mappings are proved to be the best, and how soon?",
    "sparse": "How fast and how good is the search of the official sparse designs?",
    "imperfect_factors": "What do factors that do not divide their dimensions save?",
    "networks": "What does fusion save, how close is a plan to the best one, and how long does it take?",
    "ablations": "What does each part of the search bring?",
    "designs": "Which design of a space is the best, and what does a proof of it take?",
    "design_methods": "Which method finds good designs with few evaluations, and does fusion in the search help?",
    "scaling": "How do time and memory grow with a network, and what do 100,000 designs take on a cluster?",
    "papers": "How do the methods of FADiff and DOSA, Bayesian and genetic search compare on one exact model?",
    "agatf": "Does an agent that learns to fuse save exact evaluations?",
    "accelforge_optima": "How do plans compare with the recorded optima of AccelForge?",
    "fusemax": "Are the published figures of a fused attention those of this model, and are its own plans as good?",
    "validation": "Are the numbers those of Timeloop, LoopTree and DeFiNES?",
    "public_files": "Which public designs, layers and tutorials load and run?",
    "real_networks": "Which networks of others are read completely, and how many of their links pass tiles?",
    "calibration": "How well are measured cycles predicted, and what does that change?",
}
"""Pages with their questions."""
