"""Readers of networks: network files, folders of Timeloop problems, ONNX models, PyTorch modules.

`load_network` finds the reader of a source. `network_text` reads and writes network files, `problem_folder` reads
folders. `onnx_model` and `torch_program` walk the graph of a framework; `onnx_operators` and `torch_operators` turn its
operators into nodes; `assembly` and `convolutions` build nodes for both. Every reader ends in `graph.build_workload`.
"""
