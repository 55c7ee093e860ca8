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


PAPERS = "-m benchmarks.papers -o {WORK}/papers"
RUNS = {
    "commands": Run("benchmarks/speed_gate.py .", 1, "--rounds 1", 0.3, alone=True),
    "layer_quality": Run("benchmarks/layer_quality.py --alone", 0.5, "--every 4", 0.2, alone=True),
    "edp_over_time": Run("benchmarks/layer_quality.py --over-time", 0.5, "--every 4", 0.2, alone=True),
    "layer_ablations": Run("benchmarks/layer_quality.py --ablations", 4, "--every 6 --seeds 1", 1),
    "true_optimum": Run("benchmarks/true_optimum.py --part optimum", 12, "--seeds 1", 4),
    "seeds": Run("benchmarks/true_optimum.py --part spread --first-seed 701 --seeds 3 --known "
                 "benchmarks/best_known_layers.json", 1.5, "--seeds 1", 0.5),
    "throughput": Run("benchmarks/evaluation_throughput.py --legal --batch 64 4096 --threads 1 --repeats 6", 1,
                      "--repeats 1", 0.3, alone=True),
    "throughput_avx512": Run("the same on a processor with AVX-512", 1, output=""),
    "proofs": Run("benchmarks/proofs.py", 25, "--every 7 --seconds 5", 3),
    "certificates": Run("benchmarks/proofs.py --mutations 1000", 1, "--mutations 100", 0.2),
    "network_fusion": Run("benchmarks/network_fusion.py resnet18 vgg16 vgg19 mobilenet_v1 gpt3_6b7_block", 1, "",
                          1),
    "network_chains": Run("benchmarks/network_fusion.py", 2),
    "network_baselines": Run("benchmarks/network_baselines.py", 30),
    "network_scaling": Run("benchmarks/network_scaling.py --threads 1 --same 10 200 1000", 4,
                           "--same 10 --distinct 10 50", 0.4, alone=True),
    "networks_of_others": Run("map_network of networks of benchmarks/made_networks.py", 2, output=""),
    "fusion_headroom": Run("benchmarks/fusion_headroom.py", 15, "mobilenet_v1 --design large", 2),
    "real_networks": Run("benchmarks/real_networks.py", 30),
    "links": Run("benchmarks/links.py", 10, "resnet18 vgg16 mobilenet_v1 gpt3_6b7_block", 0.2),
    "language_model_blocks": Run("benchmarks/network_fusion.py and benchmarks/fusion_headroom.py NAME ...", 5,
                                 output=""),
    "design_methods": Run("benchmarks/design_methods.py --seeds 3 --records {WORK}/design_methods.jsonl", 75,
                          "--network bert --seeds 1 --evaluations 5", 3),
    "design_truth": Run("benchmarks/design_truth.py --method gradient --seeds 5 --records {WORK}/design_truth.jsonl",
                        15),
    "design_fusion": Run("benchmarks/design_fusion.py --evaluations 8 --seeds 0 1 2 --jobs 1", 24,
                         "--network resnet18 --seeds 0 --evaluations 4", 2),
    "design_fusion_limits": Run("benchmarks/design_fusion.py --around gemmini_small --network gpt3_6b7_block "
                                "--every-limit", 10),
    "design_speed": Run("benchmarks/design_speed.py --network bundled:networks/resnet18", 2, "--designs 12", 0.5,
                        alone=True),
    "design_memory": Run("benchmarks/design_memory.py", 2, "--designs 1000", 0.3, alone=True),
    "design_front": Run("benchmarks/design_front.py", 5, "--evaluations 20", 1),
    "designs_on_dask": Run("benchmarks/design_scale.py --backend dask", 12, "--designs 2000", 1.5, alone=True),
    "designs_on_ray": Run("benchmarks/design_scale.py --backend ray", 12, "--designs 2000", 1.5, alone=True),
    "designs_on_many": Run("benchmarks/design_scale.py --many", 0.5, "", 0.5, alone=True),
    "design_timeloop": Run("fadiff-mapper design ... --verify", 10, output=""),
    "imperfect_factors": Run("benchmarks/imperfect_factors.py", 10, "--design eyeriss_like", 2,
                             programs=("timeloop-model",)),
    "sparse": Run("benchmarks/sparse_quality.py --exercises {timeloop-accelergy-exercises}", 10,
                  programs=("timeloop-mapper",)),
    "calibration": Run("benchmarks/calibration.py {gemmini_rtl.csv} --seeds 3", 15, "--seeds 1 --evaluations 0", 4),
    "accelforge_optima": Run("benchmarks/accelforge_optima.py", 0.5, "", 0.5),
    "accelforge_traffic": Run("benchmarks/accelforge_optima.py --traffic", 0.1, "", 0.1),
    "accelforge_products": Run("benchmarks/accelforge_optima.py --products", 0.3, "", 0.3),
    "fusemax": Run("benchmarks/fusemax.py", 2, "", 2),
    "fusemax_plans": Run("benchmarks/fusemax.py --search", 5),
    "papers": Run(f"{PAPERS} table1 figure4 figure3 accelforge --quick", 31, output="--docs"),
    "agatf": Run(f"{PAPERS} agatf --quick", 9, output="--docs"),
    "ablations": Run(f"{PAPERS} ablations --quick", 13, output="--docs"),
    "public_files": Run("benchmarks/public_files.py --exercises {timeloop-accelergy-exercises} --baseline "
                        "{baseline-designs} --dosa {dosa} --cosa {cosa} --frontend {timeloop-python} --seconds 1", 10),
    "public_runs": Run("benchmarks/public_files.py --sparseloop {micro22-sparseloop-artifact} --sparsenaas "
                       "{maestro_timeloop_naas_test} --at-most 100 --cimloop {cimloop} --timeloop --seconds 3", 25,
                       programs=("timeloop-model",)),
    "validation": Run("fadiff-validate --suite full -o report", 60, programs=("timeloop-model",), output=""),
    "corners": Run("fadiff-validate --suite corners --mappings 16880 --seed 100 -o corners", 120,
                   programs=("timeloop-model",), output=""),
    "schedules": Run("benchmarks/true_optimum.py and benchmarks/layer_quality.py with one constant changed", 60,
                     output=""),
}

PAGES = {
    "layers": "How good are mappings of single layers, how long do they take, and how many are evaluated a second?",
    "proofs": "How many mappings are proved to be the best, and how soon?",
    "ablations": "What does each part of the search bring?",
    "schedules": "Why has the annealing the constants that it has?",
    "networks": "What does fusion save, how close is a plan to the best one, and how long does it take?",
    "real_networks": "Which networks of others are read completely, and how many of their links pass tiles?",
    "designs": "Which method finds good designs with few evaluations?",
    "papers": "How do the methods of FADiff and DOSA, Bayesian and genetic search compare on one exact model?",
    "agatf": "Does an agent that learns to fuse save exact evaluations?",
    "calibration": "How well are measured cycles predicted, and what does that change?",
    "links": "Between how many layers of real networks do tiles pass, and what do language models gain?",
    "fusion_limits": "How much could fusion save at most?",
    "accelforge_optima": "How do plans compare with the recorded optima of AccelForge?",
    "fusemax": "Are the published figures of a fused attention those of this model, and are its own plans as good?",
    "scaling": "How do time and memory grow with a network, and what do 100,000 designs take on a cluster?",
    "validation": "Are the numbers those of Timeloop, LoopTree and DeFiNES?",
    "public_files": "Which public designs, layers and tutorials load and run, and with which numbers?",
    "sparse": "How fast and how good is the search of the official sparse designs?",
    "imperfect_factors": "What do factors that do not divide their dimensions save?",
}
