"""One search by AccelForge, run by the Python of its own virtual environment: a design and a workload in, numbers out.

    python accelforge_run.py INPUT.yaml OUTPUT.json

Minimises the energy-delay product with AccelForge's fusion-aware mapper on one thread. No module of this repository is
imported, because that environment has none of them.
"""

import json
import resource
import sys
import time
from pathlib import Path

import accelforge

source, target = sys.argv[1:]
accelforge.set_n_parallel_jobs(1)
spec = accelforge.Spec.from_yaml(source)
spec.mapper.metrics = accelforge.Metrics.ENERGY_DELAY_PRODUCT
start = time.process_time()
mappings = accelforge.mapper.FFM.map_workload_to_arch(spec, print_progress=False, eval_in_detail=False)
spent = time.process_time() - start
data = mappings.data
print([c for c in data.columns if c.startswith("Total")]);energies, latencies = (data[f"Total<SEP>{name}"] for name in ("energy", "latency"))
best = int((energies * latencies).to_numpy().argmin())
memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
Path(target).write_text(json.dumps({
    "energy_pj": float(energies.iloc[best]) * 1e12, "cycles": float(latencies.iloc[best]) * 1e9, "cpu_s": spent,
    "memory_mb": memory, "version": accelforge.__version__ if hasattr(accelforge, "__version__") else ""}))
