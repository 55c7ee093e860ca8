"""A search by AccelForge in the Python of its own virtual environment: a design and a workload in, numbers out.

    python -P accelforge_run.py INPUT.yaml OUTPUT.json

Minimises the energy-delay product with AccelForge's fusion-aware mapper on one thread. No module of this repository is
imported, because that environment has none of them. The EDP comes out in pJ x cycles of 1 ns.
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
spec.spec.metrics = accelforge.Metrics.ENERGY_DELAY_PRODUCT
start = time.process_time()
mappings = accelforge.mapper.FFM.map_workload_to_arch(spec, print_progress=False, eval_in_detail=False)
spent = time.process_time() - start
edp = float(mappings.data["Total<SEP>energy_delay_product"].min()) * 1e12 * 1e9    # of J and s
memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
Path(target).write_text(json.dumps({"edp": edp, "cpu_s": spent, "memory_mb": memory}))
